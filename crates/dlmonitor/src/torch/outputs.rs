//! Detection of the offset of the outputs (`std::vector<c10::IValue>`) in `at::RecordFunction`.
//!
//! Found as [`super::probe`] finds the inputs: a callback on a separate thread inspects calls with known results. The
//! offset is accepted only if it is the same in two calls with different sizes, is the only match, and its vector
//! contains the tensor that the call returned. All memory is read through the kernel.

use super::inputs::{Layout, OUTPUTS, TENSOR};
use super::probe::{Owned, RECORD_FUNCTION, Shim, TENSOR_IMPL, has_sizes, values, word};
use super::{RecordFunctionCallback, probe};
use crate::python::Memory;
use crate::symbols::Library;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;

/// Sizes of the one output that the test call on this thread is expected to have.
#[derive(Clone, Copy)]
struct Expected {
    memory: Memory,
    /// Offset of the sizes in a `TensorImpl`.
    sizes_at: usize,
    sizes: [i64; 2],
}

thread_local! {
    static EXPECTED: Cell<Option<Expected>> = const { Cell::new(None) };
    /// Number of the call, offset and tensor of each matching vector.
    static FOUND: RefCell<Vec<(u32, usize, usize)>> = const { RefCell::new(Vec::new()) };
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// Detect the offset of the outputs in `at::RecordFunction` at the first call.
///
/// # Errors
/// A sentence with the reason why it is unknown.
pub(super) fn find(library: Library, layout: &'static Layout) -> Result<usize, String> {
    if let Some(&offset) = OUTPUTS.get() {
        return Ok(offset);
    }
    let shim = Shim::find(library)?;
    let (sender, found) = std::sync::mpsc::channel();
    // The thread's own calls are not reported, because callbacks find its state in use. The receiver may be gone
    // already.
    let search = move || crate::thread::with(|_| drop(sender.send(search(&shim, layout))));
    crate::thread::without_signals(|| std::thread::Builder::new().name("stackline".into()).spawn(search)).map_err(
        |error| format!("cannot start the thread that determines how PyTorch stores outputs of operators: {error}"),
    )?;
    let found = found.recv_timeout(probe::MAX_WAIT);
    let offset = found.map_err(|_| {
        "operator outputs are not recorded: detecting how PyTorch stores them failed or took too long".to_owned()
    })??;
    Ok(*OUTPUTS.get_or_init(|| offset))
}

/// Detect the offset of the outputs by two test calls, which must agree.
fn search(shim: &Shim, layout: &Layout) -> Result<usize, String> {
    let first = watch(shim, layout, [3, 2])?;
    if first == watch(shim, layout, [2, 5])? {
        Ok(first)
    } else {
        Err("operator outputs are not recorded: PyTorch stored them at different byte offsets in two calls".into())
    }
}

/// Detect the offset of the outputs from one test call: `aten::view` of a tensor, whose result is a new tensor with
/// other sizes.
fn watch(shim: &Shim, layout: &Layout, [rows, columns]: [i64; 2]) -> Result<usize, String> {
    let tensor = Owned::new(shim, &[rows, columns], 6)?;
    let sizes = [columns, rows];
    let memory = Memory::of_this_thread();
    EXPECTED.set(Some(Expected { memory, sizes_at: layout.sizes, sizes }));
    CALLS.set(0);
    FOUND.take();
    let mut callback = RecordFunctionCallback::new(on_start, on_end, super::OPERATORS);
    callback.needs_outputs = 1;
    let view = shim.run_watched(callback, || tensor.reshaped(&sizes));
    EXPECTED.set(None);
    let view = view.ok_or("could not call an operator")?;
    let (found, calls) = (FOUND.take(), CALLS.get());
    let unknown =
        || "operator outputs are not recorded: this version of PyTorch stores them at an unknown position".to_owned();
    let &(_, offset, _) = found.first().ok_or_else(unknown)?;
    let is_returned = found.iter().any(|&(_, _, tensor)| tensor == view.address());
    // One match in each call, always at the same offset.
    let alone = found.len() == calls as usize && found.iter().all(|&(_, at, _)| at == offset);
    if is_returned && alone { Ok(offset) } else { Err(unknown()) }
}

/// Search a `RecordFunction` for vectors of one tensor with the expected sizes: pairs of their offset and the tensor's
/// address.
fn vectors(function: usize, expected: &Expected) -> Vec<(usize, usize)> {
    let mut object = [0; RECORD_FUNCTION];
    let length = expected.memory.read(function, &mut object);
    let object = object.get(..length).unwrap_or_default();
    let at = |offset: usize| {
        let [begin, end, room] = [0, 8, 16].map(|more| word(object, offset + more));
        let (begin, end, room) = (begin?, end?, room?);
        if begin == 0 || end.checked_sub(begin)? != 16 || room < end {
            return None;
        }
        let [(tensor, tag)] = values(&expected.memory, begin)?;
        let mut image = [0; TENSOR_IMPL];
        let length = expected.memory.read(tensor, &mut image);
        let fits =
            tag == TENSOR && has_sizes(&expected.memory, image.get(..length)?, expected.sizes_at, &expected.sizes);
        fits.then_some((offset, tensor))
    };
    (0..length).step_by(8).filter_map(at).collect()
}

/// Callback for the begin of a test call's operator, which does nothing.
unsafe extern "C" fn on_start(context: *mut *mut c_void, _function: *const u8) -> *mut *mut c_void {
    // SAFETY: torch passes space for the `unique_ptr` to return; no context is kept.
    unsafe { context.write(std::ptr::null_mut()) };
    context
}

/// Callback for the end of a test call's operator: store all vectors that match the expected output.
unsafe extern "C" fn on_end(function: *const u8, _context: *mut c_void) {
    let inspect_outputs = || {
        let expected = EXPECTED.get()?;
        let call = CALLS.get();
        CALLS.set(call + 1);
        let vectors = vectors(function as usize, &expected);
        FOUND.with_borrow_mut(|found| found.extend(vectors.iter().map(|&(at, tensor)| (call, at, tensor))));
        Some(())
    };
    let _ = std::panic::catch_unwind(inspect_outputs);
}
