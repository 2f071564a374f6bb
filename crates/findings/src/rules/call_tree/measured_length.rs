//! Fit of sampled waits to the measured length of steps. Samples of waits come at fixed times, so they miss or favor waits
//! whose period is close to theirs; the ends of the first and the last step are exact.

use super::after_loop::Ends;
use super::steps::Steps;
use super::thread::{Thread, Time, TimeSource};
use stackline_model::CallingContextTree;

/// Largest factor by which waits are scaled, and smallest as its inverse. Beyond it, the length covers other work.
const MAX_FACTOR: f64 = 2.0;
/// Largest time of the thread between the first and the last step that is not part of the steps, as a share of these.
const MAX_OTHER: f64 = 0.25;

impl Thread {
    /// Scale the sampled waits of the steps, so that waits and computing add up to the measured length of the steps.
    /// `overhead` is the share of a step that was subtracted as overhead.
    pub(super) fn fit_waits(&mut self, tree: &CallingContextTree, steps: &Steps, overhead: Option<f64>) {
        let Some(ends) = Ends::new(tree, self).filter(|_| self.known == TimeSource::Cpu) else { return };
        if steps.count == 0 || self.recorded(ends.count) != steps.count as u64 {
            return;
        }
        let sum = |is_inside: bool, value: &dyn Fn(&Time) -> u64| -> f64 {
            let times = self.own.iter().zip(&steps.inside).filter(|(_, inside)| **inside == is_inside);
            times.map(|(time, _)| value(time) as f64).sum()
        };
        let length = ends.steps_ns as f64 / (1.0 + overhead.unwrap_or(0.0));
        let outside = ends.before_ns as f64 + ends.after_ns as f64;
        let other = (sum(false, &|time| time.ns) - outside).max(0.0);
        let (all, waits) = (sum(true, &|time| time.ns), sum(true, &Time::sampled_waits_ns));
        let factor = (waits + length - other - all) / waits;
        if other > MAX_OTHER * length || waits <= 0.0 || !(1.0 / MAX_FACTOR..=MAX_FACTOR).contains(&factor) {
            return;
        }
        for (time, _) in self.own.iter_mut().zip(&steps.inside).filter(|(_, inside)| **inside) {
            time.scale_waits(factor);
        }
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
    use stackline_model::CallStepEnds;

    const AT: &str = "train.py:50 <module> > train.py:";

    /// Steps of 80 ms of computing and a wait, of which samples show 40 ms; the recorder saw them end every `each_ms`.
    fn step_ms(each_ms: u64, count: u64, between_ms: u64) -> i64 {
        let mut made = TestTree::new();
        let ends = CallStepEnds { count, first_ns: 1_000 * MS, last_ns: (1_000 + (count - 1) * each_ms) * MS };
        made.step_ends(ends, ends.last_ns);
        for (path, ms) in [("21 main > aten::mm", 600), ("23 main > Optimizer.step#SGD.step", 200)] {
            made.calls(&format!("{AT}{path}"), 10, ms);
            made.cpu(&format!("{AT}{path}"), ms);
        }
        made.waits(&format!("{AT}22 main > /usr/lib/python3.11/queue.py:171 Queue.get"), 400);
        made.cpu("train.py:51 <module> > train.py:60 evaluate", 1_000 - each_ms + between_ms);
        made.found().step_ns / MS as i64
    }

    #[test]
    fn sampled_waits_fit_the_measured_length() {
        assert_eq!(step_ms(120, 10, 0), 120, "samples agree");
        assert_eq!((step_ms(110, 10, 0), step_ms(150, 10, 0)), (110, 150));
        assert_eq!((step_ms(300, 10, 0), step_ms(90, 10, 0)), (120, 120), "no error of samples is that large");
        assert_eq!(step_ms(150, 11, 0), 120, "other steps are counted");
    }

    #[test]
    fn other_work_between_steps_is_not_part_of_their_length() {
        assert_eq!(step_ms(150, 10, 200), 130);
        assert_eq!(step_ms(150, 10, 600), 120, "too much of it");
    }
}
