//! Which GPU work a synchronising call waits for, and which work of one stream waits for work of another.
//!
//! Synchronisation records (`cuda_sync`) say it exactly where a trace has them. Else the rules below infer it, and the
//! result says how often.

use super::gpu::{Gpu, StreamId};
use super::marks::{Mark, MarkKind, SyncKind};
use crate::hta_view::number;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, Trace};

/// Finds waits. Positions are those of [`Gpu::ops`].
pub(super) struct Waits<'a> {
    trace: &'a Trace,
    gpu: &'a Gpu,
    /// Per stream: when operations were launched, ascending, and the last position up to there.
    launches: Vec<Vec<(i64, u32)>>,
    /// Synchronisation records by correlation.
    records: FxHashMap<i64, SyncRecord>,
    /// By correlation of an event record: the stream that it was recorded on.
    recorded_on: FxHashMap<i64, StreamId>,
    /// By correlation of an event record: when its call began.
    recorded_at: FxHashMap<i64, i64>,
    /// Waits that rules inferred, and waits that are about nothing known.
    pub(super) inferred: u64,
    pub(super) unknown: u64,
}

/// What a synchronisation record says.
#[derive(Clone, Copy, Debug)]
struct SyncRecord {
    /// The stream that it is on: of a stream synchronisation the one waited for, of a stream wait the one that waits.
    stream: Option<StreamId>,
    /// Correlation of the event record that is waited for; -1 if none.
    event_record: i64,
}

impl<'a> Waits<'a> {
    pub(super) fn new(trace: &'a Trace, gpu: &'a Gpu) -> Self {
        let launches = (0..gpu.streams.len() as u32).map(|s| launches_of(gpu, s)).collect();
        let mut waits = Self {
            trace,
            gpu,
            launches,
            records: FxHashMap::default(),
            recorded_on: FxHashMap::default(),
            recorded_at: FxHashMap::default(),
            inferred: 0,
            unknown: 0,
        };
        waits.read_records();
        waits
    }

    fn read_records(&mut self) {
        let trace = self.trace;
        let [stream, device, correlation, on_stream, event_record] =
            ["stream", "device", "correlation", "wait_on_stream", "wait_on_cuda_event_record_corr_id"]
                .map(|key| trace.attr(key));
        for event in trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Sync) {
            let [stream, device, correlation, on_stream, event_record] =
                [&stream, &device, &correlation, &on_stream, &event_record].map(|c| number(c, event, trace));
            let device = i32::try_from(device).unwrap_or(-1);
            self.records
                .insert(correlation, SyncRecord { stream: self.gpu.stream_numbered(device, stream), event_record });
            if let Some(on) = self.gpu.stream_numbered(device, on_stream).filter(|_| event_record >= 0) {
                self.recorded_on.insert(event_record, on);
            }
        }
        self.records.remove(&-1);
        if self.recorded_on.is_empty() {
            return;
        }
        for event in trace.events.ids().filter(|&e| trace.kind(e).is_api_call()) {
            let correlation = number(&correlation, event, trace);
            if self.recorded_on.contains_key(&correlation) {
                self.recorded_at.insert(correlation, trace.events.start[event.index()]);
            }
        }
    }

    /// Whether an event record is waited for by anything.
    pub(super) fn is_waited_for(&self, record: EventId) -> bool {
        let correlation = number(&self.trace.attr("correlation"), record, self.trace);
        self.recorded_on.contains_key(&correlation)
    }

    /// Per call that waits on the host: the operations it waits for, at most one per stream.
    pub(super) fn of_sync(
        &mut self,
        mark: &Mark,
        kind: SyncKind,
        streams: &[StreamId],
        last: Option<StreamId>,
    ) -> Vec<u32> {
        let record = self.record(mark.event);
        let one = |op: Option<u32>| op.into_iter().collect::<Vec<u32>>();
        match kind {
            SyncKind::OwnCopy => self.gpu.launched_by(mark.event).to_vec(),
            SyncKind::Device => streams.iter().filter_map(|&s| self.last_launched(s, mark.start)).collect(),
            SyncKind::Stream => match record.and_then(|r| r.stream) {
                Some(stream) => one(self.last_launched(stream, mark.start)),
                // PyTorch synchronises the stream that it has just used.
                None if last.is_some() => {
                    self.inferred += 1;
                    one(last.and_then(|s| self.last_launched(s, mark.start)))
                }
                None => self.nothing(),
            },
            SyncKind::Event => match record.map(|r| self.recorded_op(r.event_record)) {
                Some(op) => one(op),
                // Without a record: what ended last before the call returned.
                None => {
                    let gpu = self.gpu;
                    let ended = |op: &u32| gpu.ops[*op as usize].end <= mark.end;
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
        waiting: Option<StreamId>,
    ) -> (Option<StreamId>, Vec<u32>) {
        if let Some(record) = self.record(mark.event) {
            return (record.stream, self.recorded_op(record.event_record).into_iter().collect());
        }
        // Without a record: whatever had been launched on the other streams. The search takes what ended last, and only
        // if nothing else explains the start better.
        let others = streams.iter().filter(|&&s| Some(s) != waiting);
        let found: Vec<u32> = others.filter_map(|&s| self.last_launched(s, mark.start)).collect();
        self.inferred += u64::from(!found.is_empty());
        (waiting, found)
    }

    fn record(&self, call: EventId) -> Option<SyncRecord> {
        if self.records.is_empty() {
            return None;
        }
        self.records.get(&number(&self.trace.attr("correlation"), call, self.trace)).copied()
    }

    /// The last operation launched on the stream of an event record before the record.
    fn recorded_op(&self, record: i64) -> Option<u32> {
        let (stream, at) = (*self.recorded_on.get(&record)?, *self.recorded_at.get(&record)?);
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
