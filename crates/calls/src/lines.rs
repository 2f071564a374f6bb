//! Inclusive and self costs of Python source lines, from a calling context tree.

use super::{IMPORT, metric_name};
use rustc_hash::FxHashMap;
use stackline_model::{CallMetric, CallNodeId, CallStats, CallingContextTree, Frame, StrId, Table, Unit};
use std::collections::BTreeSet;

/// Cost of a source line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// File name.
    pub file: String,
    /// Line number, from 1.
    pub line: u32,
    /// Function; several functions, such as one and a lambda in it, are separated by commas.
    pub function: String,
    /// Inclusive cost: while the line ran, or waited for its callees.
    pub inclusive: CallStats,
    /// Self cost: while no other Python line ran, including operators and native code that it called.
    pub exclusive: CallStats,
}

/// All source lines with a cost, by file and line, over all threads.
pub fn source_lines(tree: &CallingContextTree, metric: CallMetric) -> Vec<SourceLine> {
    lines_of(tree, metric, tree.exclusive(metric, |_| true))
}

/// Costs of source lines without imports, and the total cost of imports in the metric's unit. The imports of the tree
/// must be folded ([`fold_imports`](super::fold_imports)).
pub fn source_lines_and_imports(tree: &CallingContextTree, metric: CallMetric) -> (Vec<SourceLine>, u64) {
    let is_import = |frame: &Frame| matches!(*frame, Frame::Span { name } if tree.strings.get(name) == IMPORT);
    let mut exclusive = tree.exclusive(metric, |_| true);
    let mut imports: u64 = 0;
    for (row, stats) in exclusive.iter_mut().enumerate() {
        if tree.frame(CallNodeId::new(row)).is_some_and(is_import) {
            imports = imports.saturating_add(std::mem::take(stats).sum);
        }
    }
    (lines_of(tree, metric, exclusive), imports)
}

/// Inclusive and self costs of source lines from exclusive values by node; recursive occurrences of a line count once.
fn lines_of(tree: &CallingContextTree, metric: CallMetric, exclusive: Vec<CallStats>) -> Vec<SourceLine> {
    let mut costs = Costs::new(tree, metric, exclusive);
    let children = tree.children();
    // Stack of nodes to enter and lines to leave.
    let mut left = vec![Move::Enter { node: CallingContextTree::ROOT, caller: None, is_included: false }];
    while let Some(next) = left.pop() {
        match next {
            Move::Leave(line) => costs.lines[line].open -= 1,
            Move::Enter { node, caller, is_included } => {
                let own = costs.enter(node, is_included);
                left.extend(own.map(Move::Leave));
                let caller = own.or(caller);
                costs.add_own(node, caller, is_included);
                // Times of nested calls are part of the outer ones.
                let holds =
                    node != CallingContextTree::ROOT && !metric.adds_up() && costs.exclusive[node.index()].count > 0;
                let is_included = is_included || holds;
                left.extend(children.of_node(node).iter().map(|&node| Move::Enter { node, caller, is_included }));
            }
        }
    }
    let mut lines: Vec<SourceLine> = costs.lines.into_iter().filter_map(|line| line.finish(tree)).collect();
    lines.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    lines
}

/// Step of a depth-first traversal of a call tree: enter or leave a node.
enum Move {
    Enter {
        node: CallNodeId,
        /// Innermost enclosing line.
        caller: Option<usize>,
        /// True if an enclosing node's value contains the value of this node.
        is_included: bool,
    },
    /// End of the subtree of a node with this line.
    Leave(usize),
}

/// Costs per source line, summed during a depth-first traversal of a call tree.
struct Costs<'a> {
    tree: &'a CallingContextTree,
    exclusive: Vec<CallStats>,
    inclusive: Vec<CallStats>,
    /// Index in `lines` by file and line.
    rows: FxHashMap<(StrId, u32), usize>,
    lines: Vec<Cost<'a>>,
}

impl<'a> Costs<'a> {
    /// Create sums without any line yet, with the inclusive values of all nodes.
    fn new(tree: &'a CallingContextTree, metric: CallMetric, exclusive: Vec<CallStats>) -> Self {
        let inclusive = tree.inclusive(metric, &exclusive);
        Self { tree, exclusive, inclusive, rows: FxHashMap::default(), lines: Vec::new() }
    }

    /// Add a node's inclusive cost to its source line on entering the node, and return the line's index. `None` if the
    /// node is not a Python frame with a file and a cost. Built-in functions have no file, and their callees count for
    /// their callers.
    fn enter(&mut self, node: CallNodeId, is_included: bool) -> Option<usize> {
        let cost = self.inclusive[node.index()];
        let frame = self.tree.frame(node).filter(|frame| frame.file().is_some() && cost.count > 0);
        let Some(&Frame::Python { function, file, line, .. }) = frame else { return None };
        let row = *self.rows.entry((file, line)).or_insert(self.lines.len());
        if row == self.lines.len() {
            self.lines.push(Cost { file, line, ..Cost::default() });
        }
        let line = self.lines.get_mut(row)?;
        line.functions.insert(self.tree.strings.get(function));
        // Recursive occurrences of a line count once.
        if line.open == 0 && !is_included {
            line.inclusive.merge(&cost);
        }
        line.open += 1;
        Some(row)
    }

    /// Add the self value of a node to its innermost line.
    fn add_own(&mut self, node: CallNodeId, line: Option<usize>, is_included: bool) {
        if let Some(line) = line.filter(|_| !is_included).and_then(|line| self.lines.get_mut(line)) {
            line.exclusive.merge(&self.exclusive[node.index()]);
        }
    }
}

/// Cost of one source line, as summed so far in the traversal.
#[derive(Default)]
struct Cost<'a> {
    file: StrId,
    line: u32,
    /// Number of open nodes with this line.
    open: u32,
    functions: BTreeSet<&'a str>,
    inclusive: CallStats,
    exclusive: CallStats,
}

impl Cost<'_> {
    /// Source line with its functions and costs; `None` if the line has no inclusive cost.
    fn finish(self, tree: &CallingContextTree) -> Option<SourceLine> {
        (self.inclusive.count > 0).then(|| SourceLine {
            file: tree.strings.get(self.file).to_owned(),
            line: self.line,
            function: self.functions.into_iter().collect::<Vec<_>>().join(", "),
            inclusive: self.inclusive,
            exclusive: self.exclusive,
        })
    }
}

/// Name of the table of [`lines_table`].
pub const CALL_LINES: &str = "call_lines";

/// Table of source lines; `text_of` returns the source text of a line, if available.
pub fn lines_table(
    tree: &CallingContextTree,
    metric: CallMetric,
    lines: &[SourceLine],
    text_of: impl Fn(&SourceLine) -> Option<String>,
) -> Table {
    let unit = metric.unit();
    let name = metric_name(tree, metric);
    let total = tree.inclusive(metric, &tree.exclusive(metric, |_| true)).first().map_or(0, |all| all.sum);
    let percent = |part: u64| (total > 0).then(|| part as f64 * 100.0 / total as f64);
    let sum = |stats: &CallStats| i64::try_from(stats.sum).unwrap_or(i64::MAX);
    Table::new(CALL_LINES, &format!("Source lines by {}", metric.title(&tree.strings)))
        .text("metric", lines.iter().map(|_| name.clone()))
        .text("file", lines.iter().map(|line| line.file.clone()))
        .i64("line", Unit::None, lines.iter().map(|line| i64::from(line.line)))
        .text("function", lines.iter().map(|line| line.function.clone()))
        .i64("inclusive", unit, lines.iter().map(|line| sum(&line.inclusive)))
        .f64("inclusive_percent", Unit::Percent, lines.iter().map(|line| percent(line.inclusive.sum)))
        .i64("exclusive", unit, lines.iter().map(|line| sum(&line.exclusive)))
        .i64("count", Unit::None, lines.iter().map(|line| i64::try_from(line.inclusive.count).unwrap_or(i64::MAX)))
        .text("source", lines.iter().map(text_of))
}
