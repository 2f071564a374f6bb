//! Start and stop of monitoring through the C interface: immediately if PyTorch is loaded, otherwise at its import.
//!
//! If an interpreter runs, a finder in `sys.meta_path` waits for `torch._C`. If the interpreter has not started (in a
//! constructor of an `LD_PRELOAD` library), an audit hook (PEP 578) installs the finder when `torch` is imported. In
//! both cases, operators are reported from the loading of PyTorch's libraries on, before any operator runs, by the
//! importing thread and without polling.

use crate::capi::{EventForwarder, Status};
use crate::{capi_callbacks, dispatch, python, torch};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

static STARTED: OnceLock<bool> = OnceLock::new();
/// Serializes starts of PyTorch's sources. The holder never waits for Python's lock.
static STARTING: Mutex<()> = Mutex::new(());
/// Number of starts and stops. The end of an operator is reported only in the session in which it began.
static SESSION: AtomicU64 = AtomicU64::new(0);
/// True while PyTorch is to be started as soon as it is loaded.
static STARTS_UPON_IMPORT: AtomicBool = AtomicBool::new(false);
static INPUTS: AtomicBool = AtomicBool::new(false);
static OUTPUTS: AtomicBool = AtomicBool::new(false);

/// Number of the current monitoring session, from a counter of the starts and stops of monitoring.
#[inline]
pub(crate) fn session() -> u64 {
    SESSION.load(Ordering::Relaxed)
}

/// Implement `dlmonitor_init`: start monitoring; without PyTorch, return [`Status::Unavailable`] and start when PyTorch
/// is imported.
pub(crate) fn start() -> Status {
    if capi_callbacks::is_inside() {
        return Status::Unsupported;
    }
    if !*STARTED.get_or_init(|| crate::init(Box::new(EventForwarder))) {
        return Status::InUse;
    }
    if !dispatch::is_active() {
        SESSION.fetch_add(1, Ordering::Relaxed);
        crate::resume();
    }
    if crate::interpreter().is_none() {
        let _ = crate::start_python();
    }
    if start_torch() {
        crate::start_compilations();
        return Status::Ok;
    }
    STARTS_UPON_IMPORT.store(true, Ordering::SeqCst);
    torch::compiler::upon_import(after_torch_import);
    if python::audit::is_needed() {
        python::audit::install(before_torch_import);
    }
    // Another thread may have imported it just now.
    if STARTS_UPON_IMPORT.load(Ordering::SeqCst) { Status::Unavailable } else { Status::Ok }
}

/// Implement `dlmonitor_finalize`: stop monitoring and remove all callbacks.
pub(crate) fn stop() {
    STARTS_UPON_IMPORT.store(false, Ordering::SeqCst);
    for flag in [&INPUTS, &OUTPUTS] {
        flag.store(false, Ordering::Relaxed);
    }
    SESSION.fetch_add(1, Ordering::Relaxed);
    crate::finalize();
    capi_callbacks::clear();
}

/// Start PyTorch's sources; `false` if PyTorch is not loaded or lacks a function.
fn start_torch() -> bool {
    let _serial = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if INPUTS.load(Ordering::Relaxed) {
        let _ = crate::start_shapes();
    }
    if OUTPUTS.load(Ordering::Relaxed) {
        let _ = crate::start_outputs();
    }
    if crate::start_torch().state.is_err() {
        return false;
    }
    let _ = crate::start_memory();
    let _ = crate::start_native();
    STARTS_UPON_IMPORT.store(false, Ordering::SeqCst);
    true
}

/// Start PyTorch's sources after the import of its extension module, if a start is pending. Python's lock is held.
fn after_torch_import() {
    if STARTS_UPON_IMPORT.load(Ordering::SeqCst) && dispatch::is_active() {
        if crate::interpreter().is_none() {
            let _ = crate::start_python();
        }
        if start_torch() {
            crate::start_compilations();
        }
    }
}

/// Before the import of `torch`, request a call of [`after_torch_import`] if a start is pending. Python's lock is held.
fn before_torch_import() {
    if STARTS_UPON_IMPORT.load(Ordering::SeqCst) {
        torch::compiler::upon_import(after_torch_import);
    }
}

/// Implement `dlmonitor_inputs_enable`: request shapes and types of operator inputs.
pub(crate) fn request_inputs() -> Status {
    request(&INPUTS, crate::start_shapes)
}

/// Implement `dlmonitor_outputs_enable`: request shapes and types of operator outputs.
pub(crate) fn request_outputs() -> Status {
    request(&OUTPUTS, crate::start_outputs)
}

/// True if the tool has requested the outputs of operators.
pub(crate) fn are_outputs_requested() -> bool {
    OUTPUTS.load(Ordering::Relaxed)
}

/// Set `flag`, and start the source now if PyTorch is loaded; otherwise its import does.
fn request(flag: &AtomicBool, start: impl FnOnce() -> crate::SourceState) -> Status {
    if capi_callbacks::is_inside() {
        return Status::Unsupported;
    }
    // Remember the request also if PyTorch is not loaded: its start then includes it.
    flag.store(true, Ordering::Relaxed);
    let _serial = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if start().state.is_ok() { Status::Ok } else { Status::Unavailable }
}
