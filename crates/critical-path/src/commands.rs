//! GPU commands that the host issued, in call order: launches, CUDA event records, waits and synchronizations.

use super::call_kind_cache::CallKindCache;
use super::streams::{Streams, start};
use super::sync_records::{SyncRecord, SyncRecords};
use rustc_hash::FxHashMap;
use stackline_model::gpu_calls::CallKind;
use stackline_model::launch_times::LaunchTimes;
use stackline_model::{EventId, GpuOpId, Key, Trace};

/// Identity of a recorded CUDA event: process, and correlation ID of the call that recorded it.
pub(super) type RecordKey = (Key, i64);

/// One GPU command that the host issued, such as a launch or a synchronization.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    /// Launch of an operation on its stream.
    Launch { gpu: GpuOpId, call: EventId },
    /// Record of an event on a stream.
    Record { record: RecordKey, stream: usize },
    /// Wait of a stream for a recorded event.
    Wait { stream: usize, record: RecordKey },
    /// Wait of a stream for unknown work. `None` if the stream is unknown, too.
    UnknownWait { call: EventId, stream: Option<usize> },
    /// Wait of the host.
    Sync { call: EventId, kind: CallKind, stream: Option<usize>, device: i32, record: Option<RecordKey> },
}

/// All GPU commands that the host issued, sorted by time.
pub(super) struct Commands {
    pub(super) list: Vec<((i64, u8, i64, u32), Command)>,
    /// True if the trace records the targets of stream waits.
    pub(super) has_wait_records: bool,
}

impl Commands {
    /// Collect the GPU commands of a trace from its GPU operations, runtime calls and synchronization records.
    pub(super) fn collect(trace: &Trace, kinds: &CallKindCache, streams: &Streams) -> Self {
        let records = SyncRecords::read(trace);
        let mut out = Self { list: Vec::new(), has_wait_records: records.has_stream_wait_targets };
        // Correlation IDs are unique per process only, and ranks may share a file. So keys of records contain the
        // process.
        let pid = |call: EventId| trace.tracks.pid(trace.events.track[call.index()]);
        // The record of another process may have the same ID.
        let record_of = |call| records.record_of_call(call, |record| streams.may_use(pid(call), record.device));
        let all = trace.events.ids().filter(|&e| trace.events.is_plausible(e));
        let calls: Vec<(EventId, CallKind)> = all.filter_map(|e| Some((e, kinds.kind_of(trace, e)?))).collect();
        let mut recorded_on: FxHashMap<RecordKey, usize> = FxHashMap::default();
        for &(call, _) in &calls {
            let Some(record) = record_of(call) else { continue };
            if let Some(stream) = streams.stream_by_number(pid(call), record.device, record.on_stream) {
                recorded_on.entry((pid(call), record.event_record)).or_insert(stream);
            }
        }
        let times = LaunchTimes::new(trace);
        for gpu in trace.gpu.ids().filter(|g| streams.of[g.index()] != u32::MAX) {
            let call = trace.gpu.launch[gpu.index()];
            let began = start(trace, gpu);
            let at = times.launch_of(gpu).at;
            out.list.push(((at, 0, began, streams.rank[gpu.index()]), Command::Launch { gpu, call }));
        }
        for (call, kind) in calls {
            let id = records.id(call);
            let record = record_of(call);
            let at = trace.events.start[call.index()];
            let (rank, command) = match kind {
                CallKind::Record => match recorded_on.get(&(pid(call), id)) {
                    Some(&stream) => (1, Command::Record { record: (pid(call), id), stream }),
                    None => continue,
                },
                CallKind::StreamWait => match out.stream_wait_command(call, pid(call), record, streams) {
                    Some(command) => (2, command),
                    None => continue,
                },
                CallKind::Query | CallKind::Copy | CallKind::Launch | CallKind::GraphLaunch => continue,
                CallKind::DeviceSync | CallKind::StreamSync | CallKind::EventSync | CallKind::Free => {
                    let device = record.map_or(-1, |r| r.device);
                    let known = |id: i64| Some((pid(call), id)).filter(|_| id > 0);
                    let stream = record.and_then(|r| streams.stream_by_number(pid(call), r.device, r.stream));
                    (
                        3,
                        Command::Sync {
                            call,
                            kind,
                            stream,
                            device,
                            record: record.and_then(|r| known(r.event_record)),
                        },
                    )
                }
            };
            out.list.push(((at, rank, id, call.0), command));
        }
        // Keys are unique.
        out.list.sort_unstable_by_key(|(key, _)| *key);
        out
    }

    /// Create the command of a call that makes a stream wait for an event. `None` if the trace has no work on the
    /// waiting stream.
    fn stream_wait_command(
        &self,
        call: EventId,
        process: Key,
        record: Option<SyncRecord>,
        streams: &Streams,
    ) -> Option<Command> {
        let Some(record) = record else { return Some(Command::UnknownWait { call, stream: None }) };
        let stream = streams.stream_by_number(process, record.device, record.stream)?;
        if self.has_wait_records {
            Some(Command::Wait { stream, record: (process, record.event_record) })
        } else {
            Some(Command::UnknownWait { call, stream: Some(stream) })
        }
    }
}
