//! Overhead of the recorder, measured in the run: blocks of steps without callbacks between blocks with them.
//!
//! A comparison has these parts:
//! - a gap of recorded steps;
//! - `BLOCK_STEPS` recorded steps that are timed;
//! - one step without callbacks that is not timed (caches and branch predictors settle);
//! - `BLOCK_STEPS` timed steps without callbacks;
//! - one recorded step to settle again;
//! - `BLOCK_STEPS` timed recorded steps.
//!
//! The overhead of a comparison is the median of the recorded steps before and after, divided by the median of the
//! steps between them, less 1. A drift of the program cancels. The median of all comparisons counts: a checkpoint
//! disturbs only one of them.
//!
//! A step ends at the end of an optimizer's span, always at the same call path: a program may have several
//! optimizers, or one within another. If steps still alternate (a critic more often than a generator), comparable
//! steps would be compared only by chance. Therefore a comparison whose steps differ too much does not count.
//!
//! The first step may be a warm-up step at another line than those that follow. As long as nothing has been compared,
//! another call path that ends `REPEATS` steps in a row takes its place.

use crate::tree::NodeId;
use stackline_recording::{Interval, LEAST_UNRECORDED_STEPS};
use std::ops::{Range, RangeInclusive};
use std::thread::ThreadId;

/// Timed steps of a block.
const BLOCK_STEPS: u64 = 3;
/// Untimed steps after a change.
const UNTIMED_STEPS: u64 = 1;
/// Recorded steps before the first comparison, for warm-up.
const WARM_UP: u64 = 10;
/// Recorded steps before each later comparison, a random number, so that periodic work of the program affects all
/// blocks equally.
const STEPS_BETWEEN_COMPARISONS: RangeInclusive<u64> = 8..=16;
/// Smallest number of comparisons for a result: only with six does the interval contain the median with 95 %.
const MIN_COMPARISONS: usize = 6;
/// Documented by the command line.
const _: () = assert!(MIN_COMPARISONS as u64 * (BLOCK_STEPS + UNTIMED_STEPS) == LEAST_UNRECORDED_STEPS as u64);
/// Number of steps in a row at another call path after which that one ends the steps. The critic of a GAN has fewer
/// steps between two of the generator.
const REPEATS: u64 = 10;
/// Largest ratio of the mean and the median of a comparison's recorded steps. Steps with a larger ratio are not
/// alike.
const MAX_RATIO: f64 = 1.3;
/// Largest distance of half of a comparison's recorded steps from their median, as a fraction of the median.
const MAX_SPREAD: f64 = 0.2;
/// Largest ratio of a step without callbacks to recorded steps. Beyond it, the program does something other than
/// steps.
const LONGEST_STEPS: i64 = 10;
/// After this many interruptions, the measurement stops.
const MAX_INTERRUPTIONS: u32 = 2;
/// Default number of steps that may run unrecorded.
pub(crate) const BUDGET: u64 = 64;

/// Change of the callbacks at the end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Stop the callbacks of operators.
    Pause,
    /// Start the callbacks of operators.
    Resume,
}

/// End of a step: the thread, and the node of the optimizer's span in its tree.
pub(crate) type Mark = (ThreadId, NodeId);

/// Schedule of the pauses, and durations of steps with and without callbacks.
#[derive(Debug)]
pub(crate) struct Overhead {
    /// Steps that may still run unrecorded.
    budget: u64,
    /// Steps without callbacks so far.
    unrecorded: u64,
    /// Pauses that ended without a step.
    given_up: u32,
    /// Steps of this comparison that have ended, and recorded steps before its first block.
    step: u64,
    gap: u64,
    /// End of the last step and of the last recorded step, in ns.
    last_ns: Option<i64>,
    paused_ns: i64,
    /// Durations in ns of this comparison's recorded steps, of its timed recorded steps, and of its steps without
    /// callbacks.
    recorded: Vec<i64>,
    with: Vec<i64>,
    without: Vec<i64>,
    random: u64,
    found: Vec<f64>,
    /// The first mark, or one that repeated instead of it. Steps with other marks do not count.
    mark: Option<Mark>,
    /// The other mark that was seen last, and how often since another one was.
    other: Option<(Mark, u64)>,
}

impl Overhead {
    /// Create a measurement in which at most `budget` steps run unrecorded.
    pub(crate) fn new(budget: u64) -> Self {
        Self {
            budget,
            unrecorded: 0,
            given_up: 0,
            step: 0,
            gap: WARM_UP,
            last_ns: None,
            paused_ns: 0,
            recorded: Vec::new(),
            with: Vec::new(),
            without: Vec::new(),
            // Equal in all ranks of a job, because they wait for each other.
            random: 0x9e37_79b9_7f4a_7c15,
            found: Vec::new(),
            mark: None,
            other: None,
        }
    }

    /// Range of step numbers in the current comparison that run without callbacks.
    fn steps_without_callbacks(&self) -> Range<u64> {
        self.gap + BLOCK_STEPS..self.gap + 2 * BLOCK_STEPS + UNTIMED_STEPS
    }

    /// True if a step ends at this mark: the current one, or another that replaces it now.
    fn is_end_of_step(&mut self, mark: Mark) -> bool {
        if *self.mark.get_or_insert(mark) == mark {
            self.other = None;
            return true;
        }
        let repeats = self.other.filter(|&(other, _)| other == mark).map_or(1, |(_, repeats)| repeats + 1);
        self.other = Some((mark, repeats));
        if repeats < REPEATS || !self.found.is_empty() || self.is_paused() {
            return false;
        }
        (self.mark, self.other, self.last_ns) = (Some(mark), None, None);
        self.begin_comparison();
        true
    }

    /// Add the duration of a step that ends now; returns a change if the caller must stop or start the callbacks, else
    /// `None`.
    pub(crate) fn step_ended(&mut self, mark: Mark, now_ns: i64) -> Option<Change> {
        let is_step = self.is_end_of_step(mark);
        let paused = self.steps_without_callbacks();
        let is_over = self.budget < BLOCK_STEPS + UNTIMED_STEPS && self.step < paused.start;
        if !is_step || is_over {
            return None;
        }
        let took_ns = now_ns - self.last_ns.replace(now_ns)?;
        let at = self.step;
        self.step += 1;
        let is_timed = |from: u64| (from..from + BLOCK_STEPS).contains(&at);
        if paused.contains(&at) {
            self.unrecorded += 1;
            if is_timed(paused.start + UNTIMED_STEPS) {
                self.without.push(took_ns);
            }
        } else {
            self.recorded.push(took_ns);
            if is_timed(self.gap) || is_timed(paused.end + UNTIMED_STEPS) {
                self.with.push(took_ns);
            }
        }
        if self.step == paused.start {
            self.paused_ns = now_ns;
            self.budget = self.budget.saturating_sub(BLOCK_STEPS + UNTIMED_STEPS);
            return Some(Change::Pause);
        }
        if self.step == paused.end {
            return Some(Change::Resume);
        }
        if self.step == paused.end + UNTIMED_STEPS + BLOCK_STEPS {
            self.compare();
        }
        None
    }

    /// True while callbacks are stopped to measure the recorder's overhead.
    pub(crate) fn is_paused(&self) -> bool {
        self.steps_without_callbacks().contains(&self.step)
    }

    /// Drop the comparison if no step has ended for too long without callbacks: the program does something other than
    /// steps. `true` if it was dropped; the caller then starts the callbacks again.
    pub(crate) fn drop_stalled_comparison(&mut self, now_ns: i64) -> bool {
        let steps = i64::try_from(BLOCK_STEPS + UNTIMED_STEPS).unwrap_or(1);
        let longest = median(&mut self.recorded.clone()).saturating_mul(LONGEST_STEPS * steps);
        let gives_up = self.is_paused() && now_ns - self.paused_ns > longest;
        if gives_up {
            // The step in progress.
            self.unrecorded += 1;
            self.given_up += 1;
            if self.given_up >= MAX_INTERRUPTIONS {
                self.budget = 0;
            }
            self.begin_comparison();
            self.last_ns = None;
        }
        gives_up
    }

    /// Compute the overhead of the finished comparison, drop it if its steps are too uneven, and begin the next one.
    fn compare(&mut self) {
        let mean = self.recorded.iter().map(|&ns| ns as f64).sum::<f64>() / self.recorded.len().max(1) as f64;
        let usual = median(&mut self.recorded) as f64;
        let (with, without) = (median(&mut self.with) as f64, median(&mut self.without) as f64);
        let mut apart: Vec<i64> = self.recorded.iter().map(|&ns| (ns - usual as i64).abs()).collect();
        let is_even =
            mean <= MAX_RATIO * usual && usual <= MAX_RATIO * mean && (median(&mut apart) as f64) <= MAX_SPREAD * usual;
        if is_even && without > 0.0 {
            self.found.push(with / without - 1.0);
        }
        self.begin_comparison();
    }

    /// Begin a comparison: discard the durations, and draw the number of recorded steps before it.
    fn begin_comparison(&mut self) {
        // Xorshift (Marsaglia 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let (least, most) = STEPS_BETWEEN_COMPARISONS.into_inner();
        self.gap = least + self.random % (most - least + 1);
        self.step = 0;
        self.recorded.clear();
        self.with.clear();
        self.without.clear();
    }

    /// Overhead measured so far, also if no step ran unrecorded yet; `None` before the first step, or if too few steps
    /// may run unrecorded.
    pub(crate) fn measured(&self) -> Option<stackline_recording::Overhead> {
        let is_on = self.unrecorded > 0 || self.budget >= BLOCK_STEPS + UNTIMED_STEPS;
        (is_on && self.mark.is_some()).then(|| stackline_recording::Overhead {
            unrecorded_steps: self.unrecorded,
            comparisons: u32::try_from(self.found.len()).unwrap_or(u32::MAX),
            fraction: self.fraction(),
        })
    }

    /// Median overhead of all comparisons with its 95 % interval, as a fraction; `None` with too few comparisons.
    fn fraction(&self) -> Option<Interval> {
        let mut found = self.found.clone();
        found.sort_unstable_by(f64::total_cmp);
        if found.len() < MIN_COMPARISONS {
            return None;
        }
        let outside = outside_median_interval(found.len());
        let (middle, last) = (found.len() / 2, found.len() - 1);
        let median = if found.len() % 2 == 1 { found[middle] } else { f64::midpoint(found[middle - 1], found[middle]) };
        Some(Interval { low: found[outside], median, high: found[last - outside] })
    }
}

/// Median, for an even number the mean of the two middle values; 0 without values.
fn median(values: &mut [i64]) -> i64 {
    values.sort_unstable();
    let middle = values.len() / 2;
    match values.len() % 2 {
        1 => values[middle],
        _ if middle == 0 => 0,
        _ => i64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Number of values that can be left out at each end so that the others contain the median with 95 %, for any
/// distribution: each value is below the median with a probability of one half.
fn outside_median_interval(count: usize) -> usize {
    let mut probability = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut below = 0.0;
    for left_out in 0..count {
        below += probability;
        if below > 0.025 {
            return left_out.saturating_sub(1);
        }
        probability *= (count - left_out) as f64 / (left_out + 1) as f64;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_STEPS, BUDGET, Change, Overhead, UNTIMED_STEPS, outside_median_interval};
    use crate::tree::NodeId;
    use proptest::prelude::*;

    /// Simulate a program with steps of 1 ms, times `1 + overhead` with callbacks. `noise` receives the number of the
    /// step and returns a factor. Returns the unrecorded steps, too.
    fn run(budget: u64, steps: u64, overhead: f64, mut noise: impl FnMut(u64) -> f64) -> (Overhead, Vec<u64>) {
        let mut measured = Overhead::new(budget);
        let mark = (std::thread::current().id(), NodeId(7));
        let (mut now, mut paused, mut unrecorded) = (0_i64, false, Vec::new());
        for step in 0..steps {
            now += (1e6 * noise(step) * if paused { 1.0 } else { 1.0 + overhead }) as i64;
            if paused {
                unrecorded.push(step);
            }
            match measured.step_ended(mark, now) {
                Some(Change::Pause) => paused = true,
                Some(Change::Resume) => paused = false,
                None => {}
            }
            assert_eq!(measured.is_paused(), paused);
        }
        (measured, unrecorded)
    }

    #[test]
    fn unrecorded_steps_are_within_the_budget_and_counted() {
        let (measured, unrecorded) = run(BUDGET, 2000, 0.1, |_| 1.0);
        let measured = measured.measured().unwrap();
        let comparisons = BUDGET / (BLOCK_STEPS + UNTIMED_STEPS);
        assert_eq!(measured.unrecorded_steps, comparisons * (BLOCK_STEPS + UNTIMED_STEPS));
        assert_eq!(
            (unrecorded.len() as u64, u64::from(measured.comparisons)),
            (measured.unrecorded_steps, comparisons)
        );
        assert!(unrecorded[0] > 10 && *unrecorded.last().unwrap() < 500, "{unrecorded:?}");
        let (none, unrecorded) = run(0, 2000, 0.1, |_| 1.0);
        assert_eq!((none.measured(), unrecorded.len()), (None, 0));
        let few = run(BUDGET, 60, 0.1, |_| 1.0).0.measured().unwrap();
        assert!(few.fraction.is_none() && few.comparisons > 0, "{few:?}");
    }

    #[test]
    fn recording_resumes_if_no_steps_end() {
        let (mut measured, unrecorded) = run(BUDGET, 15, 0.0, |_| 1.0);
        assert_eq!((measured.is_paused(), unrecorded.len()), (true, 1));
        assert!(!measured.drop_stalled_comparison(15_000_000 + 30_000_000), "a slow step");
        assert!(measured.drop_stalled_comparison(15_000_000 + 50_000_000) && !measured.is_paused());
        assert!(!measured.drop_stalled_comparison(i64::MAX), "there is nothing to give up");
    }

    #[test]
    fn other_threads_and_optimizers_do_not_end_steps() {
        let mut measured = Overhead::new(BUDGET);
        let own = std::thread::current().id();
        let other = std::thread::spawn(|| std::thread::current().id()).join().unwrap();
        let changes = |mark, from: i64, measured: &mut Overhead| {
            (from..from + 30).filter_map(|step| measured.step_ended(mark, step * 1000)).count()
        };
        assert_eq!(changes((own, NodeId(7)), 0, &mut measured), 2);
        assert_eq!(changes((other, NodeId(7)), 30, &mut measured), 0);
        assert_eq!(changes((own, NodeId(8)), 60, &mut measured), 0, "an optimizer at another place");
    }

    /// End 600 steps of 1 ms, each at the node that `node` returns for its number.
    fn run_at(node: impl Fn(i64) -> u32) -> Overhead {
        let own = std::thread::current().id();
        let mut measured = Overhead::new(BUDGET);
        for step in 0..600 {
            measured.step_ended((own, NodeId(node(step))), step * 1_000_000);
        }
        measured
    }

    #[test]
    fn repeated_steps_replace_those_of_a_warm_up() {
        for warm_up in [1, 3] {
            let found = run_at(|step| if step < warm_up { 7 } else { 8 }).measured().unwrap();
            assert_eq!((found.unrecorded_steps, found.fraction.is_some()), (BUDGET, true), "{warm_up}: {found:?}");
        }
        // Once steps were compared, those of another loop do not count.
        let both = run_at(|step| if step < 60 { 7 } else { 8 });
        assert_eq!(both.mark.map(|(_, node)| node), Some(NodeId(7)));
    }

    #[test]
    fn steps_of_a_critic_do_not_replace_those_of_the_generator() {
        let measured = run_at(|step| if step % 6 == 0 { 7 } else { 8 });
        assert_eq!(measured.mark.map(|(_, node)| node), Some(NodeId(7)));
        assert!(measured.measured().unwrap().comparisons > 0);
    }

    #[test]
    fn missing_measurements_are_reported_if_steps_ended() {
        assert_eq!(Overhead::new(BUDGET).measured(), None);
        // Each step at a line of its own.
        let found = run_at(|step| step as u32).measured().unwrap();
        assert_eq!((found.unrecorded_steps, found.comparisons, found.fraction), (0, 0, None));
    }

    /// Five steps of a critic before each of a generator, one optimizer per parameter, and alternating kinds of
    /// steps.
    #[test]
    fn alternating_steps_are_not_compared() {
        for lengths in [&[1.0, 1.0, 1.0, 1.0, 4.0][..], &[[1.0; 30].as_slice(), &[60.0]].concat(), &[1.0, 2.5]] {
            let (measured, _) = run(BUDGET, 2000, 0.1, |step| lengths[step as usize % lengths.len()]);
            let measured = measured.measured().unwrap();
            assert!(measured.fraction.is_none() || lengths.len() > 20, "{measured:?}, {lengths:?}");
        }
    }

    /// Repeated work that lasts far longer than steps: a rollout between updates.
    #[test]
    fn programs_with_interleaved_work_are_not_measured() {
        let mut measured = Overhead::new(1000);
        let mark = (std::thread::current().id(), NodeId(7));
        let (mut now, mut pauses) = (0, 0);
        for _ in 0..50 {
            for _ in 0..16 {
                now += 1_000_000;
                pauses += usize::from(measured.step_ended(mark, now) == Some(Change::Pause));
            }
            now += 1_000_000_000;
            measured.drop_stalled_comparison(now);
        }
        assert!(pauses <= 4, "{pauses}");
        assert!(!measured.is_paused() && measured.measured().is_some());
    }

    #[test]
    fn interval_follows_the_sign_test() {
        // The sign test's tables: for six values the interval is from the smallest to the largest, for 20 from the
        // sixth on.
        assert_eq!([6, 8, 9, 12, 20].map(outside_median_interval), [0, 0, 1, 2, 5]);
    }

    proptest! {
        /// Steps with drift and the variation of busy machines: few are far longer, and every tenth takes twice as
        /// long.
        #[test]
        fn injected_overhead_is_measured(seed in any::<u64>(), drift in -0.0005..0.0005_f64) {
            for cost in [0.0, 0.01, 0.05, 0.2] {
                let mut random = seed | 1;
                let (measured, _) = run(BUDGET, 600, cost, |step| {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let uniform = (random >> 11) as f64 / (1_u64 << 53) as f64;
                    let noise = 1.0 - 0.01 * (1.0 - uniform).ln();
                    noise * (1.0 + drift * step as f64) * if step % 10 == 0 { 2.0 } else { 1.0 }
                });
                let found = measured.measured().and_then(|measured| measured.fraction).expect("many steps");
                prop_assert!((found.median - cost).abs() < 0.015, "{:?}, injected {}", found, cost);
                prop_assert!(found.low <= found.median && found.median <= found.high);
            }
        }
    }
}
