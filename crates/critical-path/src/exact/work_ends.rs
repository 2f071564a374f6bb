//! Times at which work of threads ended, in time order, to find the work that ended last before a time.

use super::names::Names;
use super::thread_timelines::ThreadTimeline;
use stackline_model::{EventId, Trace};

/// Times at which work of threads ended, sorted by (end, lane).
pub(super) type Ends = Vec<(i64, usize)>;

/// Times at which the top-level work of each lane pauses, with the lane, in time order.
pub(super) fn burst_ends(lanes: &[ThreadTimeline]) -> Ends {
    let mut ends: Ends = Vec::new();
    for (i, lane) in lanes.iter().enumerate() {
        ends.extend(lane.pieces.iter().filter(|p| p.event.is_none()).map(|p| (p.start, i)));
    }
    ends.sort_unstable();
    ends
}

/// Ends of the innermost frames whose names have one of the classification bits, with their lanes, in time order.
pub(super) fn frame_ends(trace: &Trace, lanes: &[ThreadTimeline], names: &Names, bits: u16) -> Ends {
    let mut ends: Ends = Vec::new();
    if !names.any(bits) {
        return ends;
    }
    for (i, lane) in lanes.iter().enumerate() {
        let mut seen = EventId::NONE;
        for piece in lane.pieces.iter().filter(|p| p.event.is_some()) {
            if piece.event != seen && names.flags(trace, piece.event) & bits != 0 {
                ends.push((trace.events.end(piece.event), i));
                seen = piece.event;
            }
        }
    }
    ends.sort_unstable();
    ends
}

/// Latest entry of `ends` in `(after, until]` on a lane that `is_candidate` accepts, as time and lane.
pub(super) fn latest_end(
    ends: &Ends,
    after: i64,
    until: i64,
    is_candidate: impl Fn(usize) -> bool,
) -> Option<(i64, usize)> {
    let to = ends.partition_point(|&(end, _)| end <= until);
    ends[..to].iter().rev().take_while(|(end, _)| *end > after).find(|(_, lane)| is_candidate(*lane)).copied()
}
