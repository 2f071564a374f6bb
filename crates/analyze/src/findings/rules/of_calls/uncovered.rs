//! Time of the thread that no finding is about.

use super::super::{copy_chains, operators_in_loops, unfused_optimizer, zeroed_gradients};
use super::busy::of_functions;
use super::draft::{CallDraft, bounded};
use super::kinds::Kinds;
use super::subject::Called;
use super::thread::{Known, Time};
use crate::findings::price::scaled;
use crate::findings::rank::within_step;
use crate::findings::{LargeGroup, LargeKind, Place, Uncovered};
use stackline_model::{CallFrame, CallFrameId, CallFrameKind, CallNodeId};
use std::collections::BTreeMap;

/// A group that takes this much of the time is named in any case, in percent.
const LARGE_PERCENT: f64 = 20.0;
/// Where findings cover less than this, smaller groups are named, too, in percent,
const MOST_PERCENT: f64 = 50.0;
/// down to this, in percent,
const LEAST_PERCENT: f64 = 3.0;
/// and so many in all.
const NAMED: usize = 5;

#[derive(Clone)]
struct Group {
    time: Time,
    calls: u64,
    /// Where most of it is, and its time there.
    line: CallFrameId,
    most_ns: u64,
}

impl Default for Group {
    fn default() -> Self {
        Self { time: Time::default(), calls: 0, line: CallFrameId::NONE, most_ns: 0 }
    }
}

pub(super) fn find(called: &Called<'_>, kinds: &Kinds, drafts: &[CallDraft]) -> Uncovered {
    let covered: u64 = drafts.iter().filter(|draft| !draft.is_within_other).map(|draft| draft.covers_ns).sum();
    let covered_percent = called.percent(covered).min(100.0);
    let least = if covered_percent < MOST_PERCENT { LEAST_PERCENT } else { LARGE_PERCENT };
    let is_told = |place: &Place| {
        drafts.iter().any(|draft| {
            draft.place.file.is_some() && (&draft.place.file, &draft.place.function) == (&place.file, &place.function)
        })
    };
    let operators = operators(called, kinds).into_iter().map(|(name, group)| {
        let place = called.place(group.line);
        (LargeKind::Operator, name.to_owned(), place, group)
    });
    let operators = operators.filter(|(_, name, place, _)| !drafts.iter().any(|draft| is_about(draft, name, place)));
    let functions = functions(called, kinds).into_iter().filter(|(_, place, _)| !is_told(place));
    let functions = functions.map(|(name, place, group)| (LargeKind::Frame, name, place, group));
    let mut groups: Vec<LargeGroup> = operators
        .chain(functions)
        .filter(|(.., group)| called.percent(group.time.ns) >= least)
        .map(|(kind, name, place, group)| large(called, (kind, name, place), &group))
        .collect();
    groups.sort_by(|a, b| b.path_percent.total_cmp(&a.path_percent).then_with(|| a.name.cmp(&b.name)));
    groups.truncate(NAMED);
    Uncovered { covered_percent: Some(covered_percent), groups }
}

/// Whether a draft is about an operator that mostly runs at this place.
fn is_about(draft: &CallDraft, operator: &str, place: &Place) -> bool {
    let is_there = (&draft.place.file, draft.place.line) == (&place.file, place.line);
    is_there
        && match draft.rule.code {
            code if code == copy_chains::RULE.code => {
                operator == copy_chains::COPY || copy_chains::reorders(operator) || copy_chains::converts(operator)
            }
            code => [&unfused_optimizer::RULE, &operators_in_loops::RULE, &zeroed_gradients::RULE]
                .iter()
                .any(|rule| rule.code == code),
        }
}

fn large(called: &Called<'_>, (kind, name, place): (LargeKind, String, Place), group: &Group) -> LargeGroup {
    let percent = called.percent(group.time.ns);
    let all = bounded(called, group.time);
    let per = i64::try_from(called.per()).unwrap_or(i64::MAX);
    LargeGroup {
        kind,
        name,
        place,
        count: usize::try_from(group.calls).unwrap_or(usize::MAX),
        percent,
        path_percent: percent,
        wait_percent: 0.0,
        meanwhile: None,
        advice: "",
        gain: Some(within_step(scaled(all, per), called.per_step(called.window_ns()))),
    }
}

/// Operators by name, without those that they call: a matrix product says more than the module that it is in.
fn operators<'c>(called: &'c Called<'_>, kinds: &Kinds) -> BTreeMap<&'c str, Group> {
    let mut found: BTreeMap<&str, Group> = BTreeMap::new();
    let mut innermost: Vec<Option<CallNodeId>> = vec![None; called.tree.nodes.len()];
    for node in called.tree.nodes.ids().skip(1) {
        let is_operator = called.tree.frame(node).map(CallFrame::kind) == Some(CallFrameKind::Operator);
        let above = innermost[called.tree.nodes.parent[node.index()].index()];
        innermost[node.index()] = if is_operator { Some(node) } else { above };
        let Some(operator) =
            innermost[node.index()].filter(|_| called.steps.inside[node.index()] && !kinds.is_taken(node))
        else {
            continue;
        };
        let group = found.entry(called.name(operator)).or_default();
        let time = called.thread.own[node.index()];
        group.time.add(time);
        group.calls += if is_operator { called.thread.calls[node.index()] } else { 0 };
        if time.ns > group.most_ns {
            (group.most_ns, group.line) = (time.ns, called.line(operator));
        }
    }
    found
}

fn functions(called: &Called<'_>, kinds: &Kinds) -> Vec<(String, Place, Group)> {
    if called.thread.known == Known::Operators {
        return Vec::new();
    }
    let of_function = |lines: BTreeMap<Place, Time>| {
        let mut group = Group::default();
        lines.values().for_each(|time| group.time.add(*time));
        group.calls = group.time.samples;
        let (place, _) = lines.into_iter().max_by_key(|(_, time)| time.ns)?;
        let (file, line) = (place.file.as_deref().unwrap_or_default(), place.line.unwrap_or(0));
        let name = format!("{file}({line}): {}", place.function.as_deref().unwrap_or_default());
        Some((name, place, group))
    };
    of_functions(called, kinds).into_values().filter_map(of_function).collect()
}
