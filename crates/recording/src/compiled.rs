//! Types of recorder streams: programs that a compiler made for devices, with the operators of their kernels.

use serde::{Deserialize, Serialize};

/// Program that a compiler made for a device, such as a module of XLA or a graph of `torch.compile`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompiledProgram {
    /// Name of the program; several programs may have the same.
    pub name: String,
    /// Kernels of the program.
    pub operations: Vec<CompiledOperation>,
}

/// Kernel of a compiled program, with the operators that it computes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompiledOperation {
    /// Name of the kernel, as in [`crate::Work::Kernel`].
    pub kernel: String,
    /// Path of its operator in the program: `jit(step)/add`; empty if unknown.
    pub operator: String,
    /// Operators that were fused into the kernel.
    pub fused: Vec<String>,
    /// Source file of the operator; empty if unknown.
    pub file: String,
    /// Line in that file.
    pub line: u32,
}
