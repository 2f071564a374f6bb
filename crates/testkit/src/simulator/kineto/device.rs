//! Runtime and driver calls, the work that they launch, and synchronization records.

use std::collections::BTreeMap;

use crate::kineto::Flow;

use super::{Printer, correlation};
use crate::simulator::program::{Kind, Work};
use crate::simulator::run::{Activity, SyncKind};

/// CUPTI's numbers of calls.
const CALLBACKS: &[(&str, u32)] = &[
    ("cudaLaunchKernel", 211),
    ("cudaLaunchKernelExC", 430),
    ("cuLaunchKernelEx", 652),
    ("cudaGraphLaunch", 311),
    ("cudaMemcpy", 31),
    ("cudaMemcpyAsync", 41),
    ("cudaMemsetAsync", 51),
    ("cudaMalloc", 20),
    ("cudaFree", 22),
    ("cudaHostAlloc", 27),
    ("cudaEventRecord", 135),
    ("cudaStreamWaitEvent", 147),
    ("cudaEventQuery", 138),
    ("cudaStreamQuery", 134),
    ("cudaEventSynchronize", 137),
    ("cudaStreamSynchronize", 131),
    ("cudaDeviceSynchronize", 165),
];

/// Number of a runtime or driver call by its name, as CUPTI numbers them; 1 if unknown.
fn callback(name: &str) -> u32 {
    CALLBACKS.iter().find(|(known, _)| *known == name).map_or(1, |&(_, number)| number)
}

/// Number of bytes that a copy or fill moves in `ns` nanoseconds, at the bandwidth of its kind.
pub(crate) fn bytes_moved(work: Work, ns: i64) -> i64 {
    ns * if matches!(work, Work::HostToDevice | Work::DeviceToHost) { 22 } else { 1_200 }
}

impl Printer<'_> {
    /// Write the runtime and driver calls, each launch with the start of an arrow to its GPU work.
    pub(super) fn write_calls(&mut self) {
        let mut launches = vec![false; self.outcome.spans.len()];
        for activity in &self.outcome.activities {
            launches[activity.call as usize] = true;
        }
        for (id, span) in self.outcome.spans.iter().enumerate() {
            let category = match span.kind {
                Kind::Runtime => "cuda_runtime",
                Kind::Driver => "cuda_driver",
                _ => continue,
            };
            if self.view.hidden_spans[id] {
                continue;
            }
            let (external, track) = (self.external_id(id as u32), self.track(span.thread));
            let correlation = correlation(id as u32);
            self.json.slice(category, &span.name, track, (span.start, span.end - span.start), |args| {
                if let Some(external) = external {
                    args.raw("External id", external);
                }
                args.raw("cbid", callback(&span.name));
                args.raw("correlation", correlation);
            });
            if launches[id] {
                self.json.flow("ac2g", Flow::Start(u64::from(correlation)), track, span.start);
            }
        }
    }

    /// Write the GPU operations, each with the end of the arrow from its launch.
    pub(super) fn write_activities(&mut self) {
        let mut nodes: BTreeMap<u32, u32> = BTreeMap::new();
        for (i, activity) in self.outcome.activities.iter().enumerate() {
            if self.view.hidden_activities[i] {
                continue;
            }
            let node = nodes.entry(activity.call).or_default();
            *node += 1;
            let node = *node;
            self.activity(i, activity, node);
        }
    }

    /// Write one GPU operation; `node` is its number within its launch.
    fn activity(&mut self, i: usize, activity: &Activity, node: u32) {
        let op = &self.program.ops[activity.op];
        let category = match op.work {
            Work::Kernel | Work::Collective => "kernel",
            Work::Fill => "gpu_memset",
            Work::HostToDevice | Work::DeviceToHost | Work::DeviceToDevice => "gpu_memcpy",
        };
        let stream = self.program.streams[op.stream].number;
        let correlation = correlation(activity.call);
        let external = self.external_id(activity.call);
        let (start, end) = self.view.times[i];
        let of_graph = self.outcome.spans[activity.call as usize].name == "cudaGraphLaunch";
        let ns = end - start;
        self.json.slice(category, &op.name, (0, stream), (start, ns), |args| {
            if let Some(external) = external {
                args.raw("External id", external);
            }
            if category == "kernel" {
                args.raw("queued", 0);
            }
            args.raw("device", 0);
            args.raw("context", 1);
            args.raw("stream", stream);
            args.raw("correlation", correlation);
            if category == "kernel" {
                if of_graph {
                    args.raw("graph id", 5);
                    args.raw("graph node id", node);
                }
                args.raw("registers per thread", 40);
                args.raw("shared memory", 4096);
                args.raw("grid", format_args!("[{}, 1, 1]", op.details.grid.unwrap_or(216)));
                args.raw("block", format_args!("[{}, 1, 1]", op.details.block.unwrap_or(256)));
                args.raw("est. achieved occupancy %", 50);
                if let Some(elements) = op.details.elements {
                    args.raw("In msg nelems", elements);
                }
                if let Some(stalls) = &op.details.stalls {
                    args.raw("stall_reasons", stalls);
                }
            } else {
                let bytes = op.details.bytes.unwrap_or_else(|| bytes_moved(op.work, ns));
                args.raw("bytes", bytes);
                args.raw("memory bandwidth (GB/s)", bytes / ns.max(1));
            }
        });
        self.json.flow("ac2g", Flow::End(u64::from(correlation)), (0, stream), start);
    }

    /// Write the counter of the GPU clock: its value at the start, and from the first slower kernel on.
    pub(super) fn write_clock(&mut self) {
        let Some((first, values)) = self.program.clock else { return };
        let activities = self.outcome.activities.iter().zip(&self.view.times);
        let is_slow = |op: usize| op >= first && self.program.ops[op].work == Work::Kernel;
        let slow = activities.filter(|(activity, _)| is_slow(activity.op)).map(|(_, &(start, _))| start).min();
        for (at, value) in [Some(0), slow].into_iter().zip(values) {
            let Some(at) = at else { continue };
            let stamp = self.json.stamp(at);
            self.json.record(format_args!(
                "\"ph\": \"C\", \"name\": \"GPU 0 SM clock (MHz)\", \"pid\": 0, \"tid\": 0,\n    \"ts\": {stamp}, \
                 \"args\": {{\"value\": {value}}}"
            ));
        }
    }

    /// Write the `cuda_sync` records of synchronizing calls, event queries and event waits.
    pub(super) fn write_syncs(&mut self) {
        if self.view.hidden_syncs {
            return;
        }
        for sync in &self.outcome.syncs {
            let span = &self.outcome.spans[sync.call as usize];
            if self.view.hidden_spans[sync.call as usize] {
                continue;
            }
            let edge = (span.end - span.start) / 10;
            let at = (span.start + edge + self.view.offset, span.end - span.start - 2 * edge);
            let number = |stream: usize| self.program.streams[stream].number;
            let (name, track, waits) = match sync.kind {
                SyncKind::Context => ("Context Sync", -1, None),
                SyncKind::Stream(stream) => ("Stream Sync", number(stream), None),
                SyncKind::Event(record) => ("Event Sync", -1, Some(record)),
                SyncKind::StreamWait(stream, record) => ("Stream Wait Event", number(stream), Some(record)),
            };
            let shown_stream = if sync.kind == SyncKind::Context { 4_294_967_295 } else { track };
            let external = self.external_id(sync.call);
            let (records, ids) = (&self.outcome.records, &self.program.records);
            self.json.slice("cuda_sync", name, (0, track), at, |args| {
                if let Some(external) = external {
                    args.raw("External id", external);
                }
                args.text("cuda_sync_kind", name);
                if let Some(record) = waits {
                    let call = records[record].call;
                    args.raw("wait_on_stream", call.map_or(-1, |_| number(records[record].stream)));
                    args.raw("wait_on_cuda_event_record_corr_id", call.map_or(-1, |c| i64::from(correlation(c))));
                    args.raw("wait_on_cuda_event_id", ids[record]);
                }
                args.raw("stream", shown_stream);
                args.raw("correlation", correlation(sync.call));
                args.raw("device", 0);
                args.raw("context", 1);
            });
        }
    }

    /// Write each annotation again on the streams that ran its work, as `gpu_user_annotation`.
    pub(super) fn write_gpu_annotations(&mut self) {
        let mut marked: BTreeMap<(u32, usize), (i64, i64)> = BTreeMap::new();
        for (i, activity) in self.outcome.activities.iter().enumerate() {
            let call = &self.outcome.spans[activity.call as usize];
            let Some(mark) = self.enclosing_span(call, |outer| outer.kind == Kind::Annotation) else { continue };
            if self.view.hidden_activities[i] {
                continue;
            }
            let (start, end) = self.view.times[i];
            let span = marked.entry((mark, self.program.ops[activity.op].stream)).or_insert((start, end));
            *span = (span.0.min(start), span.1.max(end));
        }
        for ((mark, stream), (start, end)) in marked {
            let name = self.outcome.spans[mark as usize].name.clone();
            let track = (0, self.program.streams[stream].number);
            self.json.slice("gpu_user_annotation", &name, track, (start, end - start), |args| {
                args.raw("External id", mark + 1);
            });
        }
    }
}
