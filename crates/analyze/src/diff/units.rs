//! Units that times of a comparison are of: compared steps, marked or inferred, or all of a trace.

use super::profile::StepLength;
use crate::Scope;
use crate::steps::{FAR_OFF, Looked, between, is_warm_up, middle, spans};
use stackline_model::{EventId, GpuId, Key, StepIndex, Trace};
use std::collections::BTreeMap;

/// Why a first step is left out that is no warm-up, but unlike all others.
pub(super) const UNLIKE: &str = "first, unlike the others";
/// Why a short last step is left out.
const CUT_OFF: &str = "cut off";

/// A first or last step that is no steady state, though not far off, is off by more than one part in this many of the middle one,
const ODD: i64 = 5;
/// and by more than this many times what the others differ by at most.
const ODD_RANGES: i64 = 4;

/// Which compared step events belong to.
pub(super) struct Units {
    index: StepIndex,
    /// By position in [`Trace::steps`]; none for those that are not compared. Empty: all of the trace is one.
    of_step: Vec<Option<usize>>,
    pub(super) whole: bool,
    /// Start and end of inferred steps, in the order of `of_step`; empty where steps are marked, or all of the trace is one.
    inferred: Vec<(i64, i64)>,
}

impl Units {
    pub(super) fn of_event(&self, trace: &Trace, event: EventId) -> Option<usize> {
        if self.whole {
            return Some(0);
        }
        let (start, track) = (trace.events.start[event.index()], trace.events.track[event.index()]);
        if !self.inferred.is_empty() {
            return self.of_inferred(start);
        }
        let step = self.index.running(start, trace.tracks.pid(track))?;
        *self.of_step.get(step as usize)?
    }

    pub(super) fn of_gpu(&self, trace: &Trace, gpu: GpuId) -> Option<usize> {
        if !self.inferred.is_empty() {
            return self.of_inferred(trace.events.start[trace.gpu.event[gpu.index()].index()]);
        }
        if self.whole { Some(0) } else { *self.of_step.get(trace.gpu.step[gpu.index()] as usize)? }
    }

    fn of_inferred(&self, start: i64) -> Option<usize> {
        let at = self.inferred.partition_point(|&(from, _)| from <= start).checked_sub(1)?;
        if start < self.inferred[at].1 { *self.of_step.get(at)? } else { None }
    }

    /// Of inferred steps, given by start and end in time order, of which `lengths` says which are compared.
    pub(super) fn of_inferred_steps(trace: &Trace, inferred: Vec<(i64, i64)>, lengths: &[StepLength]) -> Self {
        let of_step = units_of(lengths);
        Self { index: StepIndex::new(trace), of_step, whole: false, inferred }
    }
}

/// The steps in scope. Compared are those that all commands look at ([`Looked`]), without a first and a last one that would blur the mean.
pub(super) fn steps(trace: &Trace, scope: &Scope, counted: &[bool]) -> (Vec<StepLength>, Units) {
    let spans = spans(trace, |gpu| counted[gpu.index()]);
    let ns: Vec<i64> = spans.iter().map(|(from, to)| to.saturating_sub(*from)).collect();
    let gaps = between(trace, &spans);
    // A last one is followed by as much as the middle one of the others.
    let known: Vec<i64> = gaps.iter().copied().flatten().collect();
    let usual = middle(&known).unwrap_or(0);
    let left_out = Looked::at(trace, scope).left_out(trace);
    let chosen = |number: i64| scope.steps.is_none_or(|(first, last)| (first..=last).contains(&number));
    let mut lengths: Vec<StepLength> = Vec::new();
    let mut position = Vec::new();
    let mut processes: BTreeMap<Key, usize> = BTreeMap::new();
    for (at, step) in trace.steps.iter().enumerate().filter(|(_, step)| chosen(step.number)) {
        let next = processes.len();
        lengths.push(StepLength {
            number: step.number,
            process: *processes.entry(trace.process_of(step)).or_insert(next),
            ns: ns[at],
            with_between_ns: ns[at].saturating_add(gaps[at].unwrap_or(usual)),
            left_out: left_out[at],
        });
        position.push(at);
    }
    // Who names steps, or wants all, wants those.
    if scope.steps.is_none() && !scope.whole {
        leave_out_odd_ends(&mut lengths);
    }
    let mut of_step = vec![None; trace.steps.len()];
    for (unit, &at) in units_of(&lengths).into_iter().zip(&position) {
        of_step[at] = unit;
    }
    let index = StepIndex::new(trace);
    (lengths, Units { index, of_step, whole: trace.steps.is_empty(), inferred: Vec::new() })
}

/// The position of each step among those that are compared; none of those that are left out.
fn units_of(lengths: &[StepLength]) -> Vec<Option<usize>> {
    let mut unit = 0..;
    lengths.iter().map(|length| if length.left_out.is_none() { unit.next() } else { None }).collect()
}

/// Leaves out the first and the last compared step of each process that is unlike its others.
pub(super) fn leave_out_odd_ends(lengths: &mut [StepLength]) {
    for own in compared(lengths).into_iter().filter(|own| own.len() > 2) {
        let (first, last) = (own[0], own[own.len() - 1]);
        // Neither end speaks for the others, as far as there are enough.
        let inner = if own.len() > 3 { 1..own.len() - 1 } else { 0..own.len() };
        let others: Vec<i64> = own[inner].iter().map(|&at| lengths[at].ns).collect();
        if is_odd(lengths[first].ns, &others, true) {
            lengths[first].left_out = Some(UNLIKE);
        }
        if is_odd(lengths[last].ns, &others, false) {
            lengths[last].left_out = Some(CUT_OFF);
        }
    }
}

/// The compared steps of each process, in order of time.
pub(super) fn compared(lengths: &[StepLength]) -> Vec<Vec<usize>> {
    let mut of_processes: Vec<Vec<usize>> = Vec::new();
    for (at, step) in lengths.iter().enumerate() {
        of_processes.resize_with(of_processes.len().max(step.process + 1), Vec::new);
        if step.left_out.is_none() {
            of_processes[step.process].push(at);
        }
    }
    of_processes
}

/// Whether the first or last step is unlike the others. A first one may be shorter, too: the host runs ahead of the GPU
/// until its queue is full. One that is as long as a warm-up is none only where its number does not tell it from other steps.
fn is_odd(ns: i64, others: &[i64], is_first: bool) -> bool {
    let mut sorted = others.to_vec();
    sorted.sort_unstable();
    let (Some(&least), Some(&most), Some(&middle)) = (sorted.first(), sorted.last(), sorted.get(sorted.len() / 2))
    else {
        return false;
    };
    let off = ns.saturating_sub(middle).saturating_abs();
    let unlike = off > middle / ODD && off > most.saturating_sub(least).saturating_mul(ODD_RANGES);
    match is_first {
        true => unlike || is_warm_up(ns, others),
        false => ns < middle && (unlike || ns < middle / FAR_OFF),
    }
}
