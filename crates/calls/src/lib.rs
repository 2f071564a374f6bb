//! Views of a calling context tree: top-down, bottom-up, flat, callers, callees; grouped, filtered, compared.
//!
//! A [`CallView`] is a tree of labels with inclusive and exclusive values. It is built from the values at the nodes of
//! the tree: each value is added at the end of a path of labels, and counts once for each label of the path.
#![forbid(unsafe_code)]

mod build;
mod call_events;
mod cct_builder;
mod cct_from_trace;
mod extra_metrics;
mod group;
mod idle;
mod imports;
mod index;
mod label;
mod line_attribution;
mod lines;
mod no_calls;
mod phases;
mod ranks;
mod search;
mod shorten_symbols;
mod table;
#[cfg(test)]
mod tests;
mod trace_contexts;

pub use cct_from_trace::{TimeRange, TraceCallTree, UncountedCalls, calls_by_thread, selected_steps, trace_calls};
pub use group::Grouping;
pub use imports::{IMPORT, fold_imports};
pub use index::{CallIndex, CallValue, Measure, OperatorTotal, Part};
pub use label::CallLabel;
pub use lines::{CALL_LINES, SourceLine, lines_table, source_lines, source_lines_and_imports};
pub use no_calls::NoCalls;
pub use ranks::{calls_of_rank, ranks_of_calls};
pub use table::{CALLS, metric_name, view_table};

use regex_lite::Regex;
use rustc_hash::FxHashSet;
use stackline_model::{CallMetric, CallNodeId, CallStats, CallThreadId, CallingContextTree, Unit};

/// Direction of a call tree view: towards callees, towards callers, or flat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewDirection {
    /// Callees from the root.
    #[default]
    TopDown,
    /// Callers of measured frames.
    BottomUp,
    /// Each frame once, independent of its callers.
    Flat,
    /// Callers of selected frames.
    Callers,
    /// Callees of selected frames.
    Callees,
}

/// Options of a call tree view: metric, direction, grouping and filters.
#[derive(Clone, Debug)]
pub struct ViewOptions {
    /// Metric to show.
    pub metric: CallMetric,
    /// Direction of the view.
    pub shape: ViewDirection,
    /// Grouping of values.
    pub by: Option<Grouping>,
    /// Filter: only paths with a matching frame.
    pub focus: Option<Regex>,
    /// Hide matching frames; their callees appear below their callers.
    pub hide: Option<Regex>,
    /// Selected frames for [`ViewDirection::Callers`] and [`ViewDirection::Callees`].
    pub callers_of: Option<Regex>,
    /// Distinguish Python frames by line, not only by function.
    pub by_line: bool,
    /// Distinguish operators by shapes and types of their inputs, if known.
    pub by_inputs: bool,
    /// Filter: only values of these groups. Their sum is the total.
    pub only: Vec<(Grouping, String)>,
    /// Collapse recursion, direct or indirect, into the first call of a function.
    pub collapse: bool,
}

impl ViewOptions {
    /// Create options of a top-down view of a metric, without grouping and filters.
    pub fn new(metric: CallMetric) -> Self {
        Self {
            metric,
            shape: ViewDirection::TopDown,
            by: None,
            focus: None,
            hide: None,
            callers_of: None,
            by_line: true,
            by_inputs: true,
            only: Vec::new(),
            collapse: false,
        }
    }
}

/// A call tree view: labeled rows in display order, parents before children, largest children first.
#[derive(Clone, Debug)]
pub struct CallView {
    /// Stable name of the metric.
    pub metric: String,
    /// Display name of the metric.
    pub title: String,
    /// Unit of its sums.
    pub unit: Unit,
    /// Total of the metric, shown or not.
    pub total: CallStats,
    /// Total of the other run, in a comparison.
    pub before: Option<CallStats>,
    /// Distinct labels.
    pub labels: Vec<CallLabel>,
    /// Nodes; row 0 is the root, which has no label.
    pub nodes: Vec<ViewNode>,
    /// Number of nodes that [`CallView::keep`] removed.
    pub left_out: usize,
    /// By row: number of direct callers that are too small for their own row ([`view_upwards`]); empty if all have one.
    pub small_callers: Vec<u32>,
    /// True if small callers were not followed ([`view_pruned`]). Missing callers may have some of the metric.
    pub is_pruned: bool,
}

/// Row of a call tree view, with inclusive and exclusive values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewNode {
    /// Row of its parent; 0 for the root itself.
    pub parent: usize,
    /// Depth; 0 for the root.
    pub depth: usize,
    /// Row of its label.
    pub label: usize,
    /// Inclusive values.
    pub inclusive: CallStats,
    /// Exclusive (self) values.
    pub exclusive: CallStats,
    /// Inclusive values of the other run, in a comparison.
    pub before: CallStats,
    /// Number of calls of its frame; in views towards callers, calls of the measured frame from here. 0 if calls were
    /// not counted, as for Python functions in recordings of sums.
    pub calls: u64,
}

impl ViewNode {
    /// Difference of the inclusive sums of the two runs in a comparison.
    pub fn change(&self) -> i128 {
        i128::from(self.inclusive.sum) - i128::from(self.before.sum)
    }
}

/// Build a view of a calling context tree.
pub fn view(tree: &CallingContextTree, options: &ViewOptions) -> CallView {
    view_pruned(tree, options, 0.0, &[])
}

/// Build a view of a calling context tree; in views towards callers, rows below the share `least` of the total get no
/// callers.
///
/// All shown rows have the same values as in [`view`]. `uncounted_calls` lists calls that count at another line, for
/// trees by line.
pub fn view_pruned(
    tree: &CallingContextTree,
    options: &ViewOptions,
    least: f64,
    uncounted_calls: &[(CallNodeId, CallThreadId, u64)],
) -> CallView {
    let counts = build::Counts::new(tree, uncounted_calls);
    let mut builder = build::Builder::new();
    let followed = |all: u64| build::Thresholds { shown: 0.0, followed: all as f64 * least };
    if !builder.add_without_paths(tree, options, &counts, &[], followed) {
        builder.prune();
        builder.add(tree, options, &counts, false);
        builder.add_pending(least);
    }
    let is_up = matches!(options.shape, ViewDirection::BottomUp | ViewDirection::Callers);
    CallView { is_pruned: is_up && least > 0.0, ..builder.finish(tree, options, false) }
}

/// Build a bottom-up view of only the rows with at least the share `least` of the total. `below` selects a frame and
/// its callers, innermost first. The total is then that of this path, and row 0 is its last caller. All rows are as in
/// [`view`]. `None` if the view is not bottom-up, or requires paths.
pub fn view_upwards(
    tree: &CallingContextTree,
    options: &ViewOptions,
    uncounted_calls: &[(CallNodeId, CallThreadId, u64)],
    below: &[CallLabel],
    least: f64,
) -> Option<CallView> {
    let counts = build::Counts::new(tree, uncounted_calls);
    let mut builder = build::Builder::new();
    let both = |all: u64| build::Thresholds { shown: all as f64 * least, followed: all as f64 * least };
    let is_made = can_view_upwards(options) && builder.add_without_paths(tree, options, &counts, below, both);
    is_made.then(|| CallView { is_pruned: true, ..builder.finish(tree, options, false) })
}

/// True if the options describe a view that [`view_upwards`] can build: bottom-up, without filters that require whole
/// paths.
pub fn can_view_upwards(options: &ViewOptions) -> bool {
    options.shape == ViewDirection::BottomUp && build::needs_no_paths(options)
}

/// Compare the calling context trees of two runs in one view, with rows by label. Functions are compared, not lines,
/// because lines move when a program changes. Inputs distinguish operators if both runs have them.
pub fn compare(before: &CallingContextTree, after: &CallingContextTree, options: &ViewOptions) -> CallView {
    let has_inputs =
        |tree: &CallingContextTree| tree.frames.iter().any(|frame| !frame.tensors(&tree.strings).is_empty());
    let by_inputs = options.by_inputs && has_inputs(before) && has_inputs(after);
    let by = options.by.map(|by| if by == Grouping::Shapes && !by_inputs { Grouping::Operator } else { by });
    let options = ViewOptions { by_line: false, by_inputs, by, ..options.clone() };
    let mut builder = build::Builder::new();
    let metric = match options.metric {
        // Text IDs belong to one tree; a counter that the other tree lacks maps to none.
        CallMetric::Counter(name, unit) => {
            let name = after.strings.get(name);
            let is_same = |other: &CallMetric| match *other {
                CallMetric::Counter(id, _) => before.strings.get(id) == name,
                _ => false,
            };
            let same = before.metrics.metric.iter().copied().find(is_same);
            same.unwrap_or(CallMetric::Counter(stackline_model::StrId::NONE, unit))
        }
        fixed => fixed,
    };
    builder.add(before, &ViewOptions { metric, ..options.clone() }, &build::Counts::new(before, &[]), true);
    builder.add(after, &options, &build::Counts::new(after, &[]), false);
    builder.finish(after, &options, true)
}

impl CallView {
    /// Scale the sums of the baseline run in a comparison to this run's number of steps; no change if a number is 0.
    pub fn scale_before(&mut self, steps_before: usize, steps: usize) {
        if steps_before == 0 || steps == 0 || steps_before == steps {
            return;
        }
        let scale = |stats: &mut CallStats| {
            let sum = u128::from(stats.sum) * steps as u128 / steps_before as u128;
            stats.sum = u64::try_from(sum).unwrap_or(u64::MAX);
        };
        self.before.iter_mut().for_each(scale);
        self.nodes.iter_mut().for_each(|node| scale(&mut node.before));
    }

    /// Copy the view without nodes deeper than `depth`, and with only the `top` largest nodes and their callers. In a
    /// comparison, the nodes with the largest change are kept. 0 keeps all.
    #[must_use]
    pub fn keep(&self, depth: usize, top: usize) -> Self {
        self.keep_by_lines(depth, top, &(0..self.nodes.len()).collect::<Vec<_>>())
    }

    /// Copy the view, limited to `top` and `depth` in displayed lines: frames displayed in one line count as one.
    /// Everything else is as in [`Self::keep`].
    #[must_use]
    pub fn keep_lines(&self, depth: usize, top: usize) -> Self {
        let mut first: Vec<usize> = (0..self.nodes.len()).collect();
        for (row, joins) in self.joined().into_iter().enumerate() {
            if joins {
                first[row] = first[row - 1];
            }
        }
        self.keep_by_lines(depth, top, &first)
    }

    /// For each row, true if it is displayed on the same line as the row before it. This is so for Python frames that
    /// are the only callee of their caller.
    pub fn joined(&self) -> Vec<bool> {
        let mut children = vec![0_usize; self.nodes.len()];
        for node in self.nodes.iter().skip(1) {
            children[node.parent] += 1;
        }
        let joins = |(row, node): (usize, &ViewNode)| {
            let above = &self.nodes[node.parent];
            node.parent > 0
                && node.parent + 1 == row
                && children[node.parent] == 1
                && self.label(row).kind == "python"
                && self.label(node.parent).kind == "python"
                && above.exclusive.count == 0
                && (above.inclusive, above.before) == (node.inclusive, node.before)
        };
        self.nodes.iter().enumerate().map(joins).collect()
    }

    /// Copy the view with only the `top` largest rows up to a depth, and their callers. Rows with the same entry in
    /// `line` count as one.
    fn keep_by_lines(&self, depth: usize, top: usize, line: &[usize]) -> Self {
        let compared = self.before.is_some();
        let weight = |row: usize| match compared {
            true => self.nodes[row].change().unsigned_abs(),
            false => u128::from(self.nodes[row].inclusive.sum),
        };
        let shallow = |row: &usize| depth == 0 || self.nodes[*row].depth <= depth;
        let mut rows: Vec<usize> = (1..self.nodes.len()).filter(shallow).collect();
        if top > 0 {
            rows.sort_by_key(|&row| (std::cmp::Reverse(weight(row)), row));
            let mut lines: FxHashSet<usize> = FxHashSet::default();
            rows.retain(|&row| lines.contains(&line[row]) || (lines.len() < top && lines.insert(line[row])));
        }
        let mut kept = vec![false; self.nodes.len()];
        for mut row in rows {
            while !std::mem::replace(&mut kept[row], true) {
                row = self.nodes[row].parent;
            }
        }
        kept[0] = true;
        let mut new_row = vec![0; self.nodes.len()];
        let mut nodes = Vec::new();
        for (row, node) in self.nodes.iter().enumerate().filter(|(row, _)| kept[*row]) {
            new_row[row] = nodes.len();
            nodes.push(ViewNode { parent: new_row[node.parent], ..*node });
        }
        let lines = |rows: &mut dyn Iterator<Item = usize>| rows.map(|row| line[row]).collect::<FxHashSet<_>>().len();
        let all = lines(&mut (0..self.nodes.len()));
        let left_out = self.left_out + all - lines(&mut (0..self.nodes.len()).filter(|&row| kept[row]));
        Self { nodes, left_out, small_callers: Vec::new(), ..self.clone() }
    }

    /// Label of a row of the view.
    pub fn label(&self, row: usize) -> &CallLabel {
        &self.labels[self.nodes[row].label]
    }
}
