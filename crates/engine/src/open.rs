//! Opens anything: run directories from the store, everything else through the readers.

use crate::{Error, Watch};
use stackline_ingest::ReadOptions;
use stackline_model::TraceSet;
use stackline_store::{ReadSelection, WriteOptions};
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
    /// Lets the caller see the bytes read and stop.
    pub watch: Watch,
}

/// Opens files, archives, directories of traces, run directories and standard input (`-`), in the order given.
///
/// # Errors
/// If there is no input, if one cannot be read at all, or if the watch was cancelled.
pub fn open(inputs: &[PathBuf], options: &OpenOptions) -> Result<TraceSet, Error> {
    if inputs.is_empty() {
        return Err(Error::NoInput);
    }
    for input in inputs {
        options.watch.expect(size(input, 0));
    }
    let mut set = TraceSet::default();
    let mut rest = inputs;
    // Neighbouring files are read together, so that the reader can spread them over the threads.
    while let Some(first) = rest.first() {
        if options.watch.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let run = is_run(first);
        let count = if run { 1 } else { rest.iter().take_while(|p| !is_run(p)).count() };
        let (now, later) = rest.split_at(count);
        rest = later;
        let read = if run { open_run(first, options)? } else { read(now, options)? };
        set.traces.extend(read.traces);
    }
    Ok(set)
}

/// Writes a set as a run directory. Either the whole run is there afterwards or nothing new.
///
/// # Errors
/// If the target exists and is no run, if the operating system refuses (disk full), or if `options.cancel` became true.
pub fn save(set: &TraceSet, run: &Path, options: &WriteOptions) -> Result<(), Error> {
    match stackline_store::write_run(set, run, options) {
        Err(stackline_store::Error::Cancelled) => Err(Error::Cancelled),
        other => Ok(other?),
    }
}

fn read(paths: &[PathBuf], options: &OpenOptions) -> Result<TraceSet, Error> {
    let watch = options.watch.clone();
    let options = ReadOptions {
        threads: options.threads,
        clip_overlaps: options.clip_overlaps,
        progress: Some(Arc::new(move |bytes| watch.add(bytes))),
        cancel: Some(options.watch.flag()),
    };
    match stackline_ingest::read_paths(paths, &options) {
        Err(stackline_ingest::Error::Cancelled) => Err(Error::Cancelled),
        other => Ok(other?),
    }
}

fn open_run(path: &Path, options: &OpenOptions) -> Result<TraceSet, Error> {
    let set = stackline_store::read_run(path, &ReadSelection::all())?;
    options.watch.add(size(path, 0));
    Ok(set)
}

/// Directories within directories deeper than this are not counted.
const MAX_DEPTH: usize = 16;

/// Bytes of a file, or of the files below a directory; 0 where that cannot be known. Only for progress.
fn size(path: &Path, depth: usize) -> u64 {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() && depth < MAX_DEPTH => {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|e| size(&e.path(), depth + 1)).sum()
        }
        Ok(meta) if meta.is_dir() => 0,
        _ => std::fs::metadata(path).map_or(0, |meta| if meta.is_file() { meta.len() } else { 0 }),
    }
}
