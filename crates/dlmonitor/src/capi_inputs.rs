//! Inputs of operators in the C interface (`include/dlmonitor.h`).

use crate::capi::Status;
use crate::torch::{Input, Operator, Tensor};
use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::ptr::null;

/// `dlmonitor_input`.
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
    /// The operator whose begin is reported now.
    static BEGINS: Cell<*const Operator> = const { Cell::new(null()) };
}

/// Runs `report` while inputs of `operator` may be asked for.
pub(crate) fn of(operator: &Operator, report: impl FnOnce()) {
    BEGINS.set(operator);
    report();
    BEGINS.set(null());
}

fn plain(kind: c_int, length: usize) -> CInput {
    CInput { kind, dtype: c"".as_ptr(), dims: null(), length }
}

fn described(tensor: Option<Tensor<'_>>) -> CInput {
    let Some(tensor) = tensor else { return plain(OTHER, 0) };
    let dims = tensor.dims();
    CInput {
        kind: TENSOR,
        dtype: tensor.dtype().c_name().as_ptr(),
        dims: dims.map_or(null(), <[i64]>::as_ptr),
        length: dims.map_or(0, <[i64]>::len),
    }
}

/// All inputs one after the other, lists followed by their tensors.
fn each(operator: &Operator, mut put: impl FnMut(CInput)) -> Option<()> {
    for input in operator.inputs()? {
        match input {
            Input::Tensor(tensor) => put(described(Some(tensor))),
            Input::Tensors(tensors) => {
                put(plain(TENSORS, tensors.len()));
                tensors.for_each(|tensor| put(described(tensor)));
            }
            Input::Scalar => put(plain(SCALAR, 0)),
            Input::Scalars => put(plain(SCALARS, 0)),
            Input::Gaps(_) | Input::Other => put(plain(OTHER, 0)),
        }
    }
    Some(())
}

/// `dlmonitor_inputs_enable`.
#[unsafe(no_mangle)]
pub extern "C" fn dlmonitor_inputs_enable() -> Status {
    match crate::start_shapes().state {
        Ok(_) => Status::Ok,
        Err(_) => Status::Unavailable,
    }
}

/// `dlmonitor_inputs_get`.
///
/// # Safety
/// `inputs` has room for `capacity` inputs, and `length` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlmonitor_inputs_get(inputs: *mut CInput, capacity: usize, length: *mut usize) -> Status {
    // SAFETY: set by `of` for as long as the operator is borrowed, null otherwise.
    let Some(operator) = (unsafe { BEGINS.get().as_ref() }) else { return Status::Unavailable };
    if length.is_null() || inputs.is_null() && capacity > 0 {
        return Status::Unsupported;
    }
    let mut count = 0;
    let found = each(operator, |input| {
        if count < capacity {
            // SAFETY: `count` is below `capacity`.
            unsafe { inputs.add(count).write(input) };
        }
        count += 1;
    });
    // SAFETY: not null, and valid by contract.
    unsafe { length.write(count) };
    if found.is_some() { Status::Ok } else { Status::Unavailable }
}
