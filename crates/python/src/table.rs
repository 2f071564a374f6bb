//! Arrow tables for Python, exported by the Arrow PyCapsule interface.

use crate::cell::cell;
use crate::views::Batches;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::{PyIndexError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};
use stackline_model::Table;

/// A table with named columns in Arrow memory, shared with consumers without copies.
#[pyclass(frozen, name = "Table", module = "stackline._native")]
pub(crate) struct NativeTable {
    name: String,
    title: String,
    notes: Vec<String>,
    units: Vec<String>,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

/// Convert an error of the Arrow library to a Python exception. It indicates a bug in Stackline, not bad input.
pub(crate) fn arrow_error(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(format!("internal error: {error}"))
}

impl NativeTable {
    /// Create a Python table from a result table of an analysis.
    pub(crate) fn from_model(table: &Table) -> PyResult<Self> {
        let batch = stackline_store::arrow::table_batch(table);
        let batch = batch.map_err(|e| PyRuntimeError::new_err(format!("internal error: {e}")))?;
        let made = Self::from_batches(&table.name, &table.title, (batch.schema(), vec![batch]));
        Ok(Self { notes: table.notes.clone(), ..made })
    }

    /// Add a note to the table, if there is one.
    pub(crate) fn noted(mut self, note: Option<String>) -> Self {
        self.notes.extend(note);
        self
    }

    /// Create a Python table from Arrow batches of the data model.
    pub(crate) fn from_batches(name: &str, title: &str, (schema, batches): Batches) -> Self {
        let units = schema.fields().iter().map(|f| match f.metadata().get("unit") {
            Some(unit) => unit.clone(),
            None if f.name().ends_with("_ns") => "ns".to_owned(),
            None => String::new(),
        });
        let units = units.collect();
        Self { name: name.to_owned(), title: title.to_owned(), notes: Vec::new(), units, schema, batches }
    }
}

#[pymethods]
impl NativeTable {
    /// Stable name of the table.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Description of the table in one line.
    #[getter]
    fn title(&self) -> &str {
        &self.title
    }

    /// Notes on the numbers of the table, one sentence each.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// Names of the table's columns in display order.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|f| f.name().clone()).collect()
    }

    /// Unit of each column, empty for columns without one.
    #[getter]
    fn units(&self) -> Vec<String> {
        self.units.clone()
    }

    /// Arrow type of each column of the table as text.
    #[getter]
    fn types(&self) -> Vec<String> {
        self.schema.fields().iter().map(|f| f.data_type().to_string()).collect()
    }

    /// Size of the table's Arrow memory in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }

    /// Number of rows in all batches of the table.
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Rows `start..stop` of the table as tuples of Python objects.
    fn rows<'py>(&self, py: Python<'py>, start: usize, stop: usize) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        let mut first = 0;
        for batch in &self.batches {
            let (from, to) = (start.max(first) - first, stop.saturating_sub(first).min(batch.num_rows()));
            for row in from..to.max(from) {
                let cells: PyResult<Vec<_>> = batch.columns().iter().map(|c| cell(py, c.as_ref(), row)).collect();
                rows.append(PyTuple::new(py, cells?)?)?;
            }
            first += batch.num_rows();
        }
        Ok(rows)
    }

    /// Values of one column of the table as Python objects.
    fn column<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyList>> {
        if index >= self.schema.fields().len() {
            return Err(PyIndexError::new_err(format!("the table has no column number {index}")));
        }
        let values = PyList::empty(py);
        for batch in &self.batches {
            let array = batch.column(index);
            for row in 0..batch.num_rows() {
                values.append(cell(py, array.as_ref(), row)?)?;
            }
        }
        Ok(values)
    }

    /// The Arrow PyCapsule interface: a stream of the table's batches. Requested schemas are ignored, as the
    /// interface allows; consumers cast the data themselves.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches: Vec<_> = self.batches.iter().cloned().map(Ok).collect();
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }

    /// The Arrow PyCapsule interface: the table's schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(arrow_error)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }
}
