//! Python class for opened memory data: peaks, objects, waste, suggestions.

use crate::errors::{analysis_error, save_error};
use crate::run::problem_dict;
use crate::table::NativeTable;
use crate::worker::{quiet, settled};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stackline_engine::{Progress, WriteOptions};
use stackline_ingest::memory::text;
use stackline_memory::replay::Combination;
use stackline_memory::tables::{self, By, NamedPeak, Ranked};
use stackline_memory::{MemoryAnalysis, PatternMatch};
use stackline_model::{MemoryTrace, Table, TraceSet};
use stackline_store::arrow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Cached results of the memory analysis: waste patterns, ranked suggestions, and the best combination.
struct Studied {
    matches: Vec<PatternMatch>,
    ranked: Vec<Ranked>,
    /// The suggestions that together reduce the first peak most.
    combination: Option<Combination>,
}

struct Opened {
    trace: Arc<MemoryTrace>,
    peaks: Vec<NamedPeak>,
    per_device: usize,
    studied: OnceLock<Studied>,
}

impl Opened {
    fn studied(&self) -> &Studied {
        self.studied.get_or_init(|| {
            let analysis = MemoryAnalysis::new(&self.trace, self.per_device);
            let combination = analysis.peaks.first().and_then(|peak| analysis.combination(peak.device));
            Studied { matches: analysis.matches, ranked: analysis.ranked, combination }
        })
    }
}

/// Memory of one process over time. Immutable.
#[pyclass(frozen, name = "Memory", module = "stackline._native")]
pub(crate) struct NativeMemory(Arc<Opened>);

/// Names of the tables of the memory model, as in run directories, that `Memory.raw` accepts.
#[pyfunction]
pub(crate) fn memory_tables() -> Vec<&'static str> {
    arrow::memory_tables()
}

impl NativeMemory {
    /// Wrap a trace. At most `peaks` peaks per device are named.
    pub(crate) fn new(trace: Arc<MemoryTrace>, peaks: usize) -> Self {
        let named = tables::named_peaks(&trace, peaks);
        Self(Arc::new(Opened { trace, peaks: named, per_device: peaks, studied: OnceLock::new() }))
    }
}

#[pymethods]
impl NativeMemory {
    /// Dictionary that describes the memory data: name, devices, and if accesses and the end of the program were
    /// recorded.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (trace, dict) = (&self.0.trace, PyDict::new(py));
        let devices: Vec<&str> = trace.devices.iter().map(|device| trace.strings.get(device.name)).collect();
        dict.set_item("name", &trace.label)?;
        dict.set_item("devices", devices)?;
        dict.set_item("has_accesses", trace.has_accesses)?;
        dict.set_item("saw_end", trace.saw_end)?;
        Ok(dict)
    }

    /// Diagnostics of reading: repaired, skipped and lost records.
    fn problems<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let trace = &self.0.trace;
        trace.report.problems.iter().map(|problem| problem_dict(py, problem, &trace.label, 0)).collect()
    }

    /// Table of the memory peaks of each device.
    fn peaks(&self) -> PyResult<NativeTable> {
        NativeTable::from_model(&tables::peaks_table(&self.0.trace, &self.0.peaks))
    }

    /// Table of the bytes in use at each peak, grouped by one property of objects: `place`, `path`, `kind`, `size` ...
    fn at_peak(&self, py: Python<'_>, by: &str) -> PyResult<NativeTable> {
        let known = By::ALL.into_iter().find(|known| known.name() == by);
        let names: Vec<&str> = By::ALL.into_iter().map(By::name).collect();
        let none = || {
            analysis_error(py, &format!("memory cannot be grouped by {by:?}; the groupings are: {}", names.join(", ")))
        };
        let by = known.ok_or_else(none)?;
        NativeTable::from_model(&tables::at_peak_table(&self.0.trace, &self.0.peaks, by))
    }

    /// Table of the memory objects in use at the peak of this name, such as `P1`.
    fn alive(&self, py: Python<'_>, peak: &str) -> PyResult<NativeTable> {
        let found = self.0.peaks.iter().find(|known| known.name.eq_ignore_ascii_case(peak));
        let names: Vec<&str> = self.0.peaks.iter().map(|known| known.name.as_str()).collect();
        let none = || {
            analysis_error(py, &format!("no memory peak has the name {peak:?}; the peaks are: {}", names.join(", ")))
        };
        NativeTable::from_model(&tables::alive_table(&self.0.trace, found.ok_or_else(none)?))
    }

    /// Table of the memory in use over time.
    fn curve(&self, py: Python<'_>) -> PyResult<NativeTable> {
        self.compute_table(py, |opened| Some(tables::curve_table(&opened.trace, 0)))?.ok_or_else(no_table)
    }

    /// Table of all memory objects, largest first.
    fn objects(&self, py: Python<'_>) -> PyResult<NativeTable> {
        self.compute_table(py, |opened| Some(tables::objects_table(&opened.trace)))?.ok_or_else(no_table)
    }

    /// Table of wasted memory by pattern.
    fn waste(&self, py: Python<'_>) -> PyResult<NativeTable> {
        self.compute_table(py, |opened| Some(tables::waste_table(&opened.trace, &opened.studied().matches)))?
            .ok_or_else(no_table)
    }

    /// Table of suggested memory changes, largest saving first.
    fn suggestions(&self, py: Python<'_>) -> PyResult<NativeTable> {
        let make = |opened: &Opened| {
            let studied = opened.studied();
            let (ranked, combination) = (&studied.ranked, studied.combination.as_ref());
            let listed = tables::listed(ranked, combination);
            let table = tables::suggestions_table(&opened.trace, ranked, &listed, &opened.peaks);
            Some(tables::suggestion_notes(&opened.trace, ranked, combination).into_iter().fold(table, Table::note))
        };
        self.compute_table(py, make)?.ok_or_else(no_table)
    }

    /// Table of segments and blocks of the caching allocator, if the source has them.
    fn allocator(&self, py: Python<'_>) -> PyResult<Option<NativeTable>> {
        self.compute_table(py, |opened| tables::allocator_table(&opened.trace))
    }

    /// Failed allocations with the reason, if there are any.
    fn out_of_memory(&self, py: Python<'_>) -> PyResult<Option<NativeTable>> {
        self.compute_table(py, |opened| tables::out_of_memory_table(&opened.trace))
    }

    /// Table of the memory peaks after these suggestions, given by their numbers.
    fn apply(&self, py: Python<'_>, numbers: Vec<usize>) -> PyResult<NativeTable> {
        let opened = Arc::clone(&self.0);
        let applied = quiet(py, &Progress::new(), move || {
            let ranked = &opened.studied().ranked;
            tables::apply(&opened.trace, ranked, &numbers).map_err(|wrong| (wrong, ranked.len()))
        })?;
        match applied {
            Ok(table) => NativeTable::from_model(&table),
            Err((wrong, count)) => Err(analysis_error(
                py,
                &format!("there is no suggestion {wrong}: the memory data have {count} suggestions, numbered from 1"),
            )),
        }
    }

    /// One table of the memory model by name, in the layout of run directories.
    fn raw(&self, name: &str) -> PyResult<NativeTable> {
        let batch = arrow::memory_batch(&self.0.trace, name).ok_or_else(no_table)?;
        let batch = batch.map_err(|e| PyRuntimeError::new_err(format!("internal error: {e}")))?;
        Ok(NativeTable::from_batches(name, "", (batch.schema(), vec![batch])))
    }

    /// Memory data as editable text, one line per call: allocations, accesses and frees.
    fn to_text(&self, py: Python<'_>) -> PyResult<String> {
        let opened = Arc::clone(&self.0);
        quiet(py, &Progress::new(), move || text::write(&opened.trace))
    }

    /// Write the memory data to a run directory.
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        let watch = Progress::new();
        let options = WriteOptions { overwrite, cancel: Some(watch.flag()), ..WriteOptions::default() };
        let opened = Arc::clone(&self.0);
        let saved = settled(py, &watch, move || {
            stackline_engine::save_with(
                &TraceSet::default(),
                std::slice::from_ref(&opened.trace),
                Path::new(&path),
                &options,
            )
        })?;
        saved.map_err(|e| save_error(&e))
    }
}

/// Internal error for a requested memory table that does not exist. The Python package requests only existing tables.
fn no_table() -> PyErr {
    PyRuntimeError::new_err("internal error: the requested memory table does not exist")
}

impl NativeMemory {
    /// Compute a table from the memory data without the GIL; `None` if `make` returns none.
    fn compute_table(
        &self,
        py: Python<'_>,
        make: impl FnOnce(&Opened) -> Option<Table> + Send + 'static,
    ) -> PyResult<Option<NativeTable>> {
        let opened = Arc::clone(&self.0);
        let table = quiet(py, &Progress::new(), move || make(&opened))?;
        table.as_ref().map(NativeTable::from_model).transpose()
    }
}
