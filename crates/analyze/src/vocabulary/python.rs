//! Names that only programs of Python give things.

/// How names of annotations begin that PyTorch makes in Python: of its profiler, its optimizers and its loaders.
pub(crate) const MARKS: &[&str] = &["ProfilerStep#", "Optimizer.", "enumerate(DataLoader)#"];
