//! Times in text that damaged compression garbled.
//!
//! Between the damaged byte and the place where inflating fails, text may come out that reads well and is wrong: a digit
//! too many, and the window of the trace is a thousand years long. Where the garbage begins is not known. So in a file
//! whose compression is damaged, a time must lie near the others: inside the shortest stretch that holds most of them,
//! widened by half its length at both sides (then the window is at most twice as long as that stretch), or among several
//! that stand in the text well before the first sign of damage. Others are kept and count nowhere.

use crate::byte_offsets::{ByteOffsets, Tally};
use crate::diagnostics::{self, Code};
use stackline_model::{EventId, Trace, flags};

/// Of a hundred starts, so many at most are taken to be right, and so many of a hundred trusted events.
const MOST: usize = 90;
/// The same where little was read before the damage showed: then the garbage may be the larger part.
const MANY: usize = 50;
/// An event is trusted if its record begins this many bytes before the first sign of damage.
const MARGIN: u64 = 64 << 10;
/// So many trusted events far from the others vouch for each other: long pauses do occur.
const WITNESSES: usize = 4;
/// Nobody is believed beyond this many lengths of the stretch.
const ABSURD: i64 = 100;

/// Problems that garbled text brings along.
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

/// Marks events of a trace with damaged compression whose times cannot be believed; `is_garbled` if it does not just end
/// too early. Before open spans are closed, for
/// they end with the last of the others.
pub(crate) fn mark(trace: &mut Trace, places: &ByteOffsets, is_garbled: bool) {
    let usable = |e: &EventId| trace.events.is_plausible(*e);
    let mut starts: Vec<i64> = trace.events.ids().filter(usable).map(|e| trace.events.start[e.index()]).collect();
    starts.sort_unstable();
    let sign = first_sign(trace);
    // A file that just ends too early was cut and not garbled, whatever else is odd in it.
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
    let Some((first, last)) = shortest(&starts, held.div_ceil(100)) else { return };
    let length = last.saturating_sub(first).max(1);
    let (low, high) = (first.saturating_sub(length / 2), last.saturating_add(length / 2));
    let reach = length.saturating_mul(ABSURD);
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
        (start >= low || (early >= WITNESSES && start >= low.saturating_sub(reach)))
            && (end <= high || (late >= WITNESSES && end <= high.saturating_add(reach)))
    };
    let mut marked = Tally::default();
    outside.retain(|e| !vouched(e));
    for event in outside {
        marked.add(event, || trace.name(event).to_owned());
        trace.events.flags[event.index()] |= flags::IMPLAUSIBLE;
    }
    marked.tell(diagnostics::GARBLED_TIME, places, &mut trace.report);
    if !is_certain {
        diagnostics::UNCERTAIN_WINDOW.count(&mut trace.report, sign, "");
    }
}

/// First and last of the shortest stretch of sorted times that holds so many of them.
fn shortest(starts: &[i64], held: usize) -> Option<(i64, i64)> {
    let ends = |w: &[i64]| Some((*w.first()?, *w.last()?));
    starts.windows(held.max(1)).filter_map(ends).min_by_key(|(first, last)| last.saturating_sub(*first))
}

/// The first byte at which the text looked damaged.
fn first_sign(trace: &Trace) -> Option<u64> {
    let is_sign = |code: &str| SIGNS.iter().any(|s| s.code == code);
    let problems = trace.report.problems.iter().filter(|p| is_sign(&p.code));
    problems.flat_map(|p| p.offsets.first()).min().copied()
}

#[cfg(test)]
mod tests {
    use super::shortest;

    #[test]
    fn the_shortest_stretch_leaves_out_what_is_far() {
        let mut times: Vec<i64> = (0..95).collect();
        times.extend([1_000, 2_000, 9_000, i64::MAX / 4]);
        assert_eq!(shortest(&times, 90), Some((0, 89)));
        assert_eq!(shortest(&[7], 1), Some((7, 7)));
        assert_eq!(shortest(&[], 0), None);
    }
}
