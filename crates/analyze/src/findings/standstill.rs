//! Standstills: gaps on the critical path that are much longer than a step, such as a debugger's or a stalled file
//! system's.
//!
//! One gap of many steps' time makes the mean step long, and each finding a small part of it. Shares that rules compare
//! are of the steps without it ([`super::RuleContext::percent`]).

use super::rule_context::SharedContext;
use crate::critical_path::exact::PathSegment;
use crate::steps::middle;
use stackline_model::format::duration;
use stackline_model::{EventKind, Step, Trace};

/// A gap is a standstill if it takes as long as so many median steps,
const STEPS: i64 = 10;
/// and this part of the window, in percent.
const SHARE: i64 = 20;
/// The rule of hops in which a thread works, and nothing of it is recorded.
const GAP: &str = "gap";

/// The standstills of a window.
#[derive(Debug, Default)]
pub(super) struct Standstill {
    /// How long all of them take, in ns.
    pub(super) ns: i64,
    /// What is to be said of them.
    pub(super) note: Option<String>,
    /// Where they begin, ascending.
    starts: Vec<i64>,
}

impl Standstill {
    /// Whether a hop of the path is one of them.
    pub(super) fn holds(&self, hop: &PathSegment) -> bool {
        self.starts.binary_search(&hop.start).is_ok() && hop.end > hop.start
    }

    /// Mean length of steps without standstills, from their mean with them, in ns.
    pub(super) fn without(&self, mean_ns: i64, steps: usize) -> i64 {
        without(mean_ns, self.ns, steps)
    }

    /// Those of the window; none where it has no steps.
    pub(super) fn new(shared: &SharedContext<'_>) -> Self {
        let (trace, window) = (shared.exact.trace(), shared.window);
        let is_of_window = |step: &&Step| step.end > window.start && step.start < window.end;
        let of_window: Vec<&Step> = trace.steps.iter().filter(is_of_window).collect();
        let lengths: Vec<i64> = of_window.iter().map(|step| step.end - step.start).collect();
        let Some(step_ns) = middle(&lengths).filter(|_| shared.has_steps) else { return Self::default() };
        let least = (STEPS.saturating_mul(step_ns)).max(window.length_ns() / 100 * SHARE);
        let length = |hop: &PathSegment| hop.end - hop.start;
        let is_long = |hop: &PathSegment| length(hop) > least && is_gap(trace, hop);
        let gaps: Vec<PathSegment> = shared.path().hops.iter().filter(is_long).collect();
        let Some(longest) = gaps.iter().max_by_key(|hop| length(hop)) else { return Self::default() };
        let ns: i64 = gaps.iter().map(length).sum();
        let at = place(&of_window, middle_of(longest));
        let gaps_are = match gaps.len() {
            1 => format!("one gap of {} {at} is", duration(ns)),
            count => {
                format!(
                    "{count} gaps of {} in total (the longest of {} {at}) are",
                    duration(ns),
                    duration(length(longest))
                )
            }
        };
        // Elsewhere other threads may run calls meanwhile.
        let are_empty = gaps.iter().all(|hop| hop.event.is_some() || hop.rule == GAP);
        let why = if are_empty { "without recorded calls" } else { "of unknown cause" };
        let note = format!(
            "{gaps_are} {:.0} % of the window, {why}; a step takes {} without{}",
            100.0 * ns as f64 / window.length_ns().max(1) as f64,
            duration(without(shared.step_ns(), ns, shared.steps)),
            others(&of_window, &gaps).unwrap_or_default()
        );
        let mut starts: Vec<i64> = gaps.iter().map(|hop| hop.start).collect();
        starts.sort_unstable();
        Self { ns, note: Some(note), starts }
    }
}

/// The mean of steps without gaps in them; what recording cost may lie in these, too.
fn without(mean_ns: i64, gaps_ns: i64, steps: usize) -> i64 {
    (mean_ns - gaps_ns / steps.max(1) as i64).max(0)
}

/// Whether nothing but an annotation runs in a hop of the path.
fn is_gap(trace: &Trace, hop: &PathSegment) -> bool {
    hop.event.some().is_none_or(|event| trace.kind(event) == EventKind::Annotation)
}

/// Where a gap is: it may begin in one step and end in the next one.
fn middle_of(gap: &PathSegment) -> i64 {
    gap.start + (gap.end - gap.start) / 2
}

/// Within or after which step a time is.
fn place(steps: &[&Step], at: i64) -> String {
    match steps.iter().rfind(|step| step.start <= at) {
        Some(step) if step.end > at => format!("in step {}", step.number),
        Some(step) => format!("after step {}", step.number),
        None => "before the first step".to_owned(),
    }
}

/// How to look at the longest run of steps without a gap in or between them.
fn others(steps: &[&Step], gaps: &[PathSegment]) -> Option<String> {
    let holds = |from: i64, to: i64| gaps.iter().map(middle_of).any(|at| at >= from && at < to);
    let mut runs: Vec<Vec<&Step>> = Vec::new();
    for &step in steps.iter().filter(|step| !holds(step.start, step.end)) {
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(|before| !holds(before.start, step.end)) => run.push(step),
            _ => runs.push(vec![step]),
        }
    }
    // Of equally long ones the first.
    let run = runs.iter().rev().max_by_key(|run| run.len())?;
    let (first, last) = (run.first()?.number, run.last()?.number);
    Some(format!("; --steps {first}..{last} selects steps without a gap"))
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn steps_without_gaps_take_no_less_than_nothing() {
        assert_eq!([without(1_000, 3_000, 6), without(1_000, 7_000, 6), without(1_000, 0, 0)], [500, 0, 1_000]);
    }
}
