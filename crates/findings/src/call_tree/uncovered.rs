//! Time of the thread that no finding covers.

use super::call_candidate::{CallCandidate, bounded_gain};
use super::call_rule_context::CallRuleContext;
use super::frame_classes::FrameClasses;
use super::python_time::function_times;
use super::thread::{Time, TimeSource};
use crate::gain::{gain_per_step, limit_to_step};
use crate::rules::{copy_chains, dataloader_starved, operators_in_loops, unfused_optimizer, zeroed_gradients};
use crate::{LargeGroup, LargeKind, Uncovered};
use stackline_model::{CallNodeId, Frame, FrameId, FrameKind};
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::aten;
use std::collections::BTreeMap;

/// Share of the time from which a group is always named, in percent.
const LARGE_PERCENT: f64 = 20.0;
/// Share covered by findings, in percent, below which smaller groups are also named.
const MAX_COVERED_PERCENT: f64 = 50.0;
/// Least share of these smaller groups, in percent.
const MIN_PERCENT: f64 = 3.0;
/// Largest number of named groups.
const MAX_GROUPS: usize = 5;

/// Time of one operator or function, with its calls and the source location with most of the time.
struct Group {
    time: Time,
    calls: u64,
    /// Source location with most of the time.
    place: SourceLocation,
    /// Time at that location, in ns.
    location_ns: u64,
}

/// Find the operators and functions with most of the time that no candidate covers.
pub(super) fn find(context: &CallRuleContext<'_>, kinds: &FrameClasses, candidates: &[CallCandidate]) -> Uncovered {
    let covered: u64 =
        candidates.iter().filter(|candidate| !candidate.is_within_other).map(|candidate| candidate.covers_ns).sum();
    let covered_percent = context.percent(covered).min(100.0);
    let least = if covered_percent < MAX_COVERED_PERCENT { MIN_PERCENT } else { LARGE_PERCENT };
    let is_covered = |place: &SourceLocation| {
        candidates.iter().any(|candidate| {
            candidate.place.file.is_some()
                && (&candidate.place.file, &candidate.place.function) == (&place.file, &place.function)
        })
    };
    // A rule covers its time only if it has a finding.
    let is_classified = |node: CallNodeId| {
        kinds.rule_of(node).is_some_and(|(rule, line)| {
            let is_of_program = rule.code == dataloader_starved::RULE.code;
            let place = context.place(line);
            let is_it = |candidate: &CallCandidate| {
                candidate.rule.code == rule.code && (is_of_program || candidate.place == place)
            };
            candidates.iter().any(is_it)
        })
    };
    let operators = operators(context, &is_classified).into_iter();
    let operators =
        operators.filter(|(name, group)| !candidates.iter().any(|candidate| is_about(candidate, name, &group.place)));
    let functions = functions(context, &is_classified).into_iter().filter(|(_, group)| !is_covered(&group.place));
    let mut groups: Vec<LargeGroup> = operators
        .map(|(name, group)| (LargeKind::Operator, name, group))
        .chain(functions.map(|(name, group)| (LargeKind::Frame, name, group)))
        .filter(|(.., group)| context.percent(group.time.ns) >= least)
        .map(|(kind, name, group)| large(context, kind, name, group))
        .collect();
    groups.sort_by(|a, b| b.path_percent.total_cmp(&a.path_percent).then_with(|| a.name.cmp(&b.name)));
    groups.truncate(MAX_GROUPS);
    Uncovered { covered_percent: Some(covered_percent), groups }
}

/// Check if a candidate covers an operator that mostly runs at this source location.
fn is_about(candidate: &CallCandidate, operator: &str, place: &SourceLocation) -> bool {
    let is_there = (&candidate.place.file, candidate.place.line) == (&place.file, place.line);
    is_there
        && match candidate.rule.code {
            code if code == copy_chains::RULE.code => {
                operator == aten::COPY || aten::reorders(operator) || aten::converts(operator)
            }
            code => [&unfused_optimizer::RULE, &operators_in_loops::RULE, &zeroed_gradients::RULE]
                .iter()
                .any(|rule| rule.code == code),
        }
}

/// Convert a group to its row in the report, with shares of the time and the gain per step if all of it vanished.
fn large(context: &CallRuleContext<'_>, kind: LargeKind, name: String, group: Group) -> LargeGroup {
    let percent = context.percent(group.time.ns);
    let all = bounded_gain(context, group.time);
    let per = i64::try_from(context.steps_or_one()).unwrap_or(i64::MAX);
    LargeGroup {
        kind,
        rank: None,
        name,
        place: group.place,
        place_percent: Some(context.percent(group.location_ns)),
        count: usize::try_from(group.calls).unwrap_or(usize::MAX),
        percent,
        path_percent: percent,
        wait_percent: 0.0,
        concurrent_span: None,
        concurrent_gpu_work: None,
        longest_gap_ns: None,
        advice: "",
        gain: Some(limit_to_step(gain_per_step(all, per), context.per_step(context.window_ns()))),
        // Call trees cannot be replayed.
        edits: Vec::new(),
    }
}

/// Time by operator, without that of nested operators: a matrix product is more specific than its module.
fn operators(context: &CallRuleContext<'_>, is_classified: &dyn Fn(CallNodeId) -> bool) -> Vec<(String, Group)> {
    let mut found: BTreeMap<&str, (u64, BTreeMap<FrameId, Time>)> = BTreeMap::new();
    let mut innermost: Vec<Option<CallNodeId>> = vec![None; context.tree.nodes.len()];
    for node in context.tree.nodes.ids().skip(1) {
        let is_operator = context.tree.frame(node).map(Frame::kind) == Some(FrameKind::Operator);
        let above = innermost[context.tree.nodes.parent[node.index()].index()];
        innermost[node.index()] = if is_operator { Some(node) } else { above };
        let Some(operator) =
            innermost[node.index()].filter(|_| context.steps.inside[node.index()] && !is_classified(node))
        else {
            continue;
        };
        let (calls, lines) = found.entry(context.name(operator)).or_default();
        *calls += if is_operator { context.thread.calls[node.index()] } else { 0 };
        lines.entry(context.line(operator)).or_default().add(context.thread.own[node.index()]);
    }
    let group = |(name, (calls, lines)): (&str, (u64, BTreeMap<FrameId, Time>))| {
        let lines = lines.into_iter().map(|(line, time)| (context.place(line), time));
        Some((name.to_owned(), Group::new(lines, calls)?))
    };
    found.into_iter().filter_map(group).collect()
}

impl Group {
    /// Build a group from times by source location, and a number of calls.
    fn new(places: impl Iterator<Item = (SourceLocation, Time)>, calls: u64) -> Option<Self> {
        let mut by_place: BTreeMap<SourceLocation, Time> = BTreeMap::new();
        places.for_each(|(place, time)| by_place.entry(place).or_default().add(time));
        let mut time = Time::default();
        by_place.values().for_each(|at_place| time.add(*at_place));
        let (place, there) = by_place.into_iter().max_by_key(|(_, time)| time.ns)?;
        Some(Self { time, calls, place, location_ns: there.ns })
    }
}

/// Computing time by function of the user's code, each with its frame name; empty without samples.
fn functions(context: &CallRuleContext<'_>, is_classified: &dyn Fn(CallNodeId) -> bool) -> Vec<(String, Group)> {
    if context.thread.known == TimeSource::Operators {
        return Vec::new();
    }
    let of_function = |lines: BTreeMap<SourceLocation, Time>| {
        let samples = lines.values().map(|time| time.samples).sum();
        let group = Group::new(lines.into_iter(), samples)?;
        let (file, line) = (group.place.file.as_deref().unwrap_or_default(), group.place.line.unwrap_or(0));
        let name = format!("{file}({line}): {}", group.place.function.as_deref().unwrap_or_default());
        Some((name, group))
    };
    function_times(context, &|node| context.thread.own[node.index()].computing(), is_classified)
        .into_values()
        .filter_map(of_function)
        .collect()
}
