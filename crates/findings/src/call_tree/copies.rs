//! Redundant operators in call trees: copies that reorder tensors (SL017), and gradients filled with zeros
//! (SL042). Only for programs without a GPU, because the host's time excludes GPU work.

use super::call_candidate::{CallCandidate, signed};
use super::call_rule_context::CallRuleContext;
use super::frame_classes::FrameClasses;
use super::operators::{Calls, Operators, is_of_loop};
use super::steps::below;
use super::thread::inclusive;
use crate::Fact;
use crate::rules::{copy_chains, zeroed_gradients};
use stackline_critical_path::exact::what_if::Gain;
use stackline_model::{CallNodeId, Frame, FrameId, FrameKind, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::aten;
use stackline_timeline::vocabulary::autograd::is_accumulation;
use stackline_timeline::vocabulary::python::ZERO_GRAD;
use std::collections::BTreeMap;

/// Candidates for copies that reorder tensors, and for gradients filled with zeros; none for programs that use a GPU.
pub(super) fn find(operators: &Operators<'_, '_>, kinds: &FrameClasses) -> Vec<CallCandidate> {
    if operators.context.uses_gpu {
        return Vec::new();
    }
    let spans = operators.spans(ZERO_GRAD);
    // Each optimizer gets an equal part of all gradient sums.
    let sums = gradient_additions(operators).shared_by(spans.len());
    let zeroed = spans.into_iter().filter_map(|(name, spans)| zeroed(operators, (name, &spans), &sums));
    zeroed.chain(reordered(operators, kinds)).collect()
}

/// Candidates for outermost operators that reorder tensors by copying, one per line and operator.
fn reordered(operators: &Operators<'_, '_>, kinds: &FrameClasses) -> Vec<CallCandidate> {
    let context = operators.context;
    let forward = Forward::new(context);
    let is_copy = |node: &&CallNodeId| {
        let at = node.index();
        let is_copied = forward.copies[at] && !forward.converts[at];
        aten::reorders(context.name(**node))
            && is_copied
            && !kinds.is_classified(**node)
            && !operators.is_of_other_rule[at]
    };
    let mut by_path: BTreeMap<(CallNodeId, &str), Calls> = BTreeMap::new();
    for &node in operators.outermost.iter().filter(is_copy) {
        let calls = Calls { ns: forward.ns[node.index()], ..operators.calls(node) };
        by_path.entry((context.line_node(node), context.name(node))).or_default().add(&calls);
    }
    let mut by_line: BTreeMap<(FrameId, &str), Calls> = BTreeMap::new();
    // SL038 reports small ones in a loop.
    for ((line, operator), all) in by_path.into_iter().filter(|(_, all)| !is_of_loop(context, all)) {
        by_line.entry((context.line(line), operator)).or_default().add(&all);
    }
    by_line
        .into_iter()
        .filter_map(|((line, operator), all)| copies_candidate(operators, line, operator, &all))
        .collect()
}

/// Time, copies and conversions of operators at or below each node, without nodes of backward passes, which are below
/// their forward operators.
struct Forward {
    /// Elapsed time, in ns.
    ns: Vec<u64>,
    /// True if elements are copied.
    copies: Vec<bool>,
    /// True if elements are converted.
    converts: Vec<bool>,
}

impl Forward {
    /// Sum the times and flags of each node with those of all nodes below.
    fn new(context: &CallRuleContext<'_>) -> Self {
        let tree = context.tree;
        let backward = below(tree, |node| tree.frame(node).map(Frame::kind) == Some(FrameKind::Backward));
        let of_node = |node: CallNodeId| {
            let is_called = context.thread.calls[node.index()] > 0 && !backward[node.index()];
            let name = context.name(node);
            let ns = if backward[node.index()] { 0 } else { context.thread.operators[node.index()] };
            (ns, is_called && name == aten::COPY, is_called && aten::converts(name))
        };
        let all = inclusive(tree, tree.nodes.ids().map(of_node).collect(), |(ns, copies, converts), below| {
            *ns = ns.saturating_add(below.0);
            *copies |= below.1;
            *converts |= below.2;
        });
        Self {
            ns: all.iter().map(|of| of.0).collect(),
            copies: all.iter().map(|of| of.1).collect(),
            converts: all.iter().map(|of| of.2).collect(),
        }
    }
}

/// Candidate for one operator that reorders tensors at one line; `None` if the share of the time is small.
fn copies_candidate(
    operators: &Operators<'_, '_>,
    line: FrameId,
    operator: &str,
    all: &Calls,
) -> Option<CallCandidate> {
    let context = operators.context;
    let rule = &copy_chains::RULE;
    let share = context.percent(all.ns);
    if share < context.setting(rule, "share") {
        return None;
    }
    let mut place = context.place(line);
    place.operator = Some(operator.to_owned());
    let ns = signed(all.ns);
    Some(CallCandidate {
        rule,
        title: copy_chains::title(operator, share, "the time", false),
        place,
        facts: vec![
            Fact::count("copies", usize::try_from(all.calls).unwrap_or(usize::MAX)),
            Fact { name: "share of the copies in the thread's time", value: share, unit: Unit::Percent },
            Fact::time("total time of the copies per step", context.per_step(all.ns)),
        ],
        kind: None,
        confidence: Confidence::Medium,
        // The following operators may get slower without the copy.
        gain: Gain::new(ns, 0, ns),
        is_within_other: false,
        covers_ns: all.ns,
    })
}

/// Candidate for calls of an optimizer that fill gradients with zeros, and backward passes that add to them; `None` for
/// few.
fn zeroed(operators: &Operators<'_, '_>, (name, spans): (&str, &[CallNodeId]), sums: &Calls) -> Option<CallCandidate> {
    let context = operators.context;
    let rule = &zeroed_gradients::RULE;
    let all = operators.below(spans);
    let of_one = all.get(aten::ZERO).cloned().unwrap_or_default();
    let of_lists = all.get(aten::FOREACH_ZERO).cloned().unwrap_or_default();
    let times: u64 = spans.iter().map(|span| context.thread.calls[span.index()]).sum();
    let times = context.thread.scale_to_recorded(times).max(1);
    // The length of a list is not recorded.
    let per_call = (of_lists.calls == 0).then(|| usize::try_from(of_one.calls / times).unwrap_or(usize::MAX));
    let is_few = |per_call: usize| (per_call as f64) < context.setting(rule, "gradients");
    let fills_ns = of_one.ns.saturating_add(of_lists.ns);
    if fills_ns == 0 || per_call.is_some_and(is_few) {
        return None;
    }
    // Only the first backward pass of a step adds to zeros.
    let first = of_one.calls as f64 / sums.calls.max(1) as f64;
    let first_ns = if per_call.is_some() { (sums.ns as f64 * first.min(1.0)) as u64 } else { 0 };
    let covers_ns = fills_ns.saturating_add(first_ns);
    let [low_ns, ns, high_ns] = [fills_ns, covers_ns, fills_ns.saturating_add(sums.ns)].map(signed);
    let time = context.words().time_per_step(context.per_step(fills_ns));
    Some(CallCandidate {
        rule,
        title: zeroed_gradients::title(name, per_call, &time),
        place: context.place(context.line(*spans.first()?)),
        facts: vec![
            Fact::count("calls", usize::try_from(times).unwrap_or(usize::MAX)),
            Fact::time("time of filling gradients with zeros per step", context.per_step(fills_ns)),
            Fact::time("time of adding gradients to zeros per step", context.per_step(first_ns)),
        ],
        kind: None,
        confidence: Confidence::Medium,
        gain: Gain::new(ns, low_ns, high_ns),
        is_within_other: false,
        covers_ns,
    })
}

/// Number and time of the gradient additions in all backward passes.
fn gradient_additions(operators: &Operators<'_, '_>) -> Calls {
    let context = operators.context;
    let accumulates = below(context.tree, |node| is_accumulation(context.name(node)));
    let mut all = Calls::default();
    let is_sum = |node: &CallNodeId| accumulates[node.index()] && context.name(*node) == aten::ADD_IN_PLACE;
    context.nodes().filter(is_sum).for_each(|node| all.add(&operators.calls(node)));
    all
}
