//! Failed requests: the `[OutOfMemory]` instants of `torch.profiler`, with the requested bytes, the device, and the
//! allocator's totals.

use super::Reader;
use crate::diagnostics;
use stackline_model::{EventId, MemoryCallId, MemoryDeviceId, MemoryTotals, OutOfMemory, StrId};

/// Name of the events.
const OUT_OF_MEMORY: &str = "[OutOfMemory]";

impl Reader<'_> {
    /// Add the failed requests of the trace in the order of their times, once all calls are known.
    pub(super) fn failed_requests(&mut self) {
        let source = self.source;
        let Some(name) = source.strings.find(OUT_OF_MEMORY) else { return };
        let events = &source.events;
        let mut failed: Vec<EventId> = events.ids().filter(|event| events.name[event.index()] == name).collect();
        failed.sort_by_key(|event| (events.start[event.index()], events.source_index[event.index()]));
        let keys = ["Bytes", "Device Type", "Device Id", "Total Allocated", "Total Reserved"];
        let columns = keys.map(|key| source.attr(key));
        for event in failed {
            let [bytes, kind, id, allocated, reserved] = columns.each_ref().map(|column| column.i64(event));
            let requested = bytes.and_then(|bytes| u64::try_from(bytes).ok());
            let Some(requested) = requested.filter(|_| events.is_plausible(event)) else {
                diagnostics::MEMORY_BAD_EVENT.count(
                    &mut self.trace.report,
                    None,
                    "a failed memory request without a size or a valid time",
                );
                continue;
            };
            let device = self.device(kind.unwrap_or(0), id.unwrap_or(-1));
            self.failed_request(event, device, requested);
            self.totals_at_failure([allocated, reserved].map(|bytes| u64::try_from(bytes?).ok()));
        }
        // Stable: the totals of a failure follow those of the call before it.
        self.trace.totals.sort_by_key(|total| total.after.some());
    }

    /// Add a failed request.
    fn failed_request(&mut self, event: EventId, device: MemoryDeviceId, requested: u64) {
        let time_ns = self.source.meta.base_ns.saturating_add(self.source.events.start[event.index()]);
        let stream = self.stream(event, device);
        let parent = self.enclosing_span(event);
        let stack = self.path(parent);
        self.trace.out_of_memory.push(OutOfMemory {
            before: MemoryCallId::new(self.trace.calls.start_ns.partition_point(|start| *start < time_ns)),
            segment_events: self.trace.segment_events.len(),
            time_ns,
            device,
            stream,
            requested,
            device_free: None,
            pool: StrId::NONE,
            stack,
        });
    }

    /// Store the allocator's totals at the last failed request: the allocator may have returned memory to the device
    /// before it failed, which no other event shows.
    fn totals_at_failure(&mut self, totals: [Option<u64>; 2]) {
        let ([Some(allocated), Some(reserved @ 1..)], Some(failed)) = (totals, self.trace.out_of_memory.last()) else {
            return;
        };
        let after = failed.before.0.checked_sub(1).map_or(MemoryCallId::NONE, MemoryCallId);
        let (time_ns, device) = (failed.time_ns, failed.device);
        self.trace.totals.push(MemoryTotals { after, time_ns, device, allocated, reserved });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::from_trace;

    #[test]
    fn failed_requests_have_an_operator_and_the_totals_of_their_time() {
        let json = br#"{"traceEvents": [
            {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 10, "args":
                {"Total Allocated": 20, "Total Reserved": 50, "Bytes": 20, "Addr": 4096, "Device Id": 0, "Device Type": 1}},
            {"ph": "X", "cat": "cpu_op", "name": "aten::empty", "pid": 1, "tid": 1, "ts": 15, "dur": 10},
            {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[OutOfMemory]", "pid": 1, "tid": 1, "ts": 20, "args":
                {"Total Allocated": 20, "Total Reserved": 40, "Bytes": 90, "Device Id": 0, "Device Type": 1}},
            {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[OutOfMemory]", "pid": 1, "tid": 1, "ts": 21},
            {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 30, "args":
                {"Total Allocated": 0, "Total Reserved": 60, "Bytes": -20, "Addr": 4096, "Device Id": 0, "Device Type": 1}}]}"#;
        let trace = from_trace(&crate::read_bytes("t", json, &Default::default()).unwrap()).unwrap();
        trace.check().unwrap();
        assert_eq!(trace.out_of_memory.len(), 1, "{:?}", trace.out_of_memory);
        let failed = trace.out_of_memory[0];
        assert_eq!((failed.requested, failed.device_free, failed.before.0), (90, None, 1));
        assert_eq!(trace.strings.get(trace.devices[failed.device.index()].name), "cuda:0");
        let frame = trace.stacks.frames_of(failed.stack).next().unwrap();
        assert_eq!(frame.function_text(&trace.strings), "aten::empty");
        let totals: Vec<(u32, u64)> = trace.totals.iter().map(|total| (total.after.0, total.reserved)).collect();
        assert_eq!(totals, [(0, 50), (0, 40), (1, 60)]);
        assert_eq!(trace.report.count_of("damaged_memory_event"), 1, "a request without a size");
    }
}
