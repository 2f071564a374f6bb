//! Tables of GPU time per device (by kind of work and cause of idle time) and per kernel name.
//!
//! `gpu_time`, per device: the window is that of the selected steps ([`StepSelection`]) with their GPU work. All work
//! in it counts, independent of its launch. Without steps, the window extends from the first start to the last end of
//! the device's operations.
//!
//! An instant with running work counts once, for the first of computation, communication, memory. An instant in which
//! no stream of the device runs anything counts for the operation that ends the gap:
//! - `idle_host_wait` until its launch call returns, or starts if the call is known to return late ([`host_wait_end`];
//!   `crates/calls/src/idle.rs` divides gaps in the same way);
//! - then `idle_kernel_wait` if the rest is below 30 µs (HTA's threshold for the hardware's distance between
//!   operations), otherwise `idle_other` (the operation waited for something else);
//! - `idle_unknown` if the operation has no launch record. This cause also applies after the launch of an earlier
//!   operation without a record or a plausible time, which may have run in the gap ([`Missing`]). It applies to the end
//!   of the window if no operation of the device has a launch record, and to all gaps of a truncated file.
//!
//! The rows of a device add up to its window.
//!
//! `gpu_kernels`: the same operations by name, each with the operator that launched most of its time.

use super::coverage::with_coverage_note;
use super::steps::MIN_KNOWN_DIVISOR;
use crate::missing_operations::{Missing, MissingByThread};
use crate::{Analysis, Display, TableCommand};
use stackline_model::{EventKind, GpuOpId, StrId, Table, Trace, Unit};
use stackline_timeline::DefaultWindow;
use stackline_timeline::kernel_type::{KernelType, NameTypes, RULES};
use stackline_timeline::launch_handover::{Handovers, host_wait_end};
use stackline_timeline::stats::percent;
use stackline_timeline::steps::StepSelection;
use std::collections::BTreeMap;

/// The registered analysis.
pub(super) const ANALYSIS: Analysis = Analysis {
    name: "gpu_time",
    about: "GPU time by kind of work and cause of idle time; kernels by name",
    tables: &["gpu_time", "gpu_kernels"],
    window: DefaultWindow::Own,
    commands: &[TableCommand::Kernels, TableCommand::Timeline],
    display: Display::All,
    run: |trace, scope| {
        let selection = StepSelection::select(trace, scope);
        let mut types = NameTypes::new(trace, RULES);
        let all = operations(trace, &mut types);
        // Both tables cover the same time.
        let scope = &scope.resolved(trace);
        let work = scope.gpu_work(trace);
        let of_scope: Vec<Operation> = all.iter().filter(|o| work.has(o.gpu)).copied().collect();
        let incomplete = trace.gpu_records().note();
        let noted = |table: Table| incomplete.clone().into_iter().fold(table, Table::note);
        with_coverage_note(
            vec![noted(breakdown(trace, &all, &selection)), noted(kernels(trace, &of_scope))],
            trace,
            scope,
        )
    },
};

/// Shorter gaps, in ns, count as the hardware's distance between operations (HTA's `consecutive_kernel_delay`).
const KERNEL_WAIT_NS: i64 = 30_000;

const CATEGORIES: [&str; 7] =
    ["computation", "communication", "memory", "idle_host_wait", "idle_kernel_wait", "idle_other", "idle_unknown"];

/// Index of `idle_host_wait`.
const HOST_WAIT: usize = 3;
/// Index of `idle_kernel_wait`.
const KERNEL_WAIT: usize = 4;
/// Index of `idle_other`.
const OTHER: usize = 5;
/// Index of `idle_unknown`.
const UNKNOWN: usize = 6;

/// GPU operation with device, start and end in ns, and kind of work.
#[derive(Clone, Copy)]
struct Operation {
    device: i32,
    start: i64,
    end: i64,
    gpu: GpuOpId,
    kind: KernelType,
    /// True if the host completed its part of the launch before the call returned ([`Handovers::is_early`]).
    is_early: bool,
}

/// All GPU operations with plausible times, sorted by device, then start.
fn operations(trace: &Trace, types: &mut NameTypes<'_>) -> Vec<Operation> {
    let mut operations = Vec::with_capacity(trace.gpu.len());
    let mut handovers = Handovers::new(trace);
    for gpu in trace.gpu_by_start() {
        let event = trace.gpu.event[gpu.index()];
        if trace.events.is_plausible(event) {
            let (start, end) = (trace.events.start[event.index()], trace.events.end(event));
            operations.push(Operation {
                device: trace.gpu.device[gpu.index()],
                start,
                end,
                gpu,
                kind: types.of_event(event),
                is_early: trace.gpu.launch[gpu.index()].some().is_some_and(|launch| handovers.is_early(event, launch)),
            });
        }
    }
    operations.sort_by_key(|o| o.device);
    operations
}

/// Create table `gpu_time`: time per device and category. `operations` are sorted by device, then start.
fn breakdown(trace: &Trace, operations: &[Operation], selection: &StepSelection) -> Table {
    let window = selection.window(trace);
    let mut rows: Vec<(i32, &str, i64, i64)> = Vec::new();
    let mut unknown = Vec::new();
    let is_cut = trace.report.breaks_off().is_some();
    let missing = MissingByThread::new(trace);
    for of_device in operations.chunk_by(|a, b| a.device == b.device) {
        let id = of_device[0].device;
        let is_kernel = |gpu: &GpuOpId| trace.kind(trace.gpu.event[gpu.index()]) == EventKind::Kernel;
        let of_id = trace.gpu.ids().filter(|gpu| trace.gpu.device[gpu.index()] == id);
        let recorded = of_id.filter(is_kernel).count() as i64;
        let timed = of_device.iter().filter(|operation| is_kernel(&operation.gpu)).count() as i64;
        if timed * MIN_KNOWN_DIVISOR < recorded {
            unknown.push(format!(
                "Device {id}: {} of {recorded} kernels have no plausible time, so the device's busy and idle times \
                 are unknown.",
                recorded - timed
            ));
            continue;
        }
        let launches = of_device.iter().filter_map(|o| trace.gpu.launch[o.gpu.index()].some());
        let times = device_times(trace, of_device, window, &missing.of_launches(trace, launches));
        let window = times.iter().fold(0i64, |sum, t| sum.saturating_add(*t));
        let present = CATEGORIES.iter().zip(times).enumerate().filter(|(i, (_, t))| match *i {
            // Without any gap of known cause, the causes were not measured. They are not zero.
            HOST_WAIT..UNKNOWN => !is_cut,
            UNKNOWN => *t > 0,
            _ => true,
        });
        rows.extend(present.map(|(_, (name, time))| (of_device[0].device, *name, time, window)));
    }
    let table = Table::new("gpu_time", "GPU time by kind of work and cause of idle time")
        .i64("device", Unit::None, rows.iter().map(|r| i64::from(r.0)))
        .text("category", rows.iter().map(|r| r.1.to_owned()))
        .i64("time_ns", Unit::Ns, rows.iter().map(|r| r.2))
        .f64("percent", Unit::Percent, rows.iter().map(|r| percent(r.2 as f64, r.3 as f64)));
    if rows.is_empty() {
        unknown.push("The trace has no GPU operations in this scope.".to_owned());
        return unknown.into_iter().take(1).fold(table, Table::note);
    }
    let table = unknown.into_iter().fold(table, Table::note);
    // The page shows the text of these notes between `Window: ` and the first comma.
    let Some(_) = window else {
        return table.note(
            "Window: from the start of the first to the end of the last operation of each device, because no steps \
             are selected.",
        );
    };
    let table = table.note(
        "Window: the selected steps and their GPU work, starting when the GPU work of earlier steps ends. The window \
         ends when both the last selected step and its GPU work have ended.",
    );
    selection.notes.iter().fold(table, |table, note| table.note(note.clone()))
}

/// Time in ns of one device per category in [`CATEGORIES`], within the window if there is one. `operations` are sorted
/// by start; `missing` has the lost operations.
fn device_times(trace: &Trace, operations: &[Operation], window: Option<(i64, i64)>, missing: &Missing) -> [i64; 7] {
    let mut times = [0i64; 7];
    // End of running work, per class.
    let mut until = [i64::MIN; 3];
    let (first, last) = window.unwrap_or((operations.first().map_or(0, |o| o.start), i64::MAX));
    let launch =
        |o: &Operation| trace.gpu.launch[o.gpu.index()].some().map(|launch| trace.events.start[launch.index()]);
    let earlier = operations.iter().take_while(|o| o.start < first).filter(|o| o.end <= first).filter_map(launch).max();
    let mut launched: Option<i64> = earlier;
    let is_cut = trace.report.breaks_off().is_some();
    let mut at = first;
    let clipped = operations.iter().filter(|o| o.end > first && o.start < last || window.is_none());
    for operation in clipped.map(|o| Operation { start: o.start.max(first), end: o.end.min(last), ..*o }) {
        add_busy_time(&mut times, &until, at, operation.start);
        let busy_until = until.iter().copied().max().unwrap_or(i64::MIN);
        if at < operation.start && busy_until < operation.start {
            let gap = (busy_until.max(at), operation.start);
            let next = launch(&operation).unwrap_or(operation.start);
            let from = if is_cut { gap.0 } else { missing.first_time((launched.unwrap_or(first), next), gap) };
            for (part, cause) in split_by_cause(trace, &operation, gap) {
                add_gap(&mut times, part, cause, from.clamp(part.0, part.1));
            }
        }
        launched = launched.max(launch(&operation));
        at = at.max(operation.start);
        if let Some(class) = class_of_kind(operation.kind) {
            until[class] = until[class].max(operation.end);
        }
    }
    let end = until.iter().copied().max().unwrap_or(at).max(first);
    add_busy_time(&mut times, &until, at, end);
    if window.is_some() {
        // The operation after this gap was not launched within the window.
        let gap = (end.max(at), last.max(end.max(at)));
        let has_launches = operations.iter().any(|operation| launch(operation).is_some());
        let cause = if has_launches && !is_cut { HOST_WAIT } else { UNKNOWN };
        add_gap(&mut times, gap, cause, missing.first_time((launched.unwrap_or(first), last), gap));
    }
    times
}

/// Add an idle gap to the times. The part before `unknown_from` counts for `cause`, the rest for `idle_unknown`.
fn add_gap(times: &mut [i64; 7], (start, end): (i64, i64), cause: usize, unknown_from: i64) {
    times[cause] = times[cause].saturating_add(unknown_from.saturating_sub(start));
    times[UNKNOWN] = times[UNKNOWN].saturating_add(end.saturating_sub(unknown_from));
}

/// Add the busy time from `from` to `to` to the times per class of work. `until` has the end of running work per class.
/// No operation may start in between.
fn add_busy_time(times: &mut [i64; 7], until: &[i64; 3], from: i64, to: i64) {
    let mut at = from;
    for (class, &end) in until.iter().enumerate() {
        let end = end.min(to);
        if end > at {
            times[class] = times[class].saturating_add(end.saturating_sub(at));
            at = end;
        }
    }
}

/// Index into [`CATEGORIES`] of a kind of GPU operation. `None` for waits of the device on its own queue, in which
/// nothing runs.
fn class_of_kind(kind: KernelType) -> Option<usize> {
    match kind {
        KernelType::Computation => Some(0),
        KernelType::Communication => Some(1),
        KernelType::Memory => Some(2),
        KernelType::Other => None,
    }
}

/// Split the idle gap before the operation `next` into two parts with different causes. Each part is a time range with
/// an index into [`CATEGORIES`], and one may be empty.
fn split_by_cause(trace: &Trace, next: &Operation, gap: (i64, i64)) -> [((i64, i64), usize); 2] {
    let Some(launch) = trace.gpu.launch[next.gpu.index()].some() else {
        return [(gap, UNKNOWN), ((gap.1, gap.1), UNKNOWN)];
    };
    let launched = host_wait_end(trace, launch, next.is_early, gap);
    let rest = if gap.1.saturating_sub(launched) < KERNEL_WAIT_NS { KERNEL_WAIT } else { OTHER };
    [((gap.0, launched), HOST_WAIT), ((launched, gap.1), rest)]
}

/// Kind, count, total time and longest time (ns) of the GPU operations of one name.
#[derive(Clone, Copy)]
struct Kernel {
    kind: KernelType,
    count: i64,
    total: i64,
    longest: i64,
}

/// Create table `gpu_kernels`: GPU operations by name, with the operator that launched most of their time.
fn kernels(trace: &Trace, operations: &[Operation]) -> Table {
    let mut by_name: BTreeMap<StrId, Kernel> = BTreeMap::new();
    for operation in operations {
        let name = trace.events.name[trace.gpu.event[operation.gpu.index()].index()];
        let dur = operation.end.saturating_sub(operation.start);
        let kernel = by_name.entry(name).or_insert(Kernel { kind: operation.kind, count: 0, total: 0, longest: 0 });
        kernel.count += 1;
        kernel.total = kernel.total.saturating_add(dur);
        kernel.longest = kernel.longest.max(dur);
    }
    let mut rows: Vec<(&str, Kernel)> = by_name.iter().map(|(&name, k)| (trace.strings.get(name), *k)).collect();
    rows.sort_by(|a, b| b.1.total.cmp(&a.1.total).then_with(|| a.0.cmp(b.0)));
    let all = rows.iter().fold(0i64, |sum, r| sum.saturating_add(r.1.total));
    let launchers = main_launchers(trace, operations);
    Table::new("gpu_kernels", "GPU operations by name")
        .text("name", rows.iter().map(|r| r.0.to_owned()))
        .f64("percent", Unit::Percent, rows.iter().map(|r| percent(r.1.total as f64, all as f64)))
        .i64("total_ns", Unit::Ns, rows.iter().map(|r| r.1.total))
        .i64("count", Unit::None, rows.iter().map(|r| r.1.count))
        .f64("mean_ns", Unit::Ns, rows.iter().map(|r| r.1.total as f64 / r.1.count as f64))
        .i64("max_ns", Unit::Ns, rows.iter().map(|r| r.1.longest))
        .text("kind", rows.iter().map(|r| r.1.kind.name().to_owned()))
        .text("launched_by", rows.iter().map(|r| launchers.get(r.0).map(|name| (*name).to_owned())))
}

/// Map from each kernel name to the name of the operator that launched most of its time. Of equal operators the first
/// by name is chosen. Kernel names without a known operator are absent.
fn main_launchers<'t>(trace: &'t Trace, operations: &[Operation]) -> BTreeMap<&'t str, &'t str> {
    let mut times: BTreeMap<(StrId, StrId), i64> = BTreeMap::new();
    for operation in operations {
        let gpu = operation.gpu.index();
        let Some(operator) = trace.gpu.operator[gpu].some() else { continue };
        let names = [trace.gpu.event[gpu], operator].map(|event| trace.events.name[event.index()]);
        let time = times.entry(names.into()).or_default();
        *time = time.saturating_add(operation.end.saturating_sub(operation.start));
    }
    let mut most: BTreeMap<&str, (i64, &str)> = BTreeMap::new();
    for ((name, operator), time) in times {
        let (name, operator) = (trace.strings.get(name), trace.strings.get(operator));
        let known = most.entry(name).or_insert((time, operator));
        if time > known.0 || time == known.0 && operator < known.1 {
            *known = (time, operator);
        }
    }
    most.into_iter().map(|(name, (_, operator))| (name, operator)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use stackline_model::EventId;
    use stackline_timeline::intervals::{subtract, total, union};

    fn operation(start: i64, dur: i64, kind: KernelType) -> Operation {
        Operation { device: 0, start, end: start + dur, gpu: GpuOpId(0), kind, is_early: false }
    }

    /// Lost operations with launch calls of their own.
    fn launched(starts: &[i64]) -> Missing {
        Missing { launches: starts.to_vec(), ..Missing::default() }
    }

    fn trace_with_launch(launch: EventId, start: i64) -> Trace {
        let mut trace = Trace::default();
        trace.events.start.push(start);
        trace.events.dur.push(3);
        trace.gpu.launch.push(launch);
        trace
    }

    proptest! {
        #[test]
        fn sweep_equals_interval_arithmetic(
            spans in proptest::collection::vec((0i64..200, 0i64..30, 0usize..3), 1..20)
        ) {
            let kinds = [KernelType::Computation, KernelType::Communication, KernelType::Memory];
            let mut operations: Vec<_> = spans.iter().map(|&(s, d, k)| operation(s, d, kinds[k])).collect();
            operations.sort_by_key(|o| o.start);
            let times = device_times(&trace_with_launch(EventId::NONE, 0), &operations, None, &Missing::default());
            let mut covered = Vec::new();
            for (class, kind) in kinds.into_iter().enumerate() {
                let own = union(operations.iter().filter(|o| o.kind == kind).map(|o| (o.start, o.end)));
                prop_assert_eq!(times[class], total(&subtract(&own, &covered)), "{:?} of {:?}", kind, &spans);
                covered = union(covered.into_iter().chain(own));
            }
            let window = covered.last().map_or(0, |l| l.1) - covered.first().map_or(0, |f| f.0);
            prop_assert_eq!(times.iter().sum::<i64>(), window);
        }
    }

    #[test]
    fn idle_gaps_have_causes() {
        let gap = |launch_start: Option<i64>, length: i64| {
            let launch = launch_start.map(|_| EventId(0)).into();
            let trace = trace_with_launch(launch, launch_start.unwrap_or(0));
            let compute = KernelType::Computation;
            let times = device_times(
                &trace,
                &[operation(0, 10, compute), operation(10 + length, 5, compute)],
                None,
                &Missing::default(),
            );
            let found = times.iter().enumerate().skip(3).filter(|(_, t)| **t > 0).map(|(i, t)| (CATEGORIES[i], *t));
            found.collect::<Vec<_>>()
        };
        assert_eq!(gap(Some(107), 100), [("idle_host_wait", 100)]);
        assert_eq!(gap(Some(109), 100), [("idle_host_wait", 100)], "it starts before the call returns");
        assert_eq!(gap(Some(5), 100), [("idle_kernel_wait", 100)]);
        assert_eq!(gap(Some(5), 40_000), [("idle_other", 40_000)]);
        assert_eq!(
            gap(Some(8), 100),
            [("idle_host_wait", 1), ("idle_kernel_wait", 99)],
            "its call began before the gap"
        );
        assert_eq!(gap(None, 100), [("idle_unknown", 100)]);
        // The host was late for a part of the gap.
        assert_eq!(gap(Some(12), 100), [("idle_host_wait", 5), ("idle_kernel_wait", 95)]);
        assert_eq!(gap(Some(12), 40_000), [("idle_host_wait", 5), ("idle_other", 39_995)]);
    }

    #[test]
    fn gap_counts_as_host_wait_until_an_earlier_call_returns() {
        let mut trace = trace_with_launch(EventId::new(0), 99_000);
        trace.events.dur[0] = 5_000_000;
        let compute = KernelType::Computation;
        let operations = [operation(0, 100_000, compute), operation(5_100_000, 10_000, compute)];
        assert_eq!(
            device_times(&trace, &operations, None, &Missing::default()),
            [110_000, 0, 0, 4_999_000, 1_000, 0, 0]
        );
    }

    #[test]
    fn late_returning_calls_hand_over_at_their_start() {
        let compute = KernelType::Computation;
        let trace = trace_with_launch(EventId::new(0), 12);
        let late = Operation { is_early: true, ..operation(20, 10, compute) };
        assert_eq!(
            device_times(&trace, &[operation(0, 10, compute), late], None, &Missing::default()),
            [20, 0, 0, 2, 8, 0, 0]
        );
        let trace = trace_with_launch(EventId::new(0), 9);
        assert_eq!(
            device_times(&trace, &[operation(0, 10, compute), late], None, &Missing::default()),
            [20, 0, 0, 0, 10, 0, 0]
        );
    }

    #[test]
    fn gaps_of_truncated_files_are_unknown() {
        let compute = KernelType::Computation;
        let mut trace = trace_with_launch(EventId::new(0), 15);
        let operations = [operation(0, 12, compute), operation(20, 10, compute)];
        assert_eq!(device_times(&trace, &operations, Some((0, 100)), &Missing::default()), [22, 0, 0, 76, 2, 0, 0]);
        trace.report.count("truncated", stackline_model::Severity::Lost, "", None, "");
        assert_eq!(device_times(&trace, &operations, Some((0, 100)), &Missing::default()), [22, 0, 0, 0, 0, 0, 78]);
    }

    #[test]
    fn work_and_gaps_are_clipped_to_the_window() {
        let compute = KernelType::Computation;
        let trace = trace_with_launch(EventId::new(0), 15);
        let operations = [operation(0, 12, compute), operation(20, 10, compute), operation(90, 30, compute)];
        // Work runs from 10 to 12. The host launches until 18. The operation at 90 was launched long before the gap
        // from 30 to 90.
        assert_eq!(device_times(&trace, &operations, Some((10, 100)), &Missing::default()), [22, 0, 0, 6, 62, 0, 0]);
        assert_eq!(
            device_times(&trace, &operations[..2], Some((10, 100)), &Missing::default()),
            [12, 0, 0, 76, 2, 0, 0],
            "nothing more was launched"
        );
        assert_eq!(
            device_times(&trace, &operations[..1], Some((50, 100)), &Missing::default()),
            [0, 0, 0, 50, 0, 0, 0],
            "nothing at all"
        );
    }

    #[test]
    fn gaps_with_possible_missing_work_are_unknown() {
        let compute = KernelType::Computation;
        let trace = trace_with_launch(EventId::new(0), 50);
        let operations = [operation(0, 12, compute), operation(60, 10, compute)];
        let times = |missing: &[i64]| device_times(&trace, &operations, Some((0, 100)), &launched(missing));
        assert_eq!(times(&[]), [22, 0, 0, 71, 7, 0, 0]);
        assert_eq!(times(&[70]), [22, 0, 0, 41, 7, 0, 30], "launched behind both");
        assert_eq!(times(&[100]), [22, 0, 0, 71, 7, 0, 0], "launched behind the window");
        assert_eq!(
            times(&[40, 45]),
            [22, 0, 0, 71, 7, 0, 0],
            "the first one was launched at 50, too: they come before it"
        );
    }

    #[test]
    fn gap_with_the_start_of_a_lost_operation_of_a_graph_is_unknown() {
        let compute = KernelType::Computation;
        let trace = trace_with_launch(EventId::new(0), -10);
        let operations = [operation(0, 12, compute), operation(60, 10, compute), operation(80, 10, compute)];
        let times = |starts: Vec<(i64, i64)>| {
            device_times(&trace, &operations, None, &Missing { starts, ..Missing::default() })
        };
        assert_eq!(times(Vec::new()), [32, 0, 0, 0, 58, 0, 0]);
        assert_eq!(times(vec![(20, -10)]), [32, 0, 0, 0, 10, 0, 48], "all three have the launch at -10");
        assert_eq!(times(vec![(65, -10)]), [32, 0, 0, 0, 58, 0, 0], "another operation runs");
        assert_eq!(times(vec![(20, 15), (75, -10)]), [32, 0, 0, 0, 3, 0, 55]);
    }

    fn trace_with_launches(starts: &[i64]) -> Trace {
        let mut trace = Trace::default();
        trace.events.start.extend(starts);
        trace.events.dur.extend(starts.iter().map(|_| 3));
        trace.gpu.launch.extend((0..starts.len()).map(EventId::new));
        trace
    }

    #[test]
    fn idle_causes_without_host_wait() {
        let compute = KernelType::Computation;
        let second = Operation { gpu: GpuOpId(1), ..operation(60, 10, compute) };
        let operations = [operation(0, 12, compute), second];
        let ahead = trace_with_launches(&[-30, -10]);
        let times = device_times(&ahead, &operations, None, &launched(&[-20]));
        assert_eq!(times, [22, 0, 0, 0, 0, 0, 48], "launched between the two, long before either ran");
        let unknown = trace_with_launch(EventId::NONE, 0);
        assert_eq!(
            device_times(&unknown, &operations[..1], Some((0, 100)), &Missing::default()),
            [12, 0, 0, 0, 0, 0, 88]
        );
    }
}
