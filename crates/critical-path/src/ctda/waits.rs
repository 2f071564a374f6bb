//! Waits for GPU work: operations that a synchronizing call waits for, and dependencies between streams.
//!
//! Synchronization records (`cuda_sync`) state the target if the trace has them. Otherwise the rules below infer it,
//! and the result counts the inferred waits.

use super::gpu::{Gpu, StreamId};
use super::marks::{Mark, MarkKind, SyncKind};
use crate::commands::RecordKey;
use crate::sync_records::{SyncRecord, SyncRecords};
use rustc_hash::FxHashMap;
use stackline_model::{EventId, Key, Trace};
use std::borrow::Cow;

/// Maximum number of streams considered for a wait without record: those whose work ended last. Without this limit, the
/// time would grow with the product of waits and streams.
const MAX_STREAMS: usize = 64;
/// Maximum number of operations in the search for these streams.
const MAX_OPERATIONS: usize = 4_096;

/// Search for the GPU operations that calls and streams wait for. Operations are positions in [`Gpu::ops`].
pub(super) struct Waits<'a> {
    trace: &'a Trace,
    gpu: &'a Gpu,
    /// Per stream: launch times of operations, ascending, and the last position up to that time.
    launches: Vec<Vec<(i64, u32)>>,
    records: SyncRecords<'a>,
    /// Stream on which an event was recorded, by the recording call.
    recorded_on: FxHashMap<RecordKey, StreamId>,
    /// Start of the call that recorded an event, by that call.
    recorded_at: FxHashMap<RecordKey, i64>,
    /// Number of inferred waits, and of waits with unknown target.
    pub(super) inferred: u64,
    pub(super) unknown: u64,
}

impl<'a> Waits<'a> {
    /// Index the launches of all streams, the synchronization records and the CUDA event records of a trace.
    pub(super) fn new(trace: &'a Trace, gpu: &'a Gpu) -> Self {
        let launches = (0..gpu.streams.len() as u32).map(|s| launches_of(gpu, s)).collect();
        let mut waits = Self {
            trace,
            gpu,
            launches,
            records: SyncRecords::read(trace),
            recorded_on: FxHashMap::default(),
            recorded_at: FxHashMap::default(),
            inferred: 0,
            unknown: 0,
        };
        waits.find_event_records();
        waits
    }

    /// Find the stream and time of each CUDA event record that a call or stream waits for.
    fn find_event_records(&mut self) {
        if self.records.is_empty() {
            return;
        }
        let trace = self.trace;
        let calls = || trace.events.ids().filter(|&e| trace.kind(e).is_api_call());
        for call in calls() {
            if let Some(record) = self.records.record_of_call(call, |_| true).filter(|r| r.event_record >= 0)
                && let Some(on) = self.gpu.stream_by_number(record.device, record.on_stream)
            {
                self.recorded_on.insert((self.process(call), record.event_record), on);
            }
        }
        for call in calls().filter(|_| !self.recorded_on.is_empty()) {
            let key = self.key(call);
            if self.recorded_on.contains_key(&key) {
                self.recorded_at.insert(key, trace.events.start[call.index()]);
            }
        }
    }

    /// Process of the thread of a call.
    fn process(&self, call: EventId) -> Key {
        self.trace.tracks.pid(self.trace.events.track[call.index()])
    }

    /// Key of a CUDA event record: process and correlation ID of the call that recorded the event.
    fn key(&self, call: EventId) -> RecordKey {
        (self.process(call), self.records.id(call))
    }

    /// True if any call or stream waits for the CUDA event that this call records.
    pub(super) fn is_waited_for(&self, record: EventId) -> bool {
        !self.recorded_on.is_empty() && self.recorded_on.contains_key(&self.key(record))
    }

    /// GPU operations that a synchronizing host call waits for; empty for device synchronizations and unknown targets.
    ///
    /// `last` is the stream of the thread's last launch. A stream synchronization without record waits for that stream.
    pub(super) fn sync_targets(
        &mut self,
        mark: &Mark,
        kind: SyncKind,
        streams: &[StreamId],
        last: Option<StreamId>,
    ) -> Vec<u32> {
        let record = self.records.record_of_call(mark.event, |_| true);
        let one = |op: Option<u32>| op.into_iter().collect::<Vec<u32>>();
        match kind {
            SyncKind::OwnCopy => self.gpu.launched_by(mark.event).to_vec(),
            // A device synchronization depends on the targets of earlier ones, see `UnfinishedStreams` in `edges.rs`.
            SyncKind::Device => Vec::new(),
            SyncKind::Stream => match record.and_then(|r| self.stream(&r)) {
                Some(stream) => one(self.last_launched(stream, mark.start)),
                // PyTorch synchronizes the stream that it used last.
                None if last.is_some() => {
                    self.inferred += 1;
                    one(last.and_then(|s| self.last_launched(s, mark.start)))
                }
                None => self.count_unknown(),
            },
            SyncKind::Event => match record.filter(SyncRecord::has_event_record) {
                Some(record) => one(self.recorded_op(mark.event, record.event_record)),
                // The event is unknown: the work that ended last before the call returned.
                None => {
                    let gpu = self.gpu;
                    let ended = |op: &u32| gpu.ops[*op as usize].end <= mark.end;
                    let streams = self.candidate_streams(mark.end, mark.start, streams);
                    let ops = streams.iter().filter_map(|&s| self.last_launched(s, mark.start)).filter(ended);
                    let found = ops.max_by_key(|&op| (gpu.ops[op as usize].end, op));
                    if found.is_none() {
                        return self.count_unknown();
                    }
                    self.inferred += 1;
                    one(found)
                }
            },
        }
    }

    /// Count a wait with unknown target, and return an empty list of operations.
    fn count_unknown(&mut self) -> Vec<u32> {
        self.unknown += 1;
        Vec::new()
    }

    /// For a call that makes a stream wait: the stream, and the operations it waits for; `None` for an unknown stream.
    pub(super) fn stream_wait_targets(
        &mut self,
        mark: &Mark,
        streams: &[StreamId],
        next: Option<(StreamId, u32)>,
    ) -> (Option<StreamId>, Vec<u32>) {
        let record = self.records.record_of_call(mark.event, |_| true);
        let waiting = record.map_or_else(|| next.map(|n| n.0), |record| self.stream(&record));
        if let Some(record) = record
            && (self.records.has_stream_wait_targets || waiting.is_none())
        {
            return (waiting, self.recorded_op(mark.event, record.event_record).into_iter().collect());
        }
        // The event is unknown: all work launched on the other streams. The search takes the work that ended last, and
        // only if no other dependency explains the start better.
        let until = next.map_or(i64::MAX, |(_, op)| self.gpu.ops[op as usize].start);
        let streams = self.candidate_streams(until, mark.start, streams);
        let others = streams.iter().filter(|&&s| Some(s) != waiting);
        let found: Vec<u32> = others.filter_map(|&s| self.last_launched(s, mark.start)).collect();
        self.inferred += u64::from(!found.is_empty());
        (waiting, found)
    }

    /// Streams that may run the work that an unknown CUDA event covers: all of `streams` if they are few. Otherwise
    /// only those whose work, launched by `launched_by`, ended last up to `until`.
    fn candidate_streams<'s>(&self, until: i64, launched_by: i64, streams: &'s [StreamId]) -> Cow<'s, [StreamId]> {
        if streams.len() <= MAX_STREAMS {
            return Cow::Borrowed(streams);
        }
        let mut found = Vec::new();
        for op in self.gpu.ended_by(until).take(MAX_OPERATIONS) {
            let of = op.stream;
            if op.launched_at <= launched_by && !found.contains(&of) && streams.binary_search(&of).is_ok() {
                found.push(of);
                if found.len() == MAX_STREAMS {
                    break;
                }
            }
        }
        found.sort_unstable();
        Cow::Owned(found)
    }

    /// GPU stream of a synchronization record.
    fn stream(&self, record: &SyncRecord) -> Option<StreamId> {
        self.gpu.stream_by_number(record.device, record.stream)
    }

    /// GPU operation that a CUDA event record covers: the last one launched on its stream before the record. `record`
    /// is its correlation ID, and `call` is any call of the same process.
    fn recorded_op(&self, call: EventId, record: i64) -> Option<u32> {
        let key = (self.process(call), record);
        let (stream, at) = (*self.recorded_on.get(&key)?, *self.recorded_at.get(&key)?);
        self.last_launched(stream, at)
    }

    /// Last GPU operation of a stream that was launched up to a time.
    pub(super) fn last_launched(&self, stream: StreamId, at: i64) -> Option<u32> {
        let launches = self.launches.get(stream as usize)?;
        let after = launches.partition_point(|&(launched, _)| launched <= at);
        after.checked_sub(1).map(|i| launches[i].1)
    }
}

/// Launch times of a stream's operations, ascending, each with the last position of the operations launched so far.
fn launches_of(gpu: &Gpu, stream: StreamId) -> Vec<(i64, u32)> {
    let mut launches: Vec<(i64, u32)> =
        gpu.ops_of_stream(stream).map(|op| (gpu.ops[op as usize].launched_at, op)).collect();
    launches.sort_unstable();
    let mut last = 0;
    for (_, op) in &mut launches {
        last = last.max(*op);
        *op = last;
    }
    launches
}

/// GPU streams on which a call launches work; empty if it launches none.
pub(super) fn launch_streams<'m>(mark: &'m Mark, gpu: &Gpu, own: &'m mut Vec<StreamId>) -> &'m [StreamId] {
    match &mark.kind {
        MarkKind::Launch(streams) => streams,
        MarkKind::Sync(SyncKind::OwnCopy) => {
            *own = gpu.streams_of(gpu.launched_by(mark.event));
            own
        }
        _ => &[],
    }
}
