//! Reader of PyTorch memory snapshots (`torch.cuda.memory._snapshot()`, `_dump_snapshot()`).
//!
//! A snapshot has two parts per device: `device_traces`, the last events of the allocator (a ring buffer that loses
//! older ones), and `segments`, the memory at the moment of the snapshot. `external_annotations` has the steps. Objects that are freed by events or contained
//! in segments, but not allocated by an event, are older than the trace.
//!
//! Events have the requested size. The allocator pads a request to a multiple of 512 bytes,
//! or according to its settings, and objects have the padded size. Segments, or gaps between objects, may show a larger
//! block that was not split (`block_sizes`).

mod annotations;
mod block_sizes;
mod events;
mod frames;
mod segments;
mod settings;

pub(super) use events::kind;

use super::MOST_BYTES;
use super::values::{NodeId, Value, Values};
use crate::diagnostics;
use events::Live;
use frames::Frames;
use stackline_model::{MemoryDeviceId, MemoryObjectId, MemoryTotals, MemoryTrace, StrId};

/// Check if a value is a snapshot: a dict with segments or traces, or (old versions) a list of segments.
pub(super) fn is_snapshot(values: &Values, root: Value) -> bool {
    if let Some(dict) = values.as_dict(root) {
        return values.find(dict, "segments").is_some() || values.find(dict, "device_traces").is_some();
    }
    let first = values.as_list(root).and_then(|list| values.items(list).first().copied());
    let first = first.and_then(|segment| values.as_dict(segment));
    first.is_some_and(|segment| values.find(segment, "blocks").is_some())
}

/// Read a snapshot. Invalid parts are counted in the report of the trace.
pub(super) fn read(label: &str, mut values: Values, root: Value) -> MemoryTrace {
    let keys = Keys::new(&mut values);
    let allocator_settings = settings::read(&values, root);
    let mut trace = MemoryTrace { label: label.to_owned(), allocator_settings, ..MemoryTrace::default() };
    // The trace takes over the string table; values refer to strings only by number.
    trace.strings = std::mem::take(&mut values.strings);
    let mut reader = Reader { values: &values, keys, trace, frames: Frames::default() };
    let top = values.as_dict(root);
    let mut lanes: Vec<(String, NodeId)> = Vec::new();
    let mut host_lanes = Vec::new();
    let traces = reader.list(top, keys.device_traces, diagnostics::MEMORY_BAD_EVENT);
    for (at, lane) in traces.map_or(&[][..], |list| values.items(list)).iter().enumerate() {
        match values.as_list(*lane) {
            Some(lane) => lanes.push((format!("cuda:{at}"), lane)),
            None => {
                diagnostics::MEMORY_BAD_EVENT.count(
                    &mut reader.trace.report,
                    None,
                    "the allocator events of a device are not a list",
                );
            }
        }
    }
    if let Some(list) = reader.list(top, keys.host_traces, diagnostics::MEMORY_BAD_EVENT) {
        let nested = values.items(list).iter().filter_map(|lane| values.as_list(*lane)).collect::<Vec<_>>();
        host_lanes.extend(if nested.is_empty() { vec![list] } else { nested });
    }
    lanes.extend(host_lanes.into_iter().map(|lane| ("pinned host memory".to_owned(), lane)));
    let mut live = reader.events(&lanes);
    let annotations = reader.list(top, keys.external_annotations, diagnostics::MEMORY_BAD_EVENT);
    reader.steps(annotations);
    let segments = reader.list(top, keys.segments, diagnostics::MEMORY_BAD_SEGMENT).or_else(|| values.as_list(root));
    reader.segments(segments, &mut live);
    reader.infer_block_sizes();
    reader.pools_by_address();
    let listed = segments.map(|list| values.items(list).len());
    reader.finish(&live, listed)
}

/// Reader of one snapshot: parsed values, keys, and the memory trace so far.
struct Reader<'a> {
    values: &'a Values,
    keys: Keys,
    trace: MemoryTrace,
    frames: Frames,
}

impl Reader<'_> {
    /// Value at a key of a snapshot's dict; `None` if the key is missing.
    fn field(&self, dict: NodeId, key: StrId) -> Option<Value> {
        self.values.get(dict, key)
    }

    /// Text at a key of a snapshot's dict; [`StrId::NONE`] if it is missing or not a text.
    fn text(&self, dict: NodeId, key: StrId) -> StrId {
        self.field(dict, key).and_then(|value| self.values.as_text(value)).unwrap_or(StrId::NONE)
    }

    /// Size, address or stream number at a key of a dict; `None` if missing. A negative number in Python is an address
    /// above 2^63.
    fn number(&self, dict: NodeId, key: StrId) -> Option<u64> {
        let value = self.values.as_int(self.field(dict, key)?)?;
        u64::try_from(value).ok().or_else(|| i64::try_from(value).ok().map(i64::cast_unsigned))
    }

    /// Possible size of memory in a snapshot; `None` if it is negative, not a number, or larger than any machine's
    /// memory.
    fn size(&self, dict: NodeId, key: StrId) -> Option<u64> {
        let value = self.values.as_int(self.field(dict, key)?)?;
        u64::try_from(value).ok().filter(|bytes| *bytes <= MOST_BYTES)
    }

    /// List at a key of a snapshot's dict; a value of another type is counted as a problem.
    fn list(&mut self, dict: Option<NodeId>, key: StrId, problem: diagnostics::Code) -> Option<NodeId> {
        let value = self.field(dict?, key).filter(|value| *value != Value::NONE)?;
        let list = self.values.as_list(value);
        if list.is_none() {
            let what = format!("the value of the snapshot's key {} is not a list", self.trace.strings.get(key));
            problem.count(&mut self.trace.report, None, &what);
        }
        list
    }

    /// Name of the private pool in the caching allocator, from the two numbers at a key; none for the default pool.
    fn pool(&mut self, dict: NodeId, key: StrId) -> StrId {
        let Some(list) = self.field(dict, key).and_then(|value| self.values.as_list(value)) else { return StrId::NONE };
        let [first, second] = self.values.items(list) else { return StrId::NONE };
        match (self.values.as_int(*first), self.values.as_int(*second)) {
            (Some(0), Some(0)) => StrId::NONE,
            (Some(first), Some(second)) => self.trace.strings.intern(&format!("private pool ({first}, {second})")),
            _ => StrId::NONE,
        }
    }

    /// True if the allocator of a device without segments held no memory at the end, by the events: no object is live,
    /// and the segment events do not sum to a growth.
    fn is_empty_at_end(&self, device: MemoryDeviceId) -> bool {
        let trace = &self.trace;
        let is_gpu = trace.strings.get(trace.devices[device.index()].name).starts_with("cuda");
        let events = || trace.segment_events.iter().filter(|event| event.device == device);
        let growth: i128 =
            events().map(|event| i128::from(event.bytes) * if event.kind.grows() { 1 } else { -1 }).sum();
        let is_live = |object: MemoryObjectId| {
            trace.objects.device[object.index()] == device && trace.objects.freed_by[object.index()].is_none()
        };
        let has_events = events().next().is_some() || trace.out_of_memory.iter().any(|oom| oom.device == device);
        is_gpu && has_events && growth <= 0 && !trace.objects.ids().any(is_live)
    }

    /// Add the allocated and reserved bytes of each device, count problems between events and segments, and return the
    /// trace. `listed` is the number of segments in the file; `None` if it has no list of segments.
    fn finish(mut self, live: &Live, listed: Option<usize>) -> MemoryTrace {
        let after = self.trace.calls.ids().next_back().into();
        let are_all_read = listed == Some(self.trace.segments.len());
        let time_ns = self.trace.calls.start_ns.last().copied().unwrap_or(0);
        for device in (0..self.trace.devices.len()).map(MemoryDeviceId::new) {
            let of_device = |segment: &&stackline_model::MemorySegment| segment.device == device;
            let segments: Vec<_> = self.trace.segments.iter().filter(of_device).collect();
            if segments.is_empty() && !(are_all_read && self.is_empty_at_end(device)) {
                continue;
            }
            let blocks = segments.iter().flat_map(|segment| &self.trace.blocks[segment.blocks.clone()]);
            let active = blocks.filter(|block| block.state == stackline_model::MemoryBlockState::Active);
            let sum = |sum: u64, bytes: u64| sum.saturating_add(bytes);
            let allocated = active.map(|block| block.bytes).fold(0, sum);
            let reserved = segments.iter().map(|segment| segment.bytes).fold(0, sum);
            self.trace.totals.push(MemoryTotals { after, time_ns, device, allocated, reserved });
        }
        let is_all_known = self.trace.totals.len() == self.trace.devices.len();
        if listed.unwrap_or(0) == 0 && !self.trace.calls.is_empty() && !is_all_known {
            diagnostics::MEMORY_NO_SEGMENTS.count(&mut self.trace.report, None, "");
        }
        if !self.trace.segments.is_empty() {
            let lost = live.without_block(&self.trace);
            diagnostics::MEMORY_NO_BLOCK.count_many(&mut self.trace.report, lost.len() as u64, None, "");
        }
        let trace = &self.trace;
        let has_history =
            !(trace.calls.is_empty() && trace.segment_events.is_empty() && trace.out_of_memory.is_empty());
        if !has_history && !trace.segments.is_empty() {
            diagnostics::MEMORY_NO_HISTORY.count(&mut self.trace.report, None, "");
        }
        let older = self.trace.objects.allocated_by.iter().filter(|call| call.is_none()).count();
        diagnostics::MEMORY_OLDER.count_many(&mut self.trace.report, older as u64, None, "");
        self.trace.report.events = self.trace.calls.len() as u64;
        self.trace.report.sort();
        self.trace
    }
}

macro_rules! keys {
    ($($name:ident $text:literal)*) => {
        /// Keys and words of the format, as string numbers.
        #[derive(Clone, Copy)]
        struct Keys { $($name: StrId),* }

        impl Keys {
            fn new(values: &mut Values) -> Self {
                Self { $($name: values.strings.intern($text)),* }
            }
        }
    };
}

keys! {
    device_traces "device_traces" host_traces "host_traces" segments "segments"
    external_annotations "external_annotations" stage "stage" stage_start "START" stage_end "END"
    action "action" addr "addr" size "size" stream "stream" time_us "time_us" frames "frames" pool_id "pool_id"
    category "category" user_metadata "user_metadata" compile_context "compile_context" device_free "device_free"
    alloc "alloc" free "free" free_requested "free_requested" free_completed "free_completed" oom "oom"
    segment_alloc "segment_alloc" segment_free "segment_free" segment_map "segment_map" segment_unmap "segment_unmap"
    snapshot "snapshot" annotate "annotate" not_given "N/A"
    device "device" address "address" total_size "total_size" segment_type "segment_type" small "small"
    segment_pool_id "segment_pool_id" is_expandable "is_expandable" blocks "blocks" requested_size "requested_size"
    state "state" active_allocated "active_allocated" active_awaiting_free "active_awaiting_free"
    active_pending_free "active_pending_free" inactive "inactive" history "history" real_size "real_size"
    name "name" filename "filename" line "line"
}
