//! Patterns of waste and what to do against them, as tables.

use super::place::place_text;
use super::{NamedPeak, int};
use crate::replay::{Combination, Replay};
use crate::suggest::{Suggestion, describe, suggestions};
use crate::{Certainty, Facts, PatternMatch};
use stackline_model::{MemoryTrace, Table, Unit};

fn certainty(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Exact => "exact",
        Certainty::Partial => "partial",
        Certainty::Inferred => "inferred",
    }
}

/// Patterns at objects, most bytes first.
pub fn waste_table(trace: &MemoryTrace, matches: &[PatternMatch]) -> Table {
    let mut rows: Vec<&PatternMatch> = matches.iter().collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.bytes), row.pattern, row.object));
    let call = |call: stackline_model::MemoryCallId| call.some().map(|call| int(call.index() as u64));
    let other = |row: &PatternMatch| row.other.some().map(|object| trace.object_name(object));
    Table::new("memory_waste", "Memory held for nothing")
        .text("pattern", rows.iter().map(|row| Some(row.pattern.name().to_owned())))
        .text("object", rows.iter().map(|row| Some(trace.object_name(row.object))))
        .i64("bytes", Unit::Bytes, rows.iter().map(|row| int(row.bytes)))
        .i64("kernels", Unit::None, rows.iter().map(|row| i64::from(row.kernels)))
        .i64("times", Unit::None, rows.iter().map(|row| i64::from(row.times)))
        .i64("from_call", Unit::None, rows.iter().map(|row| call(row.from)))
        .i64("to_call", Unit::None, rows.iter().map(|row| call(row.to)))
        .text("other", rows.iter().map(|row| other(row)))
        .text("certainty", rows.iter().map(|row| Some(certainty(row.certainty).to_owned())))
        .text("place", rows.iter().map(|row| Some(place_text(trace, trace.objects.stack[row.object.index()]))))
}

/// What could be changed, and what each saves at each peak: most at the first peak first, then at the next.
pub fn ranked_suggestions(
    facts: &Facts<'_>,
    matches: &[PatternMatch],
    peaks: &[NamedPeak],
) -> Vec<(Suggestion, Vec<i64>)> {
    let found = suggestions(facts, matches);
    let mut savings = vec![Vec::new(); found.len()];
    for peak in peaks {
        let mut replay = Replay::new(facts.trace, peak.device, &found);
        for (at, savings) in savings.iter_mut().enumerate() {
            savings.push(replay.saving_at(at, peak.peak.position.0));
        }
    }
    let mut ranked: Vec<(Suggestion, Vec<i64>)> = found.into_iter().zip(savings).collect();
    ranked.sort_by_key(|(suggestion, savings)| {
        (std::cmp::Reverse(savings.clone()), suggestion.action.effort(), suggestion.object)
    });
    ranked
}

/// Suggestions by number, with what each saves at each peak alone.
pub fn suggestions_table(trace: &MemoryTrace, ranked: &[(Suggestion, Vec<i64>)], peaks: &[NamedPeak]) -> Table {
    let table = Table::new("memory_suggestions", "What to change")
        .i64("number", Unit::None, (1..=ranked.len()).map(|number| int(number as u64)))
        .text("what", ranked.iter().map(|(suggestion, _)| Some(describe(trace, suggestion))))
        .text("against", ranked.iter().map(|(suggestion, _)| Some(suggestion.pattern.name().to_owned())));
    let table = peaks.iter().enumerate().fold(table, |table, (at, peak)| {
        table.i64(&format!("saved_at_{}", peak.name.to_lowercase()), Unit::Bytes, ranked.iter().map(|(_, s)| s[at]))
    });
    table
        .text("action", ranked.iter().map(|(suggestion, _)| Some(suggestion.action.name().to_owned())))
        .i64("copy_time", Unit::Ns, ranked.iter().map(|(s, _)| (s.copy_ns > 0).then(|| int(s.copy_ns))))
        .text("certainty", ranked.iter().map(|(s, _)| Some(certainty(s.certainty).to_owned())))
}

/// Applies suggestions by their numbers (from 1) and tells each device's peak before and after.
///
/// # Errors
/// The number of a suggestion that is not there.
pub fn apply(trace: &MemoryTrace, ranked: &[(Suggestion, Vec<i64>)], numbers: &[usize]) -> Result<Table, usize> {
    if let Some(wrong) = numbers.iter().find(|number| **number == 0 || **number > ranked.len()) {
        return Err(*wrong);
    }
    let suggestions: Vec<Suggestion> = ranked.iter().map(|(suggestion, _)| suggestion.clone()).collect();
    let mut rows = Vec::new();
    for curve in crate::curve::curves(trace) {
        let mut replay = Replay::new(trace, curve.device, &suggestions);
        let before = replay.peak();
        let applied: Vec<usize> = numbers.iter().copied().filter(|number| replay.apply(number - 1)).collect();
        rows.push((curve.device, before, replay.peak(), applied));
    }
    let device = |at: usize| trace.devices.get(rows[at].0.index()).map(|device| device.name).unwrap_or_default();
    let list = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let share = |before: u64, after: u64| super::percent(before.saturating_sub(after), before);
    let table = Table::new("memory_applied", "With these suggestions")
        .text("device", (0..rows.len()).map(|at| Some(trace.strings.get(device(at)).to_owned())))
        .text("applied", rows.iter().map(|row| Some(list(&row.3))))
        .i64("peak_before", Unit::Bytes, rows.iter().map(|row| int(row.1.bytes)))
        .i64("peak_after", Unit::Bytes, rows.iter().map(|row| int(row.2.bytes)))
        .f64("saved", Unit::Percent, rows.iter().map(|row| share(row.1.bytes, row.2.bytes)))
        .i64("at_call", Unit::None, rows.iter().map(|row| int(row.2.position.index() as u64)));
    Ok(table.note("A suggestion that does not go together with an earlier one, or is of another device, is left out."))
}

/// One sentence on which suggestions together lower a device's peak furthest (numbers from 1); none if none do.
pub fn combination_note(combination: &Combination) -> Option<String> {
    if combination.chosen.is_empty() || combination.after.bytes >= combination.before.bytes {
        return None;
    }
    let numbers: Vec<String> = combination.chosen.iter().map(|at| (at + 1).to_string()).collect();
    let (before, after) = (combination.before.bytes, combination.after.bytes);
    let saved = super::percent(before - after, before);
    Some(format!("Together, {} lower the peak from {before} to {after} bytes ({saved:.1} % less).", numbers.join(", ")))
}
