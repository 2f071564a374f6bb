//! Errors of opening and analyzing inputs.

use crate::Lacks;
use crate::calls::is_profile;
use stackline_model::format::duration;
use stackline_timeline::AmbiguousCycle;
use std::path::{Path, PathBuf};

/// Error of the engine. Messages name the cause, the input and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No input was given.
    #[error("no input: pass a trace file, a directory of traces, a run directory, or - for standard input")]
    NoInput,
    /// An input cannot be read at all.
    #[error(transparent)]
    Ingest(#[from] stackline_ingest::Error),
    /// A run directory cannot be read or written.
    #[error(transparent)]
    Store(#[from] stackline_store::Error),
    /// The rank is not among the inputs.
    #[error("rank {requested} is not in the input; the input has {}", list(available))]
    NoRank {
        /// Requested rank.
        requested: i64,
        /// Existing ranks.
        available: Vec<i64>,
    },
    /// No step of any trace is in the range.
    #[error("{}; {}", missing_steps(*first, *last), steps(available))]
    NoStep {
        /// First requested step.
        first: i64,
        /// Last requested step.
        last: i64,
        /// Existing steps, ascending.
        available: Vec<i64>,
    },
    /// Several profiler cycles have steps of these numbers.
    #[error("{}", ambiguous(name, (*first, *last), cycles))]
    AmbiguousSteps {
        /// The trace.
        name: String,
        /// First requested step.
        first: i64,
        /// Last requested step.
        last: i64,
        /// The cycles, in time order.
        cycles: Vec<AmbiguousCycle>,
    },
    /// The trace has no profiler cycle of this number.
    #[error("{name} has no profiler cycle {number}; its steps belong to {}", profiler_cycles(*available))]
    NoCycle {
        /// The trace.
        name: String,
        /// Requested cycle.
        number: usize,
        /// Number of cycles.
        available: usize,
    },
    /// The input lacks a required part.
    #[error(transparent)]
    Lacks(Box<Lacks>),
    /// The run has no times to compare.
    #[error("{}: {}", path.display(), no_times(path))]
    NoTimes {
        /// The run directory.
        path: PathBuf,
    },
    /// The traces are not ranks of one job.
    #[error("the traces are not ranks of one job: {reason}; {}", instead(choices, *several))]
    NotOneJob {
        /// Reason.
        reason: String,
        /// Names of the files to choose from; empty for a single input.
        choices: Vec<String>,
        /// True if one of the files contains several traces.
        several: bool,
    },
    /// The caller canceled the work.
    #[error("canceled on request before the result was complete")]
    Cancelled,
}

/// Message part for an input without times, by its content: profile or recording.
fn no_times(path: &Path) -> &'static str {
    if is_profile(path) {
        return "this profile contains no times; to compare its sample counts, use `stackline calls --diff BEFORE \
                AFTER`";
    }
    "the run contains no times to compare; when recording, leave out `--disable pytorch` or `--sample-hz 0`"
}

/// Maximum number of listed files.
const NAMED: usize = 12;

/// Message part with the remedy for traces that are not ranks of one job: the option, or the files to choose from.
fn instead(choices: &[String], several: bool) -> String {
    if choices.is_empty() || several {
        return "select one trace with --rank (`stackline doctor` lists the traces)".to_owned();
    }
    let more = choices.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named: Vec<&str> = choices.iter().take(NAMED).map(String::as_str).collect();
    format!("pass only one of these files: {}{more}", named.join(", "))
}

impl From<Lacks> for Error {
    fn from(lacks: Lacks) -> Self {
        Self::Lacks(Box::new(lacks))
    }
}

impl Error {
    /// Mark a missing-part error as one of several inputs (`count`), for its message.
    pub(crate) fn of_one_of(mut self, count: usize) -> Self {
        if let Self::Lacks(lacks) = &mut self {
            lacks.is_one_of_several = count > 1 && lacks.paths.len() == 1;
        }
        self
    }

    /// True if the input caused the error, not the request or Stackline itself.
    pub fn is_unreadable(&self) -> bool {
        use stackline_store::Error as Store;
        let store = |e: &Store| {
            matches!(e, Store::NotARun { .. } | Store::Incomplete { .. } | Store::Newer { .. } | Store::Damaged { .. })
                || matches!(e, Store::Io { action: "read" | "open", .. })
        };
        matches!(self, Self::Ingest(_)) || matches!(self, Self::Store(e) if store(e))
    }

    /// True if the request caused the error, not the input.
    pub fn is_wrong_use(&self) -> bool {
        use stackline_store::Error as Store;
        matches!(
            self,
            Self::NoInput
                | Self::NoRank { .. }
                | Self::NotOneJob { .. }
                | Self::NoStep { .. }
                | Self::AmbiguousSteps { .. }
                | Self::NoCycle { .. }
                | Self::Lacks(_)
                | Self::NoTimes { .. }
        ) || matches!(self, Self::Store(Store::Exists { .. } | Store::Foreign { .. }))
    }
}

/// Format ascending ranks for a message: `ranks 0 to 3, 7`.
fn list(ranks: &[i64]) -> String {
    match ranks {
        [] => "none".to_owned(),
        [one] => format!("rank {one}"),
        many => format!("ranks {}", ranges(many)),
    }
}

/// Message part that the input lacks a step or a range of steps.
fn missing_steps(first: i64, last: i64) -> String {
    if first == last {
        format!("the input has no step {first}")
    } else {
        format!("the input has none of the steps {first} to {last}")
    }
}

/// Message part with the existing steps, or how to mark steps if there are none.
fn steps(available: &[i64]) -> String {
    match available {
        [] => "no steps are marked. Mark steps when recording, with step() of the profiler or with spans named \
               ProfilerStep#1, ProfilerStep#2 and so on. To use existing spans as steps, pass --step-annotation"
            .to_owned(),
        [one] => format!("the only step is step {one}"),
        many => format!("the steps are {}", ranges(many)),
    }
}

/// Format a number of profiler cycles for a message.
fn profiler_cycles(number: usize) -> String {
    if number == 1 { "one profiler cycle".to_owned() } else { format!("{number} profiler cycles, numbered from 1") }
}

/// Maximum number of listed cycles.
const NAMED_CYCLES: usize = 8;

/// Error message for step numbers that exist in several profiler cycles, with the option that selects each cycle.
fn ambiguous(name: &str, (first, last): (i64, i64), cycles: &[AmbiguousCycle]) -> String {
    let numbers =
        |(first, last)| if first == last { format!("step {first}") } else { format!("steps {first} to {last}") };
    let requested = if first == last { first.to_string() } else { format!("{first}..{last}") };
    let cycle = |cycle: &AmbiguousCycle| {
        let [start, end] = [cycle.time_ns.0, cycle.time_ns.1].map(duration);
        format!("--steps {requested}@{} ({}, from {start} to {end})", cycle.number, numbers(cycle.numbers))
    };
    let mut named: Vec<String> = cycles.iter().take(NAMED_CYCLES).map(cycle).collect();
    if cycles.len() > NAMED_CYCLES {
        named.push("…".to_owned());
    }
    let (count, named) = (cycles.len(), named.join(" or "));
    let steps = if first == last {
        format!("step {first} exists in {count} profiler cycles, so the step number is ambiguous")
    } else {
        format!("steps {first} to {last} exist in {count} profiler cycles, so the step numbers are ambiguous")
    };
    format!("{name}: {steps}. Select a cycle with {named}; without --steps, the cycle with the most steps is selected")
}

/// Format ascending numbers as ranges: `0 to 3, 7`.
fn ranges(numbers: &[i64]) -> String {
    let mut parts: Vec<(i64, i64)> = Vec::new();
    for &n in numbers {
        match parts.last_mut() {
            Some((_, last)) if n.checked_sub(1) == Some(*last) || n == *last => *last = n,
            _ => parts.push((n, n)),
        }
    }
    let text = |&(a, b): &(i64, i64)| if a == b { a.to_string() } else { format!("{a} to {b}") };
    parts.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_list_available_choices() {
        let error = Error::NoRank { requested: 9, available: vec![0, 1, 2, 3, 7] };
        assert_eq!(error.to_string(), "rank 9 is not in the input; the input has ranks 0 to 3, 7");
        let error = Error::NoStep { first: 5, last: 6, available: vec![] };
        assert_eq!(
            error.to_string(),
            "the input has none of the steps 5 to 6; no steps are marked. Mark steps when recording, with step() of \
             the profiler or with spans named ProfilerStep#1, ProfilerStep#2 and so on. To use existing spans as \
             steps, pass --step-annotation"
        );
        let with = |available| Error::NoStep { first: 1, last: 2, available }.to_string();
        assert_eq!(with(vec![0]), "the input has none of the steps 1 to 2; the only step is step 0");
        assert_eq!(with(vec![0, 3, 4]), "the input has none of the steps 1 to 2; the steps are 0, 3 to 4");
        let cycle = |number, last, time_ns| AmbiguousCycle { number, numbers: (0, last), time_ns };
        let cycles = vec![cycle(1, 2, (0, 300_000)), cycle(3, 4, (5_300_000, 5_800_000))];
        let error = Error::AmbiguousSteps { name: "t.json".to_owned(), first: 0, last: 1, cycles };
        let times = [0, 300_000, 5_300_000, 5_800_000].map(duration);
        let expected = format!(
            "t.json: steps 0 to 1 exist in 2 profiler cycles, so the step numbers are ambiguous. Select a cycle with \
             --steps 0..1@1 (steps 0 to 2, from {} to {}) or --steps 0..1@3 (steps 0 to 4, from {} to {}); without \
             --steps, the cycle with the most steps is selected",
            times[0], times[1], times[2], times[3]
        );
        assert_eq!(error.to_string(), expected);
    }
}
