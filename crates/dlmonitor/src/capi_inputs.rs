//! Inputs and outputs of operators in the C interface (`include/dlmonitor.h`).

use crate::capi::Status;
use crate::capi_start;
use crate::torch::{Input, Inputs, Operator, Tensor};
use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::ptr::null;

/// Input or output of an operator in the C interface (`dlmonitor_input`).
#[derive(Debug)]
#[repr(C)]
pub struct CInput {
    kind: c_int,
    dtype: *const c_char,
    dims: *const i64,
    length: usize,
}

/// `dlmonitor_input_kind`.
const TENSOR: c_int = 0;
const TENSORS: c_int = 1;
const SCALAR: c_int = 2;
const SCALARS: c_int = 3;
const OTHER: c_int = 4;

thread_local! {
    /// The operator whose begin is being reported.
    static BEGINS: Cell<*const Operator> = const { Cell::new(null()) };
    /// The operator whose end is being reported.
    static ENDS: Cell<*const Operator> = const { Cell::new(null()) };
}

/// Run `report`, which calls the callbacks for the begin of `operator`. Meanwhile they can read its inputs.
pub(crate) fn while_begins(operator: &Operator, report: impl FnOnce()) {
    BEGINS.set(operator);
    report();
    BEGINS.set(null());
}

/// Run `report`, which calls the callbacks for the end of `operator`. Meanwhile they can read its outputs.
pub(crate) fn while_ends(operator: &Operator, report: impl FnOnce()) {
    ENDS.set(operator);
    report();
    ENDS.set(null());
}

/// C value of this kind without type and sizes; `length` is the number of tensors of a list.
fn input_without_tensor(kind: c_int, length: usize) -> CInput {
    CInput { kind, dtype: c"".as_ptr(), dims: null(), length }
}

/// C value of a tensor with its type and sizes; for an undefined tensor one of the kind `OTHER`.
fn input_of_tensor(tensor: Option<Tensor<'_>>) -> CInput {
    let Some(tensor) = tensor else { return input_without_tensor(OTHER, 0) };
    let dims = tensor.dims();
    CInput {
        kind: TENSOR,
        dtype: tensor.dtype().c_name().as_ptr(),
        dims: dims.map_or(null(), <[i64]>::as_ptr),
        length: dims.map_or(0, <[i64]>::len),
    }
}

/// Pass all input values to `put` in order, each list followed by its tensors.
fn for_each_value(values: Inputs<'_>, mut put: impl FnMut(CInput)) {
    for input in values {
        match input {
            Input::Tensor(tensor) => put(input_of_tensor(Some(tensor))),
            Input::Tensors(tensors) => {
                put(input_without_tensor(TENSORS, tensors.len()));
                tensors.for_each(|tensor| put(input_of_tensor(tensor)));
            }
            Input::Scalar => put(input_without_tensor(SCALAR, 0)),
            Input::Scalars => put(input_without_tensor(SCALARS, 0)),
            Input::Gaps(_) | Input::Other => put(input_without_tensor(OTHER, 0)),
        }
    }
}

/// Write the inputs or outputs of an operator to the tool's array, as many as fit, and their whole number to `length`;
/// [`Status::Unavailable`] without values.
///
/// # Safety
/// `array` has room for `capacity` values, and `length` is valid for a write, unless they are null.
unsafe fn write(values: Option<Inputs<'_>>, array: *mut CInput, capacity: usize, length: *mut usize) -> Status {
    if length.is_null() || array.is_null() && capacity > 0 {
        return Status::Unsupported;
    }
    let mut count = 0;
    let known = values.is_some();
    if let Some(values) = values {
        for_each_value(values, |value| {
            if count < capacity {
                // SAFETY: `count` is below `capacity`.
                unsafe { array.add(count).write(value) };
            }
            count += 1;
        });
    }
    // SAFETY: not null, and valid by contract.
    unsafe { length.write(count) };
    if known { Status::Ok } else { Status::Unavailable }
}

/// C function `dlmonitor_inputs_enable`: request shapes and types of operator inputs.
#[unsafe(no_mangle)]
pub extern "C" fn dlmonitor_inputs_enable() -> Status {
    capi_start::request_inputs()
}

/// C function `dlmonitor_outputs_enable`: request shapes and types of operator outputs.
#[unsafe(no_mangle)]
pub extern "C" fn dlmonitor_outputs_enable() -> Status {
    capi_start::request_outputs()
}

/// C function `dlmonitor_inputs_get`: write the inputs of the operator whose begin is being reported.
///
/// # Safety
/// `inputs` has room for `capacity` inputs, and `length` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlmonitor_inputs_get(inputs: *mut CInput, capacity: usize, length: *mut usize) -> Status {
    // SAFETY: set by `while_begins` for as long as the operator is borrowed, null otherwise.
    let Some(operator) = (unsafe { BEGINS.get().as_ref() }) else { return Status::Unavailable };
    // SAFETY: by contract.
    unsafe { write(operator.inputs(), inputs, capacity, length) }
}

/// C function `dlmonitor_outputs_get`: write the outputs of the operator whose end is being reported.
///
/// # Safety
/// `outputs` has room for `capacity` outputs, and `length` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlmonitor_outputs_get(outputs: *mut CInput, capacity: usize, length: *mut usize) -> Status {
    // SAFETY: set by `while_ends` for as long as the operator is borrowed, null otherwise.
    let Some(operator) = (unsafe { ENDS.get().as_ref() }) else { return Status::Unavailable };
    let values = if capi_start::are_outputs_requested() { operator.outputs() } else { None };
    // SAFETY: by contract.
    unsafe { write(values, outputs, capacity, length) }
}
