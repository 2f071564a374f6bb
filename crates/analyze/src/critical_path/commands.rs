//! What the host told the GPU to do, in the order of the calls.

use super::gpu_calls::{CallKind, CallKinds};
use super::streams::{Streams, start};
use crate::hta_view::number;
use rustc_hash::FxHashMap;
use stackline_model::{AttrColumn, EventId, EventKind, GpuId, Key, Trace};
use std::collections::BTreeMap;

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

/// What a synchronisation record says.
#[derive(Clone, Copy)]
struct SyncRecord {
    event: EventId,
    device: i32,
    stream: i64,
    on_stream: i64,
    record: i64,
}

impl Commands {
    pub(super) fn collect(trace: &Trace, kinds: &CallKinds, streams: &Streams) -> Self {
        let correlation = trace.attr("correlation");
        let records = sync_records(trace, &correlation);
        let has_wait_records = records.values().flatten().any(|r| is_stream_wait(trace, r));
        let mut out = Self { list: Vec::new(), has_wait_records };
        // Correlation ids count per process, and ranks may share a file: records are known by the calls they belong to.
        let pid = |call: EventId| trace.tracks.pid(trace.events.track[call.index()]);
        let all = trace.events.ids().filter(|&e| trace.events.is_plausible(e));
        let calls: Vec<(EventId, CallKind)> = all.filter_map(|e| Some((e, kinds.of(trace, e)?))).collect();
        let record_of =
            |call: EventId| records.get(&number(&correlation, call, trace)).and_then(|list| nearest(trace, list, call));
        let mut recorded_on: FxHashMap<RecordKey, usize> = FxHashMap::default();
        for &(call, _) in &calls {
            let Some(record) = record_of(call) else { continue };
            if let Some(stream) = streams.numbered(record.device, record.on_stream) {
                recorded_on.entry((pid(call), record.record)).or_insert(stream);
            }
        }
        for gpu in trace.gpu.ids().filter(|g| streams.of[g.index()] != u32::MAX) {
            let call = trace.gpu.launch[gpu.index()];
            let began = start(trace, gpu);
            let at = call.some().map_or(began, |c| trace.events.start[c.index()]);
            out.list.push(((at, 0, began, streams.rank[gpu.index()]), Command::Launch { gpu, call }));
        }
        for (call, kind) in calls {
            let id = number(&correlation, call, trace);
            let record = record_of(call);
            let at = trace.events.start[call.index()];
            let stream = |number: i64, device: i32| streams.numbered(device, number);
            let (rank, command) = match kind {
                CallKind::Record => match recorded_on.get(&(pid(call), id)) {
                    Some(&stream) => (1, Command::Record { record: (pid(call), id), stream }),
                    None => continue,
                },
                CallKind::StreamWait => match record {
                    Some(r) => match stream(r.stream, r.device) {
                        Some(stream) => (2, Command::Wait { stream, record: (pid(call), r.record) }),
                        None => continue,
                    },
                    None => (2, Command::UnknownWait { call }),
                },
                CallKind::Query | CallKind::Copy | CallKind::Launch | CallKind::GraphLaunch => continue,
                CallKind::DeviceSync | CallKind::StreamSync | CallKind::EventSync | CallKind::Free => {
                    let device = record.map_or(-1, |r| r.device);
                    let known = |id: i64| Some((pid(call), id)).filter(|_| id > 0);
                    let stream = record.and_then(|r| stream(r.stream, r.device));
                    (3, Command::Sync { call, kind, stream, device, record: record.and_then(|r| known(r.record)) })
                }
            };
            out.list.push(((at, rank, id, call.0), command));
        }
        // No two commands have one key.
        out.list.sort_unstable_by_key(|(key, _)| *key);
        out
    }
}

fn is_stream_wait(trace: &Trace, record: &SyncRecord) -> bool {
    trace.name(record.event).contains("Stream Wait")
}

/// Synchronisation records by correlation id.
fn sync_records(trace: &Trace, correlation: &AttrColumn<'_>) -> BTreeMap<i64, Vec<SyncRecord>> {
    let columns = ["device", "stream", "wait_on_stream", "wait_on_cuda_event_record_corr_id"].map(|k| trace.attr(k));
    let [device, stream, on_stream, record] = &columns;
    let mut records: BTreeMap<i64, Vec<SyncRecord>> = BTreeMap::new();
    for event in trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Sync) {
        let value = |column: &AttrColumn<'_>| number(column, event, trace);
        records.entry(value(correlation)).or_default().push(SyncRecord {
            event,
            device: i32::try_from(value(device)).unwrap_or(-1),
            stream: value(stream),
            on_stream: value(on_stream),
            record: value(record),
        });
    }
    records
}

/// The record of a call: of those with its correlation id the one nearest in time. Correlation ids are used again by
/// other processes: a record far from the call is another one's.
fn nearest(trace: &Trace, records: &[SyncRecord], call: EventId) -> Option<SyncRecord> {
    let (from, to) = (trace.events.start[call.index()], trace.events.end(call));
    let apart = |r: &SyncRecord| trace.events.start[r.event.index()].abs_diff(from);
    let is_near = |r: &&SyncRecord| {
        let (begins, ends) = (trace.events.start[r.event.index()], trace.events.end(r.event));
        begins <= to + FAR_NS && ends + FAR_NS >= from
    };
    records.iter().filter(is_near).min_by_key(|r| apart(r)).copied()
}

/// A record that is so far from a call, in ns, is not about it, even if clocks disagree.
const FAR_NS: i64 = 20_000_000;
