//! Conversion of recordings in `trace` mode into memory traces: one per process, for the memory of its CPU tensors.
//!
//! Allocations and frees were recorded. Reads and writes of an operator are inferred from its inputs, its name, and the
//! memory that was allocated in it and outlived it ([`stackline_model::AccessEvidence::OperatorLevel`]). Accesses
//! outside of operators, by `NumPy` for example, are not recorded.

mod allocation_replay;
mod object_kinds;
mod operator_effects;
mod operators;
mod paths;
mod tensor_names;
mod tensor_types;

use super::calls::Calls;
use super::{TraceMatch, has_ranks, in_flight, label, run_name};
use crate::recording::ends::Ends;
use crate::recording::missing_records::sentence;
use crate::recording::streams;
use crate::{Error, ReadOptions, diagnostics};
use stackline_model::{MemoryTrace, ReadReport};
use stackline_recording::Process;
use std::collections::BTreeSet;
use std::path::Path;

/// Memory traces of a recording, one per process, sorted by the start of the process. Empty if the recording has no
/// single allocations (`record --mode trace --memory`). Each has the name of the trace that shows its process, followed
/// by the PID if several share it: `job.stackline:rank1:4711`.
///
/// # Errors
/// If there are no streams, or one cannot be read.
pub fn read_memory(run: &Path, options: &ReadOptions) -> Result<Vec<MemoryTrace>, Error> {
    let paths = streams(run)?;
    if paths.is_empty() {
        return Err(Error::NoStreams { path: run.to_owned() });
    }
    let mut read = MemoryOfStreams::default();
    for path in paths {
        if options.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let file = std::fs::read(&path).map_err(|source| Error::Io { path: path.clone(), source })?;
        let stream = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut report = ReadReport::default();
        if let Some(mut calls) = Calls::decode(&stream, &file, &mut report) {
            read.add(&mut calls, &stream, report);
        }
    }
    Ok(read.into_traces(&run_name(run)).unwrap_or_default())
}

/// Memory traces of a recording's streams, which are decoded one after another.
#[derive(Default)]
pub(super) struct MemoryOfStreams {
    /// True if a stream cannot be read, so that its memory is missing.
    pub(super) lacks_stream: bool,
    /// All decoded processes, with or without memory: the names of traces depend on them.
    shown: Vec<TraceMatch>,
    found: Vec<(Process, MemoryTrace)>,
}

impl MemoryOfStreams {
    /// Add a decoded stream with the read report of its decoding.
    pub(super) fn add(&mut self, calls: &mut Calls, stream: &str, report: ReadReport) {
        self.shown.push(TraceMatch::new(calls));
        let trace = memory_of_calls(calls, stream, report);
        self.found.extend(trace.map(|trace| (calls.process.clone(), trace)));
    }

    /// Memory traces with their names, sorted by the start of the process; `None` if a stream is missing.
    pub(super) fn into_traces(mut self, name: &str) -> Option<Vec<MemoryTrace>> {
        self.found.sort_by_key(|(process, _)| (process.start_unix_ns, process.pid));
        (!self.lacks_stream).then(|| with_labels(name, &self.shown, self.found))
    }
}

/// Label memory traces with the names of the traces that show their processes.
fn with_labels(name: &str, shown: &[TraceMatch], found: Vec<(Process, MemoryTrace)>) -> Vec<MemoryTrace> {
    let has_ranks = has_ranks(shown.iter().copied());
    let ranks: BTreeSet<_> = shown.iter().filter(|one| one.has_trace(has_ranks)).map(|one| one.rank).collect();
    let labels: Vec<String> = found.iter().map(|(process, _)| label(name, process.rank, ranks.len() > 1)).collect();
    let is_shared = |label: &String| labels.iter().filter(|other| *other == label).count() > 1;
    let named = found.into_iter().zip(&labels).map(|((process, mut trace), label)| {
        trace.label = if is_shared(label) { format!("{label}:{}", process.pid) } else { label.clone() };
        trace
    });
    named.collect()
}

/// Check if the trace of this name shows the process of a memory trace.
pub fn is_shown_by(memory: &MemoryTrace, name: &str) -> bool {
    let rest = memory.label.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(':').is_some_and(|pid| pid.parse::<u32>().is_ok()))
}

/// Memory trace of a stream in memory, with a name for the read report; `None` if the stream has no single allocations.
pub fn memory_of(name: &str, stream: &[u8]) -> Option<MemoryTrace> {
    let mut report = ReadReport::default();
    let mut calls = Calls::decode(name, stream, &mut report)?;
    memory_of_calls(&mut calls, name, report)
}

/// Memory trace of a decoded stream; `None` if the stream has no single allocations. The launcher's notes on ended
/// processes are not used.
fn memory_of_calls(calls: &mut Calls, name: &str, mut report: ReadReport) -> Option<MemoryTrace> {
    if calls.threads.iter().all(|thread| thread.touches.is_empty()) {
        return None;
    }
    in_flight::note_end(calls, name, &mut report, &Ends::default());
    let mut trace = allocation_replay::replay(calls);
    trace.report.merge(report);
    if !trace.has_accesses && !calls.windows.is_empty() {
        diagnostics::MEMORY_WINDOW.count(&mut trace.report, None, name);
    }
    let is_ours = |what: &str| ["touches_", "inputs_", "names_"].iter().any(|prefix| what.starts_with(prefix));
    for (what, count) in calls.lost.iter().filter(|(what, _)| is_ours(what)) {
        diagnostics::NOT_RECORDED.count_many(&mut trace.report, *count, None, &format!("{name}: {}", sentence(what)));
    }
    Some(trace)
}
