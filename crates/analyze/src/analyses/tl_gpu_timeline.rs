//! TraceLens' `gpu_timeline`: the time from the first to the last GPU operation, by kind of GPU activity.

use crate::{Analysis, Display, TableCommand};
use stackline_model::{GpuOpId, Table, Trace, Unit};
use stackline_timeline::gpu_view::{Definition, GpuView, Recompute, Spans};
use stackline_timeline::kernel_type::KernelType;
use stackline_timeline::{DefaultWindow, Scope};

/// The registered analysis.
pub(super) const GPU_TIMELINE: Analysis = Analysis {
    name: "gpu_timeline",
    about: "GPU time by computation, exposed communication, exposed copies and idle time",
    tables: &["gpu_timeline"],
    window: DefaultWindow::Steps,
    commands: &[TableCommand::Timeline],
    display: Display::All,
    run: |trace, scope| vec![table(trace, scope, Definition::Exact)],
};

/// Kinds of time, in the order of the rows.
const TYPES: [&str; 8] = [
    "computation_time",
    "exposed_comm_time",
    "exposed_memcpy_time",
    "busy_time",
    "idle_time",
    "total_time",
    "total_comm_time",
    "total_memcpy_time",
];

/// Table `gpu_timeline`: time by kind of GPU activity. Rows with empty `recompute` cover all GPU work. If the trace
/// records recomputed forward passes, there are also rows for the work inside (`true`) and outside (`false`) of them,
/// each computed without the other.
pub fn table(trace: &Trace, scope: &Scope, definition: Definition) -> Table {
    let view = GpuView::new(trace, scope, definition);
    let recompute = Recompute::find(trace);
    let parts: &[Option<bool>] = if recompute.any() { &[None, Some(false), Some(true)] } else { &[None] };
    let (mut part, mut kind, mut time, mut share) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for &selected in parts {
        let times = times_us(&view, |g| selected.is_none_or(|s| recompute.has_gpu(trace, g) == s));
        for (name, us) in TYPES.into_iter().zip(times) {
            part.push(selected);
            kind.push(Some(name.to_owned()));
            time.push(us / 1e3);
            share.push(stackline_timeline::stats::percent(us, times[5]));
        }
    }
    let table =
        Table::new("gpu_timeline", "GPU time by kind, from the start of the first to the end of the last operation")
            .bool("recompute", part)
            .text("type", kind)
            .f64("time_ms", Unit::Ms, time)
            .f64("percent", Unit::Percent, share)
            .note(view.coverage_note());
    match definition {
        Definition::Exact => table,
        Definition::TraceLens => {
            table.note("As in TraceLens, GPU operations without a flow arrow from their launch call are excluded.")
        }
    }
}

/// Time in µs from the start of the first to the end of the last included GPU operation ("total time" in TraceLens).
pub(super) fn extent_us(view: &GpuView<'_>, include: impl Fn(GpuOpId) -> bool) -> f64 {
    let gpu = view.trace.gpu.ids().filter(|g| view.timed()[g.index()] && include(*g));
    Spans::new(view, gpu).extent_us()
}

/// Time in µs per kind of GPU activity, in the order of [`TYPES`], of the operations that `include` accepts.
fn times_us(view: &GpuView<'_>, include: impl Fn(GpuOpId) -> bool) -> [f64; 8] {
    let trace = view.trace;
    let all: Vec<GpuOpId> = trace.gpu.ids().filter(|g| view.timed()[g.index()] && include(*g)).collect();
    let is = |g: &GpuOpId, kind: KernelType| view.types[g.index()] == kind;
    let select = |f: &dyn Fn(&GpuOpId) -> bool| Spans::new(view, all.iter().copied().filter(|g| f(g)));
    let copies = select(&|g| is(g, KernelType::Memory));
    let communication = select(&|g| is(g, KernelType::Communication));
    let computation = select(&|g| is(g, KernelType::Computation));
    // A device that waits on its own queue is not busy.
    let busy_us = select(&|g| !is(g, KernelType::Other)).total_us();
    let total = select(&|_| true).extent_us();
    [
        computation.total_us(),
        communication.without(&computation).total_us(),
        copies.without(&computation).without(&communication).total_us(),
        busy_us,
        total - busy_us,
        total,
        communication.total_us(),
        copies.total_us(),
    ]
}
