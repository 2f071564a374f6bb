//! Readers of traces, profiles and memory files: they turn bytes into the model and a read report.
//!
//! Reading succeeds if any data can be kept. Repaired, skipped and lost records are counted with byte offsets in the
//! trace's [`stackline_model::ReadReport`].
//!
//! ```
//! let json = br#"[{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0.5, "dur": 2}]"#;
//! let trace = stackline_ingest::read_bytes("demo", json, &Default::default())?;
//! assert_eq!((trace.events.start[0], trace.events.dur[0]), (500, 2_000));
//! assert!(trace.report.is_clean());
//! # Ok::<(), stackline_ingest::Error>(())
//! ```
#![forbid(unsafe_code)]

mod byte_offsets;
mod content_kinds;
mod databases;
mod decimal;
pub mod diagnostics;
mod error;
mod format_detection;
mod input;
pub mod memory;
mod prefetch;
mod profile;
mod raw;
pub mod recording;
mod resolve;
mod runs;
mod scan;
pub mod sources;
mod temporary_copy;
mod text;
mod unsupported;
mod window;

pub use content_kinds::ContentKind;
pub use profile::{is_profile, read_profile, read_profile_bytes};
pub use resolve::rank::worker_in_name;
pub use runs::run_of;

pub use error::{Error, no_single_calls};
pub use raw::open_text;

use content_kinds::{ContentKinds, Found};
use rayon::prelude::*;
use regex_lite::Regex;
use sources::Content;
use stackline_model::{MemoryTrace, Trace, TraceSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Options for reading inputs.
#[derive(Clone, Default)]
pub struct ReadOptions {
    /// Number of threads; 0 uses all cores. The result does not depend on it.
    pub threads: usize,
    /// End overlapping GPU operations at the start of the next one of their stream, and count them. For traces with too
    /// long durations.
    pub clip_overlaps: bool,
    /// Pattern of span names that mark steps, in place of the known marks. A numeric capture group is the step number.
    pub step_annotation: Option<Regex>,
    /// Progress callback, called from any thread with the number of further (compressed) bytes read.
    pub progress: Option<Arc<dyn Fn(u64) + Send + Sync>>,
    /// Directories within the inputs to skip.
    pub leave_out: Vec<PathBuf>,
    /// Stop flag: reading ends with [`Error::Cancelled`] soon after this becomes true.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl std::fmt::Debug for ReadOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (threads, clip) = (self.threads, self.clip_overlaps);
        f.debug_struct("ReadOptions").field("threads", &threads).field("clip_overlaps", &clip).finish_non_exhaustive()
    }
}

impl ReadOptions {
    /// Check if the caller has requested to stop reading.
    fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|c| c.load(Ordering::Relaxed))
    }
}

/// Read one trace from bytes in memory (JSON, gzip, zstd), or the first trace of an archive. `name` is its label.
///
/// # Errors
/// If the bytes contain no trace.
pub fn read_bytes(name: &str, bytes: &[u8], options: &ReadOptions) -> Result<Trace, Error> {
    let mut found = Found { threads: options.threads, ..Found::new(ContentKinds::TRACES) };
    input::read_stream(Path::new(name), name, Box::new(bytes), 0, options, &mut found)?;
    let Found { mut traces, mut skipped, parts, .. } = found;
    let runs = runs::read(parts, options)?;
    traces.extend(runs.traces.into_iter().map(|(_, trace)| trace));
    skipped.extend(runs.skipped);
    input::note_skipped(&mut traces, &skipped);
    let why = || skipped.into_iter().next().map_or(Error::NoTrace { path: name.into() }, |(_, error)| error);
    traces.into_iter().next().ok_or_else(why)
}

/// Read traces from files, archives and directories, in the given order (within directories and archives by name).
/// `-` is standard input.
///
/// # Errors
/// If a named file cannot be read at all, or a named directory or archive contains no trace. Other files of directories
/// and archives without traces are counted in the read report of the first trace.
pub fn read_paths(paths: &[PathBuf], options: &ReadOptions) -> Result<TraceSet, Error> {
    read(paths, options, ContentKinds::TRACES).map(|(traces, _)| traces)
}

/// Read traces from files, archives and directories, and memory traces from files with only memory data, each file
/// once.
///
/// # Errors
/// Same as [`read_paths`], if neither is found.
pub fn read_traces_and_memory(paths: &[PathBuf], options: &ReadOptions) -> Result<(TraceSet, Vec<MemoryTrace>), Error> {
    read(paths, options, ContentKinds::TRACES_AND_MEMORY)
}

/// Read all inputs in parallel, then complete runs of several files, and drop redundant copies of a profile.
fn read(
    paths: &[PathBuf],
    options: &ReadOptions,
    requested: ContentKinds,
) -> Result<(TraceSet, Vec<MemoryTrace>), Error> {
    let jobs = expand(paths, &options.leave_out)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads.min(jobs.len())).build();
    // Threads without a file of their own help to parse the others.
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let threads = (threads / jobs.len().max(1)).max(1);
    let read = |job: &Job| {
        let mut found = Found { threads, ..Found::new(requested) };
        let read = input::read_into(&job.path, &job.label, options, &mut found);
        read.map(|()| found).map_err(|e| e.located(&job.label, &job.path))
    };
    let results: Vec<Result<Found, Error>> = match pool {
        Ok(pool) if jobs.len() > 1 && options.threads != 1 => pool.install(|| jobs.par_iter().map(read).collect()),
        _ => jobs.iter().map(read).collect(),
    };
    let mut memory = Vec::new();
    let mut placed: Vec<(String, Trace)> = Vec::new();
    let (mut skipped, mut parts) = (Vec::new(), Vec::new());
    for (job, result) in jobs.iter().zip(results) {
        match result {
            Ok(found) => {
                parts.extend(found.parts);
                memory.extend(found.memory);
                let place = |trace: &Trace| {
                    let member = trace.meta.name.strip_prefix(&job.label).unwrap_or_default();
                    format!("{}{member}", job.path.display())
                };
                placed.extend(found.traces.into_iter().map(|trace| (place(&trace), trace)));
                skipped.extend(found.skipped);
            }
            Err(error) if job.optional && !matches!(error, Error::Cancelled) => {
                skipped.push((job.label.clone(), error));
            }
            Err(error) => return Err(error),
        }
    }
    let runs = runs::read(parts, options)?;
    placed.extend(runs.traces);
    skipped.extend(runs.skipped);
    let mut traces = runs::drop_redundant_forms(placed);
    if traces.is_empty() && memory.is_empty() {
        let first = skipped.into_iter().next().map(|(_, error)| error);
        return Err(first.unwrap_or_else(|| Error::NoTrace { path: paths.first().cloned().unwrap_or_default() }));
    }
    input::note_skipped(&mut traces, &skipped);
    Ok((TraceSet { traces }, memory))
}

/// Files of a directory that may be traces, sorted by name, each with its path below the directory. The result is the
/// directory itself if it is a single input.
///
/// # Errors
/// If the directory cannot be read, or no file may be a trace.
pub fn files(directory: &Path, leave_out: &[PathBuf]) -> Result<Vec<(PathBuf, String)>, Error> {
    let jobs = expand(&[directory.to_owned()], leave_out)?;
    Ok(jobs.into_iter().map(|job| (job.path, job.label)).collect())
}

/// An input to read, with its label.
struct Job {
    path: PathBuf,
    label: String,
    /// True for a file of a directory, which need not be a trace.
    optional: bool,
}

impl Job {
    /// Create the reading job of an input that the user named; its label is the file name.
    fn named(path: &Path) -> Self {
        let label = path.file_name().map_or_else(|| path.to_string_lossy(), |n| n.to_string_lossy()).into_owned();
        Self { path: path.to_owned(), label, optional: false }
    }
}

/// Reading jobs of the inputs; a directory becomes the files in it that may be traces, or is one input itself.
fn expand(paths: &[PathBuf], leave_out: &[PathBuf]) -> Result<Vec<Job>, Error> {
    let mut jobs = Vec::new();
    for path in paths {
        if path.is_dir() && !sources::is_one_input(path) {
            let files =
                input::files_below(path, leave_out).map_err(|source| Error::Io { path: path.clone(), source })?;
            let before = jobs.len();
            for file in files.into_iter().filter(|f| input::could_be_trace(f) || input::is_named_like_trace(f)) {
                let label = file.strip_prefix(path).unwrap_or(&file).to_string_lossy().into_owned();
                jobs.push(Job { path: file, label, optional: true });
            }
            if jobs.len() == before {
                if !matches!(sources::detect(&Content::Directory(path)), Ok(Some(_))) {
                    return Err(Error::NoTrace { path: path.clone() });
                }
                jobs.push(Job::named(path));
            }
        } else {
            jobs.push(Job::named(path));
        }
    }
    Ok(jobs)
}
