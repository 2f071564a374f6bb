//! Memory leak: an object that is never freed. Objects that training keeps (parameters, gradients, optimizer state) are
//! no leaks. Neither are objects whose free cannot be recorded, nor objects that a long program uses until its end,
//! such as weights of an inference. The certainty depends on the evidence of accesses and on the calls after the last
//! use.
//!
//! If a trace ends before the program, live objects need not be leaks. Then a line leaks if it leaves memory in
//! iteration after iteration ([`crate::iterations`]): objects of nearly all iterations but the last that are neither
//! freed nor accessed any more. Such a leak is inferred: the program may free all of them later, and a cache may stop
//! growing.
//!
//! Activations are freed in backward. Activations that outlive the next iteration belong to a graph that something
//! keeps, such as a loss in a list. So fewer iterations suffice, and the reported site is the call of the model, not
//! the many lines within it. Without backward passes, iterations are forward passes, and the reported site is the line
//! whose results are kept. The last frees of a trace, without a later allocation, belong to the end of the program or
//! of the function that keeps the objects.

use super::{Certainty, Measure, Pattern, PatternMatch};
use crate::ObjectUsage;
use crate::iterations::{Origin, is_in_cache, is_of_program, is_steady, last_allocation};
use crate::suggest::callers::Callers;
use crate::suggest::{Site, Sites};
use rustc_hash::FxHashMap;
use stackline_model::names::STEP_PREFIX;
use stackline_model::{Frame, MemoryCallId, MemoryObjectId, MemoryObjectKind, MemoryStackId, MemoryTrace, StrId};
use std::collections::{BTreeMap, BTreeSet};

/// Least number of objects per line, if iterations are unknown.
const LEAST_OBJECTS: usize = 30;

/// Share of the required iterations that suffices for activations: 3 of 5.
const ITERATIONS_OF_ACTIVATIONS: f64 = 0.6;

/// Append a match to `found` for each leaked object.
pub(super) fn detect(usage: &ObjectUsage<'_>, found: &mut Vec<PatternMatch>) {
    if !usage.trace.saw_end {
        find_growth(usage, found);
        return;
    }
    let in_use = used_all_along(usage.trace);
    for (object, bytes) in kept(usage, trace_end(usage.trace)).filter(|(object, _)| !in_use[object.index()]) {
        let from = usage.trace.objects.allocated_by[object.index()];
        let life = usage.trace.life(object);
        let kernels = usage.kernels_in(life.clone());
        let unneeded = usage.uses[object.index()].last_use.some().map_or(life.start, |last| last.index() + 1);
        let leak = PatternMatch::new(Pattern::MemoryLeak, object, bytes)
            .with_certainty_after_last_use(usage, unneeded..life.end);
        found.push(PatternMatch { from, kernels, ..leak });
    }
}

/// Least number of calls of a program that can show use over time.
const LEAST_CALLS: usize = 200;
/// Number of equal parts of the calls of a program.
const PARTS: u32 = 10;

/// True per object if it exists in the first part of the program, and is accessed in the last part and all but one of
/// the others.
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

/// Position of the end of a memory trace: its number of calls.
fn trace_end(trace: &MemoryTrace) -> u32 {
    u32::try_from(trace.calls.len()).unwrap_or(u32::MAX)
}

/// Objects that are not freed before the call `end` and are not meant to stay, with their bytes.
fn kept<'a>(usage: &'a ObjectUsage<'_>, end: u32) -> impl Iterator<Item = (MemoryObjectId, u64)> + 'a {
    let objects = &usage.trace.objects;
    objects.ids().filter_map(move |object| {
        // The last gradients exist when training ends. Frees of memory from outside the framework are not recorded.
        let kind = objects.kind[object.index()];
        let may_stay =
            super::is_kept(usage, object) || matches!(kind, MemoryObjectKind::Gradient | MemoryObjectKind::Foreign);
        let is_freed = objects.freed_by[object.index()].some().is_some_and(|call| call.0 < end);
        usage.bytes(object).filter(|_| !is_freed && !may_stay).map(|bytes| (object, bytes))
    })
}

/// True if leaks can be detected: the records include the end of the program, or enough iterations to see growth.
pub(crate) fn is_detectable(usage: &ObjectUsage<'_>) -> bool {
    usage.trace.saw_end || {
        let iterations = usage.iterations();
        iterations.origin != Origin::Parts && iterations.len() > usage.rules.leak_iterations
    }
}

/// Call path by function, file and line.
type Path = Vec<(StrId, StrId, u32)>;

/// Objects that one allocating line (or call path, if no line is known) left unfreed, and their iterations.
#[derive(Default)]
struct LeftObjects {
    iterations: BTreeSet<u32>,
    objects: Vec<(MemoryObjectId, u64)>,
    /// For activations: the call of the model.
    model_call: MemoryStackId,
}

/// Append a match for each object that a line leaves in iteration after iteration, in a trace without the program's
/// end.
fn find_growth(usage: &ObjectUsage<'_>, found: &mut Vec<PatternMatch>) {
    let trace = usage.trace;
    let callers = Callers::new(trace);
    let iterations = usage.iterations();
    // Objects of the last iteration are still in use.
    let before_last = iterations.len().saturating_sub(1);
    let (is_parts, is_passes) = (iterations.origin == Origin::Parts, iterations.origin == Origin::Passes);
    let of_activations = (f64::from(usage.rules.leak_iterations) * ITERATIONS_OF_ACTIVATIONS).ceil() as u32;
    if before_last < if is_parts { usage.rules.leak_iterations } else { of_activations } {
        return;
    }
    let end = if is_parts { trace_end(trace) } else { last_allocation(trace) };
    let mut places = AllocationSites { sites: Sites::new(trace), paths: FxHashMap::default(), trace };
    let mut left: BTreeMap<(Site, Path), LeftObjects> = BTreeMap::new();
    for (object, bytes) in kept(usage, end) {
        let Some(iteration) = trace.objects.allocated_by[object.index()].some().and_then(|call| iterations.at(call))
        else {
            continue;
        };
        let is_touched = |touch: MemoryCallId| touch.0 >= iterations.last_begin();
        let is_in_use = usage.uses[object.index()].last_touch.some().is_some_and(is_touched);
        let is_workspace = callers.workspace_of(object).is_some();
        if iteration >= before_last || is_in_use || is_workspace || is_parts && !is_of_program(trace, &callers, object)
        {
            continue;
        }
        if is_passes && is_in_cache(trace, trace.objects.stack[object.index()]) {
            continue;
        }
        // Without a backward pass no graph keeps objects of a model.
        let is_training = !is_parts && !is_passes;
        let model_call = callers.model_call(object).filter(|stack| is_training && has_line(trace, *stack));
        let place = match model_call {
            Some(stack) => (places.sites.called_from(object, stack), Path::new()),
            None => places.site_and_path(object),
        };
        let left = left.entry(place).or_default();
        left.model_call = model_call.unwrap_or(MemoryStackId::NONE);
        left.objects.push((object, bytes));
        left.iterations.insert(iteration);
    }
    let least_objects = if is_parts { LEAST_OBJECTS } else { 1 };
    for left in left.into_values().filter(|left| left.objects.len() >= least_objects) {
        let least = if left.model_call.is_some() { of_activations } else { usage.rules.leak_iterations };
        if is_steady(&left.iterations, before_last, least) {
            found.extend(matches(trace, &left, (before_last, iterations.origin)));
        }
    }
}

/// Matches of a line that leaks, one per object, with its growth per iteration.
fn matches(trace: &MemoryTrace, left: &LeftObjects, (iterations, origin): (u32, Origin)) -> Vec<PatternMatch> {
    let all = left.objects.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
    // Iterations that begin after backward or an optimizer start with objects of the previous one. The first iteration
    // has none of them, and is excluded if all others left something. If others left nothing either, it counts.
    let others = iterations.saturating_sub(1);
    let iterations = match left.iterations.contains(&0) || left.iterations.len() != others as usize {
        true => iterations,
        false => others,
    };
    let measure = Measure::Growth {
        left: u32::try_from(left.iterations.len()).unwrap_or(u32::MAX),
        iterations,
        per_iteration: all / u64::from(iterations.max(1)),
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

/// True if a call path has a reported frame with a line.
fn has_line(trace: &MemoryTrace, stack: MemoryStackId) -> bool {
    crate::frame_of(trace, stack).is_some_and(|frame| frame.line().is_some())
}

/// Allocation sites of objects. Without a line, the site is the whole call path, without step numbers.
struct AllocationSites<'a> {
    sites: Sites<'a>,
    paths: FxHashMap<MemoryStackId, Path>,
    trace: &'a MemoryTrace,
}

impl AllocationSites<'_> {
    /// Allocation site of an object, and its call path if no line is known (else an empty path).
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
