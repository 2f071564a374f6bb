//! Rules of method "exact" for names: frames that wait, frames that wake other threads, data loading.

use stackline_model::names::{COLLECTION, TAKE_BATCH};
use stackline_model::vocabulary::lightning;
use stackline_model::{EventId, EventKind, Trace};
use stackline_timeline::frame_names::matches_parts;
use stackline_timeline::vocabulary::python::{LOADER_WITH_WORKERS, LOADER_WITHOUT_WORKERS};

/// Bits of [`Names::flags`].
pub(super) mod bits {
    /// Frame that runs the autograd engine and waits for its threads.
    pub(in super::super) const RUNS_BACKWARD: u16 = 1;
    /// Waits for another thread or process.
    pub(in super::super) const WAITS: u16 = 2;
    /// Releases a lock, or wakes waiting threads.
    pub(in super::super) const RELEASES: u16 = 4;
    /// Adds an item to a queue.
    pub(in super::super) const ADDS_TO_QUEUE: u16 = 32;
    /// Waits for a lock that another thread releases.
    pub(in super::super) const LOCKS: u16 = 16;
    /// Part of data loading.
    pub(in super::super) const LOADS_DATA: u16 = 8;
    /// Only waits, independent of recorded calls inside.
    pub(in super::super) const ONLY_WAITS: u16 = 64;
    /// Garbage collection of Python.
    pub(in super::super) const COLLECTS_GARBAGE: u16 = 128;
    /// Takes the next batch of a data loader: with workers the frame mainly waits for them.
    pub(in super::super) const TAKES_BATCH: u16 = 256;
    /// Code of a data loader's worker processes.
    pub(in super::super) const RUNS_WORKER: u16 = 512;
    /// Waits for the end of another thread, or of its task. If no thread is seen to end, the time is the wait's own.
    pub(in super::super) const JOINS: u16 = 1024;
    /// Wait that another thread or process may end.
    pub(in super::super) const WAITS_FOR_THREAD: u16 = WAITS | JOINS;
}

/// Parts that a name must all contain (see [`matches_parts`]), and the bits of such names.
const RULES: &[(&[&str], u16)] = &[
    (&["run_backward", "_EngineBase"], bits::RUNS_BACKWARD),
    (&["graph.py(", "_engine_run_backward"], bits::RUNS_BACKWARD),
    (&["'acquire' of '_thread."], bits::WAITS | bits::LOCKS | bits::ONLY_WAITS),
    (&["built-in method acquire"], bits::WAITS | bits::LOCKS | bits::ONLY_WAITS),
    (&["'__enter__' of '_thread."], bits::WAITS | bits::LOCKS | bits::ONLY_WAITS),
    (&["built-in method __enter__ of _thread."], bits::WAITS | bits::LOCKS | bits::ONLY_WAITS),
    (&["queues.py(", "): get"], bits::WAITS),
    (&["queue.py(", "): get"], bits::WAITS),
    (&["'get' of '_queue.SimpleQueue"], bits::WAITS),
    (&["built-in method poll"], bits::WAITS | bits::ONLY_WAITS),
    (&["method 'poll' of"], bits::WAITS | bits::ONLY_WAITS),
    (&["built-in method select"], bits::WAITS | bits::ONLY_WAITS),
    (&["selectors.py("], bits::WAITS | bits::ONLY_WAITS),
    (&["threading.py(", "): wait*"], bits::WAITS | bits::ONLY_WAITS),
    (&["threading.py(", "): join"], bits::JOINS),
    (&["threading.py(", "): _wait_for_tstate_lock"], bits::JOINS),
    (&["concurrent/futures/_base.py(", "): result"], bits::JOINS),
    (&["connection.py(", "): wait"], bits::WAITS | bits::ONLY_WAITS),
    (&["connection.py(", "): _poll"], bits::WAITS | bits::ONLY_WAITS),
    (&["queues.py(", "): put"], bits::ADDS_TO_QUEUE),
    (&["queue.py(", "): put"], bits::ADDS_TO_QUEUE),
    (&["_try_put_index"], bits::ADDS_TO_QUEUE),
    (&["'put' of '_queue.SimpleQueue"], bits::ADDS_TO_QUEUE),
    (&["'release' of '_thread."], bits::RELEASES),
    (&["threading.py(", "): notify*"], bits::RELEASES),
    (&["threading.py(", "): set"], bits::RELEASES),
    (&["dataloader.py"], bits::LOADS_DATA),
    (&[TAKE_BATCH], bits::LOADS_DATA),
    (&[LOADER_WITH_WORKERS], bits::LOADS_DATA),
    (&[LOADER_WITHOUT_WORKERS], bits::LOADS_DATA),
    (&["pin_memory.py"], bits::LOADS_DATA),
    (&["dataloader.py(", "__next__"], bits::TAKES_BATCH),
    (&["dataloader.py(", "_next_data"], bits::TAKES_BATCH),
    (&["dataloader.py(", "_get_data"], bits::TAKES_BATCH),
    (&["_worker_loop"], bits::LOADS_DATA | bits::RUNS_WORKER),
    (&["data/_utils/fetch.py"], bits::LOADS_DATA),
    (&["_utils/worker.py"], bits::LOADS_DATA),
    (&[COLLECTION], bits::COLLECTS_GARBAGE),
];

/// Classification of each name of a trace, as bits.
pub(super) struct Names(Vec<u16>);

impl Names {
    /// Classify each name of a trace by [`RULES`].
    pub(super) fn new(trace: &Trace) -> Self {
        Self(trace.strings.iter().map(classify).collect())
    }

    /// True if any name of the trace has one of the classification bits.
    pub(super) fn any(&self, bits: u16) -> bool {
        self.0.iter().any(|flags| flags & bits != 0)
    }

    /// Classification bits of an event's name; 0 for API calls and for no event.
    pub(super) fn flags(&self, trace: &Trace, event: EventId) -> u16 {
        let Some(name) = trace.events.name.get(event.index()) else { return 0 };
        match trace.kind(event) {
            EventKind::PythonFunction | EventKind::Operator | EventKind::Annotation => {
                self.0.get(name.index()).copied().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// True if a span is, or lies in, a span that loads data.
    pub(super) fn loads_data(&self, trace: &Trace, event: EventId) -> bool {
        self.is_within(trace, event, bits::LOADS_DATA)
    }

    /// True if a span is, or lies in, a span of garbage collection.
    pub(super) fn collects_garbage(&self, trace: &Trace, event: EventId) -> bool {
        self.is_within(trace, event, bits::COLLECTS_GARBAGE)
    }

    /// True if a span, or a span around it, has a name with a classification bit.
    fn is_within(&self, trace: &Trace, event: EventId, bit: u16) -> bool {
        std::iter::once(event).chain(trace.ancestors(event)).any(|e| self.flags(trace, e) & bit != 0)
    }
}

/// Classification bits of a name, by [`RULES`] and the rules for Lightning's data loading.
fn classify(name: &str) -> u16 {
    let of_framework = if lightning::takes_batch(name) { bits::LOADS_DATA } else { 0 };
    RULES.iter().filter(|(parts, _)| matches_parts(name, parts)).fold(of_framework, |bits, (_, bit)| bits | bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pytorch() {
        let run = "<built-in method run_backward of torch._C._EngineBase object at 0x7f64>";
        assert_eq!(classify(run), bits::RUNS_BACKWARD);
        assert_eq!(classify("multiprocessing/queues.py(103): get"), bits::WAITS);
        assert_eq!(classify("selectors.py(403): select"), bits::WAITS | bits::ONLY_WAITS);
        // Names in recordings, and in some versions of torch.profiler, contain the class.
        assert_eq!(classify("queue.py(154): Queue.get"), bits::WAITS);
        assert_eq!(classify("threading.py(295): Condition.wait"), bits::WAITS | bits::ONLY_WAITS);
        assert_eq!(classify("threading.py(1125): Thread._wait_for_tstate_lock"), bits::JOINS);
        assert_eq!(classify("task_queue.py(3): get"), 0);
        assert_eq!(classify("<method 'release' of '_thread.lock' objects>"), bits::RELEASES);
        assert_eq!(
            classify("torch/utils/data/dataloader.py(1448): _try_put_index") & bits::ADDS_TO_QUEUE,
            bits::ADDS_TO_QUEUE
        );
        let take = "torch/utils/data/dataloader.py(720): _BaseDataLoaderIter.__next__";
        assert_eq!(classify(take), bits::LOADS_DATA | bits::TAKES_BATCH);
        assert_eq!(classify("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"), bits::LOADS_DATA);
        assert_eq!(classify("[pl][profile][_TrainingEpochLoop].train_dataloader_next"), bits::LOADS_DATA);
        assert_eq!(classify("aten::mm"), 0);
    }
}
