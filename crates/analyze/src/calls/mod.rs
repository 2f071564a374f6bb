//! Ways to look at a calling context tree: top-down, bottom-up, flat, callers of something; grouped, focused, compared.
//!
//! Each is a [`CallView`], a tree of labels with inclusive and exclusive values. A view is built from the values at the
//! nodes of the tree: each value is put at the end of a path of labels, and counts for each label of that path once.

mod build;
mod cct_from_trace;
mod extra_metrics;
mod group;
mod idle;
mod imports;
mod index;
mod label;
mod line_attribution;
mod lines;
mod phases;
mod ranks;
mod search;
mod shorten_symbols;
mod table;
#[cfg(test)]
mod tests;
mod trace_contexts;

pub use cct_from_trace::{
    STALLS, TimeRange, TraceCallTree, UncountedCalls, calls_by_thread, chosen_steps, trace_calls,
};
pub use group::Grouping;
pub use imports::{IMPORT, fold_imports};
pub use index::{CallIndex, CallValue, Measure, OperatorTotal, Part};
pub use label::CallLabel;
pub use lines::{CALL_LINES, SourceLine, lines_table, source_lines, source_lines_and_imports};
pub use ranks::{calls_of_rank, ranks_of_calls};
pub use table::{CALLS, metric_name, view_table};

use regex_lite::Regex;
use rustc_hash::FxHashSet;
use stackline_model::{CallMetric, CallNodeId, CallStats, CallThreadId, CallingContextTree, Unit};

/// Direction of a view of a call tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewDirection {
    /// From the root to what was called.
    #[default]
    TopDown,
    /// From what was hit to its callers.
    BottomUp,
    /// Each frame once, wherever it stands.
    Flat,
    /// From chosen frames to their callers.
    Callers,
    /// From chosen frames to what they called.
    Callees,
}

/// What to show of a tree.
#[derive(Clone, Debug)]
pub struct ViewOptions {
    /// What is measured.
    pub metric: CallMetric,
    /// Which way to look.
    pub shape: ViewDirection,
    /// What to split the values by.
    pub by: Option<Grouping>,
    /// Only paths with a frame that matches.
    pub focus: Option<Regex>,
    /// Frames that match are left out; what they called stands below their callers.
    pub hide: Option<Regex>,
    /// With [`ViewDirection::Callers`] and [`ViewDirection::Callees`]: the frames whose callers or callees are wanted.
    pub callers_of: Option<Regex>,
    /// Whether lines tell Python frames apart; otherwise their functions do.
    pub by_line: bool,
    /// Whether shapes and types of their inputs tell operators apart, where they are known.
    pub by_inputs: bool,
    /// Only values that belong to these groups; what they add up to is the whole.
    pub only: Vec<(Grouping, String)>,
    /// Whether a function that calls itself, by way of others or not, stands where it was called first.
    pub collapse: bool,
}

impl ViewOptions {
    /// Everything of a metric, top-down.
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

/// A tree of labels, in the order in which it is read: callers first, the largest children first.
#[derive(Clone, Debug)]
pub struct CallView {
    /// Stable name of the metric.
    pub metric: String,
    /// The metric for people.
    pub title: String,
    /// Unit of its sums.
    pub unit: Unit,
    /// All that was measured, shown or not.
    pub total: CallStats,
    /// The same of the run that is compared with, in a comparison.
    pub before: Option<CallStats>,
    /// Labels, each once.
    pub labels: Vec<CallLabel>,
    /// Nodes; row 0 is the root, whose label means nothing.
    pub nodes: Vec<ViewNode>,
    /// Nodes that were left out by [`CallView::keep`].
    pub left_out: usize,
    /// By row: how many callers right there are too narrow for rows of their own ([`view_upwards`]); empty if all have one.
    pub narrow: Vec<u32>,
    /// Whether callers of little were not followed ([`view_pruned`]): what is not there may have some of the metric.
    pub is_pruned: bool,
}

/// A node of a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewNode {
    /// Row of its parent; 0 for the root itself.
    pub parent: usize,
    /// 0 for the root.
    pub depth: usize,
    /// Row of its label.
    pub label: usize,
    /// Values here and below.
    pub inclusive: CallStats,
    /// Values here.
    pub exclusive: CallStats,
    /// In a comparison, the inclusive values of the other run.
    pub before: CallStats,
    /// How often its frame was called (towards callers: the frame that was hit, from here); 0 where that was not counted, as
    /// for Python functions of recordings of sums.
    pub calls: u64,
}

impl ViewNode {
    /// How much this run has more than the other one.
    pub fn change(&self) -> i128 {
        i128::from(self.inclusive.sum) - i128::from(self.before.sum)
    }
}

/// A view of a tree.
pub fn view(tree: &CallingContextTree, options: &ViewOptions) -> CallView {
    view_pruned(tree, options, 0.0, &[])
}

/// A view of a tree; towards callers (bottom-up, callers) only those of rows with at least this part of the whole are followed.
/// What is there is as in [`view`]. `continued` says what calls count at another line, where lines of functions were told apart.
pub fn view_pruned(
    tree: &CallingContextTree,
    options: &ViewOptions,
    least: f64,
    continued: &[(CallNodeId, CallThreadId, u64)],
) -> CallView {
    let counts = build::Counts::new(tree, continued);
    let mut builder = build::Builder::new();
    let followed = |all: u64| build::Least { shown: 0.0, followed: all as f64 * least };
    if !builder.add_plain(tree, options, &counts, &[], followed) {
        builder.prune();
        builder.add(tree, options, &counts, false);
        builder.put_waiting(least);
    }
    let is_up = matches!(options.shape, ViewDirection::BottomUp | ViewDirection::Callers);
    CallView { is_pruned: is_up && least > 0.0, ..builder.finish(tree, options, false) }
}

/// A bottom-up view of what has at least this part of the whole, and of nothing else: towards callers there are far more rows than
/// anybody sees. `below` names a frame and callers of it, the innermost first: with them, the whole is what was measured there, and
/// row 0 stands for the last of them. What is there is as in [`view`]. None if the view is not bottom-up, or goes by paths.
pub fn view_upwards(
    tree: &CallingContextTree,
    options: &ViewOptions,
    continued: &[(CallNodeId, CallThreadId, u64)],
    below: &[CallLabel],
    least: f64,
) -> Option<CallView> {
    let counts = build::Counts::new(tree, continued);
    let mut builder = build::Builder::new();
    let both = |all: u64| build::Least { shown: all as f64 * least, followed: all as f64 * least };
    let is_made = can_view_upwards(options) && builder.add_plain(tree, options, &counts, below, both);
    is_made.then(|| CallView { is_pruned: true, ..builder.finish(tree, options, false) })
}

/// Whether [`view_upwards`] can make a view.
pub fn can_view_upwards(options: &ViewOptions) -> bool {
    options.shape == ViewDirection::BottomUp && build::is_plain(options)
}

/// A view of `after` beside that of `before`: the same labels stand in the same place. Functions are compared, not
/// lines, which move when a program is changed; inputs of operators tell them apart if both runs know them.
pub fn compare(before: &CallingContextTree, after: &CallingContextTree, options: &ViewOptions) -> CallView {
    let has_inputs =
        |tree: &CallingContextTree| tree.frames.iter().any(|frame| !frame.tensors(&tree.strings).is_empty());
    let by_inputs = options.by_inputs && has_inputs(before) && has_inputs(after);
    let by = options.by.map(|by| if by == Grouping::Shapes && !by_inputs { Grouping::Operator } else { by });
    let options = ViewOptions { by_line: false, by_inputs, by, ..options.clone() };
    let mut builder = build::Builder::new();
    let metric = match options.metric {
        CallMetric::Counter(name) => {
            // Numbers of texts are those of one tree: a name that the other one does not have is nothing there.
            CallMetric::Counter(before.strings.find(after.strings.get(name)).unwrap_or(stackline_model::StrId::NONE))
        }
        fixed => fixed,
    };
    builder.add(before, &ViewOptions { metric, ..options.clone() }, &build::Counts::new(before, &[]), true);
    builder.add(after, &options, &build::Counts::new(after, &[]), false);
    builder.finish(after, &options, true)
}

impl CallView {
    /// In a comparison, what the other run has of so many steps as if they were as many as those of this run: parts of both are
    /// compared by step, whatever their number is.
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

    /// The same view without nodes deeper than `depth`, and with only the `top` largest of the rest (in a comparison,
    /// those that changed most) and what leads to them. 0 keeps all.
    #[must_use]
    pub fn keep(&self, depth: usize, top: usize) -> Self {
        self.keep_of(depth, top, &(0..self.nodes.len()).collect::<Vec<_>>())
    }

    /// As [`Self::keep`], but the frames of a chain that people see in one line count as one, and so does what is left
    /// out.
    #[must_use]
    pub fn keep_lines(&self, depth: usize, top: usize) -> Self {
        let mut first: Vec<usize> = (0..self.nodes.len()).collect();
        for (row, joins) in self.joined().into_iter().enumerate() {
            if joins {
                first[row] = first[row - 1];
            }
        }
        self.keep_of(depth, top, &first)
    }

    /// Which nodes stand in the line of the one before them: Python frames that are all that their caller called.
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

    /// Keeps the largest nodes, counting those with the same entry in `line` as one.
    fn keep_of(&self, depth: usize, top: usize, line: &[usize]) -> Self {
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
        Self { nodes, left_out, narrow: Vec::new(), ..self.clone() }
    }

    /// The label of a node.
    pub fn label(&self, row: usize) -> &CallLabel {
        &self.labels[self.nodes[row].label]
    }
}
