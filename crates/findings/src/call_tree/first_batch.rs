//! Excess time of a loader's first batch, in which workers start and open their data. The first batch occurs once, and
//! call trees do not separate it from the others, but contain the longest duration.

use super::thread::{Thread, Time, outermost};
use stackline_model::{CallNodeId, CallStats, CallingContextTree};
use std::collections::BTreeMap;

/// Least number of batches.
const MIN_BATCHES: u64 = 4;
/// Least duration of the longest batch, as a multiple of the mean of the others.
const MIN_RATIO: f64 = 3.0;

impl Thread {
    /// Subtract the excess of each loader's longest batch over the others; return the total excess in
    /// ns.
    pub(super) fn leave_out_first_batches(&mut self, tree: &CallingContextTree) -> u64 {
        let loaders = outermost(tree, |node| self.durations.get(&node).and_then(excess_of_longest));
        // By loader: the largest excluded time, and the loader's time.
        let mut all: BTreeMap<CallNodeId, (u64, u64)> = BTreeMap::new();
        for (own, loader) in self.own.iter().zip(&loaders) {
            if let Some((loader, ns)) = *loader {
                let (_, total) = all.entry(loader).or_insert((ns, 0));
                *total = total.saturating_add(own.ns);
            }
        }
        for (own, loader) in self.own.iter_mut().zip(loaders) {
            if let Some(&(ns, total)) = loader.and_then(|(loader, _)| all.get(&loader)) {
                *own = own.scaled(1.0 - ns.min(total) as f64 / total.max(1) as f64);
            }
        }
        all.values().map(|&(ns, total)| ns.min(total)).fold(0, u64::saturating_add)
    }
}

/// Excess of the longest call over the mean of the others, in ns; none unless it is much longer.
fn excess_of_longest(calls: &CallStats) -> Option<u64> {
    let others = calls.count.checked_sub(1).filter(|_| calls.count >= MIN_BATCHES)?;
    let mean = calls.sum.saturating_sub(calls.max) as f64 / others as f64;
    (calls.max as f64 > MIN_RATIO * mean).then(|| calls.max.saturating_sub(mean as u64))
}

impl Time {
    /// Multiply all parts of a time (elapsed, waits, samples) by a share.
    fn scaled(self, part: f64) -> Self {
        let of = |whole: u64| (whole as f64 * part) as u64;
        // Round up: few samples remain at least one.
        let of_samples = |whole: u64| (whole as f64 * part).ceil() as u64;
        Self {
            ns: of(self.ns),
            waits_ns: of(self.waits_ns),
            measured_ns: of(self.measured_ns),
            samples: of_samples(self.samples),
            wait_samples: of_samples(self.wait_samples),
        }
    }
}
