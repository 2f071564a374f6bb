//! Suggestions of smaller element types. No trace shows if the program tolerates them, so these suggestions are
//! speculative.

use super::from_patterns::{NewSuggestion, suggestion};
use super::{Action, Suggestion};
use crate::{Certainty, ObjectUsage, Pattern};
use stackline_model::{MemoryObjectId, MemoryObjectKind};

/// Type names in all spellings, and the usual type of half the size.
const HALF_TYPES: [(&[&str], &str); 2] = [
    (&["f32", "float32", "float", "Float", "torch.float32", "c10::Float"], "bf16"),
    (&["f64", "float64", "double", "Double", "torch.float64", "c10::Double"], "f32"),
];

/// Least size of an object in bytes; allocators of devices round up to half of it.
const LEAST_BYTES: u64 = 1024;

/// Maximum number of objects that become suggestions; the largest are taken.
const MOST: usize = 20_000;

/// Element type of half the size, such as bfloat16 for float32; `None` if there is none.
pub(super) fn half_of(dtype: &str) -> Option<&'static str> {
    HALF_TYPES.iter().find(|(names, _)| names.contains(&dtype)).map(|(_, half)| *half)
}

/// Suggestions of element types of half the size for activations and optimizer state; for 64 bits also for parameters
/// and gradients.
pub(super) fn smaller(usage: &ObjectUsage<'_>) -> Vec<Suggestion> {
    let objects = &usage.trace.objects;
    let halves: Vec<Option<&str>> =
        objects.dtype.iter().map(|dtype| half_of(usage.trace.strings.get(*dtype))).collect();
    let is_usual = |object: &MemoryObjectId| {
        use MemoryObjectKind::{Activation, Gradient, OptimizerState, Parameter};
        match (objects.kind[object.index()], halves[object.index()]) {
            (Activation | OptimizerState, Some(_)) => true,
            (Parameter | Gradient, half) => half == Some("f32"),
            _ => false,
        }
    };
    let bytes = |object: MemoryObjectId| objects.bytes[object.index()];
    let mut found: Vec<MemoryObjectId> = objects.ids().filter(is_usual).filter(|o| bytes(*o) >= LEAST_BYTES).collect();
    if found.len() > MOST {
        found.sort_by_key(|object| (std::cmp::Reverse(bytes(*object)), *object));
        found.truncate(MOST);
        found.sort_unstable();
    }
    let made = found.into_iter().map(|object| NewSuggestion {
        object,
        action: Action::SmallerDtype { to: bytes(object).div_ceil(2) },
        pattern: Pattern::Overallocation,
        certainty: Certainty::Inferred,
        cost_ns: 0,
    });
    made.filter_map(|new| suggestion(usage, new)).collect()
}
