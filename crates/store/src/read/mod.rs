//! Reader of run directories into the data model.

mod attrs;
mod calls;
mod events;
mod long;
mod memory;
mod small;
mod table;

use crate::manifest::{self, TableEntry, TraceEntry};
use crate::write::table::ROW_GROUP;
use crate::{Error, check, read_manifest};
use stackline_model::{EventTable, Severity, Trace, TraceMeta, TraceSet};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use table::{Batch, TableFile};

pub use calls::read_calls;
pub use memory::{read_memory, read_memory_at};

/// Selection of the event arguments to read: all, or only some keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Attributes {
    /// All arguments.
    #[default]
    All,
    /// Only arguments with these keys. For an analysis, the source seems to have no others.
    Keys(BTreeSet<String>),
}

impl Attributes {
    /// True if arguments with this key are selected.
    fn selects(&self, key: &str) -> bool {
        match self {
            Self::All => true,
            Self::Keys(keys) => keys.contains(key),
        }
    }
}

/// Selection of a run's content. The default is everything, which restores the written model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSelection {
    /// Indices of traces; `None` for all.
    pub traces: Option<Vec<usize>>,
    /// Selection of event arguments.
    pub attributes: Attributes,
    /// Leave out flows, stacks and the source's other top-level entries.
    pub skip_side_tables: bool,
    /// Number of threads, at most eight; 0 uses all cores. The result does not depend on it.
    pub threads: usize,
}

impl ReadSelection {
    /// Select all events, links and arguments of a run.
    pub fn all() -> Self {
        Self::default()
    }
}

/// Read the selected traces of a run directory.
pub fn read_run(dir: &Path, selection: &ReadSelection) -> Result<TraceSet, Error> {
    let manifest = read_manifest(dir)?;
    let count = manifest.traces.len();
    let positions = selection.traces.clone().unwrap_or_else(|| (0..count).collect());
    let mut set = TraceSet::default();
    for index in positions {
        let entry = manifest.traces.get(index).ok_or(Error::NoSuchTrace { index, count })?;
        set.traces.push(read_trace(dir, index, entry, selection)?);
    }
    Ok(set)
}

/// Read and check one trace of a run, with several threads for its event arguments.
fn read_trace(run: &Path, index: usize, entry: &TraceEntry, selection: &ReadSelection) -> Result<Trace, Error> {
    let mut files = Files {
        folder: manifest::trace_dir(run, index),
        tables: &entry.tables,
        long_arguments: entry.long_arguments,
        missing: Vec::new(),
    };
    let mut trace = Trace::default();
    trace.report = entry.report.clone();
    trace.meta = TraceMeta {
        name: entry.name.clone(),
        format: entry.source_format.clone(),
        base_ns: entry.base_ns,
        rank: entry.rank,
        world_size: entry.world_size,
        entries: Vec::new(),
        fractional_ts: entry.fractional_ts,
        clocks: entry.clocks.clone(),
    };
    events::strings("strings", &mut trace.strings, &files)?;
    small::tracks(&mut trace, &files)?;
    let file = files.required("events")?;
    let plan = attrs::Plan::new(file.as_ref(), &trace.strings, &files, &selection.attributes)?;
    let mut values = plan.allocate_values()?;
    let parts = plan.parts(file.as_ref(), &trace.strings, &mut values)?;
    let others = std::thread::scope(|scope| {
        for _ in 1..thread_count(selection.threads).min(MOST_THREADS).min(parts.count() + 1) {
            // If the system provides no more threads, this one does all the work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || parts.read_parts());
        }
        let events = file
            .as_ref()
            .map_or_else(|| Ok(EventTable::default()), |file| events::read(file, &trace.strings, !entry.no_levels));
        let others = events.and_then(|events| Ok((events, small::gpu(&files)?, events::order(&mut files)?)));
        parts.read_parts();
        others
    });
    parts.result()?;
    let order;
    (trace.events, trace.gpu, order) = others?;
    trace.attrs = plan.table(values)?;
    small::steps(&mut trace, &files)?;
    if entry.no_levels {
        trace.mark_layers();
    }
    let with_flows = !selection.skip_side_tables;
    small::links(&mut trace, &mut files, (entry.no_levels, with_flows))?;
    if with_flows {
        small::side_tables(&mut trace, &mut files)?;
    }
    check::rows(&trace).map_err(|detail| Error::damaged(&files.folder, detail))?;
    match order {
        Some(order) => {
            let damaged = |e| Error::damaged(&files.folder.join("track_order.parquet"), e);
            trace.set_track_order(order).map_err(damaged)?;
        }
        None => trace.index_tracks(),
    }
    note_missing(&mut trace, files.missing);
    Ok(trace)
}

/// Add optional tables whose files are missing to the read report of a trace.
fn note_missing(trace: &mut Trace, mut tables: Vec<String>) {
    // Tables with data come first: the order can be recomputed.
    tables.sort_by_key(|table| table == "track_order");
    for table in tables {
        let message = "A table of the run directory is missing, so results lack its data. Import the source again.";
        trace.report.count("missing_table", Severity::Lost, message, None, &table);
    }
    trace.report.sort();
}

/// Maximum number of threads per trace: each has some 20 MB of columns in memory.
const MOST_THREADS: usize = 8;

/// Number of threads to use; 0 means the number of cores.
pub fn thread_count(requested: usize) -> usize {
    if requested > 0 { requested } else { std::thread::available_parallelism().map_or(1, std::num::NonZero::get) }
}

/// Table files of one trace, of the calling context tree, or of one memory trace, with their manifest entries.
struct Files<'a> {
    folder: PathBuf,
    tables: &'a BTreeMap<String, TableEntry>,
    /// See [`TraceEntry::long_arguments`].
    long_arguments: bool,
    /// Optional tables in the manifest whose files are missing.
    missing: Vec<String>,
}

impl Files<'_> {
    /// Open a required table. `None` if the manifest does not list it, because it has no rows.
    fn required(&self, name: &str) -> Result<Option<TableFile>, Error> {
        let Some(entry) = self.tables.get(name) else { return Ok(None) };
        let file = TableFile::open(&self.folder, name, entry)?;
        let missing = || Error::damaged(&self.folder.join(format!("{name}.parquet")), "the file is missing");
        file.ok_or_else(missing).map(Some)
    }

    /// Pass all rows of a required table to `each`, in batches; no rows if the manifest does not list it.
    fn read(
        &self,
        table: &str,
        columns: &[&str],
        mut each: impl FnMut(&TableFile, &Batch<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(file) = self.required(table)? else { return Ok(()) };
        file.read(columns, ROW_GROUP, |batch| each(&file, batch))
    }

    /// Open an optional table. `None` if the manifest does not list it, or if its file is missing, which is recorded.
    fn optional(&mut self, name: &str) -> Result<Option<TableFile>, Error> {
        let Some(entry) = self.tables.get(name) else { return Ok(None) };
        let file = TableFile::open(&self.folder, name, entry)?;
        if file.is_none() {
            self.missing.push(name.to_owned());
        }
        Ok(file)
    }
}
