//! Steps of a calling context tree: their number, and the nodes of the loop that runs them.
//!
//! A calling context tree has no timestamps, so counts separate set-up from steps: a line in a loop of `n` steps makes
//! `n` calls.

use super::after_loop::AfterLoop;
use super::repeated_work::RepeatedWork;
use super::step_marks::{Mark, is_mark_of, is_span, is_span_frame};
use super::thread::{Thread, ancestors_of};
use rustc_hash::FxHashMap;
use stackline_calls::IMPORT;
use stackline_model::names::{STEP_PREFIX, is_compilation, is_recompilation};
use stackline_model::vocabulary::{FRAMEWORKS, TORCH, is_in_package};
use stackline_model::{CallChildren, CallNodeId, CallNodes, CallingContextTree, Frame, FrameId, StrId};
use stackline_timeline::vocabulary::python::OPTIMIZER_STEP;
use std::collections::{BTreeMap, BTreeSet};

/// Least number of calls of a step mark, as a fraction of the most frequent one. Rarer marks are not steps, such as a
/// second optimizer that warms up.
const MIN_MARK_FRACTION: u64 = 10;

/// Number of steps in a call tree, and the nodes of the loop that runs them.
#[derive(Debug)]
pub(super) struct Steps {
    /// Number of recorded steps; 0 without step marks.
    pub(super) count: usize,
    /// Spans that mark steps.
    pub(super) marks: Option<String>,
    /// Name and file of the function whose lines are the loop.
    pub(super) function: Option<(StrId, StrId)>,
    /// Lines after the loop's last one that may be after the loop.
    pub(super) maybe_after: Vec<CallNodeId>,
    /// True for analyzed nodes: those of the loop without imports and compilations, which are one-time work.
    pub(super) inside: Vec<bool>,
    /// True for nodes at or below an import or a compilation.
    pub(super) is_once: Vec<bool>,
}

impl Steps {
    /// Find the spans that mark steps, and the function and lines of the loop around them.
    pub(super) fn find(tree: &CallingContextTree, children: &CallChildren, thread: &Thread) -> Self {
        let is_once = below(tree, |node| is_one_time_work(tree, node));
        let marks = marks(tree, thread);
        let most = marks.iter().map(|mark| mark.calls).max().unwrap_or(0);
        let is_of_steps = |mark: &&Mark| mark.calls > 1 && mark.calls.saturating_mul(MIN_MARK_FRACTION) >= most;
        let mark = marks.iter().filter(is_of_steps).min_by_key(|mark| mark.calls);
        let of_loop = mark.and_then(|mark| Loop::around(tree, children, thread, mark, &is_once));
        let mark = mark.filter(|_| of_loop.is_some());
        let inside = match &of_loop {
            Some(of_loop) => below(tree, |node| of_loop.lines.binary_search(&node).is_ok()),
            None => vec![true; tree.nodes.len()],
        };
        Self {
            count: mark.map_or(0, |mark| usize::try_from(thread.scale_to_recorded(mark.calls)).unwrap_or(usize::MAX)),
            marks: mark.map(|mark| mark.name.clone()),
            function: of_loop.as_ref().map(|of_loop| of_loop.function),
            maybe_after: of_loop.map_or_else(Vec::new, |of_loop| of_loop.maybe_after),
            inside: inside.iter().zip(&is_once).map(|(&inside, &once)| inside && !once).collect(),
            is_once,
        }
    }

    /// Select the values of nodes in the loop that runs the steps.
    pub(super) fn select<'v, T>(&'v self, values: &'v [T]) -> impl Iterator<Item = &'v T> {
        values.iter().zip(&self.inside).filter(|(_, inside)| **inside).map(|(value, _)| value)
    }
}

/// For each node: true if it or an ancestor passes a test.
pub(super) fn below(tree: &CallingContextTree, is_it: impl Fn(CallNodeId) -> bool) -> Vec<bool> {
    let mut found = vec![false; tree.nodes.len()];
    for node in tree.nodes.ids().skip(1) {
        found[node.index()] = found[tree.nodes.parent[node.index()].index()] || is_it(node);
    }
    found
}

/// Check if a node is the span of an import, or of a compilation that is no recompilation.
fn is_one_time_work(tree: &CallingContextTree, node: CallNodeId) -> bool {
    match tree.frame(node) {
        Some(Frame::Span { name }) => {
            let name = tree.strings.get(*name);
            name == IMPORT || is_compilation(name) && !is_recompilation(name)
        }
        _ => false,
    }
}

/// Find the kinds of step marks. Traces prefer them in this order: spans of a profiler's schedule, of a framework, of
/// optimizers, which may have different steps.
fn marks(tree: &CallingContextTree, thread: &Thread) -> Vec<Mark> {
    let nodes_where = |is_it: &dyn Fn(CallNodeId) -> bool| -> Vec<CallNodeId> {
        tree.nodes.ids().skip(1).filter(|node| thread.calls[node.index()] > 0 && is_it(*node)).collect()
    };
    let of = |prefix: &str| nodes_where(&|node| is_span(tree, node, prefix));
    let mark = |name: String, nodes: Vec<CallNodeId>| {
        let calls = nodes.iter().map(|node| thread.calls[node.index()]).sum();
        Mark { name, nodes, calls }
    };
    let of_profiler = of(STEP_PREFIX);
    if !of_profiler.is_empty() {
        // Each span has its step number.
        return vec![mark(STEP_PREFIX.to_owned(), of_profiler)];
    }
    for framework in FRAMEWORKS.iter().filter(|framework| !framework.steps.is_empty()) {
        let is_it = |node| is_mark_of(tree, node, framework);
        // A nested mark is not a separate step.
        let outer = nodes_where(&|node| is_it(node) && !ancestors_of(tree, node).skip(1).any(is_it));
        if !outer.is_empty() {
            return vec![mark(framework.steps.iter().map(|step| step.name).collect::<Vec<_>>().join(" or "), outer)];
        }
    }
    // A GAN has two optimizers of one class at two lines, and one line may have several callers.
    let mut by_line: BTreeMap<(String, FrameId), Vec<CallNodeId>> = BTreeMap::new();
    for node in of(OPTIMIZER_STEP) {
        let name = tree.frame(node).map(|frame| frame.name(&tree.strings)).unwrap_or_default();
        by_line.entry((name, line_of(tree, node))).or_default().push(node);
    }
    by_line.into_iter().map(|((name, _), nodes)| mark(name, nodes)).collect()
}

/// Innermost line at or above a node in a file outside of PyTorch; no frame if there is none.
fn line_of(tree: &CallingContextTree, node: CallNodeId) -> FrameId {
    let line = ancestors_of(tree, node)
        .find(|&at| python_frame(tree, at).is_some_and(|((_, file), _)| !is_in_torch(tree, file)));
    line.and_then(|line| tree.nodes.frame.get(line.index()).copied()).unwrap_or(FrameId::NONE)
}

/// Check if a file belongs to PyTorch, whose code around a step is not part of the loop.
fn is_in_torch(tree: &CallingContextTree, file: StrId) -> bool {
    is_in_package(tree.strings.get(file), TORCH)
}

/// Tree with one frame for all numbered steps of a profiler's schedule; `None` without several of them.
pub(super) fn with_steps_as_one(tree: &CallingContextTree) -> Option<CallingContextTree> {
    let steps: Vec<bool> = tree.frames.iter().map(|frame| is_span_frame(tree, frame, STEP_PREFIX)).collect();
    let first = steps.iter().position(|&step| step)?;
    if steps.iter().filter(|&&step| step).count() < 2 {
        return None;
    }
    let mut merged = tree.clone();
    let (mut nodes, mut moved) = (CallNodes::default(), Vec::with_capacity(tree.nodes.len()));
    let mut known: FxHashMap<(CallNodeId, FrameId), CallNodeId> = FxHashMap::default();
    for node in tree.nodes.ids() {
        let frame = tree.nodes.frame[node.index()];
        let is_step = frame.some().is_some_and(|frame| steps.get(frame.index()).copied().unwrap_or(false));
        let frame = if is_step { FrameId::new(first) } else { frame };
        let parent = tree.nodes.parent[node.index()].some().map_or(CallNodeId::NONE, |parent| moved[parent.index()]);
        let place = *known.entry((parent, frame)).or_insert_with(|| {
            nodes.parent.push(parent);
            nodes.frame.push(frame);
            CallNodeId::new(nodes.len() - 1)
        });
        moved.push(place);
    }
    let rows = tree.metrics.iter().map(|(node, thread, metric, stats)| ((moved[node.index()], thread, metric), *stats));
    merged.metrics = rows.collect();
    merged.nodes = nodes;
    Some(merged)
}

/// Loop that runs the steps: its function, and the nodes of its lines.
struct Loop {
    function: (StrId, StrId),
    lines: Vec<CallNodeId>,
    /// Lines that may be after the loop.
    maybe_after: Vec<CallNodeId>,
}

impl Loop {
    /// Find the outermost function above a mark with several lines that make calls in each step, otherwise the
    /// function with the mark.
    fn around(
        tree: &CallingContextTree,
        children: &CallChildren,
        thread: &Thread,
        mark: &Mark,
        is_once: &[bool],
    ) -> Option<Self> {
        let repeated = RepeatedWork::new(tree, thread, mark, is_once);
        let most = mark.nodes.iter().max_by_key(|node| (thread.calls[node.index()], std::cmp::Reverse(**node)))?;
        let path = tree.path(*most);
        let is_loops =
            |node: CallNodeId| python_frame(tree, node).is_some_and(|((_, file), _)| !is_in_torch(tree, file));
        let functions: Vec<CallNodeId> = path.into_iter().filter(|&node| is_loops(node)).collect();
        // Set-up may make a multiple of the calls by chance.
        let has_several = |is_called: &[bool]| {
            let found = |&node: &CallNodeId| Self::lines_of((tree, children, thread), node, &repeated, is_called);
            functions.iter().filter_map(found).find(|(_, lines)| *lines > 1)
        };
        let several = has_several(&repeated.once).or_else(|| has_several(&repeated.steps));
        let innermost = || Self::lines_of((tree, children, thread), *functions.last()?, &repeated, &repeated.steps);
        several.or_else(innermost).map(|(found, _)| found)
    }

    /// Lines of a node's function, and the number of lines with calls in each step.
    ///
    /// If other lines make calls only once, the function contains the loop, not only its body. Then lines before the
    /// first repeated one are set-up, and lines after the last may be after the loop.
    fn lines_of(
        (tree, children, thread): (&CallingContextTree, &CallChildren, &Thread),
        node: CallNodeId,
        repeated: &RepeatedWork,
        is_called: &[bool],
    ) -> Option<(Self, usize)> {
        let (function, _) = python_frame(tree, node)?;
        let caller = tree.nodes.parent[node.index()];
        let own = |at: &CallNodeId| {
            python_frame(tree, *at).filter(|(other, _)| *other == function).map(|(_, line)| (line, *at))
        };
        let lines: Vec<(u32, CallNodeId)> = children.of_node(caller).iter().filter_map(own).collect();
        let first = lines.iter().filter(|(_, at)| repeated.steps[at.index()]).map(|(line, _)| *line).min();
        let is_once = |(_, at): &(u32, CallNodeId)| repeated.any[at.index()] && !repeated.steps[at.index()];
        // Lines after the set-up with repeated waits belong to the loop, too.
        let set_up = lines.iter().filter(|of_line| is_once(of_line) && Some(of_line.0) < first);
        let last = set_up.map(|(line, _)| *line).max();
        let waits = lines.iter().filter(|(line, at)| repeated.waits[at.index()] && Some(*line) > last);
        let first = waits.map(|(line, _)| *line).chain(first).min().filter(|_| first.is_some());
        let first = first.filter(|_| lines.iter().any(is_once)).unwrap_or(0);
        let mut lines: Vec<(u32, CallNodeId)> =
            lines.into_iter().filter(|&(line, _)| line == 0 || line >= first).collect();
        let AfterLoop { left_out, unknown } = AfterLoop::find((tree, thread), &lines, repeated);
        lines.retain(|(_, at)| !left_out.contains(at));
        let called_lines: BTreeSet<u32> =
            lines.iter().filter(|(_, at)| is_called[at.index()]).map(|(line, _)| *line).collect();
        let lines = lines.into_iter().map(|(_, at)| at).collect();
        Some((Self { function, lines, maybe_after: unknown }, called_lines.len()))
    }
}

/// Function, file and line of a node with a Python frame; `None` for other nodes.
fn python_frame(tree: &CallingContextTree, node: CallNodeId) -> Option<((StrId, StrId), u32)> {
    match tree.frame(node)? {
        Frame::Python { function, file, line, .. } => Some(((*function, *file), *line)),
        _ => None,
    }
}
