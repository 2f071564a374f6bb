//! Operators in call trees, and findings by their number: unfused optimizers (SL015) and loops of small
//! operators (SL038).

use super::call_candidate::{CallCandidate, bounded_gain, signed};
use super::call_rule_context::CallRuleContext;
use super::frame_classes::FrameClasses;
use super::steps::below;
use super::thread::{Time, inclusive};
use crate::Fact;
use crate::rules::{operators_in_loops, unfused_optimizer};
use stackline_critical_path::exact::what_if::Gain;
use stackline_model::{CallNodeId, Frame, FrameKind, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::autograd::ENGINE;
use stackline_timeline::vocabulary::kernels::is_multi_tensor;
use stackline_timeline::vocabulary::python::{OPTIMIZER, OPTIMIZER_STEP};
use std::collections::BTreeMap;

/// Candidates for unfused optimizers, and for loops of small operators.
pub(super) fn find(operators: &Operators<'_, '_>, kinds: &FrameClasses) -> Vec<CallCandidate> {
    let context = operators.context;
    let is_fused = |name: &str| name.contains("Fused");
    let optimizers = operators.spans(OPTIMIZER_STEP).into_iter().filter(|(name, _)| !is_fused(name));
    let optimizers = optimizers.filter_map(|(_, spans)| unfused(operators, &spans));
    // The cost of fused optimizers is known only for CPUs.
    let optimizers = optimizers.filter(|_| !context.uses_gpu);
    optimizers.chain(loops(operators, kinds)).collect()
}

/// Outermost operators of the thread in a call tree, with the elapsed time of each node.
pub(super) struct Operators<'c, 'a> {
    pub(super) context: &'c CallRuleContext<'a>,
    /// Inclusive elapsed time of each node, in ns.
    ns: Vec<u64>,
    pub(super) outermost: Vec<CallNodeId>,
    /// True for nodes of an optimizer or a backward pass, which the calling line does not
    /// determine.
    pub(super) is_of_other_rule: Vec<bool>,
}

/// Number of calls of operators, and their total time in ns.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    pub(super) calls: u64,
    pub(super) ns: u64,
}

impl Calls {
    /// Add the number and time of other calls.
    pub(super) fn add(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.ns = self.ns.saturating_add(other.ns);
    }

    /// Number and time of the calls divided by `parts`.
    pub(super) fn shared_by(&self, parts: usize) -> Self {
        let parts = parts.max(1) as u64;
        Self { calls: self.calls / parts, ns: self.ns / parts }
    }
}

impl<'c, 'a> Operators<'c, 'a> {
    /// Collect the outermost operators, and sum elapsed times over all nodes below each node.
    pub(super) fn new(context: &'c CallRuleContext<'a>) -> Self {
        let ns = inclusive(context.tree, context.thread.operators.clone(), |sum, ns| *sum = sum.saturating_add(ns));
        let is_operator = |node: &CallNodeId| context.tree.frame(*node).map(Frame::kind) == Some(FrameKind::Operator);
        let above = |node: &CallNodeId| context.tree.nodes.parent[node.index()];
        let is_outermost = |node: &CallNodeId| !context.in_operator[above(node).index()];
        let outermost = context.nodes().filter(is_operator).filter(is_outermost).collect();
        let is_of_other_rule = below(context.tree, |at| {
            let name = context.name(at);
            name.starts_with(OPTIMIZER) || name.starts_with(ENGINE)
        });
        Self { context, ns, outermost, is_of_other_rule }
    }

    /// Number of calls of a node, and their inclusive time.
    pub(super) fn calls(&self, node: CallNodeId) -> Calls {
        Calls { calls: self.context.thread.calls[node.index()], ns: self.ns[node.index()] }
    }

    /// Nodes with calls whose name begins with a prefix, by name.
    pub(super) fn spans(&self, prefix: &str) -> BTreeMap<&str, Vec<CallNodeId>> {
        let mut found: BTreeMap<&str, Vec<CallNodeId>> = BTreeMap::new();
        for node in self.context.nodes() {
            let name = self.context.name(node);
            if name.starts_with(prefix) && self.context.thread.calls[node.index()] > 0 {
                found.entry(name).or_default().push(node);
            }
        }
        found
    }

    /// Calls of the outermost operators at or below the nodes `spans`, by operator name.
    pub(super) fn below(&self, spans: &[CallNodeId]) -> BTreeMap<&str, Calls> {
        let mut by_name: BTreeMap<&str, Calls> = BTreeMap::new();
        let inside = below(self.context.tree, |node| spans.binary_search(&node).is_ok());
        for &node in self.outermost.iter().filter(|node| inside[node.index()]) {
            by_name.entry(self.context.name(node)).or_default().add(&self.calls(node));
        }
        by_name
    }
}

/// Candidate for an optimizer with several operators per parameter, if `unfused_optimizer` has the cost of one call on
/// a CPU.
fn unfused(operators: &Operators<'_, '_>, spans: &[CallNodeId]) -> Option<CallCandidate> {
    let context = operators.context;
    let rule = &unfused_optimizer::RULE;
    let name = context.name(*spans.first()?);
    let steps: u64 =
        context.thread.scale_to_recorded(spans.iter().map(|span| context.thread.calls[span.index()]).sum());
    let by_name = operators.below(spans);
    let backward = |name: &&str| stackline_timeline::vocabulary::autograd::is_node(name);
    let of_many = |name: &&str| is_multi_tensor(name);
    if by_name.keys().any(|name| of_many(name) || backward(name)) {
        return None;
    }
    let calls: u64 = by_name.values().map(|of| of.calls).sum();
    let operators_ns: u64 = by_name.values().map(|of| of.ns).sum();
    let (per_call, mean) = (calls as f64 / steps.max(1) as f64, operators_ns as f64 / calls.max(1) as f64);
    if per_call < context.setting(rule, "kernels") || mean > context.setting(rule, "mean_us") * 1e3 {
        return None;
    }
    // The most frequent operators of an optimizer run once per parameter.
    let mut counts: Vec<u64> = by_name.values().map(|of| of.calls).collect();
    counts.sort_unstable();
    let parameters = counts[counts.len() / 2];
    let beyond: f64 = by_name
        .values()
        .map(|of| (of.ns as f64 - of.calls as f64 * unfused_optimizer::OPERATOR_NS as f64).max(0.0))
        .sum();
    let spans_ns: u64 = spans.iter().map(|span| operators.ns[span.index()]).sum();
    let gain = |fused: f64| {
        let left = parameters as f64 * unfused_optimizer::PARAMETER_NS as f64 + beyond * fused;
        (spans_ns as f64 - left).max(0.0) as i64
    };
    let [ns, high_ns, low_ns] = unfused_optimizer::FUSED.map(gain);
    let optimizer = name.strip_prefix(OPTIMIZER_STEP).unwrap_or(name).trim_end_matches(".step");
    let count = |name, value: u64| Fact::count(name, usize::try_from(value).unwrap_or(usize::MAX));
    Some(CallCandidate {
        rule,
        title: format!(
            "Unfused optimizer: {optimizer} calls {per_call:.0} operators{}, mean {:.1} µs each",
            context.words().per_step_suffix(),
            mean / 1e3
        ),
        place: context.place(context.line(*spans.first()?)),
        facts: vec![
            count("operators", calls),
            count("parameters", parameters / steps.max(1)),
            Fact::time("optimizer time including Python per step", context.per_step(spans_ns)),
        ],
        kind: None,
        confidence: Confidence::Medium,
        gain: Gain::new(ns, low_ns.min(ns), high_ns.max(ns)),
        is_within_other: false,
        covers_ns: spans_ns,
    })
}

/// Candidates for lines that call an operator many times in each step.
fn loops(operators: &Operators<'_, '_>, kinds: &FrameClasses) -> Vec<CallCandidate> {
    let context = operators.context;
    // Without steps, any repeated work looks like a loop, such as layers.
    if context.steps.count == 0 {
        return Vec::new();
    }
    // By call path: layers that share their code are not iterations of a loop.
    let mut by_line: BTreeMap<CallNodeId, BTreeMap<&str, Calls>> = BTreeMap::new();
    for &node in operators
        .outermost
        .iter()
        .filter(|&&node| !kinds.is_classified(node) && !operators.is_of_other_rule[node.index()])
    {
        let of_line = by_line.entry(context.line_node(node)).or_default();
        of_line.entry(context.name(node)).or_default().add(&operators.calls(node));
    }
    let mut functions: BTreeMap<(CallNodeId, SourceLocation), Vec<Line>> = BTreeMap::new();
    for (line, by_name) in by_line {
        let calls: Vec<Calls> = by_name.into_values().filter(|calls| is_of_loop(context, calls)).collect();
        if !calls.is_empty() {
            let (place, caller) = (context.place(context.line(line)), context.caller(line));
            functions
                .entry((caller, SourceLocation { line: None, ..place.clone() }))
                .or_default()
                .push((line, place, calls));
        }
    }
    let between = time_outside_operators(context, kinds);
    let python = |lines: &[Line]| {
        let mut time = Time::default();
        lines.iter().filter_map(|(line, ..)| between.get(line)).for_each(|of_line| time.add(*of_line));
        time
    };
    functions.into_values().filter_map(|lines| loop_candidate(context, &lines, python(&lines))).collect()
}

/// Check if an operator is small, and called many times per step from one line.
pub(super) fn is_of_loop(context: &CallRuleContext<'_>, calls: &Calls) -> bool {
    let setting = |name| context.setting(&operators_in_loops::RULE, name);
    let (least, longest) = (setting("calls") * context.steps_or_one() as f64, setting("median_us") * 1e3);
    context.steps.count > 0 && calls.calls as f64 >= least && calls.ns as f64 <= longest * calls.calls.max(1) as f64
}

/// Line with the calls of each operator.
type Line = (CallNodeId, SourceLocation, Vec<Calls>);

/// Sampled computing time outside of operators and of other rules' frames, by line of the user's code.
fn time_outside_operators(context: &CallRuleContext<'_>, kinds: &FrameClasses) -> BTreeMap<CallNodeId, Time> {
    let mut found: BTreeMap<CallNodeId, Time> = BTreeMap::new();
    for node in context.nodes() {
        let time = context.thread.own[node.index()].computing();
        if time.ns > 0 && !context.in_operator[node.index()] && !kinds.is_classified(node) {
            found.entry(context.line_node(node)).or_default().add(time);
        }
    }
    found
}

/// Candidate for lines of one function that call small operators in a loop; `None` if the share of the time is small.
fn loop_candidate(context: &CallRuleContext<'_>, lines: &[Line], python: Time) -> Option<CallCandidate> {
    let rule = &operators_in_loops::RULE;
    let all = || lines.iter().flat_map(|(.., calls)| calls);
    let (calls, ns): (u64, u64) = (all().map(|of| of.calls).sum(), all().map(|of| of.ns).sum());
    let all_ns = ns.saturating_add(python.ns);
    let share = context.percent(all_ns);
    if share < context.setting(rule, "share") {
        return None;
    }
    let of_line = |(.., calls): &&Line| calls.iter().map(|of| of.ns).sum::<u64>();
    let (_, place, _) = lines.iter().max_by_key(of_line)?;
    let numbers = || lines.iter().filter_map(|(_, place, _)| place.line);
    let mean_us = ns as f64 / 1e3 / calls.max(1) as f64;
    let operators = format!("{} small operators{}", calls / context.steps_or_one(), context.words().per_step_suffix());
    let title = match (numbers().min(), numbers().max()) {
        (Some(first), Some(last)) if first < last => {
            format!("Python loop (lines {first} to {last}): {operators}, {mean_us:.1} µs each")
        }
        _ => format!("Python loop: {operators}, {mean_us:.1} µs each"),
    };
    // One call of each operator remains, with its Python.
    let left: f64 = all().map(|of| of.ns as f64 * context.steps_or_one() as f64 / of.calls.max(1) as f64).sum();
    let part = (1.0 - left / ns.max(1) as f64).max(0.0);
    let likely = (all_ns as f64 * part) as i64;
    let most = ns.saturating_add(u64::try_from(bounded_gain(context, python).high_ns).unwrap_or(0));
    Some(CallCandidate {
        rule,
        title,
        place: place.clone(),
        facts: vec![
            Fact::count("operators", usize::try_from(calls).unwrap_or(usize::MAX)),
            Fact { name: "share of the loop in the thread's time", value: share, unit: Unit::Percent },
            Fact::time("time of the small operators and of their backward operators per step", context.per_step(ns)),
            Fact::time("Python time between operators per step", context.per_step(python.ns)),
        ],
        kind: None,
        confidence: Confidence::Medium,
        // The cost of one operator with the same computation is unknown.
        gain: Gain::new(likely, 0, signed(most).max(likely)),
        is_within_other: false,
        covers_ns: all_ns,
    })
}
