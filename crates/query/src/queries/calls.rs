//! A view of the tree of calls: every box that is wide enough to be seen.

use crate::{Answer, Arguments, Column, Opened, QueryError, Source};
use serde_json::{Value, json};
use stackline_analyze::calls::{self, CallLabel, CallView, Grouping, Shape, ViewNode, ViewOptions};
use stackline_model::{CallMetric, CallTree};
use std::sync::Arc;

/// Most boxes in an answer.
const MOST: usize = 50_000;
/// Boxes narrower than this part of the widest are left out, where nothing else is asked for: half a pixel of 1600.
const NARROWEST: f64 = 1.0 / 3200.0;

/// Callers of what has less than this part of the whole are not followed: a tree turned round has a path for each place
/// that anything is called from. Zoomed in 64 times, what is half a pixel wide is still exact.
const UNFOLLOWED: f64 = NARROWEST / 64.0;

const SHAPES: [(&str, Shape); 5] = [
    ("top-down", Shape::TopDown),
    ("bottom-up", Shape::BottomUp),
    ("flat", Shape::Flat),
    ("callers", Shape::Callers),
    ("callees", Shape::Callees),
];

/// Groups that a view can be of alone.
const ONLY: [(&str, Grouping); 3] =
    [("thread", Grouping::Thread), ("phase", Grouping::Phase), ("module", Grouping::Module)];

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
    let asked = Asked::new(opened, arguments)?;
    let view = asked.kept_view(opened, arguments);
    let root = row(&view, arguments)?.unwrap_or(0);
    let least: f64 = arguments.number("least")?.unwrap_or(NARROWEST);
    Ok(boxes(&view, root, least.clamp(0.0, 1.0), asked.metrics()))
}

/// One node by all that was measured.
pub(super) fn frame(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let asked = Asked::new(opened, arguments)?;
    let view = asked.kept_view(opened, arguments);
    let row = row(&view, arguments)?.ok_or(QueryError::Argument { name: "root", why: "is missing".to_owned() })?;
    let path: Vec<&CallLabel> = rows_to(&view, row).into_iter().map(|row| view.label(row)).collect();
    let tree = asked.source.tree();
    let metrics = tree.measured().into_iter().map(|metric| {
        // Kept as if the page had asked for it: the next frame needs it, too.
        let named = arguments.without(&["root", "least"]).with("metric", metric.name(&tree.strings));
        let other = (metric != asked.options.metric).then(|| opened.view(&named.key(), || asked.view(metric)));
        let view = other.as_ref().unwrap_or(&view);
        let node = find(view, &path);
        let of = |sum: fn(&ViewNode) -> u64| node.map(|row| row.map_or(0, |row| sum(&view.nodes[row])));
        json!({
            "name": view.metric, "title": view.title, "unit": view.unit, "total": view.total.sum,
            "inclusive": of(|node| node.inclusive.sum), "exclusive": of(|node| node.exclusive.sum),
        })
    });
    let calls = counted(&view, row);
    let path = path.iter().map(|of| json!([of.kind, of.name, of.inputs, of.file, of.line, of.short()]));
    Ok(Answer::document(
        &json!({"path": path.collect::<Vec<_>>(), "calls": calls, "metrics": metrics.collect::<Vec<_>>()}),
    ))
}

/// How often the frame of a row was called, if that was counted.
fn counted(view: &CallView, row: usize) -> Option<u64> {
    // Beside another run, lines of one function are one frame: what of its calls went on at another line is not told apart.
    Some(view.nodes[row].calls).filter(|&calls| calls > 0 && view.before.is_none())
}

/// The row that `root` names.
fn row(view: &CallView, arguments: &Arguments) -> Result<Option<usize>, QueryError> {
    match arguments.number("root")? {
        Some(row) if row >= view.nodes.len() => Err(QueryError::missing(format!("there is no node {row}"))),
        row => Ok(row),
    }
}

/// The row with these labels from below the root on: `Some(None)` if there is none since nothing was measured there, `None` if
/// that is not known, for callers of so little were not followed.
fn find(view: &CallView, path: &[&CallLabel]) -> Option<Option<usize>> {
    let least = view.nodes[0].inclusive.sum as f64 * UNFOLLOWED;
    let mut at = 0;
    for label in path {
        let mut below = at + 1..end(view, at);
        match below.find(|&row| view.nodes[row].parent == at && view.label(row) == *label) {
            Some(row) => at = row,
            None if view.is_pruned && at > 0 && (view.nodes[at].inclusive.sum as f64) < least => return None,
            None => return Some(None),
        }
    }
    Some(Some(at))
}

/// What a view is asked of, and how.
struct Asked<'o> {
    source: Source<'o>,
    beside: Option<Source<'o>>,
    options: ViewOptions,
}

impl<'o> Asked<'o> {
    fn new(opened: &'o Opened, arguments: &Arguments) -> Result<Self, QueryError> {
        let (rank, part) = (arguments.number("rank")?, arguments.part()?);
        let source = opened.calls(rank, part)?;
        let measured = source.tree().measured();
        if measured.is_empty() {
            return Err(QueryError::unavailable("nothing was measured at any call: there is no tree to draw"));
        }
        let options = options(source.tree(), &measured, arguments)?;
        let before = || {
            let before = opened.before()?;
            before.calls(rank, before.like(rank, part))
        };
        let beside = arguments.choice("beside", &[("before", ())])?.map(|()| before()).transpose()?;
        if let Some(before) = &beside {
            check_measured(before.tree(), source.tree(), options.metric)?;
        }
        Ok(Self { source, beside, options })
    }

    fn view(&self, metric: CallMetric) -> CallView {
        let options = ViewOptions { metric, ..self.options.clone() };
        match &self.beside {
            Some(before) => calls::compare(before.tree(), self.source.tree(), &options),
            None => calls::view_pruned(self.source.tree(), &options, UNFOLLOWED, self.source.continued()),
        }
    }

    fn kept_view(&self, opened: &Opened, arguments: &Arguments) -> Arc<CallView> {
        let key = arguments.without(&["root", "least"]).key();
        opened.view(&key, || self.view(self.options.metric))
    }

    /// Names of all that was measured.
    fn metrics(&self) -> Vec<Value> {
        let tree = self.source.tree();
        let one = |metric: &CallMetric| json!([metric.name(&tree.strings), metric.title(&tree.strings)]);
        tree.measured().iter().map(one).collect()
    }
}

/// Refuses to compare what one of both runs did not measure: all of it would seem to be new.
fn check_measured(before: &CallTree, after: &CallTree, metric: CallMetric) -> Result<(), QueryError> {
    let name = metric.name(&after.strings);
    let is_measured = before.measured().iter().any(|of| of.name(&before.strings) == name);
    let why = || {
        format!("A, the run before, has no {}: by another metric both can be compared", metric.title(&after.strings))
    };
    is_measured.then_some(()).ok_or_else(|| QueryError::unavailable(why()))
}

fn options(tree: &CallTree, measured: &[CallMetric], arguments: &Arguments) -> Result<ViewOptions, QueryError> {
    let metric = match arguments.text("metric")? {
        None => measured[0],
        Some(name) => *measured
            .iter()
            .find(|metric| metric.name(&tree.strings) == name)
            .ok_or_else(|| QueryError::Argument { name: "metric", why: format!("{name:?} was not measured") })?,
    };
    let mut only = Vec::new();
    for (name, by) in ONLY {
        only.extend(arguments.text(name)?.map(|group| (by, group.to_owned())));
    }
    let is_merged = arguments.choice("merge", &[("name", ())])?.is_some();
    Ok(ViewOptions {
        shape: arguments.choice("shape", &SHAPES)?.unwrap_or_default(),
        by: arguments.choice("by", &GROUPINGS)?,
        focus: arguments.pattern("focus")?,
        hide: arguments.pattern("hide")?,
        callers_of: arguments.pattern("of")?,
        by_line: !is_merged,
        by_inputs: !is_merged,
        only,
        collapse: arguments.choice("recursion", &[("collapsed", ())])?.is_some(),
        ..ViewOptions::new(metric)
    })
}

/// The boxes below a node, and how many were left out below each.
fn boxes(view: &CallView, root: usize, least: f64, metrics: Vec<Value>) -> Answer {
    let kept = kept(view, root, least);
    let mut place = vec![u32::MAX; view.nodes.len()];
    let (mut row, mut parent, mut depth, mut label) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut inclusive, mut exclusive, mut calls) = (Vec::new(), Vec::new(), Vec::new());
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
        calls.push(counted(view, node).unwrap_or(0) as f64);
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
        ("calls", Column::F64(calls)),
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
fn path(view: &CallView, root: usize) -> Vec<Value> {
    rows_to(view, root).into_iter().map(|row| json!([row, view.label(row).short()])).collect()
}

/// Rows from below the root of the view to a node.
fn rows_to(view: &CallView, mut row: usize) -> Vec<usize> {
    let mut rows = Vec::new();
    while row != 0 {
        rows.push(row);
        row = view.nodes[row].parent;
    }
    rows.reverse();
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::{CallFrame, CallProcess, CallStats, CallThread, CallTreeBuilder};

    #[test]
    fn what_was_not_followed_is_not_taken_for_nothing() {
        let mut builder = CallTreeBuilder::new();
        let process = builder.process(CallProcess::default());
        let name = builder.text("main");
        let thread = builder.thread(CallThread { process, tid: 1, torch_id: 0, name });
        for (path, value) in [(["step", "large"], 1_000_000_000), (["step", "small"], 1)] {
            let node = path.into_iter().fold(CallTree::ROOT, |node, name| {
                let frame = CallFrame::operator(builder.text(name));
                let frame = builder.frame(frame);
                builder.child(node, frame)
            });
            builder.add(node, thread, CallMetric::OperatorTime, &CallStats::of(value));
        }
        let tree = builder.finish();
        let options = ViewOptions { shape: Shape::BottomUp, ..ViewOptions::new(CallMetric::OperatorTime) };
        let view = calls::view_pruned(&tree, &options, UNFOLLOWED, &[]);
        let [small, step] =
            ["small", "step"].map(|name| CallLabel { kind: "operator", name: name.into(), ..CallLabel::default() });
        assert_eq!(find(&view, &[&small, &step]), None, "its callers were not followed");
        assert_eq!(find(&view, &[&step, &small]), Some(None), "nothing was measured in the step itself");
        assert!(matches!(find(&view, &[&small]), Some(Some(_))));
    }
}
