//! Map over traces while they are read: at most one input per thread is in memory.

use crate::cycles::{self, Cycle, split_off_older};
use crate::open::{FileGroup, file_groups, open_group};
use crate::run_analyses::parallel;
use crate::{Error, OpenOptions, RunOptions, ranks};
use stackline_ingest::diagnostics;
use stackline_model::{Trace, TraceSet};
use stackline_store::thread_count;
use std::path::PathBuf;

/// Number of inputs up to which all are opened together, because the reader distributes parts of large files over
/// threads.
const FEW: usize = 8;

/// Result of a map over traces: one value per trace, and the traces without their events.
#[derive(Debug)]
pub struct Mapped<T> {
    /// Metadata, steps and read reports of the traces.
    pub set: TraceSet,
    /// Results in the order of the traces.
    pub results: Vec<T>,
}

/// Apply `map` to the traces of many inputs while reading them. `None` for few inputs, or if no input can be listed or
/// read (opening the inputs then gives the error).
pub(crate) fn map_many<T: Send, E: Send + From<Error>>(
    inputs: &[PathBuf],
    (options, run): (&OpenOptions, &RunOptions),
    map: &(dyn Fn(&Trace, &RunOptions) -> Result<T, E> + Sync),
) -> Result<Option<Mapped<T>>, E> {
    let groups = file_groups(inputs).unwrap_or_default();
    if groups.len() > FEW { map_inputs(&groups, (options, run), map) } else { Ok(None) }
}

/// Call `map` with each trace of a set in parallel, each with its part of the threads; results are in the order of the
/// traces.
///
/// # Errors
/// Errors of `map`.
pub fn map<T: Send, E: Send>(
    set: &TraceSet,
    options: &RunOptions,
    map: &(dyn Fn(&Trace, &RunOptions) -> Result<T, E> + Sync),
) -> Result<Vec<T>, E> {
    let threads = thread_count(options.threads);
    let alone = RunOptions { threads: (threads / set.traces.len().max(1)).max(1), ..options.clone() };
    parallel(set.traces.len(), threads, |at| map(&set.traces[at], &alone)).into_iter().collect()
}

/// Apply a function to each trace of a set that is in memory, then drop the events of the traces.
pub(crate) fn map_few<T: Send, E: Send + From<Error>>(
    set: TraceSet,
    options: &RunOptions,
    to: &(dyn Fn(&Trace, &RunOptions) -> Result<T, E> + Sync),
) -> Result<Mapped<T>, E> {
    let results = map(&set, options, to)?;
    Ok(Mapped { set: TraceSet { traces: set.traces.into_iter().map(without_events).collect() }, results })
}

/// Apply `map` to the traces of each file group while they are read, in parallel. `None` if no group had a trace.
fn map_inputs<T: Send, E: Send + From<Error>>(
    groups: &[FileGroup],
    (options, run): (&OpenOptions, &RunOptions),
    map: &(dyn Fn(&Trace, &RunOptions) -> Result<T, E> + Sync),
) -> Result<Option<Mapped<T>>, E> {
    let alone = (OpenOptions { threads: 1, ..options.clone() }, RunOptions { threads: 1, ..run.clone() });
    let mapped = parallel(groups.len(), thread_count(options.threads), |at| -> Result<_, E> {
        if options.watch.is_cancelled() {
            return Err(Error::Cancelled.into());
        }
        let mut skipped = Vec::new();
        let mut mapped = Vec::new();
        for trace in open_group(&groups[at], &alone.0, &mut skipped).map_err(|error| error.of_one_of(groups.len()))? {
            let result = map(&trace, &alone.1)?;
            let cycle = if groups[at].is_optional { Cycle::from_trace(&trace) } else { None };
            mapped.push((without_events(trace), result, cycle));
        }
        Ok((mapped, skipped))
    });
    let (mut all, mut keys, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for of_group in mapped {
        let (mapped, not_read) = of_group?;
        skipped.extend(not_read);
        for (trace, result, cycle) in mapped {
            all.push((trace, result));
            keys.push(cycle);
        }
    }
    let (stays, older) = split_off_older(&keys);
    let (mut set, mut results) = (TraceSet::default(), Vec::new());
    for (at, (mut trace, result)) in all.into_iter().enumerate().filter(|(at, _)| stays[*at]) {
        if let Some(older) = older.get(&at) {
            cycles::note(&mut trace.report, older);
        }
        set.traces.push(trace);
        results.push(result);
    }
    let Some(first) = set.traces.first_mut() else { return Ok(None) };
    skipped.iter().for_each(|error: &String| diagnostics::note_skipped_input(&mut first.report, error));
    ranks::note_positions(&mut set);
    Ok(Some(Mapped { set, results }))
}

/// Copy of a trace with only its metadata, steps and read report.
fn without_events(trace: Trace) -> Trace {
    let mut described = Trace::default();
    (described.meta, described.steps, described.report) = (trace.meta, trace.steps, trace.report);
    described
}
