//! Python interpreter process that runs rules, with its line-based messages.

use crate::failure::wrong_use;
use anyhow::{Context, Result, anyhow};
use serde_json::Value;
use stackline_findings::Message;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

/// Python program of the interpreter. It removes empty `sys.path` entries, so that a local directory `stackline` does
/// not hide the package.
const PROGRAM: &str = r#"
import sys
sys.path[:] = [path for path in sys.path if path]
try:
    from stackline._rules_worker import main
except ImportError as error:
    import json
    reason = "%s has no package stackline of this version (%s): install it there (pip install ./python in a checkout), or name another Python with --python or STACKLINE_PYTHON"
    print(json.dumps({"type": "refused", "reason": reason % (sys.executable, error), "input": False}))
    sys.exit(1)
sys.exit(main())
"#;

/// A running interpreter process for Python rules; dropping the value ends the process.
pub(super) struct Worker {
    child: Child,
    lines: Receiver<std::io::Result<String>>,
}

/// Message, timeout or end of the interpreter process.
pub(super) enum WorkerEvent {
    Message(Message),
    /// The deadline has passed; the interpreter was stopped.
    TimedOut,
    /// The interpreter exited, with this status.
    Ended(String),
}

impl Worker {
    /// Start a Python interpreter for rules and send the request.
    pub(super) fn start(python: &OsStr, request: &Value) -> Result<Self> {
        let spawned = Command::new(python).arg("-c").arg(PROGRAM).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| {
            let name = python.to_string_lossy();
            let what = if error.kind() == ErrorKind::NotFound { "not found".to_owned() } else { error.to_string() };
            wrong_use(format!(
                "cannot start {name} to run Python rules: {what}. Select a Python interpreter that has the package \
                 stackline, with --python or STACKLINE_PYTHON"
            ))
        })?;
        let (sender, lines) = channel();
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines() {
                    // The receiver is closed once the worker is stopped.
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        if let Some(mut input) = child.stdin.take() {
            let sent = input.write_all(request.to_string().as_bytes());
            // An interpreter that ended before it read the request reports the reason itself.
            if let Err(error) = sent.or_else(|e| if e.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(e) }) {
                return Err(error).context("cannot send the Python rules to the Python interpreter");
            }
        }
        Ok(Self { child, lines })
    }

    /// Wait for the interpreter's next message, at most until the deadline if there is one.
    pub(super) fn next(&mut self, deadline: Option<Instant>) -> Result<WorkerEvent> {
        let line = match deadline {
            Some(deadline) => self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())),
            None => self.lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match line {
            Ok(line) => {
                let line = line.context("cannot read the results of the Python rules")?;
                let message = serde_json::from_str(&line).map_err(|error| not_understood(&line, &error))?;
                Ok(WorkerEvent::Message(message))
            }
            Err(RecvTimeoutError::Timeout) => {
                self.stop();
                Ok(WorkerEvent::TimedOut)
            }
            Err(RecvTimeoutError::Disconnected) => {
                let ended = self
                    .child
                    .wait()
                    .context("cannot get the exit status of the Python interpreter that runs rules")?;
                Ok(WorkerEvent::Ended(ended.to_string()))
            }
        }
    }

    /// Kill the interpreter process, if it still runs, and reap it.
    fn stop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Error for a line of the interpreter that is not a known message.
fn not_understood(line: &str, error: &serde_json::Error) -> anyhow::Error {
    let begin: String = line.chars().take(120).collect();
    anyhow!(
        "the Python package stackline sent a message that this program cannot parse ({error}): {begin}; check that the \
         package and this program have the same version"
    )
}
