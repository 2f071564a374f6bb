//! Fit of sampled times to the measured length of steps. Samples of waits come at fixed times, so they miss or favor
//! waits whose period is close to theirs, and threads blocked in other system calls are not sampled; the ends of the
//! first and the last step are exact.

use super::step_ends::Ends;
use super::steps::{Steps, below};
use super::thread::{Thread, Time, TimeSource};
use stackline_model::{CallNodeId, CallingContextTree, Frame};
use std::collections::BTreeMap;

/// Largest factor by which waits are scaled, and smallest as its inverse. Beyond it, the length covers other waits.
const MAX_FACTOR: f64 = 2.0;
/// Largest time of the thread between the first and the last step that is not part of the steps, as a share of these.
const MAX_OTHER: f64 = 0.25;
/// Least time without samples, as a share of the length of the steps, and in ns. Less may be the weight of a few
/// samples.
const LEAST_BLOCKED: f64 = 0.1;
const LEAST_BLOCKED_NS: f64 = 50e6;
/// Least time of code after the loop, as a share of the time without samples, with which that time may lie in this
/// code. Code that is blocked, such as in writing a file, also computes.
const LEAST_LATER: f64 = 0.01;

impl Thread {
    /// Scale the sampled waits of the steps, so that waits and computing add up to the measured length of the steps
    /// ([`Self::measured_length`]).
    pub(super) fn fit_waits(&mut self, steps: &Steps, length: Option<f64>) {
        let Some(length) = length else { return };
        let (all, waits) = (self.sum(steps, true, |time| time.ns), self.sum(steps, true, Time::sampled_waits_ns));
        let factor = (waits + length - all) / waits;
        if waits <= 0.0 || !(1.0 / MAX_FACTOR..=MAX_FACTOR).contains(&factor) {
            return;
        }
        for (time, _) in self.own.iter_mut().zip(&steps.inside).filter(|(_, inside)| **inside) {
            time.scale_waits(factor);
        }
    }

    /// Time of the steps in which no sample or operator shows the thread, in ns; 0 if small, or if the length is
    /// unknown. `excluded_ns` is time of the steps that was excluded.
    pub(super) fn blocked_ns(&self, steps: &Steps, length: Option<f64>, excluded_ns: u64) -> u64 {
        let Some(length) = length else { return 0 };
        let blocked = length - self.sum(steps, true, |time| time.ns) - excluded_ns as f64;
        if blocked > LEAST_BLOCKED_NS.max(LEAST_BLOCKED * length) { blocked as u64 } else { 0 }
    }

    /// Check if time without samples may lie between steps instead of in them. Code after the loop (an evaluation or a
    /// checkpoint after each epoch) may run between steps, and may be blocked there.
    pub(super) fn may_be_between(&self, tree: &CallingContextTree, steps: &Steps, blocked_ns: u64) -> bool {
        let is_later = after_loop(tree, steps);
        let nodes = tree.nodes.ids().map(CallNodeId::index);
        let later = nodes.filter(|&node| is_later[node] && !steps.inside[node] && !steps.is_once[node]);
        let later_ns = later.fold(0_u64, |sum, node| sum.saturating_add(self.own[node].ns));
        later_ns > 0 && later_ns as f64 >= LEAST_LATER * blocked_ns as f64
    }

    /// Total length of the steps from the ends of the first and the last one, in ns, without other work of the thread
    /// between them. `None` if unknown, or if there is much other work.
    ///
    /// `overhead` is the share of a step that was subtracted as overhead.
    pub(super) fn measured_length(
        &self,
        tree: &CallingContextTree,
        steps: &Steps,
        overhead: Option<f64>,
    ) -> Option<f64> {
        let ends = Ends::new(tree, self).filter(|_| self.known == TimeSource::Cpu)?;
        if steps.count == 0 || self.scale_to_recorded(ends.count) != steps.count as u64 {
            return None;
        }
        let length = ends.steps_ns as f64 / (1.0 + overhead.unwrap_or(0.0));
        let outside = ends.before_ns as f64 + ends.after_ns as f64;
        let other = (self.sum(steps, false, |time| time.ns) - outside).max(0.0);
        (other <= MAX_OTHER * length).then_some(length - other)
    }

    /// Sum of a value over the nodes of the steps, or over all others.
    fn sum(&self, steps: &Steps, is_inside: bool, value: impl Fn(&Time) -> u64) -> f64 {
        let times = self.own.iter().zip(&steps.inside).filter(|(_, inside)| **inside == is_inside);
        times.map(|(time, _)| value(time) as f64).sum()
    }
}

/// For each node: true if it is at or below a line after the loop, in the loop's function or in its callers.
fn after_loop(tree: &CallingContextTree, steps: &Steps) -> Vec<bool> {
    let mut has_steps = steps.inside.clone();
    for node in (1..has_steps.len()).rev().filter(|&node| steps.inside[node]) {
        let mut above = tree.nodes.parent[node].some();
        while let Some(node) = above.filter(|node| !has_steps[node.index()]) {
            has_steps[node.index()] = true;
            above = tree.nodes.parent[node.index()].some();
        }
    }
    let line = |node: CallNodeId| match tree.frame(node) {
        Some(&Frame::Python { function, file, line, .. }) => {
            Some(((tree.nodes.parent[node.index()], function, file), line))
        }
        _ => None,
    };
    let mut first: BTreeMap<_, u32> = BTreeMap::new();
    for (function, line) in tree.nodes.ids().filter(|node| has_steps[node.index()]).filter_map(line) {
        let first = first.entry(function).or_insert(line);
        *first = line.min(*first);
    }
    below(tree, |node| {
        let is_after = || {
            let (function, line) = line(node)?;
            first.get(&function).map(|&first| line > first)
        };
        !has_steps[node.index()] && is_after() == Some(true)
    })
}

impl Time {
    /// Waiting time from samples, in ns.
    fn sampled_waits_ns(&self) -> u64 {
        self.waits_ns.saturating_sub(self.measured_ns)
    }

    /// Multiply the sampled waits by a factor; other time stays.
    fn scale_waits(&mut self, factor: f64) {
        let sampled = self.sampled_waits_ns();
        let scaled = (sampled as f64 * factor) as u64;
        self.waits_ns = self.waits_ns - sampled + scaled;
        self.ns = self.ns.saturating_sub(sampled).saturating_add(scaled);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, TestTree};
    use crate::Findings;
    use stackline_model::CallStepEnds;

    const AT: &str = "train.py:50 <module> > train.py:";

    /// Steps of 80 ms of computing and a wait, of which samples show 40 ms; the recorder saw them end every `each_ms`.
    fn step_ms(each_ms: u64, count: u64, between_ms: u64) -> i64 {
        found((each_ms, count), (51, between_ms)).step_ns / MS as i64
    }

    /// The same, with other work at a line of the caller; the loop is called at line 50.
    fn found((each_ms, count): (u64, u64), (line, between_ms): (u32, u64)) -> Findings {
        let mut made = TestTree::new();
        let ends = CallStepEnds { count, first_ns: 1_000 * MS, last_ns: (1_000 + (count - 1) * each_ms) * MS };
        made.step_ends(ends, ends.last_ns);
        for (path, ms) in [("21 main > aten::mm", 600), ("23 main > Optimizer.step#SGD.step", 200)] {
            made.calls(&format!("{AT}{path}"), 10, ms);
            made.cpu(&format!("{AT}{path}"), ms);
        }
        made.waits(&format!("{AT}22 main > /usr/lib/python3.11/queue.py:171 Queue.get"), 400);
        made.cpu(&format!("train.py:{line} <module> > train.py:60 evaluate"), 1_000 - each_ms + between_ms);
        made.found()
    }

    #[test]
    fn sampled_waits_fit_the_measured_length() {
        assert_eq!(step_ms(120, 10, 0), 120, "samples agree");
        assert_eq!((step_ms(110, 10, 0), step_ms(150, 10, 0)), (110, 150));
        assert_eq!(step_ms(90, 10, 0), 120, "samples of computing are not scaled");
        assert_eq!(step_ms(150, 11, 0), 120, "other steps are counted");
    }

    #[test]
    fn time_without_samples_is_part_of_the_step() {
        // No error of samples is that large: 180 of 300 ms. The other work is before the loop.
        let found = found((300, 10), (49, 0));
        assert_eq!(found.step_ns, 300 * MS as i64);
        let note = "from the end of the first step to the end of the last step, a step takes 300.0 ms of wall time on \
                    average; samples show only 120.0 ms of it";
        assert!(found.notes.iter().any(|text| text.starts_with(note)), "{:?}", found.notes);
        // The wait for the queue has 40 of 300 ms.
        let gain = found.findings.iter().find(|finding| finding.rule.code == "SL039").map(crate::Finding::gain_ns);
        assert_eq!(gain, Some(40 * MS as i64));
        assert_eq!(step_ms(125, 10, 0), 125, "waits are scaled where that suffices");
    }

    #[test]
    fn time_without_samples_may_lie_between_steps() {
        // An evaluation after the loop may run once per epoch. It may then be blocked, too.
        let found = found((300, 10), (51, 0));
        assert_eq!(found.step_ns, 120 * MS as i64);
        let note = "from the end of the first step to the end of the last step, samples do not cover 1800 ms of the \
                    analyzed thread (180.0 ms per step)";
        assert!(found.notes.iter().any(|text| text.starts_with(note)), "{:?}", found.notes);
    }

    #[test]
    fn other_work_between_steps_is_not_part_of_their_length() {
        assert_eq!(step_ms(150, 10, 200), 130);
        assert_eq!(step_ms(150, 10, 600), 120, "too much of it");
    }
}
