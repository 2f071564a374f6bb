//! Worker threads for long operations: release of the GIL, Ctrl-C, progress.

use crossbeam_channel::{RecvTimeoutError, bounded};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use stackline_engine::Progress;
use std::time::Duration;

/// Interval of the checks for signals and of progress reports.
const TICK: Duration = Duration::from_millis(50);

/// Run `work` in a separate thread and wait for it without the GIL. Python runs signal handlers only in the main
/// thread while it holds the GIL, so the calling thread must wake up regularly. `tick` is called on the calling
/// thread every 50 ms. If `tick` or a signal handler raises, `watch` is canceled and the exception is raised at
/// once. The work stops at its next check of `watch`, and its result is dropped.
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

/// Variant of [`interruptible`] for work that writes files and checks `watch`: the exception is raised after the work has
/// ended, so that its files are complete or removed.
pub(crate) fn settled<T: Send + 'static>(
    py: Python<'_>,
    watch: &Progress,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    wait(py, watch, CLEAN_UP, |_| Ok(()), work)
}

/// Run `work` in a separate thread like [`interruptible`], without progress reports.
pub(crate) fn quiet<T: Send + 'static>(
    py: Python<'_>,
    watch: &Progress,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    interruptible(py, watch, |_| Ok(()), work)
}
