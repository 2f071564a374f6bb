//! Reads of GPU values by JAX programs, which wait until the value is on the host.
//!
//! No record states the target of such a wait. `float(value)`, `numpy.asarray(value)` and similar calls are one span of
//! the reading thread. Threads of a pool start the copy during the span, which ends after the copy and its handover.
//! `block_until_ready` waits for work launched before.

use super::gpu_dependency::{Reason, SyncCall};
use super::missing_records::launched_at;
use super::streams::{Streams, end};
use stackline_model::gpu_calls::{CopyDirection, copy_direction};
use stackline_model::{EventId, EventKind, GpuOpId, Trace, TrackKind};

/// Span that converts an array to NumPy.
const READ: &str = "np.asarray(jax.Array)";
/// Suffix of frames that wait for values without a copy to the host.
const BLOCKS: &str = " block_until_ready";

/// True if a span of this name reads a GPU value, and therefore waits for the GPU.
pub fn is_read(name: &str) -> bool {
    name == READ || (name.starts_with('$') && name.ends_with(BLOCKS))
}

/// Infer the waits of spans that read a GPU value, for the awaited copy or the GPU work that ended last, and add them
/// to `syncs`.
pub(super) fn infer_value_reads(trace: &Trace, streams: &Streams, syncs: &mut Vec<SyncCall>) {
    let is_named: Vec<bool> = trace.strings.iter().map(is_read).collect();
    if !is_named.contains(&true) {
        return;
    }
    let mut by_end: Vec<GpuOpId> = streams.operations.iter().flatten().copied().collect();
    by_end.sort_unstable_by_key(|&id| (end(trace, id), streams.rank[id.index()]));
    for track in trace.tracks.ids().filter(|&t| trace.tracks.get(t).kind == TrackKind::Thread) {
        let events = trace.track_events(track);
        let is_wait = |e: EventId| {
            trace.events.is_timed(e) && is_named.get(trace.events.name[e.index()].index()).copied().unwrap_or(false)
        };
        for (at, &span) in events.iter().enumerate().filter(|&(_, &e)| is_wait(e)) {
            let from = wait_start(trace, &events[at..]);
            let copies = trace.name(span) == READ;
            if let Some(on) = awaited(trace, streams, &by_end, (span, copies)) {
                let from = from.min(end(trace, on));
                syncs.push(SyncCall { call: span, from, on: vec![on], reason: Reason::ValueRead });
            }
        }
    }
}

/// Start, in ns, of the wait in the first of `spans`: the end of the last leaf span in it that ends well before it.
///
/// Without such a leaf span, the start of the span itself. `spans` are sorted by start.
fn wait_start(trace: &Trace, spans: &[EventId]) -> i64 {
    let Some((&span, inside)) = spans.split_first() else { return 0 };
    let until = trace.events.end(span);
    let within = |e: &&EventId| trace.events.start[e.index()] < until;
    let inside: Vec<EventId> = inside.iter().take_while(within).copied().collect();
    let is_leaf =
        |at: usize| inside.get(at + 1).is_none_or(|next| trace.events.parent[next.index()].some() != Some(inside[at]));
    let around_wait = |e: EventId| until.saturating_sub(trace.events.end(e)) < MAX_END_DISTANCE_NS;
    let ends =
        (0..inside.len()).filter(|&at| is_leaf(at) && !around_wait(inside[at])).map(|at| trace.events.end(inside[at]));
    ends.max().unwrap_or(trace.events.start[span.index()])
}

/// Maximum distance in ns between the end of a leaf span and the end of the read at which the leaf contains the wait or
/// follows it.
const MAX_END_DISTANCE_NS: i64 = 10_000;

/// Awaited operation of a span: the last that ended within the span, of those launched before the span's end. For
/// copies to the host, only copies launched within the span count.
fn awaited(trace: &Trace, streams: &Streams, by_end: &[GpuOpId], (span, copies): (EventId, bool)) -> Option<GpuOpId> {
    let process = trace.tracks.pid(trace.events.track[span.index()]);
    let (from, to) = (trace.events.start[span.index()], trace.events.end(span));
    let ended = &by_end
        [by_end.partition_point(|&id| end(trace, id) <= from)..by_end.partition_point(|&id| end(trace, id) <= to)];
    let is_of_span = |id: &&GpuOpId| match copies {
        true => is_copy_to_host(trace, **id) && launched_at(trace, **id) >= from,
        false => launched_at(trace, **id) < to,
    };
    ended.iter().rev().find(|id| streams.may_wait_for(process, **id) && is_of_span(id)).copied()
}

/// True if a GPU operation is a memory copy to the host.
fn is_copy_to_host(trace: &Trace, id: GpuOpId) -> bool {
    let event = trace.gpu.event[id.index()];
    trace.kind(event) == EventKind::Memcpy && copy_direction(trace.name(event)) == Some(CopyDirection::ToHost)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::call_kind_cache::CallKindCache;
    use crate::gpu_order::GpuOrder;
    use stackline_ingest::{ReadOptions, read_bytes};
    use stackline_testkit::mini;

    /// A JAX program that reads a value, whose copy another thread starts, and then waits for a kernel.
    pub(in super::super) fn jax_read_trace() -> Trace {
        let text = mini::trace(
            r#"file -
            process 1 name=/device:GPU:0
            process 701 name=/host:CPU
            thread 1/14 name="Stream #14(Compute)"
            thread 1/17 name="Stream #17(MemcpyD2H)"
            thread 701/9 name=python3
            thread 701/20 name=pjrt_async_work_runner/1
            701/9   -  PjitFunction(step)              10+80
            701/9   -  fusion                          20+10    correlation_id="4"
            1/14    -  fusion                          40+100   correlation_id="4"
            701/9   -  np.asarray(jax.Array)           100+200
            701/9   -  $array.py:629 _value            105+190
            701/9   -  CommonPjRtBuffer::ToLiteral     110+10
            701/20  -  D2H Dispatch                    150+20
            701/20  -  MemcpyD2H                       180+10   correlation_id="5"
            1/17    -  MemcpyD2H                       200+2    correlation_id="5"
            701/9   -  other                           380+10   correlation_id="6"
            1/14    -  other                           395+55   correlation_id="6"
            701/9   -  $api.py:3012 block_until_ready  391+100"#,
        );
        read_bytes("t.json", text.as_bytes(), &ReadOptions::default()).unwrap()
    }

    #[test]
    fn reads_wait_for_copies_started_during_them() {
        let trace = jax_read_trace();
        let order = GpuOrder::new(&trace, &CallKindCache::new(&trace));
        let found: Vec<_> = order.syncs.iter().map(|s| (trace.name(s.call), s.from / 1000, s.reason)).collect();
        assert_eq!(
            found,
            [
                ("np.asarray(jax.Array)", 120, Reason::ValueRead),
                ("$api.py:3012 block_until_ready", 391, Reason::ValueRead)
            ]
        );
        let on: Vec<i64> = order.syncs.iter().map(|s| end(&trace, s.on[0]) / 1000).collect();
        assert_eq!(on, [202, 450]);
    }
}
