//! Ground truth for replay: the program is changed as the suggestions say and run again. Its peak equals the predicted
//! one to the byte, and all accesses are to live memory.

use crate::random::program::{Access, Extent, Program, Step, programs};
use proptest::prelude::*;
use stackline_memory::replay::Replay;
use stackline_memory::suggest::{Action, Suggestion, suggestions};
use stackline_memory::{ObjectUsage, Rules, patterns};
use stackline_model::{AccessMode, MemoryCallKind, MemoryDeviceId};

/// Call of the changed program, with its position in the original one, if any.
#[derive(Clone, Debug)]
struct Op {
    original: Option<usize>,
    step: Step,
}

struct Changed {
    ops: Vec<Op>,
    sizes: Vec<u64>,
    /// Objects whose slices are allocated one at a time: bytes by first and last position.
    slices: Vec<(usize, usize, u64)>,
}

impl Changed {
    fn new(program: &Program) -> Self {
        let ops = program.steps.iter().enumerate().map(|(at, (step, _))| Op { original: Some(at), step: step.clone() });
        Self { ops: ops.collect(), sizes: program.sizes.clone(), slices: Vec::new() }
    }

    fn at(&self, original: usize) -> usize {
        self.ops.iter().position(|op| op.original == Some(original)).unwrap()
    }

    fn insert_after(&mut self, original: usize, step: Step) {
        let at = self.at(original) + 1;
        self.ops.insert(at, Op { original: None, step });
    }

    fn insert_before(&mut self, original: usize, step: Step) {
        let at = self.at(original);
        self.ops.insert(at, Op { original: None, step });
    }

    /// Remove a call of the original program; inserted ones stay.
    fn remove_step(&mut self, step: &Step) {
        self.ops.retain(|op| op.original.is_none() || op.step != *step);
    }

    /// Remove sets and copies that write an object at these positions, and return them.
    fn take_fills(&mut self, object: usize, places: impl Fn(usize) -> bool) -> Vec<Step> {
        let mut taken = Vec::new();
        for (at, op) in self.ops.iter_mut().enumerate() {
            let Step::Touch { kind, touches, .. } = &mut op.step else { continue };
            if *kind != MemoryCallKind::Kernel && places(at) && touches.iter().any(|touch| touch.object == object) {
                let mine: Vec<_> = touches.iter().copied().filter(|touch| touch.object == object).collect();
                touches.retain(|touch| touch.object != object);
                taken.push(Step::Touch { kind: *kind, touches: mine, flags: 0 });
            }
        }
        taken
    }

    fn apply(&mut self, suggestion: &Suggestion) {
        let object = suggestion.object.index();
        match &suggestion.action {
            Action::Remove => {
                self.take_fills(object, |_| true);
                self.ops.retain(|op| op.step != Step::Allocate(object) && op.step != Step::Free(object));
            }
            Action::MoveFree { after } => {
                let at = self.at(after.index());
                self.take_fills(object, |place| place > at);
                self.remove_step(&Step::Free(object));
                self.insert_after(after.index(), Step::Free(object));
            }
            Action::MoveAllocation { before } => {
                let at = self.at(before.index());
                let fills = self.take_fills(object, |place| place < at);
                self.remove_step(&Step::Allocate(object));
                self.insert_before(before.index(), Step::Allocate(object));
                fills.into_iter().for_each(|fill| self.insert_before(before.index(), fill));
            }
            Action::FreeWhileIdle { after, before } | Action::SetToNone { after, before } => {
                let (from, to) = (self.at(after.index()), self.at(before.index()));
                let fills = self.take_fills(object, |place| from < place && place < to);
                assert_eq!(fills.len(), suggestion.fills as usize, "the calls that move with it: {suggestion:?}");
                self.insert_after(after.index(), Step::Free(object));
                self.insert_before(before.index(), Step::Allocate(object));
                fills.into_iter().for_each(|fill| self.insert_before(before.index(), fill));
            }
            Action::Offload { after, before } => {
                self.insert_after(after.index(), Step::Free(object));
                self.insert_before(before.index(), Step::Allocate(object));
            }
            Action::Shrink { to } => self.sizes[object] = self.sizes[object].min(*to),
            Action::Split { slices } => {
                self.ops.retain(|op| op.step != Step::Allocate(object) && op.step != Step::Free(object));
                let slice =
                    |slice: &stackline_memory::curve::Span| (slice.from as usize, slice.to as usize - 1, slice.bytes);
                self.slices.extend(slices.iter().map(slice));
            }
            Action::Recompute { after, before, needs, scratch, .. } => {
                let needs = needs.iter().map(|need| (need.index(), AccessMode::Read));
                let touch = |(object, mode)| Access { object, mode, extent: Extent::Whole };
                let touches = needs.chain([(object, AccessMode::Write)]).map(touch).collect();
                self.insert_after(after.index(), Step::Free(object));
                self.insert_before(before.index(), Step::Allocate(object));
                self.insert_before(before.index(), Step::Touch { kind: MemoryCallKind::Kernel, touches, flags: 0 });
                self.sizes.push(*scratch);
                self.insert_before(before.index(), Step::Allocate(self.sizes.len() - 1));
                self.insert_after(before.index(), Step::Free(self.sizes.len() - 1));
            }
            Action::SmallerDtype { to } => self.sizes[object] = self.sizes[object].min(*to),
            Action::Reuse { .. } | Action::InPlace { .. } | Action::ExpandableSegments => {}
        }
    }

    /// Let `object` reuse the memory of `owner`: the earlier allocation and the later free remain.
    fn reuse(&mut self, object: usize, owner: usize, needed: usize, last_use_of: usize) -> usize {
        let at = self.at(needed);
        let fills = self.take_fills(object, |place| place < at);
        let at = self.at(last_use_of);
        self.take_fills(owner, |place| place > at);
        let positions = |ops: &[Op], step: &Step| ops.iter().position(|op| op.step == *step);
        let first =
            positions(&self.ops, &Step::Allocate(object)).min(positions(&self.ops, &Step::Allocate(owner))).unwrap();
        let frees = (positions(&self.ops, &Step::Free(object)), positions(&self.ops, &Step::Free(owner)));
        let last = frees.0.zip(frees.1).map(|(a, b)| a.max(b));
        for (at, op) in self.ops.iter_mut().enumerate() {
            match &mut op.step {
                Step::Allocate(o) | Step::Free(o) if *o == object || *o == owner => {
                    op.step = if at == first {
                        Step::Allocate(owner)
                    } else if Some(at) == last {
                        Step::Free(owner)
                    } else {
                        Step::Record
                    };
                }
                Step::Touch { touches, .. } => {
                    touches.iter_mut().filter(|t| t.object == object).for_each(|t| t.object = owner);
                }
                _ => {}
            }
        }
        let moved = fills.len();
        for fill in fills {
            let Step::Touch { kind, mut touches, flags } = fill else { continue };
            touches.iter_mut().for_each(|touch| touch.object = owner);
            self.insert_before(needed, Step::Touch { kind, touches, flags });
        }
        self.sizes[owner] = self.sizes[owner].max(self.sizes[object]);
        moved
    }

    /// Run the program: its peak, and true if all accesses were to live memory.
    fn run(&self) -> (u64, bool) {
        let (mut live, mut most, mut sound) = (vec![false; self.sizes.len()], 0, true);
        let split = |original: Option<usize>| -> u64 {
            let here = |at: usize| self.slices.iter().filter(move |slice| slice.0 <= at && at <= slice.1);
            original.map_or(0, |at| here(at).map(|slice| slice.2).sum())
        };
        for op in &self.ops {
            match &op.step {
                Step::Allocate(object) => {
                    sound &= !live[*object];
                    live[*object] = true;
                }
                Step::Free(object) => {
                    sound &= live[*object];
                    live[*object] = false;
                }
                Step::Touch { touches, .. } if self.slices.is_empty() => {
                    sound &= touches.iter().all(|touch| live[touch.object]);
                }
                _ => {}
            }
            let now: u64 = (0..live.len()).filter(|object| live[*object]).map(|object| self.sizes[object]).sum();
            most = most.max(now + split(op.original));
        }
        (most, sound)
    }
}

/// Program after these suggestions: first those that move calls, then reuse, because it renames objects.
fn changed(program: &Program, usage: &ObjectUsage<'_>, applied: &[&Suggestion]) -> Changed {
    let mut changed = Changed::new(program);
    applied.iter().for_each(|suggestion| changed.apply(suggestion));
    let mut renamed: Vec<usize> = (0..program.sizes.len()).collect();
    for suggestion in applied {
        if let Action::Reuse { owner } | Action::InPlace { owner } = &suggestion.action {
            let (object, owner) = (suggestion.object.index(), owner.index());
            let (needed, last) = (usage.uses[object].needed_from.index(), usage.uses[owner].last_use.index());
            let (now, target) = (renamed[object], renamed[owner]);
            let moved = changed.reuse(now, target, needed, last);
            if applied.len() == 1 {
                assert_eq!(moved, suggestion.fills as usize, "the calls that move with it: {suggestion:?}");
            }
            renamed.iter_mut().filter(|name| **name == now).for_each(|name| *name = target);
        }
    }
    changed
}

/// True if all bytes that a program reads of an object, and that kernels write, exist after shrinking or splitting it.
fn has_its_bytes(program: &Program, suggestion: &Suggestion) -> bool {
    let object = suggestion.object.index();
    let needs = |at: usize| {
        let is_kernel = program.kernel(at).is_some();
        let mine = program.touches(at).iter().filter(move |touch| touch.object == object);
        // A copy of the whole object to the host is shortened with it.
        let to_host = matches!(program.steps[at].0, Step::Touch { kind: MemoryCallKind::CopyToHost, .. });
        mine.filter(move |touch| is_kernel || touch.mode.reads() && !(to_host && touch.extent == Extent::Whole))
    };
    let bytes = |needed: &[Option<(u64, u64)>]| -> Option<u64> {
        let spans: Vec<(u64, u64)> = needed.iter().copied().collect::<Option<_>>()?;
        let is_needed = |byte: &u64| spans.iter().any(|span| span.0 <= *byte && *byte < span.1);
        Some((0..program.sizes[object]).filter(is_needed).count() as u64)
    };
    let at = |at: usize| needs(at).map(|touch| program.covered(touch)).collect::<Vec<_>>();
    let every: Vec<usize> = (0..program.steps.len()).collect();
    match &suggestion.action {
        Action::Shrink { to } => {
            let all: Vec<_> = every.iter().flat_map(|position| at(*position)).collect();
            bytes(&all).is_some_and(|needed| needed <= *to)
        }
        Action::Split { slices } => every.iter().all(|position| {
            let there: u64 = slices.iter().filter(|s| s.covers(*position as u32)).map(|slice| slice.bytes).sum();
            bytes(&at(*position)).is_some_and(|needed| needed <= there)
        }),
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn predictions_equal_rerun(program in programs(50, 2), picks in proptest::collection::vec(any::<u16>(), 0..12)) {
        let trace = program.trace();
        let usage = ObjectUsage::new(&trace, Rules::default());
        let all = suggestions(&usage, &patterns::find(&usage));
        for (number, alone) in all.iter().enumerate() {
            let mut replay = Replay::new(&trace, MemoryDeviceId(0), &all);
            let before = replay.peak();
            prop_assert!(replay.apply(number));
            let (peak, sound) = changed(&program, &usage, &[alone]).run();
            prop_assert_eq!(replay.peak().bytes, peak, "{:?}", alone);
            prop_assert!(sound, "{:?}", alone);
            prop_assert!(has_its_bytes(&program, alone), "{:?}", alone);
            replay.undo(number);
            prop_assert_eq!(replay.peak(), before);
        }
        let mut replay = Replay::new(&trace, MemoryDeviceId(0), &all);
        let mut applied = Vec::new();
        for pick in picks.iter().filter(|_| !all.is_empty()) {
            let number = usize::from(*pick) % all.len();
            if replay.apply(number) {
                applied.push(&all[number]);
            }
        }
        let (peak, sound) = changed(&program, &usage, &applied).run();
        prop_assert_eq!(replay.peak().bytes, peak, "{:?}", &applied);
        prop_assert_eq!(replay.curve().peak(), replay.peak());
        prop_assert!(sound, "{:?}", &applied);
    }

    #[test]
    fn suggestions_never_raise_the_peak(program in programs(50, 2)) {
        let trace = program.trace();
        let usage = ObjectUsage::new(&trace, Rules::default());
        let all = suggestions(&usage, &patterns::find(&usage));
        let among: Vec<usize> = (0..all.len()).collect();
        let mut replay = Replay::new(&trace, MemoryDeviceId(0), &all);
        let combination = replay.lower(&among, 1);
        prop_assert!(combination.after.bytes <= combination.before.bytes);
        let chosen: Vec<&Suggestion> = combination.chosen.iter().map(|at| &all[*at]).collect();
        let (peak, sound) = changed(&program, &usage, &chosen).run();
        prop_assert_eq!(combination.after.bytes, peak, "{:?}", &chosen);
        prop_assert!(sound);
    }

    /// Grouped suggestions: their saving at any position equals the reduction after they are applied, and they are
    /// undone together.
    #[test]
    fn groups_save_as_much_as_their_members(program in programs(50, 2), groups in 1..4usize) {
        let trace = program.trace();
        let usage = ObjectUsage::new(&trace, Rules::default());
        let all = suggestions(&usage, &patterns::find(&usage));
        let grouped: Vec<Suggestion> = (0..groups.min(all.len()))
            .map(|group| {
                let mut first = all[group].clone();
                first.more = all.iter().skip(group + groups).step_by(groups).cloned().collect();
                first
            })
            .collect();
        prop_assert_eq!(grouped.iter().map(|one| one.members().count()).sum::<usize>(), all.len());
        let mut replay = Replay::new(&trace, MemoryDeviceId(0), &grouped);
        for number in 0..grouped.len() {
            let positions = 0..program.steps.len() as u32;
            let before: Vec<u64> = positions.clone().map(|at| replay.at(at)).collect();
            let savings: Vec<i64> = positions.clone().map(|at| replay.saving_at(number, at)).collect();
            prop_assert!(replay.apply(number));
            for at in positions.clone() {
                prop_assert_eq!(before[at as usize] as i64 - replay.at(at) as i64, savings[at as usize]);
            }
            prop_assert_eq!(replay.curve().peak(), replay.peak());
            replay.undo(number);
            prop_assert_eq!(positions.map(|at| replay.at(at)).collect::<Vec<_>>(), before);
        }
        let among: Vec<usize> = (0..grouped.len()).collect();
        let combination = replay.lower(&among, 1);
        prop_assert!(combination.after.bytes <= combination.before.bytes);
        prop_assert_eq!(replay.curve().peak(), combination.after);
    }
}
