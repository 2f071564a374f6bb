//! Detection of wrong times in text from damaged compression.
//!
//! Between a damaged byte and the failure of decompression, the text may be valid but wrong: one extra digit makes the
//! window a thousand years long. The start of the wrong text is unknown. So in a file with damaged compression, each
//! time must be near the others. A time is accepted inside the shortest time range that contains most starts, widened
//! by half its length at both sides. The window is then at most twice as long as that range. A time is also accepted if
//! it agrees with several others well before the first sign of damage. Other records are kept, but excluded from all
//! totals.

use crate::byte_offsets::{ByteOffsets, ProblemTally};
use crate::diagnostics::{self, Code};
use stackline_model::{EventId, Trace, flags};

/// Percentage of starts, and of trusted events, that the time range contains.
const MOST: usize = 90;
/// Percentage if little was read before the damage showed, so that the wrong text may be the larger part.
const MANY: usize = 50;
/// Distance in bytes before the first sign of damage from which on an event is trusted.
const MARGIN: u64 = 64 << 10;
/// Number of trusted events far from the others that confirm each other, as after long pauses.
const MIN_OPERATIONS: usize = 4;
/// Limit on accepted times, in lengths of the time range.
const MAX_LENGTHS: i64 = 100;

/// Diagnostics that garbled text causes.
const SIGNS: &[Code] = &[
    diagnostics::BARE_QUOTE,
    diagnostics::BACKSLASH,
    diagnostics::CONTROL,
    diagnostics::INVALID_UTF8,
    diagnostics::ODD_VALUE,
    diagnostics::MISSING_VALUE,
    diagnostics::NOT_JSON_ARG,
    diagnostics::FOREIGN_TEXT,
    diagnostics::MISSING_QUOTE,
    diagnostics::EXTRA_COMMA,
    diagnostics::MISSING_COMMA,
    diagnostics::DAMAGED_EVENT,
    diagnostics::NOT_AN_EVENT,
    diagnostics::NO_PHASE,
    diagnostics::UNKNOWN_RECORD,
    diagnostics::BAD_TIME,
    diagnostics::NO_TIME,
    diagnostics::NO_DURATION,
    diagnostics::NEGATIVE_DURATION,
    diagnostics::TIME_AS_TEXT,
    diagnostics::TIME_IN_NS,
    diagnostics::DUPLICATE_KEY,
    diagnostics::DAMAGED_HEADER,
];

/// Mark events with implausible times in a trace with damaged compression. `is_garbled` is false if the file is only
/// truncated. Runs before open spans are closed, because they end with the last event.
pub(crate) fn mark(trace: &mut Trace, places: &ByteOffsets, is_garbled: bool) {
    let usable = |e: &EventId| trace.events.is_plausible(*e);
    let mut starts: Vec<i64> = trace.events.ids().filter(usable).map(|e| trace.events.start[e.index()]).collect();
    starts.sort_unstable();
    let sign = first_sign(trace);
    // A file that is only truncated is not garbled, even with other problems.
    if !is_garbled {
        return;
    }
    let trusted = |e: EventId| match (sign, places.offset_of(e)) {
        (None, _) => true,
        (Some(sign), Some(at)) => at.saturating_add(MARGIN) < sign,
        (Some(_), None) => false,
    };
    let trusted_count = trace.events.ids().filter(|e| usable(e) && trusted(*e)).count();
    let is_certain = trusted_count * 2 >= starts.len();
    let held = if is_certain { trusted_count * MOST } else { starts.len() * MANY };
    let Some((first, last)) = shortest_range(&starts, held.div_ceil(100)) else { return };
    let length = last.saturating_sub(first).max(1);
    let (low, high) = (first.saturating_sub(length / 2), last.saturating_add(length / 2));
    let reach = length.saturating_mul(MAX_LENGTHS);
    let mut outside = Vec::new();
    let (mut early, mut late) = (0, 0);
    for event in trace.events.ids().filter(usable) {
        let (start, end) = (trace.events.start[event.index()], trace.events.end(event));
        if start >= low && end <= high {
            continue;
        }
        outside.push(event);
        let believable = trusted(event) && start >= low.saturating_sub(reach) && end <= high.saturating_add(reach);
        early += usize::from(believable && start < low);
        late += usize::from(believable && end > high);
    }
    let vouched = |e: &EventId| {
        let (start, end) = (trace.events.start[e.index()], trace.events.end(*e));
        (start >= low || (early >= MIN_OPERATIONS && start >= low.saturating_sub(reach)))
            && (end <= high || (late >= MIN_OPERATIONS && end <= high.saturating_add(reach)))
    };
    let mut marked = ProblemTally::default();
    outside.retain(|e| !vouched(e));
    for event in outside {
        marked.add(event, || trace.name(event).to_owned());
        trace.events.flags[event.index()] |= flags::IMPLAUSIBLE;
    }
    marked.report(diagnostics::GARBLED_TIME, places, &mut trace.report);
    if !is_certain {
        diagnostics::UNCERTAIN_WINDOW.count(&mut trace.report, sign, "");
    }
}

/// First and last time of the shortest range of sorted times that contains `held` of them; `None` for fewer times.
fn shortest_range(starts: &[i64], held: usize) -> Option<(i64, i64)> {
    let ends = |w: &[i64]| Some((*w.first()?, *w.last()?));
    starts.windows(held.max(1)).filter_map(ends).min_by_key(|(first, last)| last.saturating_sub(*first))
}

/// Byte offset of the first sign that the trace file is damaged; `None` without a sign.
fn first_sign(trace: &Trace) -> Option<u64> {
    let is_sign = |code: &str| SIGNS.iter().any(|s| s.code == code);
    let problems = trace.report.problems.iter().filter(|p| is_sign(&p.code));
    problems.flat_map(|p| p.offsets.first()).min().copied()
}

#[cfg(test)]
mod tests {
    use super::shortest_range;

    #[test]
    fn shortest_range_excludes_outliers() {
        let mut times: Vec<i64> = (0..95).collect();
        times.extend([1_000, 2_000, 9_000, i64::MAX / 4]);
        assert_eq!(shortest_range(&times, 90), Some((0, 89)));
        assert_eq!(shortest_range(&[7], 1), Some((7, 7)));
        assert_eq!(shortest_range(&[], 0), None);
    }
}
