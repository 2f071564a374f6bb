//! Names that only programs of Python give things.

/// How names of annotations begin that PyTorch makes in Python: of its profiler, its optimizers and its loaders.
pub(crate) const MARKS: &[&str] = &["ProfilerStep#", "Optimizer.", TAKE_BATCH];

/// How names of spans begin in which PyTorch's optimizers make a step.
pub(crate) const OPTIMIZER_STEP: &str = "Optimizer.step#";
/// How names of spans begin in which PyTorch's optimizers set gradients to zero, or let go of them.
pub(crate) const ZERO_GRAD: &str = "Optimizer.zero_grad#";
/// How names of spans begin in which PyTorch takes a batch from a loader.
pub(crate) const TAKE_BATCH: &str = "enumerate(DataLoader)#";
