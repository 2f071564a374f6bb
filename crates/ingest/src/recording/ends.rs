//! End of recorded processes: exit reason from the launcher, and calls that were running.

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

/// File next to the streams in which the launcher writes how the command ended.
const FILE: &str = "ended.json";
/// File in the same folder with the PIDs of workers that their parents terminated, one per line.
const BY_PARENT: &str = "ended_by_parent";

/// Termination of a process by a signal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignaledProcess {
    /// PID of the process.
    pub pid: u32,
    /// Signal number.
    pub signal: i32,
    /// Name of the signal, such as `SIGABRT`.
    pub name: String,
    /// Time when the launcher saw the end, in ns since 1970; 0 for older launchers.
    #[serde(default)]
    pub at_unix_ns: i64,
}

/// Launcher's records on ended processes: the signal that ended the command, and the processes that their parents
/// terminated.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends {
    /// The command, if a signal ended it.
    pub(super) signaled: Option<SignaledProcess>,
    /// PIDs of processes that their parents terminated.
    by_parent: BTreeSet<u32>,
}

impl Ends {
    /// Read the launcher's notes on ended processes from a run directory.
    pub(super) fn read(run: &Path) -> Self {
        let lines = std::fs::read_to_string(run.join(FOLDER).join(BY_PARENT)).unwrap_or_default();
        Self {
            signaled: SignaledProcess::read(run),
            by_parent: lines.lines().filter_map(|line| line.parse().ok()).collect(),
        }
    }

    /// Time from the start of a process to its end as seen by the launcher, in ns; `None` if the launcher did not see
    /// it.
    pub(super) fn lasted_ns(&self, pid: u32, start_unix_ns: i64) -> Option<i64> {
        let seen = self.signaled.as_ref().filter(|signaled| signaled.pid == pid && signaled.at_unix_ns > 0)?;
        Some(seen.at_unix_ns.saturating_sub(start_unix_ns))
    }

    /// Count a process without an end record as terminated by its parent or as killed, and return true if it was
    /// killed.
    pub(super) fn note(&self, stream: &str, pid: u32, report: &mut ReadReport) -> bool {
        if self.by_parent.contains(&pid) {
            diagnostics::ENDED_BY_PARENT.count(report, None, &format!("{stream}: process {pid}"));
            return false;
        }
        let example = match self.signaled.as_ref().filter(|signaled| signaled.pid == pid) {
            Some(SignaledProcess { name, signal, .. }) => {
                format!("{stream}: process {pid} was ended by {name} (signal {signal})")
            }
            None => stream.to_owned(),
        };
        diagnostics::KILLED.count(report, None, &example);
        true
    }
}

impl SignaledProcess {
    /// Write the PID, signal and time of the termination to a file in the run directory.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note(&self, run: &Path) -> io::Result<()> {
        std::fs::write(run.join(FOLDER).join(FILE), serde_json::to_vec(self)?)
    }

    /// Read the termination from its file in the run directory; `None` if no signal ended the command, or the launcher
    /// did not see its end.
    fn read(run: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(run.join(FOLDER).join(FILE)).ok()?).ok()
    }
}

/// Last known call paths of a process: the running call of each thread, and the last sample of the main thread.
#[derive(Debug, Default)]
pub(super) struct LastSeen {
    /// Innermost operator or span of each thread; 0 if it ran none ([`Record::Running`]).
    running: BTreeMap<u32, u32>,
    /// Newest sample of the main thread ([`Record::LastSample`]), and its time in ns since the start of the process.
    sampled: Option<(u32, u32)>,
    sampled_ns: Option<i64>,
}

/// Thread ID of a node, name of the thread, and frames with the innermost first.
pub(super) type LastSeenCall = (u32, String, Vec<String>);

impl LastSeen {
    /// Store the running call or last sample of a thread from a stream record.
    pub(super) fn store(&mut self, record: &Record) {
        match *record {
            Record::Running { thread, node } => drop(self.running.insert(thread, node)),
            Record::Sampled { thread, node } => self.sampled = Some((thread, node)),
            Record::LastSample { thread, node, at_ns } => {
                self.sampled = Some((thread, node));
                self.sampled_ns = i64::try_from(at_ns).ok();
            }
            _ => {}
        }
    }

    /// Count calls that never returned, and the main thread's last sample if it was in none of them. `lasted_ns` is the
    /// time from the start to the end of the process, if known.
    pub(super) fn note(
        &self,
        stream: &str,
        report: &mut ReadReport,
        lasted_ns: Option<i64>,
        at: impl Fn((u32, u32)) -> Option<LastSeenCall>,
    ) {
        let mut threads = BTreeSet::new();
        let running = self.running.iter().map(|(&thread, &node)| (thread, node)).filter(|&(_, node)| node != 0);
        for (tid, thread, frames) in running.filter_map(&at) {
            diagnostics::IN_FLIGHT.count(report, None, &in_words(stream, &thread, &frames));
            threads.insert(tid);
        }
        let sampled = self.sampled.filter(|&(_, node)| node != 0).and_then(at);
        if let Some((_, thread, frames)) = sampled.filter(|(tid, ..)| !threads.contains(tid)) {
            let example = self.with_age(&in_words(stream, &thread, &frames), lasted_ns);
            diagnostics::LAST_SEEN.count(report, None, &example);
        }
    }

    /// Call path with the time of the last sample, relative to the end of the process or else to its start; without a
    /// time if it is unknown.
    fn with_age(&self, path: &str, lasted_ns: Option<i64>) -> String {
        match (self.sampled_ns, lasted_ns) {
            (Some(at), Some(lasted)) => {
                let age = duration(lasted.saturating_sub(at).max(0));
                format!("{path}; this call path was sampled {age} before the end of the process")
            }
            (Some(at), None) => {
                let age = duration(at);
                format!("{path}; this call path was sampled {age} after the recording of the process began")
            }
            (None, _) => path.to_owned(),
        }
    }
}

/// Count the time from the last step of a killed process to its end as seen by the launcher, or else to its last
/// record.
pub(super) fn note_after_steps(trace: &mut Trace, base_ns: i64, killed: &BTreeSet<u32>, ends: &Ends) {
    let Some(last) = trace.steps.iter().max_by_key(|step| step.end) else { return };
    let process = trace.tracks.get(trace.events.track[last.event.index()]).process;
    let pid = trace.tracks.processes[process.index()].pid;
    let Some(&pid) = killed.iter().find(|&&killed| pid == Key::Int(i64::from(killed))) else { return };
    let seen = ends.signaled.as_ref().filter(|signaled| signaled.pid == pid && signaled.at_unix_ns > 0);
    let until = match seen {
        Some(seen) => seen.at_unix_ns.saturating_sub(base_ns),
        None => trace.span().map_or(last.end, |(_, end)| end),
    };
    if until > last.end {
        let (passed, number) = (duration(until - last.end), last.number);
        let example = match seen {
            Some(_) => format!("{passed} passed between the end of step {number} and the end of the process"),
            None => format!("{passed} passed between the end of step {number} and the last record"),
        };
        diagnostics::AFTER_STEPS.count(&mut trace.report, None, &example);
        trace.report.sort();
    }
}

#[cfg(test)]
mod tests {
    use super::{Ends, LastSeen, SignaledProcess};
    use stackline_model::ReadReport;
    use stackline_recording::Record;

    /// The last sample of a process that began 5 s after 1970 and was killed 65 s after 1970.
    #[test]
    fn last_sample_has_its_age() {
        let signaled = SignaledProcess { pid: 7, signal: 15, name: "SIGTERM".to_owned(), at_unix_ns: 65_000_000_000 };
        let ends = Ends { signaled: Some(signaled), ..Ends::default() };
        let example = |record: Record, pid: u32| {
            let (mut seen, mut report) = (LastSeen::default(), ReadReport::default());
            seen.store(&record);
            let lasted_ns = ends.lasted_ns(pid, 5_000_000_000);
            seen.note("a.slr", &mut report, lasted_ns, |_| {
                Some((70, "MainThread (70)".to_owned(), vec!["f".to_owned()]))
            });
            report.problems.remove(0).example
        };
        let sample = || Record::LastSample { thread: 0, node: 1, at_ns: 12_000_000_000 };
        let seen = "a.slr: f on thread MainThread (70)";
        assert_eq!(
            example(sample(), 7),
            format!("{seen}; this call path was sampled 48.00 s before the end of the process")
        );
        assert_eq!(
            example(sample(), 8),
            format!("{seen}; this call path was sampled 12.00 s after the recording of the process began")
        );
        assert_eq!(example(Record::Sampled { thread: 0, node: 1 }, 7), seen, "an earlier recorder");
    }
}
