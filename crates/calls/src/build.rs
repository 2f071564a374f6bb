//! Builder of call tree views: adds the values of a calling context tree to labeled rows.

mod count;
mod labeled_tree;
mod linear;
mod pruned;
mod upward;

use super::{CallLabel, CallView, ViewDirection, ViewNode, ViewOptions};
pub(super) use count::Counts;
use count::{Value, values};
pub(super) use linear::needs_no_paths;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{CallNodeId, CallStats, CallingContextTree, Frame};
use stackline_timeline::vocabulary::autograd::ENGINE;
use std::cmp::Reverse;
pub(super) use upward::Thresholds;

/// Builder of a call tree view of one run, or of a comparison of two runs.
#[derive(Debug, Default)]
pub(super) struct Builder {
    labels: Vec<CallLabel>,
    ids: FxHashMap<CallLabel, usize>,
    nodes: Vec<ViewNode>,
    children: FxHashMap<(usize, usize), usize>,
    totals: [CallStats; 2],
    /// Scratch set of labels that the current value has counted for.
    counted: FxHashSet<usize>,
    /// Pending values of views towards callers, when only larger callers are followed.
    pending_values: Option<Vec<pruned::PendingValue>>,
    /// By row: number of callers that are too small for their own row. Missing entries are 0.
    small_callers: Vec<u32>,
}

/// Row labels of a tree's frames, and the frames that match the view's patterns.
struct Labels {
    of_frame: Vec<usize>,
    /// Identity of functions: the first frame with the same name in the same file.
    function: Vec<usize>,
    hidden: Vec<bool>,
    focused: Vec<bool>,
    selected: Vec<bool>,
}

/// Call path of a metric value, as labels from the outermost frame to the value's own frame.
struct PathOfValue {
    path: Vec<usize>,
    /// Depth from which the value counts for labels. Inclusive times of callers already contain it above.
    from: usize,
    /// True if the value's own frame is shown, not hidden.
    own: bool,
    /// True if a shown caller's time contains the value.
    nested: bool,
}

impl Builder {
    /// Create a builder whose view has only the root row.
    pub(super) fn new() -> Self {
        Self { nodes: vec![ViewNode::default()], labels: vec![CallLabel::default()], ..Self::default() }
    }

    /// Index of a row label, which is added if it is new.
    fn label(&mut self, label: CallLabel) -> usize {
        let next = self.labels.len();
        let id = *self.ids.entry(label.clone()).or_insert(next);
        if id == next {
            self.labels.push(label);
        }
        id
    }

    /// Create the row labels of all frames of a tree, and match the frames with the patterns of the view.
    fn labels(&mut self, tree: &CallingContextTree, options: &ViewOptions) -> Labels {
        // Optimized native code jumps between lines, so native frames are shown by function.
        let by_line = |frame: &Frame| options.by_line && !matches!(frame, Frame::Native { .. });
        let label = |frame| CallLabel::new(tree, frame, by_line(frame), options.by_inputs);
        let labels: Vec<CallLabel> = tree.frames.iter().map(label).collect();
        // Patterns match lines and inputs, even if these do not distinguish frames.
        let whole: Vec<CallLabel> = tree.frames.iter().map(|frame| CallLabel::whole(tree, frame)).collect();
        let matching = |pattern: &Option<regex_lite::Regex>| {
            let matches = |label: &CallLabel| pattern.as_ref().is_some_and(|pattern| label.matches(pattern));
            whole.iter().map(matches).collect()
        };
        let (hidden, focused, selected) =
            (matching(&options.hide), matching(&options.focus), matching(&options.callers_of));
        let function = if options.collapse { functions(&whole) } else { Vec::new() };
        let of_frame = labels.into_iter().map(|label| self.label(label)).collect();
        Labels { of_frame, function, hidden, focused, selected }
    }

    /// Add the metric values of a run to the rows of their call paths; `before` marks the baseline run of a comparison.
    pub(super) fn add(&mut self, tree: &CallingContextTree, options: &ViewOptions, counts: &Counts<'_>, before: bool) {
        let labels = self.labels(tree, options);
        let measured: Vec<bool> =
            tree.exclusive(options.metric, |_| true).iter().map(|stats| stats.count > 0).collect();
        for Value { node, thread, stats, calls } in values(tree, options, counts) {
            let place = path_of_value(tree, node, &labels, options, &measured);
            // Times of nested calls do not count in the total.
            if options.metric.adds_up() || !is_nested(tree, node, &measured) {
                self.totals[usize::from(before)].merge(&stats);
            }
            if let Some(place) = place {
                let group = options.by.map(|by| CallLabel::group(counts.group(by, tree, node, thread)));
                self.put(options, place, group, (&stats, calls), before);
            }
        }
        if !before {
            self.add_calls(tree, options, counts, |node| path_of_value(tree, node, &labels, options, &measured));
        }
    }

    /// Add a value to all rows of its path, in the order of the view's direction, below the row of its group if there
    /// is one.
    fn put(
        &mut self,
        options: &ViewOptions,
        place: PathOfValue,
        group: Option<CallLabel>,
        (stats, calls): (&CallStats, u64),
        before: bool,
    ) {
        let group = group.map(|group| self.label(group));
        if options.shape == ViewDirection::Flat {
            let Some(group) = group else { return self.put_flat(&place, (stats, calls), before) };
            // Parts of the total, like groups in other views.
            let row = self.child(0, group);
            self.count(0, stats, before, !place.nested);
            self.count(row, stats, before, !place.nested);
            if !before && !place.nested {
                self.nodes[row].exclusive.merge(stats);
            }
            return;
        }
        let PathOfValue { mut path, from, own, nested } = place;
        match options.shape {
            ViewDirection::Flat => {}
            ViewDirection::TopDown | ViewDirection::Callees => self.count(0, stats, before, !nested),
            ViewDirection::BottomUp | ViewDirection::Callers => {
                path.reverse();
                self.count(0, stats, before, !nested);
            }
        }
        let up = !matches!(options.shape, ViewDirection::TopDown | ViewDirection::Callees);
        let mut row = 0;
        if let Some(group) = group {
            row = self.child(row, group);
            self.count(row, stats, before, !nested);
        }
        if let Some(pending_values) = self.pending_values.as_mut().filter(|_| up && !before) {
            return pending_values.push(pruned::PendingValue::new(row, &path, own, (stats, calls)));
        }
        for (depth, &label) in path.iter().enumerate() {
            row = self.child(row, label);
            self.count(row, stats, before, up || depth >= from);
            // Towards callers, the measured frame comes first, with its calls from this path.
            let is_own = own && !before;
            if is_own && depth == if up { 0 } else { path.len() - 1 } {
                self.nodes[row].exclusive.merge(stats);
            }
            if is_own && (up || depth == path.len() - 1) {
                self.nodes[row].calls += calls;
            }
        }
    }

    /// Add a value to a flat view without groups: once per label of its path, with self value and calls at its own
    /// frame.
    fn put_flat(
        &mut self,
        PathOfValue { path, from, own, nested }: &PathOfValue,
        (stats, calls): (&CallStats, u64),
        before: bool,
    ) {
        self.count(0, stats, before, !nested);
        let mut counted = std::mem::take(&mut self.counted);
        counted.clear();
        let mut is_outermost = true;
        for (depth, &label) in path.iter().enumerate() {
            let row = self.child(0, label);
            // Count once per label, at its outermost position. A measured caller there may contain this value.
            is_outermost = counted.insert(label);
            self.count(row, stats, before, is_outermost && depth >= *from);
        }
        if let Some(&last) = path.last().filter(|_| *own && !before) {
            let row = self.child(0, last);
            self.nodes[row].calls += calls;
            if is_outermost || !nested {
                self.nodes[row].exclusive.merge(stats);
            }
        }
        self.counted = counted;
    }

    /// Find or create the child row with a label below the row `parent`, and return its index.
    fn child(&mut self, parent: usize, label: usize) -> usize {
        let next = self.nodes.len();
        let row = *self.children.entry((parent, label)).or_insert(next);
        if row == next {
            let depth = self.nodes[parent].depth + 1;
            self.nodes.push(ViewNode { parent, depth, label, ..ViewNode::default() });
        }
        row
    }

    /// Append a row with a label below the row `parent`, without a search for an equal row, and return its index.
    fn push_row(&mut self, parent: usize, label: usize) -> usize {
        let depth = self.nodes[parent].depth + 1;
        self.nodes.push(ViewNode { parent, depth, label, ..ViewNode::default() });
        self.nodes.len() - 1
    }

    /// Merge statistics into a row's inclusive values, or those of the baseline run (`before`), if `counts` is true.
    fn count(&mut self, row: usize, stats: &CallStats, before: bool, counts: bool) {
        let node = &mut self.nodes[row];
        if counts {
            if before { &mut node.before } else { &mut node.inclusive }.merge(stats);
        }
    }

    /// Finish the view, with rows in display order: parents first, largest children first.
    pub(super) fn finish(self, tree: &CallingContextTree, options: &ViewOptions, compared: bool) -> CallView {
        let weight = |row: usize| match compared {
            true => self.nodes[row].change().unsigned_abs(),
            false => u128::from(self.nodes[row].inclusive.sum),
        };
        let mut children = Children::new(&self.nodes);
        let mut nodes: Vec<ViewNode> = Vec::with_capacity(self.nodes.len());
        let mut small_callers = Vec::with_capacity(if self.small_callers.is_empty() { 0 } else { self.nodes.len() });
        let mut pending = vec![(0, 0)];
        while let Some((row, parent)) = pending.pop() {
            let new = nodes.len();
            nodes.push(ViewNode { parent, ..self.nodes[row] });
            if !self.small_callers.is_empty() {
                small_callers.push(self.small_callers.get(row).copied().unwrap_or(0));
            }
            let below = children.of_row(row);
            below.sort_by_key(|&child| (Reverse(weight(child)), &self.labels[self.nodes[child].label]));
            pending.extend(below.iter().rev().map(|&child| (child, new)));
        }
        CallView {
            metric: super::metric_name(tree, options.metric),
            title: options.metric.title(&tree.strings).to_owned(),
            unit: options.metric.unit(),
            total: self.totals[0],
            before: compared.then_some(self.totals[1]),
            labels: self.labels,
            nodes,
            left_out: 0,
            small_callers,
            is_pruned: false,
        }
    }
}

/// Child rows of each row of a view, in one list.
struct Children {
    list: Vec<usize>,
    /// End of each row's children, which is the start of the next row's children.
    ends: Vec<usize>,
}

impl Children {
    /// List the child rows of all rows, in the order of the rows.
    fn new(nodes: &[ViewNode]) -> Self {
        let mut ends = vec![0; nodes.len()];
        for node in nodes.iter().skip(1) {
            ends[node.parent] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            // Temporarily the start.
            sum += std::mem::replace(end, sum);
        }
        let mut list = vec![0; sum];
        for (row, node) in nodes.iter().enumerate().skip(1) {
            list[ends[node.parent]] = row;
            ends[node.parent] += 1;
        }
        Self { list, ends }
    }

    /// Child rows of a row.
    fn of_row(&mut self, row: usize) -> &mut [usize] {
        let from = if row == 0 { 0 } else { self.ends[row - 1] };
        &mut self.list[from..self.ends[row]]
    }
}

/// True if a node is below another measured node whose time contains its own.
fn is_nested(tree: &CallingContextTree, node: CallNodeId, measured: &[bool]) -> bool {
    let mut nested = false;
    for at in tree.path(node) {
        nested &= !is_linked_backward(tree, at);
        nested |= at != node && measured[at.index()];
    }
    nested
}

/// True if a node is a backward node under its forward operator, which ended long before and does not contain its time.
///
/// A backward node without a link is under the engine's call that runs it.
fn is_linked_backward(tree: &CallingContextTree, node: CallNodeId) -> bool {
    let is_engine = |frame: &Frame| match *frame {
        Frame::Operator { name, .. } => tree.strings.get(name).starts_with(ENGINE),
        _ => false,
    };
    let parent = || tree.nodes.parent.get(node.index()).and_then(|&parent| tree.frame(parent));
    matches!(tree.frame(node), Some(Frame::Backward { .. })) && !parent().is_some_and(is_engine)
}

/// Function of each frame, identified by the index of the first frame with the same kind, name and file.
fn functions(whole: &[CallLabel]) -> Vec<usize> {
    let mut first: FxHashMap<(&str, &str, &str), usize> = FxHashMap::default();
    let mut functions = Vec::with_capacity(whole.len());
    for (frame, CallLabel { kind, name, file, .. }) in whole.iter().enumerate() {
        functions.push(*first.entry((kind, name, file)).or_insert(frame));
    }
    functions
}

/// Call path of a node's value as row labels; `None` if the view's filters exclude the value.
fn path_of_value(
    tree: &CallingContextTree,
    node: CallNodeId,
    labels: &Labels,
    options: &ViewOptions,
    measured: &[bool],
) -> Option<PathOfValue> {
    let mut place = PathOfValue { path: Vec::new(), from: 0, own: true, nested: false };
    let (mut focused, mut selected) = (options.focus.is_none(), None);
    // Functions of the path, to find recursive calls.
    let mut functions: Vec<usize> = Vec::new();
    let mut running = RunningFunction::default();
    for at in tree.path(node) {
        let frame = tree.nodes.frame[at.index()].index();
        let is_continuation = options.collapse && running.continues_call(&tree.frames[frame], labels.function[frame]);
        focused |= labels.focused[frame];
        if selected.is_none() && labels.selected[frame] {
            selected = Some(place.path.len());
        }
        if place.nested && is_linked_backward(tree, at) {
            (place.from, place.nested) = (0, false);
        }
        place.own = !labels.hidden[frame] || selected == Some(place.path.len());
        if place.own {
            place.path.push(labels.of_frame[frame]);
            if is_continuation {
                functions.push(labels.function[frame]);
            } else if options.collapse {
                collapse(&mut place, &mut functions, labels.function[frame], selected);
            }
        }
        // Only a caller with a shown self time contains this value.
        let is_shown = focused && (options.shape != ViewDirection::Callees || selected.is_some());
        if at != node && measured[at.index()] && is_shown && !options.metric.adds_up() {
            place.from = place.path.len();
            place.nested = true;
        }
    }
    match options.shape {
        ViewDirection::Callers => {
            let end = selected? + 1;
            place.own &= end == place.path.len();
            // A value that is part of a caller's time below the wanted frame does not count again.
            if place.from >= end {
                return None;
            }
            place.path.truncate(end);
        }
        ViewDirection::Callees => {
            let start = selected?;
            place.path.drain(..start);
            place.from = place.from.saturating_sub(start);
        }
        _ => {}
    }
    focused.then_some(place)
}

/// State of the Python function that is running along a call path.
#[derive(Default)]
struct RunningFunction {
    /// The function and its line.
    at: Option<(usize, u32)>,
    /// True if only spans have begun in it since.
    has_span: bool,
}

impl RunningFunction {
    /// True if a frame continues the call of the enclosing function at another line.
    ///
    /// A span that a function begins is below the function's line at its begin. Calls inside the span are below the
    /// function's line at the time of the call.
    fn continues_call(&mut self, frame: &Frame, function: usize) -> bool {
        match *frame {
            Frame::Span { .. } => {
                self.has_span = true;
                false
            }
            Frame::Python { line, .. } => {
                let is_same = self.at.is_some_and(|(known, before)| known == function && before != line);
                let is_continuation = self.has_span && is_same;
                *self = Self { at: Some((function, line)), has_span: false };
                is_continuation
            }
            _ => {
                *self = Self::default();
                false
            }
        }
    }
}

/// Collapse recursion: truncate the path after the earlier call of `function`, if there is one; else append the
/// function to `functions`. The `selected` frame stays.
fn collapse(place: &mut PathOfValue, functions: &mut Vec<usize>, function: usize, selected: Option<usize>) {
    let least = selected.unwrap_or(0);
    // The last match: before it, there is only the same call at other lines.
    let first = functions.iter().skip(least).rposition(|&known| known == function).map(|at| at + least);
    match first {
        Some(first) => {
            place.path.truncate(first + 1);
            functions.truncate(first + 1);
            place.from = place.from.min(first + 1);
        }
        None => functions.push(function),
    }
}
