//! Conversion of Rust errors to the exceptions of `stackline._errors`.

use pyo3::exceptions::{PyFileExistsError, PyOSError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use stackline_engine::Error;
use std::path::Path;

/// Get an exception class of `stackline._errors` by name, imported at the first call.
fn exception_class<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyType>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyType>> {
    cell.import(py, "stackline._errors", name)
}

/// Create the Python exception `ReadError(message, path, byte)`.
pub(crate) fn read_error(py: Python<'_>, message: String, path: &Path, byte: Option<u64>) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    match exception_class(py, &CLASS, "ReadError").and_then(|c| c.call1((message, path.to_string_lossy(), byte))) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// Create the Python exception `AnalysisError(message)`.
pub(crate) fn analysis_error(py: Python<'_>, message: &str) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    match exception_class(py, &CLASS, "AnalysisError").and_then(|c| c.call1((message,))) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// Convert an error of the engine (reading or analysis) to a Python exception. `first` is the first input, for errors
/// without a path.
pub(crate) fn engine_error(py: Python<'_>, error: &Error, first: &Path) -> PyErr {
    use stackline_ingest::Error as Read;
    let message = error.to_string();
    match error {
        Error::Ingest(Read::Malformed { path, offset, .. }) => read_error(py, message, path, Some(*offset)),
        Error::Ingest(Read::Io { path, .. } | Read::NoTrace { path } | Read::Unsupported { path, .. }) => {
            read_error(py, message, path, None)
        }
        Error::Store(error) => read_error(py, message, path_in_store_error(error).unwrap_or(first), None),
        Error::NoRank { .. } | Error::NoStep { .. } | Error::AmbiguousSteps { .. } => analysis_error(py, &message),
        _ => read_error(py, message, first, None),
    }
}

/// Convert an error of saving to a built-in Python exception (`OSError` and its subclasses).
pub(crate) fn save_error(error: &Error) -> PyErr {
    use stackline_store::Error as Store;
    let message = error.to_string();
    match error {
        Error::Store(Store::Exists { .. } | Store::Foreign { .. }) => PyFileExistsError::new_err(message),
        _ => PyOSError::new_err(message),
    }
}

/// File path in an error of a run directory, if the error has one.
fn path_in_store_error(error: &stackline_store::Error) -> Option<&Path> {
    use stackline_store::Error as Store;
    match error {
        Store::NotARun { path, .. }
        | Store::Incomplete { path }
        | Store::Newer { path, .. }
        | Store::Damaged { path, .. }
        | Store::Io { path, .. } => Some(path),
        _ => None,
    }
}
