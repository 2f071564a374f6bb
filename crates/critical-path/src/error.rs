//! Errors of the critical-path analyses, with messages that name the fix.

use stackline_timeline::phase_rules::InvalidPhaseRules;

use thiserror::Error;

/// Error of a critical-path analysis, with a message that says how to fix the error.
#[derive(Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum CriticalPathError {
    /// No record has a category and a usable time.
    #[error(
        "no event of this trace has a category, a usable start and a usable duration, so there is no critical path; \
         `stackline doctor` lists the events and the unusable times"
    )]
    NoTimedEvents,
    /// No name contains the annotation text.
    #[error("no event name contains '{annotation}'; {}", suggestion_text(nearest))]
    AnnotationNotFound {
        /// Requested text.
        annotation: String,
        /// Most similar annotations of the trace, best first.
        nearest: Vec<String>,
    },
    /// The instance is part of the last profiler step, which the rules exclude.
    #[error(
        "instance {instance} of '{annotation}' is in the last profiler step, which HTA's rules exclude as incomplete; \
         include it with --include-last-profiler-step (in Python include_last_profiler_step=True)"
    )]
    LastStepLeftOut {
        /// Requested text.
        annotation: String,
        /// Requested instance, counted from 0.
        instance: usize,
    },
    /// The annotation has fewer instances.
    #[error("instance {instance} of '{annotation}' does not exist; {}", count_text(*count))]
    InstanceOutOfRange {
        /// Requested text.
        annotation: String,
        /// Requested instance, counted from 0.
        instance: usize,
        /// Number of instances.
        count: usize,
    },
    /// No step has a number in the requested range.
    #[error("no step has a number from {first} to {last}; {}", step_numbers(numbers))]
    StepsNotFound {
        /// First requested number.
        first: i64,
        /// Last requested number.
        last: i64,
        /// Numbers of the trace's steps in time order.
        numbers: Vec<i64>,
    },
    /// A range of instances that ends before it starts.
    #[error("the range of instances {from}..{to} is empty; give the smaller number first")]
    EmptyRange {
        /// First instance.
        from: usize,
        /// Last instance.
        to: usize,
    },
    /// The window has no length.
    #[error("the window is empty: it starts and ends at the same nanosecond; choose another step or annotation")]
    EmptyWindow,
    /// The window has no operator, runtime call or launched GPU work.
    #[error(
        "the {} ({window_ns} ns, {rows} events) has no critical path, because it contains no dependencies between operators, runtime calls and GPU operations; {}",
        if *whole_trace { "whole trace" } else { "window" },
        match (*whole_trace, *rows) {
            (true, 0) => "the critical-path method excludes events under 1 µs; use --method exact, which includes all events",
            (true, _) => "the critical-path method needs operators and runtime calls; record them with ProfilerActivity.CPU",
            (false, _) => "choose another annotation or instance, or the whole trace",
        }
    )]
    EmptyGraph {
        /// Length of the window in ns.
        window_ns: i64,
        /// Number of events in the window.
        rows: usize,
        /// True if the request had no annotation.
        whole_trace: bool,
    },
    /// A pattern for data loading is not a regular expression.
    #[error("'{pattern}' is not a valid regular expression: {reason}")]
    InvalidPattern {
        /// The pattern.
        pattern: String,
        /// Error of the regular expression.
        reason: String,
    },
    /// A what-if edit cannot be parsed.
    #[error("cannot parse the what-if edit '{text}': {reason}")]
    InvalidEdit {
        /// The edit as given.
        text: String,
        /// Error, and the expected form.
        reason: String,
    },
    /// A what-if edit is valid, but cannot be applied.
    #[error("cannot apply the what-if edit '{text}': {reason}")]
    RefusedEdit {
        /// The edit as given.
        text: String,
        /// Reason, and an alternative.
        reason: String,
    },
    /// No event matches the selector of a what-if edit.
    #[error("no event of the trace matches {selector}; {}", suggest_names(nearest))]
    NothingSelected {
        /// The selector as given.
        selector: String,
        /// Most similar names of the trace, best first.
        nearest: Vec<String>,
    },
    /// Several frames have the function name of a what-if edit.
    #[error("{selector} matches {} functions; select one of {}", frames.len(), frame_choices(frames))]
    AmbiguousFunction {
        /// The selector as given.
        selector: String,
        /// Names of the frames, in the order of the trace's names.
        frames: Vec<String>,
    },
    /// Two what-if edits select the same event with conflicting changes.
    #[error("'{first}' and '{second}' conflict because both select the same event; remove one of them")]
    ContradictingEdits {
        /// The first edit.
        first: String,
        /// The second edit.
        second: String,
    },
    /// Phase rules cannot be parsed.
    #[error(transparent)]
    InvalidPhaseRules(#[from] InvalidPhaseRules),
    /// A saved critical path cannot be read.
    #[error("invalid saved critical path: {reason}")]
    Restore {
        /// Error of reading.
        reason: String,
    },
}

/// Advice for an annotation that does not exist: the most similar annotations, or to omit the annotation.
fn suggestion_text(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return "the trace has no annotations; omit the annotation to analyze the whole trace".to_owned();
    }
    format!("the most similar annotations are {}", quoted(nearest))
}

/// Maximum number of characters per name. Names of templated kernels can fill screens.
const MAX_NAME_CHARS: usize = 80;

/// Names in quotes, separated by commas, each cut to 80 characters.
fn quoted(names: &[String]) -> String {
    let short = |name: &String| match name.char_indices().nth(MAX_NAME_CHARS) {
        Some((end, _)) => format!("'{}…'", &name[..end]),
        None => format!("'{name}'"),
    };
    names.iter().map(short).collect::<Vec<_>>().join(", ")
}

/// Advice for a what-if selector without match: the most similar event names.
fn suggest_names(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return "the trace has no event of that kind".to_owned();
    }
    format!("the most similar names are {}; use * for any text", quoted(nearest))
}

/// Maximum number of listed frames.
const MAX_FRAMES: usize = 8;

/// Text of an error that lists the selectors of frames with the same function name.
fn frame_choices(frames: &[String]) -> String {
    // Whole names: readers copy them.
    let choices: Vec<String> = frames.iter().take(MAX_FRAMES).map(|frame| format!("'frame:{frame}'")).collect();
    let more = frames.len().saturating_sub(MAX_FRAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "{}{more}. To change several functions, repeat the edit for each, or use * for any text",
        choices.join(", ")
    )
}

/// Range of the step numbers of the trace, for the error about steps that do not exist.
fn step_numbers(numbers: &[i64]) -> String {
    match (numbers.iter().min(), numbers.iter().max()) {
        (Some(first), Some(last)) => format!("the trace has steps from {first} to {last}"),
        _ => "the trace has no steps".to_owned(),
    }
}

/// Numbers of the existing instances of an annotation, for the error about a missing instance.
fn count_text(count: usize) -> String {
    match count {
        0 => "the part of the trace that HTA loads has no instance of this annotation".to_owned(),
        1 => "the only instance has number 0".to_owned(),
        n => format!("the {n} instances have numbers 0 to {}", n - 1),
    }
}
