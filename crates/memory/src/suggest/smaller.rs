//! Elements of types that are often larger than they need be. Whether the program can do with less, no trace says: each of these
//! suggestions is a hope.

use super::make::{NewSuggestion, suggestion};
use super::{Action, Suggestion};
use crate::{Certainty, ObjectUsage, Pattern};
use stackline_model::{MemoryObjectId, MemoryObjectKind};

/// Names of types, in all spellings, and the type of half the size that is usually taken.
const HALVES: [(&[&str], &str); 2] = [
    (&["f32", "float32", "float", "Float", "torch.float32", "c10::Float"], "bf16"),
    (&["f64", "float64", "double", "Double", "torch.float64", "c10::Double"], "f32"),
];

/// Smaller objects gain nothing: allocators of devices round up to half of this.
const LEAST_BYTES: u64 = 1024;

/// Most objects that become suggestions of their own; the largest are taken.
const MOST: usize = 20_000;

/// The type that takes half the bytes of this one.
pub(super) fn half_of(dtype: &str) -> Option<&'static str> {
    HALVES.iter().find(|(names, _)| names.contains(&dtype)).map(|(_, half)| *half)
}

/// Suggestions to keep activations and state of optimizers in smaller types; of 64 bits, parameters and gradients, too.
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
