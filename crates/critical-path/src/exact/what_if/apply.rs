//! Application of edits: conversion to changes of durations and dependencies in the replay.

use super::super::Exact;
use super::super::category::lag_category;
use super::super::graph::{Dependency, InEdge};
use super::super::wakeups::ThreadRule;
use super::super::window::Window;
use super::applier::Applier;
use super::cancellation::Stop;
use super::edit::{Action, Edit};
use super::host_time::{Cut, HostTime, cuts_without_waits};
use super::index::{Index, ThreadRange};
use super::ineffective_edits::earlier_duplicate;
use super::lags::REMOVED_EDGE_SLACK;
use super::replay::{Changes, Plan};
use super::sampled::PartialGap;
use super::scaled::scaled;
use super::select::{Selected, select};
use crate::CriticalPathError;
use stackline_model::EventId;

/// Changes of the replay that result from edits, with notes.
pub(super) struct Applied {
    pub(super) changes: Changes,
    pub(super) host: HostTime,
    /// Number of affected events per edit.
    pub(super) counts: Vec<usize>,
    /// Notes for readers, one or two sentences each.
    pub(super) notes: Vec<String>,
    /// Variant for the upper bound: batches are ready on request, and sampled gaps have their largest share. None if the
    /// edits leave neither open.
    pub(super) for_upper_bound: Option<Box<Applied>>,
    /// Variant for the lower bound: host time with a possible wait keeps its length, sampled gaps have their smallest
    /// share, and batches keep their recorded times. None if the edits affect none of these.
    pub(super) for_lower_bound: Option<Box<Applied>>,
}

/// Convert edits to changes of the replay, with the number of selected events per edit, notes, and variants for the
/// bounds.
pub(super) fn apply<'e>(
    exact: &'e Exact<'_>,
    (plan, index): (&'e Plan, &'e Index),
    edits: &'e [Edit],
    window: Window,
    stop: Stop<'e>,
) -> Result<Applied, CriticalPathError> {
    let mut applier = Applier::new(exact, (plan, index), edits, stop);
    let mut counts = Vec::new();
    for (i, edit) in edits.iter().enumerate() {
        if let Some(first) = earlier_duplicate(edits, i) {
            applier.notes.push(format!("'{edit}' is given more than once and applied once"));
            counts.push(counts[first]);
            continue;
        }
        applier.current = i;
        let before = applier.change_counts();
        let count = applier.edit(edit)?;
        applier.note_if_ineffective(edit, count, before);
        counts.push(count);
    }
    let adds_workers = edits.iter().any(|e| matches!(e.action, Action::AddLoaderWorkers(_)));
    let pinned_waits = |cuts: &[Cut]| if adds_workers { Vec::new() } else { applier.pinned_waits(cuts, window) };
    let sampled = |which: usize| applier.partly.iter().map(move |cuts| cuts[which]);
    let is_sampled = !applier.partly.is_empty();
    let mut cuts: Vec<Cut> = applier.cuts.iter().copied().chain(sampled(1)).collect();
    let mut pinned = pinned_waits(&cuts);
    let keep_up = !pinned.is_empty() && applier.workers_have_idle_time(window);
    let sure =
        cuts_without_waits(exact, &applier.cuts).or_else(|| (is_sampled || keep_up).then(|| applier.cuts.clone()));
    let for_lower_bound = sure.map(|mut cuts| {
        cuts.extend(sampled(0));
        cuts.extend(pinned_waits(&cuts));
        variant((exact, plan), &applier.changes, cuts, &counts)
    });
    let most: Vec<Cut> = applier.cuts.iter().copied().chain(sampled(2)).collect();
    let Applier { mut changes, mut notes, .. } = applier;
    if !pinned.is_empty() {
        let note = match keep_up {
            true => {
                "the trace does not show which loader worker makes which batch. The workers have idle time, so the \
                 prediction assumes that each batch is ready when requested. The lower bound assumes that each batch \
                 becomes ready at its recorded time"
            }
            false => {
                "the trace does not show which loader worker makes which batch. The prediction assumes that each batch \
                 becomes ready at its recorded time. The upper bound assumes that each batch is ready when requested"
            }
        };
        notes.push(note.to_owned());
    }
    if keep_up {
        pinned.clear();
    }
    let for_upper_bound = (!pinned.is_empty() || is_sampled).then(|| variant((exact, plan), &changes, most, &counts));
    cuts.extend(pinned);
    let host = HostTime::new(exact.lanes.len(), cuts);
    host.apply(exact, plan, &mut changes);
    Ok(Applied { changes, host, counts, notes, for_upper_bound, for_lower_bound })
}

/// Create a variant of applied edits with other scaled host time ranges, for the lower or upper bound of the gain.
fn variant((exact, plan): (&Exact<'_>, &Plan), changes: &Changes, cuts: Vec<Cut>, counts: &[usize]) -> Box<Applied> {
    let (mut changes, host) = (changes.clone(), HostTime::new(exact.lanes.len(), cuts));
    host.apply(exact, plan, &mut changes);
    Box::new(Applied {
        changes,
        host,
        counts: counts.to_vec(),
        notes: Vec::new(),
        for_upper_bound: None,
        for_lower_bound: None,
    })
}

impl Applier<'_, '_> {
    /// Add the changes and notes of one edit, and return the number of selected events; an error if it cannot be
    /// applied.
    fn edit(&mut self, edit: &Edit) -> Result<usize, CriticalPathError> {
        let Some(selector) = &edit.selector else {
            return match edit.action {
                Action::AddLoaderWorkers(more) => self.add_workers(more),
                _ => Ok(0),
            };
        };
        let mut selected = select(self.exact, self.index, selector, self.stop)?;
        let removes_whole_span = selected.is_of_name && edit.action == Action::Remove;
        if removes_whole_span {
            selected.calls = self.waits_in(&selected.ranges);
        }
        if removes_whole_span || selected.owns_gpu && matches!(edit.action, Action::Scale(_) | Action::Remove) {
            let inside = selected.ranges.iter().flat_map(|&s| self.index.launched_in(s)).map(|l| l.node);
            selected.gpu = inside.collect();
            selected.gpu.sort_unstable();
        }
        if edit.action == Action::Overlap {
            self.keep_collectives(&mut selected, selector)?;
        }
        self.refuse_contradictions(&selected)?;
        if !selected.gpu.is_empty() || selected.owns_gpu {
            self.changes.remove_gpu_share(match edit.action {
                Action::Scale(factor) => 1.0 - factor,
                Action::Remove => 1.0,
                Action::SetNs(_) if !selected.gpu.is_empty() => 1.0,
                _ => 0.0,
            });
        }
        match edit.action {
            Action::Scale(factor) => {
                self.scale(&selected, factor);
                self.scale_sampled(edit, &selected.partly, factor);
            }
            Action::Remove => {
                self.remove(&selected);
                self.scale_sampled(edit, &selected.partly, 0.0);
            }
            Action::SetNs(ns) => self.set(&selected, ns),
            Action::Fuse => self.fuse(&selected.ranges, selector)?,
            Action::Graph => self.capture_graphs(&selected.ranges, selector)?,
            Action::Overlap => self.overlap(&selected.gpu),
            Action::AddLoaderWorkers(_) | Action::Nothing => {}
        }
        Ok(selected.count)
    }

    /// Calls that wait for the GPU and start in the time ranges, which are sorted and disjoint.
    fn waits_in(&self, ranges: &[ThreadRange]) -> Vec<EventId> {
        let trace = self.exact.trace;
        let is_inside = |call: &EventId| {
            let Some(lane) = self.index.lane(trace, *call) else { return false };
            let at = trace.events.start[call.index()];
            let begun = ranges.partition_point(|&(of, from, _)| (of, from) <= (lane, at));
            begun.checked_sub(1).is_some_and(|last| ranges[last].0 == lane && at < ranges[last].2)
        };
        let mut calls: Vec<EventId> = self
            .index
            .sync_nodes
            .iter()
            .map(|&(_, call)| call)
            .filter(|call| call.is_some())
            .filter(is_inside)
            .collect();
        calls.sort_unstable();
        calls.dedup();
        calls
    }

    /// Reject contradicting edits. Several edits may scale the same event; other combinations contradict each other.
    fn refuse_contradictions(&mut self, selected: &Selected) -> Result<(), CriticalPathError> {
        if self.edits.len() < 2 {
            return Ok(());
        }
        let (edits, current) = (self.edits, self.current);
        let agree = |a: usize| match (edits[a].action, edits[current].action) {
            (Action::Scale(_), Action::Scale(_)) | (Action::Remove, Action::Remove) => true,
            (Action::Overlap, other) | (other, Action::Overlap) => !matches!(other, Action::Remove),
            _ => a == current,
        };
        let operations = selected.gpu.iter().map(|&n| *self.operations.entry(n).or_insert(current));
        let ranges = selected.ranges.iter().map(|&s| *self.ranges.entry(s).or_insert(current));
        match operations.chain(ranges).find(|&first| !agree(first)) {
            Some(first) => Err(CriticalPathError::ContradictingEdits {
                first: edits[first].to_string(),
                second: edits[current].to_string(),
            }),
            None => Ok(()),
        }
    }

    /// Multiply the time of the selected GPU operations, returns from waits, thread time, calls and lags by a factor.
    fn scale(&mut self, selected: &Selected, factor: f64) {
        for &node in selected.gpu.iter().chain(&selected.returns) {
            self.set_time(node, |now| scaled(now, factor));
        }
        for &range in &selected.ranges {
            self.cut(range, factor);
        }
        if selected.is_between {
            let less = |&(lane, from, to): &ThreadRange| ((lane, from, to), (to - from) - scaled(to - from, factor));
            self.release_wakeups(selected.ranges.iter().map(less).filter(|&(_, less)| less > 0).collect());
        }
        for &call in &selected.calls {
            self.cut_call(call, factor);
        }
        self.scale_lags(selected, factor);
    }

    /// Scale the sampled part of gaps between operators, with a variant for each bound, and add a note.
    fn scale_sampled(&mut self, edit: &Edit, gaps: &[PartialGap], factor: f64) {
        if gaps.is_empty() {
            return;
        }
        let mut sums = [0.0; 3];
        for &PartialGap { gap: (lane, from, to), shares, .. } in gaps {
            let cut = |share: f64| Cut { lane, from, to, factor: 1.0 - share * (1.0 - factor) };
            self.partly.push(shares.map(cut));
            sums.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share * (to - from) as f64 / 1e6);
        }
        if factor == 0.0 {
            let part = |gap: &PartialGap| (gap.gap, (gap.shares[1] * (gap.gap.2 - gap.gap.1) as f64) as i64);
            self.release_wakeups(gaps.iter().map(part).collect());
        }
        let [least, likely, most] = sums;
        let note = format!(
            "'{edit}': calls between operators are known only from samples. By the samples, the selected calls take \
             {likely:.3} ms ({least:.3} to {most:.3} ms) of {} gaps between operators. The edit changes only this time",
            gaps.len()
        );
        self.notes.push(match gaps.iter().any(|gap| gap.has_unsampled_wait) {
            true => format!(
                "{note}. In some gaps, the thread waited and was not sampled. The prediction divides these waits among \
                 all calls of the gap in proportion to their samples. The lower bound assigns the waits to the other \
                 calls, the upper bound to the selected calls"
            ),
            false => note,
        });
    }

    /// Set the duration of each selected GPU operation and time range of a thread, in ns.
    fn set(&mut self, selected: &Selected, ns: i64) {
        for &node in &selected.gpu {
            self.set_time(node, |_| ns);
        }
        for &(lane, from, to) in &selected.ranges {
            self.cut((lane, from, to), ns as f64 / (to - from) as f64);
        }
    }

    /// Remove the selected GPU operations, thread time, waits and lags from the replay.
    fn remove(&mut self, selected: &Selected) {
        self.remove_operations(&selected.gpu);
        for &node in &selected.returns {
            self.set_time(node, |_| 0);
        }
        for &range in &selected.ranges {
            self.cut(range, 0.0);
        }
        self.release_wakeups(selected.ranges.iter().map(|&range| (range, REMOVED_EDGE_SLACK)).collect());
        self.remove_waits(&selected.calls.iter().copied().collect(), true);
        self.scale_lags(selected, 0.0);
    }

    /// Let threads that another thread woke in these time ranges continue earlier by the given time in ns, because the
    /// edit removes their wait as well.
    fn release_wakeups(&mut self, mut ranges: Vec<(ThreadRange, i64)>) {
        ranges.sort_unstable();
        if ranges.is_empty() {
            return;
        }
        let graph = &self.exact.graph;
        for at in 0..self.plan.len() as u32 {
            let node = self.plan.node[at as usize] as usize;
            let (lane, start) = (graph.place[node], graph.start[node]);
            let before = ranges.partition_point(|&((of, from, _), _)| (of, from) < (lane, start));
            let Some(&((of, _, to), earlier)) = before.checked_sub(1).map(|last| &ranges[last]) else { continue };
            if of != lane || start > to {
                continue;
            }
            for i in self.plan.range(at) {
                if self.is_edge(i, |d| matches!(d, Dependency::Thread(ThreadRule::Wakes, _))) {
                    self.changes.set_slack(at, i, earlier);
                }
            }
        }
    }

    /// Scale the binding lags of the selected categories, such as launch latency.
    fn scale_lags(&mut self, selected: &Selected, factor: f64) {
        if selected.lags.is_empty() {
            return;
        }
        let graph = &self.exact.graph;
        for at in 0..self.plan.len() as u32 {
            let node = self.plan.node[at as usize];
            for i in self.plan.range(at) {
                let edge = self.plan.edge(i);
                let (lag, is_binding) = (edge.observed, edge.edge == graph.binding[node as usize]);
                let of_this = |e: &InEdge| selected.lags.contains(&lag_category(e.dependency, lag));
                let less = lag - scaled(lag, factor);
                if is_binding && lag > 0 && less != 0 && graph.edges.get(edge.edge as usize).is_some_and(of_this) {
                    self.changes.set_slack(at, i, less);
                }
            }
        }
    }
}
