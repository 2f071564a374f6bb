//! Queue length per stream at each launch and each start of GPU work (section 2.5 C), over all rows of the view.

use super::build::Builder;
use super::names::LAUNCH;
use super::sort::by_time;
use crate::WarningCode;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_timeline::hta_view::NO_ROW;

/// Length of the stream's queue at each row of HTA's view; `None` for rows that are neither a launch nor launched work.
pub(super) struct QueueLengths(Vec<i32>);

const UNKNOWN: i32 = i32::MIN;

impl QueueLengths {
    /// Length of the stream's queue after the event in a row; `None` for rows that are neither a launch nor launched
    /// work.
    ///
    /// A launch counts itself; a started operation does not.
    pub(super) fn at(&self, row: usize) -> Option<i32> {
        self.0.get(row).copied().filter(|&q| q != UNKNOWN)
    }
}

/// Change of the length of a stream's queue by `delta` at a time and row.
struct QueueChange {
    time: i64,
    row: u32,
    stream: i64,
    delta: i32,
}

impl Builder<'_> {
    /// Compute the queue lengths: each launch adds 1, each start subtracts 1. The order is (time, launch before kernel,
    /// event index).
    pub(super) fn queue_lengths(&mut self) -> QueueLengths {
        let view = self.view;
        let mut launched: FxHashSet<i64> = FxHashSet::default();
        let (mut steps, unmatched) = self.launch_changes(&mut launched);
        let launches = steps.len();
        for row in (0..view.len()).filter(|&r| view.stream[r] != -1 && launched.contains(&view.correlation[r])) {
            steps.push(QueueChange { time: view.start[row], row: row as u32, stream: view.stream[row], delta: -1 });
        }
        if launches + unmatched != steps.len() - launches {
            self.warn(WarningCode::UnevenQueue, 1);
        }
        // The list has launches in row order, then GPU work in row order, so positions break ties as required.
        let order = by_time(steps.iter().map(|s| s.time));
        let mut lengths = vec![UNKNOWN; view.len()];
        let mut streams: FxHashMap<i64, i32> = FxHashMap::default();
        for position in order {
            let step = &steps[position as usize];
            let length = streams.entry(step.stream).or_insert(0);
            *length += step.delta;
            lengths[step.row as usize] = *length;
        }
        QueueLengths(lengths)
    }

    /// Queue length changes of +1 for each launch and GPU row of its correlation ID, and the number of launches without
    /// GPU row. Adds the correlation IDs of launches to `launched`. A repeated launch of one correlation ID counts for
    /// one row only. No trace that HTA accepts has one, but damaged traces may have thousands.
    fn launch_changes(&mut self, launched: &mut FxHashSet<i64>) -> (Vec<QueueChange>, usize) {
        let view = self.view;
        let mut steps = Vec::new();
        let mut unmatched = 0;
        for row in 0..view.len() {
            if view.partner[row] == NO_ROW || self.bits(row) & LAUNCH == 0 {
                continue;
            }
            let before = steps.len();
            let first = launched.insert(view.correlation[row]);
            let mut partner = view.partner[row];
            while partner != NO_ROW {
                let stream = view.stream[partner as usize];
                if stream != -1 {
                    steps.push(QueueChange { time: view.start[row], row: row as u32, stream, delta: 1 });
                }
                partner = view.sibling.get(partner as usize).copied().filter(|_| first).unwrap_or(NO_ROW);
            }
            unmatched += usize::from(steps.len() == before);
        }
        (steps, unmatched)
    }
}
