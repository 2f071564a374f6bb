//! Opening of call trees: of recordings from their tables, or from their streams if the tables are missing or outdated,
//! and of profiles. Storage of profiles as run directories.

use crate::open::{is_run, read_options, runs_below};
use crate::requirements::read_error;
use crate::{Error, Lacks, OpenOptions, Part, symbols};
use stackline_calls::ranks_of_calls;
use stackline_ingest::recording;
use stackline_ingest::sources::part_readers;
use stackline_model::CallingContextTree;
use stackline_store::{CallsEntry, WriteOptions};
use stackline_symbols::Symbolizer;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// True if an input contains a call tree: a recording (merged or not), or a profile according to its first bytes.
pub(crate) fn is_calls(run: &Path) -> bool {
    is_recording(run) || stackline_ingest::is_profile(run)
}

/// True if a path is the directory of a recording with streams, or a run directory with a call tree.
pub(crate) fn is_recording(run: &Path) -> bool {
    part_readers(run).is_some() || run.is_dir() && entry(run).is_some()
}

/// True if a path is a profile: a file, or a run directory with a call tree that was not merged from streams.
pub(crate) fn is_profile(path: &Path) -> bool {
    !path.is_dir() || part_readers(path).is_none() && entry(path).is_some_and(|entry| entry.streams.is_empty())
}

/// Open the calling context tree of a recording or a profile.
///
/// # Errors
/// If the input is neither or cannot be read, or if the watch was canceled.
pub(crate) fn open_calls(run: &Path, options: &OpenOptions) -> Result<CallingContextTree, Error> {
    let is_file_or_pipe = run.exists() && !run.is_dir() || run == Path::new("-");
    if is_file_or_pipe {
        return stackline_ingest::read_profile(run, &read_options(options))
            .map_err(|error| read_error(error, &[run.to_owned()], Part::Profile));
    }
    let Some(readers) = part_readers(run) else {
        let has = if crate::memory::is_memory_only(run).unwrap_or(false) { Part::Memory } else { Part::Traces };
        return stackline_store::read_calls(run)?.ok_or_else(|| Lacks::new(run, Part::Profile, [has]).into());
    };
    // A process may have written more since the tables were made, or the writer of the tables may have been killed.
    // Native frames in streams get names, which older tables lack.
    if entry(run).is_some_and(|entry| entry.streams == sizes(run) && !entry.unnamed)
        && let Ok(Some(tree)) = stackline_store::read_calls(run)
    {
        return Ok(tree);
    }
    Ok(symbols::symbolize((readers.calls)(run)?, &Symbolizer::new()))
}

/// Find the recording that contains the process of this rank, among several recordings without individual calls. `None`
/// for any other inputs.
///
/// # Errors
/// If no process or processes of several recordings have the rank, or a recording cannot be read.
pub(crate) fn recording_of_rank(
    inputs: &[PathBuf],
    requested: i64,
    options: &OpenOptions,
) -> Result<Option<PathBuf>, Error> {
    let is_of_sums = |run: &PathBuf| is_recording(run) && (part_readers(run).is_none() || recording::is_of_sums(run));
    let below = |input: &PathBuf| if is_run(input) { vec![input.clone()] } else { runs_below(input) };
    let runs: Vec<PathBuf> = inputs.iter().filter(|input| input.is_dir()).flat_map(below).collect();
    if runs.len() < 2 || inputs.iter().any(|input| !input.is_dir()) || !runs.iter().all(is_of_sums) {
        return Ok(None);
    }
    let (mut available, mut found) = (Vec::new(), Vec::new());
    for run in runs {
        let ranks = ranks_of_calls(&open_calls(&run, options)?);
        if ranks.contains(&requested) {
            found.push(run);
        }
        available.extend(ranks);
    }
    if found.len() > 1 {
        let choices: Vec<String> = found.iter().map(|run| run.display().to_string()).collect();
        let reason = format!(
            "{} recordings contain a rank {requested}, so it is unknown which of these ranks to show",
            choices.len()
        );
        return Err(Error::NotOneJob { reason, choices, several: false });
    }
    available.sort_unstable();
    available.dedup();
    found.pop().map(Some).ok_or(Error::NoRank { requested, available })
}

/// Merge the streams of a recording, symbolize native frames while their libraries are at hand, and store the result in
/// the recording. The streams remain.
///
/// # Errors
/// If there are no readable streams, or if the tables cannot be written.
pub fn merge_calls(run: &Path) -> Result<CallingContextTree, Error> {
    let sizes = sizes(run);
    let tree = symbols::symbolize(recording::read_recording(run)?, &Symbolizer::new());
    stackline_store::write_calls(&tree, run, sizes, &WriteOptions { sync: false, ..WriteOptions::default() })?;
    Ok(tree)
}

/// Write a calling context tree, such as that of a profile, as a run directory without traces, completely or not at
/// all.
///
/// # Errors
/// If the target exists and is not a run or must stay, if the operating system refuses (disk full), or if
/// `options.cancel` became true.
pub fn save_profile(tree: &CallingContextTree, run: &Path, options: &WriteOptions) -> Result<(), Error> {
    match stackline_store::write_profile(tree, run, options) {
        Err(stackline_store::Error::Cancelled) => Err(Error::Cancelled),
        other => Ok(other?),
    }
}

/// Entry of the calling context tree in the manifest of a run, if any.
fn entry(run: &Path) -> Option<CallsEntry> {
    stackline_store::read_manifest(run).ok()?.calls
}

/// Size in bytes of each stream of a recording, by file name.
fn sizes(run: &Path) -> BTreeMap<String, u64> {
    let streams = recording::streams(run).unwrap_or_default();
    let size = |path: &PathBuf| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some((name, std::fs::metadata(path).ok()?.len()))
    };
    streams.iter().filter_map(size).collect()
}
