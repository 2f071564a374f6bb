//! Costs by line of Python source.

use super::{IMPORT, metric_name};
use rustc_hash::FxHashMap;
use stackline_model::{CallMetric, CallNodeId, CallStats, CallingContextTree, Frame, StrId, Table, Unit};
use std::collections::BTreeSet;

/// What a line of source cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// Its file.
    pub file: String,
    /// Its number, from 1.
    pub line: u32,
    /// Its function; of several, such as one and a lambda in it, all, separated by commas.
    pub function: String,
    /// All that was measured while it ran or waited for what it called.
    pub inclusive: CallStats,
    /// What was measured while no other line of Python ran: in operators and native code that it called.
    pub exclusive: CallStats,
}

/// The lines that cost something, by file and line.
pub fn source_lines(tree: &CallingContextTree, metric: CallMetric) -> Vec<SourceLine> {
    lines_of(tree, metric, tree.exclusive(metric, |_| true))
}

/// The same without what imports cost, and what they cost in sum, in the metric's unit; of a tree whose imports are folded
/// ([`fold_imports`](super::fold_imports)).
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

fn lines_of(tree: &CallingContextTree, metric: CallMetric, exclusive: Vec<CallStats>) -> Vec<SourceLine> {
    let mut costs = Costs::new(tree, metric, exclusive);
    let children = tree.children();
    // Nodes to enter, and lines to leave, last first.
    let mut left = vec![Move::Enter { node: CallingContextTree::ROOT, caller: None, is_held: false }];
    while let Some(next) = left.pop() {
        match next {
            Move::Leave(line) => costs.lines[line].open -= 1,
            Move::Enter { node, caller, is_held } => {
                let own = costs.enter(node, is_held);
                left.extend(own.map(Move::Leave));
                let caller = own.or(caller);
                costs.add_own(node, caller, is_held);
                // Times of calls within calls are held by the outer ones already.
                let holds =
                    node != CallingContextTree::ROOT && !metric.adds_up() && costs.exclusive[node.index()].count > 0;
                let is_held = is_held || holds;
                left.extend(children.of_node(node).iter().map(|&node| Move::Enter { node, caller, is_held }));
            }
        }
    }
    let mut lines: Vec<SourceLine> = costs.lines.into_iter().filter_map(|line| line.finish(tree)).collect();
    lines.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    lines
}

/// On the way through a tree, outermost first.
enum Move {
    Enter {
        node: CallNodeId,
        /// The innermost line around it.
        caller: Option<usize>,
        /// Whether what was measured there is part of what a node around it has.
        is_held: bool,
    },
    /// All below a node of this line has been seen.
    Leave(usize),
}

struct Costs<'a> {
    tree: &'a CallingContextTree,
    exclusive: Vec<CallStats>,
    inclusive: Vec<CallStats>,
    /// Rows of `lines` by file and line.
    rows: FxHashMap<(StrId, u32), usize>,
    lines: Vec<Cost<'a>>,
}

impl<'a> Costs<'a> {
    fn new(tree: &'a CallingContextTree, metric: CallMetric, exclusive: Vec<CallStats>) -> Self {
        let inclusive = tree.inclusive(metric, &exclusive);
        Self { tree, exclusive, inclusive, rows: FxHashMap::default(), lines: Vec::new() }
    }

    /// The line of a node, if it is one of Python that cost something, with what it cost. Functions that are built in have no
    /// file: what runs below them is their caller's.
    fn enter(&mut self, node: CallNodeId, is_held: bool) -> Option<usize> {
        let cost = self.inclusive[node.index()];
        let frame = self.tree.frame(node).filter(|frame| frame.file().is_some() && cost.count > 0);
        let Some(&Frame::Python { function, file, line, .. }) = frame else { return None };
        let row = *self.rows.entry((file, line)).or_insert(self.lines.len());
        if row == self.lines.len() {
            self.lines.push(Cost { file, line, ..Cost::default() });
        }
        let line = self.lines.get_mut(row)?;
        line.functions.insert(self.tree.strings.get(function));
        // What is below a line twice counts once.
        if line.open == 0 && !is_held {
            line.inclusive.merge(&cost);
        }
        line.open += 1;
        Some(row)
    }

    /// What was measured at a node itself is its innermost line's.
    fn add_own(&mut self, node: CallNodeId, line: Option<usize>, is_held: bool) {
        if let Some(line) = line.filter(|_| !is_held).and_then(|line| self.lines.get_mut(line)) {
            line.exclusive.merge(&self.exclusive[node.index()]);
        }
    }
}

/// What is known of a line.
#[derive(Default)]
struct Cost<'a> {
    file: StrId,
    line: u32,
    /// How many nodes around the one that is looked at are of it.
    open: u32,
    functions: BTreeSet<&'a str>,
    inclusive: CallStats,
    exclusive: CallStats,
}

impl Cost<'_> {
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

/// The lines as a table; `text_of` gives the text of a line where it is at hand.
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
