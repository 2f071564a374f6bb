//! Opens traces and maps each as it comes: of many inputs no more are in memory at once than threads work.

use crate::cycles::{self, Cycle, older};
use crate::open::{FileGroup, file_groups, open_group};
use crate::run_analyses::parallel;
use crate::{Error, OpenOptions, RunOptions, ranks};
use stackline_ingest::diagnostics;
use stackline_model::{Trace, TraceSet};
use stackline_store::thread_count;
use std::path::PathBuf;

/// So few inputs are opened together: the reader spreads the parts of large files over the threads.
const FEW: usize = 8;

/// Traces without their events, and what was made of each.
#[derive(Debug)]
pub struct Mapped<T> {
    /// What is known of the traces as a whole, with their steps and read reports.
    pub set: TraceSet,
    /// What was made of them, in their order.
    pub results: Vec<T>,
}

/// Maps many inputs, each as it is read. `None` of few inputs, and where nothing can be listed or read: opening them says why.
pub(crate) fn map_many<T: Send, E: Send + From<Error>>(
    inputs: &[PathBuf],
    (options, run): (&OpenOptions, &RunOptions),
    map: &(dyn Fn(&Trace, &RunOptions) -> Result<T, E> + Sync),
) -> Result<Option<Mapped<T>>, E> {
    let groups = file_groups(inputs).unwrap_or_default();
    if groups.len() > FEW { of_many(&groups, (options, run), map) } else { Ok(None) }
}

/// Calls `map` with each trace of a set, and with the options of an analysis of it alone.
///
/// # Errors
/// What `map` fails with.
pub fn map<T: Send, E: Send>(
    set: &TraceSet,
    options: &RunOptions,
    map: &(dyn Fn(&Trace, &RunOptions) -> Result<T, E> + Sync),
) -> Result<Vec<T>, E> {
    let threads = thread_count(options.threads);
    let alone = RunOptions { threads: (threads / set.traces.len().max(1)).max(1), ..options.clone() };
    parallel(set.traces.len(), threads, |at| map(&set.traces[at], &alone)).into_iter().collect()
}

/// Maps a set, and drops the events of its traces.
pub(crate) fn map_few<T: Send, E: Send + From<Error>>(
    set: TraceSet,
    options: &RunOptions,
    to: &(dyn Fn(&Trace, &RunOptions) -> Result<T, E> + Sync),
) -> Result<Mapped<T>, E> {
    let results = map(&set, options, to)?;
    Ok(Mapped { set: TraceSet { traces: set.traces.into_iter().map(without_events).collect() }, results })
}

/// None if nothing was a trace.
fn of_many<T: Send, E: Send + From<Error>>(
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
    let (stays, older) = older(&keys);
    let (mut set, mut results) = (TraceSet::default(), Vec::new());
    for (at, (mut trace, result)) in all.into_iter().enumerate().filter(|(at, _)| stays[*at]) {
        if let Some(names) = older.get(&at) {
            cycles::note(&mut trace.report, names);
        }
        set.traces.push(trace);
        results.push(result);
    }
    let Some(first) = set.traces.first_mut() else { return Ok(None) };
    skipped.iter().for_each(|error: &String| diagnostics::note_skipped_input(&mut first.report, error));
    ranks::note_positions(&mut set);
    Ok(Some(Mapped { set, results }))
}

fn without_events(trace: Trace) -> Trace {
    let mut described = Trace::default();
    (described.meta, described.steps, described.report) = (trace.meta, trace.steps, trace.report);
    described
}
