//! Start and stop of the C interface: now if PyTorch is loaded, otherwise when the program imports it.
//!
//! Where an interpreter runs, a finder in `sys.meta_path` waits for `torch._C`. Where the interpreter is still to start (a
//! constructor of a library of `LD_PRELOAD`), an audit hook (PEP 578) puts that finder there when `torch` is imported.
//! Either way operators are reported from the moment on that PyTorch's libraries are loaded, before any operator ran, on
//! the importing thread: nothing polls.

use crate::capi::{Forward, Status};
use crate::{capi_callbacks, dispatch, python, torch};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

static STARTED: OnceLock<bool> = OnceLock::new();
/// Serializes starts of PyTorch's sources. Who holds it does not wait for Python's lock.
static STARTING: Mutex<()> = Mutex::new(());
/// Number of starts and stops; an operator is reported to the end only in the session that it began in.
static SESSION: AtomicU64 = AtomicU64::new(0);
/// Whether PyTorch is started as soon as it is loaded.
static WAITING: AtomicBool = AtomicBool::new(false);
static INPUTS: AtomicBool = AtomicBool::new(false);
static OUTPUTS: AtomicBool = AtomicBool::new(false);

/// The number of this session.
#[inline]
pub(crate) fn session() -> u64 {
    SESSION.load(Ordering::Relaxed)
}

/// `dlmonitor_init`.
pub(crate) fn start() -> Status {
    if capi_callbacks::is_inside() {
        return Status::Unsupported;
    }
    if !*STARTED.get_or_init(|| crate::init(Box::new(Forward))) {
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
    WAITING.store(true, Ordering::SeqCst);
    torch::compiler::upon_import(torch_imported);
    if python::audit::is_needed() {
        python::audit::install(torch_is_imported);
    }
    // It may have been imported just now, by another thread.
    if WAITING.load(Ordering::SeqCst) { Status::Unavailable } else { Status::Ok }
}

/// `dlmonitor_finalize`.
pub(crate) fn stop() {
    WAITING.store(false, Ordering::SeqCst);
    for wanted in [&INPUTS, &OUTPUTS] {
        wanted.store(false, Ordering::Relaxed);
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
    WAITING.store(false, Ordering::SeqCst);
    true
}

/// PyTorch's extension module was imported; the calling thread holds Python's lock.
fn torch_imported() {
    if WAITING.load(Ordering::SeqCst) && dispatch::is_active() {
        if crate::interpreter().is_none() {
            let _ = crate::start_python();
        }
        if start_torch() {
            crate::start_compilations();
        }
    }
}

/// `torch` is about to be imported; the calling thread holds Python's lock.
fn torch_is_imported() {
    if WAITING.load(Ordering::SeqCst) {
        torch::compiler::upon_import(torch_imported);
    }
}

/// `dlmonitor_inputs_enable`.
pub(crate) fn want_inputs() -> Status {
    want(&INPUTS, crate::start_shapes)
}

/// `dlmonitor_outputs_enable`.
pub(crate) fn want_outputs() -> Status {
    want(&OUTPUTS, crate::start_outputs)
}

pub(crate) fn wants_outputs() -> bool {
    OUTPUTS.load(Ordering::Relaxed)
}

fn want(wanted: &AtomicBool, start: impl FnOnce() -> crate::SourceState) -> Status {
    if capi_callbacks::is_inside() {
        return Status::Unsupported;
    }
    // Also where PyTorch is not loaded: it is started with what was asked for before.
    wanted.store(true, Ordering::Relaxed);
    let _serial = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if start().state.is_ok() { Status::Ok } else { Status::Unavailable }
}
