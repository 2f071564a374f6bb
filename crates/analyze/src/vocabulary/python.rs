//! Names that only programs of Python give things.

use stackline_model::names::STEP_PREFIX;
use stackline_model::vocabulary::lightning;

/// How names of spans of PyTorch's optimizers begin.
pub(crate) const OPTIMIZER: &str = "Optimizer.";
/// Parts of names of what PyTorch's loaders do in the process that trains, without workers and with them.
pub(crate) const LOADER_WITHOUT_WORKERS: &str = "_SingleProcessDataLoaderIter";
pub(crate) const LOADER_WITH_WORKERS: &str = "_MultiProcessingDataLoaderIter";
/// How names of operators begin with which PyTorch's process groups are asked for collectives.
pub(crate) const ASKS_FOR_COLLECTIVE: &str = "c10d::";

/// How names of annotations begin that PyTorch makes in Python: of its profiler, its optimizers and its loaders; and those of Lightning.
pub(crate) const MARKS: &[&str] = &[STEP_PREFIX, OPTIMIZER, TAKE_BATCH, lightning::PROFILER];

/// Entries of a file that torch.profiler's Python interface alone writes: its options that are on.
pub(crate) const PROFILER_OPTIONS: &[&str] =
    &["with_stack", "with_modules", "with_flops", "record_shapes", "profile_memory"];

/// How names of spans begin in which PyTorch's optimizers make a step.
pub(crate) const OPTIMIZER_STEP: &str = "Optimizer.step#";
/// How names of spans begin in which PyTorch's optimizers set gradients to zero, or let go of them.
pub(crate) const ZERO_GRAD: &str = "Optimizer.zero_grad#";
/// The span in which DistributedDataParallel runs its module. Its hook, which runs where gradients are accumulated, reduces a bucket once
/// the last gradient of it is there.
pub(crate) const DATA_PARALLEL_FORWARD: &str = "DistributedDataParallel.forward";
/// How names of spans begin in which PyTorch takes a batch from a loader.
pub(crate) const TAKE_BATCH: &str = "enumerate(DataLoader)#";
