//! Names of events that only PyTorch programs in Python record: optimizers, loaders, annotations.

use stackline_model::names::STEP_PREFIX;
use stackline_model::vocabulary::lightning;

/// Name prefix of spans of PyTorch's optimizers.
pub const OPTIMIZER: &str = "Optimizer.";
/// Name part of PyTorch's data loader without workers.
pub const LOADER_WITHOUT_WORKERS: &str = "_SingleProcessDataLoaderIter";
/// Name part of PyTorch's data loader with workers, in the training process.
pub const LOADER_WITH_WORKERS: &str = "_MultiProcessingDataLoaderIter";
/// Name prefix of operators that request collectives from PyTorch's process groups.
pub const COLLECTIVE_REQUEST_PREFIX: &str = "c10d::";

/// Name parts of Python frames of event loops, which run until their next timer or event: asyncio, uvloop, Trio.
pub const EVENT_LOOPS: &[&str] = &["asyncio/base_events.py(", "asyncio/runners.py(", "uvloop/", "trio/_core/_run.py("];
/// Name parts of frames in which an event loop waits.
pub const EVENT_LOOP_WAITS: &[&str] =
    &["selectors.py(", "of select.epoll object", "of select.poll object", "function select"];

/// Name prefixes of annotations that PyTorch's profiler, optimizers and data loaders, and Lightning, create in Python.
pub const MARKS: &[&str] = &[STEP_PREFIX, OPTIMIZER, TAKE_BATCH, lightning::PROFILER];

/// Metadata entries that only torch.profiler's Python interface writes: its enabled options.
pub const PROFILER_OPTIONS: &[&str] = &["with_stack", "with_modules", "with_flops", "record_shapes", "profile_memory"];

/// Name prefix of spans of PyTorch's optimizer steps.
pub const OPTIMIZER_STEP: &str = "Optimizer.step#";
/// Name prefix of spans in which PyTorch's optimizers zero or release gradients.
pub const ZERO_GRAD: &str = "Optimizer.zero_grad#";
/// Span in which DistributedDataParallel runs its module. Its hook runs where gradients are accumulated, and reduces a
/// bucket when its last gradient is ready.
pub const DATA_PARALLEL_FORWARD: &str = "DistributedDataParallel.forward";
/// Name prefix of spans in which PyTorch takes a batch from a data loader.
pub const TAKE_BATCH: &str = "enumerate(DataLoader)#";
