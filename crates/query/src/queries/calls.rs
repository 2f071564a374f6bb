//! Query of a call tree view as boxes: all frames wide enough to be visible, below one row.

pub(super) mod frame;

pub(super) use frame::answer as frame;

use crate::prefetch::{Part, Stage, alone, chosen};
use crate::{Answer, Arguments, Column, OpenRun, QueryError, Source};
use serde::Serialize;
use stackline_calls as calls;
use stackline_calls::{CallLabel, CallView, Grouping, ViewDirection, ViewOptions};
use stackline_model::{CallMetric, CallingContextTree, Unit};
use std::borrow::Cow;
use std::sync::Arc;

/// Most boxes in an answer.
const MOST: usize = 50_000;
/// Boxes narrower than this part of the widest are left out, where nothing else is asked for: half a pixel of 1600.
const NARROWEST: f64 = 1.0 / 3200.0;

/// Share of the total below which callers are not followed, since an inverted tree has a path for each call site. Boxes
/// of half a pixel are still exact at a zoom of 64.
const UNFOLLOWED: f64 = NARROWEST / 64.0;

/// Minimum share of a part of the view, so that zooms into it need no new view.
const PART_NARROWEST: f64 = NARROWEST / 16.0;
/// Rows of parts have numbers of their own: the row of the whole that the part is of, and the row in it, of so many bits.
const PART_BITS: u32 = 26;
const PART_MASK: u64 = (1 << PART_BITS) - 1;

const SHAPES: [(&str, ViewDirection); 5] = [
    ("top-down", ViewDirection::TopDown),
    ("bottom-up", ViewDirection::BottomUp),
    ("flat", ViewDirection::Flat),
    ("callers", ViewDirection::Callers),
    ("callees", ViewDirection::Callees),
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

/// Call tree view by one metric, below one row; the boxes are in the columns.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct Calls<'a> {
    /// Name of the metric.
    metric: &'a str,
    /// Name of the metric for people.
    title: &'a str,
    /// Unit of its sums.
    #[cfg_attr(test, ts(as = "String"))]
    unit: Unit,
    /// Sum over the whole run or the chosen part of it.
    total: u64,
    /// In a comparison, the sum of the baseline.
    before: Option<u64>,
    /// Nodes of the whole view.
    nodes: usize,
    /// Nodes below the root that are too narrow to have a box.
    left_out: usize,
    /// Name and title of each metric that was measured.
    metrics: Vec<(&'a str, &'a str)>,
    /// Self time of functions is split over lines by estimate.
    guessed: bool,
    /// In a comparison, how many steps each side covers; 0 where it has no steps.
    steps: Option<ComparedSteps>,
    /// Row and name of each frame from below the root of the view to the root of this answer.
    path: Vec<(u64, String)>,
    labels: Vec<Label<'a>>,
}

/// Number of steps that each side of a comparison covers.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct ComparedSteps {
    before: usize,
    after: usize,
}

/// A frame: its kind, name, tensor inputs, file, line (0 without one) and short name.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct Label<'a>(&'static str, Cow<'a, str>, Cow<'a, str>, &'a str, u32, String);

impl<'a> Label<'a> {
    /// Label of a call-tree frame with its whole names.
    fn new(label: &'a CallLabel) -> Self {
        let CallLabel { kind, name, inputs, file, line } = label;
        Self(kind, name.into(), inputs.into(), file, *line, label.short())
    }

    /// Label of a call-tree frame with very long names cut.
    fn shortened(label: &'a CallLabel) -> Self {
        let CallLabel { kind, name, inputs, file, line } = label;
        let [name, inputs, short] = [name, inputs, &label.short()].map(|text| super::shortened(text));
        Self(kind, name.into(), inputs.into(), file, *line, short)
    }
}

/// Names of the columns, with a row for each box; the column of the baseline exists only in comparisons.
pub(super) const COLUMNS: &[&str] = &["row", "parent", "depth", "label", "inclusive", "exclusive", "calls", "before?"];

/// Answer the query for the boxes of a call tree view.
pub(super) fn answer(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let request = ViewRequest::new(opened, arguments)?;
    let place = request.find_row(opened, arguments)?;
    boxes(&place, &request)
}

/// Number of calls of the frame in a row of the call tree view; `None` if it is 0, or in a comparison.
fn call_count(view: &CallView, row: usize) -> Option<u64> {
    // In a comparison, the lines of one function are one frame, so calls are not known per line.
    Some(view.nodes[row].calls).filter(|&calls| calls > 0 && view.before.is_none())
}

/// Convert a row number of a request to an index of the call tree view; an error if the view has no such row.
fn checked_row(view: &CallView, root: u64) -> Result<usize, QueryError> {
    let row = usize::try_from(root).unwrap_or(usize::MAX);
    let missing = || QueryError::missing(format!("this view of the call tree has no node {root}"));
    (row < view.nodes.len()).then_some(row).ok_or_else(missing)
}

/// Row that a query selects, with the call tree view that contains the row. In views towards callers, the view may
/// cover only a part of the tree. Its row's metrics then come from the whole view, which has only rows wide enough to
/// be visible.
struct ViewRow {
    view: Arc<CallView>,
    row: usize,
    /// The whole, and the row of it that the view is a part of.
    part: Option<(Arc<CallView>, usize)>,
}

impl ViewRow {
    /// Number by which queries refer to a row of the call tree view.
    fn number(&self, row: usize) -> u64 {
        match &self.part {
            None => row as u64,
            Some((_, of)) if row == 0 => *of as u64,
            Some((_, of)) => (*of as u64) << PART_BITS | row as u64,
        }
    }

    /// Numbers and labels of the rows from below the root of the whole call tree view to this row.
    fn path(&self) -> Vec<(u64, &CallLabel)> {
        let whole = self
            .part
            .iter()
            .flat_map(|(whole, of)| rows_to(whole, *of).into_iter().map(|row| (row as u64, whole.label(row))));
        let own = rows_to(&self.view, self.row).into_iter().map(|row| (self.number(row), self.view.label(row)));
        whole.chain(own).collect()
    }

    fn labels(&self) -> Vec<CallLabel> {
        self.path().into_iter().map(|(_, label)| label.clone()).collect()
    }

    /// Number of frames below this row without a box: rows beyond the `kept` ones, and small callers that the view
    /// itself omits.
    fn left_out(&self, kept: usize) -> usize {
        let (view, end) = (&self.view, subtree_end(&self.view, self.row));
        let small_callers = view.small_callers.get(self.row..end).unwrap_or_default();
        end - self.row - kept + small_callers.iter().map(|&many| many as usize).sum::<usize>()
    }
}

/// Request for a call tree view: trees of the run and its baseline, view options, and minimum width of boxes.
struct ViewRequest<'o> {
    source: Source<'o>,
    baseline: Option<Source<'o>>,
    options: ViewOptions,
    /// Minimum width of boxes, if given.
    least: Option<f64>,
}

impl<'o> ViewRequest<'o> {
    /// Find the call trees and options that the query arguments select.
    fn new(opened: &'o OpenRun, arguments: &Arguments) -> Result<Self, QueryError> {
        let (rank, part) = (arguments.number("rank")?, arguments.part()?);
        let is_compared = arguments.choice("baseline", &[("before", ())])?.is_some();
        let before = if is_compared { Some(opened.before()?) } else { None };
        // If the user selected no steps, the warm-up of either side is excluded from both.
        let own = before
            .filter(|_| opened.is_default_part(rank, part))
            .map_or(part, |before| opened.corresponding_part(rank, part, before));
        let source = opened.calls(rank, own)?;
        let measured = source.tree().measured();
        if measured.is_empty() {
            return Err(QueryError::unavailable("no recorded call has measurements, so there is no call tree to draw"));
        }
        let options = options(source.tree(), &measured, arguments)?;
        let baseline =
            before.map(|before| before.calls(rank, before.corresponding_part(rank, part, opened))).transpose()?;
        if let Some(before) = &baseline {
            check_measured(before.tree(), source.tree(), options.metric)?;
        }
        Ok(Self { source, baseline, options, least: arguments.number("least")? })
    }

    /// Compute the requested call tree view by a metric, compared with the baseline if there is one.
    fn view(&self, metric: CallMetric) -> CallView {
        let options = ViewOptions { metric, ..self.options.clone() };
        let (tree, uncounted_calls) = (self.source.tree(), self.source.uncounted_calls());
        match &self.baseline {
            Some(before) => {
                let mut view = calls::compare(before.tree(), tree, &options);
                view.scale_before(before.steps(), self.source.steps());
                view
            }
            None => {
                let wide = if self.includes_narrow_rows() {
                    None
                } else {
                    calls::view_upwards(tree, &options, uncounted_calls, &[], NARROWEST)
                };
                wide.unwrap_or_else(|| calls::view_pruned(tree, &options, UNFOLLOWED, uncounted_calls))
            }
        }
    }

    /// Compute the node at a path of labels by another metric, as the root of a view without callers. `None` in a
    /// comparison, or if that needs the whole view.
    fn view_at_path(&self, metric: CallMetric, labels: &[CallLabel]) -> Option<CallView> {
        let options = ViewOptions { metric, ..self.options.clone() };
        let (tree, uncounted_calls) = (self.source.tree(), self.source.uncounted_calls());
        // The view shows no callers of this node.
        let view = || calls::view_upwards(tree, &options, uncounted_calls, labels, f64::INFINITY);
        if self.baseline.is_some() { None } else { view() }
    }

    /// Check if the request includes rows that are too narrow to be visible.
    fn includes_narrow_rows(&self) -> bool {
        self.least.is_some_and(|least| least < NARROWEST)
    }

    /// Cache key of the requested call tree view: all arguments except the selected row and the minimum width.
    fn key(&self, arguments: &Arguments) -> String {
        let key = arguments.without(&["root", "least"]).key();
        if self.includes_narrow_rows() { format!("fine\n{key}") } else { key }
    }

    /// Find the row that the query arguments select, and compute the call tree view that contains the row.
    fn find_row(&self, opened: &OpenRun, arguments: &Arguments) -> Result<ViewRow, QueryError> {
        let key = self.key(arguments);
        let view = opened.view(&key, || self.view(self.options.metric));
        let root: u64 = arguments.number("root")?.unwrap_or(0);
        let has_parts =
            !self.includes_narrow_rows() && self.baseline.is_none() && calls::can_view_upwards(&self.options);
        if root == 0 || !has_parts {
            let row = checked_row(&view, root)?;
            return Ok(ViewRow { view, row, part: None });
        }
        let (of, inner) = if root >> PART_BITS == 0 { (root, 0) } else { (root >> PART_BITS, root & PART_MASK) };
        let of = checked_row(&view, of)?;
        let part = opened.view(&format!("{of} of\n{key}"), || self.view_below(&view, of));
        let row = checked_row(&part, inner)?;
        Ok(ViewRow { view: part, row, part: Some((view, of)) })
    }

    /// Compute the view of the part of a call tree that is below a row of the whole view.
    fn view_below(&self, whole: &CallView, of: usize) -> CallView {
        let labels: Vec<CallLabel> = rows_to(whole, of).into_iter().map(|row| whole.label(row).clone()).collect();
        let (tree, uncounted_calls) = (self.source.tree(), self.source.uncounted_calls());
        let part = calls::view_upwards(tree, &self.options, uncounted_calls, &labels, PART_NARROWEST);
        part.unwrap_or_else(|| whole.clone())
    }

    /// Names and titles of all metrics with values in the call tree.
    fn metrics(&self) -> Vec<(&str, &str)> {
        let tree = self.source.tree();
        let one = |metric: CallMetric| (metric.name(&tree.strings), metric.title(&tree.strings));
        tree.measured().into_iter().map(one).collect()
    }
}

/// Return an error if the baseline has no values of the metric of a comparison; everything would seem to be new.
fn check_measured(
    before: &CallingContextTree,
    after: &CallingContextTree,
    metric: CallMetric,
) -> Result<(), QueryError> {
    let name = metric.name(&after.strings);
    let is_measured = before.measured().iter().any(|of| of.name(&before.strings) == name);
    let title = metric.title(&after.strings);
    let why = || format!("the baseline (run A) has no values of {title}; select a metric that both runs have");
    is_measured.then_some(()).ok_or_else(|| QueryError::unavailable(why()))
}

/// Parse the query arguments that select the metric, direction, grouping and filters of a call tree view.
fn options(
    tree: &CallingContextTree,
    measured: &[CallMetric],
    arguments: &Arguments,
) -> Result<ViewOptions, QueryError> {
    let metric = match arguments.text("metric")? {
        None => measured[0],
        Some(name) => *measured.iter().find(|metric| metric.name(&tree.strings) == name).ok_or_else(|| {
            QueryError::Argument { name: "metric", why: format!("the run did not measure the metric {name:?}") }
        })?,
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

/// Answer with the visible boxes of a call tree view below a row, and the number of omitted ones.
fn boxes(place: &ViewRow, request: &ViewRequest<'_>) -> Result<Answer, QueryError> {
    let (view, root) = (&*place.view, place.row);
    let least = request.least.unwrap_or(NARROWEST).clamp(0.0, 1.0);
    let kept = visible_rows(view, root, least);
    let mut at = vec![u32::MAX; view.nodes.len()];
    let (mut row, mut parent, mut depth, mut label) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut inclusive, mut exclusive, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    let mut before = Vec::new();
    let mut labels = Labels::new(view);
    for (position, &node) in kept.iter().enumerate() {
        at[node] = position as u32;
        let data = &view.nodes[node];
        row.push(place.number(node) as f64);
        parent.push(if position == 0 { 0 } else { at[data.parent] });
        depth.push((data.depth - view.nodes[root].depth) as u32);
        label.push(labels.index(data.label));
        inclusive.push(data.inclusive.sum as f64);
        exclusive.push(data.exclusive.sum as f64);
        calls.push(call_count(view, node).unwrap_or(0) as f64);
        before.push(data.before.sum as f64);
    }
    let document = Calls {
        metric: &view.metric,
        title: &view.title,
        unit: view.unit,
        total: view.total.sum,
        before: view.before.map(|before| before.sum),
        nodes: view.nodes.len(),
        left_out: place.left_out(kept.len()),
        metrics: request.metrics(),
        guessed: request.source.guesses_lines(),
        steps: request
            .baseline
            .as_ref()
            .map(|before| ComparedSteps { before: before.steps(), after: request.source.steps() }),
        path: place.path().into_iter().map(|(row, label)| (row, label.short())).collect(),
        labels: labels.list,
    };
    let mut columns = vec![
        ("row", Column::F64(row)),
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
    Answer::with_columns(&document, columns)
}

/// List of the distinct frame labels of an answer, filled on use.
struct Labels<'a> {
    view: &'a CallView,
    places: Vec<u32>,
    list: Vec<Label<'a>>,
}

impl<'a> Labels<'a> {
    fn new(view: &'a CallView) -> Self {
        Self { view, places: vec![u32::MAX; view.labels.len()], list: Vec::new() }
    }

    /// Index of a frame's label in the answer's list, added if it is new.
    fn index(&mut self, label: usize) -> u32 {
        if self.places[label] == u32::MAX {
            self.places[label] = self.list.len() as u32;
            self.list.push(Label::shortened(&self.view.labels[label]));
        }
        self.places[label]
    }
}

/// Rows at and below a row that are wide enough to be visible, in order; if there are too many, the widest of them.
fn visible_rows(view: &CallView, root: usize, least: f64) -> Vec<usize> {
    // In a comparison, frames of the earlier run are visible too.
    let width = |row: usize| view.nodes[row].inclusive.sum.max(view.nodes[row].before.sum);
    let threshold = (width(root) as f64 * least).max(1.0);
    let mut rows: Vec<usize> =
        (root..subtree_end(view, root)).filter(|&row| row == root || width(row) as f64 >= threshold).collect();
    // A caller is at least as wide as its callees, so the callers of all remaining rows remain too.
    if let Some(limit) = super::size_threshold(rows.iter().map(|&row| width(row)), MOST) {
        rows.retain(|&row| row == root || width(row) > limit);
    }
    rows
}

/// Index after the last row of a row's subtree in the call tree view.
fn subtree_end(view: &CallView, root: usize) -> usize {
    let depth = view.nodes[root].depth;
    let below = view.nodes[root + 1..].iter().take_while(|node| node.depth > depth).count();
    root + 1 + below
}

/// Path of rows in the call tree view, from below the root to the given row.
fn rows_to(view: &CallView, mut row: usize) -> Vec<usize> {
    let mut rows = Vec::new();
    while row != 0 {
        rows.push(row);
        row = view.nodes[row].parent;
    }
    rows.reverse();
    rows
}

/// The directions that the page draws a tree in.
const DRAWN: [&str; 3] = ["top-down", "bottom-up", "flat"];

/// Prefetched arguments of the query for the boxes of a call tree view, by part of the page.
pub(super) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    let shapes = |arguments: &Arguments| DRAWN.map(|shape| arguments.clone().with("shape", shape)).to_vec();
    match stage {
        Stage::Code => shapes(&chosen(opened)),
        Stage::Comparison if opened.before().is_ok() => {
            vec![chosen(opened).with("shape", "top-down").with("baseline", "before")]
        }
        Stage::Groups => {
            let group = |(by, _)| chosen(opened).with("shape", "flat").with("by", by).with("least", "0");
            ONLY.map(group).to_vec()
        }
        Stage::Merged => {
            let named = || chosen(opened).with("merge", "name");
            let argument_sets =
                [named(), chosen(opened).with("recursion", "collapsed"), named().with("recursion", "collapsed")];
            argument_sets.iter().flat_map(shapes).collect()
        }
        Stage::WholeTree => shapes(&Part::Whole.arguments(opened)),
        Stage::Step(number, ..) => shapes(&alone(number)),
        _ => Vec::new(),
    }
}
