//! What is said of tensors' memory.

use serde::{Deserialize, Serialize};

/// What a tensor with a name is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TensorPart {
    /// A parameter.
    Parameter,
    /// A buffer, such as a running mean.
    Buffer,
    /// The gradient of the parameter.
    Gradient,
    /// What an optimizer keeps of the parameter, under this name: `exp_avg`.
    State(String),
}

/// What happened to memory of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TouchKind {
    /// It was allocated.
    Allocated,
    /// It was freed.
    Freed,
    /// An operator was called with the tensor as this argument, or in the list that is this argument; arguments beyond the
    /// 255th count as that.
    Input(u8),
    /// So many bytes were asked for in vain; the address is 0.
    Failed,
}
