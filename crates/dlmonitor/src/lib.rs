//! `DLMonitor` (`DeepContext`, section 4.1): a shim between profilers and deep-learning frameworks.
//!
//! The library is loaded into the observed process. It reads the operators of the framework, Python frames and native
//! frames. A profiler registers an [`Observer`], which is called before and after each operator, and does not depend
//! on a framework.

#![allow(unsafe_code, reason = "FFI: each use has a SAFETY comment")]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "print macros panic if the program's output cannot be written"
)]

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
    FrameSampler, Interpreter, MAX_SAMPLED, Memory, OuterCaller, PythonFrame, PythonLine, SampledCode, SampledFrame,
    SeenFrame, Walk,
};
pub use quiet::{Gate, Inside, callbacks_ended};
pub use thread::{OpenOperator, Thread, without_signals};
pub use torch::{Compilation, DType, Input, Inputs, Operator, OperatorName, Scope, Tensor, Tensors, storage_at};
pub use versions::{python_version, torch_version};

/// State of a source of data, such as operators or Python frames: working, or the reason why it does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceState {
    /// Name of the source.
    pub name: &'static str,
    /// A description of the source, or the reason why it does not work.
    pub state: Result<String, String>,
}

/// Set the observer of this process and start the clock. The sources are started separately afterwards.
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

/// Start to read Python frames at operators.
pub fn start_python() -> SourceState {
    let state = Interpreter::find().map(|interpreter| {
        dispatch::set_interpreter(interpreter);
        let (major, minor) = interpreter.version();
        format!("frames of CPython {major}.{minor}")
    });
    SourceState { name: "python", state }
}

/// Start to read native frames (C and C++) at operators.
pub fn start_native() -> SourceState {
    SourceState { name: "native", state: native::start() }
}

/// Start to report `PyTorch` operators. Called by the hook on the import of `torch._C`.
pub fn start_torch() -> SourceState {
    SourceState { name: "pytorch", state: torch::start().map(|()| "operators".into()) }
}

/// Measure the cost of `PyTorch` itself per reported operator, for [`cost()`]. Call it after [`start_torch`], while
/// no operator runs.
pub fn measure_torch() {
    if torch::functions().is_some() {
        torch::overhead::measure();
    }
}

/// Start to report operators with the shapes and types of their inputs ([`Operator::inputs`]). Call it before
/// [`start_torch`]. `PyTorch` then collects the inputs of each operator, which costs time.
pub fn start_shapes() -> SourceState {
    SourceState { name: "shapes", state: torch::start_inputs() }
}

/// Start to report operators with their outputs, which a callback for the end of an operator can read. In the C
/// interface, `dlmonitor_outputs_get` returns the outputs. `PyTorch` then keeps the outputs of each operator until its
/// callbacks have returned, which costs time.
pub fn start_outputs() -> SourceState {
    SourceState { name: "outputs", state: torch::start_outputs() }
}

/// Start to report allocations of `PyTorch`'s CPU allocator. Call it after [`start_torch`].
pub fn start_memory() -> SourceState {
    SourceState { name: "memory", state: torch::memory::start().map(|()| "allocations of the CPU allocator".into()) }
}

/// Start to report compilations by `torch.compile`, if its compiler is imported before or after this call. Call it
/// after [`start_torch`]. Waits for Python's lock. [`compiler_states`] returns the state.
pub fn start_compilations() {
    torch::compiler::start_compilations();
}

/// Enable names for the CPU kernels that `torch.compile` generates, so that they are reported as operators. This sets
/// an option of the compiler (`cpp.enable_kernel_profile`), which changes the code of kernels but not their results. It
/// has an effect if the compiler is imported later. Waits for Python's lock. [`compiler_states`] returns the state.
pub fn start_kernels() {
    torch::compiler::start_kernels();
}

/// States of the sources for compilations and their kernels; empty until the program imports `PyTorch`'s compiler.
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

/// State of the source for `PyTorch`'s operators: the detected field offsets, or "not imported".
#[must_use]
pub fn torch_state() -> SourceState {
    SourceState {
        name: "pytorch",
        state: if torch::functions().is_some() { Ok(torch::describe()) } else { Err("not imported".into()) },
    }
}

/// Report to the observer again after [`finalize`]. The sources are started separately.
pub fn resume() {
    cost::reset();
    dispatch::activate(true);
}

/// Report only spans, no operators, from now on until [`resume_operators`], if `is_needed` returns true; returns that
/// result. Operators and backward nodes then run as without a profiler, and those in progress are reported to their
/// end. `is_needed` is called while no other thread can change this state; it must neither wait nor change the state
/// itself. By it, a late caller detects that another thread has decided since.
pub fn pause_operators(is_needed: impl FnOnce() -> bool) -> bool {
    torch::pause_operators(is_needed)
}

/// Report operators again after [`pause_operators`], if `is_needed` returns true. Returns true if operators were not
/// reported before. `is_needed` is called as by [`pause_operators`].
pub fn resume_operators(is_needed: impl FnOnce() -> bool) -> bool {
    torch::resume_operators(is_needed)
}

/// Stop all reports without running Python code, so that callbacks of the observer may call this. Unlike after
/// [`finalize`], the hooks of allocations and compilations remain installed without effect.
pub fn silence() {
    dispatch::activate(false);
    torch::stop();
}

/// Stop all reports. The ends of operators in progress are not reported.
pub fn finalize() {
    silence();
    torch::memory::stop();
    torch::compiler::stop();
}
