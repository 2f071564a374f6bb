//! Fit of sampled times to the measured length of steps. Samples of waits come at fixed times, so they miss or favor
//! waits whose period is close to theirs, and threads blocked in other system calls are not sampled; the ends of the
//! first and the last step are exact.

use super::after_loop::Ends;
use super::steps::Steps;
use super::thread::{Thread, Time, TimeSource};
use stackline_model::CallingContextTree;

/// Largest factor by which waits are scaled, and smallest as its inverse. Beyond it, the length covers other waits.
const MAX_FACTOR: f64 = 2.0;
/// Largest time of the thread between the first and the last step that is not part of the steps, as a share of these.
const MAX_OTHER: f64 = 0.25;
/// Least time without samples, as a share of the length of the steps, and in ns. Less may be the weight of a few
/// samples.
const LEAST_BLOCKED: f64 = 0.1;
const LEAST_BLOCKED_NS: f64 = 50e6;

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

    /// Time of the steps in which no sample or operator shows the thread, in ns; 0 if it is small, or if the length of
    /// the steps is unknown. `excluded_ns` is time of the steps that was excluded.
    pub(super) fn blocked_ns(&self, steps: &Steps, length: Option<f64>, excluded_ns: u64) -> u64 {
        let Some(length) = length else { return 0 };
        let blocked = length - self.sum(steps, true, |time| time.ns) - excluded_ns as f64;
        if blocked > LEAST_BLOCKED_NS.max(LEAST_BLOCKED * length) { blocked as u64 } else { 0 }
    }

    /// Total length of the steps from the ends of the first and the last one, in ns, without other work of the thread
    /// between them. `None` if it is unknown, or if there is much other work. `overhead` is the share of a step that
    /// was subtracted as overhead.
    pub(super) fn measured_length(
        &self,
        tree: &CallingContextTree,
        steps: &Steps,
        overhead: Option<f64>,
    ) -> Option<f64> {
        let ends = Ends::new(tree, self).filter(|_| self.known == TimeSource::Cpu)?;
        if steps.count == 0 || self.recorded(ends.count) != steps.count as u64 {
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

impl Time {
    /// Waiting time from samples, in ns.
    fn sampled_waits_ns(&self) -> u64 {
        self.waits_ns.saturating_sub(self.measured_ns)
    }

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
        found(each_ms, count, between_ms).step_ns / MS as i64
    }

    fn found(each_ms: u64, count: u64, between_ms: u64) -> Findings {
        let mut made = TestTree::new();
        let ends = CallStepEnds { count, first_ns: 1_000 * MS, last_ns: (1_000 + (count - 1) * each_ms) * MS };
        made.step_ends(ends, ends.last_ns);
        for (path, ms) in [("21 main > aten::mm", 600), ("23 main > Optimizer.step#SGD.step", 200)] {
            made.calls(&format!("{AT}{path}"), 10, ms);
            made.cpu(&format!("{AT}{path}"), ms);
        }
        made.waits(&format!("{AT}22 main > /usr/lib/python3.11/queue.py:171 Queue.get"), 400);
        made.cpu("train.py:51 <module> > train.py:60 evaluate", 1_000 - each_ms + between_ms);
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
        // No error of samples is that large: 180 of 300 ms.
        let found = found(300, 10, 0);
        assert_eq!(found.step_ns, 300 * MS as i64);
        let note = "a step takes 300.0 ms of wall time by the ends of the first and the last step; samples show only \
                    120.0 ms of it";
        assert!(found.notes.iter().any(|text| text.starts_with(note)), "{:?}", found.notes);
        // The wait for the queue has 40 of 300 ms.
        let gain = found.findings.iter().find(|finding| finding.rule.code == "SL039").map(crate::Finding::gain_ns);
        assert_eq!(gain, Some(40 * MS as i64));
        assert_eq!(step_ms(125, 10, 0), 125, "waits are scaled where that suffices");
    }

    #[test]
    fn other_work_between_steps_is_not_part_of_their_length() {
        assert_eq!(step_ms(150, 10, 200), 130);
        assert_eq!(step_ms(150, 10, 600), 120, "too much of it");
    }
}
