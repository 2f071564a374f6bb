//! Iterations of a program: steps of the source, else training iterations or forward passes by call path.
//!
//! Memory that grows with each iteration leaks, even if the records end before the program ([`crate::patterns`],
//! `leak`).

use crate::suggest::callers::Callers;
use stackline_model::names::STEP_PREFIX;
use stackline_model::{Frame, MemoryCallId, MemoryCallKind, MemoryObjectId, MemoryStackId, MemoryTrace};
use std::collections::BTreeSet;

/// Source of the begins of iterations: recorded steps, training by call path, forward passes, or equal parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Steps in the source.
    Steps,
    /// Training iterations by call paths: allocations of an optimizer, or of backward, followed by other allocations. A
    /// step with two optimizers has two iterations.
    TrainingIterations,
    /// Forward passes without a backward pass, as in evaluation or inference.
    Passes,
    /// Equal parts of all calls, without known iterations.
    Parts,
}

impl Origin {
    /// Noun for one iteration, such as `step`; none for [`Self::Parts`].
    pub const fn noun(self) -> Option<&'static str> {
        match self {
            Self::Steps => Some("step"),
            Self::TrainingIterations => Some("training iteration"),
            Self::Passes => Some("forward pass"),
            Self::Parts => None,
        }
    }
}

/// Number of parts, if iterations are unknown.
const PARTS: u32 = 10;

/// Iterations, each up to the begin of the next one; the last one up to `end`.
#[derive(Debug)]
pub(crate) struct Iterations {
    begins: Vec<u32>,
    end: u32,
    pub(crate) origin: Origin,
    /// True if steps of the source, an optimizer, or allocations of the program between passes show the begins. If only
    /// call paths of a model do, equal layers of one pass may count as passes.
    pub(crate) is_sure: bool,
}

impl Iterations {
    /// Find the iterations of a trace: steps, training iterations, forward passes, or equal parts. `enough` is the
    /// number of begins that an optimizer, or allocations between passes, must exceed to be used.
    pub(crate) fn from_trace(trace: &MemoryTrace, callers: &Callers<'_>, enough: u32) -> Self {
        let all = u32::try_from(trace.calls.len()).unwrap_or(u32::MAX);
        if let Some(iterations) = steps_of_source(trace) {
            return iterations;
        }
        let begins = training_begins(trace, callers, enough);
        if begins.len() > 1 {
            return Self { begins, end: all, origin: Origin::TrainingIterations, is_sure: true };
        }
        let (begins, is_sure) = pass_begins(trace, callers, enough);
        if begins.len() > 1 {
            return Self { begins, end: all, origin: Origin::Passes, is_sure };
        }
        let begin = |part: u32| (u64::from(part) * u64::from(all) / u64::from(PARTS)) as u32;
        Self { begins: (0..PARTS).map(begin).collect(), end: all, origin: Origin::Parts, is_sure: false }
    }

    /// Number of iterations found in the memory trace.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.begins.len()).unwrap_or(u32::MAX)
    }

    /// Number of the call at which the last iteration begins.
    pub(crate) fn last_begin(&self) -> u32 {
        self.begins.last().copied().unwrap_or(self.end)
    }

    /// Number of the iteration in which a call happens, from 0; `None` outside of all iterations.
    pub(crate) fn at(&self, call: MemoryCallId) -> Option<u32> {
        let begun = self.begins.partition_point(|begin| *begin <= call.0);
        let iteration = begun.checked_sub(1).filter(|_| call.0 < self.end)?;
        u32::try_from(iteration).ok()
    }
}

/// Iterations by the steps in the source, without those that overlap an earlier one; `None` without steps.
fn steps_of_source(trace: &MemoryTrace) -> Option<Iterations> {
    let is_step = |name| trace.strings.get(name).starts_with(STEP_PREFIX);
    let (mut begins, mut end) = (Vec::new(), 0);
    for step in trace.phases.iter().filter(|phase| is_step(phase.name) && phase.first < phase.end) {
        if step.first.0 >= end {
            begins.push(step.first.0);
            end = step.end.0;
        }
    }
    (!begins.is_empty()).then_some(Iterations { begins, end, origin: Origin::Steps, is_sure: true })
}

/// Begins of training iterations: the first other allocation after an optimizer's, or after those of backward if too
/// few. An optimizer step ends an iteration, independent of the calls between backward and the step. Allocations
/// without a call path are ignored.
fn training_begins(trace: &MemoryTrace, callers: &Callers<'_>, enough: u32) -> Vec<u32> {
    let begins = begins_after(trace, |stack| callers.in_optimizer(stack));
    // An optimizer that allocates in its first step and a few others, or never, shows no iterations; then backward is
    // used.
    if begins.len() > enough.max(2) as usize {
        begins
    } else {
        begins_after(trace, |stack| callers.in_backward_or_optimizer(stack))
    }
}

/// First allocating calls of iterations: those whose call path is outside of a phase (`ends` is false), each after one
/// inside. The first call outside begins an iteration, too.
fn begins_after(trace: &MemoryTrace, ends: impl Fn(MemoryStackId) -> bool) -> Vec<u32> {
    let (mut begins, mut is_over) = (Vec::new(), true);
    for object in trace.objects.ids() {
        let (stack, call) = (trace.objects.stack[object.index()], trace.objects.allocated_by[object.index()]);
        if stack.is_none() || call.is_none() {
            continue;
        }
        if ends(stack) {
            is_over = true;
        } else if is_over {
            is_over = false;
            begins.push(call.0);
        }
    }
    begins
}

/// True if backward passes may be among the records: a call path is in backward or in an optimizer, or a call path is
/// missing. PyTorch has no call paths for the autograd engine without C++ frames.
pub(crate) fn may_train(trace: &MemoryTrace, callers: &Callers<'_>) -> bool {
    let objects = &trace.objects;
    let is_not_known = |object: &MemoryObjectId| {
        objects.stack[object.index()].is_none() && objects.allocated_by[object.index()].is_some()
    };
    let stacks = objects.stack.iter().chain(&trace.calls.stack);
    stacks.copied().any(|stack| callers.in_backward_or_optimizer(stack))
        || objects.ids().any(|object| is_not_known(&object))
}

/// Begins of forward passes without training, and true if the program's allocations prove them. Passes begin at objects
/// of the call path that allocated the first object. Code before the first or after the last layer runs once per pass;
/// a call path in between repeats once per layer. If no object of a pass is freed, there may be a single pass of equal
/// layers.
fn pass_begins(trace: &MemoryTrace, callers: &Callers<'_>, enough: u32) -> (Vec<u32>, bool) {
    if may_train(trace, callers) {
        return (Vec::new(), false);
    }
    let objects = &trace.objects;
    let is_made = |object: &MemoryObjectId| objects.allocated_by[object.index()].is_some();
    let made: Vec<MemoryObjectId> =
        objects.ids().filter(|object| is_made(object) && callers.phase_of(*object) == "forward").collect();
    let begins_of = |edge: Option<&MemoryObjectId>| -> Vec<u32> {
        let Some(edge) = edge else { return Vec::new() };
        let of_same_stack = made.iter().filter(|object| objects.stack[object.index()] == objects.stack[edge.index()]);
        of_same_stack.map(|object| objects.allocated_by[object.index()].0).collect()
    };
    let (first, last) = (begins_of(made.first()), begins_of(made.last()));
    let edges = if last.len() < first.len() { last } else { first };
    let (begins, is_sure) = begins_without_layers(trace, callers, (&edges, &made), enough);
    let end = begins.last().copied().unwrap_or(0);
    let is_freed = |object: &MemoryObjectId| objects.freed_by[object.index()].some().is_some_and(|call| call.0 < end);
    if made.iter().any(is_freed) { (begins, is_sure) } else { (Vec::new(), false) }
}

/// Calls among `edges` (of one call path) that begin a pass, and true if allocations between them prove it. All layers
/// of a `Sequential` have one call path. Between two passes the program allocates something (an input, a loss), or
/// objects of the pass are freed.
fn begins_without_layers(
    trace: &MemoryTrace,
    callers: &Callers<'_>,
    (edges, made): (&[u32], &[MemoryObjectId]),
    enough: u32,
) -> (Vec<u32>, bool) {
    let objects = &trace.objects;
    let after = |calls: &[u32]| -> Vec<u32> {
        let up_to = |call: u32| calls.partition_point(|known| *known < call);
        let begins = edges.windows(2).filter(|pair| up_to(pair[0]) < up_to(pair[1])).map(|pair| pair[1]);
        edges.first().copied().into_iter().chain(begins).collect()
    };
    let is_of_others =
        |object: &MemoryObjectId| callers.phase_of(*object) != "forward" && callers.workspace_of(*object).is_none();
    let others = objects.ids().filter(is_of_others).filter_map(|object| objects.allocated_by[object.index()].some());
    let mut others: Vec<u32> = others.map(|call| call.0).collect();
    others.sort_unstable();
    let begins = after(&others);
    if begins.len() > enough as usize {
        return (begins, true);
    }
    let mut frees: Vec<u32> =
        made.iter().filter_map(|object| objects.freed_by[object.index()].some()).map(|call| call.0).collect();
    frees.sort_unstable();
    (after(&frees), false)
}

/// Number of memory calls up to and including the last allocation; all calls if there is none.
///
/// Later frees belong to the end of the program, or of the function that keeps the objects.
pub(crate) fn last_allocation(trace: &MemoryTrace) -> u32 {
    let is_allocation = |call: &MemoryCallId| trace.calls.kind[call.index()] == MemoryCallKind::Allocate;
    let all = u32::try_from(trace.calls.len()).unwrap_or(u32::MAX);
    trace.calls.ids().rfind(is_allocation).map_or(all, |call| call.0 + 1)
}

/// True if a frame of the call path is named like a cache, which keeps results of passes on purpose.
pub(crate) fn is_in_cache(trace: &MemoryTrace, stack: MemoryStackId) -> bool {
    let has = |name: &str| name.to_ascii_lowercase().contains("cache");
    let file = |frame: &Frame| frame.file_text(&trace.strings).rsplit('/').next().unwrap_or_default();
    trace.stacks.frames_of(stack).any(|frame| has(frame.function_text(&trace.strings)) || has(file(&frame)))
}

/// True if objects are left steadily: by at least `least` iterations, with no gap longer than a quarter of all
/// iterations. Objects that are allocated once at the start, or kept for a few iterations, are no growth.
pub(crate) fn is_steady(iterations: &BTreeSet<u32>, all: u32, least: u32) -> bool {
    let known = iterations.iter().map(|iteration| i64::from(*iteration));
    let marks: Vec<i64> = std::iter::once(-1).chain(known).chain(std::iter::once(i64::from(all))).collect();
    let longest = marks.windows(2).map(|pair| pair[1] - pair[0] - 1).max().unwrap_or(0);
    iterations.len() >= least as usize && longest <= i64::from(all) / 4
}

/// True if the call path shows that the program allocated an object outside of a model. Lines of a model allocate per
/// layer within one pass, which is not a loop of the program.
pub(crate) fn is_of_program(trace: &MemoryTrace, callers: &Callers<'_>, object: MemoryObjectId) -> bool {
    let row = object.index();
    let stack = trace.objects.stack[row];
    let has_line = crate::frame_of(trace, stack).is_some_and(|frame| frame.line().is_some());
    has_line && callers.phase_of(object) == "other"
}
