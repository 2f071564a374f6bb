//! Synchronization records (`cuda_sync`): the stream or CUDA event that each wait refers to.

use rustc_hash::FxHashMap;
use stackline_model::{AttrColumn, EventId, EventKind, Trace};
use stackline_timeline::hta_view::number;

/// Maximum distance in ns between a record and its call, even with clocks that disagree.
const MAX_DISTANCE_NS: i64 = 20_000_000;

/// Content of a synchronization record. Missing numbers are -1.
#[derive(Clone, Copy, Debug)]
pub(super) struct SyncRecord {
    pub(super) event: EventId,
    pub(super) device: i32,
    /// Stream of the record: the awaited stream of a stream synchronization, or the waiting stream of a stream wait.
    pub(super) stream: i64,
    /// Stream of the awaited event record.
    pub(super) on_stream: i64,
    /// Correlation ID of the awaited event record.
    pub(super) event_record: i64,
}

impl SyncRecord {
    /// True if the record contains the correlation ID of the call that recorded the awaited CUDA event.
    pub(super) fn has_event_record(&self) -> bool {
        self.event_record > 0
    }
}

/// All synchronization records of a trace.
pub(super) struct SyncRecords<'a> {
    trace: &'a Trace,
    correlation: AttrColumn<'a>,
    by_correlation: FxHashMap<i64, Vec<SyncRecord>>,
    /// True if a record of a stream wait states the call that recorded the awaited event. Exports of Nsight Systems
    /// without the table of recorded events have waits, but none of their targets.
    pub(super) has_stream_wait_targets: bool,
}

impl<'a> SyncRecords<'a> {
    /// Read the synchronization records of a trace, by correlation ID.
    pub(super) fn read(trace: &'a Trace) -> Self {
        let correlation = trace.attr("correlation");
        let columns = ["device", "stream", "wait_on_stream", "wait_on_cuda_event_record_corr_id"];
        let [device, stream, on_stream, event_record] = &columns.map(|key| trace.attr(key));
        let mut by_correlation: FxHashMap<i64, Vec<SyncRecord>> = FxHashMap::default();
        let mut has_stream_wait_targets = false;
        for event in trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Sync) {
            let value = |column: &AttrColumn<'_>| number(column, event, trace);
            let record = SyncRecord {
                event,
                device: i32::try_from(value(device)).unwrap_or(-1),
                stream: value(stream),
                on_stream: value(on_stream),
                event_record: value(event_record),
            };
            let id = value(&correlation);
            // Records without correlation ID belong to no call.
            if id != -1 {
                has_stream_wait_targets |= record.has_event_record() && trace.name(event).contains("Stream Wait");
                by_correlation.entry(id).or_default().push(record);
            }
        }
        Self { trace, correlation, by_correlation, has_stream_wait_targets }
    }

    /// True if the trace has no synchronization records.
    pub(super) fn is_empty(&self) -> bool {
        self.by_correlation.is_empty()
    }

    /// Correlation ID of an API call; -1 without one.
    pub(super) fn id(&self, call: EventId) -> i64 {
        number(&self.correlation, call, self.trace)
    }

    /// Record of a call: the nearest in time of those with the same correlation ID. Other processes reuse correlation
    /// IDs, and ranks may share a file, so a record far from the call belongs to another call, and `accepts` can reject
    /// records of other processes.
    pub(super) fn record_of_call(&self, call: EventId, accepts: impl Fn(&SyncRecord) -> bool) -> Option<SyncRecord> {
        if self.is_empty() {
            return None;
        }
        let events = &self.trace.events;
        let (from, to) = (events.start[call.index()], events.end(call));
        let apart = |r: &&SyncRecord| events.start[r.event.index()].abs_diff(from);
        let is_near = |r: &&SyncRecord| {
            let (begins, ends) = (events.start[r.event.index()], events.end(r.event));
            begins <= to + MAX_DISTANCE_NS && ends + MAX_DISTANCE_NS >= from
        };
        self.by_correlation.get(&self.id(call))?.iter().filter(|r| is_near(r) && accepts(r)).min_by_key(apart).copied()
    }
}
