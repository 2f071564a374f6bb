//! Time of the thread that no finding covers.

use super::super::{copy_chains, dataloader_starved, operators_in_loops, unfused_optimizer, zeroed_gradients};
use super::busy::of_functions;
use super::call_candidate::{CallCandidate, bounded};
use super::call_rule_context::CallRuleContext;
use super::kinds::Kinds;
use super::thread::{Known, Time};
use crate::gain::scaled;
use crate::rank::within_step;
use crate::{LargeGroup, LargeKind, Uncovered};
use stackline_model::{CallNodeId, Frame, FrameId, FrameKind};
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::aten;
use std::collections::BTreeMap;

/// Share of the time from which a group is always named, in percent.
const LARGE_PERCENT: f64 = 20.0;
/// Share covered by findings, in percent, below which smaller groups are also named.
const MOST_PERCENT: f64 = 50.0;
/// Least share of these smaller groups, in percent.
const LEAST_PERCENT: f64 = 3.0;
/// Largest number of named groups.
const NAMED: usize = 5;

/// Time of one name.
struct Group {
    time: Time,
    calls: u64,
    /// Source location with most of the time.
    place: SourceLocation,
    /// Time at that location, in ns.
    there_ns: u64,
}

pub(super) fn find(called: &CallRuleContext<'_>, kinds: &Kinds, candidates: &[CallCandidate]) -> Uncovered {
    let covered: u64 =
        candidates.iter().filter(|candidate| !candidate.is_within_other).map(|candidate| candidate.covers_ns).sum();
    let covered_percent = called.percent(covered).min(100.0);
    let least = if covered_percent < MOST_PERCENT { LEAST_PERCENT } else { LARGE_PERCENT };
    let is_told = |place: &SourceLocation| {
        candidates.iter().any(|candidate| {
            candidate.place.file.is_some()
                && (&candidate.place.file, &candidate.place.function) == (&place.file, &place.function)
        })
    };
    // A rule covers its time only if it has a finding.
    let is_taken = |node: CallNodeId| {
        kinds.rule_of(node).is_some_and(|(rule, line)| {
            let is_of_program = rule.code == dataloader_starved::RULE.code;
            let place = called.place(line);
            let is_it = |candidate: &CallCandidate| {
                candidate.rule.code == rule.code && (is_of_program || candidate.place == place)
            };
            candidates.iter().any(is_it)
        })
    };
    let operators = operators(called, &is_taken).into_iter();
    let operators =
        operators.filter(|(name, group)| !candidates.iter().any(|candidate| is_about(candidate, name, &group.place)));
    let functions = functions(called, &is_taken).into_iter().filter(|(_, group)| !is_told(&group.place));
    let mut groups: Vec<LargeGroup> = operators
        .map(|(name, group)| (LargeKind::Operator, name, group))
        .chain(functions.map(|(name, group)| (LargeKind::Frame, name, group)))
        .filter(|(.., group)| called.percent(group.time.ns) >= least)
        .map(|(kind, name, group)| large(called, kind, name, group))
        .collect();
    groups.sort_by(|a, b| b.path_percent.total_cmp(&a.path_percent).then_with(|| a.name.cmp(&b.name)));
    groups.truncate(NAMED);
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

fn large(called: &CallRuleContext<'_>, kind: LargeKind, name: String, group: Group) -> LargeGroup {
    let percent = called.percent(group.time.ns);
    let all = bounded(called, group.time);
    let per = i64::try_from(called.per()).unwrap_or(i64::MAX);
    LargeGroup {
        kind,
        rank: None,
        name,
        place: group.place,
        place_percent: Some(called.percent(group.there_ns)),
        count: usize::try_from(group.calls).unwrap_or(usize::MAX),
        percent,
        path_percent: percent,
        wait_percent: 0.0,
        meanwhile: None,
        longest_gap_ns: None,
        advice: "",
        gain: Some(within_step(scaled(all, per), called.per_step(called.window_ns()))),
        // Sums of calls cannot be replayed.
        edits: Vec::new(),
    }
}

/// Operators by name, without nested ones: a matrix product is more specific than its module.
fn operators(called: &CallRuleContext<'_>, is_taken: &dyn Fn(CallNodeId) -> bool) -> Vec<(String, Group)> {
    let mut found: BTreeMap<&str, (u64, BTreeMap<FrameId, Time>)> = BTreeMap::new();
    let mut innermost: Vec<Option<CallNodeId>> = vec![None; called.tree.nodes.len()];
    for node in called.tree.nodes.ids().skip(1) {
        let is_operator = called.tree.frame(node).map(Frame::kind) == Some(FrameKind::Operator);
        let above = innermost[called.tree.nodes.parent[node.index()].index()];
        innermost[node.index()] = if is_operator { Some(node) } else { above };
        let Some(operator) = innermost[node.index()].filter(|_| called.steps.inside[node.index()] && !is_taken(node))
        else {
            continue;
        };
        let (calls, lines) = found.entry(called.name(operator)).or_default();
        *calls += if is_operator { called.thread.calls[node.index()] } else { 0 };
        lines.entry(called.line(operator)).or_default().add(called.thread.own[node.index()]);
    }
    let group = |(name, (calls, lines)): (&str, (u64, BTreeMap<FrameId, Time>))| {
        let lines = lines.into_iter().map(|(line, time)| (called.place(line), time));
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
        Some(Self { time, calls, place, there_ns: there.ns })
    }
}

fn functions(called: &CallRuleContext<'_>, is_taken: &dyn Fn(CallNodeId) -> bool) -> Vec<(String, Group)> {
    if called.thread.known == Known::Operators {
        return Vec::new();
    }
    let of_function = |lines: BTreeMap<SourceLocation, Time>| {
        let samples = lines.values().map(|time| time.samples).sum();
        let group = Group::new(lines.into_iter(), samples)?;
        let (file, line) = (group.place.file.as_deref().unwrap_or_default(), group.place.line.unwrap_or(0));
        let name = format!("{file}({line}): {}", group.place.function.as_deref().unwrap_or_default());
        Some((name, group))
    };
    of_functions(called, &|node| called.thread.own[node.index()].computing(), is_taken)
        .into_values()
        .filter_map(of_function)
        .collect()
}
