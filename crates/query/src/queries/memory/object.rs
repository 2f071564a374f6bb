//! All that is known of one object: what made it, who touches it, what of its life is for nothing, what to change.

use crate::memory::{Memory, Why};
use crate::queries::shortened;
use crate::{Answer, Arguments, Opened, QueryError};
use serde_json::{Value, json};
use stackline_memory::curve::device_of;
use stackline_memory::replay::Replay;
use stackline_memory::suggest::{Suggestion, describe};
use stackline_memory::{Measure, PatternMatch};
use stackline_model::{MemoryCallId, MemoryObjectId};

/// Most accesses, stretches of waste and suggestions that are listed.
const LISTED: usize = 60;

pub(crate) fn answer(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let memory = super::memory(opened, arguments)?;
    let trace = &memory.trace;
    let number: u32 = arguments.needed("object")?;
    if number as usize >= trace.objects.len() {
        return Err(QueryError::missing(format!("there is no object {number}; there are {}", trace.objects.len())));
    }
    let object = MemoryObjectId(number);
    let (objects, row) = (&trace.objects, object.index());
    let call = |call: MemoryCallId| call.some().map(|call| super::brief(memory, call));
    let used = &memory.uses[row];
    let (accesses, accesses_all) = accesses(memory, object);
    let waste = memory.waste_of(object);
    let of_waste = |waste: &crate::memory::Waste| json!([Why::ALL[waste.why as usize], waste.from, waste.to]);
    let text = |id| super::text(trace, id);
    Ok(Answer::document(&json!({
        "object": number, "name": shortened(&trace.object_name(object)),
        "bytes": objects.bytes[row], "requested": objects.requested[row],
        "device": super::device_name(trace, device_of(trace, object)),
        "stream": super::stream_name(trace, objects.stream[row]), "kind": objects.kind[row].name(),
        "module": text(objects.module[row]), "operator": text(objects.operator[row]),
        "dtype": text(objects.dtype[row]), "shape": text(objects.shape[row]), "pool": text(objects.pool[row]),
        "allocated": call(objects.allocated_by[row]), "freed": call(objects.freed_by[row]),
        "first_use": call(used.first_use), "last_use": call(used.last_use),
        "uses": used.uses, "fills": used.fills, "evidence": used.evidence.name(),
        "has_accesses": trace.has_accesses, "saw_end": trace.saw_end,
        "life": [memory.life(object).0, memory.life(object).1],
        "place": super::place(trace, objects.stack[row]), "path": super::path(trace, objects.stack[row]),
        "patterns": memory.matches.iter().filter(|found| found.object == object).map(|found| pattern(memory, found)).collect::<Vec<_>>(),
        "waste": waste.iter().take(LISTED).map(of_waste).collect::<Vec<_>>(), "waste_all": waste.len(),
        "suggestions": suggestions(memory, object),
        "accesses": accesses, "accesses_all": accesses_all,
    })))
}

/// The first calls that touch an object, and how many there are.
fn accesses(memory: &Memory, object: MemoryObjectId) -> (Vec<Value>, usize) {
    let (mut first, mut all) = (Vec::new(), 0);
    let (from, to) = memory.life(object);
    for call in (from..to).map(MemoryCallId) {
        for access in memory.trace.accesses_of(call).filter(|access| access.object == object) {
            all += 1;
            if first.len() < LISTED {
                let brief = super::brief(memory, call);
                first.push(json!({"call": brief, "mode": access.mode.name(), "evidence": access.evidence.name()}));
            }
        }
    }
    (first, all)
}

fn pattern(memory: &Memory, found: &PatternMatch) -> Value {
    let other = found.other.some().map(|other| json!([other.index(), shortened(&memory.trace.object_name(other))]));
    let measure = found.measure.as_ref().map(|measure| match measure {
        Measure::Touched { bytes, largest_hole, fragmentation } => {
            json!({"touched": bytes, "largest_hole": largest_hole, "fragmentation": fragmentation})
        }
        Measure::Frequency { variation, histogram } => {
            let histogram: Vec<_> = histogram.iter().take(LISTED).collect();
            json!({"variation": variation, "histogram": histogram})
        }
        Measure::Growth { left, rounds, per_round, origin } => {
            // Without rounds these are parts of the trace, which tell nothing of a round.
            json!({"left_in": left, "rounds": rounds, "per_round": origin.round().map(|_| per_round), "round": origin.round()})
        }
        Measure::Slices { count, largest } => json!({"slices": count, "largest": largest}),
    });
    let call = |call: MemoryCallId| call.some().map(MemoryCallId::index);
    json!({
        "pattern": found.pattern.name(), "short": found.pattern.short(), "certainty": found.certainty.name(),
        "kernels": found.kernels, "distance": found.distance, "times": found.times, "bytes": found.bytes,
        "from": call(found.from), "to": call(found.to), "other": other, "measure": measure,
    })
}

/// What to change about this object alone, with the number of the suggestion that it belongs to.
fn suggestions(memory: &Memory, object: MemoryObjectId) -> Vec<Value> {
    let all = memory.ranked.iter().zip(1_usize..);
    let members = all.flat_map(|(one, number)| one.suggestion.members().map(move |member| (number, member)));
    let alone = |member: &Suggestion| {
        let mut alone = member.clone();
        alone.more.clear();
        alone
    };
    let own = members.filter(|(_, member)| member.object == object).take(LISTED);
    let (numbers, own): (Vec<usize>, Vec<Suggestion>) = own.map(|(number, member)| (number, alone(member))).unzip();
    if own.is_empty() {
        return Vec::new();
    }
    // On other devices nothing changes.
    let device = device_of(&memory.trace, object);
    let mut replay = Replay::new(&memory.trace, device, &own);
    let peaks: Vec<_> = memory.peaks.iter().filter(|peak| peak.device == device).collect();
    let mut rows = Vec::with_capacity(own.len());
    for (at, (number, one)) in numbers.iter().zip(&own).enumerate() {
        let mut at_peak = Vec::with_capacity(peaks.len());
        for peak in &peaks {
            let before = i64::try_from(peak.peak.bytes).unwrap_or(i64::MAX);
            let after = before.saturating_sub(replay.saving_at(at, peak.peak.position.0));
            at_peak.push(json!({"name": peak.name, "device": device.0, "before": before, "after": after}));
        }
        rows.push(json!({
            "number": number, "what": shortened(&describe(&memory.trace, one)), "action": one.action.name(),
            "against": one.action.is_against_pattern().then(|| one.pattern.name()), "bytes": one.bytes, "certainty": one.certainty.name(),
            "copy_ns": one.copy_ns, "cost_ns": one.total_cost_ns(), "peaks": at_peak, "shared": memory.ranked[number - 1].suggestion.objects(),
        }));
    }
    rows
}
