//! Evidence that work of a calling context tree repeats in each step.

use super::step_ends::Ends;
use super::step_marks::{Mark, is_mark, is_span};
use super::thread::{Thread, inclusive};
use stackline_model::{CallNodeId, CallStats, CallingContextTree, Frame};
use stackline_timeline::vocabulary::python::TAKE_BATCH;
use std::collections::BTreeSet;

/// Evidence, for each node with its callees, that its work repeats in each step: calls, waits and step marks.
pub(super) struct RepeatedWork {
    /// Has as many calls as steps.
    pub(super) once: Vec<bool>,
    /// Has a multiple of as many calls.
    pub(super) steps: Vec<bool>,
    /// Has any counted calls.
    pub(super) any: Vec<bool>,
    /// Has repeated waits.
    pub(super) waits: Vec<bool>,
    /// Has marks of steps, of any optimizer.
    pub(super) marks: Vec<bool>,
    /// Number of calls.
    pub(super) calls: Vec<u64>,
    /// Number of calls in counts that are an exact multiple of the steps.
    pub(super) of_each: Vec<u64>,
    /// Time in ns, without imports and compilations.
    pub(super) time: Vec<u64>,
    /// End times of steps from the recorder.
    pub(super) ends: Option<Ends>,
}

/// Least number of sampled waits per step of a node that waits in each step: samples miss some waits.
const MIN_WAITS: f64 = 0.5;
/// Largest sample of a wait in steps, as a multiple of the mean. Samples of one long wait grow with its length.
const MAX_WAIT_RATIO: f64 = 4.0;
/// Number of consecutive steps that the recorder does not record, unless the program does other work in between.
const UNRECORDED_BLOCK: u64 = 4;

impl RepeatedWork {
    /// Collect, for each node with its callees, the evidence that its work repeats in each step. The recorder may skip
    /// steps to measure its overhead, and a program may run its steps from several lines.
    pub(super) fn new(tree: &CallingContextTree, thread: &Thread, mark: &Mark, is_once: &[bool]) -> Self {
        let recorded = thread.scale_to_recorded(mark.calls);
        let of_nodes = || mark.nodes.iter().map(|node| thread.calls[node.index()]);
        let counts = distinct_counts(of_nodes().chain([mark.calls, recorded]));
        // Spans are counted in all steps, other calls only in recorded steps.
        let of_spans = distinct_counts(of_nodes().chain([mark.calls]));
        let is_exact = mark.nodes.len() == 1 && thread.overhead.unrecorded_steps.is_multiple_of(UNRECORDED_BLOCK);
        let of_others = if is_exact { distinct_counts([recorded].into_iter()) } else { counts.clone() };
        // A loader receives one more request at the end of each epoch.
        let is_take = |node, calls: u64| calls >= recorded.max(1) && is_span(tree, node, TAKE_BATCH);
        let is_multiple = |counts: &[u64], calls: u64| calls > 0 && counts.iter().any(|&c| calls.is_multiple_of(c));
        let is_of_each = |node, calls: u64| {
            let is_span = matches!(tree.frame(node), Some(Frame::Span { .. }));
            is_multiple(if is_span { &of_spans } else { &of_others }, calls) || is_take(node, calls)
        };
        let calls = |node: CallNodeId| thread.calls[node.index()];
        let any_below = |is_it: &dyn Fn(CallNodeId) -> bool| {
            inclusive(tree, tree.nodes.ids().map(is_it).collect(), |any, below| *any |= below)
        };
        let sum_below = |value: &dyn Fn(CallNodeId) -> u64| {
            let value = |node: CallNodeId| if is_once[node.index()] { 0 } else { value(node) };
            inclusive(tree, tree.nodes.ids().map(value).collect(), |sum: &mut u64, below| {
                *sum = sum.saturating_add(below);
            })
        };
        let waits_again = |waits: &CallStats| {
            waits.count as f64 >= MIN_WAITS * recorded.max(2) as f64
                && waits.max as f64 <= MAX_WAIT_RATIO * waits.mean()
        };
        Self {
            waits: any_below(&|node| thread.waits.get(&node).is_some_and(waits_again)),
            once: any_below(&|node| counts.binary_search(&calls(node)).is_ok() || is_take(node, calls(node))),
            steps: any_below(&|node| is_multiple(&counts, calls(node)) || is_take(node, calls(node))),
            any: any_below(&|node| calls(node) > 0),
            marks: any_below(&|node| calls(node) > 1 && is_mark(tree, node)),
            calls: sum_below(&calls),
            of_each: sum_below(&|node| if is_of_each(node, calls(node)) { calls(node) } else { 0 }),
            time: sum_below(&|node| thread.own[node.index()].ns),
            ends: Ends::new(tree, thread),
        }
    }
}

/// Distinct counts in ascending order, without 0 and 1, which do not identify the steps.
fn distinct_counts(counts: impl Iterator<Item = u64>) -> Vec<u64> {
    let counts: BTreeSet<u64> = counts.filter(|&count| count > 1).collect();
    counts.into_iter().collect()
}
