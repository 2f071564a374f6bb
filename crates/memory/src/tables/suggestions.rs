//! Tables of memory suggestions and of the bytes that each saves.

use super::{NamedPeak, add_module_column, add_place_columns, int};
use crate::allocator::{AllocatorSettings, is_from_caching_allocator, reserved};
use crate::replay::{Combination, Replay};
use crate::suggest::{Action, Suggestion, describe, grouped, suggestions};
use crate::{ObjectUsage, PatternMatch};
use stackline_model::format::bytes;
use stackline_model::{AccessEvidence, MemoryDeviceId, MemoryObjectId, MemoryStackId, MemoryTrace, Table, Unit};
use std::cmp::Reverse;

/// Suggestion with the bytes that it saves if no other suggestion is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Suggestion.
    pub suggestion: Suggestion,
    /// Bytes by which it lowers the peak of its device; 0 if another moment is as high.
    pub lowers: u64,
    /// The highest peak of its device, in bytes.
    pub(crate) peak: u64,
    /// Bytes saved at each peak; negative if more are used.
    pub savings: Vec<i64>,
}

impl Ranked {
    /// True if a suggestion saves memory at a peak, or reserved memory.
    pub fn helps(&self) -> bool {
        self.savings.iter().any(|saved| *saved > 0) || self.suggestion.action == Action::ExpandableSegments
    }

    /// Sort key of a suggestion, best first. Order: suggestions that help; those that keep numerical results; those
    /// that lower the peak most (by at least a thousandth); those that save most.
    pub(crate) fn order(&self) -> impl Ord + use<> {
        let Suggestion { action, object, .. } = &self.suggestion;
        let last = (!self.helps(), action.changes_numbers());
        let lowers = if self.lowers >= self.peak / 1000 { self.lowers } else { 0 };
        (last, Reverse(lowers), Reverse(self.savings.clone()), action.effort(), *object, action.name())
    }
}

/// Suggestions, grouped by change of the program, with their effects alone. Those that lower the peak of their device
/// most (by at least a thousandth) come first, then those that save most at the first peak, then at the next; those
/// without savings come last.
pub fn ranked_suggestions(usage: &ObjectUsage<'_>, matches: &[PatternMatch], peaks: &[NamedPeak]) -> Vec<Ranked> {
    let found = grouped(usage.trace, suggestions(usage, matches));
    let (mut savings, mut lowers) = (vec![Vec::new(); found.len()], vec![(0, 0); found.len()]);
    // Peaks of a device are adjacent, highest first.
    for of_device in peaks.chunk_by(|a, b| a.device == b.device) {
        let mut replay = Replay::new(usage.trace, of_device[0].device, &found);
        for (at, savings) in savings.iter_mut().enumerate() {
            let first = savings.len();
            savings.extend(of_device.iter().map(|peak| replay.saving_at(at, peak.peak.position.0)));
            if savings[first] > 0 {
                lowers[at] = (replay.lowers(at), of_device[0].peak.bytes);
            }
        }
    }
    let all = found.into_iter().zip(lowers).zip(savings);
    let mut ranked: Vec<Ranked> =
        all.map(|((suggestion, (lowers, peak)), savings)| Ranked { suggestion, lowers, peak, savings }).collect();
    ranked.sort_by_cached_key(Ranked::order);
    ranked
}

/// Indices in `ranked` of the suggestions to list: those that save memory alone or belong to the combination.
pub fn listed(ranked: &[Ranked], combination: Option<&Combination>) -> Vec<usize> {
    let is_chosen = |at: &usize| combination.is_some_and(|combination| combination.chosen.contains(at));
    (0..ranked.len()).filter(|at| ranked[*at].helps() || is_chosen(at)).collect()
}

/// Notes below the table of suggestions: the best combination, the number of unlisted suggestions, and missing tensor
/// types.
pub fn suggestion_notes(trace: &MemoryTrace, ranked: &[Ranked], combination: Option<&Combination>) -> Vec<String> {
    let nothing = ranked.len() - listed(ranked, combination).len();
    let more = match nothing {
        0 => None,
        1 => Some("1 more suggestion is not listed, because it lowers no memory peak.".to_owned()),
        _ => Some(format!("{nothing} more suggestions are not listed, because they lower no memory peak.")),
    };
    combination.and_then(combination_note).into_iter().chain(more).chain(missing_types_note(trace)).collect()
}

/// Note that some suggestions need tensor types, if the source has none; otherwise `None`.
fn missing_types_note(trace: &MemoryTrace) -> Option<String> {
    let has_types = trace.objects.dtype.iter().any(|dtype| !trace.strings.get(*dtype).is_empty());
    let mut evidence = (0..trace.accesses.len()).map(|row| trace.accesses.get(row).evidence);
    let sees_operators = evidence.any(|evidence| evidence == AccessEvidence::OperatorLevel);
    (sees_operators && !has_types).then(|| {
        "The input lacks tensor types, so in-place operators and smaller dtypes are not suggested. Record with \
         --shapes."
            .to_owned()
    })
}

/// Table of the listed suggestions by number, each with the bytes that it saves without the others.
pub fn suggestions_table(trace: &MemoryTrace, ranked: &[Ranked], listed: &[usize], peaks: &[NamedPeak]) -> Table {
    let rows = || listed.iter().map(|at| &ranked[*at]);
    let all = || rows().map(|one| &one.suggestion);
    let table = Table::new("memory_suggestions", "Suggested changes")
        .i64("number", Unit::None, listed.iter().map(|at| int(1 + *at as u64)))
        .text("what", all().map(|suggestion| Some(describe(trace, suggestion))))
        .i64("lowers_peak", Unit::Bytes, rows().map(|one| int(one.lowers)))
        // Other suggestions free memory that the allocator keeps, so reserved memory depends on all of them (--apply).
        .i64(
            "lowers_reserved",
            Unit::Bytes,
            all().map(|one| (one.action == Action::ExpandableSegments).then(|| int(one.bytes))),
        );
    let table = peaks.iter().enumerate().fold(table, |table, (at, peak)| {
        table.i64(&format!("saved_at_{}", peak.name.to_lowercase()), Unit::Bytes, rows().map(|one| one.savings[at]))
    });
    let table = table
        .i64("objects", Unit::None, all().map(|suggestion| int(suggestion.objects() as u64)))
        .i64("bytes", Unit::Bytes, all().map(|suggestion| int(suggestion.total_bytes())))
        .text("code", all().map(|s| s.action.is_against_pattern().then(|| s.pattern.code().to_owned())))
        .text("against", all().map(|s| s.action.is_against_pattern().then(|| s.pattern.name().to_owned())))
        .text("action", all().map(|suggestion| Some(suggestion.action.name().to_owned())))
        .i64("cost", Unit::Ns, all().map(|s| s.total_cost_ns().map(int)))
        .i64("copy_time", Unit::Ns, all().map(|s| (s.copy_ns > 0).then(|| int(s.total_copy_ns()))))
        .text("certainty", all().map(|suggestion| Some(suggestion.weakest().name().to_owned())));
    let objects: Vec<MemoryObjectId> = all().map(|suggestion| suggestion.object).collect();
    let stack = |suggestion: &Suggestion| match suggestion.action {
        // A setting of the whole process has no source location.
        Action::ExpandableSegments => MemoryStackId::NONE,
        _ => trace.objects.stack[suggestion.object.index()],
    };
    let stacks: Vec<MemoryStackId> = all().map(stack).collect();
    add_module_column(add_place_columns(table, trace, &stacks), trace, &objects)
}

/// Apply suggestions, given by number (from 1), and return a table of each device's peak before and after.
///
/// # Errors
/// The first number without a suggestion.
pub fn apply(trace: &MemoryTrace, ranked: &[Ranked], numbers: &[usize]) -> Result<Table, usize> {
    if let Some(wrong) = numbers.iter().find(|number| **number == 0 || **number > ranked.len()) {
        return Err(*wrong);
    }
    let suggestions: Vec<Suggestion> = ranked.iter().map(|one| one.suggestion.clone()).collect();
    let mut rows = Vec::new();
    for curve in crate::curve::curves(trace) {
        let mut replay = Replay::new(trace, curve.device, &suggestions);
        let before = replay.peak();
        let held = is_from_caching_allocator(trace, curve.device)
            .then(|| predicted_reserved_peak(trace, curve.device, &replay, false));
        let applied: Vec<usize> = numbers.iter().copied().filter(|number| replay.apply(number - 1)).collect();
        let grow = applied.iter().any(|number| suggestions[number - 1].action == Action::ExpandableSegments);
        let held = held.map(|held| (held, predicted_reserved_peak(trace, curve.device, &replay, grow)));
        rows.push((curve.device, before, replay.peak(), applied, held));
    }
    let device = |at: usize| trace.devices.get(rows[at].0.index()).map(|device| device.name).unwrap_or_default();
    let list = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let share = |before: u64, after: u64| super::percent(before.saturating_sub(after), before);
    let table = Table::new("memory_applied", "Memory peaks before and after applying the suggestions")
        .text("device", (0..rows.len()).map(|at| Some(trace.strings.get(device(at)).to_owned())))
        .text("applied", rows.iter().map(|row| Some(list(&row.3))))
        .i64("peak_before", Unit::Bytes, rows.iter().map(|row| int(row.1.bytes)))
        .i64("peak_after", Unit::Bytes, rows.iter().map(|row| int(row.2.bytes)))
        .f64("saved", Unit::Percent, rows.iter().map(|row| share(row.1.bytes, row.2.bytes)))
        .i64("reserved_before", Unit::Bytes, rows.iter().map(|row| row.4.map(|(before, _)| int(before))))
        .i64("reserved_after", Unit::Bytes, rows.iter().map(|row| row.4.map(|(_, after)| int(after))))
        .i64("at_call", Unit::None, rows.iter().map(|row| int(row.2.position.index() as u64)));
    let model = "Columns reserved_before and reserved_after: maximum memory that PyTorch's caching allocator would \
                 reserve, predicted by a model of the allocator (docs/explanation/memory-analysis.md).";
    let table = if rows.iter().any(|row| row.4.is_some()) { table.note(model) } else { table };
    Ok(table.note(
        "A suggestion is not applied on a device if it conflicts with an earlier suggestion or concerns another \
         device.",
    ))
}

/// Maximum of the reserved bytes on a device, predicted by the allocator model for the replayed memory. `expandable`
/// adds expandable segments to the trace's settings.
fn predicted_reserved_peak(trace: &MemoryTrace, device: MemoryDeviceId, replay: &Replay<'_>, expandable: bool) -> u64 {
    let settings = AllocatorSettings::from_trace(trace, device);
    let settings = AllocatorSettings { expandable: settings.expandable || expandable, ..settings };
    reserved(trace, settings, replay.blocks()).peak
}

/// Maximum number of listed suggestions of a combination.
const MOST_LISTED: usize = 12;

/// Sentence on the combination of suggestions that lowers a device's peak most (numbers from 1); `None` if none lowers
/// it.
pub fn combination_note(combination: &Combination) -> Option<String> {
    if combination.chosen.is_empty() || combination.after.bytes >= combination.before.bytes {
        return None;
    }
    let mut numbers: Vec<String> = combination.chosen.iter().take(MOST_LISTED).map(|at| (at + 1).to_string()).collect();
    let more = combination.chosen.len().saturating_sub(MOST_LISTED);
    if more > 0 {
        numbers.push(format!("and {more} more"));
    }
    let (before, after) = (combination.before.bytes, combination.after.bytes);
    let saved = super::percent(before - after, before);
    let (before, after, list) = (bytes(before), bytes(after), numbers.join(", "));
    let ms = human_ms(combination.cost_ns);
    Some(match (numbers.len(), combination.cost_ns) {
        (1, 0) => format!("Suggestion {list} alone lowers the peak from {before} to {after} ({saved:.1} % less)."),
        (1, _) => format!(
            "Suggestion {list} alone lowers the peak from {before} to {after} ({saved:.1} % less), at a cost of {ms} ms."
        ),
        (_, 0) => {
            format!("Suggestions {list} together lower the peak from {before} to {after} ({saved:.1} % less).")
        }
        _ => format!(
            "Suggestions {list} together lower the peak from {before} to {after} ({saved:.1} % less), at a cost of {ms} ms."
        ),
    })
}

/// Format nanoseconds as milliseconds with three decimals.
fn human_ms(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}
