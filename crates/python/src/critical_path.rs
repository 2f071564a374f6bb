//! Critical paths by method `hta` for Python.

use crate::errors::{analysis_error, engine_error, read_error};
use crate::run::NativeRun;
use crate::table::NativeTable;
use crate::worker::{quiet, settled};
use flate2::Compression;
use flate2::write::GzEncoder;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stackline_critical_path::hta;
use stackline_critical_path::hta::{CriticalPath, HtaOptions, OverlayMode};
use stackline_critical_path::{CriticalPathError, Edit, Instances, Warning};
use stackline_engine::Progress;
use stackline_present::exports::overlay::{OverlayError, OverlaySummary, write_overlay};
use stackline_present::{TraceInfo, TraceNote};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A dependency graph and its critical path. Immutable.
#[pyclass(frozen, name = "CriticalPath", module = "stackline._native")]
pub(crate) struct NativeCriticalPath {
    path: Arc<CriticalPath>,
    /// Metadata of the trace, which is saved with the path.
    note: Option<TraceNote>,
}

/// Convert a critical-path error to the Python exception `AnalysisError`.
pub(crate) fn critical_path_error(py: Python<'_>, error: &CriticalPathError) -> PyErr {
    analysis_error(py, &error.to_string())
}

/// Compute the critical path of one trace of a run. `instance` is a range with both ends included.
#[pyfunction]
#[pyo3(signature = (run, rank, annotation, instance, zero_weight_launch_edges, data_load_events, include_last_profiler_step))]
#[expect(clippy::too_many_arguments, reason = "Python callers name the arguments; a struct would only copy them")]
pub(crate) fn critical_path(
    py: Python<'_>,
    run: &Bound<'_, NativeRun>,
    rank: Option<i64>,
    annotation: String,
    instance: Option<(usize, usize)>,
    zero_weight_launch_edges: bool,
    data_load_events: Vec<String>,
    include_last_profiler_step: bool,
) -> PyResult<NativeCriticalPath> {
    let run = run.get();
    let at = position(py, run, rank)?;
    let instance = instance.map(|(a, b)| if a == b { Instances::One(a) } else { Instances::Range(a, b) });
    let options =
        HtaOptions { annotation, instance, zero_weight_launch_edges, data_load_events, include_last_profiler_step };
    let set = Arc::clone(&run.set);
    let trace = &run.set.traces[at];
    let info = TraceInfo::new(trace, run.ranks.get(at).copied().unwrap_or_default());
    let note = TraceNote { info, read_report: trace.report.clone() };
    let found = quiet(py, &Progress::new(), move || hta::analyze(&set.traces[at], &options))?;
    found.map(|path| NativeCriticalPath::new(path, Some(note))).map_err(|e| critical_path_error(py, &e))
}

/// Position in the run of the trace of `rank`; without a rank, of the only trace. Error if the run has several.
pub(crate) fn position(py: Python<'_>, run: &NativeRun, rank: Option<i64>) -> PyResult<usize> {
    run.needs_traces(py)?;
    match rank {
        Some(rank) => run.position(py, rank),
        None if run.ranks.len() == 1 => Ok(0),
        None => {
            let count = run.ranks.len();
            Err(PyValueError::new_err(format!("the run has {count} ranks; select one with rank=")))
        }
    }
}

impl NativeCriticalPath {
    fn new(path: CriticalPath, note: Option<TraceNote>) -> Self {
        Self { path: Arc::new(path), note }
    }
}

#[pymethods]
impl NativeCriticalPath {
    /// Dictionary that describes the critical path: window, length, causes of its time, numbers of edges and nodes,
    /// warnings.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (path, dict) = (&self.path, PyDict::new(py));
        let (bounds, by_us) = (PyDict::new(py), PyDict::new(py));
        for share in path.breakdown().bound_by {
            bounds.set_item(&share.name, share.percent)?;
            by_us.set_item(&share.name, share.weight_us)?;
        }
        let (edges, path_edges) = (PyDict::new(py), PyDict::new(py));
        for (kind, count) in path.edges_by_type() {
            edges.set_item(kind.name(), count)?;
            path_edges.set_item(kind.name(), path.path_edges().filter(|e| e.kind == kind).count())?;
        }
        dict.set_item("method", &path.method)?;
        dict.set_item("rule_set", &path.rule_set)?;
        dict.set_item("window_ns", path.window_ns())?;
        dict.set_item("window", (path.window_start_ns, path.window_end_ns))?;
        dict.set_item("weight_us", path.path.weight_us)?;
        dict.set_item("bound_by", bounds)?;
        dict.set_item("bound_by_us", by_us)?;
        dict.set_item("edges", edges)?;
        dict.set_item("path_edges", path_edges)?;
        dict.set_item("path_nodes", path.path.nodes.len())?;
        dict.set_item("path_events", path.path_events().len())?;
        let warnings: Vec<_> = path.warnings.iter().map(warning).collect();
        dict.set_item("warnings", warnings)?;
        Ok(dict)
    }

    /// Tables of the critical path in display order.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<NativeTable>> {
        let path = Arc::clone(&self.path);
        let tables = quiet(py, &Progress::new(), move || path.tables())?;
        tables.iter().map(NativeTable::from_model).collect()
    }

    /// Critical path predicted by changing edge weights of the dependency graph; each edit is text such as `gpu=x0.5`.
    fn what_if(&self, py: Python<'_>, edits: Vec<String>) -> PyResult<Self> {
        let edits: Result<Vec<_>, _> = edits.iter().map(|e| Edit::parse(e)).collect();
        let edits = edits.map_err(|e| critical_path_error(py, &e))?;
        let path = Arc::clone(&self.path);
        Ok(Self::new(quiet(py, &Progress::new(), move || path.apply(&edits))?, self.note.clone()))
    }

    /// Write a copy of the trace file `source` with the path highlighted to `target`, gzipped if its name ends in
    /// `.gz`. Returns the number of events, marked events, events left out and added flow events, and true if the
    /// source is truncated.
    fn overlay(
        &self,
        py: Python<'_>,
        source: PathBuf,
        target: PathBuf,
        only_critical: bool,
        all_edges: bool,
    ) -> PyResult<(u64, u64, u64, u64, bool)> {
        let (path, mode, from) = (Arc::clone(&self.path), OverlayMode { only_critical, all_edges }, source.clone());
        let (watch, stop) = progress_pair();
        let done = settled(py, &watch, move || overlay(&path, mode, &from, &target, &stop))?;
        let done = done.map_err(|e| e.raise(py, &source))?;
        Ok((done.events, done.marked, done.left_out, done.flow_events, done.truncated))
    }

    /// Write graph, path and settings to a file, for `restore`.
    fn save(&self, py: Python<'_>, target: PathBuf) -> PyResult<()> {
        let (path, note) = (Arc::clone(&self.path), self.note.clone());
        let (watch, stop) = progress_pair();
        let saved =
            settled(py, &watch, move || atomically(&target, &stop, |file| path.save_with(note.as_ref(), file)))?;
        saved.map_err(PyOSError::new_err)
    }

    /// Read a critical path from a file that `save` wrote.
    #[staticmethod]
    fn restore(py: Python<'_>, source: PathBuf) -> PyResult<Self> {
        let file = File::open(&source).map_err(|e| PyOSError::new_err(format!("{}: {e}", source.display())))?;
        let restored = quiet(py, &Progress::new(), move || CriticalPath::restore_with(BufReader::new(file)))?;
        restored
            .map(|(path, note)| Self::new(path, note))
            .map_err(|e| read_error(py, format!("{}: {e}", source.display()), &source, None))
    }
}

/// Text of a warning: number of occurrences, message, and details in parentheses.
fn warning(warning: &Warning) -> String {
    let details = warning.details.join("; ");
    let details = if details.is_empty() { details } else { format!(" ({details})") };
    format!("{} {}{details}", warning.count, warning.code.message())
}

/// Error of writing an overlay: unreadable source, mismatch with the path, or failed write.
enum Failure {
    Source(stackline_ingest::Error),
    Overlay(OverlayError),
    Target(String),
}

impl Failure {
    /// Convert the error to a Python exception, with the path of the source.
    fn raise(self, py: Python<'_>, source: &Path) -> PyErr {
        match self {
            Self::Source(error) => engine_error(py, &error.into(), source),
            Self::Target(message) => PyOSError::new_err(message),
            Self::Overlay(error @ OverlayError::OtherTrace { .. }) => {
                analysis_error(py, &format!("{}: {error}", source.display()))
            }
            Self::Overlay(error) => {
                let byte = if let OverlayError::Malformed { offset, .. } = &error { Some(*offset) } else { None };
                read_error(py, format!("{}: {error}", source.display()), source, byte)
            }
        }
    }
}

/// Create a progress handle for the caller and a clone for the worker thread.
fn progress_pair() -> (Progress, Progress) {
    let watch = Progress::new();
    (watch.clone(), watch)
}

fn overlay(
    path: &CriticalPath,
    mode: OverlayMode,
    source: &Path,
    target: &Path,
    stop: &Progress,
) -> Result<OverlaySummary, Failure> {
    let original = stackline_ingest::open_text(source).map_err(Failure::Source)?;
    let overlay = path.overlay(mode);
    let mut refused = None;
    let written = atomically(target, stop, |file| {
        let written = if target.extension().is_some_and(|e| e == "gz") {
            let mut packed = GzEncoder::new(file, Compression::fast());
            write_overlay(original, &mut packed, &overlay).and_then(|done| Ok(packed.finish().map(|_| done)?))
        } else {
            write_overlay(original, file, &overlay)
        };
        written.map_err(|e| match e {
            OverlayError::Io(error) => error,
            other => io::Error::other(refused.insert(other).to_string()),
        })
    });
    match (written, refused) {
        (_, Some(error)) => Err(Failure::Overlay(error)),
        (written, None) => written.map_err(Failure::Target),
    }
}

/// Writer to a file that fails after the caller has canceled the work.
struct Watched<'a> {
    file: File,
    stop: &'a Progress,
}

impl Write for Watched<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        check(self.stop)?;
        self.file.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Return an error if the caller canceled the work.
fn check(stop: &Progress) -> io::Result<()> {
    if stop.is_cancelled() {
        Err(io::Error::other("writing the file was canceled before it was complete"))
    } else {
        Ok(())
    }
}

/// Write a file under a temporary name and rename it, so that a failure neither leaves a partial file nor damages the
/// existing one.
fn atomically<T>(
    target: &Path,
    stop: &Progress,
    write: impl FnOnce(&mut BufWriter<Watched<'_>>) -> io::Result<T>,
) -> Result<T, String> {
    let mut partial = target.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let attempt = || {
        let mut file = BufWriter::with_capacity(1 << 16, Watched { file: File::create(&partial)?, stop });
        let result = write(&mut file)?;
        file.flush()?;
        drop(file);
        check(stop)?;
        std::fs::rename(&partial, target)?;
        Ok(result)
    };
    attempt().map_err(|error: io::Error| {
        // The file may not exist. An error here has no remedy.
        let _ = std::fs::remove_file(&partial);
        format!("{}: cannot write: {error}", target.display())
    })
}
