//! Grouping of files by run: files that are read together, and redundant copies of a profile in other formats.

use crate::sources::{Content, File, Reader, Source, rocprofv3};
use crate::{Error, ReadOptions, diagnostics, sources, temporary_copy};
use stackline_model::Trace;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use tempfile::SpooledTempFile;

/// A file of a run, kept until all files are known.
pub(crate) struct PendingFile {
    source: &'static Source,
    /// The input that contains the file: the file itself, or an archive.
    path: PathBuf,
    label: String,
    kept: Kept,
    /// Error at which the stream ended.
    broken: Option<io::Error>,
}

enum Kept {
    /// The file itself is read again.
    File,
    /// Copy of a stream.
    Copy(SpooledTempFile),
}

impl PendingFile {
    /// Keep a file for reading with the others of its run. `stream` is its complete content, which is copied unless it
    /// is the plain file at the path.
    pub(crate) fn new(
        source: &'static Source,
        path: &Path,
        label: &str,
        stream: impl Read,
        is_plain: bool,
        options: &ReadOptions,
    ) -> Result<Self, Error> {
        let mut broken = None;
        let kept = if is_plain {
            Kept::File
        } else {
            let mut copy = SpooledTempFile::new(temporary_copy::UNCHECKED);
            broken = temporary_copy::copy(label, stream, &mut copy)?;
            copy.rewind().map_err(|source| Error::Io { path: label.into(), source })?;
            Kept::Copy(copy)
        };
        if options.is_cancelled() {
            return Err(Error::Cancelled);
        }
        Ok(Self { source, path: path.to_owned(), label: label.to_owned(), kept, broken })
    }

    /// Folder of the input that contains the file; `.` for a path without a folder.
    fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
            Some(folder) => folder,
            None => &self.path,
        }
    }

    /// Name of the file's run by the rules of its format; the file's own label without such a rule.
    fn run(&self) -> &str {
        (self.source.run_of)(&self.label).unwrap_or(&self.label)
    }

    /// Open the file or its copy from the beginning; the stream with its size in bytes.
    fn open(&mut self) -> io::Result<(Box<dyn Read + '_>, u64)> {
        match &mut self.kept {
            Kept::File => {
                let file = std::fs::File::open(&self.path)?;
                let size = file.metadata()?.len();
                Ok((Box::new(file), size))
            }
            Kept::Copy(copy) => {
                let size = copy.seek(io::SeekFrom::End(0))?;
                copy.rewind()?;
                Ok((Box::new(copy), size))
            }
        }
    }
}

/// File name of a path; empty if the path has none.
fn name(path: &Path) -> std::borrow::Cow<'_, str> {
    path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default()
}

/// Traces of the runs with their paths, and skipped runs with the reason.
#[derive(Default)]
pub(crate) struct Runs {
    pub(crate) traces: Vec<(String, Trace)>,
    pub(crate) skipped: Vec<(String, Error)>,
}

/// Read the runs of the collected files, in the order of each run's first file.
///
/// # Errors
/// If the caller stopped the read.
pub(crate) fn read(parts: Vec<PendingFile>, options: &ReadOptions) -> Result<Runs, Error> {
    let mut of_run: BTreeMap<(PathBuf, String), usize> = BTreeMap::new();
    let mut groups: Vec<Vec<PendingFile>> = Vec::new();
    for part in parts {
        // A folder may be given by several paths.
        let folder = part.folder().canonicalize().unwrap_or_else(|_| part.folder().to_owned());
        let at = *of_run.entry((folder, part.run().to_owned())).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => group.push(part),
            None => groups.push(vec![part]),
        }
    }
    let mut runs = Runs::default();
    for mut parts in groups {
        let Some(first) = parts.first() else { continue };
        let label = if parts.len() == 1 { first.label.clone() } else { first.run().to_owned() };
        let place = first.folder().join(&label).display().to_string();
        match read_run(&label, &mut parts, options) {
            Ok(traces) => runs.traces.extend(traces.into_iter().map(|trace| (place.clone(), trace))),
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(error) => runs.skipped.push((label, error)),
        }
    }
    Ok(runs)
}

/// Read the files of one run together; missing and damaged files are counted in the first trace.
fn read_run(label: &str, parts: &mut [PendingFile], options: &ReadOptions) -> Result<Vec<Trace>, Error> {
    let Some(source) = parts.first().map(|part| part.source) else { return Ok(Vec::new()) };
    let Reader::Traces(read) = source.read else { return Ok(Vec::new()) };
    let missing = missing_files(parts);
    let broken: Vec<String> =
        parts.iter_mut().filter_map(|part| Some(format!("{}: {}", part.label, part.broken.take()?))).collect();
    let (mut files, mut bytes) = (Vec::new(), 0);
    for part in parts.iter_mut() {
        let name = part.label.clone();
        let (stream, size) = part.open().map_err(|source| Error::Io { path: name.clone().into(), source })?;
        bytes += size;
        files.push(File { name, stream });
    }
    let mut traces = read(label, Content::Files(files), options)?;
    if let Some(first) = traces.first_mut() {
        first.report.bytes = bytes;
        broken.iter().for_each(|error| diagnostics::DAMAGED_STREAM.count(&mut first.report, None, error));
        for path in &missing {
            diagnostics::PART_NOT_GIVEN.count(&mut first.report, None, &path.display().to_string());
        }
        first.report.sort();
    }
    Ok(traces)
}

/// Other files in the folder that belong to the run of these files, but were not given.
fn missing_files(parts: &[PendingFile]) -> Vec<PathBuf> {
    let Some(first) = parts.iter().find(|part| part.label.ends_with(&*name(&part.path))) else { return Vec::new() };
    let run_of = |name: &str| (first.source.run_of)(name).map(str::to_owned);
    let run = run_of(&name(&first.path));
    let given: Vec<_> = parts.iter().map(|part| name(&part.path)).collect();
    let files = first.folder().read_dir().into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let is_missing = |path: &PathBuf| {
        run.is_some()
            && run_of(&name(path)) == run
            && !given.contains(&name(path))
            && crate::input::could_be_trace(path)
    };
    let mut missing: Vec<PathBuf> = files.filter(is_missing).collect();
    missing.sort();
    missing
}

/// File suffixes of XProf's profiles, next to which it writes a trace.
const PROFILES: &[&str] = &[".xplane.pb", ".xplane.pb.gz", ".xplane.pb.zst"];
const TRACES_OF_PROFILES: &[&str] = &[".trace.json.gz", ".trace.json"];
/// File suffixes of `rocprofv3` for one process.
const DOCUMENTS: &[&str] = &["_results.json", "_results.json.gz", "_results.json.zst"];
const DATABASES: &[&str] = &["_results.db"];

/// Common part of the names of all files that are read together: those of one run, or other formats of the same
/// profile. The whole name if there are none.
#[must_use]
pub fn run_of(name: &str) -> &str {
    let forms = [PROFILES, TRACES_OF_PROFILES, DOCUMENTS, DATABASES];
    let of_form = || forms.iter().flat_map(|ends| ends.iter()).find_map(|end| name.strip_suffix(end));
    sources::ALL.iter().find_map(|source| (source.run_of)(name)).or_else(of_form).unwrap_or(name)
}

/// Common path of a profile's files, from the path of a trace, and the priority of the trace's format (0 is the most
/// detailed). `None` for traces with only one format.
fn profile_and_priority(place: &str, trace: &Trace) -> Option<(String, usize)> {
    let before = |ends: &[&str]| ends.iter().find_map(|end| place.find(end)).map(|at| place[..at].to_owned());
    let of_tables = || rocprofv3::run_of(place).unwrap_or(place).to_owned();
    let (stem, rank) = match trace.meta.format.as_str() {
        rocprofv3::FORMAT => match (before(DOCUMENTS), before(DATABASES)) {
            (Some(stem), _) => (Some(stem), 0),
            (None, Some(stem)) => (Some(stem), 1),
            (None, None) => (Some(of_tables()), 2),
        },
        "xplane" => (before(PROFILES), 0),
        _ => (before(TRACES_OF_PROFILES), 1),
    };
    Some((stem?, rank))
}

/// Drop traces of a profile that also exists in a better format, in a folder or archive. `placed` has traces with their
/// paths.
pub(crate) fn drop_redundant_forms(placed: Vec<(String, Trace)>) -> Vec<Trace> {
    // Events of each format, per profile.
    let mut forms: BTreeMap<String, BTreeMap<usize, usize>> = BTreeMap::new();
    for (place, trace) in &placed {
        if let Some((stem, rank)) = profile_and_priority(place, trace) {
            // XProf derives the trace next to a profile from it, so its number of events does not matter.
            let events = if trace.meta.format == rocprofv3::FORMAT { trace.events.len() } else { 0 };
            *forms.entry(stem).or_default().entry(rank).or_default() += events;
        }
    }
    // A truncated or less detailed recording has fewer events; with equal numbers the more detailed format is kept.
    let best = |stem: &str| {
        let most = forms.get(stem)?.iter().max_by_key(|&(&rank, &events)| (events, std::cmp::Reverse(rank)))?;
        Some(*most.0)
    };
    let is_other = |(place, trace): &(String, Trace)| {
        profile_and_priority(place, trace).is_some_and(|(stem, rank)| best(&stem) != Some(rank))
    };
    let (left_out, kept): (Vec<_>, Vec<_>) = placed.into_iter().partition(is_other);
    let mut traces: Vec<Trace> = kept.into_iter().map(|(_, trace)| trace).collect();
    if let Some(first) = traces.first_mut() {
        for (_, trace) in left_out {
            diagnostics::SAME_PROFILE.count(&mut first.report, None, &trace.meta.name);
        }
        first.report.sort();
    }
    traces
}
