//! Python class for an opened run: traces, events, analyses, memory.

use crate::call_nodes::IndexedCallTree;
use crate::errors::{analysis_error, engine_error, save_error};
use crate::memory::NativeMemory;
use crate::table::{NativeTable, arrow_error};
use crate::views;
use crate::worker::{interruptible, quiet, settled};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stackline_analyze::Analysis;
use stackline_analyze::analyses;
use stackline_calls::{CallIndex, fold_imports};
use stackline_engine::{OF_WHOLE_TRACE, OpenOptions, Part, Progress, Run, RunOptions, WriteOptions};
use stackline_findings::steps_of_calls;
use stackline_model::{MemoryTrace, Problem, ReadReport, Table, TraceSet};
use stackline_timeline::steps::{StepSelection, default_window};
use stackline_timeline::{DefaultWindow, Scope};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An opened run: traces (one per rank or file), a call tree, or memory data. Immutable.
#[pyclass(frozen, name = "Run", module = "stackline._native")]
pub(crate) struct NativeRun {
    pub(crate) set: Arc<TraceSet>,
    pub(crate) ranks: Vec<i64>,
    pub(crate) threads: usize,
    /// The run with its inputs as absolute paths, valid after a change of the working directory.
    pub(crate) run: Run,
    /// Call tree of a recording or profile without traces.
    pub(crate) calls: Option<Arc<IndexedCallTree>>,
    /// Memory data of a memory file.
    pub(crate) memory: Option<Arc<MemoryTrace>>,
}

/// Problem found while reading a trace, as a Python dictionary with the name and rank of the trace.
pub(crate) fn problem_dict<'py>(
    py: Python<'py>,
    problem: &Problem,
    trace: &str,
    rank: i64,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("code", &problem.code)?;
    dict.set_item("severity", problem.severity.name())?;
    dict.set_item("message", &problem.message)?;
    dict.set_item("count", problem.count)?;
    dict.set_item("offsets", problem.offsets.clone())?;
    dict.set_item("example", &problem.example)?;
    dict.set_item("trace", trace)?;
    dict.set_item("rank", rank)?;
    Ok(dict)
}

/// Open files, directories, archives and run directories. `on_progress(done, total)` is called with bytes.
#[pyfunction]
#[pyo3(signature = (paths, threads=0, on_progress=None))]
pub(crate) fn open(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    threads: usize,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<NativeRun> {
    let watch = Progress::new();
    let options = OpenOptions { threads, watch: watch.clone(), ..OpenOptions::default() };
    let first = paths.first().cloned().unwrap_or_default();
    let report_progress = |py: Python<'_>| match &on_progress {
        Some(function) => function.call1(py, (watch.bytes(), watch.total())).map(drop),
        None => Ok(()),
    };
    let read = interruptible(py, &watch, report_progress, move || {
        let run = Run::open(&paths, &options)?;
        let parts = run.parts()?;
        let set = if parts.contains(&Part::Traces) { run.traces()? } else { Arc::default() };
        let calls = if parts == [Part::Profile] { Some(run.profile()?) } else { None };
        let memory = if parts == [Part::Memory] { Some(run.memory(None)?) } else { None };
        let held = |tree| {
            let tree = fold_imports(tree);
            let steps = steps_of_calls(&tree);
            IndexedCallTree { index: CallIndex::new(tree, steps), events: Vec::new(), set: Arc::clone(&set), at: 0 }
        };
        Ok(NativeRun {
            ranks: stackline_engine::ranks(&set),
            threads,
            calls: calls.map(held).map(Arc::new),
            memory: memory.map(Arc::new),
            run: run.absolute(),
            set,
        })
    })?;
    let run = read.map_err(|e| engine_error(py, &e, &first))?;
    report_progress(py)?;
    Ok(run)
}

/// Name and one-line description of each registered analysis, in the order of registration.
#[pyfunction]
pub(crate) fn analyses_list() -> Vec<(&'static str, &'static str)> {
    analyses::ALL.iter().map(|a| (a.name, a.about)).collect()
}

#[pymethods]
impl NativeRun {
    /// Kinds of data: `traces`, or without traces `calls` or `memory`.
    #[getter]
    fn parts(&self) -> Vec<&'static str> {
        let there = [
            ("traces", !self.set.traces.is_empty()),
            ("calls", self.calls.is_some()),
            ("memory", self.memory.is_some()),
        ];
        there.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect()
    }

    /// Memory data of a rank; without a rank, of the run. At most `peaks` peaks per device are named.
    fn memory(&self, py: Python<'_>, rank: Option<i64>, peaks: usize) -> PyResult<NativeMemory> {
        if let Some(trace) = &self.memory {
            if rank.is_some() {
                self.needs_traces(py)?;
            }
            let trace = Arc::clone(trace);
            return quiet(py, &Progress::new(), move || NativeMemory::new(trace, peaks));
        }
        rank.map(|rank| self.position(py, rank)).transpose()?;
        let watch = Progress::new();
        let run = self.run.watched_by(&watch);
        let find = move || run.memory(rank).map(|trace| NativeMemory::new(Arc::new(trace), peaks));
        let found = quiet(py, &watch, find)?;
        found.map_err(|error| {
            engine_error(py, &error, self.run.inputs().first().map_or(Path::new(""), PathBuf::as_path))
        })
    }

    /// Rank of each trace of the run.
    #[getter]
    fn ranks(&self) -> Vec<i64> {
        self.ranks.clone()
    }

    /// Metadata of each trace of the run as a dictionary.
    fn traces<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let one = |(trace, rank): (&stackline_model::Trace, &i64)| {
            let dict = PyDict::new(py);
            dict.set_item("name", &trace.meta.name)?;
            dict.set_item("format", &trace.meta.format)?;
            dict.set_item("rank", rank)?;
            dict.set_item("rank_in_file", trace.meta.rank)?;
            dict.set_item("world_size", trace.meta.world_size)?;
            dict.set_item("base_ns", trace.meta.base_ns)?;
            dict.set_item("span_ns", trace.span())?;
            dict.set_item("events", trace.events.len())?;
            dict.set_item("gpu_ops", trace.gpu.len())?;
            dict.set_item("tracks", trace.tracks.len())?;
            dict.set_item("steps", trace.steps.iter().map(|s| s.number).collect::<Vec<_>>())?;
            dict.set_item("bytes", trace.report.bytes)?;
            dict.set_item("records", trace.report.records)?;
            dict.set_item("metadata", trace.meta.entries.clone())?;
            Ok(dict)
        };
        self.set.traces.iter().zip(&self.ranks).map(one).collect()
    }

    /// Diagnostics of reading the run (repaired, skipped and lost records) as dictionaries, trace by trace.
    fn problems<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let of_part = |report: &ReadReport| {
            let file = self.run.inputs().first().and_then(|input| input.file_name());
            let name = file.map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
            report.problems.iter().map(|problem| problem_dict(py, problem, &name, 0)).collect()
        };
        if let Some(calls) = &self.calls {
            return of_part(&calls.index.tree.report);
        }
        if let Some(memory) = &self.memory {
            return of_part(&memory.report);
        }
        let mut problems = Vec::new();
        for (trace, rank) in self.set.traces.iter().zip(&self.ranks) {
            for problem in &trace.report.problems {
                problems.push(problem_dict(py, problem, &trace.meta.name, *rank)?);
            }
        }
        Ok(problems)
    }

    /// Run one registered analysis on one rank, or on all ranks with concatenated tables.
    #[pyo3(signature = (name, steps, rank, whole))]
    fn analyze(
        &self,
        py: Python<'_>,
        name: &str,
        steps: Option<(i64, i64)>,
        rank: Option<i64>,
        whole: bool,
    ) -> PyResult<Vec<NativeTable>> {
        let analysis = find(py, name)?;
        self.needs_traces(py)?;
        let at = rank.map(|r| self.position(py, r)).transpose()?;
        let scope = Scope { steps, whole, ..Scope::default() };
        let options = RunOptions { scope, threads: self.threads, watch: Progress::new() };
        let selected = at.map_or(&self.set.traces[..], |at| std::slice::from_ref(&self.set.traces[at]));
        let cycles = || selected.iter().try_for_each(|trace| stackline_engine::check_cycles(trace, &options.scope));
        let checked = stackline_engine::check_steps(selected, &options.scope).and_then(|()| cycles());
        checked.map_err(|e| engine_error(py, &e, Path::new("")))?;
        let (set, watch) = (Arc::clone(&self.set), options.watch.clone());
        let tables = quiet(py, &watch, move || match at {
            Some(at) => Ok(stackline_engine::run_one(&set.traces[at], analysis, &options.scope)),
            None => stackline_engine::run(&set, &[analysis], &options),
        })?;
        let tables = tables.map_err(|e| engine_error(py, &e, Path::new("")))?;
        let has_window = scope == Scope::default() && analysis.window != DefaultWindow::Own;
        let looked = || -> Vec<StepSelection> {
            selected.iter().map(|trace| StepSelection::select(trace, &Scope::default())).collect()
        };
        let window = if has_window { default_window(&looked()) } else { None };
        let with_notes = |(window, notes): (String, Vec<String>)| {
            let notes: String = notes.iter().map(|note| format!(" Note: {note}.")).collect();
            format!("Covers {window}; pass whole=True to cover the whole trace.{notes}")
        };
        let note = window.map(with_notes);
        let made = |table: &Table| {
            let is_of_whole = table.notes.iter().any(|note| note.starts_with(OF_WHOLE_TRACE));
            Ok(NativeTable::from_model(table)?.noted(note.clone().filter(|_| !is_of_whole)))
        };
        tables.iter().map(made).collect()
    }

    /// Table of the events of all traces; if `arguments`, with columns for the arguments of events.
    #[pyo3(signature = (arguments=false))]
    fn events(&self, py: Python<'_>, arguments: bool) -> PyResult<NativeTable> {
        self.needs_traces(py)?;
        let (set, ranks, watch) = (Arc::clone(&self.set), self.ranks.clone(), Progress::new());
        let stop = watch.clone();
        let (made, note) = quiet(py, &watch, move || {
            let note = if arguments { views::omitted_arguments_note(&set) } else { None };
            (views::events(set, ranks, arguments, &stop), note)
        })?;
        let table = made.map(|batches| NativeTable::from_batches("events", "Events", batches));
        table.map(|table| table.noted(note)).map_err(arrow_error)
    }

    /// Table of the GPU operations of all traces, each with its launch call, operator and step.
    fn gpu_ops(&self, py: Python<'_>) -> PyResult<NativeTable> {
        self.needs_traces(py)?;
        let (set, ranks) = (Arc::clone(&self.set), self.ranks.clone());
        let made = quiet(py, &Progress::new(), move || views::gpu_ops(&set, &ranks))?;
        let title = "GPU operations with their launches";
        made.map(|batches| NativeTable::from_batches("gpu_ops", title, batches)).map_err(arrow_error)
    }

    /// Table of the run's tracks: threads, streams and counters.
    fn tracks(&self, py: Python<'_>) -> PyResult<NativeTable> {
        self.needs_traces(py)?;
        let (set, ranks) = (Arc::clone(&self.set), self.ranks.clone());
        let made = quiet(py, &Progress::new(), move || views::tracks(&set, &ranks))?;
        let title = "Tracks: threads, streams and counters with their number of events";
        made.map(|batches| NativeTable::from_batches("tracks", title, batches)).map_err(arrow_error)
    }

    /// Write the traces of the run, or its call tree if it has no traces, to a run directory.
    #[pyo3(signature = (path, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        let watch = Progress::new();
        let options = WriteOptions { overwrite, cancel: Some(watch.flag()), ..WriteOptions::default() };
        if self.calls.is_some() {
            // The tree in memory has imports folded, so the input is read again.
            let run = self.run.watched_by(&watch);
            let save = move || stackline_engine::save_profile(&run.profile()?, &path, &options);
            return settled(py, &watch, save)?.map_err(|e| save_error(&e));
        }
        self.needs_traces(py)?;
        let set = Arc::clone(&self.set);
        let saved = settled(py, &watch, move || stackline_engine::save(&set, &path, &options))?;
        saved.map_err(|e| save_error(&e))
    }
}

impl NativeRun {
    /// Name of the run for display.
    pub(crate) fn name(&self) -> String {
        self.run.name()
    }

    /// Check that the run has traces. The error names the methods that work without traces.
    pub(crate) fn needs_traces(&self, py: Python<'_>) -> PyResult<()> {
        let Err(error) = self.run.traces() else { return Ok(()) };
        let instead = if self.memory.is_some() {
            "use Run.memory() for the memory data of the run"
        } else {
            "use Run.call_tree() for the call tree of the run"
        };
        Err(analysis_error(py, &format!("{error}. In Python, {instead}")))
    }

    /// Position in the run of the trace of `rank`; an error if no trace has this rank.
    pub(crate) fn position(&self, py: Python<'_>, rank: i64) -> PyResult<usize> {
        self.needs_traces(py)?;
        let at = stackline_engine::position_of_rank(&self.set, rank);
        at.map_err(|error| engine_error(py, &error, Path::new("")))
    }
}

/// Find a registered analysis by name; the error for an unknown name suggests similar names.
fn find(py: Python<'_>, name: &str) -> PyResult<&'static Analysis> {
    analyses::find(name).ok_or_else(|| {
        let near = stackline_engine::nearest(name, analyses::ALL.iter().map(|a| a.name), 3);
        let hint = if near.is_empty() { ".".to_owned() } else { format!("; did you mean {}?", near.join(", ")) };
        analysis_error(py, &format!("there is no analysis {name:?}{hint} Run.analyses() lists all analyses"))
    })
}
