//! Memory leak: never freed. That nobody needs it is known as well as who touches it, and as what ran after
//! its last use. What training keeps (parameters, their gradients, state of the optimizer) is no leak, nor is memory of which
//! nobody sees the free, nor what a long program uses all along, up to its end: the weights of an inference.
//!
//! Where a trace ends before the program, what is alive is merely alive. Then a line leaks if it leaves memory behind
//! round after round ([`crate::iterations`]): objects that nobody frees or touches any more, of nearly all rounds but the last. That is an inference: the program may
//! free them all later, and a cache may be full soon.
//!
//! Activations die in backward. Those of a round that are there after the next one belong to a graph that something keeps, such as a
//! loss in a list: so fewer rounds tell, and what leaks is the call of the model, not the many lines within. Where no backward pass
//! follows forward passes, these are the rounds, and what leaks is the line whose results are kept. The last frees of a
//! trace, after which nothing is allocated, are the end of the program or of the function that keeps them.

use super::{Certainty, Measure, Pattern, PatternMatch};
use crate::ObjectUsage;
use crate::iterations::{Origin, is_in_cache, is_of_program, is_steady, last_allocation};
use crate::suggest::callers::Callers;
use crate::suggest::{Site, Sites};
use rustc_hash::FxHashMap;
use stackline_model::names::STEP_PREFIX;
use stackline_model::{Frame, MemoryCallId, MemoryObjectId, MemoryObjectKind, MemoryStackId, MemoryTrace, StrId};
use std::collections::{BTreeMap, BTreeSet};

/// Where it is not known what a round is, fewer objects of a line than these say nothing.
const LEAST_OBJECTS: usize = 30;

/// The share of the rounds asked for that is enough of activations: 3 of 5.
const ROUNDS_OF_ACTIVATIONS: f64 = 0.6;

pub(super) fn detect(usage: &ObjectUsage<'_>, found: &mut Vec<PatternMatch>) {
    if !usage.trace.saw_end {
        growth(usage, found);
        return;
    }
    let in_use = used_all_along(usage.trace);
    for (object, bytes) in kept(usage, trace_end(usage.trace)).filter(|(object, _)| !in_use[object.index()]) {
        let from = usage.trace.objects.allocated_by[object.index()];
        let life = usage.trace.life(object);
        let kernels = usage.kernels_in(life.clone());
        let unneeded = usage.uses[object.index()].last_use.some().map_or(life.start, |last| last.index() + 1);
        let leak = PatternMatch::new(Pattern::MemoryLeak, object, bytes).judged_as_over(usage, unneeded..life.end);
        found.push(PatternMatch { from, kernels, ..leak });
    }
}

/// Shorter programs show no use over time.
const LEAST_CALLS: usize = 200;
/// A program is cut into so many parts of equally many calls.
const PARTS: u32 = 10;

/// By object: whether it is there in the first part of the program, and touched in the last and all but one of the others.
fn used_all_along(trace: &MemoryTrace) -> Vec<bool> {
    let calls = trace.calls.len();
    let mut touched = vec![0u32; trace.objects.len()];
    if calls < LEAST_CALLS {
        return vec![false; touched.len()];
    }
    let part = |call: MemoryCallId| call.0 / (u32::try_from(calls).unwrap_or(u32::MAX).div_ceil(PARTS));
    for call in trace.calls.ids() {
        for access in trace.accesses_of(call) {
            touched[access.object.index()] |= 1 << part(call);
        }
    }
    let is_used = |object: MemoryObjectId| {
        let is_early = trace.objects.allocated_by[object.index()].some().is_none_or(|call| part(call) == 0);
        let uses = touched[object.index()] >> 1;
        is_early && uses.count_ones() + 2 >= PARTS && uses >> (PARTS - 2) == 1
    };
    trace.objects.ids().map(is_used).collect()
}

/// The number of the calls.
fn trace_end(trace: &MemoryTrace) -> u32 {
    u32::try_from(trace.calls.len()).unwrap_or(u32::MAX)
}

/// What is not freed before the call `end`, and is not to stay, with its bytes.
fn kept<'a>(usage: &'a ObjectUsage<'_>, end: u32) -> impl Iterator<Item = (MemoryObjectId, u64)> + 'a {
    let objects = &usage.trace.objects;
    objects.ids().filter_map(move |object| {
        // The last gradients are there when training ends; who frees memory of others is not seen.
        let kind = objects.kind[object.index()];
        let may_stay =
            super::is_kept(usage, object) || matches!(kind, MemoryObjectKind::Gradient | MemoryObjectKind::Foreign);
        let is_freed = objects.freed_by[object.index()].some().is_some_and(|call| call.0 < end);
        usage.bytes(object).filter(|_| !is_freed && !may_stay).map(|bytes| (object, bytes))
    })
}

/// Whether it can be told what leaks: the source saw the end, or rounds enough to see what grows with them.
pub(crate) fn can_be_told(usage: &ObjectUsage<'_>) -> bool {
    usage.trace.saw_end || {
        let rounds = usage.rounds();
        rounds.origin != Origin::Parts && rounds.len() > usage.rules.leak_rounds
    }
}

/// Functions, files and lines.
type Path = Vec<(StrId, StrId, u32)>;

/// What one line, by one call path where no line is known, left behind.
#[derive(Default)]
struct Left {
    rounds: BTreeSet<u32>,
    objects: Vec<(MemoryObjectId, u64)>,
    /// Of activations: the call of the model.
    model_call: MemoryStackId,
}

fn growth(usage: &ObjectUsage<'_>, found: &mut Vec<PatternMatch>) {
    let trace = usage.trace;
    let callers = Callers::new(trace);
    let rounds = usage.rounds();
    // What the last one made is still in use.
    let before_last = rounds.len().saturating_sub(1);
    let (is_parts, is_passes) = (rounds.origin == Origin::Parts, rounds.origin == Origin::Passes);
    let of_activations = (f64::from(usage.rules.leak_rounds) * ROUNDS_OF_ACTIVATIONS).ceil() as u32;
    if before_last < if is_parts { usage.rules.leak_rounds } else { of_activations } {
        return;
    }
    let end = if is_parts { trace_end(trace) } else { last_allocation(trace) };
    let mut places = AllocationSites { sites: Sites::new(trace), paths: FxHashMap::default(), trace };
    let mut left: BTreeMap<(Site, Path), Left> = BTreeMap::new();
    for (object, bytes) in kept(usage, end) {
        let Some(round) = trace.objects.allocated_by[object.index()].some().and_then(|call| rounds.at(call)) else {
            continue;
        };
        let is_touched = |touch: MemoryCallId| touch.0 >= rounds.last_begin();
        let is_in_use = usage.uses[object.index()].last_touch.some().is_some_and(is_touched);
        let is_workspace = callers.workspace_of(object).is_some();
        if round >= before_last || is_in_use || is_workspace || is_parts && !is_of_program(trace, &callers, object) {
            continue;
        }
        if is_passes && is_in_cache(trace, trace.objects.stack[object.index()]) {
            continue;
        }
        // Without a backward pass it is no graph that keeps what a model made.
        let is_training = !is_parts && !is_passes;
        let model_call = callers.model_call(object).filter(|stack| is_training && has_line(trace, *stack));
        let place = match model_call {
            Some(stack) => (places.sites.called_from(object, stack), Path::new()),
            None => places.site_and_path(object),
        };
        let left = left.entry(place).or_default();
        left.model_call = model_call.unwrap_or(MemoryStackId::NONE);
        left.objects.push((object, bytes));
        left.rounds.insert(round);
    }
    let least_objects = if is_parts { LEAST_OBJECTS } else { 1 };
    for left in left.into_values().filter(|left| left.objects.len() >= least_objects) {
        let least = if left.model_call.is_some() { of_activations } else { usage.rules.leak_rounds };
        if is_steady(&left.rounds, before_last, least) {
            found.extend(matches(trace, &left, (before_last, rounds.origin)));
        }
    }
}

fn matches(trace: &MemoryTrace, left: &Left, (rounds, origin): (u32, Origin)) -> Vec<PatternMatch> {
    let all = left.objects.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
    // Rounds that begin after backward or an optimizer have what follows it: the first one has none of it, and does not count where all
    // others left something. Where others left nothing either, it is one of them.
    let others = rounds.saturating_sub(1);
    let rounds = match left.rounds.contains(&0) || left.rounds.len() != others as usize {
        true => rounds,
        false => others,
    };
    let measure = Measure::Growth {
        left: u32::try_from(left.rounds.len()).unwrap_or(u32::MAX),
        rounds,
        per_round: all / u64::from(rounds.max(1)),
        origin,
    };
    let leak = |(object, bytes): &(MemoryObjectId, u64)| PatternMatch {
        from: trace.objects.allocated_by[object.index()],
        certainty: Certainty::Inferred,
        measure: Some(measure.clone()),
        model_call: left.model_call,
        ..PatternMatch::new(Pattern::MemoryLeak, *object, *bytes)
    };
    left.objects.iter().map(leak).collect()
}

fn has_line(trace: &MemoryTrace, stack: MemoryStackId) -> bool {
    crate::frame_of(trace, stack).is_some_and(|frame| frame.line().is_some())
}

/// Allocation sites of objects; where a site is no line, the whole call path counts, without the numbers of steps.
struct AllocationSites<'a> {
    sites: Sites<'a>,
    paths: FxHashMap<MemoryStackId, Path>,
    trace: &'a MemoryTrace,
}

impl AllocationSites<'_> {
    fn site_and_path(&mut self, object: MemoryObjectId) -> (Site, Path) {
        let (trace, stack) = (self.trace, self.trace.objects.stack[object.index()]);
        let path = self.paths.entry(stack).or_insert_with(|| {
            if crate::frame_of(trace, stack).is_some_and(|frame| frame.line().is_some()) {
                return Path::new();
            }
            let is_step = |frame: &Frame| frame.function_text(&trace.strings).starts_with(STEP_PREFIX);
            let frames = trace.stacks.frames_of(stack).filter(|frame| !is_step(frame));
            frames.map(|frame| (frame.function(), frame.file().into(), frame.line().unwrap_or(0))).collect()
        });
        (self.sites.site_of(object), path.clone())
    }
}
