//! Classification of memory objects (parameter, gradient, activation …) by their creation, uses and frees.

use stackline_model::{MemoryCallId, MemoryObjectKind, MemoryTrace};

/// Observed uses of an object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ObservedUses {
    pub(super) made_in_backward: bool,
    pub(super) made_in_optimizer: bool,
    pub(super) made_in_forward: bool,
    pub(super) updated_by_optimizer: bool,
    pub(super) read_by_optimizer: bool,
    pub(super) used_in_backward: bool,
    pub(super) died_in_its_operator: bool,
    pub(super) freed_in_optimizer: bool,
    pub(super) is_foreign: bool,
    pub(super) made_in_module: bool,
    /// True if an operator of a module read the object again at a location where it, or another call there, had read it
    /// before.
    pub(super) read_again: bool,
}

impl ObservedUses {
    /// Classify the object by its uses. `is_of_a_step`: created in one training step and freed in it or by the end of
    /// the next one, as a loss in a variable is (or within the recording, if there are no steps). `is_kept`: created in
    /// a step other than the first, and freed later or never; the first step may begin with the program. `is_freed`:
    /// the object is freed. Objects that no module created, that modules read repeatedly and that are never freed are
    /// their state. This also holds without an optimizer: parameters and buffers of inference.
    fn kind(self, is_of_a_step: bool, is_kept: bool, is_freed: bool) -> MemoryObjectKind {
        match self {
            Self { is_foreign: true, updated_by_optimizer: false, .. } => MemoryObjectKind::Foreign,
            Self { died_in_its_operator: true, .. } => MemoryObjectKind::Temporary,
            Self { made_in_optimizer: true, freed_in_optimizer: true, .. } => MemoryObjectKind::Temporary,
            Self { made_in_optimizer: true, .. } => MemoryObjectKind::OptimizerState,
            Self { made_in_backward: true, read_by_optimizer: true, .. } => MemoryObjectKind::Gradient,
            Self { updated_by_optimizer: true, .. } => MemoryObjectKind::Parameter,
            Self { made_in_forward: true, used_in_backward: true, .. } if is_of_a_step || is_kept => {
                MemoryObjectKind::Activation
            }
            Self { read_again: true, made_in_module: false, .. } if !is_freed => MemoryObjectKind::Parameter,
            _ if is_of_a_step => MemoryObjectKind::Temporary,
            _ => MemoryObjectKind::Unknown,
        }
    }
}

/// Set the kind (parameter, gradient, activation …) of each memory object by its uses.
pub(super) fn classify(trace: &mut MemoryTrace, seen: &[ObservedUses]) {
    for (row, seen) in seen.iter().enumerate() {
        let (made, freed) = (trace.objects.allocated_by[row], trace.objects.freed_by[row]);
        let is_of_a_step = match (made.some(), freed.some()) {
            (Some(made), Some(freed)) => trace.phases.is_empty() || step_of(trace, freed) <= step_of(trace, made) + 1,
            _ => false,
        };
        let step = made.some().map_or(0, |made| step_of(trace, made));
        let is_kept = !is_of_a_step && (1..trace.phases.len()).contains(&step);
        trace.objects.kind[row] = seen.kind(is_of_a_step, is_kept, freed.is_some());
    }
}

/// Index of the step that contains a call, or of the next step.
fn step_of(trace: &MemoryTrace, call: MemoryCallId) -> usize {
    trace.phases.partition_point(|phase| phase.end <= call)
}
