//! Why a critical path cannot be given.

use thiserror::Error;

/// Why a critical path cannot be given. Each text says what to do about it.
#[derive(Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum CriticalPathError {
    /// No record has a category and a time that can be.
    #[error(
        "no event of this trace has a category and a start and duration that can be used; there is nothing to build a \
         path from (`stackline doctor` lists what is in it, and which times were left out)"
    )]
    NoTimedEvents,
    /// No name contains the annotation text.
    #[error("no event name contains '{annotation}'; {}", offer(nearest))]
    AnnotationNotFound {
        /// The text asked for.
        annotation: String,
        /// Annotations of the trace that look most like it, best first.
        nearest: Vec<String>,
    },
    /// The instance is part of the last profiler step, which the rules leave out.
    #[error(
        "instance {instance} of '{annotation}' is in the last profiler step, which HTA's rules leave out as incomplete; \
         --include-last-profiler-step (in Python include_last_profiler_step=True) keeps it"
    )]
    LastStepLeftOut {
        /// The text asked for.
        annotation: String,
        /// The instance asked for, counted from 0.
        instance: usize,
    },
    /// The annotation occurs less often.
    #[error("instance {instance} of '{annotation}' does not exist: there {}", count_text(*count))]
    InstanceOutOfRange {
        /// The text asked for.
        annotation: String,
        /// The instance asked for, counted from 0.
        instance: usize,
        /// How many instances there are.
        count: usize,
    },
    /// No step has such a number.
    #[error("no step has a number from {first} to {last}; {}", step_numbers(numbers))]
    StepsNotFound {
        /// First number asked for.
        first: i64,
        /// Last number asked for.
        last: i64,
        /// Numbers of the trace's steps in time order.
        numbers: Vec<i64>,
    },
    /// A range of instances that ends before it starts.
    #[error("instances {from}..{to} are none: give the smaller number first")]
    EmptyRange {
        /// First instance.
        from: usize,
        /// Last instance.
        to: usize,
    },
    /// The window has no length.
    #[error(
        "the window begins and ends at the same nanosecond, so that nothing is in it; choose another step or annotation"
    )]
    EmptyWindow,
    /// Nothing in the window is an operator, a runtime call or launched GPU work.
    #[error(
        "the {} ({window_ns} ns, {rows} events) holds no operator, runtime call or launched GPU work with successors; {}",
        if *whole_trace { "whole trace" } else { "window" },
        match (*whole_trace, *rows) {
            (true, 0) => "events shorter than 1 µs do not take part by these rules: --method exact takes all",
            (true, _) => "a path by these rules needs a recording of them (torch.profiler with ProfilerActivity.CPU)",
            (false, _) => "choose another annotation or instance, or the whole trace",
        }
    )]
    EmptyGraph {
        /// Length of the window in ns.
        window_ns: i64,
        /// Events in it.
        rows: usize,
        /// Whether no annotation was asked for.
        whole_trace: bool,
    },
    /// A pattern for data loading is not a regular expression.
    #[error("'{pattern}' is not a usable regular expression: {reason}")]
    InvalidPattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A what-if edit cannot be understood.
    #[error("cannot understand the what-if '{text}': {reason}")]
    InvalidEdit {
        /// The edit as given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A what-if edit is understood, but cannot be made.
    #[error("cannot make the what-if '{text}': {reason}")]
    RefusedEdit {
        /// The edit as given.
        text: String,
        /// Why not, and what can be done instead.
        reason: String,
    },
    /// Nothing in the trace is what a selector of a what-if names.
    #[error("nothing in the trace is {selector}; {}", offer_names(nearest))]
    NothingSelected {
        /// The selector as given.
        selector: String,
        /// Names of the trace that look most like it, best first.
        nearest: Vec<String>,
    },
    /// Two edits of a what-if cannot both be made.
    #[error("'{first}' and '{second}' contradict each other: some event is in both; leave one of them out")]
    ContradictingEdits {
        /// The edit that came first.
        first: String,
        /// The other one.
        second: String,
    },
    /// Rules for phases cannot be understood.
    #[error("not usable as phase rules: {reason}")]
    InvalidPhaseRules {
        /// What is wrong with them, with the line.
        reason: String,
    },
    /// A saved critical path cannot be read.
    #[error("not a usable saved critical path: {reason}")]
    Restore {
        /// What is wrong with it.
        reason: String,
    },
}

fn offer(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return "the trace has no annotations; leave the annotation out to analyse the whole trace".to_owned();
    }
    format!("nearest: {}", quoted(nearest))
}

/// Longer names are cut: those of templated kernels fill screens.
const SHOWN: usize = 80;

fn quoted(names: &[String]) -> String {
    let short = |name: &String| match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("'{}…'", &name[..end]),
        None => format!("'{name}'"),
    };
    names.iter().map(short).collect::<Vec<_>>().join(", ")
}

fn offer_names(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return "it has nothing of that kind".to_owned();
    }
    format!("nearest: {} (* stands for any text)", quoted(nearest))
}

fn step_numbers(numbers: &[i64]) -> String {
    match (numbers.iter().min(), numbers.iter().max()) {
        (Some(first), Some(last)) => format!("the trace has steps from {first} to {last}"),
        _ => "the trace has no steps".to_owned(),
    }
}

fn count_text(count: usize) -> String {
    match count {
        0 => "is none in the part of the trace that HTA loads".to_owned(),
        1 => "is 1 (number 0)".to_owned(),
        n => format!("are {n} (0 to {})", n - 1),
    }
}
