//! Server of the page for Python, which runs until its object is dropped.

use crate::errors::{analysis_error, engine_error};
use crate::worker::quiet;
use pyo3::prelude::*;
use stackline_engine::{OpenOptions, Progress};
use stackline_query::OpenRun;
use stackline_serve::Running;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Server of the web page.
#[pyclass(frozen, name = "Page", module = "stackline._native")]
pub(crate) struct NativePage {
    #[pyo3(get)]
    url: String,
    running: Mutex<Option<Running>>,
}

#[pymethods]
impl NativePage {
    /// Stop the server. Repeated calls have no effect.
    fn close(&self, py: Python<'_>) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(running));
    }
}

/// Open inputs and an optional baseline as one run, and start the server of the interactive web page on `port`.
#[pyfunction]
#[pyo3(signature = (inputs, baseline, port, hosts, source_roots, no_source))]
pub(crate) fn view(
    py: Python<'_>,
    inputs: Vec<PathBuf>,
    baseline: Option<PathBuf>,
    port: u16,
    hosts: Vec<String>,
    source_roots: Vec<PathBuf>,
    no_source: bool,
) -> PyResult<NativePage> {
    let first = inputs.first().cloned().unwrap_or_default();
    let watch = Progress::new();
    let options = OpenOptions { watch: watch.clone(), ..OpenOptions::default() };
    let opened = quiet(py, &watch, move || {
        let opened = OpenRun::open(&inputs, &options).map_err(|error| (first, error))?;
        let opened = match baseline {
            None => opened,
            Some(path) => match OpenRun::open(std::slice::from_ref(&path), &options) {
                Ok(baseline) => opened.compared_with(baseline),
                Err(error) => return Err((path, error)),
            },
        };
        let opened = opened.with_source_roots(&source_roots);
        Ok(if no_source { opened.without_source() } else { opened })
    })?;
    let opened = opened.map_err(|(path, error)| engine_error(py, &error, Path::new(&path)))?;
    let refused = |error: stackline_serve::ServeError| analysis_error(py, &error.to_string());
    let server = stackline_serve::serve(Arc::new(opened), port, hosts).map_err(refused)?;
    let url = server.url.clone();
    let running = server.start().map_err(refused)?;
    Ok(NativePage { url, running: Mutex::new(Some(running)) })
}
