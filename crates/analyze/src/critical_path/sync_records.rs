//! Records of synchronisation (`cuda_sync`): what a call waits for, by stream and event.

use crate::hta_view::number;
use rustc_hash::FxHashMap;
use stackline_model::{AttrColumn, EventId, EventKind, Trace};

/// A record that is so far from a call, in ns, is not about it, even if clocks disagree.
const FAR_NS: i64 = 20_000_000;

/// What a record says. Numbers are -1 where it does not say.
#[derive(Clone, Copy, Debug)]
pub(super) struct SyncRecord {
    pub(super) event: EventId,
    pub(super) device: i32,
    /// The stream that it is on: of a stream synchronisation the one waited for, of a stream wait the one that waits.
    pub(super) stream: i64,
    /// The stream of the event record that is waited for.
    pub(super) on_stream: i64,
    /// Correlation of the event record that is waited for.
    pub(super) event_record: i64,
}

/// All records of a trace.
pub(super) struct SyncRecords<'a> {
    trace: &'a Trace,
    correlation: AttrColumn<'a>,
    by_correlation: FxHashMap<i64, Vec<SyncRecord>>,
}

impl<'a> SyncRecords<'a> {
    pub(super) fn read(trace: &'a Trace) -> Self {
        let correlation = trace.attr("correlation");
        let columns = ["device", "stream", "wait_on_stream", "wait_on_cuda_event_record_corr_id"];
        let [device, stream, on_stream, event_record] = &columns.map(|key| trace.attr(key));
        let mut by_correlation: FxHashMap<i64, Vec<SyncRecord>> = FxHashMap::default();
        for event in trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Sync) {
            let value = |column: &AttrColumn<'_>| number(column, event, trace);
            let record = SyncRecord {
                event,
                device: i32::try_from(value(device)).unwrap_or(-1),
                stream: value(stream),
                on_stream: value(on_stream),
                event_record: value(event_record),
            };
            by_correlation.entry(value(&correlation)).or_default().push(record);
        }
        // Records without correlation belong to no call.
        by_correlation.remove(&-1);
        Self { trace, correlation, by_correlation }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.by_correlation.is_empty()
    }

    /// Whether one says for what a stream waits.
    pub(super) fn has_stream_waits(&self) -> bool {
        self.by_correlation.values().flatten().any(|r| self.trace.name(r.event).contains("Stream Wait"))
    }

    /// Correlation id of a call.
    pub(super) fn id(&self, call: EventId) -> i64 {
        number(&self.correlation, call, self.trace)
    }

    /// The record of a call: of those with its correlation id the one nearest in time. Correlation ids are used again by
    /// other processes, and ranks may share a file: a record far from the call is another one's.
    pub(super) fn of_call(&self, call: EventId) -> Option<SyncRecord> {
        if self.is_empty() {
            return None;
        }
        let events = &self.trace.events;
        let (from, to) = (events.start[call.index()], events.end(call));
        let apart = |r: &&SyncRecord| events.start[r.event.index()].abs_diff(from);
        let is_near = |r: &&SyncRecord| {
            let (begins, ends) = (events.start[r.event.index()], events.end(r.event));
            begins <= to + FAR_NS && ends + FAR_NS >= from
        };
        self.by_correlation.get(&self.id(call))?.iter().filter(is_near).min_by_key(apart).copied()
    }
}
