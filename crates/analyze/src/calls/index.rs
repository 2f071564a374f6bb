//! A calling context tree prepared for questions in any order: values summed up, phases, who calls whom.

use super::STALLS;
use crate::critical_path::ctda::{Phase, PhaseRule, PhaseRules, RuleKind};
use crate::vocabulary::autograd::ENGINE;
use stackline_model::{CallChildren, CallMetric, CallNodeId, CallingContextTree, Frame, FrameKind, Unit};
use std::collections::BTreeMap;

/// How many values, and their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallValue {
    /// How many.
    pub count: u64,
    /// Their sum, in the metric's unit.
    pub sum: u64,
}

impl CallValue {
    fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
    }

    fn without(self, part: Self) -> Self {
        Self { count: self.count.saturating_sub(part.count), sum: self.sum.saturating_sub(part.sum) }
    }
}

/// Which time is meant. All in ns, but for [`Measure::Time`] of a tree without times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// GPU time where the tree has any, else CPU time, else what was measured instead.
    Time,
    /// Time of GPUs.
    Gpu,
    /// Time of threads: of spans (traces), of samples, or else of operators.
    Cpu,
}

/// Which part of a node and what lies below it is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    All,
    /// The node itself.
    Own,
    /// What lies below backward nodes below it.
    Backward,
    /// All but that.
    Forward,
}

/// One metric at each node.
#[derive(Debug)]
struct Column {
    name: String,
    own: Vec<CallValue>,
    all: Vec<CallValue>,
    backward: Vec<CallValue>,
}

/// A tree with all that is asked of it often.
#[derive(Debug)]
pub struct CallIndex {
    /// The tree.
    pub tree: CallingContextTree,
    /// Who is called by whom.
    pub children: CallChildren,
    /// Steps that it is about, 0 if it has none.
    pub steps: usize,
    columns: Vec<Column>,
    /// Column of GPU time, of CPU time, of stalls.
    gpu: Option<usize>,
    cpu: Option<usize>,
    stalls: Option<usize>,
    /// Column of [`Measure::Time`], and its unit.
    time: Option<(usize, Unit)>,
    /// By frame.
    names: Vec<String>,
    /// By node.
    phases: Vec<Phase>,
}

/// An operator by name: what it took wherever no other operator called it, with all that it called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorTotal {
    /// Calls of it.
    pub calls: u64,
    /// GPU operations, or values of CPU time.
    pub time: CallValue,
    /// GPU time.
    pub gpu: CallValue,
    /// CPU time.
    pub cpu: CallValue,
    /// Its time by phase, in ns.
    pub phases: BTreeMap<&'static str, u64>,
}

impl CallIndex {
    /// Prepares a tree.
    pub fn new(tree: CallingContextTree, steps: usize) -> Self {
        let measured = tree.measured();
        let columns: Vec<Column> = measured.iter().map(|&metric| column(&tree, metric)).collect();
        let named = |name: &str| columns.iter().position(|column| column.name == name);
        let of = |metric: CallMetric| named(metric.name(&tree.strings));
        let gpu = of(CallMetric::GpuTime);
        let cpu = of(CallMetric::HostTime).or_else(|| of(CallMetric::CpuTime)).or_else(|| of(CallMetric::OperatorTime));
        let stalls = named(STALLS);
        let times = || measured.iter().position(|metric| metric.unit() == Unit::Ns && metric.adds_up());
        let at = gpu.or(cpu).or_else(times).or((!measured.is_empty()).then_some(0));
        let time = at.and_then(|at| Some((at, measured.get(at)?.unit())));
        let names = tree.frames.iter().map(|frame| frame.name(&tree.strings)).collect();
        let (children, phases) = (tree.children(), phases(&tree));
        Self { tree, children, steps, columns, gpu, cpu, stalls, time, names, phases }
    }

    /// Number of nodes, the root included.
    pub fn len(&self) -> usize {
        self.tree.nodes.len()
    }

    /// Whether there is not even a root.
    pub fn is_empty(&self) -> bool {
        self.tree.nodes.is_empty()
    }

    /// What a node is called; empty for the root.
    pub fn name(&self, node: CallNodeId) -> &str {
        let frame = self.tree.nodes.frame.get(node.index());
        frame.and_then(|frame| self.names.get(frame.index())).map_or("", String::as_str)
    }

    /// The kind of a node's frame; none for the root.
    pub fn kind(&self, node: CallNodeId) -> Option<FrameKind> {
        self.tree.frame(node).map(Frame::kind)
    }

    /// The phase of training that a node belongs to.
    pub fn phase(&self, node: CallNodeId) -> Phase {
        self.phases.get(node.index()).copied().unwrap_or(Phase::Other)
    }

    /// The caller; none for the root.
    pub fn parent(&self, node: CallNodeId) -> Option<CallNodeId> {
        self.tree.nodes.parent.get(node.index()).and_then(|parent| parent.some())
    }

    /// File and line of a node's frame, or else of the nearest Python frame around it.
    pub fn source(&self, node: CallNodeId) -> Option<(&str, Option<u32>)> {
        let frames = std::iter::successors(Some(node), |&node| self.parent(node)).filter_map(|at| self.tree.frame(at));
        let found = frames.into_iter().find_map(|frame| Some((frame.file()?, frame.line())));
        found.map(|(file, line)| (self.tree.strings.get(file), line))
    }

    /// Some nodes and all below them, level by level, each once.
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

    /// Whether anything runs backward or updates parameters.
    pub fn is_training(&self) -> bool {
        self.phases.iter().any(|phase| matches!(phase, Phase::Backward | Phase::Update))
    }

    /// Name and unit of what [`Measure::Time`] is: `gpu_time` where GPUs worked, else `cpu_time` or, of a tree without
    /// either, what was measured instead.
    pub fn time_metric(&self) -> (&str, Unit) {
        let Some((at, unit)) = self.time else { return ("cpu_time", Unit::Ns) };
        let name = match () {
            () if self.gpu.is_some() => "gpu_time",
            () if self.cpu.is_some() => "cpu_time",
            () => self.columns.get(at).map_or("", |column| column.name.as_str()),
        };
        (name, unit)
    }

    /// A time of a part of a node; of all that is 0 if it was not measured.
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

    /// How often a node was called (of a GPU operation: how often it ran); 0 where calls were not counted.
    pub fn calls(&self, node: CallNodeId) -> u64 {
        let counts = ["host_time", "operator_time", "gpu_time", "gc_time"];
        let own = |column: &Column| column.own.get(node.index()).map_or(0, |value| value.count);
        let counting = self.columns.iter().filter(|column| counts.contains(&column.name.as_str()));
        counting.map(own).max().unwrap_or(0)
    }

    /// Samples of instructions that stalled, at and below a node.
    pub fn stalls(&self, node: CallNodeId) -> u64 {
        let column = self.stalls.and_then(|at| self.columns.get(at));
        column.and_then(|column| column.all.get(node.index())).map_or(0, |value| value.sum)
    }

    /// Every metric by name, at a node and below it (`Part::All`) or at itself alone (`Part::Own`).
    pub fn metrics(&self, part: Part, node: CallNodeId) -> impl Iterator<Item = (&str, CallValue)> {
        self.columns.iter().map(move |column| {
            let values = if part == Part::Own { &column.own } else { &column.all };
            (column.name.as_str(), values.get(node.index()).copied().unwrap_or_default())
        })
    }

    /// Nodes of a kind, in the order of the tree.
    pub fn of_kind(&self, kind: FrameKind) -> Vec<CallNodeId> {
        self.tree.nodes.ids().filter(|&node| self.kind(node) == Some(kind)).collect()
    }

    /// Operators that no other operator, forward or backward, called. What PyTorch records like operators around others
    /// (`DistributedDataParallel.forward`, functions of autograd's engine) is none.
    pub fn operators(&self) -> Vec<CallNodeId> {
        use FrameKind::{Backward, Operator};
        let kind = |node: usize| self.kind(CallNodeId::new(node));
        let above = |node: usize| self.tree.nodes.parent[node].index();
        let mut holds_operators = vec![false; self.len()];
        for node in (1..self.len()).rev() {
            holds_operators[above(node)] |= holds_operators[node] || kind(node) == Some(Operator);
        }
        let mut inside = vec![false; self.len()];
        let mut found = Vec::new();
        for node in 1..self.len() {
            let is_around = is_around_operators(self.name(CallNodeId::new(node)), holds_operators[node]);
            let hit = kind(node) == Some(Backward) || kind(node) == Some(Operator) && !is_around;
            if hit && kind(node) == Some(Operator) && !inside[above(node)] {
                found.push(CallNodeId::new(node));
            }
            inside[node] = hit || inside[above(node)];
        }
        found
    }

    /// Nodes that are called this many times or more for each call of their caller.
    pub fn loops(&self, at_least: u64) -> Vec<CallNodeId> {
        let is_loop = |node: &CallNodeId| {
            let caller = self.parent(*node).map_or(0, |parent| self.calls(parent));
            caller > 0 && self.calls(*node) / caller >= at_least
        };
        self.tree.nodes.ids().skip(1).filter(is_loop).collect()
    }

    /// Time by phase, of phases that have any or were ever entered.
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

    /// Operators by name, each with all that it called, wherever no other operator called it.
    pub fn by_operator(&self) -> BTreeMap<&str, OperatorTotal> {
        let mut totals: BTreeMap<&str, OperatorTotal> = BTreeMap::new();
        // The outermost operator at or above each node.
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

/// Whether what is recorded like an operator is none: of autograd's engine, or without a namespace and around operators.
fn is_around_operators(name: &str, holds_operators: bool) -> bool {
    name.starts_with(ENGINE) || holds_operators && !name.contains("::")
}

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
        // Times of calls hold those of what was called.
        if metric.adds_up() || own[parent].count == 0 {
            all[parent].add(value);
        }
        let behind = if is_backward { value } else { backward[node] };
        backward[parent].add(behind);
    }
    Column { name: metric.name(&tree.strings).to_owned(), own, all, backward }
}

fn is_backward(tree: &CallingContextTree, node: CallNodeId) -> bool {
    matches!(tree.frame(node), Some(Frame::Backward { .. }))
}

/// The phase of each node: what its own name says, else that of its caller.
fn phases(tree: &CallingContextTree) -> Vec<Phase> {
    let rules = PhaseRules::default();
    let of_frame: Vec<FramePhase<'_>> = tree.frames.iter().map(|frame| phase_of(tree, &rules, frame)).collect();
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

/// What a frame itself tells of the phase of training.
#[derive(Clone, Copy, Debug)]
pub(super) enum FramePhase<'r> {
    /// It is of the backward pass by its kind.
    Backward,
    /// Its name fits a rule.
    Named(&'r PhaseRule),
    Unknown,
}

impl FramePhase<'_> {
    /// The phase alone.
    pub(super) fn phase(self) -> Option<Phase> {
        match self {
            Self::Backward => Some(Phase::Backward),
            Self::Named(rule) => Some(rule.phase),
            Self::Unknown => None,
        }
    }
}

/// The phase of training that a frame's kind or name tells.
pub(super) fn phase_of<'r>(tree: &CallingContextTree, rules: &'r PhaseRules, frame: &Frame) -> FramePhase<'r> {
    if matches!(frame, Frame::Backward { .. }) {
        return FramePhase::Backward;
    }
    rule_for(tree, rules, frame).map_or(FramePhase::Unknown, FramePhase::Named)
}

fn rule_for<'r>(tree: &CallingContextTree, rules: &'r PhaseRules, frame: &Frame) -> Option<&'r PhaseRule> {
    let text = |name| tree.strings.get(name);
    match *frame {
        Frame::Operator { name, .. } => rules.of_name(text(name), RuleKind::Operator),
        Frame::Span { name } => rules.of_name(text(name), RuleKind::Annotation),
        Frame::Runtime { name } => rules.of_name(text(name), RuleKind::Runtime),
        Frame::Module { class, .. } => {
            let name = format!("{} {}", stackline_model::names::MODULE_PREFIX, text(class));
            rules.of_name(&name, RuleKind::Python)
        }
        // As traces name frames, which is what the rules are written for.
        Frame::Python { function, file, first_line, .. } if file.is_some() => {
            rules.of_name(&format!("{}({first_line}): {}", text(file), text(function)), RuleKind::Python)
        }
        Frame::Python { function, .. } => rules.of_name(text(function), RuleKind::Python),
        _ => None,
    }
}
