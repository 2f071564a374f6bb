//! Open inputs: run directories from the store, all others through the readers.

use crate::cycles::{self, Cycle, CycleRelation, OlderTrace, SeenCycles};
use crate::memory::sort_by_peak;
use crate::ranks::Job;
use crate::requirements::read_error;
use crate::{Error, Lacks, Part, Progress, ranks};
use regex_lite::Regex;
use stackline_ingest::recording::{TracesAndMemory, is_of_sums};
use stackline_ingest::sources::{PartReaders, part_readers};
use stackline_ingest::{ReadOptions, diagnostics, run_of};
use stackline_model::{MemoryTrace, ReadReport, Trace, TraceSet};
use stackline_store::{ReadSelection, WriteOptions};
use stackline_timeline::keep_cycle;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use stackline_store::{is_complete, is_run};

/// Options for opening inputs.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Number of threads; 0 uses all cores. The result does not depend on it.
    pub threads: usize,
    /// End GPU operations where the next one of their stream starts (counted in the read report), for traces with
    /// durations that are too long. Run directories are not changed.
    pub clip_overlaps: bool,
    /// Regular expression for the names of spans that are steps, instead of the known ones. Run directories have the
    /// steps of their import.
    pub step_annotation: Option<Regex>,
    /// Recorded cycle whose steps are kept, from 1 in time order; `None` keeps those of all cycles.
    pub cycle: Option<usize>,
    /// Progress in bytes, and the cancel flag.
    pub watch: Progress,
}

/// Open files, archives, directories of traces, run directories and standard input (`-`), in the given order.
///
/// # Errors
/// If there is no input, if one cannot be read at all, or if the watch was canceled.
pub(crate) fn open(inputs: &[PathBuf], options: &OpenOptions) -> Result<TraceSet, Error> {
    if inputs.is_empty() {
        return Err(Error::NoInput);
    }
    for input in inputs {
        options.watch.expect(size(input, 0));
    }
    let inputs: Vec<Input<'_>> = inputs.iter().map(|path| Input::new(path)).collect();
    let mut set = TraceSet::default();
    let mut rest = &inputs[..];
    // Adjacent files are read together, so that the reader can distribute them over threads.
    while let Some(first) = rest.first() {
        if options.watch.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let plain = |input: &&Input<'_>| matches!(input, Input::Files(_));
        let count = rest.iter().take_while(plain).count().max(1);
        let (now, later) = rest.split_at(count);
        rest = later;
        let mut read = match first {
            Input::Run(path) => open_run(path, options)?,
            Input::WithRuns(path, runs) => open_with_runs(path, runs, options)?,
            Input::Files(_) => {
                let paths: Vec<PathBuf> = now.iter().map(|input| input.path().to_owned()).collect();
                read(&paths, &[], options)?
            }
        };
        // Single files in the command are all wanted, even if a run directory was made from them.
        let are_of_folders = now.len() == 1 || now.iter().all(|input| input.path().is_dir());
        if are_of_folders && !matches!(first, Input::Run(_)) {
            cycles::keep_newest(&mut read);
        }
        set.traces.extend(read.traces);
    }
    complete(&mut set, options)?;
    Ok(set)
}

/// Note ranks by position in a set of all inputs, and keep only the steps of the requested cycle.
fn complete(set: &mut TraceSet, options: &OpenOptions) -> Result<(), Error> {
    ranks::note_positions(set);
    if let Some(number) = options.cycle {
        for trace in &mut set.traces {
            let name = trace.meta.name.clone();
            keep_cycle(trace, number).map_err(|available| Error::NoCycle { name, number, available })?;
        }
    }
    Ok(())
}

/// Open a recording as [`open`] does, and decode its memory traces with its traces, the one with the highest peak
/// first. `None` for any other input, and for a recording whose traces are stored as tables.
pub(crate) fn open_with_memory(input: &Path, options: &OpenOptions) -> Result<Option<TracesAndMemory>, Error> {
    if part_readers(input).is_none() || stores_traces(input) {
        return Ok(None);
    }
    options.watch.expect(size(input, 0));
    let read = (readers_of_calls(input)?.traces_and_memory)(input, &read_options(options));
    let mut read = read.map_err(|error| read_error(error, &[input.to_owned()], Part::Traces))?;
    complete(&mut read.traces, options)?;
    read.memory.iter_mut().for_each(|processes| sort_by_peak(processes));
    Ok(Some(read))
}

/// Open the inputs of one job file by file: `take` gets each trace, and memory contains only one file, archive or run
/// directory at a time. Traces are in the order of [`open`]. A newer profiler cycle of a process comes with the index
/// of the trace that it replaces. Returns the files of directories that were left out.
///
/// # Errors
/// Errors of [`open`]; also if the traces are not ranks of one job, by their metadata.
pub(crate) fn open_ranks<E: From<Error>>(
    inputs: &[PathBuf],
    (opened, options): (Option<TraceSet>, &OpenOptions),
    take: &mut dyn FnMut(Trace, Option<usize>) -> Result<(), E>,
) -> Result<LeftOut, E> {
    let groups = file_groups(inputs)?;
    let (mut job, mut taken, mut left_out) = (Job::default(), SeenCycles::default(), LeftOut::default());
    let mut add = |traces: Vec<Trace>, is_of_folder: bool, older: &mut Vec<OlderTrace>| {
        let several = traces.len() > 1;
        traces.into_iter().try_for_each(|trace| {
            let cycle = if is_of_folder { Cycle::from_trace(&trace) } else { None };
            match taken.add(cycle) {
                CycleRelation::Process => {
                    job.add(&trace.meta).map_err(|reason| not_one_job(reason, &groups, several))?;
                    take(trace, None)
                }
                CycleRelation::Newer { at, older: replaced } => {
                    older.push(replaced);
                    take(trace, Some(at))
                }
                CycleRelation::Older(own) => {
                    older.push(own);
                    Ok(())
                }
            }
        })
    };
    match opened {
        Some(set) => add(set.traces, false, &mut left_out.older_cycles)?,
        None => {
            for group in &groups {
                let opened = open_group(group, options, &mut left_out.unreadable);
                let traces = opened.map_err(|error| error.of_one_of(groups.len()))?;
                add(traces, group.is_optional, &mut left_out.older_cycles)?;
            }
        }
    }
    match (job.is_empty(), inputs.first()) {
        (true, Some(path)) => Err(Error::from(stackline_ingest::Error::NoTrace { path: path.clone() }).into()),
        _ => Ok(left_out),
    }
}

/// Files of directories that were left out while traces were read one after another.
#[derive(Clone, Debug, Default)]
pub struct LeftOut {
    /// Files that are not traces, with the reason.
    pub(crate) unreadable: Vec<String>,
    /// Older profiler cycles of processes and ranks.
    pub(crate) older_cycles: Vec<OlderTrace>,
}

/// Read the traces of a file group, named as in the directory. An optional file that is not a trace gives no traces;
/// the reason is added to `skipped`.
pub(crate) fn open_group(
    group: &FileGroup,
    options: &OpenOptions,
    skipped: &mut Vec<String>,
) -> Result<Vec<Trace>, Error> {
    let is_of_one_file = |error: &Error| match error {
        Error::Lacks(lacks) => lacks.paths.len() == 1,
        error => matches!(error, Error::Ingest(_)),
    };
    let opened = match open(&group.paths, options) {
        // An unreadable file must not remove the others of its run.
        Err(error) if group.paths.len() > 1 && is_of_one_file(&error) => {
            open(&readable(group, options, skipped), options)
        }
        other => other,
    };
    let mut traces = match opened {
        Ok(set) => set.traces,
        Err(error) if group.is_optional && is_no_trace(&error) => {
            skipped.push(format!("{}: {error}", group.label));
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    for trace in &mut traces {
        if let Some(rest) = trace.meta.name.strip_prefix(run_of(&group.file)) {
            trace.meta.name = format!("{}{rest}", run_of(&group.label));
        }
    }
    Ok(traces)
}

/// True if an error means that a file cannot be read, or contains no trace.
fn is_no_trace(error: &Error) -> bool {
    matches!(error, Error::Ingest(_) | Error::Lacks(_))
}

/// Select the files of a group that can be read by themselves; the errors of all others are added to `skipped`.
fn readable(group: &FileGroup, options: &OpenOptions, skipped: &mut Vec<String>) -> Vec<PathBuf> {
    let mut good = Vec::new();
    for path in &group.paths {
        match open(std::slice::from_ref(path), options) {
            Err(error) if is_no_trace(&error) => skipped.push(error.to_string()),
            _ => good.push(path.clone()),
        }
    }
    good
}

/// Report the left-out files of a directory in the read report of its first trace.
pub fn note_left_out(report: &mut ReadReport, left_out: &LeftOut) {
    left_out.unreadable.iter().for_each(|error| diagnostics::note_skipped_input(report, error));
    cycles::note(report, &left_out.older_cycles);
}

/// Files to read together: one file, archive or run directory, or several files of one run.
pub(crate) struct FileGroup {
    paths: Vec<PathBuf>,
    /// Name of the file in a trace that is read alone, and its name in the directory.
    file: String,
    label: String,
    /// True for a file of a directory, which may not be a trace.
    pub(crate) is_optional: bool,
}

/// Divide inputs into groups of files to read together. Files in directories become groups of their own, or join the
/// other files of their run.
pub(crate) fn file_groups(inputs: &[PathBuf]) -> Result<Vec<FileGroup>, Error> {
    let file =
        |path: &Path| path.file_name().map_or_else(|| path.to_string_lossy(), |n| n.to_string_lossy()).into_owned();
    let whole = |path: &Path, is_optional: bool| FileGroup {
        paths: vec![path.to_owned()],
        file: file(path),
        label: file(path),
        is_optional,
    };
    let mut groups: Vec<FileGroup> = Vec::new();
    for input in inputs {
        match Input::new(input) {
            Input::Files(path) | Input::WithRuns(path, _) if path.is_dir() => {
                let runs = runs_below(path);
                let files = match stackline_ingest::files(path, &runs) {
                    Err(stackline_ingest::Error::NoTrace { .. }) if !runs.is_empty() => Vec::new(),
                    files => files?,
                };
                let group = |(path, label): (PathBuf, String)| FileGroup {
                    file: file(&path),
                    paths: vec![path],
                    label,
                    is_optional: true,
                };
                groups.extend(files.into_iter().map(group));
                groups.extend(runs.iter().map(|run| whole(run, false)));
            }
            other => groups.push(whole(other.path(), false)),
        }
    }
    Ok(join_groups(groups))
}

/// Join groups of files of the same folder and run.
fn join_groups(groups: Vec<FileGroup>) -> Vec<FileGroup> {
    let mut joined: Vec<FileGroup> = Vec::with_capacity(groups.len());
    let mut at: BTreeMap<(PathBuf, String), usize> = BTreeMap::new();
    for mut group in groups {
        let Some(path) = group.paths.first().filter(|path| path.is_file()) else {
            joined.push(group);
            continue;
        };
        let (folder, run) = (path.parent().unwrap_or(path), run_of(&group.file));
        let known = *at.entry((folder.to_owned(), run.to_owned())).or_insert(joined.len());
        match joined.get_mut(known) {
            Some(first) => {
                first.paths.append(&mut group.paths);
                first.is_optional &= group.is_optional;
            }
            None => joined.push(group),
        }
    }
    joined
}

/// Create the error that the inputs are not ranks of one job, with the files to choose from.
fn not_one_job(reason: String, groups: &[FileGroup], several: bool) -> Error {
    let choices = if groups.len() > 1 { groups.iter().map(|group| group.label.clone()).collect() } else { Vec::new() };
    Error::NotOneJob { reason, choices, several }
}

/// Input path, classified by the reader that opens it.
enum Input<'a> {
    /// A run directory.
    Run(&'a Path),
    /// Directory with run directories, and possibly other traces.
    WithRuns(&'a Path, Vec<PathBuf>),
    /// Any other input.
    Files(&'a Path),
}

impl<'a> Input<'a> {
    /// Classify an input path as run directory, directory with runs, or other files.
    fn new(path: &'a Path) -> Self {
        if is_run(path) {
            return Self::Run(path);
        }
        let runs = if path.is_dir() { runs_below(path) } else { Vec::new() };
        if runs.is_empty() { Self::Files(path) } else { Self::WithRuns(path, runs) }
    }

    /// Path of the input.
    fn path(&self) -> &'a Path {
        match self {
            Self::Run(path) | Self::WithRuns(path, _) | Self::Files(path) => path,
        }
    }
}

/// Run directory in a folder that contains no other run and no other file; `None` for any other folder.
pub(crate) fn only_run(folder: &Path) -> Option<PathBuf> {
    let mut runs = if is_run(folder) { Vec::new() } else { runs_below(folder) };
    let has_no_files =
        || matches!(stackline_ingest::files(folder, &runs), Err(stackline_ingest::Error::NoTrace { .. }));
    let is_alone = runs.len() == 1 && has_no_files();
    runs.pop().filter(|_| is_alone)
}

/// Run directories below a directory, in order of their paths. Links are not followed, because they may form a cycle.
pub(crate) fn runs_below(directory: &Path) -> Vec<PathBuf> {
    let mut runs = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(next) = pending.pop() {
        for path in std::fs::read_dir(&next).into_iter().flatten().flatten().map(|e| e.path()) {
            let hidden = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.'));
            if hidden || path.is_symlink() || !path.is_dir() {
                continue;
            }
            if is_run(&path) { runs.push(path) } else { pending.push(path) }
        }
    }
    runs.sort();
    runs
}

/// Open the files of a directory, then its runs. A run that cannot be read is listed in the read report of the first
/// trace.
fn open_with_runs(directory: &Path, runs: &[PathBuf], options: &OpenOptions) -> Result<TraceSet, Error> {
    use stackline_ingest::Error as Read;
    let mut set = match read(&[directory.to_owned()], runs, options) {
        Err(Error::Ingest(Read::NoTrace { .. })) => TraceSet::default(),
        other => other?,
    };
    let mut failed = Vec::new();
    for run in runs {
        match open_run(run, options) {
            Ok(read) => set.traces.extend(read.traces),
            Err(error) => failed.push(error),
        }
    }
    let Some(first) = set.traces.first_mut() else {
        let none = || Read::NoTrace { path: directory.to_owned() }.into();
        return Err(failed.into_iter().next().unwrap_or_else(none));
    };
    for error in failed {
        diagnostics::note_skipped_input(&mut first.report, &error.to_string());
    }
    Ok(set)
}

/// Write a set as a run directory, completely or not at all.
///
/// # Errors
/// If the target exists and is not a run, if the operating system refuses (disk full), or if `options.cancel` became
/// true.
pub fn save(set: &TraceSet, run: &Path, options: &WriteOptions) -> Result<(), Error> {
    save_with(set, &[], run, options)
}

/// Write a set and its memory traces as a run directory, the most informative memory trace first.
///
/// # Errors
/// Errors of [`save`].
pub fn save_with(set: &TraceSet, memory: &[MemoryTrace], run: &Path, options: &WriteOptions) -> Result<(), Error> {
    match stackline_store::write_run(set, memory, run, options) {
        Err(stackline_store::Error::Cancelled) => Err(Error::Cancelled),
        other => Ok(other?),
    }
}

/// Read traces from files and directories, without the paths in `leave_out`.
fn read(paths: &[PathBuf], leave_out: &[PathBuf], options: &OpenOptions) -> Result<TraceSet, Error> {
    let options = ReadOptions { leave_out: leave_out.to_vec(), ..read_options(options) };
    stackline_ingest::read_paths(paths, &options).map_err(|error| read_error(error, paths, Part::Traces))
}

/// Convert options for opening inputs to options of the readers, with progress and cancel flag.
pub(crate) fn read_options(options: &OpenOptions) -> ReadOptions {
    let watch = options.watch.clone();
    ReadOptions {
        threads: options.threads,
        clip_overlaps: options.clip_overlaps,
        step_annotation: options.step_annotation.clone(),
        leave_out: Vec::new(),
        progress: Some(Arc::new(move |bytes| watch.add(bytes))),
        cancel: Some(options.watch.flag()),
    }
}

/// Read the traces of a run directory from its tables, or of a recording from its streams.
fn open_run(path: &Path, options: &OpenOptions) -> Result<TraceSet, Error> {
    if crate::calls::is_recording(path) && !stores_traces(path) {
        return open_recording(path, options);
    }
    let set = stackline_store::read_run(path, &ReadSelection { threads: options.threads, ..ReadSelection::all() })?;
    if set.traces.is_empty() && crate::memory::has_stored_memory(path) {
        return Err(Lacks::new(path, Part::Traces, [Part::Memory]).into());
    }
    options.watch.add(size(path, 0));
    Ok(set)
}

/// True if a run directory has tables of traces.
fn stores_traces(path: &Path) -> bool {
    stackline_store::read_manifest(path).is_ok_and(|run| !run.traces.is_empty())
}

/// Read the traces of a recording with individual calls.
fn open_recording(path: &Path, options: &OpenOptions) -> Result<TraceSet, Error> {
    let read = (readers_of_calls(path)?.traces)(path, &read_options(options));
    read.map_err(|error| read_error(error, &[path.to_owned()], Part::Traces))
}

/// Readers of a recording with individual calls; an error for other recordings, which are not read twice.
fn readers_of_calls(path: &Path) -> Result<&'static PartReaders, Error> {
    let readers = part_readers(path).filter(|_| !is_of_sums(path));
    readers.ok_or_else(|| Lacks::new(path, Part::Traces, [Part::Profile]).into())
}

/// Maximum depth of counted directories.
const MAX_DEPTH: usize = 16;

/// Size in bytes of a file, or of the files below a directory; 0 if unknown. Used only for progress.
pub(crate) fn size(path: &Path, depth: usize) -> u64 {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() && depth < MAX_DEPTH => {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|e| size(&e.path(), depth + 1)).sum()
        }
        Ok(meta) if meta.is_dir() => 0,
        _ => std::fs::metadata(path).map_or(0, |meta| if meta.is_file() { meta.len() } else { 0 }),
    }
}
