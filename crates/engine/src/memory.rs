//! Memory traces of inputs: memory files, and memory data of traces, recordings and runs.

use crate::open::{read_options, runs_below, size};
use crate::requirements::read_error;
use crate::{Error, OpenOptions, Part, is_run};
use stackline_ingest::memory::{
    count_memory_files, files_of_memory, from_trace, is_memory_file, one_trace, several_memory_traces,
};
use stackline_ingest::sources::{PartReaders, part_readers};
use stackline_ingest::{diagnostics, read_traces_and_memory};
use stackline_memory::curve::curves;
use stackline_model::{EventKind, MemoryTrace, Trace};
use std::path::{Path, PathBuf};

/// Read the memory trace of a file, archive or folder: separate memory data, else that of the first trace with memory
/// events.
///
/// The inner error is the part that an input without a memory trace has instead.
pub(crate) fn read(path: &Path, options: &OpenOptions) -> Result<Result<MemoryTrace, Part>, Error> {
    options.watch.expect(size(path, 0));
    match read_traces_and_memory(&[path.to_owned()], &read_options(options)) {
        // A folder of traces is not searched for separate memory files in archives.
        Ok((set, memory)) if memory.is_empty() || path.is_dir() && !set.traces.is_empty() => {
            Ok(first_of_traces(&set.traces).ok_or(Part::Traces))
        }
        Ok((_, memory)) => Ok(Ok(one_trace(path, memory)?)),
        Err(stackline_ingest::Error::OtherContent { content, .. }) if path.is_file() => Ok(Err(content.into())),
        Err(stackline_ingest::Error::Cancelled) => Err(Error::Cancelled),
        Err(error) => {
            // The reader of traces skips the memory files of a folder.
            let has_none = matches!(error, stackline_ingest::Error::NoTrace { .. });
            let is_folder = has_none && path.is_dir() && !is_memory_file(path)?;
            let files = if is_folder { files_of_memory(path)? } else { Vec::new() };
            match &files[..] {
                [] => Err(read_error(error, &[path.to_owned()], Part::Memory)),
                [(file, _)] => read(file, options),
                files => Err(several_memory_traces(path, files.len()).into()),
            }
        }
    }
}

/// Memory trace of the first trace with memory events, with the number of such traces in its read report; `None` if
/// there is none.
pub(crate) fn first_of_traces(traces: &[Trace]) -> Option<MemoryTrace> {
    let mut memory = traces.iter().find_map(from_trace)?;
    let has_events = |trace: &&Trace| trace.events.kind.contains(&EventKind::Memory);
    let count = traces.iter().filter(has_events).count();
    if count > 1 {
        diagnostics::note_one_of_ranks(&mut memory.report, count as u64);
    }
    Some(memory)
}

/// True if an input contains only memory data: a file or an archive by its first bytes, a run by its manifest, a folder
/// if all its files do. Standard input is not read.
///
/// # Errors
/// If the input cannot be read.
pub(crate) fn is_memory_only(path: &Path) -> Result<bool, Error> {
    let is_run_of_memory = |run: stackline_store::Manifest| run.traces.is_empty() && !run.memory.is_empty();
    if path == Path::new("-") || is_memory_file(path)? {
        return Ok(path != Path::new("-"));
    }
    if is_run(path) {
        return Ok(stackline_store::read_manifest(path).is_ok_and(is_run_of_memory));
    }
    Ok(path.is_dir() && is_folder_of_memory(path))
}

/// True if a folder contains memory files and no trace, recording or run.
fn is_folder_of_memory(folder: &Path) -> bool {
    runs_below(folder).is_empty() && files_of_memory(folder).is_ok_and(|files| !files.is_empty())
}

/// List the memory files of memory-only inputs with their names, which are relative to the folder if that is the only
/// input.
///
/// # Errors
/// If a folder cannot be read.
pub(crate) fn files(inputs: &[PathBuf]) -> Result<Vec<(PathBuf, String)>, Error> {
    let mut all = Vec::new();
    for input in inputs {
        // A folder that forms one input, such as DrGPUM's, is read as a whole.
        if input.is_dir() && !is_run(input) && !is_memory_file(input)? {
            let below = files_of_memory(input)?;
            // Several folders may have files of equal names.
            all.extend(below.into_iter().map(|(path, name)| {
                let name = if inputs.len() > 1 { path.display().to_string() } else { name };
                (path, name)
            }));
        } else {
            all.push((input.clone(), input.display().to_string()));
        }
    }
    Ok(all)
}

/// Return the files if they contain several memory traces (several files, or one archive of several); else an empty
/// list.
pub(crate) fn files_of_several(files: Vec<(PathBuf, String)>) -> Vec<(PathBuf, String)> {
    match &files[..] {
        // A run directory shows one of its processes. An unreadable archive gives its error when it is read.
        [(file, _)] if file.is_dir() || count_memory_files(file).unwrap_or(1) < 2 => Vec::new(),
        _ => files,
    }
}

/// All memory traces of a memory-only input.
///
/// # Errors
/// If the input cannot be read, or has no memory trace.
pub(crate) fn read_all(path: &Path, options: &OpenOptions) -> Result<Vec<MemoryTrace>, Error> {
    if is_run(path) {
        return all_memory_next_to(path, options);
    }
    let within = files(&[path.to_owned()])?;
    if !matches!(&within[..], [(file, _)] if file == path) {
        return within
            .iter()
            .map(|file| read_named(file, options))
            .collect::<Result<Vec<_>, _>>()
            .map(|all| all.concat());
    }
    options.watch.expect(size(path, 0));
    let error = match read_traces_and_memory(&[path.to_owned()], &read_options(options)) {
        Ok((_, memory)) if !memory.is_empty() => return Ok(memory),
        Ok(_) => stackline_ingest::Error::NoTrace { path: path.to_owned() },
        Err(error) => error,
    };
    Err(read_error(error, &[path.to_owned()], Part::Memory))
}

/// Read all memory traces of a file. A single trace gets the file's name in the folder as its label.
fn read_named((file, name): &(PathBuf, String), options: &OpenOptions) -> Result<Vec<MemoryTrace>, Error> {
    let mut traces = read_all(file, options)?;
    if let [only] = &mut traces[..] {
        only.label.clone_from(name);
    }
    Ok(traces)
}

/// Read the memory trace that a run stores in addition to its traces; `None` if it has none.
///
/// For a recording, that of the process with the highest peak; else the first one that `import` stored. Its read report
/// has the number of candidates.
///
/// # Errors
/// If it exists and cannot be read.
pub(crate) fn memory_next_to(path: &Path, options: &OpenOptions) -> Result<Option<MemoryTrace>, Error> {
    if let Some(readers) = part_readers(path) {
        return Ok(first_of_processes(memories_of_recording(path, readers, options)?));
    }
    if !has_stored_memory(path) {
        return Ok(None);
    }
    let count = stackline_store::read_manifest(path)?.memory.len();
    Ok(Some(with_candidate_count(stackline_store::read_memory_at(path, 0)?, count)))
}

/// First memory trace of a recording's processes, with their number in its read report; `None` if there is none.
pub(crate) fn first_of_processes(processes: Vec<MemoryTrace>) -> Option<MemoryTrace> {
    let count = processes.len();
    processes.into_iter().next().map(|first| with_candidate_count(first, count))
}

/// Record in a memory trace's read report from how many processes the trace was selected.
pub(crate) fn with_candidate_count(mut trace: MemoryTrace, count: usize) -> MemoryTrace {
    if count > 1 {
        diagnostics::note_one_of_processes(&mut trace.report, count as u64);
    }
    trace
}

/// Read all memory traces that a run contains in addition to its traces; for a recording, the one with the highest peak
/// first.
///
/// # Errors
/// Errors of [`memory_next_to`].
pub(crate) fn all_memory_next_to(path: &Path, options: &OpenOptions) -> Result<Vec<MemoryTrace>, Error> {
    if let Some(readers) = part_readers(path) {
        return memories_of_recording(path, readers, options);
    }
    if has_stored_memory(path) { Ok(stackline_store::read_memory(path)?) } else { Ok(Vec::new()) }
}

/// True if a path is a run directory with a memory trace.
pub(crate) fn has_stored_memory(path: &Path) -> bool {
    is_run(path) && stackline_store::read_manifest(path).is_ok_and(|run| !run.memory.is_empty())
}

/// Read the memory traces of a recording's processes, the one with the highest peak first.
fn memories_of_recording(path: &Path, readers: &PartReaders, options: &OpenOptions) -> Result<Vec<MemoryTrace>, Error> {
    let mut processes = match (readers.memory)(path, &read_options(options)) {
        Err(stackline_ingest::Error::Cancelled) => return Err(Error::Cancelled),
        other => other?,
    };
    sort_by_peak(&mut processes);
    Ok(processes)
}

/// Sort the memory traces of processes by their peaks, the highest first: data-loading workers allocate, too, and may
/// make many more calls.
pub(crate) fn sort_by_peak(processes: &mut [MemoryTrace]) {
    let highest = |trace: &MemoryTrace| curves(trace).iter().map(|curve| curve.peak().bytes).max();
    processes.sort_by_cached_key(|trace| std::cmp::Reverse((highest(trace), trace.calls.len())));
}
