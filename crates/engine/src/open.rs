//! Opens anything: run directories from the store, everything else through the readers.

use crate::{Error, Watch};
use stackline_ingest::ReadOptions;
use stackline_model::TraceSet;
use std::path::{Path, PathBuf};

/// Settings of an opening.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Threads to use; 0 means as many as there are cores. Never changes the result.
    pub threads: usize,
    /// Lets the caller see the bytes read and stop.
    pub watch: Watch,
}

/// Whether a path is a run directory: a directory with a manifest.
pub fn is_run(path: &Path) -> bool {
    path.join("manifest.json").is_file()
}

/// Opens files, archives, directories of traces, run directories and standard input (`-`), in the order given.
pub fn open(inputs: &[PathBuf], options: &OpenOptions) -> Result<TraceSet, Error> {
    if inputs.is_empty() {
        return Err(Error::NoInput);
    }
    for input in inputs {
        options.watch.expect(size(input));
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
        let read = if run { open_run(first)? } else { read(now, options)? };
        for input in now {
            options.watch.add(size(input));
        }
        set.traces.extend(read.traces);
    }
    Ok(set)
}

fn read(paths: &[PathBuf], options: &OpenOptions) -> Result<TraceSet, Error> {
    let options = ReadOptions { threads: options.threads, ..ReadOptions::default() };
    Ok(stackline_ingest::read_paths(paths, &options)?)
}

/// Bytes of a file, or of the files directly in a directory; 0 where that cannot be known.
fn size(path: &Path) -> u64 {
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() => meta.len(),
        Ok(meta) if meta.is_dir() => {
            let files = std::fs::read_dir(path).into_iter().flatten().flatten();
            files.filter_map(|f| f.metadata().ok()).filter(std::fs::Metadata::is_file).map(|m| m.len()).sum()
        }
        _ => 0,
    }
}

fn open_run(path: &Path) -> Result<TraceSet, Error> {
    Err(Error::Io { path: path.to_owned(), source: std::io::Error::other("run directories are not built in yet") })
}
