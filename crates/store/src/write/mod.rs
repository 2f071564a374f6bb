//! Writer of traces and call trees to a run directory.

mod attrs;
mod calls;
mod cells;
mod events;
pub(crate) mod memory;
mod small;
pub(crate) mod table;

use crate::columns::Column;
use crate::commit::TemporaryDirectory;
use crate::manifest::{self, FORMAT, FORMAT_VERSION, Manifest, TableEntry, TraceEntry};
use crate::plan::{Names, Plan};
use crate::{Error, check};
use stackline_model::{MemoryTrace, Trace, TraceSet};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use calls::{write_calls, write_profile};

/// Options for writing a run.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Replace an existing run (other content is never replaced).
    pub overwrite: bool,
    /// Wait until all data are on disk before the run gets its name. Without it, a power failure may leave a damaged
    /// run, which its checksums detect.
    pub sync: bool,
    /// Texts to keep in the manifest, such as the command line.
    pub info: BTreeMap<String, String>,
    /// Cancel flag: once true, writing ends soon with [`Error::Cancelled`], without a run of that name.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl WriteOptions {
    /// Return [`Error::Cancelled`] if the cancel flag is set.
    fn check(&self) -> Result<(), Error> {
        let cancelled = self.cancel.as_ref().is_some_and(|c| c.load(Ordering::Relaxed));
        if cancelled { Err(Error::Cancelled) } else { Ok(()) }
    }
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { overwrite: false, sync: true, info: BTreeMap::new(), cancel: None }
    }
}

/// Write traces, and memory traces with the most informative one first, to the run directory `dir` (usually
/// `NAME.stackline`), completely or not at all.
///
/// # Errors
/// If a trace is invalid, the directory has other content or an existing run that must stay, or writing fails.
pub fn write_run(set: &TraceSet, memory: &[MemoryTrace], dir: &Path, options: &WriteOptions) -> Result<(), Error> {
    for trace in memory {
        trace.check().map_err(|detail| Error::Invalid { trace: trace.label.clone(), detail })?;
    }
    for trace in &set.traces {
        check::trace(trace).map_err(|detail| invalid(trace, detail))?;
    }
    let partial = TemporaryDirectory::create(dir, options.overwrite)?;
    let names = Names::from_traces(set);
    let mut traces = Vec::with_capacity(set.traces.len());
    for (index, trace) in set.traces.iter().enumerate() {
        let folder = manifest::trace_dir(partial.path(), index);
        traces.push(write_trace(trace, &names, folder, options)?);
    }
    let mut entries = Vec::with_capacity(memory.len());
    for (index, trace) in memory.iter().enumerate() {
        entries.push(memory::write(trace, manifest::memory_dir(partial.path(), index), options)?);
    }
    let manifest = Manifest {
        format: FORMAT.to_owned(),
        version: FORMAT_VERSION,
        writer: crate::WRITER.to_owned(),
        info: options.info.clone(),
        traces,
        calls: None,
        memory: entries,
        checksum: None,
    };
    write_manifest(&manifest, partial.path(), options.sync)?;
    options.check()?;
    partial.publish(options.sync)
}

/// Create the error that a trace cannot be written because a rule is violated.
fn invalid(trace: &Trace, detail: String) -> Error {
    Error::Invalid { trace: trace.meta.name.clone(), detail }
}

/// Write all tables of one trace into a new folder, and return its manifest entry.
fn write_trace(trace: &Trace, names: &Names, folder: PathBuf, options: &WriteOptions) -> Result<TraceEntry, Error> {
    std::fs::create_dir(&folder).map_err(Error::io(&folder, "create"))?;
    let mut files = Files { folder, options, tables: BTreeMap::new() };
    let plan = Plan::from_trace(trace);
    events::write(trace, &plan, names, &mut files)?;
    attrs::write(trace, &plan, names, &mut files)?;
    small::write(trace, &mut files)?;
    if options.sync {
        crate::commit::sync_dir(&files.folder)?;
    }
    Ok(TraceEntry { tables: files.tables, ..TraceEntry::new(trace) })
}

/// Write the manifest last, under a temporary name first, so that a manifest is never partial.
fn write_manifest(manifest: &Manifest, dir: &Path, sync: bool) -> Result<(), Error> {
    let path = dir.join(manifest::FILE);
    let draft = dir.join("manifest.json.tmp");
    let text = manifest::to_text(manifest).map_err(|e| Error::Encode { path: path.clone(), detail: e.to_string() })?;
    let write = || {
        let mut file = File::create(&draft)?;
        file.write_all(text.as_bytes())?;
        if sync { file.sync_all() } else { Ok(()) }
    };
    write().map_err(Error::io(&draft, "write"))?;
    std::fs::rename(&draft, &path).map_err(Error::io(&path, "create"))
}

/// Table files of one trace to be written: folder, options, and the manifest entries so far.
struct Files<'a> {
    folder: PathBuf,
    options: &'a WriteOptions,
    tables: BTreeMap<String, TableEntry>,
}

impl Files<'_> {
    /// Write a table; one without rows gets no file.
    fn write_table(&mut self, name: &str, rows: usize, columns: &[Column<'_>]) -> Result<(), Error> {
        if rows == 0 {
            return Ok(());
        }
        let path = self.folder.join(format!("{name}.parquet"));
        let entry = table::write(&path, rows, columns, self.options)?;
        self.tables.insert(name.to_owned(), entry);
        Ok(())
    }
}
