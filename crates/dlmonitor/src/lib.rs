//! `DLMonitor` (`DeepContext`, section 4.1): a shim between profilers and deep-learning frameworks.
//!
//! It is loaded into the watched process and knows how to look there: at the operators of the framework, at Python
//! frames, at native frames. A profiler registers an [`Observer`] and is called before and after each operator; it
//! never touches a framework itself.

#![allow(unsafe_code, reason = "FFI: each module that needs it says why it is sound")]
#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic where the program's output cannot be written")]

pub mod capi;
mod capi_callbacks;
pub mod capi_inputs;
mod capi_names;
mod capi_path;
mod capi_start;
pub mod clock;
mod cost;
mod dispatch;
mod fork;
pub mod native;
mod path;
mod plt_hook;
mod python;
mod quiet;
mod symbols;
mod thread;
mod torch;
mod versions;

pub use cost::{Cost, cost};
pub use dispatch::{Observer, collection_begins, collection_ends, interpreter};
pub use path::{NativeFrame, PathFrame, Sources, call_path};
pub use python::{
    Beyond, FrameSampler, Interpreter, MAX_SAMPLED, Memory, PythonFrame, PythonLine, SampledCode, SampledFrame,
    SeenFrame, Walk,
};
pub use quiet::{Gate, Inside, callbacks_ended};
pub use thread::{OpenOperator, Thread, without_signals};
pub use torch::{Compilation, DType, Input, Inputs, Operator, OperatorName, Scope, Tensor, Tensors, storage_at};
pub use versions::{python_version, torch_version};

/// Whether a source works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceState {
    /// Its name.
    pub name: &'static str,
    /// How it works, or why it does not.
    pub state: Result<String, String>,
}

/// Sets the observer of this process and starts the clock. Sources are started one by one afterwards.
///
/// Returns `false` if there is an observer already.
pub fn init(observer: Box<dyn Observer>) -> bool {
    clock::start();
    let first = dispatch::set_observer(observer);
    if first {
        cost::reset();
    }
    dispatch::activate(first);
    fork::watch();
    first
}

/// Reads Python frames from now on.
pub fn start_python() -> SourceState {
    let state = Interpreter::find().map(|interpreter| {
        dispatch::set_interpreter(interpreter);
        let (major, minor) = interpreter.version();
        format!("frames of CPython {major}.{minor}")
    });
    SourceState { name: "python", state }
}

/// Reads native frames from now on.
pub fn start_native() -> SourceState {
    SourceState { name: "native", state: native::start() }
}

/// Reports `PyTorch` operators from now on; for the hook on the import of `torch._C`.
pub fn start_torch() -> SourceState {
    SourceState { name: "pytorch", state: torch::start().map(|()| "operators".into()) }
}

/// Measures what `PyTorch` itself takes to report an operator, for [`cost()`]; after [`start_torch`], while no operator runs.
pub fn measure_torch() {
    if torch::functions().is_some() {
        torch::overhead::measure();
    }
}

/// Reports operators with their inputs ([`Operator::inputs`]); before [`start_torch`]. `PyTorch` then puts the inputs of
/// each operator together, which costs time.
pub fn start_shapes() -> SourceState {
    SourceState { name: "shapes", state: torch::start_inputs() }
}

/// Reports operators with their outputs, which a callback for the end of an operator may read (C interface:
/// `dlmonitor_outputs_get`). `PyTorch` then keeps the outputs of each operator until its callbacks returned, which costs time.
pub fn start_outputs() -> SourceState {
    SourceState { name: "outputs", state: torch::start_outputs() }
}

/// Reports allocations of `PyTorch`'s CPU allocator from now on; after [`start_torch`].
pub fn start_memory() -> SourceState {
    SourceState { name: "memory", state: torch::memory::start().map(|()| "allocations of the CPU allocator".into()) }
}

/// Reports compilations by `torch.compile` from now on, whether its compiler was imported or will be; after
/// [`start_torch`]. Waits for Python's lock. [`compiler_states`] says what became of it.
pub fn start_compilations() {
    torch::compiler::start_compilations();
}

/// Has the kernels named that `torch.compile` makes for the CPU, so that they are reported as operators. This is an
/// option of the compiler (`cpp.enable_kernel_profile`): the code of kernels changes, not what they compute. It has an
/// effect if the compiler is imported after this. Waits for Python's lock. [`compiler_states`] says what became of it.
pub fn start_kernels() {
    torch::compiler::start_kernels();
}

/// How compilations and kernels are reported; nothing as long as the program does not import `PyTorch`'s compiler.
pub fn compiler_states() -> impl Iterator<Item = &'static SourceState> {
    torch::compiler::states()
}

/// `PyTorch`'s id of the calling thread, by which backward nodes name the thread of their forward operator; 0 without
/// `PyTorch`.
#[must_use]
pub fn torch_thread_id() -> u64 {
    // SAFETY: it takes nothing and reads a thread-local variable.
    torch::functions().map_or(0, |functions| unsafe { (functions.thread_id)() })
}

/// How well `PyTorch`'s operators are understood by now.
#[must_use]
pub fn torch_state() -> SourceState {
    SourceState {
        name: "pytorch",
        state: if torch::functions().is_some() { Ok(torch::describe()) } else { Err("not imported".into()) },
    }
}

/// Calls the observer again after [`finalize`]. Sources are started one by one.
pub fn resume() {
    cost::reset();
    dispatch::activate(true);
}

/// Reports spans alone from now on, until [`resume_operators`]: operators and backward nodes run as they do without a profiler.
/// Those that run now are reported to their end. `is_wanted` is asked when no other thread can change what is reported, and may
/// neither wait nor change that itself: a caller that is late finds out that it is another's turn. Returns what it said.
pub fn pause_operators(is_wanted: impl FnOnce() -> bool) -> bool {
    torch::pause_operators(is_wanted)
}

/// Reports operators again after [`pause_operators`], which says what `is_wanted` is. Returns whether they were not reported before.
pub fn resume_operators(is_wanted: impl FnOnce() -> bool) -> bool {
    torch::resume_operators(is_wanted)
}

/// Reports nothing from now on. For callbacks of the observer, too: unlike [`finalize`] it runs no Python code, and leaves what reports
/// allocations and compilations in its place, where it leads to nothing.
pub fn silence() {
    dispatch::activate(false);
    torch::stop();
}

/// Stops all callbacks. Operators that run at this moment are not reported any more.
pub fn finalize() {
    silence();
    torch::memory::stop();
    torch::compiler::stop();
}
