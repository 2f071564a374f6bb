//! Measurement of the cost that PyTorch adds to each reported operator. The same small calls run with and without
//! reports, on a separate thread.

use super::RecordFunctionCallback;
use super::probe::{Owned, Shim};
use crate::symbols::Library;
use crate::{clock, thread};
use std::cell::Cell;
use std::ffi::c_void;

/// Number of calls of each kind; the median is used.
const CALLS: usize = 150;
/// Bytes that are written between two calls: programs compute between operators, which evicts the data of the
/// previous operator from the nearest cache.
const BYTES_BETWEEN_CALLS: usize = 64 << 10;
/// Larger results per operator are rejected as invalid.
const MOST_NS: u64 = 5_000;

thread_local! {
    static SEEN: Cell<u32> = const { Cell::new(0) };
}

/// Measure PyTorch's own cost per reported operator, in about 1 ms. Call this after operators were enabled, while none
/// runs. If the measurement fails, the cost stays unknown.
pub(crate) fn measure() {
    let Some(library) = Library::loaded(c"libtorch_cpu.so") else { return };
    let Some(enable) = library.symbol(c"_ZN2at20enableRecordFunctionEb") else { return };
    let Ok(shim) = Shim::find(library) else { return };
    // SAFETY: `void at::enableRecordFunction(bool)`, which affects only the calling thread.
    let enable = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(bool)>(enable.as_ptr()) };
    let (sender, found) = std::sync::mpsc::channel();
    let measure_once = move || {
        let operators = operators_per_call(&shim);
        // The thread is not observed meanwhile: callbacks find its state in use and return at once.
        let ns = operators.and_then(|operators| thread::with(|_| per_operator(&shim, enable, operators))?);
        // The receiver may be gone already.
        let _ = sender.send(ns);
    };
    if thread::without_signals(|| std::thread::Builder::new().name("stackline".into()).spawn(measure_once)).is_ok()
        && let Ok(Some(ns)) = found.recv_timeout(super::probe::MAX_WAIT)
    {
        crate::cost::set_torch_cost(ns);
    }
}

/// Number of operators that PyTorch reports for one [`call_view`]; `None` if the call fails or none is reported.
fn operators_per_call(shim: &Shim) -> Option<u64> {
    SEEN.set(0);
    thread::with(|_| {
        shim.run_watched(RecordFunctionCallback::new(on_call, on_end, super::OPERATORS), || call_view(shim))
    })??;
    let seen = SEEN.get();
    (seen > 0).then_some(seen.into())
}

/// Create a small tensor and call `aten::view` on it, as a cheap test operator; `None` on failure.
fn call_view(shim: &Shim) -> Option<()> {
    Owned::new(shim, &[3, 2], 6).ok()?.reshaped(&[2, 3]).map(drop)
}

/// Median time of a reported test call less that of an unreported one, divided by its `operators`, in ns; `None` if the
/// result is implausible.
fn per_operator(shim: &Shim, enable: unsafe extern "C" fn(bool), operators: u64) -> Option<u64> {
    let tensor = Owned::new(shim, &[3, 2], 6).ok()?;
    let mut between = vec![0_u8; BYTES_BETWEEN_CALLS];
    let mut times = [Vec::with_capacity(CALLS), Vec::with_capacity(CALLS)];
    for call in 0..CALLS {
        for (reported, times) in times.iter_mut().enumerate() {
            // SAFETY: a function that sets a variable of this thread.
            unsafe { enable(reported == 1) };
            std::hint::black_box(&mut between).fill(call as u8);
            let since = clock::ticks();
            let view = tensor.reshaped(&[2, 3])?;
            times.push(clock::ns(clock::ticks().saturating_sub(since)));
            drop(view);
        }
    }
    let [without, with] = times.map(median);
    let ns = with.checked_sub(without)? / operators;
    (ns < MOST_NS).then_some(ns)
}

/// Median, for an even number the upper one of the two middle values; 0 without values.
fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

/// Callback for the begin of an operator, which counts it.
unsafe extern "C" fn on_call(context: *mut *mut c_void, _function: *const u8) -> *mut *mut c_void {
    // SAFETY: torch passes space for the `unique_ptr` to return; there is no context.
    unsafe { context.write(std::ptr::null_mut()) };
    SEEN.set(SEEN.get() + 1);
    context
}

/// Callback for the end of an operator, which does nothing.
unsafe extern "C" fn on_end(_function: *const u8, _context: *mut c_void) {}
