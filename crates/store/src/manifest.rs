//! `manifest.json` of a run directory: its content and versions. It is written last, so a directory with a manifest is
//! complete.

use crate::Error;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stackline_model::{DeviceClock, MemoryAllocatorSettings, MemoryTrace, ReadReport, Trace, TraceMeta, Unit};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Format name that identifies a manifest of Stackline.
pub(crate) const FORMAT: &str = "stackline-run";
/// Written format version. Older versions are upgraded when they are opened (see `upgrade.rs`).
pub const FORMAT_VERSION: u32 = 6;
/// File name of the manifest.
pub(crate) const FILE: &str = "manifest.json";

/// Manifest of a run directory: format version, traces, call tree and memory traces, with their tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always `stackline-run`.
    pub format: String,
    /// Format version.
    pub version: u32,
    /// Program that wrote the run.
    pub writer: String,
    /// Information from the caller: command, environment.
    pub info: BTreeMap<String, String>,
    /// Traces in the order of the set; trace `i` is in the folder `trace=i`.
    pub traces: Vec<TraceEntry>,
    /// Calling context tree of a recording (merged from its streams) or of a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallsEntry>,
    /// Memory traces; trace `i` is in the folder `memory=i`. The first one is the most informative.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryEntry>,
    /// CRC-32 of all other fields, which detects changed numbers; absent in version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

/// Manifest entry of a trace: metadata, read report and tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceEntry {
    /// Label: file name of the source.
    pub name: String,
    /// Source format.
    pub source_format: String,
    /// Epoch time in ns that is 0 in `start_ns`.
    pub base_ns: i64,
    /// Rank in a distributed job.
    pub rank: Option<i64>,
    /// Number of ranks of the job.
    pub world_size: Option<i64>,
    /// See [`TraceMeta::fractional_ts`].
    pub fractional_ts: bool,
    /// Possible clock offsets between each device and the host; absent in runs of versions without this check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<DeviceClock>,
    /// Read report: repaired, skipped and lost records of the source.
    pub report: ReadReport,
    /// True if all arguments are in the long table, without columns in the event table (version 1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub long_arguments: bool,
    /// True if events have no level column, and each kind of link has its own table (before version 6).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_levels: bool,
    /// Tables: name to size. A table without rows has no file and no entry.
    pub tables: BTreeMap<String, TableEntry>,
}

/// Manifest entry of the calling context tree of a run; its tables are in the folder `calls`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallsEntry {
    /// Merged streams with their sizes. If these differ, a process has written more since. Empty for a profile.
    pub streams: BTreeMap<String, u64>,
    /// Read report: skipped and lost records of the streams.
    pub report: ReadReport,
    /// True if native frames are not symbolized and lack the columns for it (version 3).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unnamed: bool,
    /// Units of counters by name; counters without a unit, as all of older runs, have no entry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, Unit>,
    /// Tables: name to size.
    pub tables: BTreeMap<String, TableEntry>,
}

/// Manifest entry of a memory trace: metadata, read report and tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryEntry {
    /// Label: file name of the source.
    pub label: String,
    /// See [`MemoryTrace::saw_end`].
    pub saw_end: bool,
    /// See [`MemoryTrace::has_accesses`].
    pub has_accesses: bool,
    /// See [`MemoryTrace::allocator_settings`].
    #[serde(default)]
    pub allocator_settings: MemoryAllocatorSettings,
    /// Read report: repaired, skipped and lost records of the source.
    pub report: ReadReport,
    /// Tables: name to size. A table without rows has no file and no entry.
    pub tables: BTreeMap<String, TableEntry>,
}

/// Manifest entry of a table, such as `trace=i/NAME.parquet`: rows, size and checksum.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableEntry {
    /// Number of rows.
    pub rows: u64,
    /// Size of the file; absent in version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// CRC-32 of the file, eight hexadecimal digits; absent in version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc32: Option<String>,
}

impl TraceEntry {
    /// Manifest entry of a trace with its metadata and read report, without tables so far.
    pub(crate) fn new(trace: &Trace) -> Self {
        let TraceMeta { name, format, base_ns, rank, world_size, entries: _, fractional_ts, clocks } = &trace.meta;
        Self {
            name: name.clone(),
            source_format: format.clone(),
            base_ns: *base_ns,
            rank: *rank,
            world_size: *world_size,
            fractional_ts: *fractional_ts,
            clocks: clocks.clone(),
            report: trace.report.clone(),
            long_arguments: false,
            no_levels: false,
            tables: BTreeMap::new(),
        }
    }
}

impl MemoryEntry {
    /// Manifest entry of a memory trace with its metadata and read report, without tables so far.
    pub(crate) fn new(trace: &MemoryTrace) -> Self {
        let (label, report, tables) = (trace.label.clone(), trace.report.clone(), BTreeMap::new());
        Self {
            label,
            saw_end: trace.saw_end,
            has_accesses: trace.has_accesses,
            allocator_settings: trace.allocator_settings,
            report,
            tables,
        }
    }
}

/// Folder of a memory trace in a run directory.
pub(crate) fn memory_dir(run: &Path, index: usize) -> PathBuf {
    run.join(format!("memory={index}"))
}

/// Folder of the calling context tree in a run directory.
pub(crate) fn calls_dir(run: &Path) -> PathBuf {
    run.join("calls")
}

/// Folder of a trace. The `key=value` form makes `trace` a column for tools that know hive partitions.
pub(crate) fn trace_dir(run: &Path, index: usize) -> PathBuf {
    run.join(format!("trace={index}"))
}

/// True if `path` is a run directory, complete or not, by its content: a manifest with our format, tables in the folder
/// of a first trace, or streams of recorded processes. Another program's `manifest.json` does not count.
pub fn is_run(path: &Path) -> bool {
    let named = || std::fs::read(path.join(FILE)).is_ok_and(|text| contains_bytes(&text, FORMAT.as_bytes()));
    let tables = || {
        let entries = std::fs::read_dir(trace_dir(path, 0)).into_iter().flatten().flatten();
        entries.map(|e| e.path()).any(|p| p.extension().is_some_and(|e| e == "parquet"))
    };
    path.is_dir() && (named() || tables() || has_streams(path))
}

/// True if a directory has streams of recorded processes: a recording, even if the launcher ended before it merged
/// them.
fn has_streams(path: &Path) -> bool {
    let entries = std::fs::read_dir(path.join("streams")).into_iter().flatten().flatten();
    entries.map(|e| e.path()).any(|p| p.extension().is_some_and(|e| e == "slr"))
}

/// True if a text contains a word.
fn contains_bytes(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|w| w == word)
}

/// True if a directory is a run without other content, so that replacing it deletes no other files.
pub(crate) fn is_only_run(path: &Path) -> bool {
    let ours = |name: &str| {
        [FILE, "cache", "calls", "streams", "inject"].contains(&name)
            || name.starts_with("trace=")
            || name.starts_with("memory=")
    };
    let entries = || std::fs::read_dir(path).into_iter().flatten().flatten();
    is_run(path) && entries().all(|e| e.file_name().to_str().is_some_and(ours))
}

/// True if every table in the manifest of a run exists with the listed size; contents are not checked. False without a
/// readable manifest.
pub fn is_complete(run: &Path) -> bool {
    let Ok(manifest) = read_manifest(run) else { return false };
    let intact = |folder: &Path, tables: &BTreeMap<String, TableEntry>| {
        tables.iter().all(|(name, table)| {
            let file = folder.join(format!("{name}.parquet"));
            std::fs::metadata(file).is_ok_and(|m| table.bytes.is_none_or(|bytes| m.len() == bytes))
        })
    };
    let mut traces = manifest.traces.iter().enumerate();
    let mut memory = manifest.memory.iter().enumerate();
    traces.all(|(index, trace)| intact(&trace_dir(run, index), &trace.tables))
        && memory.all(|(index, trace)| intact(&memory_dir(run, index), &trace.tables))
        && manifest.calls.as_ref().is_none_or(|calls| intact(&calls_dir(run), &calls.tables))
}

/// Read the manifest of a run, upgraded to the current version.
pub fn read_manifest(run: &Path) -> Result<Manifest, Error> {
    let path = run.join(FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(missing(run)),
        Err(e) if e.kind() == std::io::ErrorKind::InvalidData => return Err(Error::damaged(&path, "not UTF-8")),
        Err(e) => return Err(Error::io(&path, "read")(e)),
    };
    let value: Value = serde_json::from_str(&text).map_err(|e| Error::damaged(&path, format_args!("not JSON: {e}")))?;
    if value.get("format").and_then(Value::as_str) != Some(FORMAT) {
        let detail = format!("manifest.json lacks \"format\": \"{FORMAT}\"");
        return Err(Error::NotARun { path: run.to_path_buf(), detail });
    }
    verify(&path, &value)?;
    let value = crate::upgrade::upgrade(&path, value)?;
    serde_json::from_value(value).map_err(|e| Error::damaged(&path, e))
}

/// Create the error for a run without a manifest: incomplete if it has the folder of a trace, else not a run.
fn missing(run: &Path) -> Error {
    let path = run.to_path_buf();
    if trace_dir(run, 0).is_dir() {
        return Error::Incomplete { path };
    }
    let detail = if run.is_dir() { "the directory has no manifest.json" } else { "no such directory" };
    Error::NotARun { path, detail: detail.to_owned() }
}

/// Check the checksum of a manifest; version 1 had none.
fn verify(path: &Path, value: &Value) -> Result<(), Error> {
    // Version 1 had no checksum, and those of later versions are unknown.
    let needed = value.get("version").and_then(Value::as_u64).is_some_and(|v| (2..=FORMAT_VERSION.into()).contains(&v));
    match value.get("checksum").and_then(Value::as_str) {
        Some(stored) if stored != checksum(value) => {
            Err(Error::damaged(path, "the checksum does not match the content of the file"))
        }
        None if needed => Err(Error::damaged(path, "the checksum is missing")),
        _ => Ok(()),
    }
}

/// CRC-32 of the manifest without its `checksum`, independent of white space and of the order of keys.
pub(crate) fn checksum(manifest: &Value) -> String {
    let mut text = String::new();
    if let Value::Object(map) = manifest {
        let mut map = map.clone();
        map.remove("checksum");
        canonical(&Value::Object(map), &mut text);
    }
    format!("{:08x}", crc32fast::hash(text.as_bytes()))
}

/// Append a JSON value to the text for the checksum, with sorted keys and without white space.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            for key in keys {
                let _ = write!(out, "{key:?}:");
                canonical(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            items.iter().for_each(|item| canonical(item, out));
            out.push(']');
        }
        scalar => {
            let _ = write!(out, "{scalar},");
        }
    }
}

/// JSON text of a manifest, with its checksum.
pub(crate) fn to_text(manifest: &Manifest) -> Result<String, serde_json::Error> {
    let mut manifest = manifest.clone();
    manifest.checksum = None;
    manifest.checksum = Some(checksum(&serde_json::to_value(&manifest)?));
    let mut text = serde_json::to_string_pretty(&manifest)?;
    text.push('\n');
    Ok(text)
}
