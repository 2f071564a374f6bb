//! Runtime calls that split a thread's time into graph nodes, because a dependency starts or ends there: launches,
//! synchronizations, event records and waits.

use super::gpu::{Gpu, StreamId};
use super::stacks::Thread;
use stackline_model::gpu_calls::{CallKind, is_copy_launch, kind_of_name};
use stackline_model::{EventId, Trace};

/// Kind of a synchronizing host call, by the work that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncKind {
    /// All work of the device.
    Device,
    /// All work of a stream.
    Stream,
    /// Work before an event record.
    Event,
    /// The copy that the call starts.
    OwnCopy,
}

/// Role of a runtime call in dependencies: launch, synchronization, stream wait, or CUDA event record.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MarkKind {
    /// Launch of work on these streams, ascending.
    Launch(Vec<StreamId>),
    /// Wait of the host.
    Sync(SyncKind),
    /// Wait of a stream for an event.
    StreamWait,
    /// Record of an event.
    Record,
}

/// Runtime call at which a dependency starts or ends, with its role.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) event: EventId,
    /// Position of the call's thread among those of the process.
    pub(super) thread: u32,
    pub(super) kind: MarkKind,
}

/// Find the runtime calls of a process at which dependencies start or end, sorted by start.
pub(super) fn find_marks(trace: &Trace, threads: &[Thread], gpu: &Gpu) -> Vec<Mark> {
    let mut roles: Vec<Option<Option<MarkKind>>> = vec![None; trace.strings.len()];
    let mut marks = Vec::new();
    for (thread, t) in (0u32..).zip(threads) {
        for &event in &t.calls {
            let name = trace.events.name[event.index()];
            let (start, end) = (trace.events.start[event.index()], trace.events.end(event));
            let launched = gpu.launched_by(event);
            let kind = if launched.is_empty() {
                let role =
                    roles.get_mut(name.index()).map(|r| r.get_or_insert_with(|| role(trace.strings.get(name))).clone());
                role.flatten()
            } else {
                let waits = is_copy_launch(trace.strings.get(name))
                    && launched.iter().all(|&op| gpu.ops[op as usize].end <= end);
                // The host waited for a copy that ended before its call returned: pageable memory, or a blocking call.
                if waits {
                    Some(MarkKind::Sync(SyncKind::OwnCopy))
                } else {
                    Some(MarkKind::Launch(gpu.streams_of(launched)))
                }
            };
            marks.extend(kind.map(|kind| Mark { start, end, event, thread, kind }));
        }
    }
    marks.sort_by_key(|m| (m.start, m.end, m.thread));
    marks
}

/// Role of a runtime call by its name, if it launched no recorded work. `None` if no dependency starts or ends there.
fn role(name: &str) -> Option<MarkKind> {
    match kind_of_name(name)? {
        CallKind::DeviceSync => Some(MarkKind::Sync(SyncKind::Device)),
        CallKind::StreamSync => Some(MarkKind::Sync(SyncKind::Stream)),
        CallKind::EventSync => Some(MarkKind::Sync(SyncKind::Event)),
        CallKind::StreamWait => Some(MarkKind::StreamWait),
        CallKind::Record => Some(MarkKind::Record),
        _ => None,
    }
}
