//! TraceLens' `kernel_summary`: kernels by launching operator, name and stream.

use crate::analyses::tl_gpu_timeline::extent_us;
use crate::summary::Summary;
use crate::{Analysis, Display, TableCommand};
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, GpuOpId, StrId, Table, Trace, Unit};
use stackline_timeline::classify;
use stackline_timeline::gpu_view::{Definition, GpuView, Launchers, Recompute};
use stackline_timeline::stats::percent;
use stackline_timeline::{DefaultWindow, Scope};

/// The registered analysis.
pub(super) const KERNEL_SUMMARY: Analysis = Analysis {
    name: "kernel_summary",
    about: "Kernels by operator, name and stream, with counts and durations",
    tables: &["kernel_summary"],
    window: DefaultWindow::Steps,
    commands: &[TableCommand::Kernels],
    display: Display::All,
    run: |trace, scope| vec![table(trace, scope, Definition::Exact)],
};

/// Group key of kernels: category, operator, kernel name, stream. Category and operator are empty if the launch is
/// unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Group {
    category: Option<&'static str>,
    operator: StrId,
    kernel: StrId,
    stream: i64,
}

/// Table of kernels by launching operator, name and stream, with the largest total time first.
pub fn table(trace: &Trace, scope: &Scope, definition: Definition) -> Table {
    let view = GpuView::new(trace, scope, definition);
    let recompute = Recompute::find(trace);
    // TraceLens' shares refer to the timeline without recomputation.
    let total = extent_us(&view, |g| definition == Definition::Exact || !recompute.has_gpu(trace, g));
    let groups = group(&view);
    let kernels: f64 = groups.iter().map(|(_, s)| s.sum).sum();
    let text = |id: StrId| id.some().map(|id| trace.strings.get(id).to_owned());
    let us = |f: fn(&Summary) -> f64| groups.iter().map(move |(_, s)| f(s)).collect::<Vec<_>>();
    Table::new("kernel_summary", "Kernels by operator, name and stream")
        .text("category", groups.iter().map(|(g, _)| g.category.map(str::to_owned)))
        .text("operator", groups.iter().map(|(g, _)| text(g.operator)))
        .text("kernel", groups.iter().map(|(g, _)| text(g.kernel)))
        .i64("stream", Unit::None, groups.iter().map(|(g, _)| Some(g.stream).filter(|&s| s >= 0)))
        .i64("count", Unit::None, groups.iter().map(|(_, s)| s.count as i64))
        .f64("sum_us", Unit::Us, us(|s| s.sum))
        .f64("mean_us", Unit::Us, us(|s| s.mean))
        .f64("min_us", Unit::Us, us(|s| s.min))
        .f64("max_us", Unit::Us, us(|s| s.max))
        .f64("kernels_percent", Unit::Percent, groups.iter().map(|(_, s)| percent(s.sum, kernels)))
        .f64("timeline_percent", Unit::Percent, groups.iter().map(|(_, s)| percent(s.sum, total)))
        .note(view.coverage_note())
        .note(
            "Durations are summed, so overlapping kernels each count in full. Column timeline_percent: sum_us in \
             percent of the row total_time of the table gpu_timeline.",
        )
}

/// Group the kernels of a view by operator, name and stream, with duration statistics; largest total time first.
fn group(view: &GpuView<'_>) -> Vec<(Group, Summary)> {
    let trace = view.trace;
    let categories = categories(view);
    let mut index: FxHashMap<Group, usize> = FxHashMap::default();
    let mut groups: Vec<(Group, Vec<f64>)> = Vec::new();
    for gpu in trace.gpu.ids().filter(|g| view.counted[g.index()]) {
        let event = trace.gpu.event[gpu.index()];
        if trace.kind(event) != EventKind::Kernel {
            continue;
        }
        let (category, operator) = owner(view, &categories, gpu);
        let (kernel, stream) = (trace.events.name[event.index()], trace.gpu.stream[gpu.index()]);
        let group = Group { category, operator, kernel, stream };
        let at = *index.entry(group).or_insert_with(|| {
            groups.push((group, Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(view.duration_us(gpu));
    }
    let mut groups: Vec<_> = groups.into_iter().map(|(g, values)| (g, Summary::from_values(&values))).collect();
    groups.sort_by(|a, b| b.1.sum.total_cmp(&a.1.sum));
    groups
}

/// Map from each operator that launches GPU work to its category.
fn categories(view: &GpuView<'_>) -> FxHashMap<EventId, &'static str> {
    Launchers::find(view).list.iter().map(|l| (l.event, l.category)).collect()
}

/// Category and name of the operator that launched a kernel; those of the launch call if it has no operator.
fn owner(
    view: &GpuView<'_>,
    categories: &FxHashMap<EventId, &'static str>,
    gpu: GpuOpId,
) -> (Option<&'static str>, StrId) {
    let trace = view.trace;
    if !view.linked[gpu.index()] {
        return (None, StrId::NONE);
    }
    let (operator, launch) = (trace.gpu.operator[gpu.index()], trace.gpu.launch[gpu.index()]);
    match operator.some() {
        Some(op) => {
            // Operators that launch only communication kernels are in no launcher list.
            let by_name = || classify::operator_category(trace.name(op), None);
            (Some(categories.get(&op).copied().unwrap_or_else(by_name)), trace.events.name[op.index()])
        }
        None => (Some(classify::bare_launch_category(trace.name(launch))), trace.events.name[launch.index()]),
    }
}
