//! Conversion of call tree views to tables.

use super::{CallView, ViewNode};
use stackline_model::{CallMetric, CallStats, CallingContextTree, Table, Unit};

/// Name of the table of [`view_table`].
pub const CALLS: &str = "calls";

/// Name of a call tree metric, as options take it.
pub fn metric_name(tree: &CallingContextTree, metric: CallMetric) -> String {
    metric.name(&tree.strings).to_owned()
}

/// Table of a view with one row per node, except the root. `node` and `parent` are numbers from 1; the parent of top
/// rows is 0.
pub fn view_table(view: &CallView) -> Table {
    let nodes = view.nodes.get(1..).unwrap_or_default();
    let labels: Vec<_> = nodes.iter().map(|node| &view.labels[node.label]).collect();
    let some = |text: &String| (!text.is_empty()).then(|| text.clone());
    let count = |stats: &CallStats| i64::try_from(stats.count).unwrap_or(i64::MAX);
    let percent = |part: u64, all: u64| (all > 0).then(|| part as f64 * 100.0 / all as f64);
    let hit = |node: &ViewNode, value: f64| (node.exclusive.count > 0).then_some(value);
    let unit = view.unit;
    let table = Table::new(CALLS, &format!("Calls by {}", view.title))
        .i64("node", Unit::None, (0..nodes.len()).map(|row| row as i64 + 1))
        .i64("parent", Unit::None, nodes.iter().map(|node| node.parent as i64))
        .i64("depth", Unit::None, nodes.iter().map(|node| node.depth as i64))
        .text("kind", labels.iter().map(|label| label.kind.to_owned()))
        .text("name", labels.iter().map(|label| label.name.clone()))
        .text("file", labels.iter().map(|label| some(&label.file)))
        .i64("line", Unit::None, labels.iter().map(|label| (label.line > 0).then_some(i64::from(label.line))))
        .text("metric", nodes.iter().map(|_| view.metric.clone()))
        .i64("inclusive", unit, nodes.iter().map(|node| whole(node.inclusive.sum)))
        .f64("inclusive_percent", Unit::Percent, nodes.iter().map(|node| percent(node.inclusive.sum, view.total.sum)))
        .i64("exclusive", unit, nodes.iter().map(|node| whole(node.exclusive.sum)))
        .f64("exclusive_percent", Unit::Percent, nodes.iter().map(|node| percent(node.exclusive.sum, view.total.sum)))
        .i64("inclusive_count", Unit::None, nodes.iter().map(|node| count(&node.inclusive)))
        .i64("count", Unit::None, nodes.iter().map(|node| count(&node.exclusive)))
        .f64("mean", unit, nodes.iter().map(|node| hit(node, node.exclusive.mean())))
        .f64("std", unit, nodes.iter().map(|node| hit(node, node.exclusive.standard_deviation())))
        .i64("min", unit, nodes.iter().map(|node| (node.exclusive.count > 0).then(|| whole(node.exclusive.min))))
        .i64("max", unit, nodes.iter().map(|node| (node.exclusive.count > 0).then(|| whole(node.exclusive.max))));
    let table = match view.left_out {
        0 => table,
        many => table.note(format!("{many} rows with smaller values or at greater depth are left out.")),
    };
    let table = match view.labels.iter().any(|label| !label.inputs.is_empty()) {
        true => table.text("inputs", labels.iter().map(|label| some(&label.inputs))),
        false => table,
    };
    if view.before.is_none() {
        return table;
    }
    let change = |node: &ViewNode| i64::try_from(node.change()).unwrap_or(i64::MAX);
    table
        .i64("before", unit, nodes.iter().map(|node| whole(node.before.sum)))
        .i64("before_count", Unit::None, nodes.iter().map(|node| count(&node.before)))
        .i64("change", unit, nodes.iter().map(change))
}

/// Convert a sum to a signed integer, with `i64::MAX` as the upper limit.
fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
