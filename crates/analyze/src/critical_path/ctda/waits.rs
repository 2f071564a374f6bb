//! Which GPU work a synchronising call waits for, and which work of one stream waits for work of another.
//!
//! Synchronisation records (`cuda_sync`) say it exactly where a trace has them. Else the rules below infer it, and the
//! result says how often.

use super::gpu::{Gpu, StreamId};
use super::marks::{Mark, MarkKind, SyncKind};
use crate::critical_path::commands::RecordKey;
use crate::critical_path::sync_records::{SyncRecord, SyncRecords};
use rustc_hash::FxHashMap;
use stackline_model::{EventId, Key, Trace};
use std::borrow::Cow;

/// Where a process uses more streams than this, only so many are looked at for a wait without record: those whose work
/// ended last. Else many waits times many streams would take as long as both together.
const MOST_STREAMS: usize = 64;
/// So many operations are looked at to find them.
const MOST_OPERATIONS: usize = 4_096;

/// Finds waits. Positions are those of [`Gpu::ops`].
pub(super) struct Waits<'a> {
    trace: &'a Trace,
    gpu: &'a Gpu,
    /// Per stream: when operations were launched, ascending, and the last position up to there.
    launches: Vec<Vec<(i64, u32)>>,
    records: SyncRecords<'a>,
    /// By the call that recorded an event: the stream that it was recorded on.
    recorded_on: FxHashMap<RecordKey, StreamId>,
    /// By the call that recorded an event: when it began.
    recorded_at: FxHashMap<RecordKey, i64>,
    /// Waits that rules inferred, and waits that are about nothing known.
    pub(super) inferred: u64,
    pub(super) unknown: u64,
}

impl<'a> Waits<'a> {
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

    /// Finds where and when the events were recorded that something waits for.
    fn find_event_records(&mut self) {
        if self.records.is_empty() {
            return;
        }
        let trace = self.trace;
        let calls = || trace.events.ids().filter(|&e| trace.kind(e).is_api_call());
        for call in calls() {
            if let Some(record) = self.records.of_call(call).filter(|r| r.event_record >= 0)
                && let Some(on) = self.gpu.stream_numbered(record.device, record.on_stream)
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

    fn process(&self, call: EventId) -> Key {
        self.trace.tracks.pid(self.trace.events.track[call.index()])
    }

    fn key(&self, call: EventId) -> RecordKey {
        (self.process(call), self.records.id(call))
    }

    /// Whether an event record is waited for by anything.
    pub(super) fn is_waited_for(&self, record: EventId) -> bool {
        !self.recorded_on.is_empty() && self.recorded_on.contains_key(&self.key(record))
    }

    /// Per call that waits on the host: the operations it waits for, at most one per stream.
    pub(super) fn of_sync(
        &mut self,
        mark: &Mark,
        kind: SyncKind,
        streams: &[StreamId],
        last: Option<StreamId>,
    ) -> Vec<u32> {
        let record = self.records.of_call(mark.event);
        let one = |op: Option<u32>| op.into_iter().collect::<Vec<u32>>();
        match kind {
            SyncKind::OwnCopy => self.gpu.launched_by(mark.event).to_vec(),
            // Those need to know what earlier ones waited for.
            SyncKind::Device => Vec::new(),
            SyncKind::Stream => match record.and_then(|r| self.stream(&r)) {
                Some(stream) => one(self.last_launched(stream, mark.start)),
                // PyTorch synchronises the stream that it has just used.
                None if last.is_some() => {
                    self.inferred += 1;
                    one(last.and_then(|s| self.last_launched(s, mark.start)))
                }
                None => self.nothing(),
            },
            SyncKind::Event => match record.map(|r| self.recorded_op(mark.event, r.event_record)) {
                Some(op) => one(op),
                // Without a record: what ended last before the call returned.
                None => {
                    let gpu = self.gpu;
                    let ended = |op: &u32| gpu.ops[*op as usize].end <= mark.end;
                    let streams = self.busy_until(mark.end, mark.start, streams);
                    let ops = streams.iter().filter_map(|&s| self.last_launched(s, mark.start)).filter(ended);
                    let found = ops.max_by_key(|&op| (gpu.ops[op as usize].end, op));
                    if found.is_none() {
                        return self.nothing();
                    }
                    self.inferred += 1;
                    one(found)
                }
            },
        }
    }

    fn nothing(&mut self) -> Vec<u32> {
        self.unknown += 1;
        Vec::new()
    }

    /// For a call that lets a stream wait: the stream, if it is known, and the operations that it waits for.
    pub(super) fn of_stream_wait(
        &mut self,
        mark: &Mark,
        streams: &[StreamId],
        next: Option<(StreamId, u32)>,
    ) -> (Option<StreamId>, Vec<u32>) {
        if let Some(record) = self.records.of_call(mark.event) {
            return (self.stream(&record), self.recorded_op(mark.event, record.event_record).into_iter().collect());
        }
        // Without a record: whatever had been launched on the other streams. The search takes what ended last, and only
        // if nothing else explains the start better.
        let waiting = next.map(|n| n.0);
        let until = next.map_or(i64::MAX, |(_, op)| self.gpu.ops[op as usize].start);
        let streams = self.busy_until(until, mark.start, streams);
        let others = streams.iter().filter(|&&s| Some(s) != waiting);
        let found: Vec<u32> = others.filter_map(|&s| self.last_launched(s, mark.start)).collect();
        self.inferred += u64::from(!found.is_empty());
        (waiting, found)
    }

    /// Of many streams those whose work ended last up to a time, of what was launched before another; of few all.
    fn busy_until<'s>(&self, until: i64, launched_by: i64, streams: &'s [StreamId]) -> Cow<'s, [StreamId]> {
        if streams.len() <= MOST_STREAMS {
            return Cow::Borrowed(streams);
        }
        let mut found = Vec::new();
        for op in self.gpu.ended_by(until).take(MOST_OPERATIONS) {
            let of = op.stream;
            if op.launched_at <= launched_by && !found.contains(&of) && streams.binary_search(&of).is_ok() {
                found.push(of);
                if found.len() == MOST_STREAMS {
                    break;
                }
            }
        }
        found.sort_unstable();
        Cow::Owned(found)
    }

    /// The stream that a record is on.
    fn stream(&self, record: &SyncRecord) -> Option<StreamId> {
        self.gpu.stream_numbered(record.device, record.stream)
    }

    /// The last operation launched on the stream of an event record before the record; `call` is one of its process.
    fn recorded_op(&self, call: EventId, record: i64) -> Option<u32> {
        let key = (self.process(call), record);
        let (stream, at) = (*self.recorded_on.get(&key)?, *self.recorded_at.get(&key)?);
        self.last_launched(stream, at)
    }

    /// The last operation of a stream among those launched before a time.
    pub(super) fn last_launched(&self, stream: StreamId, at: i64) -> Option<u32> {
        let launches = self.launches.get(stream as usize)?;
        let after = launches.partition_point(|&(launched, _)| launched <= at);
        after.checked_sub(1).map(|i| launches[i].1)
    }
}

fn launches_of(gpu: &Gpu, stream: StreamId) -> Vec<(i64, u32)> {
    let mut launches: Vec<(i64, u32)> =
        gpu.of_stream(stream).map(|op| (gpu.ops[op as usize].launched_at, op)).collect();
    launches.sort_unstable();
    let mut last = 0;
    for (_, op) in &mut launches {
        last = last.max(*op);
        *op = last;
    }
    launches
}

/// Whether a mark starts work, and on which streams.
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
