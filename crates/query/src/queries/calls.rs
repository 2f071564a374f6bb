//! A view of the tree of calls: every box that is wide enough to be seen.

use crate::{Answer, Arguments, Column, Opened, QueryError};
use serde_json::json;
use stackline_analyze::calls::{self, CallView, Grouping, Shape, ViewOptions};
use stackline_model::{CallMetric, CallTree};

/// Most boxes in an answer.
const MOST: usize = 50_000;
/// Boxes narrower than this part of the widest are left out, where nothing else is asked for: half a pixel of 1600.
const NARROWEST: f64 = 1.0 / 3200.0;

/// Callers of what has less than this part of the whole are not followed: a tree turned round has a path for each place
/// that anything is called from. Zoomed in 64 times, what is half a pixel wide is still exact.
const UNFOLLOWED: f64 = NARROWEST / 64.0;

const SHAPES: [(&str, Shape); 4] =
    [("top-down", Shape::TopDown), ("bottom-up", Shape::BottomUp), ("flat", Shape::Flat), ("callers", Shape::Callers)];

const GROUPINGS: [(&str, Grouping); 10] = [
    ("thread", Grouping::Thread),
    ("process", Grouping::Process),
    ("rank", Grouping::Rank),
    ("phase", Grouping::Phase),
    ("operator", Grouping::Operator),
    ("shapes", Grouping::Shapes),
    ("module", Grouping::Module),
    ("span", Grouping::Span),
    ("function", Grouping::Function),
    ("file", Grouping::File),
];

pub(super) fn answer(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let rank = arguments.number("rank")?;
    let source = opened.calls(rank)?;
    let tree = source.tree();
    let measured = tree.measured();
    if measured.is_empty() {
        return Err(QueryError::unavailable("nothing was measured at any call: there is no tree to draw"));
    }
    let options = options(tree, &measured, arguments)?;
    let key = arguments.without(&["root", "least"]).key();
    let beside = arguments.choice("beside", &[("before", ())])?.map(|()| opened.before()?.calls(rank)).transpose()?;
    let view = opened.view(&key, || match &beside {
        Some(before) => calls::compare(before.tree(), tree, &options),
        None => calls::view_pruned(tree, &options, UNFOLLOWED),
    });
    let metrics: Vec<_> =
        measured.iter().map(|metric| json!([metric.name(&tree.strings), metric.title(&tree.strings)])).collect();
    let root: usize = arguments.number("root")?.unwrap_or(0);
    let least: f64 = arguments.number("least")?.unwrap_or(NARROWEST);
    if root >= view.nodes.len() {
        return Err(QueryError::missing(format!("there is no node {root}")));
    }
    Ok(boxes(&view, root, least.clamp(0.0, 1.0), metrics))
}

fn options(tree: &CallTree, measured: &[CallMetric], arguments: &Arguments) -> Result<ViewOptions, QueryError> {
    let metric = match arguments.text("metric")? {
        None => measured[0],
        Some(name) => *measured
            .iter()
            .find(|metric| metric.name(&tree.strings) == name)
            .ok_or_else(|| QueryError::Argument { name: "metric", why: format!("{name:?} was not measured") })?,
    };
    Ok(ViewOptions {
        shape: arguments.choice("shape", &SHAPES)?.unwrap_or_default(),
        by: arguments.choice("by", &GROUPINGS)?,
        focus: arguments.pattern("focus")?,
        hide: arguments.pattern("hide")?,
        callers_of: arguments.pattern("of")?,
        ..ViewOptions::new(metric)
    })
}

/// The boxes below a node, and how many were left out below each.
fn boxes(view: &CallView, root: usize, least: f64, metrics: Vec<serde_json::Value>) -> Answer {
    let kept = kept(view, root, least);
    let mut place = vec![u32::MAX; view.nodes.len()];
    let (mut row, mut parent, mut depth, mut label) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut inclusive, mut exclusive, mut count) = (Vec::new(), Vec::new(), Vec::new());
    let mut before = Vec::new();
    let mut labels = Vec::new();
    let mut label_place = vec![u32::MAX; view.labels.len()];
    for (at, &node) in kept.iter().enumerate() {
        place[node] = at as u32;
        let data = &view.nodes[node];
        if label_place[data.label] == u32::MAX {
            label_place[data.label] = labels.len() as u32;
            let of = &view.labels[data.label];
            labels.push(json!([
                of.kind,
                super::shortened(&of.name),
                super::shortened(&of.inputs),
                of.file,
                of.line,
                super::shortened(&of.short())
            ]));
        }
        row.push(node as u32);
        parent.push(if at == 0 { 0 } else { place[data.parent] });
        depth.push((data.depth - view.nodes[root].depth) as u32);
        label.push(label_place[data.label]);
        inclusive.push(data.inclusive.sum as f64);
        exclusive.push(data.exclusive.sum as f64);
        count.push(data.inclusive.count as f64);
        before.push(data.before.sum as f64);
    }
    let document = json!({
        "metric": view.metric,
        "title": view.title,
        "unit": view.unit,
        "total": view.total.sum,
        "before": view.before.map(|before| before.sum),
        "nodes": view.nodes.len(),
        "left_out": end(view, root) - root - kept.len(),
        "metrics": metrics,
        "path": path(view, root),
        "labels": labels,
    });
    let mut columns = vec![
        ("row", Column::U32(row)),
        ("parent", Column::U32(parent)),
        ("depth", Column::U32(depth)),
        ("label", Column::U32(label)),
        ("inclusive", Column::F64(inclusive)),
        ("exclusive", Column::F64(exclusive)),
        ("count", Column::F64(count)),
    ];
    if view.before.is_some() {
        columns.push(("before", Column::F64(before)));
    }
    Answer { json: document.to_string(), columns }
}

/// Rows below a node that are wide enough, in the order of the view; if they are too many, the widest of them.
fn kept(view: &CallView, root: usize, least: f64) -> Vec<usize> {
    // In a comparison, what is gone is seen as well.
    let width = |row: usize| view.nodes[row].inclusive.sum.max(view.nodes[row].before.sum);
    let threshold = (width(root) as f64 * least).max(1.0);
    let mut rows: Vec<usize> =
        (root..end(view, root)).filter(|&row| row == root || width(row) as f64 >= threshold).collect();
    // A caller is no narrower than what it calls: what is kept never lacks its own.
    if let Some(limit) = super::limit(rows.iter().map(|&row| width(row)), MOST) {
        rows.retain(|&row| row == root || width(row) > limit);
    }
    rows
}

/// The row behind the last one below a node.
fn end(view: &CallView, root: usize) -> usize {
    let depth = view.nodes[root].depth;
    let below = view.nodes[root + 1..].iter().take_while(|node| node.depth > depth).count();
    root + 1 + below
}

/// From the root of the view to a node: rows and names.
fn path(view: &CallView, root: usize) -> Vec<serde_json::Value> {
    let mut rows = Vec::new();
    let mut row = root;
    while row != 0 {
        rows.push(json!([row, view.label(row).short()]));
        row = view.nodes[row].parent;
    }
    rows.reverse();
    rows
}
