//! Index of a calling context tree for random access: sums, phases, callers and callees.

use super::cct_builder::STALLS;
use stackline_model::{CallChildren, CallMetric, CallNodeId, CallingContextTree, Frame, FrameKind, Unit};
use stackline_timeline::phase_rules::{Phase, PhaseRule, PhaseRules, RuleKind};
use stackline_timeline::vocabulary::autograd::ENGINE;
use std::collections::BTreeMap;

/// Number and sum of the metric values of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallValue {
    /// Number of values.
    pub count: u64,
    /// Sum of values, in the metric's unit.
    pub sum: u64,
}

impl CallValue {
    /// Add count and sum of another value.
    fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Difference of two values in count and sum, at least 0.
    fn without(self, part: Self) -> Self {
        Self { count: self.count.saturating_sub(part.count), sum: self.sum.saturating_sub(part.sum) }
    }
}

/// Choice of the time metric to query, in ns: GPU time, CPU time, or the first one that the tree has. [`Measure::Time`]
/// of a tree without times has the unit of its first metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// GPU time if the tree has any, else CPU time, else the first metric.
    Time,
    /// GPU time.
    Gpu,
    /// Time of threads: of spans (traces), of samples, or else of operators.
    Cpu,
}

/// Part of a node's subtree whose values are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The whole subtree.
    All,
    /// The node itself (self).
    Own,
    /// Subtrees of backward nodes below it.
    Backward,
    /// All except the backward part.
    Forward,
}

/// Values of one metric by node: of the node itself, of its subtree, and of the backward part of its subtree.
#[derive(Debug)]
struct Column {
    name: String,
    own: Vec<CallValue>,
    all: Vec<CallValue>,
    backward: Vec<CallValue>,
}

/// Random-access index of a calling context tree: children, sums and phases by node.
#[derive(Debug)]
pub struct CallIndex {
    /// The tree.
    pub tree: CallingContextTree,
    /// Children of each node.
    pub children: CallChildren,
    /// Number of steps, 0 if the tree has none.
    pub steps: usize,
    columns: Vec<Column>,
    /// Columns of GPU time, CPU time and stalls.
    gpu: Option<usize>,
    cpu: Option<usize>,
    stalls: Option<usize>,
    /// Column of [`Measure::Time`], and its unit.
    time: Option<(usize, Unit)>,
    /// Names by frame.
    names: Vec<String>,
    /// Phases by node.
    phases: Vec<Phase>,
}

/// Inclusive totals of an operator by name, over its calls outside other operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorTotal {
    /// Number of calls.
    pub calls: u64,
    /// Time: GPU operations, or values of CPU time.
    pub time: CallValue,
    /// GPU time.
    pub gpu: CallValue,
    /// CPU time.
    pub cpu: CallValue,
    /// Time by phase, in ns.
    pub phases: BTreeMap<&'static str, u64>,
}

impl CallIndex {
    /// Build the random-access index of a calling context tree.
    pub fn new(tree: CallingContextTree, steps: usize) -> Self {
        let measured = tree.measured();
        let columns: Vec<Column> = measured.iter().map(|&metric| column(&tree, metric)).collect();
        let named = |name: &str| columns.iter().position(|column| column.name == name);
        let of = |metric: CallMetric| named(metric.name(&tree.strings));
        let gpu = of(CallMetric::GpuTime);
        let cpu = of(CallMetric::HostTime).or_else(|| of(CallMetric::CpuTime)).or_else(|| of(CallMetric::OperatorTime));
        let stalls = named(STALLS);
        let times = || measured.iter().position(|metric| metric.is_time());
        let at = gpu.or(cpu).or_else(times).or((!measured.is_empty()).then_some(0));
        let time = at.and_then(|at| Some((at, measured.get(at)?.unit())));
        let names = tree.frames.iter().map(|frame| frame.name(&tree.strings)).collect();
        let (children, phases) = (tree.children(), phases(&tree));
        Self { tree, children, steps, columns, gpu, cpu, stalls, time, names, phases }
    }

    /// Number of calling-context-tree nodes, including the root.
    pub fn len(&self) -> usize {
        self.tree.nodes.len()
    }

    /// True if the tree has not even a root.
    pub fn is_empty(&self) -> bool {
        self.tree.nodes.is_empty()
    }

    /// Name of a node; empty for the root.
    pub fn name(&self, node: CallNodeId) -> &str {
        let frame = self.tree.nodes.frame.get(node.index());
        frame.and_then(|frame| self.names.get(frame.index())).map_or("", String::as_str)
    }

    /// Kind of a node's frame; `None` for the root.
    pub fn kind(&self, node: CallNodeId) -> Option<FrameKind> {
        self.tree.frame(node).map(Frame::kind)
    }

    /// Training phase of a calling-context-tree node.
    pub fn phase(&self, node: CallNodeId) -> Phase {
        self.phases.get(node.index()).copied().unwrap_or(Phase::Other)
    }

    /// Caller of a node; `None` for the root.
    pub fn parent(&self, node: CallNodeId) -> Option<CallNodeId> {
        self.tree.nodes.parent.get(node.index()).and_then(|parent| parent.some())
    }

    /// File and line of a node's frame, or of the nearest enclosing frame with a file; `None` if no frame has one.
    pub fn source(&self, node: CallNodeId) -> Option<(&str, Option<u32>)> {
        let frames = std::iter::successors(Some(node), |&node| self.parent(node)).filter_map(|at| self.tree.frame(at));
        let found = frames.into_iter().find_map(|frame| Some((frame.file()?, frame.line())));
        found.map(|(file, line)| (self.tree.strings.get(file), line))
    }

    /// Given nodes and all their descendants in breadth-first order, each once.
    pub fn breadth_first(&self, from: &[CallNodeId]) -> Vec<CallNodeId> {
        let mut seen = vec![false; self.len()];
        let mut found: Vec<CallNodeId> = Vec::with_capacity(from.len());
        let mut is_new = |node: &CallNodeId| !std::mem::replace(&mut seen[node.index()], true);
        found.extend(from.iter().copied().filter(&mut is_new));
        let mut next = 0;
        while let Some(&node) = found.get(next) {
            found.extend(self.children.of_node(node).iter().copied().filter(&mut is_new));
            next += 1;
        }
        found
    }

    /// True if the tree shows training: any node in the backward or update phase.
    pub fn is_training(&self) -> bool {
        self.phases.iter().any(|phase| matches!(phase, Phase::Backward | Phase::Update))
    }

    /// Name and unit of the metric of [`Measure::Time`]: `gpu_time` if the tree has GPU times, else `cpu_time`, else
    /// the name of the first time metric, or of the first metric.
    pub fn time_metric(&self) -> (&str, Unit) {
        let Some((at, unit)) = self.time else { return ("cpu_time", Unit::Ns) };
        let name = match () {
            () if self.gpu.is_some() => "gpu_time",
            () if self.cpu.is_some() => "cpu_time",
            () => self.columns.get(at).map_or("", |column| column.name.as_str()),
        };
        (name, unit)
    }

    /// Time of a node, or of a part of its subtree; 0 if it was not measured.
    pub fn value(&self, measure: Measure, part: Part, node: CallNodeId) -> CallValue {
        let column = match measure {
            Measure::Time => self.time.map(|(at, _)| at),
            Measure::Gpu => self.gpu,
            Measure::Cpu => self.cpu,
        };
        let Some(column) = column.and_then(|at| self.columns.get(at)) else { return CallValue::default() };
        let of = |values: &[CallValue]| values.get(node.index()).copied().unwrap_or_default();
        match part {
            Part::All => of(&column.all),
            Part::Own => of(&column.own),
            Part::Backward => of(&column.backward),
            Part::Forward => of(&column.all).without(of(&column.backward)),
        }
    }

    /// Number of calls of a node's frame on this path (of a GPU operation: executions); 0 if calls were not counted.
    pub fn calls(&self, node: CallNodeId) -> u64 {
        let counts = ["host_time", "operator_time", "gpu_time", "gc_time"];
        let own = |column: &Column| column.own.get(node.index()).map_or(0, |value| value.count);
        let counting = self.columns.iter().filter(|column| counts.contains(&column.name.as_str()));
        counting.map(own).max().unwrap_or(0)
    }

    /// Number of samples of stalled GPU instructions in a node's subtree.
    pub fn stalls(&self, node: CallNodeId) -> u64 {
        let column = self.stalls.and_then(|at| self.columns.get(at));
        column.and_then(|column| column.all.get(node.index())).map_or(0, |value| value.sum)
    }

    /// Values of all metrics of a node, by metric name: of the whole subtree, or for `Part::Own` of the node itself.
    pub fn metrics(&self, part: Part, node: CallNodeId) -> impl Iterator<Item = (&str, CallValue)> {
        self.columns.iter().map(move |column| {
            let values = if part == Part::Own { &column.own } else { &column.all };
            (column.name.as_str(), values.get(node.index()).copied().unwrap_or_default())
        })
    }

    /// Nodes with a kind of frame, in the order of the tree.
    pub fn nodes_of_kind(&self, kind: FrameKind) -> Vec<CallNodeId> {
        self.tree.nodes.ids().filter(|&node| self.kind(node) == Some(kind)).collect()
    }

    /// Forward operators that no other operator, forward or backward, calls. PyTorch's records around operators
    /// (`DistributedDataParallel.forward`, functions of autograd's engine) do not count as operators.
    pub fn operators(&self) -> Vec<CallNodeId> {
        use FrameKind::{Backward, Operator};
        let kind = |node: usize| self.kind(CallNodeId::new(node));
        let above = |node: usize| self.tree.nodes.parent[node].index();
        let mut contains_operators = vec![false; self.len()];
        for node in (1..self.len()).rev() {
            contains_operators[above(node)] |= contains_operators[node] || kind(node) == Some(Operator);
        }
        let mut inside = vec![false; self.len()];
        let mut found = Vec::new();
        for node in 1..self.len() {
            let is_around = is_operator_wrapper(self.name(CallNodeId::new(node)), contains_operators[node]);
            let hit = kind(node) == Some(Backward) || kind(node) == Some(Operator) && !is_around;
            if hit && kind(node) == Some(Operator) && !inside[above(node)] {
                found.push(CallNodeId::new(node));
            }
            inside[node] = hit || inside[above(node)];
        }
        found
    }

    /// Nodes with at least `at_least` times as many calls as their caller, as in loops.
    pub fn loops(&self, at_least: u64) -> Vec<CallNodeId> {
        let is_loop = |node: &CallNodeId| {
            let caller = self.parent(*node).map_or(0, |parent| self.calls(parent));
            caller > 0 && self.calls(*node) / caller >= at_least
        };
        self.tree.nodes.ids().skip(1).filter(is_loop).collect()
    }

    /// Self time summed by training phase, each as [`Measure::Time`], [`Measure::Gpu`] and [`Measure::Cpu`], for phases
    /// that occur in the tree.
    pub fn by_phase(&self) -> BTreeMap<&'static str, [CallValue; 3]> {
        let mut phases: BTreeMap<&'static str, [CallValue; 3]> = BTreeMap::new();
        for node in self.tree.nodes.ids().skip(1) {
            let values = phases.entry(self.phase(node).name()).or_default();
            for (value, measure) in values.iter_mut().zip([Measure::Time, Measure::Gpu, Measure::Cpu]) {
                value.add(self.value(measure, Part::Own, node));
            }
        }
        phases
    }

    /// Inclusive totals of operators by name, over calls outside other operators.
    pub fn by_operator(&self) -> BTreeMap<&str, OperatorTotal> {
        let mut totals: BTreeMap<&str, OperatorTotal> = BTreeMap::new();
        // Outermost operator at or above each node.
        let mut outermost: Vec<CallNodeId> = vec![CallNodeId::NONE; self.len()];
        for node in self.operators() {
            outermost[node.index()] = node;
            let total = totals.entry(self.name(node)).or_default();
            total.calls += self.calls(node);
            total.time.add(self.value(Measure::Time, Part::All, node));
            total.gpu.add(self.value(Measure::Gpu, Part::All, node));
            total.cpu.add(self.value(Measure::Cpu, Part::All, node));
        }
        for node in self.tree.nodes.ids().skip(1) {
            let above = self.tree.nodes.parent[node.index()].index();
            if outermost[node.index()].some().is_none() {
                outermost[node.index()] = outermost[above];
            }
            let Some(operator) = outermost[node.index()].some() else { continue };
            let own = self.value(Measure::Time, Part::Own, node).sum;
            if own > 0 {
                let total = totals.entry(self.name(operator)).or_default();
                *total.phases.entry(self.phase(node).name()).or_default() += own;
            }
        }
        totals
    }
}

/// True if an operator record is only a wrapper: part of autograd's engine, or without a namespace and around
/// operators.
fn is_operator_wrapper(name: &str, contains_operators: bool) -> bool {
    name.starts_with(ENGINE) || contains_operators && !name.contains("::")
}

/// Sum the values of a metric by node: of the node itself, of its subtree, and of the backward part of its subtree.
fn column(tree: &CallingContextTree, metric: CallMetric) -> Column {
    let count = tree.nodes.len();
    let mut own = vec![CallValue::default(); count];
    for (node, _, _, stats) in tree.metrics.iter().filter(|(_, _, found, _)| *found == metric) {
        own[node.index()].add(CallValue { count: stats.count, sum: stats.sum });
    }
    let (mut all, mut backward) = (own.clone(), vec![CallValue::default(); count]);
    for node in (1..count).rev() {
        let parent = tree.nodes.parent[node].index();
        let (value, is_backward) = (all[node], is_backward(tree, CallNodeId::new(node)));
        // Times of calls already include their callees.
        if metric.adds_up() || own[parent].count == 0 {
            all[parent].add(value);
        }
        let backward_value = if is_backward { value } else { backward[node] };
        backward[parent].add(backward_value);
    }
    Column { name: metric.name(&tree.strings).to_owned(), own, all, backward }
}

/// True if a node's frame is a backward node of autograd.
fn is_backward(tree: &CallingContextTree, node: CallNodeId) -> bool {
    matches!(tree.frame(node), Some(Frame::Backward { .. }))
}

/// Training phase of each node: by its own frame, by its backward callees, else that of its caller.
fn phases(tree: &CallingContextTree) -> Vec<Phase> {
    let rules = PhaseRules::default();
    let of_frame: Vec<FramePhase<'_>> = tree.frames.iter().map(|frame| frame_phase(tree, &rules, frame)).collect();
    let mut is_differentiated = vec![false; tree.nodes.len()];
    for node in tree.nodes.ids().skip(1).filter(|&node| is_backward(tree, node)) {
        is_differentiated[tree.nodes.parent[node.index()].index()] = true;
    }
    let mut phases = vec![Phase::Other; tree.nodes.len()];
    for node in tree.nodes.ids().skip(1) {
        let at = node.index();
        let outer = phases[tree.nodes.parent[at].index()];
        phases[at] = match of_frame.get(tree.nodes.frame[at].index()) {
            Some(FramePhase::Backward) => Phase::Backward.inside(outer),
            Some(FramePhase::Named(rule)) => rule.inside(outer),
            _ if is_differentiated[at] => Phase::Forward.inside(outer),
            _ => outer,
        };
    }
    phases
}

/// Training phase that the kind or the name of a frame determines, without its callers.
#[derive(Clone, Copy, Debug)]
pub(super) enum FramePhase<'r> {
    /// Part of the backward pass by kind.
    Backward,
    /// The name matches a rule.
    Named(&'r PhaseRule),
    Unknown,
}

impl FramePhase<'_> {
    /// Training phase of the frame; `None` if neither its kind nor its name determines one.
    pub(super) fn phase(self) -> Option<Phase> {
        match self {
            Self::Backward => Some(Phase::Backward),
            Self::Named(rule) => Some(rule.phase),
            Self::Unknown => None,
        }
    }
}

/// Training phase by the kind or name of a frame.
pub(super) fn frame_phase<'r>(tree: &CallingContextTree, rules: &'r PhaseRules, frame: &Frame) -> FramePhase<'r> {
    if matches!(frame, Frame::Backward { .. }) {
        return FramePhase::Backward;
    }
    rule_for(tree, rules, frame).map_or(FramePhase::Unknown, FramePhase::Named)
}

/// Phase rule that matches a frame's name, with the names as in traces; `None` if no rule does.
fn rule_for<'r>(tree: &CallingContextTree, rules: &'r PhaseRules, frame: &Frame) -> Option<&'r PhaseRule> {
    let text = |name| tree.strings.get(name);
    match *frame {
        Frame::Operator { name, .. } => rules.rule_for_name(text(name), RuleKind::Operator),
        Frame::Span { name } => rules.rule_for_name(text(name), RuleKind::Annotation),
        Frame::Runtime { name } => rules.rule_for_name(text(name), RuleKind::Runtime),
        Frame::Module { class, .. } => {
            let name = format!("{} {}", stackline_model::names::MODULE_PREFIX, text(class));
            rules.rule_for_name(&name, RuleKind::Python)
        }
        // Format as in traces, for which the rules are written.
        Frame::Python { function, file, first_line, .. } if file.is_some() => {
            rules.rule_for_name(&format!("{}({first_line}): {}", text(file), text(function)), RuleKind::Python)
        }
        Frame::Python { function, .. } => rules.rule_for_name(text(function), RuleKind::Python),
        _ => None,
    }
}
