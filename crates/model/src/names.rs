//! Names that PyTorch gives events, as far as more than one part of the code goes by them.

/// What names of step annotations begin with; the step's number follows.
pub const STEP_PREFIX: &str = "ProfilerStep#";

/// What names of Python frames that are calls of modules begin with; the module's name follows, behind a space.
pub const MODULE_PREFIX: &str = "nn.Module:";
