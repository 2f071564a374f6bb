//! Time ranges of threads in frames of the data loader.

use super::applier::Applier;
use super::index::ThreadRange;
use stackline_model::EventId;

impl Applier<'_, '_> {
    /// True if a span is, or lies in, a span that loads data; false in gaps.
    pub(super) fn is_loader(&self, event: EventId) -> bool {
        event.is_some() && self.exact.enclosing().loads_data(event)
    }

    /// Time ranges in frames of the data loader whose innermost span passes a test.
    pub(super) fn loader_ranges(&self, test: impl Fn(EventId) -> bool) -> Vec<ThreadRange> {
        let mut found: Vec<ThreadRange> = Vec::new();
        for (number, lane) in self.exact.lanes.iter().enumerate() {
            for (i, piece) in lane.pieces.iter().enumerate() {
                let to = lane.piece_end(i);
                if to == i64::MAX || !self.is_loader(piece.event) || !test(piece.event) {
                    continue;
                }
                match found.last_mut() {
                    Some(last) if last.0 == number as u32 && last.2 == piece.start => last.2 = to,
                    _ => found.push((number as u32, piece.start, to)),
                }
            }
        }
        found
    }
}

/// True if a time range of a thread overlaps one of several disjoint ranges, sorted by thread and time.
pub(super) fn overlaps(ranges: &[ThreadRange], (lane, from, to): ThreadRange) -> bool {
    let before = &ranges[..ranges.partition_point(|s| (s.0, s.1) < (lane, to))];
    before.last().is_some_and(|last| last.0 == lane && last.2 > from)
}
