//! Interpretation of names and arguments in XProf profiles of any format: `jax.profiler`, TensorFlow 2, PyTorch/XLA.
//!
//! XProf writes no categories. Device rows are recognized by their names (`device_rows.rs`). GPU driver calls are spans
//! of host threads among others, and calls share their `correlation_id` with their operations. Python frames begin with
//! a dollar sign: `$train.py:12 step`.

mod details;

use rustc_hash::FxHashSet;
use stackline_model::{EventId, EventKind, Trace, TrackId, TrackKind, flags};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Argument that a call shares with its launched operations.
pub(crate) const CORRELATION: &str = "correlation_id";

/// Argument of `jax.profiler.StepTraceAnnotation` and of TensorFlow's `Trace`.
pub(crate) const STEP_NUMBER: &str = "step_num";

/// Argument of an event that runs an XLA operator: the operator's name in its module.
pub(crate) const HLO_OPERATOR: &str = "hlo_op";

/// Rows of CUPTI's records of its own work, by thread.
const OVERHEAD_ROWS: &str = "Host Threads/";
/// Names of CUPTI's own work.
const OVERHEADS: &[&str] = &["<UNKNOWN>", "BUFFER_FLUSH", "DRIVER_COMPILER", "INSTRUMENTATION", "RESOURCE"];
/// Prefix of a call of a JAX-compiled function, followed by the function's name.
const COMPILED: &str = "PjitFunction(";

/// Set the kinds of host spans in an XProf profile, and convert sizes in texts into arguments; other traces stay
/// unchanged.
pub(super) fn interpret(trace: &mut Trace) {
    if is_xprof(trace) {
        find_kinds(trace);
        mark_profiler(trace);
        details::add_arguments(trace);
    }
}

/// Detect GPU driver calls, Python frames, steps, calls of compiled functions, XLA operators that run on the host, and
/// profiler activity. All other spans of XLA and its runtime are left unchanged.
fn find_kinds(trace: &mut Trace) {
    let columns = [CORRELATION, STEP_NUMBER, HLO_OPERATOR].map(|key| trace.attr(key));
    let is_plain = |&e: &EventId| {
        trace.kind(e) == EventKind::Other
            && trace.tracks.get(trace.events.track[e.index()]).kind == TrackKind::Thread
            && trace.events.has(e, flags::HAS_DURATION)
    };
    let kind = |e: EventId| match columns.each_ref().map(|column| column.get(e).is_some()) {
        [true, ..] => Some(call_kind(trace.name(e))),
        [_, true, _] => Some(EventKind::Annotation),
        [.., true] => Some(EventKind::Operator),
        _ => kind_by_name(trace, e),
    };
    let kinds: Vec<_> = trace.events.ids().filter(is_plain).filter_map(|e| Some((e, kind(e)?))).collect();
    let repeated = repeated_calls(trace, &kinds);
    for (event, kind) in kinds.into_iter().filter(|(event, _)| !repeated.contains(event)) {
        trace.events.set_kind(event, kind);
    }
}

/// Python frames of the JAX functions that start and stop a profile.
const PROFILER_FILE: &str = "$profiler.py:";
const PROFILER_FUNCTIONS: [&str; 2] = [" start_trace", " stop_trace"];
/// A frame with more time than this outside of them, in ns, belongs to the program.
const MAX_EXCESS_NS: i64 = 100_000;

/// Mark the start and stop of the profile, with their callees and with frames that only call them, as profiler
/// activity. They can last a hundred times as long as all other events.
fn mark_profiler(trace: &mut Trace) {
    let events = &trace.events;
    let is_timed = |e: &EventId| events.is_timed(*e);
    let is_python = |e: &EventId| trace.kind(*e) == EventKind::PythonFunction && is_timed(e);
    let is_own = |name: &str| name.starts_with(PROFILER_FILE) && PROFILER_FUNCTIONS.iter().any(|f| name.ends_with(f));
    let mut found: BTreeMap<TrackId, Vec<(i64, i64)>> = BTreeMap::new();
    for event in events.ids().filter(|e| is_python(e) && is_own(trace.name(*e))) {
        let spans = found.entry(events.track[event.index()]).or_default();
        spans.push((events.start[event.index()], events.end(event)));
    }
    for spans in found.values_mut() {
        spans.sort_unstable();
        // Keep the outer ones of nested spans.
        spans.dedup_by(|inner, outer| inner.1 <= outer.1);
    }
    let is_marked = |&e: &EventId| {
        let Some(spans) = found.get(&events.track[e.index()]) else { return false };
        let (start, end) = (events.start[e.index()], events.end(e));
        let is_within = |&(from, to): &(i64, i64)| from <= start && end <= to;
        let at = spans.partition_point(|&(from, _)| from <= start);
        if at.checked_sub(1).is_some_and(|before| is_within(&spans[before])) {
            return true;
        }
        let first = spans.partition_point(|&(from, _)| from < start);
        let calls = |&(from, to): &(i64, i64)| to <= end && (from - start).saturating_add(end - to) <= MAX_EXCESS_NS;
        is_python(&e) && spans.get(first).is_some_and(calls)
    };
    let marked: Vec<EventId> =
        if found.is_empty() { Vec::new() } else { events.ids().filter(|e| is_timed(e) && is_marked(e)).collect() };
    for event in marked {
        trace.events.set_kind(event, EventKind::Recording);
    }
}

/// Event kind of a GPU API call by its name: runtime for `cuda…` and `hip…`, else driver.
fn call_kind(name: &str) -> EventKind {
    let is_runtime = name.starts_with("cuda") || name.starts_with("hip");
    if is_runtime { EventKind::Runtime } else { EventKind::Driver }
}

/// Event kind of a host span by its name: Python frame, compiled call, GPU API call or CUPTI overhead; `None` for
/// others.
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
        () if is_call() => Some(call_kind(name)),
        () if OVERHEADS.contains(&name) && trace.strings.get(row()).starts_with(OVERHEAD_ROWS) => {
            Some(EventKind::Overhead)
        }
        () => None,
    }
}

/// Duplicates of compiled-function calls: XProf records such a call twice, and the inner one of the two is returned.
fn repeated_calls(trace: &Trace, kinds: &[(EventId, EventKind)]) -> FxHashSet<EventId> {
    let is_call = |&&(event, _): &&(EventId, EventKind)| trace.name(event).starts_with(COMPILED);
    let calls = kinds.iter().filter(is_call).map(|&(event, _)| event);
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

/// Check if any process has the name of an XProf plane (`/host:…` or `/device:…`).
fn is_xprof(trace: &Trace) -> bool {
    let names = trace.tracks.processes.iter().filter_map(|process| process.name.some());
    names.map(|name| trace.strings.get(name)).any(|name| name.starts_with("/host:") || name.starts_with("/device:"))
}
