//! Peculiarities of XProf's Chrome traces: `jax.profiler`, TensorFlow 2, PyTorch/XLA.
//!
//! No record has a category. Rows of devices are told by their names (`device_rows.rs`). Calls of the GPU's driver are spans of host
//! threads among others; calls and operations that belong together have the same `correlation_id`, a number as text. Frames of Python
//! begin with a dollar sign: `$train.py:12 step`. The list of events ends with an empty record.

use super::builder::Builder;
use super::record::RawEvent;
use crate::problems;
use rustc_hash::FxHashSet;
use stackline_model::{EventId, EventKind, Trace, TrackKind, flags};
use std::cmp::Reverse;

/// The argument that a call shares with what it launched.
pub(crate) const CORRELATION: &str = "correlation_id";

/// The argument of `jax.profiler.StepTraceAnnotation` and of TensorFlow's `Trace`.
pub(crate) const STEP_NUMBER: &str = "step_num";

/// Rows of CUPTI's records of its own work, by thread.
const OVERHEAD_ROWS: &str = "Host Threads/";
/// What it did.
const OVERHEADS: &[&str] = &["<UNKNOWN>", "BUFFER_FLUSH", "DRIVER_COMPILER", "INSTRUMENTATION", "RESOURCE"];
/// A call of a function that JAX compiled; the name of the function follows.
const COMPILED: &str = "PjitFunction(";

/// Gives spans of host threads their kinds: calls of the GPU's driver, frames of Python, steps, calls of compiled functions, and what the
/// profiler did. All else of XLA and its runtime stays as it is.
pub(super) fn find_kinds(trace: &mut Trace) {
    if !is_xprof(trace) {
        return;
    }
    let columns = [CORRELATION, STEP_NUMBER].map(|key| trace.attr(key));
    let is_plain = |&e: &EventId| {
        trace.kind(e) == EventKind::Other
            && trace.tracks.get(trace.events.track[e.index()]).kind == TrackKind::Thread
            && trace.events.has(e, flags::HAS_DURATION)
    };
    let kind = |e: EventId| match columns.each_ref().map(|column| column.get(e).is_some()) {
        [true, _] => Some(call(trace.name(e))),
        [_, true] => Some(EventKind::Annotation),
        _ => kind_by_name(trace, e),
    };
    let kinds: Vec<_> = trace.events.ids().filter(is_plain).filter_map(|e| Some((e, kind(e)?))).collect();
    let repeated = repeated_calls(trace, &kinds);
    for (event, kind) in kinds.into_iter().filter(|(event, _)| !repeated.contains(event)) {
        trace.events.kind[event.index()] = kind;
    }
}

/// Which interface a call is of: XProf names calls that launch kernels like these.
fn call(name: &str) -> EventKind {
    let is_runtime = name.starts_with("cuda") || name.starts_with("hip");
    if is_runtime { EventKind::Runtime } else { EventKind::Driver }
}

fn kind_by_name(trace: &Trace, event: EventId) -> Option<EventKind> {
    let name = trace.name(event);
    let row = || trace.tracks.get(trace.events.track[event.index()]).name;
    let is_call = || {
        let rest = ["cuda", "cu", "hip"].iter().find_map(|prefix| name.strip_prefix(prefix));
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    match () {
        () if name.starts_with('$') => Some(EventKind::PythonFunction),
        () if name.starts_with(COMPILED) => Some(EventKind::Operator),
        () if is_call() => Some(call(name)),
        () if OVERHEADS.contains(&name) && trace.strings.get(row()).starts_with(OVERHEAD_ROWS) => {
            Some(EventKind::Overhead)
        }
        () => None,
    }
}

/// Calls of compiled functions are recorded twice, once around the other: the inner ones.
fn repeated_calls(trace: &Trace, kinds: &[(EventId, EventKind)]) -> FxHashSet<EventId> {
    let calls = kinds.iter().filter(|(_, kind)| *kind == EventKind::Operator).map(|&(event, _)| event);
    let row =
        |e: EventId| (trace.events.track[e.index()], trace.events.start[e.index()], Reverse(trace.events.end(e)), e);
    let mut calls: Vec<EventId> = calls.collect();
    calls.sort_unstable_by_key(|&e| row(e));
    let is_inner = |outer: EventId, e: EventId| {
        let at = |e: EventId| (trace.events.track[e.index()], trace.events.name[e.index()]);
        at(outer) == at(e) && trace.events.end(e) <= trace.events.end(outer)
    };
    let mut found = FxHashSet::default();
    let mut outer = EventId::NONE;
    for call in calls {
        if outer.is_some() && is_inner(outer, call) {
            found.insert(call);
        } else {
            outer = call;
        }
    }
    found
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
