//! Long work beside the interpreter: the GIL is released, Ctrl-C is answered, progress is told.

use crossbeam_channel::{RecvTimeoutError, bounded};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use stackline_engine::Progress;
use std::time::Duration;

/// How often signals are looked at and progress is told while work goes on.
const TICK: Duration = Duration::from_millis(50);

/// Runs `work` in a thread of its own and waits for it without the GIL. Python's signal handlers run only in the main
/// thread while it holds the GIL, hence the detour. `tick` is called on the calling thread every 50 ms; where it or a
/// signal handler raises, `watch` is cancelled and the exception goes to the caller at once: the work stops at its next
/// look at the watch, and its result is dropped.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    watch: &Progress,
    tick: impl FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    wait(py, watch, Duration::ZERO, tick, work)
}

fn wait<T: Send + 'static>(
    py: Python<'_>,
    watch: &Progress,
    patience: Duration,
    mut tick: impl FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = bounded(1);
    let spawned = std::thread::Builder::new().name("stackline".to_owned()).spawn(move || {
        // Nobody listens any more after an interrupt: the result is dropped here.
        let _ = sender.send(work());
    });
    spawned.map_err(|e| PyRuntimeError::new_err(format!("cannot start a thread: {e}")))?;
    loop {
        match py.detach(|| receiver.recv_timeout(TICK)) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(error) = py.check_signals().and_then(|()| tick(py)) {
                    watch.cancel();
                    if !patience.is_zero() {
                        // Its result is of no use any more.
                        let _ = py.detach(|| receiver.recv_timeout(patience));
                    }
                    return Err(error);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("internal error: the worker thread panicked (message on stderr)"));
            }
        }
    }
}

/// How long an interrupt waits for work that writes files to clean up behind itself.
const CLEAN_UP: Duration = Duration::from_secs(10);

/// The same for work that writes files and looks at the watch: an interrupt comes once it has ended, so that what it
/// leaves behind is settled then.
pub(crate) fn settled<T: Send + 'static>(
    py: Python<'_>,
    watch: &Progress,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    wait(py, watch, CLEAN_UP, |_| Ok(()), work)
}

/// The same for work that tells no progress.
pub(crate) fn quiet<T: Send + 'static>(
    py: Python<'_>,
    watch: &Progress,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    interruptible(py, watch, |_| Ok(()), work)
}
