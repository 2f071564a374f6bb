//! Query of one frame of a call tree view by every measured metric.

use super::{Label, UNFOLLOWED, ViewRequest, call_count, subtree_end};
use crate::prefetch::{Stage, chosen};
use crate::{Answer, Arguments, OpenRun, QueryError};
use serde::Serialize;
use stackline_calls::{CallLabel, CallView, ViewNode};
use stackline_model::Unit;

/// Details of a frame in a call tree view: its path, and its sums by every metric.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(in crate::queries) struct FrameDetail<'a> {
    /// Frames from below the root of the view to the node.
    path: Vec<Label<'a>>,
    /// Number of calls of the frame; null if not counted.
    calls: Option<u64>,
    metrics: Vec<FrameMetric>,
}

/// Sums of one metric at a node of the call tree; null for callers below the depth of the view.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct FrameMetric {
    name: String,
    title: String,
    #[cfg_attr(test, ts(as = "String"))]
    unit: Unit,
    total: u64,
    inclusive: Option<u64>,
    exclusive: Option<u64>,
}

impl FrameMetric {
    fn new(view: &CallView, inclusive: Option<u64>, exclusive: Option<u64>) -> Self {
        let CallView { metric, title, unit, total, .. } = view;
        Self { name: metric.clone(), title: title.clone(), unit: *unit, total: total.sum, inclusive, exclusive }
    }
}

/// Answer the query for one frame of a call tree view by every metric.
pub(in crate::queries) fn answer(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let request = ViewRequest::new(opened, arguments)?;
    let place = request.find_row(opened, arguments)?;
    if arguments.text("root")?.is_none() {
        return Err(QueryError::Argument { name: "root", why: "is missing".to_owned() });
    }
    let (view, row) = (&place.view, place.row);
    let labels = place.labels();
    let path: Vec<&CallLabel> = labels.iter().collect();
    let tree = request.source.tree();
    let metrics = tree.measured().into_iter().map(|metric| {
        if metric == request.options.metric {
            let node = &view.nodes[row];
            return FrameMetric::new(view, Some(node.inclusive.sum), Some(node.exclusive.sum));
        }
        if let Some(there) = request.view_at_path(metric, &labels) {
            let node = &there.nodes[0];
            return FrameMetric::new(&there, Some(node.inclusive.sum), Some(node.exclusive.sum));
        }
        // Kept as if the page had asked for it: the next frame needs it, too.
        let view = opened
            .view(&request.key(&arguments.clone().with("metric", metric.name(&tree.strings))), || request.view(metric));
        let node = find(&view, &path);
        let sum_of = |sum: fn(&ViewNode) -> u64| node.map(|row| row.map_or(0, |row| sum(&view.nodes[row])));
        FrameMetric::new(&view, sum_of(|node| node.inclusive.sum), sum_of(|node| node.exclusive.sum))
    });
    Answer::document(&FrameDetail {
        path: labels.iter().map(Label::new).collect(),
        calls: call_count(view, row),
        metrics: metrics.collect(),
    })
}

/// Row of the call tree view at a path of labels below the root. `Some(None)` if nothing was measured there; `None` if
/// unknown, because callers with small sums were not followed.
fn find(view: &CallView, path: &[&CallLabel]) -> Option<Option<usize>> {
    let least = view.nodes[0].inclusive.sum as f64 * UNFOLLOWED;
    let mut at = 0;
    for label in path {
        let mut below = at + 1..subtree_end(view, at);
        match below.find(|&row| view.nodes[row].parent == at && view.label(row) == *label) {
            Some(row) => at = row,
            None if view.is_pruned && at > 0 && (view.nodes[at].inclusive.sum as f64) < least => return None,
            None => return Some(None),
        }
    }
    Some(Some(at))
}

/// Frames of each direction of the flame graph whose details are at hand: those that take most.
const FRAMES: usize = 60;

/// Prefetched arguments of the query for one frame: the frames with the largest sums of each view, by part of the page.
pub(in crate::queries) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    let Stage::Frames(shape) = stage else { return Vec::new() };
    let view = chosen(opened).with("shape", shape);
    let Ok(answer) = super::answer(opened, &view) else { return Vec::new() };
    let mut rows: Vec<(f64, f64)> =
        answer.numbers("inclusive").iter().copied().zip(answer.numbers("row").iter().copied()).collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.total_cmp(&b.1)));
    let rows = rows.into_iter().filter(|&(_, row)| row > 0.0).take(FRAMES);
    rows.map(|(_, row)| view.clone().with("root", &row.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_calls as calls;
    use stackline_calls::{ViewDirection, ViewOptions};
    use stackline_model::{
        CallMetric, CallProcess, CallStats, CallThread, CallingContextTree, CallingContextTreeBuilder, Frame,
    };

    #[test]
    fn omitted_nodes_are_not_reported_as_zero() {
        let mut builder = CallingContextTreeBuilder::new();
        let process = builder.process(CallProcess::default());
        let name = builder.text("main");
        let thread = builder.thread(CallThread { process, tid: 1, torch_id: 0, name });
        for (path, value) in [(["step", "large"], 1_000_000_000), (["step", "small"], 1)] {
            let node = path.into_iter().fold(CallingContextTree::ROOT, |node, name| {
                let frame = Frame::operator(builder.text(name));
                let frame = builder.frame(frame);
                builder.child(node, frame)
            });
            builder.add(node, thread, CallMetric::OperatorTime, &CallStats::from_value(value));
        }
        let tree = builder.finish();
        let options = ViewOptions { shape: ViewDirection::BottomUp, ..ViewOptions::new(CallMetric::OperatorTime) };
        let view = calls::view_pruned(&tree, &options, UNFOLLOWED, &[]);
        let [small, step] =
            ["small", "step"].map(|name| CallLabel { kind: "operator", name: name.into(), ..CallLabel::default() });
        assert_eq!(find(&view, &[&small, &step]), None, "its callers were not followed");
        assert_eq!(find(&view, &[&step, &small]), Some(None), "nothing was measured in the step itself");
        assert!(matches!(find(&view, &[&small]), Some(Some(_))));
    }
}
