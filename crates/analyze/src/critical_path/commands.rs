//! What the host told the GPU to do, in the order of the calls.

use super::call_kind_cache::CallKindCache;
use super::streams::{Streams, start};
use super::sync_records::SyncRecords;
use crate::launch_times::LaunchTimes;
use rustc_hash::FxHashMap;
use stackline_model::gpu_calls::CallKind;
use stackline_model::{EventId, GpuId, Key, Trace};

/// A recorded event: process, and correlation id of the call that recorded it.
pub(super) type RecordKey = (Key, i64);

/// One command.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    /// An operation joins its stream.
    Launch { gpu: GpuId, call: EventId },
    /// An event is recorded on a stream.
    Record { record: RecordKey, stream: usize },
    /// A stream waits for a recorded event.
    Wait { stream: usize, record: RecordKey },
    /// Some stream waits for something.
    UnknownWait { call: EventId },
    /// The host waits.
    Sync { call: EventId, kind: CallKind, stream: Option<usize>, device: i32, record: Option<RecordKey> },
}

/// All commands by time.
pub(super) struct Commands {
    pub(super) list: Vec<((i64, u8, i64, u32), Command)>,
    /// Whether the trace records what streams wait for.
    pub(super) has_wait_records: bool,
}

impl Commands {
    pub(super) fn collect(trace: &Trace, kinds: &CallKindCache, streams: &Streams) -> Self {
        let records = SyncRecords::read(trace);
        let mut out = Self { list: Vec::new(), has_wait_records: records.has_stream_waits() };
        // Correlation ids count per process, and ranks may share a file: records are known by the calls they belong to.
        let pid = |call: EventId| trace.tracks.pid(trace.events.track[call.index()]);
        let all = trace.events.ids().filter(|&e| trace.events.is_plausible(e));
        let calls: Vec<(EventId, CallKind)> = all.filter_map(|e| Some((e, kinds.kind_of(trace, e)?))).collect();
        let mut recorded_on: FxHashMap<RecordKey, usize> = FxHashMap::default();
        for &(call, _) in &calls {
            let Some(record) = records.of_call(call) else { continue };
            if let Some(stream) = streams.numbered(record.device, record.on_stream) {
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
            let record = records.of_call(call);
            let at = trace.events.start[call.index()];
            let stream = |number: i64, device: i32| streams.numbered(device, number);
            let (rank, command) = match kind {
                CallKind::Record => match recorded_on.get(&(pid(call), id)) {
                    Some(&stream) => (1, Command::Record { record: (pid(call), id), stream }),
                    None => continue,
                },
                CallKind::StreamWait => match record {
                    Some(r) => match stream(r.stream, r.device) {
                        Some(stream) => (2, Command::Wait { stream, record: (pid(call), r.event_record) }),
                        None => continue,
                    },
                    None => (2, Command::UnknownWait { call }),
                },
                CallKind::Query | CallKind::Copy | CallKind::Launch | CallKind::GraphLaunch => continue,
                CallKind::DeviceSync | CallKind::StreamSync | CallKind::EventSync | CallKind::Free => {
                    let device = record.map_or(-1, |r| r.device);
                    let known = |id: i64| Some((pid(call), id)).filter(|_| id > 0);
                    let stream = record.and_then(|r| stream(r.stream, r.device));
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
        // No two commands have one key.
        out.list.sort_unstable_by_key(|(key, _)| *key);
        out
    }
}
