//! Units of a comparison: marked steps, inferred steps, or the whole trace.

use super::profile::StepLength;
use stackline_model::{EventId, GpuOpId, Key, StepIndex, Trace};
use stackline_timeline::Scope;
use stackline_timeline::steps::{StepSelection, WARM_UP_RATIO, between, is_warm_up, spans, upper_median};
use std::collections::BTreeMap;

/// Reason for an excluded first step that is unlike all others but not warm-up.
pub(super) const UNLIKE_OTHERS: &str = "first step with an unusual duration";
/// Reason for an excluded short last step.
const CUT_OFF: &str = "cut off";

/// An odd first or last step, which is not in steady state, deviates from the median by more than the median divided by
/// this number,
const OUTLIER_DIVISOR: i64 = 5;
/// and by more than this many times the range of the other steps.
const OUTLIER_RANGES: i64 = 4;

/// Assignment of events to the units of a comparison: compared steps, or the whole trace as one unit.
pub(super) struct Units {
    index: StepIndex,
    /// Compared unit by index in [`Trace::steps`]; `None` for excluded steps. Empty if the whole trace is one unit.
    of_step: Vec<Option<usize>>,
    pub(super) whole: bool,
    /// Start and end of inferred steps, in the order of `of_step`; empty for marked steps or a whole trace.
    inferred: Vec<(i64, i64)>,
}

impl Units {
    /// Index of the compared unit in which a host event starts; `None` outside of compared steps.
    pub(super) fn of_event(&self, trace: &Trace, event: EventId) -> Option<usize> {
        if self.whole {
            return Some(0);
        }
        let (start, track) = (trace.events.start[event.index()], trace.events.track[event.index()]);
        if !self.inferred.is_empty() {
            return self.unit_at(start);
        }
        let step = self.index.running(start, trace.tracks.pid(track))?;
        *self.of_step.get(step as usize)?
    }

    /// Index of the compared unit that a GPU operation belongs to; `None` outside of compared steps.
    pub(super) fn of_gpu(&self, trace: &Trace, gpu: GpuOpId) -> Option<usize> {
        if !self.inferred.is_empty() {
            return self.unit_at(trace.events.start[trace.gpu.event[gpu.index()].index()]);
        }
        if self.whole { Some(0) } else { *self.of_step.get(trace.gpu.step[gpu.index()] as usize)? }
    }

    /// Index of the compared unit whose inferred step contains a time; `None` outside of compared steps.
    fn unit_at(&self, start: i64) -> Option<usize> {
        let at = self.inferred.partition_point(|&(from, _)| from <= start).checked_sub(1)?;
        if start < self.inferred[at].1 { *self.of_step.get(at)? } else { None }
    }

    /// Create units from inferred steps, given by start and end in time order. `lengths` marks the compared ones.
    pub(super) fn from_inferred_steps(trace: &Trace, inferred: Vec<(i64, i64)>, lengths: &[StepLength]) -> Self {
        let of_step = units_of(lengths);
        Self { index: StepIndex::new(trace), of_step, whole: false, inferred }
    }
}

/// Lengths of the steps in scope, and the assignment of events to the compared ones. Compared are the steps that all
/// commands select ([`StepSelection`]), except a first and a last one that would distort the mean.
pub(super) fn steps(trace: &Trace, scope: &Scope, counted: &[bool]) -> (Vec<StepLength>, Units) {
    let spans = spans(trace, |gpu| counted[gpu.index()]);
    let ns: Vec<i64> = spans.iter().map(|(from, to)| to.saturating_sub(*from)).collect();
    let gaps = between(trace, &spans);
    // The last step is assumed to be followed by the median gap.
    let known: Vec<i64> = gaps.iter().copied().flatten().collect();
    let usual = upper_median(&known).unwrap_or(0);
    let left_out = StepSelection::select(trace, scope).exclusion_reasons(trace);
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
    // Steps that the user selects by number or with --whole are all compared.
    if scope.steps.is_none() && !scope.whole {
        exclude_outlier_ends(&mut lengths);
    }
    let mut of_step = vec![None; trace.steps.len()];
    for (unit, &at) in units_of(&lengths).into_iter().zip(&position) {
        of_step[at] = unit;
    }
    let index = StepIndex::new(trace);
    (lengths, Units { index, of_step, whole: trace.steps.is_empty(), inferred: Vec::new() })
}

/// Unit number of each step, counted over the compared steps; `None` for excluded steps.
fn units_of(lengths: &[StepLength]) -> Vec<Option<usize>> {
    let mut unit = 0..;
    lengths.iter().map(|length| if length.left_out.is_none() { unit.next() } else { None }).collect()
}

/// Exclude the first and the last compared step of each process if their length deviates from that of the others.
pub(super) fn exclude_outlier_ends(lengths: &mut [StepLength]) {
    for own in compared_by_process(lengths).into_iter().filter(|own| own.len() > 2) {
        let (first, last) = (own[0], own[own.len() - 1]);
        // Compare the ends to inner steps, if there are enough.
        let inner = if own.len() > 3 { 1..own.len() - 1 } else { 0..own.len() };
        let others: Vec<i64> = own[inner].iter().map(|&at| lengths[at].ns).collect();
        if is_outlier(lengths[first].ns, &others, true) {
            lengths[first].left_out = Some(UNLIKE_OTHERS);
        }
        if is_outlier(lengths[last].ns, &others, false) {
            lengths[last].left_out = Some(CUT_OFF);
        }
    }
}

/// Indices of the compared steps of each process, in time order.
pub(super) fn compared_by_process(lengths: &[StepLength]) -> Vec<Vec<usize>> {
    let mut of_processes: Vec<Vec<usize>> = Vec::new();
    for (at, step) in lengths.iter().enumerate() {
        of_processes.resize_with(of_processes.len().max(step.process + 1), Vec::new);
        if step.left_out.is_none() {
            of_processes[step.process].push(at);
        }
    }
    of_processes
}

/// Test if the first or last step is unlike the others. A first step may be shorter, because the host runs ahead of the
/// GPU until the launch queue is full. First steps as long as warm-up are covered here only if their number occurs
/// again.
fn is_outlier(ns: i64, others: &[i64], is_first: bool) -> bool {
    let mut sorted = others.to_vec();
    sorted.sort_unstable();
    let (Some(&least), Some(&most), Some(&middle)) = (sorted.first(), sorted.last(), sorted.get(sorted.len() / 2))
    else {
        return false;
    };
    let off = ns.saturating_sub(middle).saturating_abs();
    let unlike = off > middle / OUTLIER_DIVISOR && off > most.saturating_sub(least).saturating_mul(OUTLIER_RANGES);
    match is_first {
        true => unlike || is_warm_up(ns, others),
        false => ns < middle && (unlike || ns < middle / WARM_UP_RATIO),
    }
}
