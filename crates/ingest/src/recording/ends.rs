//! How processes of a recording ended: what the launcher saw, and what was running then.

use super::FOLDER;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// The file, beside the streams, in which the launcher says how the command ended.
const FILE: &str = "ended.json";
/// Frames of a path that are named.
const NAMED: usize = 6;

/// That a signal ended a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signaled {
    /// The process.
    pub pid: u32,
    /// The signal's number.
    pub signal: i32,
    /// Its name: `SIGABRT`.
    pub name: String,
}

impl Signaled {
    /// Says it in a run directory.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note(&self, run: &Path) -> io::Result<()> {
        std::fs::write(run.join(FOLDER).join(FILE), serde_json::to_vec(self)?)
    }

    /// What a run directory says; none if no signal ended the command, or if nobody saw its end.
    pub(super) fn read(run: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(run.join(FOLDER).join(FILE)).ok()?).ok()
    }
}

/// How a process ended of which the stream does not say it.
pub(super) fn killed_words(stream: &str, pid: u32, signaled: Option<&Signaled>) -> String {
    match signaled.filter(|signaled| signaled.pid == pid) {
        Some(Signaled { name, signal, .. }) => format!("{stream}: process {pid} was ended by {name} (signal {signal})"),
        None => stream.to_owned(),
    }
}

/// A call that never returned: its frames, the innermost first.
pub(super) fn running_words(stream: &str, thread: &str, frames: &[String]) -> String {
    let [innermost, callers @ ..] = frames else { return format!("{stream}: thread {thread}") };
    let mut words = format!("{stream}: {innermost} on thread {thread}");
    for (at, caller) in callers.iter().take(NAMED).enumerate() {
        words.push_str(if at == 0 { ", called from " } else { " < " });
        words.push_str(caller);
    }
    if callers.len() > NAMED {
        words.push_str(" < …");
    }
    words
}
