//! The first batch of a loader, whose workers are just starting, and which opens what it reads: it comes once, and a
//! sum over calls does not tell it from the others. How long the longest one took is known.

use super::thread::{Thread, Time, outermost};
use stackline_model::{CallNodeId, CallStats, CallingContextTree};
use std::collections::BTreeMap;

/// The longest of so many batches at least is left out,
const LEAST_BATCHES: u64 = 4;
/// if it took so many times as long as the others in the mean.
const TIMES: f64 = 3.0;

impl Thread {
    /// Leaves out by how much the longest batch of each loader took longer than the others; how much that is together,
    /// in ns.
    pub(super) fn leave_out_first_batches(&mut self, tree: &CallingContextTree) -> u64 {
        let loaders = outermost(tree, |node| self.durations.get(&node).and_then(beyond_others));
        // By loader: how much is left out at most, and its time.
        let mut all: BTreeMap<CallNodeId, (u64, u64)> = BTreeMap::new();
        for (own, loader) in self.own.iter().zip(&loaders) {
            if let Some((loader, ns)) = *loader {
                let (_, took) = all.entry(loader).or_insert((ns, 0));
                *took = took.saturating_add(own.ns);
            }
        }
        for (own, loader) in self.own.iter_mut().zip(loaders) {
            if let Some(&(ns, took)) = loader.and_then(|(loader, _)| all.get(&loader)) {
                *own = own.scaled(1.0 - ns.min(took) as f64 / took.max(1) as f64);
            }
        }
        all.values().map(|&(ns, took)| ns.min(took)).fold(0, u64::saturating_add)
    }
}

/// By how much the longest call takes longer than the others in the mean, if it takes far longer.
fn beyond_others(calls: &CallStats) -> Option<u64> {
    let others = calls.count.checked_sub(1).filter(|_| calls.count >= LEAST_BATCHES)?;
    let mean = calls.sum.saturating_sub(calls.max) as f64 / others as f64;
    (calls.max as f64 > TIMES * mean).then(|| calls.max.saturating_sub(mean as u64))
}

impl Time {
    /// A part of it.
    fn scaled(self, part: f64) -> Self {
        let of = |whole: u64| (whole as f64 * part) as u64;
        // Few samples are still some.
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
