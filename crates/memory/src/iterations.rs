//! Iterations of a program: steps of the source, else training iterations or forward passes by call path.
//!
//! What grows with each of them leaks, also where nobody saw the end of the program ([`crate::patterns`], `leak`).

use crate::suggest::callers::Callers;
use stackline_model::names::STEP_PREFIX;
use stackline_model::{Frame, MemoryCallId, MemoryCallKind, MemoryObjectId, MemoryStackId, MemoryTrace};
use std::collections::BTreeSet;

/// Origin of iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Steps that the source tells of.
    Steps,
    /// Turns of training, by call paths: memory that an optimizer allocates, or backward, is followed by memory of others. A step
    /// with two optimizers has two.
    Turns,
    /// Forward passes of a model that no backward pass follows: an evaluation, an inference.
    Passes,
    /// Neither is known: equal parts of all calls.
    Parts,
}

impl Origin {
    /// What one of them is called; nothing where they are no rounds of the program.
    pub const fn round(self) -> Option<&'static str> {
        match self {
            Self::Steps => Some("step"),
            Self::Turns => Some("training iteration"),
            Self::Passes => Some("forward pass"),
            Self::Parts => None,
        }
    }
}

/// Without rounds the calls are cut into so many parts.
const PARTS: u32 = 10;

/// Iterations, each up to the begin of the next one; the last one up to `end`.
#[derive(Debug)]
pub(crate) struct Iterations {
    begins: Vec<u32>,
    end: u32,
    pub(crate) origin: Origin,
    /// Whether more than call paths of a model tells where they begin: what the source says, an optimizer, or what the program allocates
    /// between passes. Else equal layers of one pass may count as passes.
    pub(crate) is_sure: bool,
}

impl Iterations {
    /// `enough`: so many turns an optimizer must show.
    pub(crate) fn from_trace(trace: &MemoryTrace, callers: &Callers<'_>, enough: u32) -> Self {
        let all = u32::try_from(trace.calls.len()).unwrap_or(u32::MAX);
        if let Some(rounds) = of_steps(trace) {
            return rounds;
        }
        let begins = of_training(trace, callers, enough);
        if begins.len() > 1 {
            return Self { begins, end: all, origin: Origin::Turns, is_sure: true };
        }
        let (begins, is_sure) = of_passes(trace, callers, enough);
        if begins.len() > 1 {
            return Self { begins, end: all, origin: Origin::Passes, is_sure };
        }
        let begin = |part: u32| (u64::from(part) * u64::from(all) / u64::from(PARTS)) as u32;
        Self { begins: (0..PARTS).map(begin).collect(), end: all, origin: Origin::Parts, is_sure: false }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.begins.len()).unwrap_or(u32::MAX)
    }

    /// Where the last one begins.
    pub(crate) fn last_begin(&self) -> u32 {
        self.begins.last().copied().unwrap_or(self.end)
    }

    /// The round in which a call lies.
    pub(crate) fn at(&self, call: MemoryCallId) -> Option<u32> {
        let begun = self.begins.partition_point(|begin| *begin <= call.0);
        let round = begun.checked_sub(1).filter(|_| call.0 < self.end)?;
        u32::try_from(round).ok()
    }
}

/// The steps that the source tells of, those that do not overlap an earlier one.
fn of_steps(trace: &MemoryTrace) -> Option<Iterations> {
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

/// Where others allocate again after an optimizer did: one that is stepped ends a turn, whatever lies between backward and it. What has
/// no call path tells nothing.
fn of_training(trace: &MemoryTrace, callers: &Callers<'_>, enough: u32) -> Vec<u32> {
    let begins = begins_after(trace, |stack| callers.in_optimizer(stack));
    // An optimizer that needs memory in its first step and a few others, or in none at all, shows no turns: backward does.
    if begins.len() > enough.max(2) as usize { begins } else { begins_after(trace, |stack| callers.in_library(stack)) }
}

/// Where memory is allocated that `ends` is not true of, for the first time since some was that it is true of.
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

/// Whether backward passes may be among the records: a call path lies in one or in an optimizer, or one is not known (of what the
/// autograd engine does PyTorch knows none without C++ frames).
pub(crate) fn may_train(trace: &MemoryTrace, callers: &Callers<'_>) -> bool {
    let objects = &trace.objects;
    let is_not_known = |object: &MemoryObjectId| {
        objects.stack[object.index()].is_none() && objects.allocated_by[object.index()].is_some()
    };
    let stacks = objects.stack.iter().chain(&trace.calls.stack);
    stacks.copied().any(|stack| callers.in_library(stack)) || objects.ids().any(|object| is_not_known(&object))
}

/// Where forward passes begin, without training, and whether the program tells it: at objects of the call path that made the first one.
/// What comes before the first layer comes once in a pass, so does what comes after the last one; a call path in between comes once in
/// a layer. Where nothing that a pass made is freed, there may be but one, of equal layers.
fn of_passes(trace: &MemoryTrace, callers: &Callers<'_>, enough: u32) -> (Vec<u32>, bool) {
    if may_train(trace, callers) {
        return (Vec::new(), false);
    }
    let objects = &trace.objects;
    let is_made = |object: &MemoryObjectId| objects.allocated_by[object.index()].is_some();
    let made: Vec<MemoryObjectId> =
        objects.ids().filter(|object| is_made(object) && callers.phase_of(*object) == "forward").collect();
    let begins_of = |edge: Option<&MemoryObjectId>| -> Vec<u32> {
        let Some(edge) = edge else { return Vec::new() };
        let alike = made.iter().filter(|object| objects.stack[object.index()] == objects.stack[edge.index()]);
        alike.map(|object| objects.allocated_by[object.index()].0).collect()
    };
    let (first, last) = (begins_of(made.first()), begins_of(made.last()));
    let edges = if last.len() < first.len() { last } else { first };
    let (begins, is_sure) = without_layers(trace, callers, (&edges, &made), enough);
    let end = begins.last().copied().unwrap_or(0);
    let is_freed = |object: &MemoryObjectId| objects.freed_by[object.index()].some().is_some_and(|call| call.0 < end);
    if made.iter().any(is_freed) { (begins, is_sure) } else { (Vec::new(), false) }
}

/// Of the objects `edges` of one call path those that begin a pass, and whether the program tells it. All layers of a `Sequential` have
/// one call path: the program allocates something between two passes (an input, a loss), or what a pass made is freed.
fn without_layers(
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

/// The first call after which nothing is allocated any more: what is freed later is freed because the program ends, or the function that
/// keeps it.
pub(crate) fn last_allocation(trace: &MemoryTrace) -> u32 {
    let is_allocation = |call: &MemoryCallId| trace.calls.kind[call.index()] == MemoryCallKind::Allocate;
    let all = u32::try_from(trace.calls.len()).unwrap_or(u32::MAX);
    trace.calls.ids().rfind(is_allocation).map_or(all, |call| call.0 + 1)
}

/// Whether a call path lies in what is called a cache: it is there to keep what passes make.
pub(crate) fn is_in_cache(trace: &MemoryTrace, stack: MemoryStackId) -> bool {
    let has = |name: &str| name.to_ascii_lowercase().contains("cache");
    let file = |frame: &Frame| frame.file_text(&trace.strings).rsplit('/').next().unwrap_or_default();
    trace.stacks.frames_of(stack).any(|frame| has(frame.function_text(&trace.strings)) || has(file(&frame)))
}

/// Whether something is left in so many rounds, and nowhere a quarter of all goes by without: what is made once at the begin, and
/// what is merely kept for a few rounds, is no growth.
pub(crate) fn is_steady(rounds: &BTreeSet<u32>, all: u32, least: u32) -> bool {
    let known = rounds.iter().map(|round| i64::from(*round));
    let marks: Vec<i64> = std::iter::once(-1).chain(known).chain(std::iter::once(i64::from(all))).collect();
    let longest = marks.windows(2).map(|pair| pair[1] - pair[0] - 1).max().unwrap_or(0);
    rounds.len() >= least as usize && longest <= i64::from(all) / 4
}

/// Whether a call path says that an object is made by a line of the program that is no part of a model: what a model's lines make in
/// one pass, layer by layer, need not be what a loop of the program makes.
pub(crate) fn is_of_program(trace: &MemoryTrace, callers: &Callers<'_>, object: MemoryObjectId) -> bool {
    let row = object.index();
    let stack = trace.objects.stack[row];
    let has_line = crate::frame_of(trace, stack).is_some_and(|frame| frame.line().is_some());
    has_line && callers.phase_of(object) == "other"
}
