//! Exports of Nsight Systems: `nsys export --type sqlite`.
//!
//! Tables and columns come and go with versions and with what was recorded: what is missing is null. Each process that calls the
//! GPU's interface becomes a trace of its own, for correlation ids are a process's own. Names of kinds and arguments are Kineto's, so
//! that analyses, exports and comparisons know them. See `docs/formats/nsys.md`.

mod device;
mod host;
mod ids;
mod machine;
mod ranges;

use super::processes::{self, Processes};
use super::tables::{self, Texts};
use super::{Content, Sniff};
use crate::problems;
use crate::{Error, ReadOptions};
use stackline_model::Trace;
use stackline_sqlite::{Database, Row};

/// What traces of exports say of their format.
pub(crate) const FORMAT: &str = "nsys";

/// Each export has this table of texts.
const TEXTS: &str = "StringIds";
/// One of these, at least, tells an export from any other database with such a table.
const MARKER_TABLES: &[&str] =
    &["CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "META_DATA_EXPORT", "NVTX_EVENTS", "OSRT_API"];
/// What else is read, or says nothing of its own.
const KNOWN: &[&str] = &[
    TEXTS,
    "ANALYSIS_DETAILS",
    "ANALYSIS_FILE",
    "DIAGNOSTIC_EVENT",
    "NVTX_PAYLOAD_SCHEMAS",
    "NVTX_PAYLOAD_SCHEMA_ENTRIES",
    "NVTX_PAYLOAD_ENUMS",
    "NVTX_PAYLOAD_ENUM_ENTRIES",
    "PROCESSES",
    "ProcessStreams",
    "ThreadNames",
    "sqlite_sequence",
    "sqlite_stat1",
];
const KNOWN_BEGINNINGS: &[&str] = &["ENUM_", "META_DATA_", "TARGET_INFO_"];

/// Whether these are the tables of an export.
pub(crate) fn sniff(content: &Content<'_>) -> Sniff {
    let Content::Tables(file) = content else { return Sniff::No };
    let export = Export::of(file);
    match MARKER_TABLES.iter().any(|table| export.table(table).is_some()) {
        true if file.has(TEXTS) => Sniff::Yes("a table StringIds beside those of an export"),
        _ => Sniff::No,
    }
}

/// Reads the traces of an export, one for each process.
pub(crate) fn open(name: &str, content: Content<'_>, options: &ReadOptions) -> Result<Vec<Trace>, Error> {
    let Content::Tables(file) = content else { return Ok(Vec::new()) };
    let mut export = Export::of(file);
    let mut processes = Processes::new(options);
    if file.is_cut() {
        processes.count(problems::TRUNCATED, "");
    }
    export.texts = tables::texts(file, TEXTS, ["id", "value"], &mut processes);
    host::read(&export, &mut processes);
    ranges::read(&export, &mut processes);
    device::read(&export, &mut processes);
    let gpus = machine::name_tracks(&export, &mut processes);
    if options.is_cancelled() {
        return Err(Error::Cancelled);
    }
    let mut traces = processes.traces(FORMAT, name);
    let Some((_, first)) = traces.first_mut() else {
        let reason = "an export of Nsight Systems without calls of CUDA, NVTX ranges or calls of the operating system; record with \
                      nsys profile --trace=cuda,nvtx,osrt"
            .to_owned();
        return Err(Error::Malformed { path: name.into(), reason, offset: 0 });
    };
    export.note_unread(&mut first.report);
    machine::note_diagnostics(&export, first);
    for (pid, trace) in &mut traces {
        machine::describe(&export, &gpus, *pid, trace);
        processes::seal(trace, options);
    }
    Ok(traces.into_iter().map(|(_, trace)| trace).collect())
}

/// The tables of an export.
struct Export<'f> {
    file: &'f Database,
    /// Texts by their number.
    texts: Texts,
}

impl<'f> Export<'f> {
    fn of(file: &'f Database) -> Self {
        Self { file, texts: Texts::default() }
    }

    /// The table as this version of Nsight Systems calls it: by its name, else with the highest `_V2`, `_V3` behind it.
    fn table(&self, name: &str) -> Option<&'f str> {
        let version = |table: &&str| match table.strip_prefix(name)?.strip_prefix("_V") {
            Some(version) => version.parse::<u32>().ok(),
            None => (*table == name).then_some(u32::MAX),
        };
        let versions = self.file.tables().filter_map(|table| Some((version(&table)?, table)));
        versions.max_by_key(|&(version, _)| version).map(|(_, table)| table)
    }

    fn text(&self, id: Option<i64>) -> Option<&str> {
        self.texts.get(&id?).map(|text| &**text)
    }

    /// Gives `take` each row of a table. What makes the table unreadable is noted.
    fn rows(
        &self,
        table: &str,
        columns: &[&str],
        processes: &mut Processes<'_>,
        take: impl FnMut(&Row<'_>, &mut Processes<'_>),
    ) {
        if let Some(table) = self.table(table) {
            tables::rows(self.file, table, columns, processes, take);
        }
    }

    /// Says which tables hold something that is not read.
    fn note_unread(&self, report: &mut stackline_model::ReadReport) {
        let read: Vec<&str> = [host::TABLES, ranges::TABLES, device::TABLES]
            .concat()
            .iter()
            .filter_map(|table| self.table(table))
            .collect();
        let is_read = |table: &str| {
            read.contains(&table)
                || KNOWN.contains(&table)
                || KNOWN_BEGINNINGS.iter().any(|begin| table.starts_with(begin))
        };
        tables::note_unread(self.file, is_read, report);
    }
}
