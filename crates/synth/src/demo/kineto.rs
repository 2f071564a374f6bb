//! Prints the simulated job in Kineto's layout: header, operators, allocator, Python frames, device work, metadata.

use std::fmt::Write;

use super::Config;
use super::event::{Event, Flow, numbers, quote};
use super::sim::{PROCESS, STREAMS, Sim, THREADS};

/// What event times are relative to, nanoseconds since 1970.
const BASE_NS: i64 = 1_759_276_800_000_000_000;
/// When the profiler was started, nanoseconds after the base.
const STARTED_NS: i64 = 3_817_262_118_402_417;

struct Out {
    text: String,
    first: bool,
    index: u64,
}

/// The whole file.
pub(super) fn write(sim: &Sim, config: &Config) -> String {
    let mut out = Out { text: header(config), first: true, index: 0 };
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
    out.marks(sim);
    out.metadata(sim);
    out.text.push_str("\n  ],\n\"traceName\": \"demo.json\",\n\"displayTimeUnit\": \"ms\",\n");
    let _ = write!(out.text, "\"baseTimeNanoseconds\": {BASE_NS}\n}}\n");
    out.text
}

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

/// Microseconds with three decimals.
fn micros(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}.{:03}", ns.abs() / 1000, ns.abs() % 1000)
}

fn stamp(ns: i64) -> String {
    micros(STARTED_NS + ns)
}

impl Out {
    fn next(&mut self) {
        self.text.push_str(if std::mem::take(&mut self.first) { "\n  {\n    " } else { ",\n  {\n    " });
    }

    fn index(&mut self) -> u64 {
        self.index += 1;
        self.index - 1
    }

    fn slice(&mut self, event: &Event, numbered: bool) {
        self.next();
        let Event { category, process, thread, start, duration, .. } = event;
        let name = quote(&event.name);
        let (ts, dur) = (stamp(*start), micros(*duration));
        let mut args: Vec<String> = event.args.0.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
        if numbered {
            args.push(format!("\"Ev Idx\": {}", self.index()));
        }
        let _ = write!(
            self.text,
            "\"ph\": \"X\", \"cat\": \"{category}\", \"name\": {name}, \"pid\": {process}, \"tid\": {thread},\n    \
             \"ts\": {ts}, \"dur\": {dur},\n    \"args\": {{\n      {}\n    }}\n  }}",
            args.join(", ")
        );
    }

    fn flow(&mut self, event: &Event, flow: Flow, category: &str) {
        self.next();
        let (phase, id, tail) = match flow {
            Flow::Start(id) => ('s', id, ""),
            Flow::End(id) => ('f', id, ", \"bp\": \"e\""),
        };
        let (process, thread, ts) = (event.process, event.thread, stamp(event.start));
        let _ = write!(
            self.text,
            "\"ph\": \"{phase}\", \"id\": {id}, \"pid\": {process}, \"tid\": {thread}, \"ts\": {ts},\n    \
             \"cat\": \"{category}\", \"name\": \"{category}\"{tail}\n  }}"
        );
    }

    fn memory(&mut self, memory: &super::event::Memory) {
        self.next();
        let (index, ts) = (self.index(), stamp(memory.at));
        let super::event::Memory { thread, bytes, address, allocated, reserved, .. } = memory;
        let _ = write!(
            self.text,
            "\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\", \"pid\": {PROCESS}, \"tid\": {thread},\n    \
             \"ts\": {ts},\n    \"args\": {{\n      \"Total Reserved\": {reserved}, \"Total Allocated\": {allocated}, \"Bytes\": {bytes}, \
             \"Addr\": {address}, \"Device Id\": 0, \"Device Type\": 1, \"Ev Idx\": {index}\n    }}\n  }}"
        );
    }

    /// Each annotation again on the streams that ran its work.
    fn marks(&mut self, sim: &Sim) {
        for (&(op, stream), &(start, end)) in &sim.marked {
            let mut event = sim.ops[op].clone();
            event.category = "gpu_user_annotation";
            (event.process, event.thread) = (0, STREAMS[stream]);
            (event.start, event.duration, event.flow) = (start, end - start, None);
            event.args.0.truncate(1);
            self.slice(&event, false);
        }
    }

    fn meta(&mut self, kind: &str, process: &str, thread: &str, args: &str) {
        self.next();
        let ts = stamp(20_000);
        let _ = write!(
            self.text,
            "\"name\": \"{kind}\", \"ph\": \"M\", \"ts\": {ts}, \"pid\": {process}, \"tid\": {thread},\n    \
             \"args\": {{\n      {args}\n    }}\n  }}"
        );
    }

    fn metadata(&mut self, sim: &Sim) {
        let processes = [(PROCESS, "CPU", PROCESS), (0, "GPU 0", 5_000_000)];
        for (process, label, order) in processes {
            let process = process.to_string();
            self.meta("process_name", &process, "0", "\"name\": \"python\"");
            self.meta("process_labels", &process, "0", &format!("\"labels\": \"{label}\""));
            self.meta("process_sort_index", &process, "0", &format!("\"sort_index\": {order}"));
        }
        for stream in STREAMS {
            self.meta("thread_name", "0", &stream.to_string(), &format!("\"name\": \"stream {stream} \""));
            self.meta("thread_sort_index", "0", &stream.to_string(), &format!("\"sort_index\": {stream}"));
        }
        for (thread, name) in THREADS.into_iter().zip(["pt_main_thread", "pt_autograd_0"]) {
            let (process, text) = (PROCESS.to_string(), thread.to_string());
            self.meta("thread_name", &process, &text, &format!("\"name\": \"thread {thread} ({name})\""));
            self.meta("thread_sort_index", &process, &text, &format!("\"sort_index\": {thread}"));
        }
        let end = sim.device.iter().chain(&sim.frames).map(|e| e.start + e.duration).max().unwrap_or(0);
        let (begin, whole, stop) = (stamp(0), micros(end + 1_000), stamp(end + 1_500));
        for text in [
            format!(
                "\"ph\": \"X\", \"cat\": \"Trace\", \"ts\": {begin}, \"dur\": {whole},\n    \"pid\": \"Spans\", \"tid\": \"PyTorch Profiler\",\n    \
                 \"name\": \"PyTorch Profiler (0)\",\n    \"args\": {{\n      \"Op count\": 0\n    }}"
            ),
            format!(
                "\"name\": \"process_sort_index\", \"ph\": \"M\", \"ts\": {begin},\n    \"pid\": \"Spans\", \"tid\": 0,\n    \
                 \"args\": {{\n      \"sort_index\": 536870912\n    }}"
            ),
            format!(
                "\"name\": \"Iteration Start: PyTorch Profiler\", \"ph\": \"i\", \"s\": \"g\",\n    \"pid\": \"Traces\", \
                 \"tid\": \"Trace PyTorch Profiler\", \"ts\": {begin}"
            ),
            format!(
                "\"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\",\n    \"pid\": \"\", \"tid\": \"\", \"ts\": {stop}"
            ),
        ] {
            self.next();
            self.text.push_str(&text);
            self.text.push_str("\n  }");
        }
    }
}
