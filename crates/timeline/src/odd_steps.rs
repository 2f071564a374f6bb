//! Steps whose lengths are not those of complete, successive steps: unfinished and overlapping ones.

use stackline_model::format::{count, duration};
use stackline_model::{Key, LaunchedWork, Step, Trace, flags};
use std::collections::BTreeMap;

/// Least share of the time of all steps, in percent, for which overlaps are noted. Times are rounded.
const MIN_OVERLAP_PERCENT: i64 = 1;

/// True if the mark of a step has no recorded end, so that its length is unknown. A mark that was cut at the end of its
/// caller has ended.
#[must_use]
pub fn is_unfinished(trace: &Trace, step: &Step) -> bool {
    // Traces that keep only steps have no events.
    let of_event = trace.events.flags.get(step.event.index()).copied().unwrap_or(0);
    of_event & (flags::UNFINISHED | flags::CLAMPED) == flags::UNFINISHED
}

/// Note on excluded steps without a recorded end; `None` if there are none.
pub(crate) fn unfinished_note(numbers: &[i64]) -> Option<String> {
    let (first, last) = (numbers.iter().min()?, numbers.iter().max()?);
    Some(match first == last {
        true => format!("step {first} has no recorded end and is excluded; use --steps to include it"),
        false => format!("steps {first} to {last} have no recorded end and are excluded; use --steps to include them"),
    })
}

/// Note on steps that begin before the previous step of their process ends, with their GPU work; `None` if they share
/// little time. `steps` are in time order.
pub(crate) fn overlap_note(trace: &Trace, work: &LaunchedWork, steps: &[&Step]) -> Option<String> {
    let mut ends: BTreeMap<Key, i64> = BTreeMap::new();
    let (mut overlapping, mut overlap_ns, mut all_ns) = (0, 0i64, 0i64);
    for step in steps {
        let (from, to) = work.span(trace, step);
        all_ns = all_ns.saturating_add(to.saturating_sub(from));
        let until = ends.entry(trace.process_of(step)).or_insert(from);
        let shared = to.min(*until).saturating_sub(from).max(0);
        overlapping += i64::from(shared > 0);
        overlap_ns = overlap_ns.saturating_add(shared);
        *until = to.max(*until);
    }
    let is_large = overlap_ns > all_ns / 100 * MIN_OVERLAP_PERCENT;
    is_large.then(|| {
        format!(
            "{} of {} steps begin before the previous step ends, by {} in total. The lengths of steps add up to more \
             than the window. Findings divide the window by the number of steps: their mean step is shorter than \
             the mean length",
            count(overlapping),
            count(steps.len() as i64),
            duration(overlap_ns)
        )
    })
}
