//! Conversion of single Arrow values to Python objects, for displaying tables without another library.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, downcast_integer};
use arrow_schema::DataType;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyNone};

/// Value of `array` at `row` as a Python object; `None` for null.
pub(crate) fn cell<'py>(py: Python<'py>, array: &dyn Array, row: usize) -> PyResult<Bound<'py, PyAny>> {
    macro_rules! number {
        ($kind:ty) => {
            array.as_primitive::<$kind>().value(row).into_pyobject(py)?.into_any()
        };
    }
    macro_rules! dictionary {
        ($kind:ty) => {
            coded::<$kind>(py, array, row)?
        };
    }
    if array.is_null(row) {
        return Ok(PyNone::get(py).to_owned().into_any());
    }
    Ok(match array.data_type() {
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float32 => number!(Float32Type),
        DataType::Float64 => number!(Float64Type),
        DataType::Boolean => array.as_boolean().value(row).into_pyobject(py)?.to_owned().into_any(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into_pyobject(py)?.into_any(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).into_pyobject(py)?.into_any(),
        DataType::Utf8View => array.as_string_view().value(row).into_pyobject(py)?.into_any(),
        DataType::List(_) => list(py, array.as_list::<i32>().value(row).as_ref())?,
        DataType::LargeList(_) => list(py, array.as_list::<i64>().value(row).as_ref())?,
        DataType::Dictionary(key, _) => downcast_integer! {
            key.as_ref() => (dictionary),
            other => return Err(unknown(other)),
        },
        other => return Err(unknown(other)),
    })
}

/// Python object of a dictionary-encoded Arrow value at `row`.
fn coded<'py, K: ArrowDictionaryKeyType>(
    py: Python<'py>,
    array: &dyn Array,
    row: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let array = array.as_dictionary::<K>();
    match array.key(row) {
        Some(key) => cell(py, array.values().as_ref(), key),
        None => Ok(PyNone::get(py).to_owned().into_any()),
    }
}

fn list<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Bound<'py, PyAny>> {
    let values: PyResult<Vec<_>> = (0..array.len()).map(|row| cell(py, array, row)).collect();
    Ok(PyList::new(py, values?)?.into_any())
}

/// Error for an Arrow type that has no conversion to Python.
fn unknown(data_type: &DataType) -> PyErr {
    PyTypeError::new_err(format!(
        "values of the Arrow type {data_type} cannot be converted to Python; read the column with to_arrow()"
    ))
}
