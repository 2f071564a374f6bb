//! Prerequisites of each GPU operation, and waits of calls.

use std::collections::BTreeMap;

use super::Span;
use stackline_model::{EventId, EventKind, Trace};

type Done = Option<(i64, usize)>;

/// Cause of the start of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Release {
    Op { op: usize, at: i64 },
    Call { call: usize, at: i64 },
}

/// A GPU operation, ns.
pub(crate) struct Op {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) release: Release,
    name: String,
}

impl Op {
    pub(crate) fn category(&self) -> &'static str {
        if self.name.starts_with("nccl") {
            "gpu_communication"
        } else if self.name.starts_with("Mem") {
            "gpu_copy"
        } else {
            "gpu_compute"
        }
    }
}

#[derive(Default)]
pub(crate) struct Device {
    pub(crate) ops: Vec<Op>,
    /// Calls that waited, with the end and the operation that they waited for.
    pub(crate) waits: BTreeMap<usize, (i64, usize)>,
    last: BTreeMap<i64, Done>,
    waited: BTreeMap<i64, Done>,
    engines: BTreeMap<String, Done>,
    records: BTreeMap<i64, Done>,
    of_stream: BTreeMap<i64, Vec<usize>>,
}

/// A `cuda_sync` record by its own correlation.
struct Sync {
    kind: String,
    stream: i64,
    wait_stream: i64,
    record: i64,
}

fn later(a: Done, b: Done) -> Done {
    a.max(b)
}

impl Device {
    pub(crate) fn new(trace: &Trace, spans: &[Span], row_of: &BTreeMap<EventId, usize>, queue_limit: usize) -> Self {
        let syncs = syncs(trace);
        let stream_of: BTreeMap<i64, i64> = syncs.values().map(|s| (s.record, s.wait_stream)).collect();
        let mut launched: BTreeMap<usize, Vec<EventId>> = BTreeMap::new();
        for gpu in trace.gpu.ids() {
            let call = trace.gpu.launch[gpu.index()].some().unwrap();
            launched.entry(row_of[&call]).or_default().push(trace.gpu.event[gpu.index()]);
        }
        let mut calls: Vec<usize> =
            (0..spans.len()).filter(|&i| matches!(spans[i].kind, EventKind::Runtime | EventKind::Driver)).collect();
        calls.sort_by_key(|&i| spans[i].start);
        let mut device = Self::default();
        let mut queries: Vec<(usize, Done)> = Vec::new();
        for call in calls {
            let span = &spans[call];
            let sync = syncs.get(&span.correlation);
            if span.name == "cudaEventRecord" {
                if let Some(&stream) = stream_of.get(&span.correlation) {
                    device.records.insert(span.correlation, device.tail(stream));
                }
            } else if let Some(events) = launched.get_mut(&call) {
                events.sort_by_key(|&e| trace.events.start[e.index()]);
                device.launch(trace, (call, span), events, queue_limit);
            } else if span.name.ends_with("Query") {
                let target = sync.and_then(|s| device.records.get(&s.record).copied().flatten());
                queries.push((call, target));
            } else if let Some(done) = device.target(span, sync).filter(|done| done.0 > span.start) {
                device.waits.insert(call, done);
            }
        }
        device.polls(spans, &queries);
        device
    }

    fn tail(&self, stream: i64) -> Done {
        let get = |map: &BTreeMap<i64, Done>| map.get(&stream).copied().flatten();
        later(get(&self.last), get(&self.waited))
    }

    /// Target of a synchronizing call; also registers waits of streams.
    fn target(&mut self, span: &Span, sync: Option<&Sync>) -> Done {
        let all = |device: &Self| device.last.keys().map(|&s| device.tail(s)).max().flatten();
        if span.name == "cudaFree" {
            return all(self);
        }
        let sync = sync?;
        let record = self.records.get(&sync.record).copied().flatten();
        match sync.kind.as_str() {
            "Context Sync" => all(self),
            "Stream Sync" => self.tail(sync.stream),
            "Event Sync" => record,
            _ => {
                let slot = self.waited.entry(sync.stream).or_default();
                *slot = later(*slot, record);
                None
            }
        }
    }

    fn launch(&mut self, trace: &Trace, (call, span): (usize, &Span), events: &[EventId], limit: usize) {
        let first = trace.gpu.stream[trace.gpu.of_event(events[0]).unwrap().index()];
        let queued = self.of_stream.entry(first).or_default();
        let oldest = queued.len().checked_sub(limit).map(|i| queued[i]);
        let from = self.ops.len();
        for &event in events {
            let stream = trace.gpu.stream[trace.gpu.of_event(event).unwrap().index()];
            let (start, end, name) =
                (trace.events.start[event.index()], trace.events.end(event), trace.name(event).to_owned());
            let engine = name.strip_prefix("Memcpy ").map(|rest| rest[..4].to_owned());
            let copy = engine.as_ref().and_then(|e| self.engines.get(e).copied().flatten());
            let level = self.ops[from..].iter().enumerate().filter(|(_, o)| o.end <= start);
            let level = level.map(|(i, o)| (o.end, from + i)).max();
            let last = [self.tail(stream), copy, level].into_iter().max().flatten();
            let waits_itself = span.end >= end;
            let busy = last.is_some_and(|(at, _)| at > span.start);
            let launched = if waits_itself && busy { span.start } else { span.end.min(start) };
            let release = match last {
                Some((at, op)) if at.min(start) > launched => Release::Op { op, at: at.min(start) },
                _ => Release::Call { call, at: launched },
            };
            let op = self.ops.len();
            if waits_itself {
                self.waits.insert(call, (end, op));
            }
            self.last.insert(stream, Some((end, op)));
            self.waited.remove(&stream);
            self.of_stream.entry(stream).or_default().push(op);
            if let Some(engine) = engine {
                self.engines.insert(engine, Some((end, op)));
            }
            self.ops.push(Op { start, end, release, name });
        }
        if let Some(op) = oldest.filter(|&op| self.ops[op].end > span.start && !self.waits.contains_key(&call)) {
            self.waits.insert(call, (self.ops[op].end, op));
        }
    }

    /// Sequences of queries without other spans in between: the last one succeeded.
    fn polls(&mut self, spans: &[Span], queries: &[(usize, Done)]) {
        let together = |a: &(usize, Done), b: &(usize, Done)| {
            let (x, y) = (&spans[a.0], &spans[b.0]);
            let between = spans.iter().any(|s| s.thread == x.thread && s.start >= x.end && s.end <= y.start);
            x.thread == y.thread && x.parent == y.parent && x.name == y.name && !between
        };
        for run in queries.chunk_by(together).filter(|run| run.len() > 1) {
            let (last, target) = run[run.len() - 1];
            let before = spans[run[run.len() - 2].0].start;
            let ended = || {
                let inside = self.ops.iter().enumerate().filter(|(_, o)| o.end > before && o.end <= spans[last].start);
                inside.map(|(i, o)| (o.end, i)).max()
            };
            if let Some(done) = target.or_else(ended) {
                self.waits.insert(last, done);
            }
        }
    }
}

fn syncs(trace: &Trace) -> BTreeMap<i64, Sync> {
    let column = |name: &str| trace.attr(name);
    let (correlation, stream) = (column("correlation"), column("stream"));
    let (wait_stream, record) = (column("wait_on_stream"), column("wait_on_cuda_event_record_corr_id"));
    let records = trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Sync);
    let sync = |e| Sync {
        kind: trace.name(e).to_owned(),
        stream: stream.i64(e).unwrap_or(-1),
        wait_stream: wait_stream.i64(e).unwrap_or(-1),
        record: record.i64(e).unwrap_or(-1),
    };
    records.map(|e| (correlation.i64(e).unwrap_or(-1), sync(e))).collect()
}
