//! GPU activity in Nsight Systems exports: kernels, copies, fills, graphs, and synchronization records.

use super::Export;
use super::ids::process;
use crate::diagnostics;
use crate::sources::processes::{Event, EventRecord, Processes};
use crate::sources::row::Value;
use rustc_hash::FxHashMap;
use stackline_model::{EventKind, Key, Phase, TrackKind};
use stackline_sqlite::Row;

/// Tables with GPU activity in an Nsight Systems export.
pub(super) const TABLES: &[&str] = &[KERNELS, COPIES, FILLS, GRAPHS, RECORDS, WAITS];
const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
const COPIES: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";
const FILLS: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
/// Launches of whole graphs, where the kernels in them have no records.
const GRAPHS: &str = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
/// Events that were recorded on streams.
const RECORDS: &str = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";
const WAITS: &str = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";

/// Columns that these tables share.
const COMMON: [&str; 7] = ["start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"];

/// CUPTI's number for a missing stream or event: the largest 32-bit number.
const NO_ID: i64 = u32::MAX as i64;

/// Columns that all tables of GPU activity have.
struct Common {
    times: (Option<i64>, Option<i64>),
    device: Option<i64>,
    context: Option<i64>,
    stream: Option<i64>,
    correlation: Option<i64>,
    pid: Option<i64>,
}

impl Common {
    /// Read the columns [`COMMON`] from the start of a row.
    fn new(row: &Row<'_>) -> Self {
        let [start, end, device, context, stream, correlation, global] = std::array::from_fn(|column| row.i64(column));
        let stream = stream.filter(|&stream| stream != NO_ID);
        Self { times: (start, end), device, context, stream, correlation, pid: process(global) }
    }

    /// Track of the stream. As in Kineto's traces, devices are processes.
    fn track(&self) -> (Key, Key, TrackKind) {
        (Key::Int(self.device.unwrap_or(0)), Key::Int(self.stream.unwrap_or(-1)), TrackKind::Stream)
    }

    /// Event arguments for the device, context, stream and correlation ID.
    fn arguments(&self) -> [(&'static str, Value<'static>); 4] {
        [
            ("device", Value::Int(self.device)),
            ("context", Value::Int(self.context)),
            ("stream", Value::Int(Some(self.stream.unwrap_or(-1)))),
            ("correlation", Value::Int(self.correlation)),
        ]
    }

    /// Add an event of this row to the trace of its process, with the common arguments and `more`.
    fn push(
        &self,
        processes: &mut Processes<'_>,
        (name, category, kind): (&str, &str, EventKind),
        more: &[(&'static str, Value<'_>)],
    ) {
        let arguments = [&self.arguments(), more].concat();
        let (track, times) = (self.track(), self.times);
        processes.push(
            self.pid,
            &Event { track, times, name, category, kind, phase: Phase::Complete, arguments: &arguments },
        );
    }
}

/// Read the GPU activity of an export into the traces of its processes.
pub(super) fn read(export: &Export<'_>, processes: &mut Processes<'_>) {
    kernels(export, processes);
    copies(export, processes);
    fills(export, processes);
    graphs(export, processes);
    store_event_records(export, processes);
    waits(export, processes);
}

/// Read the kernels, with grid, block, registers and shared memory as arguments.
fn kernels(export: &Export<'_>, processes: &mut Processes<'_>) {
    let own = [
        "demangledName",
        "shortName",
        "mangledName",
        "gridX",
        "gridY",
        "gridZ",
        "blockX",
        "blockY",
        "blockZ",
        "registersPerThread",
        "staticSharedMemory",
        "dynamicSharedMemory",
        "graphId",
        "graphNodeId",
    ];
    let mut sizes: FxHashMap<[i64; 3], Box<str>> = FxHashMap::default();
    export.rows(KERNELS, &[&COMMON[..], &own].concat(), processes, |row, processes| {
        let column = |at: usize| row.i64(COMMON.len() + at);
        let name = export.name(&[0, 1, 2].map(column), "kernel without a name", processes);
        let [grid, block] = [3, 6].map(|at| match [column(at), column(at + 1), column(at + 2)] {
            [Some(x), Some(y), Some(z)] => Some([x, y, z]),
            _ => None,
        });
        for size in [grid, block].into_iter().flatten() {
            let [x, y, z] = size;
            sizes.entry(size).or_insert_with(|| format!("[{x},{y},{z}]").into());
        }
        let [grid, block] = [grid, block].map(|size| sizes.get(&size?).map(|text| &**text));
        let shared = match (column(10), column(11)) {
            (None, None) => None,
            (fixed, dynamic) => Some(fixed.unwrap_or(0).saturating_add(dynamic.unwrap_or(0))),
        };
        let more = [
            ("grid", json(grid)),
            ("block", json(block)),
            ("registers per thread", Value::Int(column(9))),
            ("shared memory", Value::Int(shared)),
            ("graph id", Value::Int(column(12))),
            ("graph node id", Value::Int(column(13))),
        ];
        Common::new(row).push(processes, (name, "kernel", EventKind::Kernel), &more);
    });
}

/// JSON argument of an event; without a value if there is no text.
fn json(text: Option<&str>) -> Value<'_> {
    text.map_or(Value::Int(None), Value::Json)
}

/// Directions of copies by `copyKind` (`ENUM_CUDA_MEMCPY_OPER`), in Kineto's spelling; the last three belong to unified
/// memory.
const DIRECTIONS: [&str; 14] =
    ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP", "HtoD", "DtoH", "DtoD"];
/// Kinds of memory by `srcKind` and `dstKind` (`ENUM_CUDA_MEM_KIND`).
const MEMORY: [&str; 8] =
    ["Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown"];

/// Entry of a table of names at a number from the file; `Unknown` for other numbers.
fn named<'n>(names: &[&'n str], number: Option<i64>) -> &'n str {
    number.and_then(|number| names.get(usize::try_from(number).ok()?).copied()).unwrap_or("Unknown")
}

/// Read the copies, named by direction and kinds of memory like Kineto's.
fn copies(export: &Export<'_>, processes: &mut Processes<'_>) {
    let own = ["copyKind", "srcKind", "dstKind", "bytes", "graphNodeId"];
    export.rows(COPIES, &[&COMMON[..], &own].concat(), processes, |row, processes| {
        let column = |at: usize| row.i64(COMMON.len() + at);
        let (from, to) = (named(&MEMORY, column(1)), named(&MEMORY, column(2)));
        let name = format!("Memcpy {} ({from} -> {to})", named(&DIRECTIONS, column(0)));
        let common = Common::new(row);
        let more = bytes(&common, column(3), column(4));
        common.push(processes, (&name, "gpu_memcpy", EventKind::Memcpy), &more);
    });
}

/// Read the fills, named by kind of memory like Kineto's.
fn fills(export: &Export<'_>, processes: &mut Processes<'_>) {
    let own = ["memKind", "bytes", "graphNodeId"];
    export.rows(FILLS, &[&COMMON[..], &own].concat(), processes, |row, processes| {
        let column = |at: usize| row.i64(COMMON.len() + at);
        let name = format!("Memset ({})", named(&MEMORY, column(0)));
        let common = Common::new(row);
        let more = bytes(&common, column(1), column(2));
        common.push(processes, (&name, "gpu_memset", EventKind::Memset), &more);
    });
}

/// Arguments of a copy or fill: bytes, bandwidth in GB/s (bytes per ns), graph node ID.
fn bytes(common: &Common, bytes: Option<i64>, node: Option<i64>) -> [(&'static str, Value<'static>); 3] {
    let length = match common.times {
        (Some(start), Some(end)) => end.checked_sub(start).filter(|&ns| ns > 0),
        _ => None,
    };
    let rate = bytes.zip(length).map(|(bytes, ns)| bytes as f64 / ns as f64);
    [("bytes", Value::Int(bytes)), ("memory bandwidth (GB/s)", Value::Float(rate)), ("graph node id", Value::Int(node))]
}

/// Read the launches of whole CUDA graphs, each as one kernel, because their kernels have no records.
fn graphs(export: &Export<'_>, processes: &mut Processes<'_>) {
    let own = ["graphId", "graphExecId"];
    export.rows(GRAPHS, &[&COMMON[..], &own].concat(), processes, |row, processes| {
        let column = |at: usize| row.i64(COMMON.len() + at);
        let name = column(0).map_or_else(|| "CUDA graph".to_owned(), |graph| format!("CUDA graph {graph}"));
        let more = [("graph id", Value::Int(column(0))), ("graph exec id", Value::Int(column(1)))];
        Common::new(row).push(processes, (&name, "kernel", EventKind::Kernel), &more);
        processes.count(diagnostics::GRAPHS_AS_WHOLE, &name);
    });
}

/// Store the call that recorded each CUDA event, for later waits.
fn store_event_records(export: &Export<'_>, processes: &mut Processes<'_>) {
    let columns = ["globalPid", "eventSyncId", "streamId", "correlationId"];
    export.rows(RECORDS, &columns, processes, |row, processes| {
        if let [Some(record), Some(stream), Some(correlation)] =
            [1, 2, 3].map(|column| row.i64(column).filter(|&id| id != NO_ID))
        {
            processes.trace_of(process(row.i64(0))).records.insert(record, EventRecord { stream, correlation });
        }
    });
}

/// Kinds of waits by `syncType` (`ENUM_CUPTI_SYNC_TYPE`), in Kineto's spelling.
const SYNCS: [&str; 5] = ["Unknown", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"];

/// Read the synchronization records, with the recorded CUDA event for which a stream waits.
fn waits(export: &Export<'_>, processes: &mut Processes<'_>) {
    let own = ["syncType", "eventId", "eventSyncId"];
    export.rows(WAITS, &[&COMMON[..], &own].concat(), processes, |row, processes| {
        let column = |at: usize| row.i64(COMMON.len() + at);
        let (name, common) = (named(&SYNCS, column(0)), Common::new(row));
        let record = column(2)
            .filter(|&record| record != NO_ID)
            .and_then(|record| processes.trace_of(common.pid).records.get(&record).copied());
        let more = [
            ("cuda_sync_kind", Value::Text(name)),
            ("wait_on_cuda_event_id", Value::Int(column(1).filter(|&event| event != NO_ID))),
            ("wait_on_stream", Value::Int(record.map(|record| record.stream))),
            ("wait_on_cuda_event_record_corr_id", Value::Int(record.map(|record| record.correlation))),
        ];
        common.push(processes, (name, "cuda_sync", EventKind::Sync), &more);
    });
}
