//! Reports of `PyTorch` operators by callbacks (`at::addGlobalCallback`) of the unmodified libraries. There are no
//! headers and no C++ code, so one build works with all versions.
//!
//! Names come from an exported function. Sequence numbers, scopes and forward threads are inline in `RecordFunction`.
//! Their offsets depend on version and ABI and are detected from the first operators (see [`fields`]). Offsets of
//! inputs are detected with a test call (see [`probe`]).

pub(crate) mod compiler;
mod fields;
mod inputs;
pub(crate) mod memory;
mod operator;
mod outputs;
pub(crate) mod overhead;
mod probe;

use crate::symbols::Library;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

pub use compiler::Compilation;
pub(crate) use fields::{describe, has_known_fields, inspect_operator};
pub use inputs::{DType, Input, Inputs, Tensor, Tensors, storage_at};
pub use operator::{Operator, OperatorName, Scope};

/// The by-value argument of `at::addGlobalCallback`: `at::RecordFunctionCallback`, identical from 2.1 to 2.15.
#[repr(C)]
struct RecordFunctionCallback {
    start: unsafe extern "C" fn(*mut *mut c_void, *const u8) -> *mut *mut c_void,
    end: unsafe extern "C" fn(*const u8, *mut c_void),
    sampling_probability: f64,
    scopes: [u8; 10],
    needs_inputs: u8,
    needs_outputs: u8,
    needs_ids: u8,
}

/// FUNCTION and BACKWARD_FUNCTION.
const OPERATORS: [u8; 10] = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0];
/// USER_SCOPE.
const SPANS: [u8; 10] = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0];

impl RecordFunctionCallback {
    /// Describe callbacks for the begin and the end of all calls in these scopes, without inputs and outputs.
    fn new(
        start: unsafe extern "C" fn(*mut *mut c_void, *const u8) -> *mut *mut c_void,
        end: unsafe extern "C" fn(*const u8, *mut c_void),
        scopes: [u8; 10],
    ) -> Self {
        Self { start, end, sampling_probability: 1.0, scopes, needs_inputs: 0, needs_outputs: 0, needs_ids: 0 }
    }
}

/// Functions of `libtorch_cpu` that register and remove callbacks.
#[derive(Clone, Copy)]
pub(crate) struct Functions {
    add: unsafe extern "C" fn(RecordFunctionCallback) -> u64,
    remove: unsafe extern "C" fn(u64),
    pub(crate) name: unsafe extern "C" fn(*const u8) -> *const std::ffi::c_char,
    pub(crate) thread_id: unsafe extern "C" fn() -> u64,
    pub(crate) next_sequence_number: unsafe extern "C" fn() -> u64,
}

static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
/// Handles of the registered callbacks, 0 for none: one for spans, and one for operators and backward nodes, which is
/// removed while they are not reported ([`pause_operators`]).
static REGISTERED: AtomicU64 = AtomicU64::new(0);
static REGISTERED_OPERATORS: AtomicU64 = AtomicU64::new(0);
/// True while a thread changes them.
static CHANGING: AtomicBool = AtomicBool::new(false);
/// Longest wait for another thread's change. A change takes microseconds; in a forked child the changing thread may
/// not exist.
const LONGEST_CHANGE: std::time::Duration = std::time::Duration::from_millis(100);

/// Run `action`, which changes the registered callbacks, while no other thread changes them.
fn change<R>(action: impl FnOnce() -> R) -> R {
    begin_change();
    let result = action();
    end_change();
    result
}

/// Wait until another thread has changed the state of the reports, and block further changes until [`end_change`]. This
/// is also called around a fork, so that no child is created during a change.
pub(crate) fn begin_change() {
    let since = std::time::Instant::now();
    while CHANGING.swap(true, Ordering::Acquire) && since.elapsed() < LONGEST_CHANGE {
        std::thread::yield_now();
    }
}

/// Allow changes by other threads again after [`begin_change`].
pub(crate) fn end_change() {
    CHANGING.store(false, Ordering::Release);
}
/// True if operators are reported with their inputs.
static INPUTS: AtomicBool = AtomicBool::new(false);
/// True if operators are reported with their outputs.
static OUTPUTS: AtomicBool = AtomicBool::new(false);

/// Functions of `libtorch_cpu`; `None` until [`start`] has found them.
#[inline]
pub(crate) fn functions() -> Option<&'static Functions> {
    FUNCTIONS.get()
}

/// Look up the functions that register and read operators in `libtorch_cpu`.
fn find(library: Library) -> Result<Functions, String> {
    let symbol = |name: &CStr| {
        library
            .symbol(name)
            .map(std::ptr::NonNull::as_ptr)
            .ok_or_else(|| format!("libtorch_cpu has no {}", name.to_string_lossy()))
    };
    let add = symbol(c"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE")?;
    let remove = symbol(c"_ZN2at14removeCallbackEm")?;
    let name = symbol(c"_ZNK2at14RecordFunction4nameEv")?;
    let thread_id = symbol(c"_ZN2at14RecordFunction15currentThreadIdEv")?;
    let next = symbol(c"_ZN2at15sequence_number4peekEv")?;
    // SAFETY: these are the C++ signatures (System V ABI: the 40-byte struct is passed by value on the stack, a
    // `this` pointer is the first argument) of every version that exports the symbols.
    unsafe {
        Ok(Functions {
            add: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(RecordFunctionCallback) -> u64>(add),
            remove: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u64)>(remove),
            name: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const u8) -> *const std::ffi::c_char>(name),
            thread_id: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u64>(thread_id),
            next_sequence_number: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u64>(next),
        })
    }
}

/// Register the callbacks for operators and spans with PyTorch; no effect if registered. Call it while no operator runs
/// (registering is not thread-safe by torch's documentation): from the hook on the import of `torch._C`.
///
/// # Errors
/// A sentence with the reason why operators cannot be reported: torch is not loaded, or lacks a function.
pub(crate) fn start() -> Result<(), String> {
    if REGISTERED.load(Ordering::Acquire) != 0 {
        return Ok(());
    }
    let library = Library::loaded(c"libtorch_cpu.so").ok_or("PyTorch is not loaded")?;
    let functions = match FUNCTIONS.get() {
        Some(functions) => functions,
        None => {
            let found = find(library)?;
            FUNCTIONS.get_or_init(|| found)
        }
    };
    change(|| {
        REGISTERED.store(register(functions, SPANS), Ordering::Release);
        REGISTERED_OPERATORS.store(register(functions, OPERATORS), Ordering::Release);
    });
    Ok(())
}

/// Register the callbacks for these scopes, and return their handle.
fn register(functions: &Functions, scopes: [u8; 10]) -> u64 {
    let start = if injected_cost_ns() > 0 && scopes == OPERATORS { on_start_delayed } else { on_start };
    let mut callback = RecordFunctionCallback::new(start, on_end, scopes);
    callback.needs_inputs = u8::from(INPUTS.load(Ordering::Acquire));
    callback.needs_outputs = u8::from(OUTPUTS.load(Ordering::Acquire));
    // SAFETY: the struct has torch's layout, and both callbacks live as long as the process.
    unsafe { (functions.add)(callback) }
}

/// Report only spans from now on, until [`resume_operators`], if `is_needed` returns true; returns that result.
/// `is_needed` is called while no other thread can change the state. Operators in progress are reported to their end.
/// Torch locks its list of callbacks, and each thread copies the list at its next operator, so other threads may run
/// operators meanwhile.
pub(crate) fn pause_operators(is_needed: impl FnOnce() -> bool) -> bool {
    change(|| {
        let is_needed = is_needed();
        if is_needed {
            remove(&REGISTERED_OPERATORS);
        }
        is_needed
    })
}

/// Report operators again, if `is_needed` returns true. Returns true if they were not reported before.
pub(crate) fn resume_operators(is_needed: impl FnOnce() -> bool) -> bool {
    change(|| {
        if let Some(functions) = FUNCTIONS.get()
            && REGISTERED.load(Ordering::Acquire) != 0
            && REGISTERED_OPERATORS.load(Ordering::Acquire) == 0
            && is_needed()
        {
            REGISTERED_OPERATORS.store(register(functions, OPERATORS), Ordering::Release);
            return true;
        }
        false
    })
}

/// Report operators with their inputs from now on, or from [`start`] on. Call it while no operator runs.
///
/// # Errors
/// A sentence with the reason why inputs cannot be read; operators are then reported without inputs.
pub(crate) fn start_inputs() -> Result<String, String> {
    let layout = layout()?;
    request(&INPUTS)?;
    Ok(layout.describe())
}

/// Report operators with their outputs from now on, or from [`start`] on. Call it while no operator runs.
///
/// # Errors
/// A sentence with the reason why outputs cannot be read; operators are then reported without outputs.
pub(crate) fn start_outputs() -> Result<String, String> {
    let layout = layout()?;
    let library = Library::loaded(c"libtorch_cpu.so").ok_or("PyTorch is not loaded")?;
    let offset = outputs::find(library, layout)?;
    request(&OUTPUTS)?;
    Ok(format!("outputs at {offset}"))
}

/// Layout of tensors and values, detected by [`probe`] at the first call.
fn layout() -> Result<&'static inputs::Layout, String> {
    match inputs::Layout::current() {
        Some(layout) => Ok(layout),
        None => Ok(probe::run(Library::loaded(c"libtorch_cpu.so").ok_or("PyTorch is not loaded")?)?.set()),
    }
}

/// Set [`INPUTS`] or [`OUTPUTS`]. If the flag was not set, register the callbacks again so that it takes effect.
fn request(flag: &AtomicBool) -> Result<(), String> {
    if !flag.swap(true, Ordering::AcqRel) && REGISTERED.load(Ordering::Acquire) != 0 {
        unregister();
        start()?;
    }
    Ok(())
}

/// Remove all callbacks from PyTorch, and reset the requests of inputs and outputs. The ends of operators in progress
/// are not reported.
pub(crate) fn stop() {
    INPUTS.store(false, Ordering::Release);
    OUTPUTS.store(false, Ordering::Release);
    unregister();
}

/// Remove the callbacks for spans and for operators.
fn unregister() {
    change(|| {
        remove(&REGISTERED_OPERATORS);
        remove(&REGISTERED);
    });
}

/// Remove the callbacks whose handle is in `registered`, and set it to 0; 0 means that there are none.
fn remove(registered: &AtomicU64) {
    let handle = registered.swap(0, Ordering::AcqRel);
    if let (Some(functions), true) = (FUNCTIONS.get(), handle != 0) {
        // SAFETY: the handle came from `add` and was not removed since.
        unsafe { (functions.remove)(handle) };
    }
}

/// PyTorch's callback for the begin of an operator or span: report it to the observer.
unsafe extern "C" fn on_start(context: *mut *mut c_void, function: *const u8) -> *mut *mut c_void {
    // SAFETY: torch passes space for the `unique_ptr` to return; there is no context.
    unsafe { context.write(std::ptr::null_mut()) };
    crate::dispatch::operator_begins(Operator::new(function));
    context
}

/// For tests of measured overhead: injected delay per reported operator in ns (`STACKLINE_INJECTED_COST_NS`).
fn injected_cost_ns() -> u64 {
    static INJECTED_COST: OnceLock<u64> = OnceLock::new();
    *INJECTED_COST
        .get_or_init(|| std::env::var("STACKLINE_INJECTED_COST_NS").ok().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

/// For the same tests: number of injected waits. A program that reads it can detect in which of its steps operators
/// were reported, if the delay causes at least one wait per step.
#[unsafe(no_mangle)]
static STACKLINE_INJECTED_WAITS: AtomicU64 = AtomicU64::new(0);

/// Begin callback for tests, with a mean delay of [`injected_cost_ns`] per operator; otherwise equal to [`on_start`].
/// The delay is applied once for many operators, because a wait must be longer than reading the clock. If one wait is
/// too long (another program had the processor), the next ones are shortened.
unsafe extern "C" fn on_start_delayed(context: *mut *mut c_void, function: *const u8) -> *mut *mut c_void {
    const MIN_WAIT_NS: i64 = 10_000;
    static PENDING_DELAY_NS: AtomicI64 = AtomicI64::new(0);
    let injected_cost_ns = i64::try_from(injected_cost_ns()).unwrap_or(i64::MAX);
    let due_ns = PENDING_DELAY_NS.fetch_add(injected_cost_ns, Ordering::Relaxed).saturating_add(injected_cost_ns);
    if due_ns >= MIN_WAIT_NS {
        let begin = crate::clock::monotonic_ns();
        // Without a spin hint, for which a hypervisor may take the processor away.
        let waited_ns = loop {
            let waited_ns = crate::clock::monotonic_ns().saturating_sub(begin);
            if waited_ns >= due_ns {
                break waited_ns;
            }
        };
        PENDING_DELAY_NS.fetch_sub(waited_ns, Ordering::Relaxed);
        STACKLINE_INJECTED_WAITS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the contract of the caller is passed on.
    unsafe { on_start(context, function) }
}

/// PyTorch's callback for the end of an operator or span: report it to the observer.
unsafe extern "C" fn on_end(function: *const u8, _context: *mut c_void) {
    crate::dispatch::operator_ends(function as usize);
}

#[cfg(test)]
mod tests {
    use super::{CHANGING, REGISTERED_OPERATORS, pause_operators};
    use std::sync::atomic::Ordering;

    /// No other thread changes the state between the call of `is_needed` and the change.
    #[test]
    fn pause_request_is_evaluated_within_the_change() {
        const HANDLE: u64 = 7;
        // Without PyTorch, no callback has this handle.
        REGISTERED_OPERATORS.store(HANDLE, Ordering::Release);
        let handle_after = |is_needed: bool| {
            let mut evaluated_within = None;
            let paused = pause_operators(|| {
                evaluated_within = Some(CHANGING.load(Ordering::Acquire));
                is_needed
            });
            assert_eq!((evaluated_within, paused), (Some(true), is_needed));
            REGISTERED_OPERATORS.load(Ordering::Acquire)
        };
        assert_eq!(handle_after(false), HANDLE, "another recording has its turn");
        assert_eq!(handle_after(true), 0);
    }
}
