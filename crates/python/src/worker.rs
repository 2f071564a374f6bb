//! Worker threads for long operations: release of the GIL, Ctrl-C, progress.

use crossbeam_channel::{RecvTimeoutError, bounded};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use stackline_engine::Progress;
use std::time::Duration;

/// Interval of the checks for signals and of progress reports.
const TICK: Duration = Duration::from_millis(50);

/// Run `work` in a separate thread and wait without the GIL, with a call of `tick` every 50 ms. An exception of `tick`
/// or a signal handler cancels `watch` and is raised at once.
///
/// Python runs signal handlers only in the main thread while it holds the GIL, so the calling thread must wake up
/// regularly. Canceled work stops at its next check of `watch`, and its result is dropped.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    watch: &Progress,
    tick: impl FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    wait(py, watch, Duration::ZERO, tick, work)
}

/// Run `work` in a separate thread and wait without the GIL. After an exception of `tick` or a signal handler, wait up
/// to `patience` for the end of the work.
fn wait<T: Send + 'static>(
    py: Python<'_>,
    watch: &Progress,
    patience: Duration,
    mut tick: impl FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = bounded(1);
    let spawned = std::thread::Builder::new().name("stackline".to_owned()).spawn(move || {
        // After an interrupt there is no receiver: the result is dropped here.
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
                        // The result is discarded.
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

/// Longest time that an interrupt waits for the cleanup of work that writes files.
const CLEAN_UP: Duration = Duration::from_secs(10);

/// Run `work` that writes files in a separate thread without the GIL. After an interrupt, wait up to 10 s for its
/// cleanup, then raise the exception.
pub(crate) fn settled<T: Send + 'static>(
    py: Python<'_>,
    watch: &Progress,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    wait(py, watch, CLEAN_UP, |_| Ok(()), work)
}

/// Run `work` in a separate thread and wait without the GIL. An interrupt such as Ctrl-C cancels `watch` and is raised
/// at once.
pub(crate) fn quiet<T: Send + 'static>(
    py: Python<'_>,
    watch: &Progress,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    interruptible(py, watch, |_| Ok(()), work)
}
