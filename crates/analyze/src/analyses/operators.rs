//! Operators: calls, host time, GPU time and launches, by name and as a call tree.

use crate::{Analysis, Display, TableCommand};
use rustc_hash::FxHashMap;
use stackline_model::{AttrColumn, EventId, StrId, Table, Trace, Unit};
use stackline_timeline::gpu_view::{Definition, GpuView};
use stackline_timeline::op_tree::{OpTree, ROOT};
use stackline_timeline::operator_costs::{Cost, costs};
use stackline_timeline::{DefaultWindow, Scope};

/// The registered analysis.
pub(super) const OPERATORS: Analysis = Analysis {
    name: "operators",
    about: "Operators with self and total host time, kernel time, launches and shapes; flat and as a call tree",
    tables: &["operators", "operator_tree"],
    window: DefaultWindow::Steps,
    commands: &[TableCommand::Operators],
    display: Display::Except(&["operator_tree"]),
    run: |trace, scope| tables(trace, scope),
};

/// Create tables `operators` and `operator_tree` of the operators that begin in the scope.
fn tables(trace: &Trace, scope: &Scope) -> Vec<Table> {
    let tree = OpTree::new(trace);
    // Operators are selected by their begin: the work they launched may run before or after the window of GPU work.
    let costs = costs(trace, &GpuView::new(trace, &Scope::default(), Definition::Exact), &tree);
    let host = scope.host_work(trace);
    // Totals exclude records without a usable time.
    let used: Vec<bool> = tree.op.iter().map(|&op| host.has(op) && trace.events.is_plausible(op)).collect();
    let note = GpuView::new(trace, scope, Definition::Exact).coverage_note();
    let incomplete = trace.gpu_records().note();
    let noted = |table: Table| incomplete.clone().into_iter().fold(table, Table::note).note(note.clone());
    vec![noted(flat(trace, &tree, &costs, &used)), noted(merged(trace, &tree, &costs, &used))]
}

/// Input shapes of the operators of one name.
#[derive(Default)]
struct Shapes {
    count: FxHashMap<StrId, i64>,
}

impl Shapes {
    /// Count the input shapes of an operator call; nothing if the trace does not record them.
    fn add(&mut self, dims: &AttrColumn<'_>, op: EventId) {
        if let Some(shape) = dims.text(op) {
            *self.count.entry(shape).or_default() += 1;
        }
    }

    /// Most frequent shape, the first in the trace of equally frequent ones; `None` without recorded shapes.
    fn common(&self) -> Option<StrId> {
        let mut all: Vec<(StrId, i64)> = self.count.iter().map(|(s, n)| (*s, *n)).collect();
        all.sort_unstable_by_key(|&(shape, n)| (std::cmp::Reverse(n), shape));
        all.first().map(|&(shape, _)| shape)
    }
}

/// Operator name or call path with summed cost and input shapes: one row of `operators` or `operator_tree`.
#[derive(Default)]
struct Row {
    name: StrId,
    cost: Cost,
    shapes: Shapes,
}

/// Create table `operators`: one row per operator name. Totals count only the outermost of nested calls of the same
/// name.
fn flat(trace: &Trace, tree: &OpTree, costs: &[Cost], used: &[bool]) -> Table {
    let dims = trace.attr("Input Dims");
    let mut index: FxHashMap<StrId, usize> = FxHashMap::default();
    let mut rows: Vec<Row> = Vec::new();
    // Names on the way from the root: node and row index.
    let mut path: Vec<(u32, usize)> = Vec::new();
    let mut open: Vec<u32> = Vec::new();
    for node in 0..tree.len() {
        while path.last().is_some_and(|&(n, _)| tree.end[n as usize] <= node as u32) {
            if let Some((_, row)) = path.pop() {
                open[row] -= 1;
            }
        }
        let op = tree.op[node];
        let name = trace.events.name[op.index()];
        let at = *index.entry(name).or_insert_with(|| {
            rows.push(Row { name, ..Row::default() });
            open.push(0);
            rows.len() - 1
        });
        if used[node] {
            let mut cost = costs[node];
            if open[at] > 0 {
                (cost.host_total, cost.gpu_total, cost.launches_total) = (0, 0, 0);
                (cost.work_total, cost.unrecorded_total) = (0, 0);
            }
            rows[at].cost.add(&cost);
            rows[at].shapes.add(&dims, op);
            open[at] += 1;
            path.push((node as u32, at));
        }
    }
    rows.retain(|r| r.cost.calls > 0);
    rows.sort_by_key(|r| std::cmp::Reverse((r.cost.gpu_self, r.cost.host_self)));
    let table = Table::new("operators", "Operators by name")
        .text("name", rows.iter().map(|r| Some(trace.strings.get(r.name).to_owned())));
    columns(table, trace, &rows)
}

/// Create table `operator_tree`: one node per path of operator names. Parents come before children, and children are
/// sorted by GPU time, then host time, largest first.
fn merged(trace: &Trace, tree: &OpTree, costs: &[Cost], used: &[bool]) -> Table {
    let dims = trace.attr("Input Dims");
    let mut index: FxHashMap<(u32, StrId), u32> = FxHashMap::default();
    let mut rows: Vec<Row> = Vec::new();
    let mut children: Vec<Vec<u32>> = Vec::new();
    let mut roots: Vec<u32> = Vec::new();
    let mut row_of = vec![ROOT; tree.len()];
    for node in (0..tree.len()).filter(|&n| used[n]) {
        let op = tree.op[node];
        let name = trace.events.name[op.index()];
        let above = tree.parent[node];
        let above = if above == ROOT { ROOT } else { row_of[above as usize] };
        let row = *index.entry((above, name)).or_insert_with(|| {
            let row = rows.len() as u32;
            rows.push(Row { name, ..Row::default() });
            children.push(Vec::new());
            children.get_mut(above as usize).unwrap_or(&mut roots).push(row);
            row
        });
        row_of[node] = row;
        rows[row as usize].cost.add(&costs[node]);
        rows[row as usize].shapes.add(&dims, op);
    }
    let order = depth_first(&rows, &mut children, &mut roots);
    let number: FxHashMap<u32, i64> = order.iter().enumerate().map(|(i, &(row, ..))| (row, i as i64)).collect();
    let table = Table::new("operator_tree", "Operator call tree")
        .i64("node", Unit::None, 0..order.len() as i64)
        .i64("parent", Unit::None, order.iter().map(|(_, above, _)| above.and_then(|a| number.get(&a).copied())))
        .i64("depth", Unit::None, order.iter().map(|&(_, _, depth)| depth))
        .text("name", order.iter().map(|&(r, ..)| Some(trace.strings.get(rows[r as usize].name).to_owned())));
    let mut rows: Vec<Option<Row>> = rows.into_iter().map(Some).collect();
    let sorted: Vec<Row> = order.iter().filter_map(|&(row, ..)| rows[row as usize].take()).collect();
    columns(table, trace, &sorted)
}

/// Rows of the operator tree in depth-first order, each with its parent row and depth. Siblings are sorted by GPU time,
/// then host time, largest first.
fn depth_first(rows: &[Row], children: &mut [Vec<u32>], roots: &mut [u32]) -> Vec<(u32, Option<u32>, i64)> {
    let cost = |row: u32| (rows[row as usize].cost.gpu_total, rows[row as usize].cost.host_total);
    // Ascending, because they are popped from the end of the stack.
    let sort = |list: &mut [u32]| list.sort_by(|&a, &b| cost(a).cmp(&cost(b)).then(b.cmp(&a)));
    children.iter_mut().for_each(|list| sort(list));
    sort(roots);
    let mut stack: Vec<(u32, Option<u32>, i64)> = roots.iter().map(|&r| (r, None, 0)).collect();
    let mut order = Vec::with_capacity(rows.len());
    while let Some((row, above, depth)) = stack.pop() {
        order.push((row, above, depth));
        stack.extend(children[row as usize].iter().map(|&child| (child, Some(row), depth + 1)));
    }
    order
}

/// Add the columns of costs and shapes to a table of operators. Unknown GPU times and launches are empty.
fn columns(table: Table, trace: &Trace, rows: &[Row]) -> Table {
    let us = |f: fn(&Cost) -> i64| rows.iter().map(move |r| f(&r.cost) as f64 / 1e3).collect::<Vec<_>>();
    let count = |f: fn(&Cost) -> i64| rows.iter().map(move |r| f(&r.cost)).collect::<Vec<_>>();
    let text = |id: Option<StrId>| id.map(|id| trace.strings.get(id).to_owned());
    let is_linked = trace.gpu.operator.iter().any(|op| op.is_some());
    let gpu = |part: fn(&Cost, bool) -> Option<i64>| {
        rows.iter().map(move |r| part(&r.cost, is_linked).map(|ns| ns as f64 / 1e3)).collect::<Vec<_>>()
    };
    // GPU work without launches: runtime calls were not recorded.
    let has_launches = trace.gpu.is_empty() || trace.events.kind.iter().any(|kind| kind.is_api_call());
    let launches = |f: fn(&Cost) -> i64| rows.iter().map(move |r| has_launches.then(|| f(&r.cost))).collect::<Vec<_>>();
    table
        .i64("calls", Unit::None, count(|c| c.calls))
        .f64("host_self_us", Unit::Us, us(|c| c.host_self))
        .f64("host_total_us", Unit::Us, us(|c| c.host_total))
        .f64("gpu_self_us", Unit::Us, gpu(Cost::gpu_self))
        .f64("gpu_total_us", Unit::Us, gpu(Cost::gpu_total))
        .i64("launches_self", Unit::None, launches(|c| c.launches_self))
        .i64("launches_total", Unit::None, launches(|c| c.launches_total))
        .i64("shapes", Unit::None, rows.iter().map(|r| r.shapes.count.len() as i64))
        .text("common_shape", rows.iter().map(|r| text(r.shapes.common())))
}
