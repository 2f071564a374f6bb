//! Reading of SQLite databases, from their files or from copies of streams: tables are read in any order.

use crate::content_kinds::ContentKind;
use crate::input::{SNIFF, Stream, source};
use crate::sources::{Content, Reader};
use crate::unsupported::READS;
use crate::{Error, ReadOptions, diagnostics, temporary_copy};
use stackline_model::Trace;
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// Read an SQLite database from its file, or without one from a copy of the stream.
pub(crate) fn read(
    label: &str,
    file: Option<&Path>,
    stream: Stream<'_>,
    options: &ReadOptions,
) -> Result<Vec<Trace>, Error> {
    let (mut copy, mut broken) = (None, None);
    let path: PathBuf = match file {
        Some(path) => path.to_owned(),
        None => {
            let (path, error) = copy_of(label, stream, options)?;
            broken = error;
            copy.insert(path).to_path_buf()
        }
    };
    let mut traces = read_file(label, &path, broken.as_deref(), options);
    let size = path.metadata().map_or(0, |meta| meta.len());
    match (traces.as_deref_mut(), &broken) {
        (Ok([first, ..]), _) => {
            first.report.bytes = size;
            if let Some(log) = file.and_then(stackline_sqlite::unmerged_log) {
                diagnostics::UNMERGED_LOG.count(&mut first.report, None, &log.display().to_string());
                first.report.sort();
            }
            if let Some(error) = &broken {
                diagnostics::DAMAGED_STREAM.count(&mut first.report, None, error);
                first.report.sort();
            }
        }
        (Err(Error::Malformed { reason, .. }), Some(error)) => {
            reason.push_str(&format!(" (the input breaks off: {error})"));
        }
        _ => {}
    }
    if file.is_some()
        && let Some(progress) = &options.progress
    {
        progress(size.saturating_sub(SNIFF as u64));
    }
    if options.is_cancelled() { Err(Error::Cancelled) } else { traces }
}

/// Copy a stream to a temporary file, and return the error at which the stream ended. A truncated database is read as
/// far as possible: SQLite reports the truncation.
fn copy_of(label: &str, stream: Stream<'_>, options: &ReadOptions) -> Result<(TempPath, Option<String>), Error> {
    let io = |source| Error::Io { path: label.into(), source };
    let mut file = tempfile::NamedTempFile::new().map_err(|error| temporary_copy::failure(label, error.to_string()))?;
    let broken = temporary_copy::copy(label, stream, &mut file)?;
    if options.is_cancelled() {
        return Err(Error::Cancelled);
    }
    match broken {
        Some(error) if file.as_file().metadata().map_err(io)?.len() == 0 => Err(io(error)),
        broken => Ok((file.into_temp_path(), broken.map(|error| error.to_string()))),
    }
}

/// Read the tables of a database with the reader of its profiler.
fn read_file(label: &str, path: &Path, broken: Option<&str>, options: &ReadOptions) -> Result<Vec<Trace>, Error> {
    let damaged = |reason: String| Error::Malformed { path: label.into(), reason, offset: 0 };
    let tables = stackline_sqlite::Database::open(path).map_err(|error| {
        damaged(format!("the SQLite database cannot be read: {error}. If it is still being written or was only partly copied, give the complete file"))
    })?;
    let content = Content::Tables(&tables);
    let Some(source) = source(label, &content)? else {
        if tables.is_cut() || broken.is_some() {
            return Err(damaged(
                "the SQLite database is truncated and contains no known table; give the complete file".to_owned(),
            ));
        }
        let names: Vec<&str> = tables.tables().take(8).collect();
        let names = if names.is_empty() { "no tables".to_owned() } else { format!("the tables {}", names.join(", ")) };
        let found = format!("the SQLite database is not from a known profiler (it contains {names})");
        return Err(Error::Unsupported { path: label.into(), found, advice: READS.to_owned() });
    };
    match source.read {
        Reader::Traces(read) => read(label, content, options),
        Reader::Calls(_) => Err(ContentKind::Profile.refusal(label)),
        Reader::Memory(_) => Err(ContentKind::Memory.refusal(label)),
        Reader::Parts(_) => Err(Error::NoTrace { path: label.into() }),
    }
}
