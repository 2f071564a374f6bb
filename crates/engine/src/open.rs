//! Opens anything: run directories from the store, everything else through the readers.

use crate::cycles::{self, Cycle, Further, Taken};
use crate::ranks::Job;
use crate::{Error, Lacks, Part, Progress, ranks};
use regex_lite::Regex;
use stackline_ingest::memory::is_memory_file;
use stackline_ingest::{ReadOptions, diagnostics, run_of};
use stackline_model::{MemoryTrace, ReadReport, Trace, TraceSet};
use stackline_store::{ReadSelection, WriteOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use stackline_store::{is_complete, is_run};

/// Settings of an opening.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Threads to use; 0 means as many as there are cores. Never changes the result.
    pub threads: usize,
    /// End GPU operations where the next one of their stream starts (counted in the read report), for traces whose
    /// durations run over. Run directories are left as they were imported.
    pub clip_overlaps: bool,
    /// Spans whose names it matches are steps, instead of those that are known. Run directories have the steps that they were
    /// imported with.
    pub step_annotation: Option<Regex>,
    /// Lets the caller see the bytes read and stop.
    pub watch: Progress,
}

/// Opens files, archives, directories of traces, run directories and standard input (`-`), in the order given.
///
/// # Errors
/// If there is no input, if one cannot be read at all, or if the watch was cancelled.
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
    // Neighbouring files are read together, so that the reader can spread them over the threads.
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
                read(&paths, &[], options).map_err(|error| of_another_kind(&paths, error))?
            }
        };
        // Files that were given one by one are all meant, also where a run directory was made of them.
        let are_of_folders = now.len() == 1 || now.iter().all(|input| input.path().is_dir());
        if are_of_folders && !matches!(first, Input::Run(_)) {
            cycles::keep_newest(&mut read);
        }
        set.traces.extend(read.traces);
    }
    ranks::note_positions(&mut set);
    Ok(set)
}

/// What to say where no trace is in a file: a profile or a file of memory is no broken trace.
fn of_another_kind(paths: &[PathBuf], error: Error) -> Error {
    use stackline_ingest::Error as Read;
    let is_memory = |path: &PathBuf| is_memory_file(path).unwrap_or(false);
    match (&error, paths) {
        (Error::Ingest(Read::OnlyCalls { .. }), [path]) if path.is_file() => {
            Lacks::new(path, Part::Traces, [Part::Profile]).into()
        }
        // Of what lies in a folder, the folder's name would say nothing.
        (Error::Ingest(Read::OnlyMemory { path: found, .. }), [path]) if path.is_file() || found == path => {
            Lacks::new(path, Part::Traces, [Part::Memory]).into()
        }
        // Of an archive of several files of memory none is the one that is no trace.
        (Error::Ingest(Read::OnlyMemory { .. } | Read::NoTrace { .. }), [first, ..]) if paths.iter().all(is_memory) => {
            Lacks { paths: paths.to_vec(), ..Lacks::new(first, Part::Traces, [Part::Memory]) }.into()
        }
        _ => error,
    }
}

/// Opens the inputs of one job, file by file: `take` gets each trace, and memory holds those of one file, archive or run
/// directory at a time. Traces come in the order of [`open`]; one that is a newer profiler cycle of a process comes with the position of the
/// trace whose place it takes. Gives what of directories was left out.
///
/// # Errors
/// As [`open`]; and if the traces are not ranks of one job, named and told apart by what they say of themselves.
pub(crate) fn open_ranks<E: From<Error>>(
    inputs: &[PathBuf],
    (opened, options): (Option<TraceSet>, &OpenOptions),
    take: &mut dyn FnMut(Trace, Option<usize>) -> Result<(), E>,
) -> Result<LeftOut, E> {
    let groups = file_groups(inputs)?;
    let (mut job, mut taken, mut left_out) = (Job::default(), Taken::default(), LeftOut::default());
    let mut add = |traces: Vec<Trace>, is_of_folder: bool, older: &mut Vec<String>| {
        let several = traces.len() > 1;
        traces.into_iter().try_for_each(|trace| {
            let cycle = if is_of_folder { Cycle::from_trace(&trace) } else { None };
            match taken.add(cycle) {
                Further::Process => {
                    job.add(&trace.meta).map_err(|reason| not_one_job(reason, &groups, several))?;
                    take(trace, None)
                }
                Further::Newer { at, older: name } => {
                    older.push(name);
                    take(trace, Some(at))
                }
                Further::Older => {
                    older.push(trace.meta.name);
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

/// Files of directories that were left out where traces were read one after another.
#[derive(Clone, Debug, Default)]
pub struct LeftOut {
    /// Those that are no traces, each with why.
    pub(crate) unreadable: Vec<String>,
    /// Older profiler cycles of processes, by name.
    pub(crate) older_cycles: Vec<String>,
}

/// The traces of a group, named as the directory knows them; none, with the reason noted, of a file that may turn out to be no trace.
pub(crate) fn open_group(
    group: &FileGroup,
    options: &OpenOptions,
    skipped: &mut Vec<String>,
) -> Result<Vec<Trace>, Error> {
    let opened = match open(&group.paths, options) {
        // One that cannot be read does not take the others of its run away.
        Err(Error::Ingest(_)) if group.paths.len() > 1 => open(&readable(group, options, skipped), options),
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

/// Whether a file cannot be read, or holds something else than a trace.
fn is_no_trace(error: &Error) -> bool {
    matches!(error, Error::Ingest(_) | Error::Lacks(_))
}

/// The files of a group that can be read by themselves; all others are noted.
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

/// Notes files of a directory that were left out in a read report: that of its first trace.
pub fn note_left_out(report: &mut ReadReport, left_out: &LeftOut) {
    left_out.unreadable.iter().for_each(|error| diagnostics::note_skipped_input(report, error));
    cycles::note(report, &left_out.older_cycles);
}

/// One file, archive or run directory, or several files of one run.
pub(crate) struct FileGroup {
    paths: Vec<PathBuf>,
    /// Name of the file as a trace has it that is read alone, and the one that it has in its directory.
    file: String,
    label: String,
    /// From a directory: may turn out to be no trace.
    pub(crate) is_optional: bool,
}

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
    Ok(together(groups))
}

/// Makes one group of files that are read together.
fn together(groups: Vec<FileGroup>) -> Vec<FileGroup> {
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

fn not_one_job(reason: String, groups: &[FileGroup], several: bool) -> Error {
    let choices = if groups.len() > 1 { groups.iter().map(|group| group.label.clone()).collect() } else { Vec::new() };
    Error::NotOneJob { reason, choices, several }
}

/// What is to be read where.
enum Input<'a> {
    /// A run directory.
    Run(&'a Path),
    /// A directory with run directories in it, and maybe other traces.
    WithRuns(&'a Path, Vec<PathBuf>),
    /// Anything else.
    Files(&'a Path),
}

impl<'a> Input<'a> {
    fn new(path: &'a Path) -> Self {
        if is_run(path) {
            return Self::Run(path);
        }
        let runs = if path.is_dir() { runs_below(path) } else { Vec::new() };
        if runs.is_empty() { Self::Files(path) } else { Self::WithRuns(path, runs) }
    }

    fn path(&self) -> &'a Path {
        match self {
            Self::Run(path) | Self::WithRuns(path, _) | Self::Files(path) => path,
        }
    }
}

/// The run directory in a folder that holds nothing else.
pub(crate) fn only_run(folder: &Path) -> Option<PathBuf> {
    let mut runs = if is_run(folder) { Vec::new() } else { runs_below(folder) };
    let has_no_files =
        || matches!(stackline_ingest::files(folder, &runs), Err(stackline_ingest::Error::NoTrace { .. }));
    let is_alone = runs.len() == 1 && has_no_files();
    runs.pop().filter(|_| is_alone)
}

/// Run directories below a directory, by name. Links are not followed, for they may lead in a circle.
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

/// The files of a directory and then its runs. A run that cannot be read is named in the read report of the first trace.
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

/// Writes a set as a run directory. Either the whole run is there afterwards or nothing new.
///
/// # Errors
/// If the target exists and is no run, if the operating system refuses (disk full), or if `options.cancel` became true.
pub fn save(set: &TraceSet, run: &Path, options: &WriteOptions) -> Result<(), Error> {
    save_with(set, &[], run, options)
}

/// The same with memory traces, the one that says most of the run first.
///
/// # Errors
/// As [`save`].
pub fn save_with(set: &TraceSet, memory: &[MemoryTrace], run: &Path, options: &WriteOptions) -> Result<(), Error> {
    match stackline_store::write_run_with(set, memory, run, options) {
        Err(stackline_store::Error::Cancelled) => Err(Error::Cancelled),
        other => Ok(other?),
    }
}

fn read(paths: &[PathBuf], leave_out: &[PathBuf], options: &OpenOptions) -> Result<TraceSet, Error> {
    let options = ReadOptions { leave_out: leave_out.to_vec(), ..read_options(options) };
    match stackline_ingest::read_paths(paths, &options) {
        Err(stackline_ingest::Error::Cancelled) => Err(Error::Cancelled),
        other => Ok(other?),
    }
}

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

fn open_run(path: &Path, options: &OpenOptions) -> Result<TraceSet, Error> {
    if crate::calls::is_recording(path) && !stackline_store::read_manifest(path).is_ok_and(|run| !run.traces.is_empty())
    {
        return open_recording(path, options);
    }
    let set = stackline_store::read_run(path, &ReadSelection { threads: options.threads, ..ReadSelection::all() })?;
    if set.traces.is_empty() && crate::memory::is_kept(path) {
        return Err(Lacks::new(path, Part::Traces, [Part::Memory]).into());
    }
    options.watch.add(size(path, 0));
    Ok(set)
}

/// The traces of a recording with single calls.
fn open_recording(path: &Path, options: &OpenOptions) -> Result<TraceSet, Error> {
    use stackline_ingest::recording::{has_streams, is_of_sums, read_traces};
    let lacks = Lacks::new(path, Part::Traces, [Part::Profile]);
    // What was recorded in sums is not read twice.
    if !has_streams(path) || is_of_sums(path) {
        return Err(lacks.into());
    }
    match read_traces(path, &read_options(options)) {
        Err(stackline_ingest::Error::NoSingleCalls { report, .. }) => Err(Lacks { report: *report, ..lacks }.into()),
        Err(stackline_ingest::Error::Cancelled) => Err(Error::Cancelled),
        other => Ok(other?),
    }
}

/// Directories within directories deeper than this are not counted.
const MAX_DEPTH: usize = 16;

/// Bytes of a file, or of the files below a directory; 0 where that cannot be known. Only for progress.
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
