//! Reader of rocmProfileData recordings (`.rpd`): SQLite, schemas 1 and 2.
//!
//! HIP calls and marks of the program are in one table, GPU operations in another, and a third one links calls with
//! their operations. Each process becomes a trace. See `docs/formats/rpd.md`.

use super::processes::{self, Event, Processes};
use super::ranges::Range;
use super::row::Value;
use super::tables::{self, Texts};
use super::{Content, Sniff};
use crate::{Error, ReadOptions};
use rustc_hash::FxHashMap;
use stackline_model::{EventKind, Key, Phase, Trace, TrackKind};
use stackline_sqlite::Database;

pub(crate) const FORMAT: &str = "rpd";

const TEXTS: &str = "rocpd_string";
const CALLS: &str = "rocpd_api";
const OPERATIONS: &str = "rocpd_op";
/// Table with the call of each operation.
const LAUNCHES: &str = "rocpd_api_ops";
const KERNELS: &str = "rocpd_kernelapi";
const COPIES: &str = "rocpd_copyapi";
/// Other tables that are read or contain no data of their own.
const KNOWN: &[&str] =
    &[TEXTS, CALLS, OPERATIONS, LAUNCHES, KERNELS, COPIES, "rocpd_metadata", "sqlite_sequence", "sqlite_stat1"];

/// Prefixes of ROCm API calls, and parts of the names of the recorder's own work.
const INTERFACES: &[&str] = &["hip", "hsa"];
const OWN_WORK: &[&str] = &["Table::", "_activity_callback"];
/// Name of a program's mark, whose text is the argument.
const MARK: &str = "UserMarker";

/// Detect the database tables of a recording by rocmProfileData.
pub(crate) fn sniff(content: &Content<'_>) -> Sniff {
    let Content::Tables(file) = content else { return Sniff::No };
    match [TEXTS, OPERATIONS].iter().all(|table| file.has(table)) {
        true => Sniff::Yes("the file has the tables rocpd_string and rocpd_op"),
        false => Sniff::No,
    }
}

/// Read the traces of a recording, one per process.
pub(crate) fn open(name: &str, content: Content<'_>, options: &ReadOptions) -> Result<Vec<Trace>, Error> {
    let Content::Tables(file) = content else { return Ok(Vec::new()) };
    let mut processes = Processes::new(options);
    tables::note_truncation(file, &mut processes);
    let texts = tables::texts(file, TEXTS, ["id", "string"], &mut processes);
    let recording = Recording { file, texts };
    let calls = recording.calls(&mut processes);
    recording.operations(&calls, &mut processes);
    processes.all().for_each(|process| process.device = process.devices().min());
    if options.is_cancelled() {
        return Err(Error::Cancelled);
    }
    let why = processes.reason_if_empty("no GPU work ran during the recording");
    let mut traces = processes.traces(FORMAT, name);
    let Some((_, first)) = traces.first_mut() else {
        let reason = format!("the rocmProfileData recording contains no API calls or GPU operations: {why}");
        return Err(Error::Malformed { path: name.into(), reason, offset: 0 });
    };
    tables::note_unread(file, |table| KNOWN.contains(&table), &mut first.report);
    traces.iter_mut().for_each(|(_, trace)| processes::seal(trace, options));
    Ok(traces.into_iter().map(|(_, trace)| trace).collect())
}

struct Recording<'f> {
    file: &'f Database,
    texts: Texts,
}

/// Properties of a launch call, for the GPU operations that it launched.
#[derive(Clone, Default)]
struct Launch {
    pid: Option<i64>,
    stream: Option<String>,
    grid: Option<[i64; 3]>,
    block: Option<[i64; 3]>,
    /// Total of all its operations.
    bytes: Option<i64>,
    operations: u32,
    shared: Option<i64>,
}

/// Calls whose grid is given in work-items, not in groups.
const LAUNCHES_BY_WORK_ITEMS: &[&str] = &["hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"];

impl Launch {
    /// Convert the grid of a launch from work-items to groups, for calls that give it in work-items.
    fn count_groups(&mut self, call: &str) {
        if let (true, Some(grid), Some(block)) = (LAUNCHES_BY_WORK_ITEMS.contains(&call), &mut self.grid, &self.block) {
            for (items, &size) in grid.iter_mut().zip(block).filter(|(_, size)| **size > 0) {
                *items = items.saturating_add(size - 1) / size;
            }
        }
    }
}

type Launches = FxHashMap<i64, Launch>;

impl Recording<'_> {
    /// String with this ID; empty if missing.
    fn text(&self, id: Option<i64>) -> &str {
        id.and_then(|id| self.texts.get(&id)).map_or("", |text| text)
    }

    /// Count a row whose name is missing in the file, and which is named `called` instead.
    fn note_nameless(&self, id: Option<i64>, called: &str, processes: &mut Processes<'_>) {
        if id.is_none_or(|id| !self.texts.contains_key(&id)) {
            tables::note_nameless(&[id], called, processes);
        }
    }

    /// Read calls and marks, and return the launch parameters of calls for their operations.
    fn calls(&self, processes: &mut Processes<'_>) -> Launches {
        let mut launches = self.launches(processes);
        let columns = ["id", "pid", "tid", "start", "end", "apiName_id", "args_id"];
        tables::rows(self.file, CALLS, &columns, processes, |row, processes| {
            let (id, pid, tid) = (row.i64(0), row.i64(1), row.i64(2));
            let (call, text) = (self.text(row.i64(5)), self.text(row.i64(6)));
            self.note_nameless(row.i64(5), "call without a name", processes);
            let launch = id.and_then(|id| launches.get_mut(&id));
            // An entry that launched an operation is a call, independent of its name.
            let is_call =
                INTERFACES.iter().any(|prefix| call.starts_with(prefix)) || call.is_empty() && launch.is_some();
            let range = (call == MARK && !text.is_empty()).then(|| Range::parse(text));
            let (name, (category, kind)) = match (&range, call) {
                (Some(range), _) => (range.name, range.kind()),
                (None, "") if is_call => ("call without a name", ("cuda_runtime", EventKind::Runtime)),
                (None, "") => ("call without a name", ("", EventKind::Other)),
                (None, call) if is_call => (call, ("cuda_runtime", EventKind::Runtime)),
                (None, call) if OWN_WORK.iter().any(|part| call.contains(part)) => {
                    (call, ("overhead", EventKind::Overhead))
                }
                (None, call) => (call, ("", EventKind::Other)),
            };
            let bytes = launch.as_ref().and_then(|launch| launch.bytes);
            let mut arguments = vec![
                ("correlation", Value::Int(id.filter(|_| is_call))),
                ("bytes", Value::Int(bytes)),
                ("arguments", if call == MARK || text.is_empty() { Value::Int(None) } else { Value::Text(text) }),
            ];
            arguments.extend(range.iter().flat_map(Range::arguments));
            if let Some(launch) = launch {
                launch.pid = pid;
                launch.count_groups(call);
            }
            let track = (Key::Int(pid.unwrap_or(0)), Key::Int(tid.unwrap_or(0)), TrackKind::Thread);
            let times = (row.i64(3), row.i64(4));
            let event = Event { track, times, name, category, kind, phase: Phase::Complete, arguments: &arguments };
            processes.push(pid, &event);
        });
        launches
    }

    /// Read the properties of launch calls, by the number of the call.
    fn launches(&self, processes: &mut Processes<'_>) -> Launches {
        let mut launches = Launches::default();
        tables::rows(self.file, LAUNCHES, &["api_id"], processes, |row, _| {
            if let Some(api) = row.i64(0) {
                launches.entry(api).or_default().operations += 1;
            }
        });
        let sizes = [
            "api_ptr_id",
            "stream",
            "gridX",
            "gridY",
            "gridZ",
            "workgroupX",
            "workgroupY",
            "workgroupZ",
            "groupSegmentSize",
        ];
        tables::rows(self.file, KERNELS, &sizes, processes, |row, _| {
            let size = |at: usize| match [row.i64(at), row.i64(at + 1), row.i64(at + 2)] {
                [Some(x), Some(y), Some(z)] => Some([x, y, z]),
                _ => None,
            };
            if let Some(api) = row.i64(0) {
                let launch = launches.entry(api).or_default();
                launch.stream = row.text(1).map(Into::into);
                (launch.grid, launch.block, launch.shared) = (size(2), size(5), row.i64(8));
            }
        });
        tables::rows(self.file, COPIES, &["api_ptr_id", "stream", "size"], processes, |row, _| {
            if let Some(api) = row.i64(0) {
                let launch = launches.entry(api).or_default();
                launch.stream = row.text(1).map(Into::into);
                launch.bytes = row.i64(2);
            }
        });
        launches
    }

    /// Read GPU operations into the traces of the processes that launched them.
    fn operations(&self, launches: &Launches, processes: &mut Processes<'_>) {
        let mut call_of: FxHashMap<i64, i64> = FxHashMap::default();
        tables::rows(self.file, LAUNCHES, &["op_id", "api_id"], processes, |row, _| {
            if let (Some(op), Some(api)) = (row.i64(0), row.i64(1)) {
                call_of.entry(op).or_insert(api);
            }
        });
        let columns = ["id", "gpuId", "queueId", "start", "end", "description_id", "opType_id"];
        let nothing = Launch::default();
        tables::rows(self.file, OPERATIONS, &columns, processes, |row, processes| {
            let call = row.i64(0).and_then(|op| call_of.get(&op).copied());
            let launch = call.and_then(|call| launches.get(&call)).unwrap_or(&nothing);
            let (description, operation) = (self.text(row.i64(5)), self.text(row.i64(6)));
            let (category, kind) = match operation {
                // The call determines the kind that the file lacks.
                "" if launch.bytes.is_some() => ("gpu_memcpy", EventKind::Memcpy),
                _ => kind_of(operation),
            };
            let name = [description, operation].into_iter().find(|name| !name.is_empty()).unwrap_or(match kind {
                EventKind::Memcpy => "copy without a name",
                _ if launch.grid.is_some() => "kernel without a name",
                _ => "operation without a name",
            });
            self.note_nameless(row.i64(5), name, processes);
            let times = (row.i64(3), row.i64(4));
            let length = times.0.zip(times.1).and_then(|(start, end)| end.checked_sub(start)).filter(|&ns| ns > 0);
            // With several operations, the bytes of each are unknown.
            let bytes = launch.bytes.filter(|&bytes| bytes > 0 && kind != EventKind::Kernel && launch.operations == 1);
            let rate = bytes.zip(length).map(|(bytes, ns)| bytes as f64 / ns as f64);
            let json = |sizes: Option<[i64; 3]>| {
                sizes.filter(|_| kind == EventKind::Kernel).map(|[x, y, z]| format!("[{x},{y},{z}]"))
            };
            let (grid, block) = (json(launch.grid), json(launch.block));
            let (gpu, queue) = (row.i64(1).unwrap_or(0), row.i64(2).unwrap_or(0));
            let arguments = [
                ("device", Value::Int(Some(gpu))),
                ("stream", Value::Int(Some(queue))),
                ("correlation", Value::Int(call)),
                ("hip stream", launch.stream.as_deref().map_or(Value::Int(None), Value::Text)),
                ("grid", grid.as_deref().map_or(Value::Int(None), Value::Json)),
                ("block", block.as_deref().map_or(Value::Int(None), Value::Json)),
                ("shared memory", Value::Int(launch.shared.filter(|_| kind == EventKind::Kernel))),
                ("bytes", Value::Int(bytes)),
                ("memory bandwidth (GB/s)", Value::Float(rate)),
            ];
            let track = (Key::Int(gpu), Key::Int(queue), TrackKind::Stream);
            let event = Event { track, times, name, category, kind, phase: Phase::Complete, arguments: &arguments };
            processes.push(launch.pid, &event);
        });
    }
}

/// Category and kind of an operation, in Kineto's terms, by its ROCm name.
fn kind_of(operation: &str) -> (&'static str, EventKind) {
    let begins = |names: &[&str]| names.iter().any(|name| operation.starts_with(name));
    match () {
        () if begins(&["Copy", "Memcpy"]) => ("gpu_memcpy", EventKind::Memcpy),
        () if begins(&["Fill", "Memset"]) => ("gpu_memset", EventKind::Memset),
        () if begins(&["Barrier", "Marker"]) => ("cuda_sync", EventKind::Sync),
        () => ("kernel", EventKind::Kernel),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rocm_names_map_to_kinds() {
        let kinds =
            ["KernelExecution", "CopyHostToDevice", "FillBuffer", "Task", "BarrierAnd", ""].map(|name| kind_of(name).1);
        use EventKind::{Kernel, Memcpy, Memset, Sync};
        assert_eq!(kinds, [Kernel, Memcpy, Memset, Kernel, Sync, Kernel]);
    }
}
