//! Standstills: gaps on the critical path that are much longer than a step, for example due to a debugger or a stalled
//! file system.
//!
//! A gap as long as many steps inflates the mean step, and reduces the share of each finding. Rules therefore compare
//! shares of the steps without standstills ([`super::RuleContext::percent`]).

use stackline_critical_path::exact::{ExactPath, PathSegment, Window};
use stackline_model::format::duration;
use stackline_model::{EventKind, Step, Trace};
use stackline_timeline::steps::upper_median;

/// Least duration of a standstill, in median steps.
const MIN_STEPS: i64 = 10;
/// Least share of a standstill in the window, in percent.
const MIN_SHARE_PERCENT: i64 = 20;
/// Rules of segments in which a thread works or waits without recorded events.
const GAPS: [&str; 2] = ["gap", "wait_samples"];

/// Standstills of a window: their start times, total duration, and a note for the report.
#[derive(Debug, Default)]
pub(super) struct Standstill {
    /// Total duration, in ns.
    pub(super) ns: i64,
    /// Note for the report.
    pub(super) note: Option<String>,
    /// Start times, ascending.
    starts: Vec<i64>,
}

impl Standstill {
    /// Check if a critical-path segment is a standstill.
    pub(super) fn contains(&self, segment: &PathSegment) -> bool {
        self.starts.binary_search(&segment.start).is_ok() && segment.end > segment.start
    }

    /// Mean step length without standstills, from the mean with them, in ns.
    pub(super) fn without(&self, mean_ns: i64, steps: usize) -> i64 {
        without(mean_ns, self.ns, steps)
    }

    /// Find the standstills of a window with `steps` steps of `step_ns` ns on average; none if no step is in it.
    pub(super) fn new(trace: &Trace, (window, path): (Window, &ExactPath), (step_ns, steps): (i64, usize)) -> Self {
        let is_of_window = |step: &&Step| step.end > window.start && step.start < window.end;
        let of_window: Vec<&Step> = trace.steps.iter().filter(is_of_window).collect();
        let lengths: Vec<i64> = of_window.iter().map(|step| step.end - step.start).collect();
        let Some(median_ns) = upper_median(&lengths) else { return Self::default() };
        let least = (MIN_STEPS.saturating_mul(median_ns)).max(window.length_ns() / 100 * MIN_SHARE_PERCENT);
        let length = |segment: &PathSegment| segment.end - segment.start;
        let is_long = |segment: &PathSegment| length(segment) > least && is_gap(trace, segment);
        let gaps: Vec<PathSegment> = path.segments.iter().filter(is_long).collect();
        let Some(longest) = gaps.iter().max_by_key(|segment| length(segment)) else { return Self::default() };
        let ns: i64 = gaps.iter().map(length).sum();
        let at = step_text(&of_window, middle_of(longest));
        let (total, percent) = (duration(ns), 100.0 * ns as f64 / window.length_ns().max(1) as f64);
        let sum = match gaps.len() {
            1 => format!("one gap in the critical path, of {total} {at}, is {percent:.0} % of the analyzed time"),
            count => format!(
                "{count} gaps in the critical path, of {total} in total (longest: {} {at}), are {percent:.0} % of the \
                analyzed time",
                duration(length(longest))
            ),
        };
        // Otherwise other threads may run calls meanwhile.
        let are_empty = gaps.iter().all(|segment| segment.event.is_some() || GAPS.contains(&segment.rule));
        let why = match (gaps.len(), are_empty) {
            (1, true) => "no call was recorded in this gap",
            (_, true) => "no call was recorded in these gaps",
            (1, false) => "the cause of this gap is unknown",
            (_, false) => "the cause of these gaps is unknown",
        };
        let usual = duration(without(step_ns, ns, steps));
        let without_gaps = format!("without the time of critical-path gaps, a step takes {usual}");
        let clauses = [sum, why.to_owned(), without_gaps].into_iter().chain(selection_advice(&of_window, &gaps));
        let note = clauses.collect::<Vec<_>>().join("; ");
        let mut starts: Vec<i64> = gaps.iter().map(|segment| segment.start).collect();
        starts.sort_unstable();
        Self { ns, note: Some(note), starts }
    }
}

/// Mean step length without gaps, from the mean with them, in ns. Overhead of recording may be in the gaps, too.
fn without(mean_ns: i64, gaps_ns: i64, steps: usize) -> i64 {
    (mean_ns - gaps_ns / steps.max(1) as i64).max(0)
}

/// Check if no event other than an annotation runs in a critical-path segment.
fn is_gap(trace: &Trace, segment: &PathSegment) -> bool {
    segment.event.some().is_none_or(|event| trace.kind(event) == EventKind::Annotation)
}

/// Middle of a gap, which identifies its step: a gap may begin in one step and end in the next.
fn middle_of(gap: &PathSegment) -> i64 {
    gap.start + (gap.end - gap.start) / 2
}

/// Text on the step that contains or precedes a time: `in step 3`.
fn step_text(steps: &[&Step], at: i64) -> String {
    match steps.iter().rfind(|step| step.start <= at) {
        Some(step) if step.end > at => format!("in step {}", step.number),
        Some(step) => format!("after step {}", step.number),
        None => "before the first step".to_owned(),
    }
}

/// Advice with the option that selects the longest run of steps without a gap in or between them.
fn selection_advice(steps: &[&Step], gaps: &[PathSegment]) -> Option<String> {
    let contains_gap = |from: i64, to: i64| gaps.iter().map(middle_of).any(|at| at >= from && at < to);
    let mut runs: Vec<Vec<&Step>> = Vec::new();
    for &step in steps.iter().filter(|step| !contains_gap(step.start, step.end)) {
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(|before| !contains_gap(before.start, step.end)) => run.push(step),
            _ => runs.push(vec![step]),
        }
    }
    // The first of equally long runs.
    let run = runs.iter().rev().max_by_key(|run| run.len())?;
    let (first, last) = (run.first()?.number, run.last()?.number);
    Some(format!("to analyze only steps without such a gap, pass --steps {first}..{last}"))
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn mean_without_gaps_is_not_negative() {
        assert_eq!([without(1_000, 3_000, 6), without(1_000, 7_000, 6), without(1_000, 0, 0)], [500, 0, 1_000]);
    }
}
