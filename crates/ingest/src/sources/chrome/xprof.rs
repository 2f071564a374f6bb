//! Peculiarities of XProf's Chrome traces: `jax.profiler`, TensorFlow 2, PyTorch/XLA.
//!
//! No record has a category. Rows of devices are told by their names (`device_rows.rs`). Calls of the GPU's driver are spans of host
//! threads among others; calls and operations that belong together have the same `correlation_id`, a number as text. The list of events
//! ends with an empty record.

use super::builder::Builder;
use super::record::RawEvent;
use crate::problems;
use stackline_model::{EventId, EventKind, Trace, TrackKind};

/// The argument that a call shares with what it launched.
pub(crate) const CORRELATION: &str = "correlation_id";

/// Tells calls of the GPU's runtime and driver among the spans of host threads.
pub(super) fn find_calls(trace: &mut Trace) {
    if !is_xprof(trace) {
        return;
    }
    let column = trace.attr(CORRELATION);
    let is_plain = |&e: &EventId| {
        trace.kind(e) == EventKind::Other
            && trace.tracks.get(trace.events.track[e.index()]).kind == TrackKind::Thread
            && column.get(e).is_some()
    };
    let kind = |e: EventId| match trace.name(e) {
        name if name.starts_with("cuda") || name.starts_with("hip") => EventKind::Runtime,
        _ => EventKind::Driver,
    };
    let calls: Vec<_> = trace.events.ids().filter(is_plain).map(|e| (e, kind(e))).collect();
    for (event, kind) in calls {
        trace.events.kind[event.index()] = kind;
    }
}

/// Whether the names of processes are those of XProf's planes.
fn is_xprof(trace: &Trace) -> bool {
    let names = trace.tracks.processes.iter().filter_map(|process| process.name.some());
    names.map(|name| trace.strings.get(name)).any(|name| name.starts_with("/host:") || name.starts_with("/device:"))
}

impl Builder {
    /// Remembers a record without any member, which is one too many only if another one follows. Whether this record is one.
    pub(super) fn is_empty_record(&mut self, offset: u64) -> bool {
        if let Some(before) = self.empty_record.take() {
            problems::UNKNOWN_RECORD.count(&mut self.trace.report, Some(before), "");
        }
        let is_empty = self.raw.is_empty();
        self.empty_record = is_empty.then_some(offset);
        is_empty
    }
}

impl RawEvent {
    /// Whether a record has no member at all.
    fn is_empty(&self) -> bool {
        let Self { phase, name, category, pid, tid, ts, dur, id, stack, fields, .. } = self;
        let has_text = *phase != 0 || name.is_some() || category.is_some();
        let has_key = [pid, tid, id, stack].iter().any(|key| **key != stackline_model::Key::None);
        let has_time = [ts, dur].iter().any(|time| **time != super::record::Time::Missing);
        !(has_text || has_key || has_time) && fields.is_empty()
    }
}
