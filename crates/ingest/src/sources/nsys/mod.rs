//! Reader of Nsight Systems exports (`nsys export --type sqlite`).
//!
//! Tables and columns depend on the version and the recorded data; missing columns are null. Each process with GPU API
//! calls becomes a trace, because correlation IDs are unique only within a process. Names of kinds and arguments are
//! those of Kineto, so that analyses, exports and comparisons recognize them. See `docs/formats/nsys.md`.

mod device;
mod host;
mod ids;
mod machine;
mod ranges;

use super::processes::{self, Processes};
use super::tables::{self, Texts, is_empty};
use super::{Content, Sniff};
use crate::diagnostics;
use crate::{Error, ReadOptions};
use stackline_model::Trace;
use stackline_sqlite::{Database, Row};
use std::collections::BTreeMap;

/// Format name in the metadata of traces.
pub(crate) const FORMAT: &str = "nsys";

/// String table of each export.
const TEXTS: &str = "StringIds";
/// At least one of these tables distinguishes an export from other databases with such a string table.
const MARKER_TABLES: &[&str] =
    &["CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "META_DATA_EXPORT", "NVTX_EVENTS", "OSRT_API"];
/// Columns that equally named tables of other tools lack.
const MARKER_COLUMNS: &[(&str, &str)] =
    &[("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid"), ("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid")];
/// Other tables that are read or contain no data of their own.
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

/// Detect the database tables of an Nsight Systems export.
pub(crate) fn sniff(content: &Content<'_>) -> Sniff {
    let Content::Tables(file) = content else { return Sniff::No };
    let has = |name: &str| versions(file, name).next().is_some();
    let has_column = |&(name, column): &(&str, &str)| versions(file, name).any(|table| file.has_column(table, column));
    match () {
        () if file.has(TEXTS) && MARKER_TABLES.iter().any(|table| has(table)) => {
            Sniff::Yes("the file has the table StringIds and another table of an Nsight Systems export")
        }
        () if MARKER_COLUMNS.iter().any(has_column) => {
            Sniff::Yes("the file has a CUPTI_ACTIVITY_KIND_* table with a column that only Nsight Systems exports have")
        }
        () => Sniff::No,
    }
}

/// Versions of a table of Nsight Systems: its name, or the name with `_V2`, `_V3` appended; first the one without a
/// suffix, then the newest.
fn versions<'f>(file: &'f Database, name: &str) -> std::vec::IntoIter<&'f str> {
    let version = |table: &str| match table.strip_prefix(name)?.strip_prefix("_V") {
        Some(version) => version.parse::<u32>().ok(),
        None => (table == name).then_some(u32::MAX),
    };
    let mut found: Vec<_> = file.tables().filter_map(|table| Some((version(table)?, table))).collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, table)| table).collect::<Vec<_>>().into_iter()
}

/// Read the traces of an export, one per process.
pub(crate) fn open(name: &str, content: Content<'_>, options: &ReadOptions) -> Result<Vec<Trace>, Error> {
    let Content::Tables(file) = content else { return Ok(Vec::new()) };
    let mut processes = Processes::new(options);
    let mut export = Export::new(file, &mut processes);
    tables::note_truncation(file, &mut processes);
    if !file.has(TEXTS) {
        processes.count(diagnostics::TABLE_MISSING, TEXTS);
    }
    export.texts = tables::texts(file, TEXTS, ["id", "value"], &mut processes);
    host::read(&export, &mut processes);
    ranges::read(&export, &mut processes);
    device::read(&export, &mut processes);
    let gpus = machine::name_tracks(&export, &mut processes);
    if options.is_cancelled() {
        return Err(Error::Cancelled);
    }
    let why = processes.reason_if_empty("record with nsys profile --trace=cuda,nvtx,osrt");
    let mut traces = processes.traces(FORMAT, name);
    let Some((_, first)) = traces.first_mut() else {
        let reason = format!("the Nsight Systems export contains no CUDA calls, NVTX ranges or system calls: {why}");
        return Err(Error::Malformed { path: name.into(), reason, offset: 0 });
    };
    export.note_unread(&mut first.report);
    machine::note_diagnostics(&export, first);
    for (pid, trace) in &mut traces {
        machine::describe(&export, &gpus, *pid, trace);
    }
    processes::seal_all(&mut traces, options);
    Ok(traces.into_iter().map(|(_, trace)| trace).collect())
}

/// Tables of an Nsight Systems export in the selected versions, with its strings.
struct Export<'f> {
    file: &'f Database,
    /// Tables that are read, by the name without a version.
    tables: BTreeMap<&'static str, &'f str>,
    /// Other versions with rows of tables that are read.
    passed_over: Vec<&'f str>,
    /// Strings by number.
    texts: Texts,
}

impl<'f> Export<'f> {
    /// Select the version of each table: the first one with rows.
    fn new(file: &'f Database, processes: &mut Processes<'_>) -> Self {
        let (mut tables, mut passed_over) = (BTreeMap::new(), Vec::new());
        for name in [host::TABLES, ranges::TABLES, device::TABLES].concat() {
            let versions: Vec<&str> = versions(file, name).collect();
            let mut full =
                versions.iter().copied().filter(|_| versions.len() > 1).filter(|table| !is_empty(file, table));
            let chosen = full.next().or(versions.first().copied());
            tables.extend(chosen.map(|table| (name, table)));
            for other in full {
                let example = format!("{} was read, not {other}", chosen.unwrap_or_default());
                processes.count(diagnostics::TABLE_VERSIONS, &example);
                passed_over.push(other);
            }
        }
        Self { file, tables, passed_over, texts: Texts::default() }
    }

    /// Name in the file of a table, in the selected version; `None` if the file has no version of the table.
    fn table(&self, name: &str) -> Option<&'f str> {
        self.tables.get(name).copied().or_else(|| versions(self.file, name).next())
    }

    /// String of the export with this ID; `None` if missing.
    fn text(&self, id: Option<i64>) -> Option<&str> {
        self.texts.get(&id?).map(|text| &**text)
    }

    /// Name of a row: the text of the first string ID that exists, else `otherwise`. The reason for a missing name is
    /// counted.
    fn name<'n>(&'n self, ids: &[Option<i64>], otherwise: &'n str, processes: &mut Processes<'_>) -> &'n str {
        match ids.iter().find_map(|&id| self.text(id)) {
            Some(name) => name,
            None => {
                tables::note_nameless(ids, otherwise, processes);
                otherwise
            }
        }
    }

    /// Pass each row of a table to `take`. An error that makes the table unreadable is stored.
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

    /// Count the tables with data that is not read.
    fn note_unread(&self, report: &mut stackline_model::ReadReport) {
        let read: Vec<&str> = [host::TABLES, ranges::TABLES, device::TABLES]
            .concat()
            .iter()
            .filter_map(|table| self.table(table))
            .collect();
        let is_read = |table: &str| {
            read.contains(&table)
                || self.passed_over.contains(&table)
                || KNOWN.contains(&table)
                || KNOWN_BEGINNINGS.iter().any(|begin| table.starts_with(begin))
        };
        tables::note_unread(self.file, is_read, report);
    }
}
