//! Thread activity in Nsight Systems exports: GPU API calls, system calls, and the profiler's and CUDA's overhead in
//! these.

use super::Export;
use super::ids::{pid_of, tid_of};
use crate::sources::processes::{Event, Processes};
use crate::sources::row::Value;
use stackline_model::{EventKind, Key, Phase, TrackKind};

/// Tables with thread activity in an Nsight Systems export.
pub(super) const TABLES: &[&str] = &[CALLS, SYSTEM_CALLS, CUPTI_OVERHEAD, PROFILER_OVERHEAD];
const CALLS: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
const SYSTEM_CALLS: &str = "OSRT_API";
const CUPTI_OVERHEAD: &str = "CUPTI_ACTIVITY_KIND_OVERHEAD";
const PROFILER_OVERHEAD: &str = "PROFILER_OVERHEAD";

/// `eventClass` of driver calls (`ENUM_NSYS_EVENT_CLASS`).
const DRIVER: i64 = 1;

/// Read the API calls, system calls and profiler overhead on threads into the traces of their processes.
pub(super) fn read(export: &Export<'_>, processes: &mut Processes<'_>) {
    calls(export, processes);
    system_calls(export, processes);
    for table in [CUPTI_OVERHEAD, PROFILER_OVERHEAD] {
        overhead(export, table, processes);
    }
}

/// A span of a thread.
pub(super) struct Span<'a> {
    pub(super) name: &'a str,
    pub(super) category: &'a str,
    pub(super) kind: EventKind,
    pub(super) phase: Phase,
    pub(super) arguments: &'a [(&'static str, Value<'a>)],
}

impl Span<'_> {
    /// Add the span to the track of the thread with this `globalTid`, from the first to the second time in ns.
    pub(super) fn push(&self, processes: &mut Processes<'_>, global: i64, times: (Option<i64>, Option<i64>)) {
        let &Self { name, category, kind, phase, arguments } = self;
        let track_kind = if phase == Phase::Async { TrackKind::Async } else { TrackKind::Thread };
        let track = (Key::Int(pid_of(global)), Key::Int(tid_of(global)), track_kind);
        processes.push(Some(pid_of(global)), &Event { track, times, name, category, kind, phase, arguments });
    }
}

/// Read the CUDA runtime and driver calls; the return value becomes an argument only for errors.
fn calls(export: &Export<'_>, processes: &mut Processes<'_>) {
    let columns = ["start", "end", "globalTid", "correlationId", "nameId", "eventClass", "returnValue"];
    export.rows(CALLS, &columns, processes, |row, processes| {
        let global = row.i64(2).unwrap_or(0);
        let name = plain_name(export.name(&[row.i64(4)], "call without a name", processes));
        let is_driver = row.i64(5) == Some(DRIVER) || is_driver_call(name);
        let (kind, category) = match is_driver {
            true => (EventKind::Driver, "cuda_driver"),
            false => (EventKind::Runtime, "cuda_runtime"),
        };
        // Only errors are stored, not success.
        let returned = row.i64(6).filter(|&code| code != 0);
        let arguments = [("correlation", Value::Int(row.i64(3))), ("return value", Value::Int(returned))];
        let span = Span { name, category, kind, phase: Phase::Complete, arguments: &arguments };
        span.push(processes, global, (row.i64(0), row.i64(1)));
    });
}

/// Name of a function without its API version: `cudaLaunchKernel_v7000`.
fn plain_name(name: &str) -> &str {
    let without_digits = name.trim_end_matches(|c: char| c.is_ascii_digit());
    without_digits.strip_suffix("_v").filter(|_| without_digits.len() < name.len()).unwrap_or(name)
}

/// Check for a driver call such as `cuLaunchKernel`, in contrast to `cudaLaunchKernel`.
fn is_driver_call(name: &str) -> bool {
    name.strip_prefix("cu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// Read the traced calls of the operating system (OSRT).
fn system_calls(export: &Export<'_>, processes: &mut Processes<'_>) {
    export.rows(SYSTEM_CALLS, &["start", "end", "globalTid", "nameId"], processes, |row, processes| {
        let global = row.i64(2).unwrap_or(0);
        let name = export.name(&[row.i64(3)], "call without a name", processes);
        let (kind, phase) = (EventKind::Other, Phase::Complete);
        let span = Span { name, category: "os_runtime", kind, phase, arguments: &[] };
        span.push(processes, global, (row.i64(0), row.i64(1)));
    });
}

/// Names of overheads by `overheadType` (`ENUM_CUPTI_OVERHEAD_TYPE`), for rows without a name.
const OVERHEADS: [&str; 9] = [
    "Unknown",
    "Unknown",
    "Driver Compiler",
    "CUPTI Buffer flush",
    "CUPTI Instrumentation",
    "CUPTI Resource Management",
    "Runtime Triggered Module Loading",
    "Lazy Function Loading",
    "Command Buffer Full",
];

/// Read the overhead spans of a table, named by their text or type.
fn overhead(export: &Export<'_>, table: &str, processes: &mut Processes<'_>) {
    let columns = ["start", "end", "globalTid", "nameId", "overheadType"];
    export.rows(table, &columns, processes, |row, processes| {
        let global = row.i64(2).unwrap_or(0);
        let by_type = || OVERHEADS.get(usize::try_from(row.i64(4)?).ok()?).copied();
        let name = export.text(row.i64(3)).or_else(by_type).unwrap_or("Unknown");
        let (kind, phase) = (EventKind::Overhead, Phase::Complete);
        let span = Span { name, category: "overhead", kind, phase, arguments: &[] };
        span.push(processes, global, (row.i64(0), row.i64(1)));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_calls() {
        assert_eq!(plain_name("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
        assert_eq!(plain_name("cudaLaunchKernelExC_v11060"), "cudaLaunchKernelExC");
        assert_eq!(plain_name("cuMemcpyHtoD_v2"), "cuMemcpyHtoD");
        assert_eq!(plain_name("my_v"), "my_v");
        assert!(is_driver_call("cuLaunchKernel") && !is_driver_call("cudaLaunchKernel"));
    }
}
