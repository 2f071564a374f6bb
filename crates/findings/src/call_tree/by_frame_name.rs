//! Findings in call trees, recognized by the names of frames: loading, preprocessing, garbage collection, logging,
//! waiting.

use super::call_candidate::{CallCandidate, bounded_gain, confidence, facts, signed};
use super::call_rule_context::{CallRuleContext, NodeTime};
use super::frame_classes::FrameClasses;
use super::steps::below;
use super::thread::is_stackline_recording;
use crate::identity::LOCATION_SEPARATOR;
use crate::rules::{
    copy_chains, dataloader_starved, garbage_collection, host_waits, logging_in_step, preprocessing, recompilation,
};
use crate::{CandidateKind, Fact, Rule};
use stackline_critical_path::exact::what_if::Gain;
use stackline_model::format::duration;
use stackline_model::{CallNodeId, FrameId};
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::python::{LOADER_WITH_WORKERS, TAKE_BATCH};
use std::collections::BTreeMap;

/// Candidates for work recognized by frame names: one for data loading, others by line and kind of work.
pub(super) fn find(context: &CallRuleContext<'_>, kinds: &FrameClasses) -> Vec<CallCandidate> {
    let mut candidates = Vec::new();
    for (rule, found) in kinds.by_rule() {
        match rule.code {
            code if code == dataloader_starved::RULE.code => {
                let mut all = NodeTime::default();
                for seen in found.values() {
                    all.time.add(seen.time);
                    all.nodes.extend(&seen.nodes);
                }
                all.nodes.sort_unstable();
                let most = found.iter().max_by_key(|(_, seen)| seen.time.ns).map(|(&(line, _), _)| context.place(line));
                candidates.extend(most.and_then(|place| loading(context, place, &all)));
            }
            _ => candidates.extend(
                found.iter().filter_map(|(&(line, kind), seen)| single_candidate(context, rule, (line, kind), seen)),
            ),
        }
    }
    let loader_preprocessing = kinds.loader_preprocessing().iter();
    candidates.extend(loader_preprocessing.filter_map(|(&(line, kind), seen)| {
        let mut candidate = single_candidate(context, &preprocessing::RULE, (line, kind), seen)?;
        candidate.is_within_other = true;
        Some(candidate)
    }));
    candidates
}

/// Candidate of a rule for work at one line, whose whole time vanishes with the repair; `None` if the time is small.
fn single_candidate(
    context: &CallRuleContext<'_>,
    rule: &'static Rule,
    (line, kind): (FrameId, &str),
    seen: &NodeTime,
) -> Option<CallCandidate> {
    let share = context.percent(seen.time.ns);
    // Profiles do not count calls.
    let counts_calls = is_stackline_recording(context.tree);
    let may_be_rare = rule.code == copy_chains::RULE.code && counts_calls && !is_in_each_step(context, seen);
    if seen.time.ns == 0 || share < least_share(context, rule) || may_be_rare {
        return None;
    }
    let (each_step, words) = (duration(context.per_step(seen.time.ns)), context.words());
    let times = || seen.nodes.iter().map(|node| context.thread.calls[node.index()]).sum::<u64>().max(1);
    let title = match rule.code {
        code if code == garbage_collection::RULE.code => garbage_collection::title(&each_step, words),
        code if code == recompilation::RULE.code => {
            recompilation::title_of_repeats(times(), &duration(signed(seen.time.ns / times())))
        }
        code if code == logging_in_step::RULE.code => {
            format!("{kind} blocks the host: {each_step}{}", words.per_step_suffix())
        }
        code if code == copy_chains::RULE.code => {
            copy_chains::deep_title(share, if counts_calls { words.in_each_step() } else { "" })
        }
        code if code == host_waits::RULE.code => host_waits::title(share, kind),
        _ => format!("Preprocessing: {kind} takes {share:.0} % of the time"),
    };
    let kind = match rule.code {
        code if code == logging_in_step::RULE.code => logging_in_step::candidate_kind(kind),
        code if code == copy_chains::RULE.code => Some(CandidateKind::DeepCopy),
        code if code == host_waits::RULE.code => host_waits::candidate_kind(kind),
        _ => None,
    };
    Some(CallCandidate {
        rule,
        title,
        place: context.place(line),
        facts: facts(context, seen.time),
        kind,
        confidence: confidence(seen.time),
        gain: bounded_gain(context, seen.time),
        is_within_other: false,
        covers_ns: seen.time.ns,
    })
}

/// Check if the code of these nodes calls some operator at least once per step. Otherwise it may copy a model after an
/// epoch, or objects without tensors.
fn is_in_each_step(context: &CallRuleContext<'_>, seen: &NodeTime) -> bool {
    let inside = below(context.tree, |node| seen.nodes.binary_search(&node).is_ok());
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    for node in context.nodes().filter(|node| inside[node.index()] && context.in_operator[node.index()]) {
        *by_name.entry(context.name(node)).or_default() += context.thread.calls[node.index()];
    }
    context.steps.count > 0 && by_name.into_values().any(|calls| calls >= context.steps_or_one())
}

/// Minimum reported share of a rule, in percent; 0 for rules without this setting.
fn least_share(context: &CallRuleContext<'_>, rule: &'static Rule) -> f64 {
    let has_share = rule.settings.iter().any(|setting| setting.name == "share");
    if has_share { context.setting(rule, "share") } else { 0.0 }
}

/// Cost of taking a batch from a worker, in ns: likely and largest (`dataloader_starved`).
const TAKE_NS: [u64; 2] = [100_000, 1_100_000];
/// Largest number of workers that the advice assumes.
const MAX_WORKERS: u64 = 16;
/// Candidate for all data loading of the thread, at the line with most of it; `None` if the share is small.
fn loading(context: &CallRuleContext<'_>, place: SourceLocation, seen: &NodeTime) -> Option<CallCandidate> {
    let (rule, ns) = (&dataloader_starved::RULE, seen.time.ns);
    let share = context.percent(ns);
    if ns == 0 || share < context.setting(rule, "share") {
        return None;
    }
    let has_workers = context.tree.nodes.ids().any(|node| context.name(node).contains(LOADER_WITH_WORKERS));
    let rest = context.window_ns().saturating_sub(ns).max(1);
    let batches = batches(context);
    let takes = batches.max(context.steps_or_one());
    let workers = if has_workers { MAX_WORKERS } else { ns.div_ceil(rest).clamp(1, MAX_WORKERS) };
    // Workers load concurrently with the computation. The rest is the excess of loading, and the cost of taking
    // batches.
    let left = |take: u64| (ns / workers).saturating_sub(rest).saturating_add(takes.saturating_mul(take));
    let [likely, most] = TAKE_NS.map(|take| signed(ns.saturating_sub(left(take))));
    // Free processors are unknown. Loading that mostly waits needs none.
    let mostly_waits = seen.time.waits_ns.saturating_sub(seen.time.measured_ns) > ns / 2;
    let counted = bounded_gain(context, seen.time);
    let low_ns = if mostly_waits && !has_workers { most.min(counted.low_ns) } else { 0 };
    let how = match (has_workers, workers) {
        (true, _) => "DataLoader workers are too slow".to_owned(),
        (false, 1) => {
            "batches are loaded in the main process (gain assumes 1 worker with its own processor)".to_owned()
        }
        _ => format!(
            "batches are loaded in the main process (gain assumes {workers} workers, each with its own \
             processor)"
        ),
    };
    let mut facts = facts(context, seen.time);
    if batches > 0 {
        facts.insert(0, Fact::count("batches", usize::try_from(batches).unwrap_or(usize::MAX)));
    }
    Some(CallCandidate {
        rule,
        title: format!("Waiting for data: {share:.0} % of the time, {how}{}", slowest_line(context, seen)),
        place,
        facts,
        kind: None,
        confidence: confidence(seen.time),
        gain: Gain::new(likely, low_ns.min(likely), counted.high_ns.max(likely)),
        is_within_other: false,
        covers_ns: ns,
    })
}

/// Least share of loading of a line that the title names, in percent.
const MIN_LINE_PERCENT: u64 = 50;

/// Line of the program with most of the loading, in a data set or a collate function, as the end of a
/// title.
fn slowest_line(context: &CallRuleContext<'_>, seen: &NodeTime) -> String {
    let taken_from: Vec<FrameId> = seen.nodes.iter().map(|node| context.line(*node)).collect();
    let loads = below(context.tree, |node| seen.nodes.binary_search(&node).is_ok());
    let mut lines: BTreeMap<FrameId, u64> = BTreeMap::new();
    for node in context.nodes().filter(|node| loads[node.index()]) {
        let line = lines.entry(context.line(node)).or_default();
        *line = line.saturating_add(context.thread.own[node.index()].ns);
    }
    lines.retain(|line, _| !taken_from.contains(line));
    let most = lines.into_iter().max_by_key(|&(line, ns)| (ns, std::cmp::Reverse(line)));
    let part = |ns: u64| ns.saturating_mul(100) / seen.time.ns.max(1);
    match most.filter(|&(_, ns)| part(ns) >= MIN_LINE_PERCENT) {
        Some((line, ns)) => format!("{LOCATION_SEPARATOR}{} ({} %)", context.place(line).text(), part(ns)),
        None => String::new(),
    }
}

/// Number of batches taken from loaders, from PyTorch's spans; 0 without them.
fn batches(context: &CallRuleContext<'_>) -> u64 {
    let is_take = |node: &CallNodeId| context.name(*node).starts_with(TAKE_BATCH);
    context
        .thread
        .scale_to_recorded(context.nodes().filter(is_take).map(|node| context.thread.calls[node.index()]).sum())
}

#[cfg(test)]
mod tests {
    use super::super::testing::training;

    #[test]
    fn single_recompilation_is_reported_in_the_singular() {
        let mut made = training();
        let path = "train.py:50 <module> > train.py:21 main > Recompile 0/1: f (m.py:1)";
        made.calls(path, 1, 300);
        made.cpu(path, 300);
        assert_eq!(made.found().findings[0].title, "Recompilation: torch.compile compiles again once, 300.0 ms");
    }
}
