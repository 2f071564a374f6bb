//! Lifetimes of what an optimizer's step allocates: state persists over steps, temporaries die within one.

use crate::suggest::callers::Callers;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::vocabulary::is_in_folder;
use stackline_model::{Frame, MemoryCallId, MemoryObjectId, MemoryStackId, MemoryTrace};

/// How long an object lives, in passes of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Freed before the model runs again.
    WithinStep,
    /// Freed after the model ran again, and before it ran twice.
    OneStep,
    /// In use for longer.
    Persistent,
    /// The records end before the model runs again.
    Unfinished,
}

/// A line that allocates, and the size that it allocates.
type Slot = (Option<Frame>, u64);

/// When the model ran, and what each line made for one step alone.
pub(super) struct Lifetimes<'a> {
    trace: &'a MemoryTrace,
    /// The innermost Python line of each call path.
    lines: FxHashMap<MemoryStackId, Option<Frame>>,
    /// Where a pass of the model begins, as far as call paths say: calls that allocate, ascending.
    passes: Vec<MemoryCallId>,
    /// Where a forward pass begins, and where a backward pass does.
    forward_begins: Vec<MemoryCallId>,
    backward_begins: Vec<MemoryCallId>,
    /// What is freed after it is freed because the program or the function ends.
    last_allocation: MemoryCallId,
    /// What lines that made something for one step alone made so.
    short_lived: FxHashSet<Slot>,
    /// Where each line last made something of a size.
    last: FxHashMap<Slot, MemoryCallId>,
}

/// Where forward passes begin, backward passes, and what follows an optimizer's step.
fn begins(callers: &Callers<'_>, made: &[(MemoryCallId, MemoryObjectId)]) -> [Vec<MemoryCallId>; 3] {
    let (mut begins, mut in_backward, mut in_optimizer) = ([Vec::new(), Vec::new(), Vec::new()], None, false);
    for (call, object) in made {
        let phase = callers.phase_of(*object);
        if std::mem::replace(&mut in_optimizer, phase == "optimizer") && phase != "optimizer" {
            begins[2].push(*call);
        }
        let now = match phase {
            "forward" => false,
            "backward" => true,
            _ => continue,
        };
        if in_backward.replace(now) != Some(now) {
            begins[usize::from(now)].push(*call);
        }
    }
    begins
}

impl<'a> Lifetimes<'a> {
    pub(super) fn new(trace: &'a MemoryTrace, callers: &Callers<'_>) -> Self {
        let allocated = |id: MemoryObjectId| Some((trace.objects.allocated_by[id.index()].some()?, id));
        let mut made: Vec<(MemoryCallId, MemoryObjectId)> = trace.objects.ids().filter_map(allocated).collect();
        made.sort_unstable();
        let [forward_begins, backward_begins, others] = begins(callers, &made);
        let passes = [&forward_begins, &backward_begins, &others].into_iter().find(|begins| !begins.is_empty());
        let mut lines = FxHashMap::default();
        for stack in &trace.objects.stack {
            lines.entry(*stack).or_insert_with(|| python_line(trace, *stack));
        }
        let mut lifetimes = Self {
            trace,
            lines,
            passes: passes.cloned().unwrap_or_default(),
            forward_begins,
            backward_begins,
            last_allocation: made.last().map_or(MemoryCallId::NONE, |(call, _)| *call),
            short_lived: FxHashSet::default(),
            last: FxHashMap::default(),
        };
        for (call, object) in made {
            let slot = lifetimes.slot(object);
            if lifetimes.life(object) == Life::WithinStep {
                lifetimes.short_lived.insert(slot);
            }
            lifetimes.last.insert(slot, call);
        }
        lifetimes
    }

    /// Whether an object was allocated after a backward pass and before the next forward pass, where optimizers run.
    pub(super) fn is_made_in_step(&self, object: MemoryObjectId) -> bool {
        let Some(made) = self.trace.objects.allocated_by[object.index()].some() else { return false };
        let last = |begins: &[MemoryCallId]| begins[..begins.partition_point(|begin| *begin <= made)].last().copied();
        last(&self.backward_begins).is_some_and(|backward| last(&self.forward_begins) < Some(backward))
    }

    /// Whether an object, made in an optimizer's step, is gone before the next one needs it: freed within the step, or made anew by the
    /// same line in the next one. Where the records end within the step, its line's other objects tell, or PyTorch's own functions.
    pub(super) fn is_temporary(&self, object: MemoryObjectId) -> bool {
        match self.life(object) {
            Life::WithinStep => true,
            Life::OneStep => self.is_made_again(object),
            Life::Persistent => false,
            Life::Unfinished => {
                self.short_lived.contains(&self.slot(object)) || self.is_in_function_without_state(object)
            }
        }
    }

    /// Whether an object is in use from before the first pass of the model to the end of the records.
    pub(super) fn outlasts_passes(&self, object: MemoryObjectId) -> bool {
        let made = self.trace.objects.allocated_by[object.index()];
        let is_before = self.passes.first().is_some_and(|first| made.is_none() || made < *first);
        is_before && self.is_kept(object)
    }

    /// Whether an object is in use at the end of the records.
    pub(super) fn is_kept(&self, object: MemoryObjectId) -> bool {
        self.trace.objects.freed_by[object.index()].some().is_none_or(|freed| freed >= self.last_allocation)
    }

    fn life(&self, object: MemoryObjectId) -> Life {
        let objects = &self.trace.objects;
        let (made, freed) = (objects.allocated_by[object.index()], objects.freed_by[object.index()].some());
        let freed = freed.filter(|freed| *freed < self.last_allocation);
        let passes = freed.map_or(self.passes.len(), |freed| self.passes_before(freed));
        match (passes.saturating_sub(self.passes_before(made)), freed) {
            _ if made.is_none() || self.passes.is_empty() => Life::Persistent,
            (0, Some(_)) => Life::WithinStep,
            (0, None) => Life::Unfinished,
            (1, Some(_)) => Life::OneStep,
            _ => Life::Persistent,
        }
    }

    /// Passes of the model that have begun at a call.
    fn passes_before(&self, call: MemoryCallId) -> usize {
        self.passes.partition_point(|begin| *begin <= call)
    }

    /// Whether the line that made an object made one of its size again, in a later step.
    fn is_made_again(&self, object: MemoryObjectId) -> bool {
        let made = self.trace.objects.allocated_by[object.index()];
        let last = self.last.get(&self.slot(object));
        last.is_some_and(|last| self.passes_before(*last) > self.passes_before(made))
    }

    /// Whether code of `torch.optim` itself allocated an object: no line of the program within its wrapper of `step`.
    pub(super) fn is_by_torch_optim(&self, object: MemoryObjectId) -> bool {
        self.line(object).is_some_and(|frame| is_of_torch(self.trace, &frame))
    }

    fn slot(&self, object: MemoryObjectId) -> Slot {
        (self.line(object), self.trace.objects.requested[object.index()])
    }

    fn line(&self, object: MemoryObjectId) -> Option<Frame> {
        self.lines.get(&self.trace.objects.stack[object.index()]).copied().flatten()
    }

    /// `_multi_tensor_adam`, `_single_tensor_adamw` and the like update what `_init_group` made; those of SGD make its momentum.
    fn is_in_function_without_state(&self, object: MemoryObjectId) -> bool {
        self.line(object).is_some_and(|frame| {
            let function = frame.function_text(&self.trace.strings);
            is_of_torch(self.trace, &frame)
                && (function.starts_with("_multi_tensor_") || function.starts_with("_single_tensor_"))
                && !function.ends_with("sgd")
        })
    }
}

/// The innermost Python frame, library code included.
fn python_line(trace: &MemoryTrace, stack: MemoryStackId) -> Option<Frame> {
    trace.stacks.frames_of(stack).find(|frame| frame.file_text(&trace.strings).ends_with(".py"))
}

/// Whether a frame is code of `torch.optim`.
fn is_of_torch(trace: &MemoryTrace, frame: &Frame) -> bool {
    is_in_folder(frame.file_text(&trace.strings), "torch/optim/")
}
