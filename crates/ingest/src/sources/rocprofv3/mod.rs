//! Reader of rocprofv3 recordings (ROCprofiler-SDK) of AMD GPUs, in three formats: JSON, CSV tables, and SQLite
//! (rocpd).
//!
//! Kernels, copies, calls and marks are the same in all of them (`events`), and so are samples of instructions
//! (`samples`). See `docs/formats/rocprofv3.md`.

mod agents;
mod csv_files;
mod csv_table;
mod database;
mod events;
mod instructions;
mod json;
mod json_samples;
mod samples;

use super::processes::{self, Processes};
use super::{Content, File, Sniff, tables};
use crate::{Error, ReadOptions};
use stackline_model::Trace;

/// Format name in the metadata of traces.
pub(crate) const FORMAT: &str = "rocprofv3";

/// Detect a rocprofv3 recording, or one file of a recording.
pub(crate) fn sniff(content: &Content<'_>) -> Sniff {
    match content {
        Content::Bytes { head, .. } if json::is_document(head) => {
            Sniff::Yes("the file has the key rocprofiler-sdk-tool")
        }
        Content::Bytes { head, .. } if csv_files::table(head).is_some() => {
            Sniff::Yes("the first line has the column names of a CSV file that rocprofv3 writes")
        }
        Content::Tables(file) if database::is_recording(file) => {
            Sniff::Yes("the file has the table rocpd_info_agent and related tables")
        }
        _ => Sniff::No,
    }
}

/// Run of a file by its name, if runs of its format have several files.
pub(crate) fn run_of(name: &str) -> Option<&str> {
    csv_files::run_of(name)
}

/// Read the traces of a recording, one per process.
pub(crate) fn open(name: &str, content: Content<'_>, options: &ReadOptions) -> Result<Vec<Trace>, Error> {
    let mut processes = Processes::new(options);
    let mut broken = None;
    let database = if let Content::Tables(file) = &content { Some(*file) } else { None };
    match content {
        Content::Bytes { head, stream } if json::is_document(head) => {
            let (read, error) = json::read(stream, &mut processes);
            broken = error;
            read.into_iter().for_each(|process| process.push(&mut processes));
        }
        Content::Bytes { stream, .. } => {
            csv_files::read(vec![File { name: name.to_owned(), stream: Box::new(stream) }], &mut processes);
        }
        Content::Files(files) => csv_files::read(files, &mut processes),
        Content::Tables(file) => {
            tables::note_truncation(file, &mut processes);
            database::read(file, &mut processes);
        }
        Content::Directory(_) => {}
    }
    processes.all().for_each(|process| events::split_queues(&mut process.trace));
    processes.all().for_each(|process| process.device = process.devices().min());
    if options.is_cancelled() {
        return Err(Error::Cancelled);
    }
    let why = processes.reason_if_empty("record with rocprofv3 --kernel-trace --hip-trace --memory-copy-trace");
    let mut traces = processes.traces(FORMAT, name);
    if let (Some(file), Some((_, first))) = (database, traces.first_mut()) {
        database::note_unread(file, &mut first.report);
    }
    if traces.is_empty() {
        let without = || format!("the rocprofv3 recording contains no kernels, copies or API calls: {why}");
        let cut = |error| format!("the rocprofv3 recording is truncated or damaged before its first record: {error}");
        let reason = broken.map_or_else(without, cut);
        return Err(Error::Malformed { path: name.into(), reason, offset: 0 });
    }
    traces.iter_mut().for_each(|(_, trace)| processes::seal(trace, options));
    Ok(traces.into_iter().map(|(_, trace)| trace).collect())
}
