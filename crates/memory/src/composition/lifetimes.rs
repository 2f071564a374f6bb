//! Lifetimes of objects that an optimizer step allocates: state persists over steps, temporaries die within one.

use crate::suggest::callers::Callers;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::vocabulary::is_in_folder;
use stackline_model::{Frame, MemoryCallId, MemoryObjectId, MemoryStackId, MemoryTrace};

/// Lifetime of an object, in passes of the model.
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

/// Allocation site and size.
type SiteAndSize = (Option<Frame>, u64);

/// Lookup of object lifetimes: begins of the model's passes, and the short-lived objects of each line.
pub(super) struct Lifetimes<'a> {
    trace: &'a MemoryTrace,
    /// The innermost Python line of each call path.
    lines: FxHashMap<MemoryStackId, Option<Frame>>,
    /// Begins of forward and backward passes, and of the phase after an optimizer step, from call paths: allocating
    /// calls, ascending.
    passes: Vec<MemoryCallId>,
    /// Begins of forward passes and of backward passes.
    forward_begins: Vec<MemoryCallId>,
    backward_begins: Vec<MemoryCallId>,
    /// Last allocating call. Frees after it belong to the end of the program or of a function.
    last_allocation: MemoryCallId,
    /// Lines and sizes whose objects live for one step only.
    short_lived: FxHashSet<SiteAndSize>,
    /// Last call in which each line allocated each size.
    last: FxHashMap<SiteAndSize, MemoryCallId>,
}

/// First allocating calls of forward passes, of backward passes, and of the phases after optimizer steps.
fn phase_begins(callers: &Callers<'_>, made: &[(MemoryCallId, MemoryObjectId)]) -> [Vec<MemoryCallId>; 3] {
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
    /// Find the begins of passes and the lifetimes of all objects of a trace.
    pub(super) fn new(trace: &'a MemoryTrace, callers: &Callers<'_>) -> Self {
        let allocated = |id: MemoryObjectId| Some((trace.objects.allocated_by[id.index()].some()?, id));
        let mut made: Vec<(MemoryCallId, MemoryObjectId)> = trace.objects.ids().filter_map(allocated).collect();
        made.sort_unstable();
        let [forward_begins, backward_begins, others] = phase_begins(callers, &made);
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

    /// True if an object was allocated after a backward pass and before the next forward pass, where optimizers run.
    pub(super) fn is_allocated_in_optimizer_step(&self, object: MemoryObjectId) -> bool {
        let Some(made) = self.trace.objects.allocated_by[object.index()].some() else { return false };
        let last = |begins: &[MemoryCallId]| begins[..begins.partition_point(|begin| *begin <= made)].last().copied();
        last(&self.backward_begins).is_some_and(|backward| last(&self.forward_begins) < Some(backward))
    }

    /// True if an object of an optimizer step is temporary: freed within the step, or allocated again by the same line
    /// in the next one. If the records end within the step, other objects of its line decide, or PyTorch's own function
    /// names.
    pub(super) fn is_temporary(&self, object: MemoryObjectId) -> bool {
        match self.life(object) {
            Life::WithinStep => true,
            Life::OneStep => self.is_allocated_again(object),
            Life::Persistent => false,
            Life::Unfinished => {
                self.short_lived.contains(&self.slot(object)) || self.is_in_function_without_state(object)
            }
        }
    }

    /// True if an object is live from before the first pass of the model until the end of the records.
    pub(super) fn is_live_over_all_passes(&self, object: MemoryObjectId) -> bool {
        let made = self.trace.objects.allocated_by[object.index()];
        let is_before = self.passes.first().is_some_and(|first| made.is_none() || made < *first);
        is_before && self.is_kept(object)
    }

    /// True if an object is live at the end of the records.
    pub(super) fn is_kept(&self, object: MemoryObjectId) -> bool {
        self.trace.objects.freed_by[object.index()].some().is_none_or(|freed| freed >= self.last_allocation)
    }

    /// Lifetime of an object, by the number of passes that begin between its allocation and its free.
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

    /// Number of passes of the model that have begun at a call.
    fn passes_before(&self, call: MemoryCallId) -> usize {
        self.passes.partition_point(|begin| *begin <= call)
    }

    /// True if the line of an object allocated its size again in a later step.
    fn is_allocated_again(&self, object: MemoryObjectId) -> bool {
        let made = self.trace.objects.allocated_by[object.index()];
        let last = self.last.get(&self.slot(object));
        last.is_some_and(|last| self.passes_before(*last) > self.passes_before(made))
    }

    /// True if code of `torch.optim` itself allocated an object, without a line of the program inside its wrapper of
    /// `step`.
    pub(super) fn is_by_torch_optim(&self, object: MemoryObjectId) -> bool {
        self.line(object).is_some_and(|frame| is_of_torch_optim(self.trace, &frame))
    }

    /// Allocating Python line and requested size of an object, as a key.
    fn slot(&self, object: MemoryObjectId) -> SiteAndSize {
        (self.line(object), self.trace.objects.requested[object.index()])
    }

    /// Innermost Python frame of an object's allocation; `None` without one.
    fn line(&self, object: MemoryObjectId) -> Option<Frame> {
        self.lines.get(&self.trace.objects.stack[object.index()]).copied().flatten()
    }

    /// True if a function of `torch.optim` allocated an object, but only updates state that `_init_group` allocates.
    /// Such functions are `_multi_tensor_adam` and `_single_tensor_adamw`, but not those of SGD, which allocate its
    /// momentum.
    fn is_in_function_without_state(&self, object: MemoryObjectId) -> bool {
        self.line(object).is_some_and(|frame| {
            let function = frame.function_text(&self.trace.strings);
            is_of_torch_optim(self.trace, &frame)
                && (function.starts_with("_multi_tensor_") || function.starts_with("_single_tensor_"))
                && !function.ends_with("sgd")
        })
    }
}

/// Innermost Python frame of a call path, library code included.
fn python_line(trace: &MemoryTrace, stack: MemoryStackId) -> Option<Frame> {
    trace.stacks.frames_of(stack).find(|frame| frame.file_text(&trace.strings).ends_with(".py"))
}

/// True for a frame of code in `torch.optim`.
fn is_of_torch_optim(trace: &MemoryTrace, frame: &Frame) -> bool {
    is_in_folder(frame.file_text(&trace.strings), "torch/optim/")
}
