//! The processes and threads of a recorded run.

use super::CallingContextTree;
use crate::{CallProcessId, StrId};

/// A watched process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallProcess {
    /// Its id.
    pub pid: u32,
    /// The process that made it.
    pub parent_pid: u32,
    /// How it came to be.
    pub role: CallRole,
    /// Its rank in a distributed job.
    pub rank: Option<u32>,
    /// Wall-clock time at which its recording began, ns since 1970.
    pub start_unix_ns: i64,
    /// How long it was recorded, ns; `None` if it was killed (or still ran), so that its last moments may be missing.
    pub lasted_ns: Option<u64>,
    /// Its command line.
    pub command: Vec<String>,
    /// Version of the interpreter, empty if there is none.
    pub python: String,
    /// Version of PyTorch, empty if it was not imported.
    pub torch: String,
    /// Version of the recorder.
    pub recorder: String,
    /// Its sources and their states.
    pub sources: Vec<CallSource>,
    /// What was left out and how often, by name.
    pub lost: Vec<(String, u64)>,
    /// Overhead of the recorder, if it was measured in the run.
    pub overhead: Option<CallOverhead>,
    /// When its steps ended, if any did and the recorder says so.
    pub step_ends: Option<CallStepEnds>,
}

/// Characters of a command that tell two programs apart.
const COMMAND: usize = 80;

impl CallingContextTree {
    /// The id of a process; where several programs ran under that id (`exec`, ids that the system gave again, other machines), which of
    /// them in the order in which they began, and its command.
    pub fn process_title(&self, process: CallProcessId) -> String {
        let Some(CallProcess { pid, command, .. }) = self.processes.get(process.index()) else { return String::new() };
        let same = || self.processes.iter().enumerate().filter(|(_, other)| other.pid == *pid);
        let count = same().count();
        // Files of other profilers may name no process.
        if count < 2 || *pid == 0 {
            return pid.to_string();
        }
        let position = same().take_while(|(at, _)| *at <= process.index()).count();
        let command = command.join(" ");
        let more = if command.chars().count() > COMMAND { "…" } else { "" };
        let command: String = command.chars().take(COMMAND).collect();
        let command = if command.is_empty() { command } else { format!(": {command}{more}") };
        format!("{pid} ({position} of {count} programs with this PID{command})")
    }
}

/// When steps of optimizers ended, on all threads of a process and with all optimizers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallStepEnds {
    /// Steps that ended.
    pub count: u64,
    /// ns from the start of the process to the end of the first one,
    pub first_ns: u64,
    /// and of the last one.
    pub last_ns: u64,
}

/// Overhead of the recorder: how much longer steps take because they are recorded, measured by some steps that were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOverhead {
    /// Steps that were not recorded for it: of them the tree has the number of calls of spans and how long each took as a whole, nothing else.
    pub unrecorded_steps: u64,
    /// Comparisons of recorded steps with unrecorded ones.
    pub comparisons: u32,
    /// Median of all comparisons with its 95 % interval; `None` if there were too few.
    pub fraction: Option<OverheadFraction>,
}

/// A part of the time of an unrecorded step, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverheadFraction {
    /// Lower end of the interval.
    pub low_ppm: i64,
    /// Median.
    pub median_ppm: i64,
    /// Upper end of the interval.
    pub high_ppm: i64,
}

/// How a process came to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CallRole {
    /// The command itself, or one that a watched program started.
    #[default]
    Main,
    /// Forked from a watched process.
    Fork,
    /// Started by Python's `multiprocessing`.
    Spawn,
}

impl CallRole {
    /// Stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Fork => "fork",
            Self::Spawn => "spawn",
        }
    }

    /// The role with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Main, Self::Fork, Self::Spawn].into_iter().find(|role| role.name() == name)
    }
}

/// A source of events in a process, and whether it worked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSource {
    /// Its name, e.g. `python`.
    pub name: String,
    /// Whether it worked.
    pub on: bool,
    /// How, or why not.
    pub detail: String,
}

/// A thread of a watched process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallThread {
    /// Its process.
    pub process: CallProcessId,
    /// The system's id.
    pub tid: u32,
    /// PyTorch's id for it, 0 if unknown.
    pub torch_id: u64,
    /// Its name.
    pub name: StrId,
}

/// A thread's name and number in words; the number once, for names of native threads hold it.
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
    fn numbers_of_threads_are_said_once() {
        let words = [("loader", 9), ("", 9), ("native thread 9", 9), ("Thread-9", 9)]
            .map(|(name, tid)| thread_words(name, tid));
        assert_eq!(words, ["loader (9)", "9", "native thread 9", "Thread-9 (9)"]);
    }
}
