//! Writer of the simulated program in Kineto's format: header, operators, allocator, Python frames, GPU work,
//! metadata.

use super::Config;
use super::event::{Event, Flow, numbers};
use super::sim::{PROCESS, STREAMS, Sim, THREADS};
use crate::kineto::Writer;

/// Base of the event times, nanoseconds since 1970.
const BASE_NS: i64 = 1_759_276_800_000_000_000;
/// Start of the profiler, nanoseconds after the base.
const STARTED_NS: i64 = 3_817_262_118_402_417;

/// Trace that is being written, and the number of events with an index.
struct Out {
    json: Writer,
    index: u64,
}

/// Write the simulated program as a whole trace file in Kineto's format.
pub(super) fn write(sim: &Sim, config: &Config) -> String {
    let mut out = Out { json: Writer::new(header(config), STARTED_NS), index: 0 };
    let mut ops: Vec<&Event> = sim.ops.iter().collect();
    ops.sort_by_key(|e| e.start);
    for event in ops {
        out.slice(event, true);
        if let Some(flow) = event.flow {
            out.flow(event, flow, "fwdbwd");
        }
    }
    for memory in &sim.memory {
        out.memory(memory);
    }
    for frame in &sim.frames {
        out.slice(frame, true);
    }
    for event in &sim.device {
        out.slice(event, false);
        if let Some(flow) = event.flow {
            out.flow(event, flow, "ac2g");
        }
    }
    out.gpu_annotations(sim);
    out.metadata(sim);
    out.json.finish("demo.json", BASE_NS)
}

/// JSON text before the event list: device, versions and process group.
fn header(config: &Config) -> String {
    let ranks = numbers(&(0..i64::from(config.world)).collect::<Vec<_>>());
    let device = "\"id\": 0, \"name\": \"NVIDIA H100 80GB HBM3\", \"totalGlobalMem\": 85017755648,\n      \"computeMajor\": 9, \"computeMinor\": 0,\n      \
                  \"maxThreadsPerBlock\": 1024, \"maxThreadsPerMultiprocessor\": 2048,\n      \"regsPerBlock\": 65536, \"warpSize\": 32,\n      \
                  \"sharedMemPerBlock\": 49152, \"numSms\": 132,\n      \"regsPerMultiprocessor\": 65536, \"sharedMemPerBlockOptin\": 232448, \
                  \"sharedMemPerMultiprocessor\": 233472";
    let (rank, world) = (config.rank, config.world);
    format!(
        "{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {{\n      {device}\n    }}\n  ],\n  \
         \"cupti_version\": 26,\n  \"cuda_runtime_version\": 12080,\n  \"cuda_driver_version\": 12080,\n  \
         \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {rank}, \"world_size\": {world}, \"pg_count\": 1, \
         \"pg_config\": [{{\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", \"backend_config\": \"cuda:nccl\", \"pg_size\": {world}, \
         \"ranks\": {ranks}}}], \"nccl_version\": \"2.26.2\"}},\n  \"record_shapes\": 1,\n  \"profile_memory\": 1,\n  \"with_stack\": 1,\n  \
         \"with_modules\": 1,\n  \"traceEvents\": ["
    )
}

impl Out {
    /// Next value of `Ev Idx`.
    fn index(&mut self) -> u64 {
        self.index += 1;
        self.index - 1
    }

    fn slice(&mut self, event: &Event, numbered: bool) {
        let index = numbered.then(|| self.index());
        let Event { category, process, thread, start, duration, .. } = event;
        self.json.slice(category, &event.name, (process, thread), (*start, *duration), |args| {
            for (key, value) in &event.args.0 {
                args.raw(key, value);
            }
            if let Some(index) = index {
                args.raw("Ev Idx", index);
            }
        });
    }

    fn flow(&mut self, event: &Event, flow: Flow, category: &str) {
        self.json.flow(category, flow, (&event.process, &event.thread), event.start);
    }

    fn memory(&mut self, memory: &super::event::Memory) {
        let (index, ts) = (self.index(), self.json.stamp(memory.at));
        let super::event::Memory { thread, bytes, address, allocated, reserved, .. } = memory;
        self.json.record(format_args!(
            "\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\", \"pid\": {PROCESS}, \"tid\": {thread},\n    \
             \"ts\": {ts},\n    \"args\": {{\n      \"Total Reserved\": {reserved}, \"Total Allocated\": {allocated}, \"Bytes\": {bytes}, \
             \"Addr\": {address}, \"Device Id\": 0, \"Device Type\": 1, \"Ev Idx\": {index}\n    }}"
        ));
    }

    /// Write each annotation again on the streams that ran its work, as `gpu_user_annotation`.
    fn gpu_annotations(&mut self, sim: &Sim) {
        for (&(op, stream), &(start, end)) in &sim.marked {
            let mut event = sim.ops[op].clone();
            event.category = "gpu_user_annotation";
            (event.process, event.thread) = (0, STREAMS[stream]);
            (event.start, event.duration, event.flow) = (start, end - start, None);
            event.args.0.truncate(1);
            self.slice(&event, false);
        }
    }

    fn metadata(&mut self, sim: &Sim) {
        let json = &mut self.json;
        for (process, label, order) in [(PROCESS, "CPU", PROCESS), (0, "GPU 0", 5_000_000)] {
            json.process(process, label, order);
        }
        for stream in STREAMS {
            json.thread(0, stream, &format!("stream {stream} "));
        }
        for (thread, name) in THREADS.into_iter().zip(["pt_main_thread", "pt_autograd_0"]) {
            json.thread(PROCESS, thread, &format!("thread {thread} ({name})"));
        }
        let end = sim.device.iter().chain(&sim.frames).map(|e| e.start + e.duration).max().unwrap_or(0);
        json.recording(0, end + 1_000, end + 1_500);
    }
}
