//! Sets of objects with the model's sizes that lines of the program allocated: state and temporaries of handwritten
//! optimizers, copies of parameters, and equal sets of unknown use.

use super::lifetimes::Lifetimes;
use super::sets::{
    Classes, MIN_DISTINCT_SIZES, Recognized, Sizes, find_set_of_any_type, group_by_program_line, is_large_enough,
    parameters, sizes_of,
};
use super::{Evidence, ObjectUse, Use};
use crate::source_location::frame_of;
use rustc_hash::FxHashSet;
use stackline_model::{MemoryObjectId, MemoryTrace};

/// Find the purpose of objects that lines of the program allocated, if they form sets with the sizes of known sets, or
/// of each other. Line, lifetime and the optimizer's step decide the purpose.
pub(super) fn sets_of_program_lines(
    trace: &MemoryTrace,
    lifetimes: &Lifetimes<'_>,
    classes: &Classes,
    recognized: &Recognized,
) -> Vec<ObjectUse> {
    let known: FxHashSet<MemoryObjectId> = recognized.uses.iter().map(|(object, ..)| *object).collect();
    let left: Vec<MemoryObjectId> = classes.others.iter().copied().filter(|object| !known.contains(object)).collect();
    let sets = match recognized.uses.is_empty() {
        true => with_equal_sizes(trace, classes, &left),
        false => sets_with_sizes(trace, group_by_program_line(trace, &left), &recognized.sizes),
    };
    let has = |uses: &[Use]| recognized.uses.iter().any(|(_, purpose, _)| uses.contains(purpose));
    let has_state = has(&[Use::FirstMoments, Use::OptimizerState]);
    let is_state = |set: &&Vec<MemoryObjectId>| !has_state && is_state_by_hand(trace, lifetimes, set);
    let states: Vec<&Vec<MemoryObjectId>> = sets.iter().filter(is_state).collect();
    let mut names = match states.len() {
        0..=2 => vec![Use::SecondMoments, Use::FirstMoments],
        more => vec![Use::OptimizerState; more],
    };
    let parameters = match has(&[Use::Parameters]) {
        true => Vec::new(),
        false => parameters_of_state(trace, lifetimes, classes, &states),
    };
    let taken: FxHashSet<MemoryObjectId> = parameters.iter().copied().collect();
    let parameters = parameters.into_iter().map(|object| (object, Use::Parameters, Evidence::EqualSizes));
    let mut uses: Vec<ObjectUse> = parameters.collect();
    for mut set in sets {
        set.retain(|object| !taken.contains(object));
        let (purpose, evidence) = if set.iter().all(|object| is_temporary_by_hand(lifetimes, *object)) {
            (Use::OptimizerTemporaries, Evidence::Lifetime)
        } else if !has_state && is_state_by_hand(trace, lifetimes, &set) {
            (names.pop().unwrap_or(Use::OptimizerState), Evidence::EqualSizes)
        } else {
            (Use::EqualSets, Evidence::EqualSizesOnly)
        };
        uses.extend(set.into_iter().map(|object| (object, purpose, evidence)));
    }
    uses
}

/// True if an object was allocated where optimizers run, and does not persist over steps.
fn is_temporary_by_hand(lifetimes: &Lifetimes<'_>, object: MemoryObjectId) -> bool {
    lifetimes.is_allocated_in_optimizer_step(object) && lifetimes.is_temporary(object)
}

/// True if a handwritten function `step` allocated all objects of a set as lasting state, after a backward pass and
/// before a forward pass.
fn is_state_by_hand(trace: &MemoryTrace, lifetimes: &Lifetimes<'_>, set: &[MemoryObjectId]) -> bool {
    set.iter().all(|object| {
        let frame = frame_of(trace, trace.objects.stack[object.index()]);
        frame.is_some_and(|frame| frame.function_text(&trace.strings) == "step")
            && lifetimes.is_allocated_in_optimizer_step(*object)
            && !lifetimes.is_temporary(*object)
    })
}

/// Find the parameters that belong to a handwritten optimizer's state. They have its sizes, were allocated before it,
/// and are live until the end of the records.
fn parameters_of_state(
    trace: &MemoryTrace,
    lifetimes: &Lifetimes<'_>,
    classes: &Classes,
    states: &[&Vec<MemoryObjectId>],
) -> Vec<MemoryObjectId> {
    let made = |object: &MemoryObjectId| trace.objects.allocated_by[object.index()].some();
    let first = states.iter().copied().flatten().filter_map(made).min();
    let (Some(first), Some(state)) = (first, states.first()) else { return Vec::new() };
    let is_older = |object: &MemoryObjectId| made(object).is_none_or(|call| call < first) && lifetimes.is_kept(*object);
    let others = classes.others.iter().copied().filter(is_older).collect();
    let older = Classes { others, of_weights: classes.of_weights.clone(), ..Classes::default() };
    parameters(trace, &older, &sizes_of(trace, state)).unwrap_or_default()
}

/// Split the objects of each allocating line into sets with the given sizes, also scaled for other element types.
/// Remaining objects are left out.
fn sets_with_sizes(trace: &MemoryTrace, lines: Vec<Vec<MemoryObjectId>>, sizes: &Sizes) -> Vec<Vec<MemoryObjectId>> {
    let mut sets = Vec::new();
    for mut line in lines {
        while let Some(set) = find_set_of_any_type(trace, &line, sizes) {
            let taken: FxHashSet<MemoryObjectId> = set.iter().copied().collect();
            line.retain(|object| !taken.contains(object));
            sets.push(set);
        }
    }
    sets
}

/// Find sets of equal sizes among objects, where the objects of one allocating line give the sizes. Returns the sets of
/// most bytes; none without at least two equal sets.
fn with_equal_sizes(trace: &MemoryTrace, classes: &Classes, objects: &[MemoryObjectId]) -> Vec<Vec<MemoryObjectId>> {
    let (lines, is_large) = (group_by_program_line(trace, objects), is_large_enough(trace, classes));
    let sizes = lines.iter().map(|line| sizes_of(trace, line));
    let mut candidates: Vec<Sizes> = sizes.filter(|set| set.len() >= MIN_DISTINCT_SIZES && is_large(set)).collect();
    candidates.dedup();
    let sets = candidates.iter().map(|sizes| sets_with_sizes(trace, lines.clone(), sizes));
    let bytes = |sets: &Vec<Vec<MemoryObjectId>>| {
        sets.iter().flatten().map(|object| trace.objects.bytes[object.index()]).fold(0, u64::saturating_add)
    };
    // `max_by_key` takes the last of equal ones; the first is wanted.
    sets.filter(|sets| sets.len() > 1).rev().max_by_key(bytes).unwrap_or_default()
}
