//! Costs by line of Python source.

use super::metric_name;
use rustc_hash::FxHashMap;
use stackline_model::{CallFrame, CallMetric, CallStats, CallTree, StrId, Table, Unit};
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
pub fn source_lines(tree: &CallTree, metric: CallMetric) -> Vec<SourceLine> {
    let exclusive = tree.exclusive(metric, |_| true);
    let mut values: FxHashMap<(StrId, u32), Cost> = FxHashMap::default();
    for node in tree.nodes.ids().filter(|node| exclusive[node.index()].count > 0) {
        let mut lines = Vec::new();
        let mut held = false;
        for &at in tree.path(node).iter().rev() {
            // Times of calls within calls are held by the outer ones already.
            held |= at != node && !metric.adds_up() && exclusive[at.index()].count > 0;
            // Functions that are built in have no file: what runs below them is their caller's.
            let python = tree.frame(at).filter(|frame| frame.file().is_some());
            if let Some(&CallFrame::Python { function, file, line, .. }) = python {
                values.entry((file, line)).or_default().functions.insert(tree.strings.get(function));
                if !lines.contains(&(file, line)) {
                    lines.push((file, line));
                }
            }
        }
        for (position, &line) in lines.iter().enumerate().filter(|_| !held) {
            let cost = values.entry(line).or_default();
            cost.inclusive.merge(&exclusive[node.index()]);
            if position == 0 {
                cost.exclusive.merge(&exclusive[node.index()]);
            }
        }
    }
    let mut lines: Vec<SourceLine> = values
        .into_iter()
        .filter(|(_, cost)| cost.inclusive.count > 0)
        .map(|((file, line), cost)| SourceLine {
            file: tree.strings.get(file).to_owned(),
            line,
            function: cost.functions.into_iter().collect::<Vec<_>>().join(", "),
            inclusive: cost.inclusive,
            exclusive: cost.exclusive,
        })
        .collect();
    lines.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    lines
}

/// What is known of a line.
#[derive(Default)]
struct Cost<'a> {
    functions: BTreeSet<&'a str>,
    inclusive: CallStats,
    exclusive: CallStats,
}

/// The lines as a table; `text_of` gives the text of a line where it is at hand.
pub fn lines_table(
    tree: &CallTree,
    metric: CallMetric,
    lines: &[SourceLine],
    text_of: impl Fn(&SourceLine) -> Option<String>,
) -> Table {
    let unit = metric.unit();
    let name = metric_name(tree, metric);
    let total = tree.inclusive(metric, &tree.exclusive(metric, |_| true)).first().map_or(0, |all| all.sum);
    let percent = |part: u64| (total > 0).then(|| part as f64 * 100.0 / total as f64);
    let sum = |stats: &CallStats| i64::try_from(stats.sum).unwrap_or(i64::MAX);
    Table::new("call_lines", &format!("Source lines by {}", metric.title(&tree.strings)))
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
