//! Lines that run after the training loop, in the function that contains the loop: an evaluation, a checkpoint, a plot.
//!
//! A calling context tree has no order. Lines after the last one that runs once in each step are separated from the
//! loop by counts of calls. If the recorder has the end times of steps, it also uses times: lines after the loop fit
//! into the time after the last step, but not into the steps.

use super::repeated_work::RepeatedWork;
use super::thread::Thread;
use stackline_model::{CallNodeId, CallingContextTree};
use std::collections::BTreeSet;

/// Factor of the error of sampled times.
const TOLERANCE: f64 = 1.25;
/// Additional error in ns, for the weight of a few samples.
const SLACK_NS: f64 = 50e6;

/// Lines of the loop's function that run after the loop, or possibly do so: lines below the last one that runs once in
/// each step.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AfterLoop {
    /// Excluded lines.
    pub(super) left_out: Vec<CallNodeId>,
    /// Lines that may be after the loop or part of each step.
    pub(super) unknown: Vec<CallNodeId>,
}

/// Line number, node, and evidence from counts.
type Line = (u32, CallNodeId, CallsPerStep);

/// Number of runs of a line per step, as its counts of calls show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallsPerStep {
    /// Run once in each step.
    Once,
    /// May run several times in each step: the counts are multiples of the number of steps.
    Multiple,
    /// Does not run in each step.
    Other,
    /// Makes no counted calls.
    None,
}

impl AfterLoop {
    /// Find the lines after the loop among the lines of a function, each given with its node.
    pub(super) fn find(
        (tree, thread): (&CallingContextTree, &Thread),
        lines: &[(u32, CallNodeId)],
        repeated: &RepeatedWork,
    ) -> Self {
        let of_line = |&(line, node): &(u32, CallNodeId)| (line, node, classify_calls(repeated, node));
        let mut lines: Vec<Line> = lines.iter().map(of_line).collect();
        lines.sort_by_key(|&(line, node, _)| (line, node));
        let Some(last) =
            lines.iter().filter(|(.., counts)| *counts == CallsPerStep::Once).map(|(line, ..)| *line).max()
        else {
            return Self::default();
        };
        let (within, mut after): (Vec<Line>, Vec<Line>) = lines.into_iter().partition(|(line, ..)| *line <= last);
        if after.is_empty() {
            return Self::default();
        }
        find_same_counts((tree, thread), &within, &mut after);
        let time = |lines: &[Line]| {
            lines.iter().fold(0_u64, |sum, (_, node, _)| sum.saturating_add(repeated.time[node.index()]))
        };
        let all = time(&after);
        let (left_out, unknown) = by_counts(&after);
        match repeated.ends {
            Some(ends) if !fits_within(all, ends.after_ns) => Self::default(),
            Some(ends) if !fits_within(time(&within).saturating_add(all), ends.steps_ns) => {
                Self { left_out: after.into_iter().map(|(_, node, _)| node).collect(), unknown: Vec::new() }
            }
            // Without times, or if times allow both, counts decide.
            _ => Self { left_out, unknown },
        }
    }
}

/// Mark lines of `after` that have the same counts of calls as lines of the loop, and so belong to the loop. The number
/// of steps excludes the last, incomplete batches of an epoch.
fn find_same_counts((tree, thread): (&CallingContextTree, &Thread), within: &[Line], after: &mut [Line]) {
    let mut owner: Vec<Option<usize>> = vec![None; tree.nodes.len()];
    let each = within.iter().chain(&*after).enumerate();
    each.for_each(|(at, (_, node, _))| owner[node.index()] = Some(at));
    for node in tree.nodes.ids().skip(1) {
        owner[node.index()] = owner[node.index()].or(owner[tree.nodes.parent[node.index()].index()]);
    }
    let counted = || owner.iter().zip(&thread.calls).filter_map(|(owner, &calls)| Some(((*owner)?, calls)));
    let of_loop: BTreeSet<u64> =
        counted().filter(|&(at, calls)| at < within.len() && calls > 1).map(|(_, calls)| calls).collect();
    let mut same = vec![(0_u64, 0_u64); after.len()];
    for (at, calls) in counted() {
        if let Some((same, all)) = at.checked_sub(within.len()).and_then(|at| same.get_mut(at)) {
            *all = all.saturating_add(calls);
            *same = same.saturating_add(if of_loop.contains(&calls) { calls } else { 0 });
        }
    }
    for ((.., counts), (same, all)) in after.iter_mut().zip(same) {
        if *counts == CallsPerStep::Other && same.saturating_mul(2) >= all {
            *counts = CallsPerStep::Multiple;
        }
    }
}

/// Check if a sampled time fits into a time range, within the sampling error.
fn fits_within(ns: u64, within_ns: u64) -> bool {
    ns as f64 <= TOLERANCE * within_ns as f64 + SLACK_NS
}

/// Divide the lines below the loop by their counts: lines that are after the loop, and lines without such evidence. The
/// loop includes all lines up to the last one whose counts are multiples of the steps.
fn by_counts(after: &[Line]) -> (Vec<CallNodeId>, Vec<CallNodeId>) {
    let multiple = after.iter().rposition(|(.., counts)| *counts == CallsPerStep::Multiple).map_or(0, |at| at + 1);
    let first = after.iter().skip(multiple).position(|(.., counts)| *counts == CallsPerStep::Other);
    let first = first.map_or(after.len(), |at| multiple + at);
    let nodes = |lines: &[Line]| lines.iter().map(|(_, node, _)| *node).collect();
    (nodes(after.get(first..).unwrap_or_default()), nodes(after.get(..first).unwrap_or_default()))
}

/// Classify a line by its counts of calls: once or several times per step, other, or no calls.
fn classify_calls(repeated: &RepeatedWork, node: CallNodeId) -> CallsPerStep {
    let at = node.index();
    match repeated.calls[at] {
        _ if repeated.marks[at] || repeated.waits[at] => CallsPerStep::Once,
        0 => CallsPerStep::None,
        // Work of each step has such counts, except for work that depends on data.
        calls if repeated.of_each[at].saturating_mul(2) < calls => CallsPerStep::Other,
        _ if repeated.once[at] => CallsPerStep::Once,
        _ => CallsPerStep::Multiple,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, TestTree, summaries, training};
    use stackline_model::CallStepEnds;

    const AT: &str = "train.py:50 <module> > train.py:";

    fn is_noted(found: &crate::Findings, part: &str) -> bool {
        found.notes.iter().any(|note| note.contains(part))
    }

    /// Loop of 10 steps of 100 ms that the recorder saw end.
    fn timed(after_ms: u64) -> TestTree {
        let mut made = TestTree::new();
        let ends = CallStepEnds { count: 10, first_ns: 1_000 * MS, last_ns: 1_900 * MS };
        made.step_ends(ends, (1_900 + after_ms) * MS);
        training_in(made)
    }

    fn training_in(mut made: TestTree) -> TestTree {
        for (path, ms) in [("21 main > aten::mm", 800), ("23 main > Optimizer.step#SGD.step", 200)] {
            made.calls(&format!("{AT}{path}"), 10, ms);
            made.cpu(&format!("{AT}{path}"), ms);
        }
        made
    }

    #[test]
    fn evaluation_after_the_loop_is_excluded_from_steps() {
        let mut made = training();
        let validate = format!("{AT}26 main > train.py:9 validate > aten::addmm");
        made.calls(&validate, 1504, 1500);
        made.cpu(&validate, 1500);
        // All later lines are after the loop, too.
        made.cpu(&format!("{AT}27 main > train.py:60 plot"), 700);
        let found = made.found();
        assert_eq!((found.steps, found.step_ns), (10, 100 * MS as i64), "{:?}", found.notes);
        assert!(is_noted(&found, "7240 ms of the analyzed thread"), "{:?}", found.notes);
        assert!(is_noted(&found, "to the last line that runs operators or waits in each step"), "{:?}", found.notes);
        assert!(found.uncovered.groups.iter().all(|group| group.name != "aten::addmm"), "{:?}", found.uncovered);
    }

    #[test]
    fn occasional_work_before_the_last_loop_line_belongs_to_the_loop() {
        let mut made = training();
        made.calls(&format!("{AT}25 main > aten::item"), 3, 300);
        made.cpu(&format!("{AT}25 main > aten::item"), 300);
        made.calls(&format!("{AT}26 main > Optimizer.zero_grad#SGD.zero_grad"), 10, 0);
        assert_eq!(made.found().step_ns, 130 * MS as i64);
    }

    #[test]
    fn second_optimizer_belongs_to_the_loop() {
        let mut made = training();
        made.calls(&format!("{AT}26 main > Optimizer.step#Adam.step"), 50, 0);
        made.cpu(&format!("{AT}26 main > Optimizer.step#Adam.step"), 500);
        let found = made.found();
        assert_eq!((found.steps, found.step_ns), (10, 150 * MS as i64));
        assert!(!is_noted(&found, "may run after"), "{:?}", found.notes);
    }

    #[test]
    fn multiples_of_the_step_count_are_ambiguous() {
        let found = |count: u64| {
            let mut made = training();
            made.calls(&format!("{AT}26 main > train.py:9 augment > aten::mul"), count, 400);
            made.cpu(&format!("{AT}26 main > train.py:9 augment > aten::mul"), 400);
            made.found()
        };
        // Averaging of weights, or work after the loop.
        let (multiple, other) = (found(500), found(507));
        assert_eq!((multiple.step_ns, other.step_ns), (140 * MS as i64, 100 * MS as i64));
        let may = "train.py:26 in main may run after the step loop instead of in each step: 40.00 ms";
        assert!(is_noted(&multiple, may) && !is_noted(&other, "may run after"), "{:?}", multiple.notes);
    }

    #[test]
    fn time_after_the_last_step_resolves_multiples() {
        let with = |after_ms: u64, ms: u64, count: u64| {
            let mut made = timed(after_ms);
            let mut line = format!("{AT}26 main > train.py:9 augment");
            if count > 0 {
                line.push_str(" > aten::mul");
                made.calls(&line, count, ms / 2);
            }
            made.cpu(&line, ms);
            let found = made.found();
            assert!(!is_noted(&found, "may run after"), "{:?}", found.notes);
            found.step_ns / MS as i64
        };
        // The time fits after the loop, but not into the loop.
        assert_eq!((with(1300, 1250, 500), with(1300, 1250, 0)), (100, 100));
        // The time does not fit after the loop: it belongs to the steps, although samples exceed their duration.
        assert_eq!((with(10, 1250, 500), with(10, 1250, 0)), (225, 225));
        assert_eq!(summaries(&timed(1300).found()), []);
    }

    /// If times add no information to counts, steps may contain work after the loop, as without times.
    #[test]
    fn lines_that_fit_both_in_and_after_the_loop_are_noted() {
        let mut made = timed(300);
        let line = format!("{AT}26 main > train.py:9 augment > aten::mul");
        made.calls(&line, 500, 290);
        made.cpu(&line, 290);
        let found = made.found();
        assert_eq!(found.step_ns, 129 * MS as i64);
        assert!(
            is_noted(&found, "train.py:26 in main may run after the step loop instead of in each step: 29.00 ms"),
            "{:?}",
            found.notes
        );
    }
}
