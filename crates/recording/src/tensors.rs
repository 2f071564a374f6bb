//! Types of recorder streams: roles of named tensors (parameter, gradient, optimizer state) and kinds of memory events.

use serde::{Deserialize, Serialize};

/// Role of a named tensor in its module: parameter, buffer, gradient, or state of an optimizer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TensorPart {
    /// A parameter.
    Parameter,
    /// A buffer, such as a running mean.
    Buffer,
    /// The gradient of the parameter.
    Gradient,
    /// State of an optimizer for the parameter, with its name: `exp_avg`.
    State(String),
}

/// Kind of an event of tensor memory: allocation, free, input of an operator, or failed allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TouchKind {
    /// Allocation.
    Allocated,
    /// Free.
    Freed,
    /// Input of an operator: the tensor is this argument, or in the list that is this argument. Arguments beyond the
    /// 255th have this number.
    Input(u8),
    /// Failed allocation of this many bytes; the address is 0.
    Failed,
}
