//! Overhead of the recorder, measured in the run: blocks of steps without callbacks between blocks with them.
//!
//! One comparison is `GAP` recorded steps, `BLOCK` recorded steps that are timed, one step without callbacks that is not
//! timed (caches and branch predictors settle), `BLOCK` without callbacks that are, one to settle again, and `BLOCK`
//! recorded ones that are. Of each block the median step counts, so that a step that logs something spoils none. The overhead is
//! the mean of both recorded blocks over the one between them, less 1, so that a drift of the program cancels. The median of
//! all comparisons counts: a checkpoint spoils one of them.

use stackline_recording::Interval;
use std::ops::{Range, RangeInclusive};
use std::thread::ThreadId;

/// Timed steps of a block.
const BLOCK: u64 = 3;
/// Steps after a change that are not timed.
const SETTLE: u64 = 1;
/// Recorded steps before the first comparison: programs warm up.
const WARM_UP: u64 = 10;
/// Recorded steps before each later one: as many as a random number says, so that what a program does every tenth step falls
/// into all blocks alike.
const GAP: RangeInclusive<u64> = 8..=16;
/// Fewer comparisons tell nothing: the interval of six is the first one that holds the median with 95 %.
const LEAST: usize = 6;
/// Times as long as recorded steps, steps without callbacks never are: the program does something else.
const LONGEST_STEPS: i64 = 10;
/// Steps that a recording may lose to this, unless options say otherwise.
pub(crate) const BUDGET: u64 = 64;

/// What shall be done at the end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Stop the callbacks.
    Pause,
    /// Start them again; they were stopped for so many ns.
    Resume(u64),
}

/// When to stop callbacks, and what steps took with and without them.
#[derive(Debug)]
pub(crate) struct Overhead {
    /// Steps that may still go unrecorded.
    budget: u64,
    /// Steps without callbacks up to now.
    unrecorded: u64,
    /// Steps of this comparison that ended, and how many pass before its first block.
    step: u64,
    gap: u64,
    /// Ends of the last step and of the last recorded one, ns.
    last_ns: Option<i64>,
    paused_ns: i64,
    /// ns of the timed steps of this comparison: of the recorded block before, of that without callbacks, and of the one after.
    blocks: [[i64; BLOCK as usize]; 3],
    random: u64,
    found: Vec<f64>,
    /// The thread whose steps they are: the first one that ends one.
    thread: Option<ThreadId>,
}

impl Overhead {
    pub(crate) fn new(budget: u64) -> Self {
        Self {
            budget,
            unrecorded: 0,
            step: 0,
            gap: WARM_UP,
            last_ns: None,
            paused_ns: 0,
            blocks: [[0; BLOCK as usize]; 3],
            // The same in all ranks of a job: they wait for each other.
            random: 0x9e37_79b9_7f4a_7c15,
            found: Vec::new(),
            thread: None,
        }
    }

    /// Steps of a comparison that go unrecorded.
    fn paused(&self) -> Range<u64> {
        self.gap + BLOCK..self.gap + 2 * BLOCK + SETTLE
    }

    /// A step of this thread ends at this time, ns. Steps of other threads than the first one are left out.
    pub(crate) fn step_ended(&mut self, thread: ThreadId, now_ns: i64) -> Option<Change> {
        let paused = self.paused();
        let is_over = self.budget < BLOCK + SETTLE && self.step < paused.start;
        if *self.thread.get_or_insert(thread) != thread || is_over {
            return None;
        }
        let took_ns = now_ns - self.last_ns.replace(now_ns)?;
        let at = self.step;
        self.step += 1;
        if paused.contains(&at) {
            self.unrecorded += 1;
            self.budget = self.budget.saturating_sub(1);
        }
        for (block, from) in [self.gap, paused.start + SETTLE, paused.end + SETTLE].into_iter().enumerate() {
            if (from..from + BLOCK).contains(&at) {
                self.blocks[block][(at - from) as usize] = took_ns;
            }
        }
        if self.step == paused.start {
            self.paused_ns = now_ns;
            return Some(Change::Pause);
        }
        if self.step == paused.end {
            return Some(Change::Resume((now_ns - self.paused_ns).max(0).cast_unsigned()));
        }
        if self.step == paused.end + SETTLE + BLOCK {
            self.compare();
        }
        None
    }

    /// Whether callbacks are stopped.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused().contains(&self.step)
    }

    /// Whether no step has ended for so long that the program does something else by now. Callbacks start again then, and this
    /// comparison is dropped.
    pub(crate) fn gives_up(&mut self, now_ns: i64) -> bool {
        let steps = i64::try_from(BLOCK + SETTLE).unwrap_or(1);
        let longest = middle(self.blocks[0]).saturating_mul(LONGEST_STEPS * steps);
        let gives_up = self.is_paused() && now_ns - self.paused_ns > longest;
        if gives_up {
            self.begin_comparison();
            self.last_ns = None;
        }
        gives_up
    }

    fn compare(&mut self) {
        let [before, between, after] = self.blocks.map(|block| middle(block) as f64);
        if between > 0.0 {
            self.found.push(f64::midpoint(before, after) / between - 1.0);
        }
        self.begin_comparison();
    }

    fn begin_comparison(&mut self) {
        // Xorshift (Marsaglia 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let (least, most) = GAP.into_inner();
        self.gap = least + self.random % (most - least + 1);
        self.step = 0;
    }

    /// What was found up to now; `None` before a step went unrecorded.
    pub(crate) fn measured(&self) -> Option<stackline_recording::Overhead> {
        (self.unrecorded > 0).then(|| stackline_recording::Overhead {
            unrecorded_steps: self.unrecorded,
            comparisons: u32::try_from(self.found.len()).unwrap_or(u32::MAX),
            fraction: self.fraction(),
        })
    }

    fn fraction(&self) -> Option<Interval> {
        let mut found = self.found.clone();
        found.sort_unstable_by(f64::total_cmp);
        if found.len() < LEAST {
            return None;
        }
        let outside = outside(found.len());
        let (middle, last) = (found.len() / 2, found.len() - 1);
        let median = if found.len() % 2 == 1 { found[middle] } else { f64::midpoint(found[middle - 1], found[middle]) };
        Some(Interval { low: found[outside], median, high: found[last - outside] })
    }
}

/// The median of a block.
fn middle(mut block: [i64; BLOCK as usize]) -> i64 {
    block.sort_unstable();
    block[block.len() / 2]
}

/// How many of so many values may be left out at each end so that the others hold the median with 95 %, whatever their
/// distribution: each value lies below it with a probability of one half.
fn outside(count: usize) -> usize {
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
    use super::{BLOCK, BUDGET, Change, Overhead, SETTLE, outside};
    use proptest::prelude::*;

    /// A program whose steps take a millisecond, `1 + overhead` times that with callbacks; `noise` gets the number of the step
    /// and returns a factor. Returns the steps that went unrecorded, too.
    fn run(budget: u64, steps: u64, overhead: f64, mut noise: impl FnMut(u64) -> f64) -> (Overhead, Vec<u64>) {
        let mut measured = Overhead::new(budget);
        let thread = std::thread::current().id();
        let (mut now, mut paused, mut unrecorded) = (0_i64, false, Vec::new());
        for step in 0..steps {
            now += (1e6 * noise(step) * if paused { 1.0 } else { 1.0 + overhead }) as i64;
            if paused {
                unrecorded.push(step);
            }
            match measured.step_ended(thread, now) {
                Some(Change::Pause) => paused = true,
                Some(Change::Resume(_)) => paused = false,
                None => {}
            }
            assert_eq!(measured.is_paused(), paused);
        }
        (measured, unrecorded)
    }

    #[test]
    fn steps_that_are_lost_are_few_and_counted() {
        let (measured, unrecorded) = run(BUDGET, 2000, 0.1, |_| 1.0);
        let measured = measured.measured().unwrap();
        let comparisons = BUDGET / (BLOCK + SETTLE);
        assert_eq!(measured.unrecorded_steps, comparisons * (BLOCK + SETTLE));
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
    fn who_ends_no_more_steps_is_recorded_again() {
        let (mut measured, unrecorded) = run(BUDGET, 15, 0.0, |_| 1.0);
        assert_eq!((measured.is_paused(), unrecorded.len()), (true, 1));
        assert!(!measured.gives_up(15_000_000 + 30_000_000), "a slow step");
        assert!(measured.gives_up(15_000_000 + 50_000_000) && !measured.is_paused());
        assert!(!measured.gives_up(i64::MAX), "there is nothing to give up");
    }

    #[test]
    fn steps_of_a_second_thread_are_left_out() {
        let mut measured = Overhead::new(BUDGET);
        let own = std::thread::current().id();
        let other = std::thread::spawn(|| std::thread::current().id()).join().unwrap();
        let changes = |thread, from: i64, measured: &mut Overhead| {
            (from..from + 30).filter_map(|step| measured.step_ended(thread, step * 1000)).count()
        };
        assert_eq!((changes(own, 0, &mut measured), changes(other, 30, &mut measured)), (2, 0));
    }

    #[test]
    fn an_interval_leaves_out_what_the_binomial_distribution_lets() {
        // The sign test's tables: of six values the interval is from the least to the greatest, of 20 from the sixth on.
        assert_eq!([6, 8, 9, 12, 20].map(outside), [0, 0, 1, 2, 5]);
    }

    proptest! {
        /// Steps that drift, every tenth of which takes three times as long, and that vary by some percent.
        #[test]
        fn planted_overhead_is_told(seed in any::<u64>(), drift in -0.0005..0.0005_f64) {
            for planted in [0.0, 0.01, 0.05, 0.2] {
                let mut random = seed | 1;
                let (measured, _) = run(BUDGET, 600, planted, |step| {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let noise = 0.98 + 0.04 * (random >> 11) as f64 / (1_u64 << 53) as f64;
                    noise * (1.0 + drift * step as f64) * if step % 10 == 0 { 3.0 } else { 1.0 }
                });
                let found = measured.measured().and_then(|measured| measured.fraction).expect("many steps");
                prop_assert!((found.median - planted).abs() < 0.015, "{:?}, planted {}", found, planted);
                prop_assert!(found.low <= found.median && found.median <= found.high);
            }
        }
    }
}
