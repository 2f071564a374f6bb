//! How processes of a recording ended: what the launcher saw, and what was running then.

use super::FOLDER;
use crate::diagnostics;
use crate::resolve::in_flight::in_words;
use serde::{Deserialize, Serialize};
use stackline_model::format::duration;
use stackline_model::{Key, ReadReport, Trace};
use stackline_recording::Record;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// The file, beside the streams, in which the launcher says how the command ended.
const FILE: &str = "ended.json";
/// The file beside it in which processes say which of their workers they ended: a number in each line.
const BY_PARENT: &str = "ended_by_parent";

/// That a signal ended a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signaled {
    /// The process.
    pub pid: u32,
    /// The signal's number.
    pub signal: i32,
    /// Its name: `SIGABRT`.
    pub name: String,
    /// When the launcher saw the end, ns since 1970; 0 where an older one did not say it.
    #[serde(default)]
    pub at_unix_ns: i64,
}

/// What is known of how processes ended of which the streams do not say it.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends {
    /// The command, if a signal ended it.
    pub(super) signaled: Option<Signaled>,
    /// Processes that the one that made them ended.
    by_parent: BTreeSet<u32>,
}

impl Ends {
    /// What a run directory says.
    pub(super) fn read(run: &Path) -> Self {
        let lines = std::fs::read_to_string(run.join(FOLDER).join(BY_PARENT)).unwrap_or_default();
        Self { signaled: Signaled::read(run), by_parent: lines.lines().filter_map(|line| line.parse().ok()).collect() }
    }

    /// Notes how a process ended whose stream does not say it; tells whether it was killed.
    pub(super) fn note(&self, stream: &str, pid: u32, report: &mut ReadReport) -> bool {
        if self.by_parent.contains(&pid) {
            diagnostics::ENDED_BY_PARENT.count(report, None, &format!("{stream}: process {pid}"));
            return false;
        }
        let example = match self.signaled.as_ref().filter(|signaled| signaled.pid == pid) {
            Some(Signaled { name, signal, .. }) => {
                format!("{stream}: process {pid} was ended by {name} (signal {signal})")
            }
            None => stream.to_owned(),
        };
        diagnostics::KILLED.count(report, None, &example);
        true
    }
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
    fn read(run: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(run.join(FOLDER).join(FILE)).ok()?).ok()
    }
}

/// Where the threads of a process were when its stream was written last.
#[derive(Debug, Default)]
pub(super) struct LastSeen {
    /// The innermost operator or span of each thread that ran one; 0 where none did ([`Record::Running`]).
    running: BTreeMap<u32, u32>,
    /// The newest sample of the main thread ([`Record::Sampled`]).
    sampled: Option<(u32, u32)>,
}

/// Of a node: the number of its thread, that in words, and its frames, the innermost first.
pub(super) type SeenAt = (u32, String, Vec<String>);

impl LastSeen {
    /// Takes over what a record says of a node that exists.
    pub(super) fn put(&mut self, record: &Record) {
        match *record {
            Record::Running { thread, node } => drop(self.running.insert(thread, node)),
            Record::Sampled { thread, node } => self.sampled = Some((thread, node)),
            _ => {}
        }
    }

    /// Notes which calls never returned, and where the main thread was if it was in none.
    pub(super) fn note(&self, stream: &str, report: &mut ReadReport, at: impl Fn((u32, u32)) -> Option<SeenAt>) {
        let mut threads = BTreeSet::new();
        let running = self.running.iter().map(|(&thread, &node)| (thread, node)).filter(|&(_, node)| node != 0);
        for (tid, thread, frames) in running.filter_map(&at) {
            diagnostics::IN_FLIGHT.count(report, None, &in_words(stream, &thread, &frames));
            threads.insert(tid);
        }
        let sampled = self.sampled.filter(|&(_, node)| node != 0).and_then(at);
        if let Some((_, thread, frames)) = sampled.filter(|(tid, ..)| !threads.contains(tid)) {
            diagnostics::LAST_SEEN.count(report, None, &in_words(stream, &thread, &frames));
        }
    }
}

/// Says how much time a process that was killed went on after its last step: until the launcher saw its end, or until its last
/// record, where nobody saw it.
pub(super) fn note_after_steps(trace: &mut Trace, base_ns: i64, killed: &BTreeSet<u32>, ends: &Ends) {
    let Some(last) = trace.steps.iter().max_by_key(|step| step.end) else { return };
    let process = trace.tracks.get(trace.events.track[last.event.index()]).process;
    let pid = trace.tracks.processes[process.index()].pid;
    let Some(&pid) = killed.iter().find(|&&killed| pid == Key::Int(i64::from(killed))) else { return };
    let seen = ends.signaled.as_ref().filter(|signaled| signaled.pid == pid && signaled.at_unix_ns > 0);
    let (until, what) = match seen {
        Some(seen) => (seen.at_unix_ns.saturating_sub(base_ns), "the end of the process"),
        None => (trace.span().map_or(last.end, |(_, end)| end), "its last record"),
    };
    if until > last.end {
        let example = format!("{} between the end of step {} and {what}", duration(until - last.end), last.number);
        diagnostics::AFTER_STEPS.count(&mut trace.report, None, &example);
        trace.report.sort();
    }
}
