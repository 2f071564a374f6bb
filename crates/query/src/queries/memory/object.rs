//! Query of one memory object: allocation, accesses, waste and suggestions.

use super::apply::AtPeak;
use super::{Brief, FrameAnswer, SourceLocation, objects};
use crate::memory::{Memory, Waste, WasteReason};
use crate::prefetch::{Stage, with};
use crate::queries::shortened;
use crate::{Answer, Arguments, OpenRun, QueryError};
use serde::Serialize;
use stackline_memory::curve::device_of;
use stackline_memory::replay::Replay;
use stackline_memory::suggest::{Suggestion, describe};
use stackline_memory::{Measure, PatternMatch};
use stackline_model::{MemoryCallId, MemoryObjectId};
use std::collections::BTreeSet;

/// Maximum number of listed accesses, ranges of waste, and suggestions.
const LISTED: usize = 60;

/// Details of one memory object: allocation, free, accesses, waste and suggestions.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct ObjectDetail<'a> {
    object: u32,
    name: String,
    bytes: u64,
    requested: u64,
    device: String,
    stream: String,
    kind: &'static str,
    module: Option<String>,
    operator: Option<String>,
    dtype: Option<String>,
    shape: Option<String>,
    pool: Option<String>,
    allocated: Option<Brief>,
    freed: Option<Brief>,
    first_use: Option<Brief>,
    last_use: Option<Brief>,
    uses: u32,
    fills: u32,
    evidence: &'static str,
    has_accesses: bool,
    saw_end: bool,
    /// First call, and the one after the last, at which it takes memory.
    life: (u32, u32),
    place: SourceLocation,
    path: Vec<FrameAnswer>,
    patterns: Vec<PatternOf<'a>>,
    waste: Vec<WasteOf>,
    waste_all: usize,
    suggestions: Vec<SuggestionOf<'a>>,
    accesses: Vec<AccessBy>,
    accesses_all: usize,
}

/// Wasted range of an object's lifetime: reason, first call, and the call after the last.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct WasteOf(&'static str, u32, u32);

/// Access of a call to the memory object.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct AccessBy {
    call: Brief,
    mode: &'static str,
    evidence: &'static str,
}

/// Pattern of inefficient memory use that the object matches.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct PatternOf<'a> {
    pattern: &'static str,
    short: &'static str,
    certainty: &'static str,
    kernels: u32,
    distance: Option<u32>,
    times: u32,
    bytes: u64,
    /// Calls between which memory is wasted.
    from: Option<usize>,
    to: Option<usize>,
    other: Option<OtherObject>,
    measure: Option<MeasureOf<'a>>,
}

/// Another memory object that a pattern involves: its number and name.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct OtherObject(usize, String);

/// Measured values of a matched pattern, by kind of pattern.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(untagged)]
enum MeasureOf<'a> {
    Touched { touched: u64, largest_hole: u64, fragmentation: f64 },
    Frequency { variation: f64, histogram: &'a [(u32, u64)] },
    // Without iterations, these are time ranges of the trace, which do not describe an iteration.
    Growth { left_in: u32, rounds: u32, per_round: Option<u64>, round: Option<&'static str> },
    Slices { slices: u32, largest: u64 },
}

impl<'a> MeasureOf<'a> {
    fn new(measure: &'a Measure) -> Self {
        match measure {
            &Measure::Touched { bytes, largest_hole, fragmentation } => {
                Self::Touched { touched: bytes, largest_hole, fragmentation }
            }
            Measure::Frequency { variation, histogram } => {
                Self::Frequency { variation: *variation, histogram: &histogram[..histogram.len().min(LISTED)] }
            }
            &Measure::Growth { left, iterations, per_iteration, origin } => {
                let round = origin.noun();
                Self::Growth { left_in: left, rounds: iterations, per_round: round.map(|_| per_iteration), round }
            }
            &Measure::Slices { count, largest } => Self::Slices { slices: count, largest },
        }
    }
}

/// Suggestion for one memory object, with the number of the suggestion that includes it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct SuggestionOf<'a> {
    number: usize,
    what: String,
    action: &'static str,
    against: Option<&'static str>,
    bytes: u64,
    certainty: &'static str,
    copy_ns: u64,
    cost_ns: Option<u64>,
    peaks: Vec<AtPeak<'a>>,
    /// Objects that the whole suggestion is about.
    shared: usize,
}

/// Answer the query for one memory object.
pub(crate) fn answer(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let memory = super::memory(opened, arguments)?;
    let trace = &memory.trace;
    let number: u32 = arguments.needed("object")?;
    if number as usize >= trace.objects.len() {
        return Err(QueryError::missing(format!(
            "there is no memory object {number}: the trace has {} objects",
            trace.objects.len()
        )));
    }
    let object = MemoryObjectId(number);
    let (objects, row) = (&trace.objects, object.index());
    let call = |call: MemoryCallId| call.some().map(|call| super::brief(memory, call));
    let used = &memory.uses[row];
    let (accesses, accesses_all) = accesses(memory, object);
    let waste = memory.waste_of(object);
    let patterns = memory.matches.iter().filter(|found| found.object == object);
    let of_waste = |waste: &Waste| WasteOf(WasteReason::ALL[waste.why as usize], waste.from, waste.to);
    let text = |id| super::text(trace, id);
    Answer::document(&ObjectDetail {
        object: number,
        name: shortened(&trace.object_name(object)),
        bytes: objects.bytes[row],
        requested: objects.requested[row],
        device: super::device_name(trace, device_of(trace, object)),
        stream: super::stream_name(trace, objects.stream[row]),
        kind: objects.kind[row].name(),
        module: text(objects.module[row]),
        operator: text(objects.operator[row]),
        dtype: text(objects.dtype[row]),
        shape: text(objects.shape[row]),
        pool: text(objects.pool[row]),
        allocated: call(objects.allocated_by[row]),
        freed: call(objects.freed_by[row]),
        first_use: call(used.first_use),
        last_use: call(used.last_use),
        uses: used.uses,
        fills: used.fills,
        evidence: used.evidence.name(),
        has_accesses: trace.has_accesses,
        saw_end: trace.saw_end,
        life: memory.life(object),
        place: super::place(trace, objects.stack[row]),
        path: super::path(trace, objects.stack[row]),
        patterns: patterns.map(|found| pattern(memory, found)).collect(),
        waste: waste.iter().take(LISTED).map(of_waste).collect(),
        waste_all: waste.len(),
        suggestions: suggestions(memory, object),
        accesses,
        accesses_all,
    })
}

/// First accesses to a memory object, in order of calls, and the total number of accesses.
fn accesses(memory: &Memory, object: MemoryObjectId) -> (Vec<AccessBy>, usize) {
    let (mut first, mut all) = (Vec::new(), 0);
    let (from, to) = memory.life(object);
    for call in (from..to).map(MemoryCallId) {
        for access in memory.trace.accesses_of(call).filter(|access| access.object == object) {
            all += 1;
            if first.len() < LISTED {
                let (mode, evidence) = (access.mode.name(), access.evidence.name());
                first.push(AccessBy { call: super::brief(memory, call), mode, evidence });
            }
        }
    }
    (first, all)
}

/// Convert a matched pattern to its JSON form.
fn pattern<'a>(memory: &Memory, found: &'a PatternMatch) -> PatternOf<'a> {
    let name = |object: MemoryObjectId| shortened(&memory.trace.object_name(object));
    let call = |call: MemoryCallId| call.some().map(MemoryCallId::index);
    PatternOf {
        pattern: found.pattern.name(),
        short: found.pattern.short(),
        certainty: found.certainty.name(),
        kernels: found.kernels,
        distance: found.distance,
        times: found.times,
        bytes: found.bytes,
        from: call(found.from),
        to: call(found.to),
        other: found.other.some().map(|other| OtherObject(other.index(), name(other))),
        measure: found.measure.as_ref().map(MeasureOf::new),
    }
}

/// Suggestions for one memory object, each with the number of the suggestion that includes it, and its effect on the
/// peaks.
fn suggestions(memory: &Memory, object: MemoryObjectId) -> Vec<SuggestionOf<'_>> {
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
            at_peak.push(AtPeak::new(peak, after));
        }
        rows.push(SuggestionOf {
            number: *number,
            what: shortened(&describe(&memory.trace, one)),
            action: one.action.name(),
            against: one.action.is_against_pattern().then(|| one.pattern.name()),
            bytes: one.bytes,
            certainty: one.certainty.name(),
            copy_ns: one.copy_ns,
            cost_ns: one.total_cost_ns(),
            peaks: at_peak,
            shared: memory.ranked[number - 1].suggestion.objects(),
        });
    }
    rows
}

/// Objects of a list whose details are at hand.
const OBJECTS: usize = 60;

/// Prefetched arguments of the query for one memory object: those with rows in the list of objects, by part of the
/// page.
pub(crate) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    let (Stage::Objects, Ok(memory)) = (stage, opened.memory(None)) else { return Vec::new() };
    let lists = memory.devices().into_iter().flat_map(|device| objects::first(opened, Stage::MemoryOf(device)));
    let lists = lists.filter_map(|list| crate::run_query(opened, "memory-objects", &list).ok());
    let objects: BTreeSet<String> =
        lists.flat_map(|answer| answer.whole_numbers("object", OBJECTS)).map(|object| object.to_string()).collect();
    objects.iter().map(|object| with(&[("object", object)])).collect()
}
