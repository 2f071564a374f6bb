//! Sets of objects with equal sizes: a parameter, its gradient and its optimizer state.

use super::{Evidence, ObjectUse, Use};
use crate::source_location::frame_of;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{Frame, MemoryObjectId, MemoryStackId, MemoryTrace};
use std::collections::BTreeMap;

/// Live objects at a peak, by the code that allocated them.
#[derive(Default)]
pub(super) struct Classes {
    /// Allocated in an optimizer step, and kept.
    pub(super) optimizer: Vec<MemoryObjectId>,
    /// Allocated in an optimizer step for this step only: not state, but with the model's sizes.
    pub(super) temporaries: Vec<MemoryObjectId>,
    /// Allocated in the backward pass.
    pub(super) backward: Vec<MemoryObjectId>,
    /// Allocated in the forward pass, also in a recomputed one. Activations of several passes are equal sets of sizes,
    /// too, so parameters and gradients are not searched among them.
    pub(super) forward: Vec<MemoryObjectId>,
    /// All others; candidates for parameters first.
    pub(super) others: Vec<MemoryObjectId>,
    /// Members of `others` that code of modules allocated: it creates, moves or loads weights.
    pub(super) of_weights: FxHashSet<MemoryObjectId>,
}

impl Classes {
    /// Objects of all classes except `of_weights`, which are part of `others`.
    pub(super) fn all(&self) -> impl Iterator<Item = MemoryObjectId> + '_ {
        let classes = [&self.optimizer, &self.temporaries, &self.backward, &self.forward, &self.others];
        classes.into_iter().flatten().copied()
    }
}

/// Number of objects by requested bytes.
pub(super) type Sizes = BTreeMap<u64, usize>;

/// Least size of an object in bytes; smaller objects are counters and scales.
const SMALLEST: u64 = 16;

/// Least number of objects, and least share of the peak, for a set whose sizes are evidence.
const MIN_OBJECTS: usize = 4;
const LEAST_SHARE: f64 = 0.03;

/// Least number of distinct sizes; fewer may be equal by accident, such as one size in a loop.
pub(super) const MIN_DISTINCT_SIZES: usize = 2;

/// Factor by which a later candidate must explain more of the peak to replace an earlier one.
const MIN_IMPROVEMENT: f64 = 1.05;

/// Share of bytes, size by size, from which two sets count as equal.
const MIN_EQUAL_SHARE: f64 = 0.95;

/// Ratios of sizes between sets of one model: float32 state of bfloat16 parameters has twice their bytes.
pub(super) const SIZE_RATIOS: [(u64, u64); 3] = [(1, 1), (1, 2), (2, 1)];

/// Maximum number of copies of one set in an optimizer.
const MOST_COPIES: usize = 4;

/// Sets of equal sizes that were recognized as parameters, gradients or optimizer state.
#[derive(Default)]
pub(super) struct Recognized {
    /// Uses of the objects of these sets.
    pub(super) uses: Vec<ObjectUse>,
    /// Sizes of each set.
    pub(super) sizes: Sizes,
}

/// Find the sets of equal sizes among live objects that are optimizer state, gradients and parameters.
///
/// Of several candidate sizes, the one that explains most bytes is chosen. Empty if fewer than two sets are equal.
pub(super) fn recognize(trace: &MemoryTrace, classes: &Classes) -> Recognized {
    let lines = group_by_python_line(trace, &classes.optimizer);
    let sets = candidates(trace, classes, &lines).into_iter().filter(is_large_enough(trace, classes));
    let found = sets.filter_map(|sizes| Some(Recognized { uses: assign(trace, classes, &lines, &sizes)?, sizes }));
    let explained =
        |found: &Recognized| found.uses.iter().map(|(object, ..)| size(trace, *object)).fold(0, u64::saturating_add);
    // Lines of an optimizer come first, because they match exactly: the backward pass also has temporaries.
    let is_better = |best: &_, other: &_| explained(other) as f64 > MIN_IMPROVEMENT * explained(best) as f64;
    let better = |best, other| if is_better(&best, &other) { other } else { best };
    found.reduce(better).unwrap_or_default()
}

/// Create a test if a set of sizes is evidence: enough objects, and enough of the peak's bytes.
///
/// Weights that their code identifies are no measure: with LoRA, a hundredth of them is trained.
pub(super) fn is_large_enough(trace: &MemoryTrace, classes: &Classes) -> impl Fn(&Sizes) -> bool + use<> {
    let all: Vec<MemoryObjectId> = classes.all().filter(|object| !classes.of_weights.contains(object)).collect();
    let least = (LEAST_SHARE * bytes_of(trace, &all) as f64) as u64;
    move |set| set.values().sum::<usize>() >= MIN_OBJECTS && bytes(set) >= least
}

/// Requested size of an object in bytes.
fn size(trace: &MemoryTrace, object: MemoryObjectId) -> u64 {
    trace.objects.requested[object.index()]
}

/// Sum of the requested sizes of objects, in bytes.
fn bytes_of(trace: &MemoryTrace, objects: &[MemoryObjectId]) -> u64 {
    objects.iter().map(|object| size(trace, *object)).fold(0, u64::saturating_add)
}

/// Number of objects by requested bytes, without the smallest objects.
pub(super) fn sizes_of(trace: &MemoryTrace, objects: &[MemoryObjectId]) -> Sizes {
    let mut sizes = Sizes::new();
    for bytes in objects.iter().map(|object| size(trace, *object)).filter(|bytes| *bytes >= SMALLEST) {
        *sizes.entry(bytes).or_default() += 1;
    }
    sizes
}

/// Total bytes of a set of sizes.
fn bytes(sizes: &Sizes) -> u64 {
    sizes.iter().map(|(bytes, count)| bytes.saturating_mul(*count as u64)).fold(0, u64::saturating_add)
}

/// Group objects of an optimizer by their innermost Python line, library code included. Groups are in the order of
/// first objects.
fn group_by_python_line(trace: &MemoryTrace, objects: &[MemoryObjectId]) -> Vec<Vec<MemoryObjectId>> {
    let mut groups: Vec<Vec<MemoryObjectId>> = Vec::new();
    let mut known: FxHashMap<Option<Frame>, usize> = FxHashMap::default();
    let mut ordered = objects.to_vec();
    ordered.sort_unstable();
    for object in ordered {
        let is_python = |frame: &Frame| frame.file_text(&trace.strings).ends_with(".py");
        let line = trace.stacks.frames_of(trace.objects.stack[object.index()]).find(is_python);
        let group = *known.entry(line).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(object);
    }
    groups
}

/// Candidate sets of a model: objects of one optimizer line, or half of them (two moments), objects of the backward
/// pass, and those of them that are as large as older ones.
fn candidates(trace: &MemoryTrace, classes: &Classes, lines: &[Vec<MemoryObjectId>]) -> Vec<Sizes> {
    let mut sets = Vec::new();
    // Temporaries of a step have the sizes of the gradients that it uses.
    let temporaries = group_by_python_line(trace, &classes.temporaries);
    for group in lines.iter().chain(&temporaries) {
        let whole = sizes_of(trace, group);
        if whole.values().all(|count| count % 2 == 0) {
            sets.push(whole.iter().map(|(bytes, count)| (*bytes, count / 2)).collect());
        }
        sets.push(whole);
    }
    let (backward, others) = (sizes_of(trace, &classes.backward), sizes_of(trace, &classes.others));
    let common = |(bytes, count): (&u64, &usize)| Some((*bytes, (*count).min(*others.get(bytes)?)));
    sets.push(backward.iter().filter_map(common).collect());
    sets.push(backward);
    sets
}

/// Find the objects that match the sizes `set`, with their purposes: optimizer state, gradients and parameters. `None`
/// if fewer than two sets match, or if a single common size is the only evidence.
fn assign(
    trace: &MemoryTrace,
    classes: &Classes,
    lines: &[Vec<MemoryObjectId>],
    set: &Sizes,
) -> Option<Vec<ObjectUse>> {
    let mut uses = Vec::new();
    let mut states: Vec<Vec<MemoryObjectId>> = Vec::new();
    let mut left: Vec<MemoryObjectId> = Vec::new();
    for mut group in lines.iter().cloned() {
        while states.len() < MOST_COPIES
            && let Some(taken) = take_set(trace, &mut group, set)
        {
            states.push(taken);
        }
        left.extend(group);
    }
    while states.len() < MOST_COPIES
        && let Some(taken) = take_set(trace, &mut left, set)
    {
        states.push(taken);
    }
    let names: &[Use] = match states.len() {
        1 | 2 => &[Use::FirstMoments, Use::SecondMoments],
        _ => &[Use::OptimizerState; MOST_COPIES],
    };
    let (mut sets, has_states) = (states.len(), !states.is_empty());
    for (state, purpose) in states.into_iter().zip(names) {
        uses.extend(state.into_iter().map(|object| (object, *purpose, Evidence::EqualSizes)));
    }
    let gradients = find_set_of_any_type(trace, &classes.backward, set);
    let parameters = parameters(trace, classes, set);
    let is_of_weights = |taken: &Vec<MemoryObjectId>| taken.iter().all(|object| classes.of_weights.contains(object));
    // Lines of an optimizer, or code of modules, identify a model. Otherwise only sizes do, and any loop can repeat a
    // single size.
    let evidence = match has_states || parameters.as_ref().is_some_and(is_of_weights) {
        true => Evidence::EqualSizes,
        false if set.len() < MIN_DISTINCT_SIZES => return None,
        false => Evidence::EqualSizesOnly,
    };
    let found = [(gradients, Use::Gradients, Evidence::EqualSizes), (parameters, Use::Parameters, evidence)];
    for (taken, purpose, evidence) in found {
        sets += usize::from(taken.is_some());
        uses.extend(taken.into_iter().flatten().map(|object| (object, purpose, evidence)));
    }
    (sets >= 2).then_some(uses)
}

/// Find parameters with the sizes `set` among live objects. Candidates in order: objects of module code, objects older
/// than the records, objects of one line, all others. Several models may have equal sizes, so the objects of a line
/// belong together.
pub(super) fn parameters(trace: &MemoryTrace, classes: &Classes, set: &Sizes) -> Option<Vec<MemoryObjectId>> {
    let others = || classes.others.iter().copied();
    let of_weights: Vec<MemoryObjectId> = others().filter(|object| classes.of_weights.contains(object)).collect();
    let older: Vec<MemoryObjectId> =
        others().filter(|object| trace.objects.allocated_by[object.index()].is_none()).collect();
    let (weights_by_line, by_line) =
        (group_by_program_line(trace, &of_weights), group_by_program_line(trace, &classes.others));
    let candidates = weights_by_line.iter().chain([&of_weights, &older]).chain(&by_line).chain([&classes.others]);
    candidates.into_iter().find_map(|class| find_set_of_any_type(trace, class, set))
}

/// Group objects by the line of the program that allocated them; objects without a known line are left out.
pub(super) fn group_by_program_line(trace: &MemoryTrace, objects: &[MemoryObjectId]) -> Vec<Vec<MemoryObjectId>> {
    let mut frames: FxHashMap<MemoryStackId, Option<Frame>> = FxHashMap::default();
    let mut groups: Vec<(Frame, Vec<MemoryObjectId>)> = Vec::new();
    let mut known: FxHashMap<Frame, usize> = FxHashMap::default();
    for object in objects {
        let stack = trace.objects.stack[object.index()];
        let frame =
            frames.entry(stack).or_insert_with(|| frame_of(trace, stack).filter(|frame| frame.line().is_some()));
        let Some(frame) = *frame else { continue };
        let group = *known.entry(frame).or_insert_with(|| {
            groups.push((frame, Vec::new()));
            groups.len() - 1
        });
        groups[group].1.push(*object);
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Objects of a class that match a set of sizes, also scaled for other element types; `None` if too many are missing.
pub(super) fn find_set_of_any_type(
    trace: &MemoryTrace,
    class: &[MemoryObjectId],
    set: &Sizes,
) -> Option<Vec<MemoryObjectId>> {
    SIZE_RATIOS.iter().find_map(|(times, part)| {
        let scaled: Sizes = set.iter().map(|(bytes, count)| (bytes.saturating_mul(*times) / part, *count)).collect();
        take_set(trace, &mut class.to_vec(), &scaled)
    })
}

/// Remove the first objects of each size of a set from a class and return them; none, without a change, if too many are
/// missing.
fn take_set(trace: &MemoryTrace, from: &mut Vec<MemoryObjectId>, set: &Sizes) -> Option<Vec<MemoryObjectId>> {
    let mut missing = set.clone();
    let is_missing = |object: &MemoryObjectId| match missing.get_mut(&size(trace, *object)) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    };
    let (taken, left): (Vec<MemoryObjectId>, Vec<MemoryObjectId>) = from.iter().copied().partition(is_missing);
    let is_enough = !taken.is_empty()
        && bytes_of(trace, &taken) as f64 >= MIN_EQUAL_SHARE * bytes(set) as f64
        && covers_distinct_sizes(&sizes_of(trace, &taken), set);
    if !is_enough {
        return None;
    }
    *from = left;
    Some(taken)
}

/// True if the taken objects cover enough distinct sizes of a set: buffers of one size may match its largest part.
fn covers_distinct_sizes(taken: &Sizes, set: &Sizes) -> bool {
    taken.len() >= if set.len() < MIN_DISTINCT_SIZES { set.len() } else { (set.len() / 2).max(MIN_DISTINCT_SIZES) }
}
