//! Processes and threads of a recorded run.

use super::CallingContextTree;
use crate::{CallProcessId, StrId};

/// Recorded process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallProcess {
    /// Process ID (PID).
    pub pid: u32,
    /// PID of the parent process.
    pub parent_pid: u32,
    /// Origin of the process.
    pub role: CallRole,
    /// Rank in a distributed job.
    pub rank: Option<u32>,
    /// Wall-clock time of the begin of recording, ns since 1970.
    pub start_unix_ns: i64,
    /// Duration of recording, ns; `None` if the process was killed or still ran, so that the last records may be
    /// missing.
    pub lasted_ns: Option<u64>,
    /// Command line.
    pub command: Vec<String>,
    /// Version of the interpreter, empty if there is none.
    pub python: String,
    /// Version of PyTorch, empty if it was not imported.
    pub torch: String,
    /// Version of the recorder.
    pub recorder: String,
    /// Sources of events, and their states.
    pub sources: Vec<CallSource>,
    /// Missing records: name of the loss and count.
    pub lost: Vec<(String, u64)>,
    /// Overhead of the recorder, if it was to be measured and a step ended.
    pub overhead: Option<CallOverhead>,
    /// End times of steps, if steps ended and the recorder reports them.
    pub step_ends: Option<CallStepEnds>,
}

/// Number of characters of a command in a process title.
const COMMAND: usize = 80;

impl CallingContextTree {
    /// PID of a process. If several programs had it (`exec`, reused PIDs, other machines), also the position among them
    /// in the order of their starts, and the command.
    pub fn process_title(&self, process: CallProcessId) -> String {
        let Some(CallProcess { pid, command, .. }) = self.processes.get(process.index()) else { return String::new() };
        let same = || self.processes.iter().enumerate().filter(|(_, other)| other.pid == *pid);
        let count = same().count();
        // Files of other profilers may lack process numbers.
        if count < 2 || *pid == 0 {
            return pid.to_string();
        }
        let position = same().take_while(|(at, _)| *at <= process.index()).count();
        let command = command.join(" ");
        let more = if command.chars().count() > COMMAND { "…" } else { "" };
        let command: String = command.chars().take(COMMAND).collect();
        let command = if command.is_empty() { command } else { format!(": {command}{more}") };
        format!("{pid} (program {position} of {count} with this PID{command})")
    }
}

/// End times of optimizer steps, on all threads of a process and with all optimizers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallStepEnds {
    /// Number of ended steps.
    pub count: u64,
    /// Time from the start of the process to the end of the first step, ns.
    pub first_ns: u64,
    /// Time from the start of the process to the end of the last step, ns.
    pub last_ns: u64,
}

/// Overhead of the recorder: the time that recording adds to a step, measured by unrecorded steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOverhead {
    /// Number of unrecorded steps; 0 if too few steps ended at the same call path. The tree has only their numbers of
    /// span calls and total durations.
    pub unrecorded_steps: u64,
    /// Number of comparisons of recorded with unrecorded steps.
    pub comparisons: u32,
    /// Median of all comparisons with its 95 % interval; `None` if there were too few.
    pub fraction: Option<OverheadFraction>,
}

/// Time that recording adds to a step, relative to an unrecorded step, in millionths, with confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverheadFraction {
    /// Lower end of the interval.
    pub low_ppm: i64,
    /// Median.
    pub median_ppm: i64,
    /// Upper end of the interval.
    pub high_ppm: i64,
}

/// Role of a process in a recorded run: started program, fork, or child of Python's `multiprocessing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CallRole {
    /// The command itself, or a program that a recorded one started.
    #[default]
    Main,
    /// Forked from a recorded process.
    Fork,
    /// Started by Python's `multiprocessing`.
    Spawn,
}

impl CallRole {
    /// Stable name of a process's role in the run.
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Fork => "fork",
            Self::Spawn => "spawn",
        }
    }

    /// Role of a process with this stable name; `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Main, Self::Fork, Self::Spawn].into_iter().find(|role| role.name() == name)
    }
}

/// Source of recorded events in a process, such as `python`, and whether it worked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSource {
    /// Name, such as `python`.
    pub name: String,
    /// True if it worked.
    pub on: bool,
    /// Details, or the reason why it did not work.
    pub detail: String,
}

/// Thread of a recorded process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallThread {
    /// Process.
    pub process: CallProcessId,
    /// Thread ID of the operating system.
    pub tid: u32,
    /// Thread ID of PyTorch, 0 if unknown.
    pub torch_id: u64,
    /// Name.
    pub name: StrId,
}

/// Text of a thread: its name and number. Names of native threads already contain the number.
#[must_use]
pub fn thread_words(name: &str, tid: u32) -> String {
    let number = tid.to_string();
    match name {
        "" => number,
        name if name.split(' ').any(|word| word == number) => name.to_owned(),
        name => format!("{name} ({number})"),
    }
}

#[cfg(test)]
mod tests {
    use super::thread_words;

    #[test]
    fn thread_numbers_are_not_repeated_in_names() {
        let words = [("loader", 9), ("", 9), ("native thread 9", 9), ("Thread-9", 9)]
            .map(|(name, tid)| thread_words(name, tid));
        assert_eq!(words, ["loader (9)", "9", "native thread 9", "Thread-9 (9)"]);
    }
}
