//! SL043 for call trees: Python time of functions outside of operators.

use super::call_candidate::{CallCandidate, bounded_gain, confidence, facts};
use super::call_rule_context::CallRuleContext;
use super::frame_classes::FrameClasses;
use super::thread::{Time, TimeSource};
use crate::rules::busy_python;
use stackline_critical_path::exact::what_if::Gain;
use stackline_model::{CallNodeId, FrameId};
use stackline_timeline::source_location::SourceLocation;
use std::collections::BTreeMap;

/// Divisor of a speculative gain: half of the time, at most all of it.
const SPECULATIVE_DIVISOR: i64 = 2;

/// Candidates for functions with much Python time outside of operators.
pub(super) fn find(context: &CallRuleContext<'_>, kinds: &FrameClasses) -> Vec<CallCandidate> {
    // For programs with a GPU, sums do not show which work waits for the host.
    if context.thread.known == TimeSource::Operators || !context.thread.knows_computing() || context.uses_gpu {
        return Vec::new();
    }
    let functions = function_times(context, &|node| context.thread.computing(node), &|node| kinds.is_classified(node));
    functions.into_values().filter_map(|lines| candidate(context, &lines)).collect()
}

/// Python time by function and line.
pub(super) type Functions = BTreeMap<SourceLocation, BTreeMap<SourceLocation, Time>>;

/// Computing time by user function and line, including library callees but not operators, frameworks or other rules'
/// time.
pub(super) fn function_times(
    context: &CallRuleContext<'_>,
    computing: &dyn Fn(CallNodeId) -> Time,
    is_classified: &dyn Fn(CallNodeId) -> bool,
) -> Functions {
    let mut lines: BTreeMap<FrameId, Time> = BTreeMap::new();
    for node in context.nodes() {
        let computes = computing(node);
        let is_other = is_classified(node) || context.in_operator[node.index()] || !context.is_users(node);
        if !is_other && computes.ns > 0 {
            lines.entry(context.line(node)).or_default().add(computes);
        }
    }
    let mut functions = Functions::new();
    for (line, time) in lines {
        let line = context.place(line);
        functions.entry(SourceLocation { line: None, ..line.clone() }).or_default().entry(line).or_default().add(time);
    }
    functions
}

/// Candidate for one function, at the line with most time; `None` without steps, or if the share is small.
fn candidate(context: &CallRuleContext<'_>, lines: &BTreeMap<SourceLocation, Time>) -> Option<CallCandidate> {
    let mut time = Time::default();
    lines.values().for_each(|of_line| time.add(*of_line));
    let share = context.percent(time.ns);
    // Without steps, the work may be one-time work.
    if share < context.setting(&busy_python::RULE, "share") || context.steps.count == 0 {
        return None;
    }
    let (place, _) = lines.iter().max_by_key(|(_, time)| time.ns)?;
    let all = bounded_gain(context, time);
    Some(CallCandidate {
        rule: &busy_python::RULE,
        title: busy_python::title(share),
        place: place.clone(),
        facts: facts(context, time),
        kind: None,
        confidence: confidence(time),
        gain: Gain::new(all.likely_ns / SPECULATIVE_DIVISOR, 0, all.high_ns).speculative(),
        is_within_other: false,
        covers_ns: time.ns,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, TestTree, summaries};
    use crate::Reason;
    use stackline_model::CallMetric;

    #[test]
    fn wall_time_alone_is_no_busy_python_finding() {
        let sleeps = "train.py:50 <module> > train.py:22 main > text.py:3 parse";
        let busy_python_of = |cpu_ms: Option<u64>, wait_ms: Option<u64>| {
            let mut made = TestTree::new();
            made.calls("train.py:50 <module> > train.py:21 main > aten::mm", 20, 800);
            made.calls("train.py:50 <module> > train.py:23 main > Optimizer.step#SGD.step", 10, 200);
            for (path, ms) in [("train.py:50 <module> > train.py:21 main > aten::mm", 800), (sleeps, 1000)] {
                made.add((1, 0), path, CallMetric::WallTime, (ms / 10, ms * MS));
            }
            cpu_ms.into_iter().for_each(|ms| made.cpu(sleeps, ms));
            wait_ms.into_iter().for_each(|ms| made.waits(sleeps, ms));
            let found = made.found();
            let unchecked = found.unchecked.iter().find(|one| one.rule.code == "SL043");
            let missing =
                unchecked.map(|one| matches!(one.reason, Reason::Missing(need) if need.name() == "python_times"));
            (summaries(&found).into_iter().filter(|(code, ..)| *code == "SL043").count(), missing)
        };
        assert_eq!(busy_python_of(None, None), (0, Some(true)));
        // CPU time samples show the computing time: almost nothing in the first case, almost all in the second.
        assert_eq!(busy_python_of(Some(10), None), (0, None));
        assert_eq!(busy_python_of(Some(900), None), (1, None));
        assert_eq!(busy_python_of(None, Some(100)), (1, None));
    }
}
