//! Time by user annotation (`record_function`, profiler steps), on the GPU and on the CPU.
//!
//! `hta_gpu_annotations` and `hta_cpu_annotations`: statistics per annotation name, as in HTA 0.6.1
//! (`get_gpu_user_annotation_breakdown`) with its default of at most 1000 names (no `others`). A GPU annotation spans
//! the first start to the last end of the work launched inside the CPU annotation.
//!
//! `hta_kernels_by_annotation`: GPU operations per annotation by HTA's rule (`get_gpu_kernels_with_user_annotations`):
//! the shortest GPU annotation of the same process and thread that overlaps the operation in time; the last row of
//! equally short ones. An operation with the same start and end as one on another stream gets the same annotation,
//! because HTA assigns by time span. HTA fails if rounding made a duration negative; Stackline does not.
//!
//! `kernels_by_annotation`: exact, by the innermost CPU annotation around the launch call, excluding steps.

use super::hta_kernel_breakdown::name_statistics;
use crate::hta_rows::{HtaRows, Row};
use crate::{Analysis, Display, TableCommand};
use rustc_hash::FxHashMap;
use stackline_model::{Key, StrId, Table, Trace, Unit};
use stackline_timeline::{DefaultWindow, Scope};
use std::collections::BTreeMap;

/// The registered analysis.
pub const ANALYSIS: Analysis = Analysis {
    name: "hta_annotations",
    about: "Time by user annotation on GPU and CPU, and GPU operations by annotation",
    tables: &["kernels_by_annotation", "hta_gpu_annotations", "hta_cpu_annotations", "hta_kernels_by_annotation"],
    window: DefaultWindow::WholeAs("HTA"),
    commands: &[TableCommand::Timeline],
    display: Display::All,
    run: |trace, scope| {
        let rows = HtaRows::load(trace, scope);
        vec![exact(trace, scope), annotations(&rows, true, 1000), annotations(&rows, false, 1000), kernels(&rows)]
    },
};

const GPU_ANNOTATION: &str = "gpu_user_annotation";
const CPU_ANNOTATION: &str = "user_annotation";

/// Table `hta_gpu_annotations` or `hta_cpu_annotations`: time statistics per annotation name. Of more than `limit`
/// names, some are summed up as in HTA.
pub fn annotations(rows: &HtaRows, gpu: bool, limit: usize) -> Table {
    let category = if gpu { GPU_ANNOTATION } else { CPU_ANNOTATION };
    let selected = rows.rows.iter().filter(|r| rows.trace.category(r.event) == category);
    let (name, title) = match gpu {
        true => ("hta_gpu_annotations", "User annotations on GPU streams"),
        false => ("hta_cpu_annotations", "User annotations on CPU threads"),
    };
    name_statistics(rows.trace, selected, limit, name, title)
}

/// Process and thread.
type Lane = (Key, Key);

/// Start and end as exact bits, usable as a key.
type SpanKey = (u64, u64);

/// Exact start and end of a row as a key; rows with equal times have equal keys.
fn span_key(row: &Row) -> SpanKey {
    (row.ts.to_bits(), row.end().to_bits())
}

/// Pair each GPU operation with the name of its annotation by HTA's rule (`None` without one), in row order.
fn kernel_annotations<'a>(rows: &'a HtaRows) -> Vec<(&'a Row, Option<StrId>)> {
    let mut order: Vec<Lane> = Vec::new();
    let mut annotations: FxHashMap<Lane, Vec<&Row>> = FxHashMap::default();
    let mut sorted: Vec<&Row> = rows.rows.iter().filter(|r| rows.trace.category(r.event) == GPU_ANNOTATION).collect();
    sorted.sort_by(|a, b| b.dur.total_cmp(&a.dur));
    for row in sorted {
        let of_track = annotations.entry(rows.lane(row)).or_default();
        if of_track.is_empty() {
            order.push(rows.lane(row));
        }
        of_track.push(row);
    }
    let operations: Vec<&Row> = rows.rows.iter().filter(|r| r.is_gpu).collect();
    let mut by_track: FxHashMap<Lane, Vec<&Row>> = FxHashMap::default();
    for &row in &operations {
        by_track.entry(rows.lane(row)).or_default().push(row);
    }
    let mut by_span: FxHashMap<SpanKey, StrId> = FxHashMap::default();
    for track in order {
        let (Some(kernels), Some(annotations)) = (by_track.get_mut(&track), annotations.get(&track)) else { continue };
        assign(kernels, annotations, &mut by_span);
    }
    operations.into_iter().map(|row| (row, by_span.get(&span_key(row)).copied())).collect()
}

/// Assign to the exact start and end of each kernel the last overlapping annotation in `annotations` (longest first).
/// The assignments are added to `by_span`.
fn assign(kernels: &mut [&Row], annotations: &[&Row], by_span: &mut FxHashMap<SpanKey, StrId>) {
    kernels.sort_by(|a, b| a.ts.total_cmp(&b.ts));
    let mut by_start: Vec<(usize, &Row)> = annotations.iter().copied().enumerate().collect();
    by_start.sort_by(|a, b| a.1.ts.total_cmp(&b.1.ts));
    let mut next = 0;
    let mut open: Vec<(usize, &Row)> = Vec::new();
    for kernel in kernels {
        while next < by_start.len() && by_start[next].1.ts <= kernel.ts {
            open.push(by_start[next]);
            next += 1;
        }
        open.retain(|(_, a)| a.end() > kernel.ts);
        // Open annotations overlap if they began strictly before the end. Annotations that begin within the kernel
        // overlap, too.
        let within = by_start[next..].iter().take_while(|(_, a)| a.ts < kernel.end());
        let overlapping = open.iter().filter(|(_, a)| a.ts < kernel.end()).chain(within);
        if let Some((_, annotation)) = overlapping.max_by_key(|(position, _)| *position) {
            by_span.insert(span_key(kernel), annotation.name);
        }
    }
}

/// Table `hta_kernels_by_annotation`: count and time of GPU operations per annotation; empty without GPU annotations.
pub fn kernels(rows: &HtaRows) -> Table {
    let assigned = kernel_annotations(rows);
    let mut lines: BTreeMap<&str, (i64, f64)> = BTreeMap::new();
    if assigned.iter().any(|(_, name)| name.is_some())
        || rows.rows.iter().any(|r| rows.trace.category(r.event) == GPU_ANNOTATION)
    {
        for (row, name) in assigned {
            let line = lines.entry(name.map_or("", |n| rows.trace.strings.get(n))).or_default();
            *line = (line.0 + 1, line.1 + row.dur);
        }
    }
    Table::new("hta_kernels_by_annotation", "GPU operations by GPU annotation as HTA 0.6.1 assigns them")
        .text("annotation", lines.keys().map(|&n| n.to_owned()))
        .i64("count", Unit::None, lines.values().map(|l| l.0))
        .f64("time_us", Unit::Us, lines.values().map(|l| l.1))
}

/// Table `kernels_by_annotation`: GPU operations by the annotation around their launch call. The name is empty for
/// operations launched outside annotations.
pub fn exact(trace: &Trace, scope: &Scope) -> Table {
    let mut lines: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    let work = scope.gpu_work(trace);
    for gpu in trace.gpu.ids().filter(|&g| work.has(g)) {
        let event = trace.gpu.event[gpu.index()];
        if trace.events.is_plausible(event) {
            let name = trace.gpu.annotation[gpu.index()].some().map_or("", |a| trace.name(a));
            let line = lines.entry(name).or_default();
            *line = (line.0 + 1, line.1.saturating_add(trace.events.dur[event.index()]));
        }
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by_key(|(_, l)| std::cmp::Reverse(l.1));
    Table::new(
        "kernels_by_annotation",
        "GPU operations by the annotation that contains their launch (times not \
                                         rounded)",
    )
    .text("annotation", lines.iter().map(|l| l.0.to_owned()))
    .i64("count", Unit::None, lines.iter().map(|l| l.1.0))
    .i64("time_ns", Unit::Ns, lines.iter().map(|l| l.1.1))
    .note(
        "The row without a name contains operations that were launched outside of all annotations, or whose \
               launch is unknown.",
    )
}
