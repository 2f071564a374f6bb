//! Merge of a recording's streams (`stackline_recording`) into one calling context tree.
//!
//! Damaged chunks of a stream are skipped. Missing records and killed processes are listed in the tree's read report.

mod ends;
mod missing_records;
mod recorder_frames;
mod stream;
mod table;
mod thread_names;
mod trace;

use crate::{Error, diagnostics};
use ends::Ends;
pub use ends::SignaledProcess;
use stackline_model::{CallingContextTree, CallingContextTreeBuilder, ReadReport};
pub use stackline_recording::{BEGIN, Begin, COUNTERS, LEAST_UNRECORDED_STEPS, MAX_COUNTERS, boot};
use stackline_recording::{HEADER, Reader, Record};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use stream::Stream;
pub use trace::{TracesAndMemory, is_shown_by, memory_of, read_memory, read_traces, read_traces_and_memory, traces_of};

/// Folder of a run directory with the streams.
pub const FOLDER: &str = "streams";
/// File extension of streams.
const EXTENSION: &str = "slr";

/// Paths of the recorder's streams in a run directory, sorted by name; empty if there are none.
///
/// # Errors
/// If the folder cannot be listed.
pub fn streams(run: &Path) -> Result<Vec<PathBuf>, Error> {
    let folder = run.join(FOLDER);
    let located = |source| Error::Io { path: folder.clone(), source };
    let mut found = Vec::new();
    match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(located(error)),
        Ok(entries) => {
            for entry in entries {
                let path = entry.map_err(located)?.path();
                if path.extension().is_some_and(|extension| extension == EXTENSION) && path.is_file() {
                    found.push(path);
                }
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Check if a directory contains streams of the recorder.
pub(crate) fn has_streams(run: &Path) -> bool {
    streams(run).is_ok_and(|streams| !streams.is_empty())
}

/// Check if a run directory has streams, and none has individual calls, samples, memory accesses or operations of
/// devices. The heads of their blocks decide; a stream that cannot be checked counts as one with individual records.
pub fn is_of_sums(run: &Path) -> bool {
    let is_of_sums = |path: &PathBuf| {
        let stream = File::open(path).map(|file| BufReader::with_capacity(1 << 18, file));
        stream.is_ok_and(|mut stream| Reader::has_single_records(&mut stream) == Some(false))
    };
    streams(run).is_ok_and(|streams| !streams.is_empty() && streams.iter().all(is_of_sums))
}

/// Merge all streams of a run directory. Processes are sorted by their start, so the same streams give the same tree.
///
/// # Errors
/// If there are no streams, or none of them can be read.
pub fn read_recording(run: &Path) -> Result<CallingContextTree, Error> {
    let paths = streams(run)?;
    let mut failed = None;
    let mut order = Vec::new();
    for (index, path) in paths.iter().enumerate() {
        match head(path) {
            Ok(head) => order.push((start_and_pid(&head), index)),
            Err(source) => failed = Some(Error::Io { path: path.clone(), source }),
        }
    }
    if order.is_empty() {
        return Err(failed.unwrap_or_else(|| Error::NoStreams { path: run.to_owned() }));
    }
    order.sort_unstable();
    let mut builder = CallingContextTreeBuilder::new();
    let ends = Ends::read(run);
    if let Some(error) = failed {
        diagnostics::UNREADABLE_STREAM.count(builder.report(), None, &error.to_string());
    }
    for (_, index) in order {
        let name = paths[index].file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match std::fs::read(&paths[index]) {
            Ok(file) => add_stream(&mut builder, &name, &file, &ends),
            Err(error) => diagnostics::UNREADABLE_STREAM.count(builder.report(), None, &format!("{name}: {error}")),
        }
    }
    Ok(builder.finish())
}

/// Merge streams in memory in the given order, each with a name for the read report.
pub fn read_streams<'a>(streams: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> CallingContextTree {
    let mut builder = CallingContextTreeBuilder::new();
    for (name, file) in streams {
        add_stream(&mut builder, name, file, &Ends::default());
    }
    builder.finish()
}

/// Read the first MiB of a stream, whose first chunk describes the process.
fn head(path: &Path) -> io::Result<Vec<u8>> {
    const FIRST_CHUNK: u64 = 1 << 20;
    let mut head = Vec::new();
    File::open(path)?.take(FIRST_CHUNK).read_to_end(&mut head)?;
    Ok(head)
}

/// Start (ns since 1970) and PID of a stream's process; streams without them are sorted last.
fn start_and_pid(file: &[u8]) -> (i64, u32) {
    match Reader::new(file).ok().and_then(|mut reader| reader.next()) {
        Some(Record::Process(process)) => (process.start_unix_ns, process.pid),
        _ => (i64::MAX, u32::MAX),
    }
}

/// Merge all records of one stream into the call tree; problems and the end of the process are counted in its report.
fn add_stream(builder: &mut CallingContextTreeBuilder, name: &str, file: &[u8], ends: &Ends) {
    let Some(mut reader) = open_stream(name, file, builder.report()) else { return };
    let mut stream = Stream::default();
    while let Some(record) = reader.next() {
        builder.report().records += 1;
        stream.add(builder, name, record, reader.skipped());
    }
    note_unread(name, &reader, file.len(), builder.report());
    stream.finish(builder, name, ends);
}

/// Create the reader of a stream; `None` if the file is not a stream, with the reason in the report.
fn open_stream<'a>(name: &str, file: &'a [u8], report: &mut ReadReport) -> Option<Reader<'a>> {
    report.bytes += file.len() as u64;
    if file.len() < HEADER.len() && HEADER.starts_with(file) {
        diagnostics::EMPTY_STREAM.count(report, None, name);
        return None;
    }
    let unreadable = |error| diagnostics::UNREADABLE_STREAM.count(report, Some(0), &format!("{name}: {error}"));
    Reader::new(file).map_err(unreadable).ok()
}

/// Count the damaged parts of a stream, and its records of unknown kinds.
fn note_unread(name: &str, reader: &Reader<'_>, size: usize, report: &mut ReadReport) {
    for (kind, count) in reader.unknown() {
        diagnostics::UNKNOWN_STATEMENT.count_many(
            report,
            count,
            None,
            &format!("{name} contains records of kind {kind}, which is unknown"),
        );
    }
    for damage in reader.damages() {
        if damage.at + damage.bytes == size {
            let example = format!("{name}: the last {} bytes cannot be read", damage.bytes);
            diagnostics::CUT_STREAM.count(report, Some(damage.at as u64), &example);
        } else {
            let example = format!("{name}: {} bytes from byte {} on cannot be read", damage.bytes, damage.at);
            diagnostics::DAMAGED_CHUNK.count(report, Some(damage.at as u64), &example);
        }
    }
}
