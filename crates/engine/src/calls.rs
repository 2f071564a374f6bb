//! Sums of calls: opens the tables of recordings, or their streams where there are no tables that hold all of them, and profiles.

use crate::open::{is_run, read_options, runs_below};
use crate::{Error, Lacks, OpenOptions, Part, symbols};
use stackline_analyze::calls::ranks_of_calls;
use stackline_ingest::recording;
use stackline_model::CallingContextTree;
use stackline_store::{CallsEntry, WriteOptions};
use stackline_symbols::Symbolizer;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Whether an input is a recording, merged or not, or a profile by its first bytes.
pub(crate) fn is_calls(run: &Path) -> bool {
    is_recording(run) || stackline_ingest::is_profile(run)
}

/// Whether a directory is a recording, merged or not.
pub(crate) fn is_recording(run: &Path) -> bool {
    run.is_dir() && (recording::has_streams(run) || entry(run).is_some())
}

/// The calling context tree of a recording or a profile.
///
/// # Errors
/// If it is neither, nothing of it can be read, or the watch was cancelled.
pub(crate) fn open_calls(run: &Path, options: &OpenOptions) -> Result<CallingContextTree, Error> {
    let lacks = |has: &[Part]| Err(Lacks::new(run, Part::Profile, has).into());
    let is_file_or_pipe = run.exists() && !run.is_dir() || run == Path::new("-");
    if is_file_or_pipe {
        return match stackline_ingest::read_profile(run, &read_options(options)) {
            Err(stackline_ingest::Error::Cancelled) => Err(Error::Cancelled),
            Err(stackline_ingest::Error::OnlyMemory { .. }) if run.is_file() => lacks(&[Part::Memory]),
            Err(stackline_ingest::Error::NoCalls { .. }) => lacks(&[Part::Traces]),
            other => Ok(other?),
        };
    }
    if !recording::has_streams(run) {
        let has = if crate::memory::is_alone(run).unwrap_or(false) { Part::Memory } else { Part::Traces };
        return stackline_store::read_calls(run)?.map_or_else(|| lacks(&[has]), Ok);
    }
    // A process may have written on since the tables were made, and whoever made them may have been killed half-way.
    // Streams name native code, which older tables did not.
    if entry(run).is_some_and(|entry| entry.streams == sizes(run) && !entry.unnamed)
        && let Ok(Some(tree)) = stackline_store::read_calls(run)
    {
        return Ok(tree);
    }
    Ok(symbols::named(recording::read_recording(run)?, &Symbolizer::new()))
}

/// Of several recordings that hold sums of calls that with a process of this rank; none where inputs are anything else.
///
/// # Errors
/// If no process is of that rank, processes of several recordings are, or a recording cannot be read.
pub(crate) fn recording_of_rank(
    inputs: &[PathBuf],
    wanted: i64,
    options: &OpenOptions,
) -> Result<Option<PathBuf>, Error> {
    let is_of_sums = |run: &PathBuf| is_recording(run) && (!recording::has_streams(run) || recording::is_of_sums(run));
    let below = |input: &PathBuf| if is_run(input) { vec![input.clone()] } else { runs_below(input) };
    let runs: Vec<PathBuf> = inputs.iter().filter(|input| input.is_dir()).flat_map(below).collect();
    if runs.len() < 2 || inputs.iter().any(|input| !input.is_dir()) || !runs.iter().all(is_of_sums) {
        return Ok(None);
    }
    let (mut available, mut found) = (Vec::new(), Vec::new());
    for run in runs {
        let ranks = ranks_of_calls(&open_calls(&run, options)?);
        if ranks.contains(&wanted) {
            found.push(run);
        }
        available.extend(ranks);
    }
    if found.len() > 1 {
        let choices: Vec<String> = found.iter().map(|run| run.display().to_string()).collect();
        let reason = format!("{} recordings have a rank {wanted}", choices.len());
        return Err(Error::NotOneJob { reason, choices, several: false });
    }
    available.sort_unstable();
    available.dedup();
    found.pop().map(Some).ok_or(Error::NoRank { wanted, available })
}

/// Merges the streams of a recording, names its native code while its libraries are at hand, and keeps the result in
/// it. The streams stay.
///
/// # Errors
/// If there are no streams, if none can be read, or if the tables cannot be written.
pub fn merge_calls(run: &Path) -> Result<CallingContextTree, Error> {
    let sizes = sizes(run);
    let tree = symbols::named(recording::read_recording(run)?, &Symbolizer::new());
    stackline_store::write_calls(&tree, run, sizes, &WriteOptions { sync: false, ..WriteOptions::default() })?;
    Ok(tree)
}

fn entry(run: &Path) -> Option<CallsEntry> {
    stackline_store::read_manifest(run).ok()?.calls
}

/// The streams of a run and their sizes.
fn sizes(run: &Path) -> BTreeMap<String, u64> {
    let streams = recording::streams(run).unwrap_or_default();
    let size = |path: &PathBuf| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some((name, std::fs::metadata(path).ok()?.len()))
    };
    streams.iter().filter_map(size).collect()
}
