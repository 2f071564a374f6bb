//! Recordings in `trace` mode as traces: what `critical-path`, `report` and all other analyses read.
//!
//! Operators, backward nodes, spans and samples are as they were recorded. Python frames, calls of modules and training
//! steps are inferred and say so ([`stackline_model::INFERRED`]).

mod calls;
mod frames;
mod rows;
mod steps;

use super::{began, streams};
use crate::places::Places;
use crate::{Error, ReadOptions, problems, resolve};
use calls::Calls;
use rows::Rows;
use stackline_model::{ReadReport, Trace, TraceSet};
use std::collections::BTreeMap;
use std::path::Path;

/// Clocks of processes that differ by less were set anew in between; by more, they are of other machines.
const SAME_MACHINE_NS: i64 = 1_000_000_000;

/// The traces of a recording in `trace` mode: one per rank, in their order; one of all processes if there are no ranks.
///
/// # Errors
/// If there are no streams, if none can be read, or if none of them has single calls.
pub fn read_traces(run: &Path, options: &ReadOptions) -> Result<TraceSet, Error> {
    let mut report = ReadReport::default();
    let mut processes: Vec<(i64, u32, Calls)> = Vec::new();
    let paths = streams(run)?;
    if paths.is_empty() {
        return Err(Error::NoStreams { path: run.to_owned() });
    }
    for path in paths {
        if options.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match std::fs::read(&path) {
            Ok(file) => {
                if let Some(progress) = &options.progress {
                    progress(file.len() as u64);
                }
                let (start, pid) = began(&file);
                processes.extend(Calls::read(&name, &file, &mut report).map(|calls| (start, pid, calls)));
            }
            Err(error) => problems::UNREADABLE_STREAM.count(&mut report, None, &format!("{name}: {error}")),
        }
    }
    let name = run.file_name().map_or_else(|| run.to_string_lossy(), |name| name.to_string_lossy()).into_owned();
    let set = traces(&name, processes, report, options);
    if set.traces.is_empty() { Err(Error::NoSingleCalls { path: run.to_owned() }) } else { Ok(set) }
}

/// The traces of streams in memory, each with a name for the read report; none if there are no single calls.
pub fn traces_of<'a>(name: &str, streams: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> TraceSet {
    let mut report = ReadReport::default();
    let mut processes = Vec::new();
    for (stream, file) in streams {
        let (start, pid) = began(file);
        processes.extend(Calls::read(stream, file, &mut report).map(|calls| (start, pid, calls)));
    }
    traces(name, processes, report, &ReadOptions::default())
}

/// One trace per rank, of processes with their beginnings and numbers. The report of the whole recording is in the
/// first trace.
fn traces(name: &str, mut processes: Vec<(i64, u32, Calls)>, report: ReadReport, options: &ReadOptions) -> TraceSet {
    processes.sort_by_key(|&(start, pid, _)| (start, pid));
    let processes: Vec<Calls> = processes.into_iter().map(|(_, _, calls)| calls).collect();
    let offsets = offsets(&processes);
    let base = offsets.iter().zip(&processes).map(|(offset, calls)| offset + calls.process.start_monotonic_ns).min();
    let base = base.unwrap_or(0);
    let mut ranks: BTreeMap<Option<u32>, Vec<(i64, Calls)>> = BTreeMap::new();
    for (offset, calls) in offsets.into_iter().zip(processes).filter(|(_, calls)| calls.has_events()) {
        ranks.entry(calls.process.rank).or_default().push((offset - base, calls));
    }
    let several = ranks.len() > 1;
    let mut report = Some(report);
    let mut traces = Vec::new();
    for (rank, processes) in ranks {
        let label = match rank {
            Some(rank) if several => format!("{name}:rank{rank}"),
            _ => name.to_owned(),
        };
        let report = report.take().unwrap_or_default();
        traces.push(trace(label, base, rank, processes, report, options));
    }
    TraceSet { traces }
}

/// What to add to times of each process to have ns since 1970. Processes of one machine share a clock, whatever was done
/// to the system's time meanwhile.
fn offsets(processes: &[Calls]) -> Vec<i64> {
    let own = |calls: &Calls| calls.process.start_unix_ns.saturating_sub(calls.process.start_monotonic_ns);
    let first = processes.first().map_or(0, own);
    let offset = |calls| if own(calls).abs_diff(first) < SAME_MACHINE_NS.unsigned_abs() { first } else { own(calls) };
    processes.iter().map(offset).collect()
}

fn trace(
    name: String,
    base_ns: i64,
    rank: Option<u32>,
    processes: Vec<(i64, Calls)>,
    report: ReadReport,
    options: &ReadOptions,
) -> Trace {
    let mut trace = Trace::default();
    trace.report = report;
    trace.meta.name = name;
    // As Kineto writes it, so that an export says the same.
    trace.meta.entries.push(("baseTimeNanoseconds".to_owned(), base_ns.to_string()));
    if let Some(rank) = rank {
        trace.meta.entries.push(("distributedInfo".to_owned(), format!("{{\"rank\":{rank}}}")));
    }
    for (offset, mut calls) in processes {
        Rows::new(&mut trace, offset).add(&mut calls);
    }
    resolve::resolve(&mut trace, Vec::new(), &Places::default(), options);
    trace.meta.format = "recording".to_owned();
    trace
}

impl Calls {
    fn has_events(&self) -> bool {
        self.threads.iter().any(|thread| !thread.calls.is_empty() || !thread.samples.is_empty())
    }
}
