//! Composition of a step in a recording of a call tree: operators, waits, and the rest of the program.

use super::call_rule_context::CallRuleContext;
use super::steps::with_steps_as_one;
use super::thread::{TimeSource, is_stackline_recording, rank_of};
use crate::Settings;
use stackline_model::{CallMetric, CallThreadId, CallingContextTree, FrameId};
use stackline_timeline::source_location::SourceLocation;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Time of a step, or of the whole run without step marks, on the thread with the steps. Times are in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepTime {
    /// Number of steps, over which times are means; 0 without step marks, with times of the whole run.
    pub steps: usize,
    /// Rank with the longest step, among the eight with most time on their busiest threads; `None` for a job without
    /// ranks.
    pub rank: Option<i64>,
    /// Number of samples of the thread in all steps, on which times are based. Operators also have elapsed times.
    pub samples: usize,
    /// Total time.
    pub ns: i64,
    /// Inclusive time of operators on a processor.
    pub operators_ns: i64,
    /// Waits for locks, input, other threads or a processor. `None` without such samples, which may not have been
    /// recorded.
    pub waits_ns: Option<i64>,
    /// Time in which no sample or operator shows the thread, because it was blocked in a call that is not sampled, or
    /// had no processor. 0 if it is small, or if the length of the steps was not measured.
    pub blocked_ns: i64,
    /// True for wall time, which includes waits unless they are separated; false for CPU time and sampled waits.
    pub is_wall_clock: bool,
    /// Excluded overhead of recording per step; `None` if unknown or insignificant.
    pub recording_ns: Option<i64>,
    /// Remaining time: Python and native code outside of operators.
    pub other_ns: i64,
    /// Line of the user's own code with most time, including callees outside of the user's code.
    pub busiest: Option<(SourceLocation, i64)>,
}

/// Composition of a step; of several ranks that of the longest step. `None` for profiles, which have no operators, and
/// for recordings of only operators, in which the time between operators is unknown.
#[must_use]
pub fn step_time(tree: &CallingContextTree) -> Option<StepTime> {
    if !is_stackline_recording(tree) {
        return None;
    }
    let merged = with_steps_as_one(tree);
    let tree = merged.as_ref().unwrap_or(tree);
    let of_rank = |rank| {
        let settings = Settings::default();
        let context = CallRuleContext::new(tree, rank, &settings)?;
        let has_operators = context.in_operator.iter().any(|&inside| inside);
        (has_operators && context.thread.known != TimeSource::Operators).then(|| composition(&context, rank))
    };
    let ranks = busiest_ranks(tree);
    if ranks.is_empty() {
        return of_rank(None);
    }
    let of_each = ranks.into_iter().take(MAX_RANKS).filter_map(|rank| of_rank(Some(rank)));
    of_each.max_by_key(|time| (time.steps > 0, time.ns, Reverse(time.rank)))
}

/// Number of analyzed ranks: each analysis reads the whole tree.
const MAX_RANKS: usize = 8;

/// Ranks in descending order of the sampled time of their busiest thread.
fn busiest_ranks(tree: &CallingContextTree) -> Vec<i64> {
    let mut by_thread: BTreeMap<CallThreadId, u64> = BTreeMap::new();
    for (_, thread, metric, stats) in tree.metrics.iter() {
        if matches!(metric, CallMetric::CpuTime | CallMetric::WallTime | CallMetric::WaitTime) {
            let sum = by_thread.entry(thread).or_default();
            *sum = sum.saturating_add(stats.sum);
        }
    }
    let mut by_rank: BTreeMap<i64, u64> = BTreeMap::new();
    for (thread, ns) in by_thread {
        if let Some(rank) = rank_of(tree, thread) {
            let most = by_rank.entry(rank).or_default();
            *most = ns.max(*most);
        }
    }
    let mut ranks: Vec<(i64, u64)> = by_rank.into_iter().collect();
    ranks.sort_by_key(|&(rank, ns)| (Reverse(ns), rank));
    ranks.into_iter().map(|(rank, _)| rank).collect()
}

/// Composition of the step of one context: operators, waits, time without samples, and the rest, in ns per step. `rank`
/// labels the result.
fn composition(context: &CallRuleContext<'_>, rank: Option<i64>) -> StepTime {
    let (mut operators, mut waits, mut lines): (u64, u64, BTreeMap<FrameId, u64>) = (0, 0, BTreeMap::new());
    let mut samples = 0u64;
    for node in context.nodes() {
        let time = context.thread.own[node.index()];
        waits = waits.saturating_add(time.waits_ns);
        samples = samples.saturating_add(time.samples);
        if context.in_operator[node.index()] {
            operators = operators.saturating_add(time.computing().ns);
        }
        let at_line = lines.entry(context.line(node)).or_default();
        *at_line = at_line.saturating_add(time.ns);
    }
    let [ns, operators_ns, waits_ns, blocked_ns] =
        [context.window_ns(), operators, waits, context.blocked_ns].map(|ns| context.per_step(ns));
    let busiest = lines.into_iter().filter(|(line, _)| line.some().is_some()).max_by_key(|&(_, ns)| ns);
    StepTime {
        steps: context.steps.count,
        rank,
        samples: usize::try_from(samples).unwrap_or(usize::MAX),
        ns,
        operators_ns,
        waits_ns: context.knows_waits().then_some(waits_ns),
        blocked_ns,
        is_wall_clock: context.thread.known == TimeSource::Wall,
        recording_ns: context.overhead.map(|_| context.per_step(context.overhead_ns)),
        other_ns: (ns - operators_ns - waits_ns - blocked_ns).max(0),
        busiest: busiest.map(|(line, ns)| (context.place(line), context.per_step(ns))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, TestTree, training};
    use super::step_time;
    use stackline_model::{CallMetric, CallStepEnds};

    const AT: &str = "train.py:50 <module> > train.py:";

    #[test]
    fn step_consists_of_operators_waits_and_rest() {
        let mut made = training();
        made.waits(&format!("{AT}22 main > io.py:4 fetch > /usr/lib/python3.11/queue.py:171 Queue.get"), 1500);
        made.cpu(&format!("{AT}22 main > io.py:5 fetch"), 100);
        let time = step_time(&made.builder.finish()).unwrap();
        let ms = |ns: i64| ns / MS as i64;
        assert_eq!((time.steps, time.rank, ms(time.ns)), (10, None, 260));
        // The optimizer's span has exclusive time outside of operators.
        assert_eq!((ms(time.operators_ns), time.waits_ns.map(ms), ms(time.other_ns)), (80, Some(150), 30));
        let (place, ns) = time.busiest.unwrap();
        assert_eq!((place.file.as_deref(), place.line, ms(ns)), (Some("io.py"), Some(4), 150));
    }

    /// Ten steps of 300 ms by their ends, of which samples show 100 ms.
    #[test]
    fn time_without_samples_is_separate() {
        let mut made = TestTree::new();
        let ends = CallStepEnds { count: 10, first_ns: 300 * MS, last_ns: 3_000 * MS };
        made.step_ends(ends, ends.last_ns);
        for (path, ms) in [("21 main > aten::mm", 800), ("23 main > Optimizer.step#SGD.step", 200)] {
            made.calls(&format!("{AT}{path}"), 10, ms);
            made.cpu(&format!("{AT}{path}"), ms);
        }
        let time = step_time(&made.builder.finish()).unwrap();
        let times = [time.ns, time.operators_ns, time.blocked_ns, time.other_ns].map(|ns| ns / MS as i64);
        assert_eq!((times, time.waits_ns), ([300, 80, 200, 20], None));
    }

    #[test]
    fn longest_step_of_all_ranks_is_reported() {
        let mut made = TestTree::new();
        for (rank, wait) in [(0, 100), (1, 700), (2, 200)] {
            made.rank(rank);
            made.calls(&format!("{AT}21 main > aten::mm"), 20, 400);
            made.cpu(&format!("{AT}21 main > aten::mm"), 400);
            made.waits(&format!("{AT}22 main"), wait);
            made.calls(&format!("{AT}23 main > Optimizer.step#SGD.step"), 10, 100);
            made.cpu(&format!("{AT}23 main > Optimizer.step#SGD.step"), 100);
        }
        // A rank without steps serves the others.
        made.rank(3);
        made.calls("serve.py:5 <module> > aten::mm", 20, 9000);
        made.cpu("serve.py:5 <module> > aten::mm", 9000);
        let time = step_time(&made.builder.finish()).unwrap();
        assert_eq!((time.rank, time.steps, time.waits_ns), (Some(1), 10, Some(70 * MS as i64)));
    }

    #[test]
    fn time_between_operators_is_unknown_without_samples() {
        let mut made = TestTree::new();
        made.calls(&format!("{AT}21 main > aten::mm"), 10, 400);
        assert_eq!(step_time(&made.builder.finish()), None);
        // Without recorded waits, all time counts as CPU time.
        let time = step_time(&training().builder.finish()).unwrap();
        assert_eq!((time.waits_ns, time.is_wall_clock, time.recording_ns), (None, false, None));
    }

    #[test]
    fn wall_time_samples_are_no_cpu_time() {
        let mut made = training();
        made.add((1, 0), &format!("{AT}22 main"), CallMetric::WallTime, (50, 500 * MS));
        let time = step_time(&made.builder.finish()).unwrap();
        assert_eq!((time.waits_ns, time.is_wall_clock, time.ns), (None, true, 50 * MS as i64));
    }

    #[test]
    fn subtracted_recording_overhead_is_reported() {
        let mut made = TestTree::new();
        made.overhead(2, Some(25));
        for line in [21, 22] {
            made.calls(&format!("{AT}{line} main > aten::mm"), 20, 200);
            made.cpu(&format!("{AT}{line} main > aten::mm"), 200);
            made.cpu(&format!("{AT}{line} main"), 300);
        }
        made.calls(&format!("{AT}23 main > Optimizer.step#SGD.step"), 10, 0);
        let time = step_time(&made.builder.finish()).unwrap();
        // A fifth of 1000 ms is overhead of recording.
        let rounded_ms = |ns: i64| (ns * time.steps as i64 + MS as i64 / 2) / MS as i64;
        assert_eq!((rounded_ms(time.ns), time.recording_ns.map(rounded_ms)), (800, Some(200)));
    }
}
