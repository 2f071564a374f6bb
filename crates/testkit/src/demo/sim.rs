//! Simulated machine of the demo: two host threads and three streams of one GPU.

use std::collections::BTreeMap;

use super::event::{Args, Event, Flow, Input, Memory, with_inputs};
use crate::rng::Rng;

/// Process id of the job.
pub(super) const PROCESS: i64 = 48_213;
/// Thread ids of the main thread and of the autograd engine's device thread.
pub(super) const THREADS: [i64; 2] = [PROCESS, 48_390];
/// Index of the main thread.
pub(super) const MAIN: usize = 0;
/// Index of the autograd thread.
pub(super) const AUTOGRAD: usize = 1;
/// Stream ids by index: compute, copy, NCCL.
pub(super) const STREAMS: [i64; 3] = [7, 20, 24];
/// Index of the stream that computes.
pub(super) const COMPUTE: usize = 0;
/// Index of the stream that loads batches.
pub(super) const COPY: usize = 1;
/// Index of the stream that runs collectives.
pub(super) const NCCL: usize = 2;

/// A recorded CUDA event: its stream, the call that recorded it, and the time of its completion.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recorded {
    correlation: u64,
    stream: usize,
    event: u64,
    done: i64,
}

/// State of a simulated stream, times in ns.
#[derive(Debug, Default, Clone, Copy)]
struct Stream {
    /// End of the last enqueued work.
    free: i64,
    /// Earliest start of work that is enqueued from now on.
    wait: i64,
}

/// GPU work to be launched: a kernel, copy or fill with its duration, but without a start time.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) category: &'static str,
    pub(super) name: String,
    /// Duration on the device in ns.
    pub(super) duration: i64,
    pub(super) stream: usize,
    /// Runtime call that launches it, and CUPTI's id of that call.
    pub(super) call: (&'static str, u32),
    /// Arguments that follow `correlation`.
    pub(super) args: Args,
}

/// State of the simulated machine: host clocks, stream queues, id counters, and the events so far.
#[derive(Debug)]
pub(super) struct Sim {
    pub(super) rng: Rng,
    /// Clock of each host thread, ns since the profiler was started.
    pub(super) now: [i64; 2],
    /// Thread whose program is being simulated.
    pub(super) thread: usize,
    streams: [Stream; 3],
    next_external: u64,
    next_correlation: u64,
    next_python: u64,
    next_event: u64,
    sequence: u64,
    flows: u64,
    modules: BTreeMap<String, u64>,
    open_ops: [Vec<usize>; 2],
    open_frames: [Vec<u64>; 2],
    free_blocks: BTreeMap<i64, Vec<u64>>,
    next_address: u64,
    allocated: i64,
    reserved: i64,
    /// Operators and annotations.
    pub(super) ops: Vec<Event>,
    /// Allocator instants.
    pub(super) memory: Vec<Memory>,
    /// Python frames.
    pub(super) frames: Vec<Event>,
    /// Runtime calls and device work.
    pub(super) device: Vec<Event>,
    /// Time range of each annotation on each stream: (index in `ops`, stream) to (start, end).
    pub(super) marked: BTreeMap<(usize, usize), (i64, i64)>,
}

impl Sim {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            now: [40_000, 0],
            thread: MAIN,
            streams: [Stream::default(); 3],
            next_external: 1,
            next_correlation: 1_000,
            next_python: 1,
            next_event: 1,
            sequence: 4_000,
            flows: 0,
            modules: BTreeMap::new(),
            open_ops: [Vec::new(), Vec::new()],
            open_frames: [Vec::new(), Vec::new()],
            free_blocks: BTreeMap::new(),
            next_address: 0x7f3a_4000_0000,
            allocated: 1_610_612_736,
            reserved: 1_610_612_736,
            ops: Vec::new(),
            memory: Vec::new(),
            frames: Vec::new(),
            device: Vec::new(),
            marked: BTreeMap::new(),
        }
    }

    /// Advance the clock of the current thread by about `ns`.
    pub(super) fn spend(&mut self, ns: i64) {
        self.now[self.thread] += self.rng.jitter(ns, 25);
    }

    /// Next autograd sequence number of the demo.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Next id of a flow arrow from a forward operator to its backward node.
    pub(super) fn next_flow(&mut self) -> u64 {
        self.flows += 1;
        self.flows
    }

    /// Begin an operator or annotation on the current thread; returns its index in `ops`.
    fn open(&mut self, category: &'static str, name: &str, extra: Args, inputs: &[Input]) -> usize {
        let args = Args::default().num("External id", self.next_external).num("Record function id", self.next_external);
        self.next_external += 1;
        let args = with_inputs(Args([args.0, extra.0].concat()), inputs);
        let (process, thread, start) = (PROCESS, THREADS[self.thread], self.now[self.thread]);
        let name = name.to_owned();
        self.ops.push(Event { category, name, process, thread, start, duration: 0, args, flow: None });
        self.open_ops[self.thread].push(self.ops.len() - 1);
        self.ops.len() - 1
    }

    /// End an operator or annotation at the clock of the current thread.
    fn close(&mut self, index: usize) {
        self.open_ops[self.thread].pop();
        self.ops[index].duration = self.now[self.thread] - self.ops[index].start;
    }

    /// Run `body` inside an operator with additional arguments; returns the operator's index in `ops`.
    pub(super) fn op_with(&mut self, name: &str, extra: Args, inputs: &[Input], body: impl FnOnce(&mut Self)) -> usize {
        let index = self.open("cpu_op", name, extra, inputs);
        self.spend(1_800);
        body(self);
        self.spend(700);
        self.close(index);
        index
    }

    /// Run `body` inside a simulated operator with these inputs; returns the operator's index in `ops`.
    pub(super) fn op(&mut self, name: &str, inputs: &[Input], body: impl FnOnce(&mut Self)) -> usize {
        self.op_with(name, Args::default(), inputs, body)
    }

    /// Run `body` inside a user annotation (`record_function`).
    pub(super) fn annotation(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        let index = self.open("user_annotation", name, Args::default(), &[]);
        self.spend(900);
        body(self);
        self.spend(400);
        self.close(index);
    }

    /// Run `body` inside a Python frame of the current thread.
    pub(super) fn frame(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        self.python(name, None, body);
    }

    /// Run `body` inside the call of an `nn.Module`.
    pub(super) fn module(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        let class = name.rsplit_once('_').map_or(name, |(class, _)| class).to_owned();
        let known = self.modules.len() as u64;
        let id = *self.modules.entry(class).or_insert(known);
        self.python(&format!("nn.Module: {name}"), Some(id), body);
    }

    /// Run `body` inside a Python frame, which may be the call of an `nn.Module` with this id.
    fn python(&mut self, name: &str, module: Option<u64>, body: impl FnOnce(&mut Self)) {
        let id = self.next_python;
        self.next_python += 1;
        let parent = self.open_frames[self.thread].last().map_or_else(|| "null".to_owned(), ToString::to_string);
        let mut args = Args::default().num("Python parent id", parent).num("Python id", id);
        if let Some(module) = module {
            args = args.num("Python module id", module);
        }
        let index = self.frames.len();
        let (process, thread, start) = (PROCESS, THREADS[self.thread], self.now[self.thread]);
        let (category, name) = ("python_function", name.to_owned());
        self.frames.push(Event { category, name, process, thread, start, duration: 0, args, flow: None });
        self.open_frames[self.thread].push(id);
        self.spend(1_200);
        body(self);
        self.spend(600);
        self.open_frames[self.thread].pop();
        self.frames[index].duration = self.now[self.thread] - self.frames[index].start;
    }

    /// Simulate a runtime call that takes about `ns` on the host; returns its correlation id and index in `device`.
    fn call(&mut self, name: &'static str, callback: u32, ns: i64) -> (u64, usize) {
        let correlation = self.next_correlation;
        self.next_correlation += self.rng.between(1, 4) as u64;
        let args = self.external_id().num("cbid", callback).num("correlation", correlation);
        let (process, thread, start) = (PROCESS, THREADS[self.thread], self.now[self.thread]);
        let duration = self.rng.jitter(ns, 20);
        let (category, name) = ("cuda_runtime", name.to_owned());
        self.device.push(Event { category, name, process, thread, start, duration, args, flow: None });
        self.now[self.thread] += duration + 150;
        (correlation, self.device.len() - 1)
    }

    /// Argument `External id` of the innermost open operator or annotation on the current thread; empty without one.
    fn external_id(&self) -> Args {
        match self.open_ops[self.thread].last() {
            Some(&op) => Args(vec![self.ops[op].args.0[0].clone()]),
            None => Args::default(),
        }
    }

    /// Simulate a runtime call that launches no GPU work. As in Kineto, it has the end of an arrow without a start.
    pub(super) fn query(&mut self, name: &'static str, callback: u32) {
        let (correlation, index) = self.call(name, callback, 900);
        self.device[index].flow = Some(Flow::End(correlation));
    }

    /// Launch simulated GPU work on its stream and return the end of its execution, ns.
    pub(super) fn launch(&mut self, work: Work) -> i64 {
        let issued = self.now[self.thread];
        let (correlation, index) = self.call(work.call.0, work.call.1, 5_200);
        self.device[index].flow = Some(Flow::Start(correlation));
        let arrives = issued + self.rng.jitter(7_500, 15).max(self.device[index].duration + 300);
        let gap = self.rng.between(850, 1_500);
        let stream = &mut self.streams[work.stream];
        let start = arrives.max(stream.free + gap).max(stream.wait + 1_100);
        stream.free = start + work.duration;
        let end = stream.free;
        if let Some(&mark) =
            self.open_ops[self.thread].iter().rev().find(|&&i| self.ops[i].category == "user_annotation")
        {
            let span = self.marked.entry((mark, work.stream)).or_insert((start, end));
            *span = (span.0.min(start), span.1.max(end));
        }
        let mut args = self.external_id();
        if work.category == "kernel" {
            args = args.num("queued", 0);
        }
        let id = STREAMS[work.stream];
        let mut args = args.num("device", 0).num("context", 1).num("stream", id).num("correlation", correlation);
        args.0.extend(work.args.0);
        self.push_device(work.category, work.name, id, (start, work.duration), args, correlation);
        end
    }

    /// Add a GPU activity or synchronization record with the end of its arrow.
    fn push_device(
        &mut self,
        category: &'static str,
        name: String,
        thread: i64,
        (start, duration): (i64, i64),
        args: Args,
        id: u64,
    ) {
        let flow = Some(Flow::End(id));
        self.device.push(Event { category, name, process: 0, thread, start, duration, args, flow });
    }

    /// Simulate `cudaEventRecord` on a stream; returns the recorded event.
    pub(super) fn record(&mut self, stream: usize) -> Recorded {
        let (correlation, index) = self.call("cudaEventRecord", 135, 1_300);
        self.device[index].flow = Some(Flow::End(correlation));
        let event = self.next_event;
        self.next_event += 1;
        Recorded { correlation, stream, event, done: self.streams[stream].free }
    }

    /// Simulate `cudaStreamWaitEvent`: later work of `stream` starts after `event`.
    pub(super) fn wait(&mut self, stream: usize, event: Recorded) {
        let issued = self.now[self.thread];
        let (correlation, index) = self.call("cudaStreamWaitEvent", 147, 1_500);
        self.device[index].flow = Some(Flow::Start(correlation));
        self.streams[stream].wait = self.streams[stream].wait.max(event.done);
        let args = self.external_id().text("cuda_sync_kind", "Stream Wait Event");
        let args = args.num("wait_on_stream", STREAMS[event.stream]);
        let args = args.num("wait_on_cuda_event_record_corr_id", event.correlation);
        let args = args.num("wait_on_cuda_event_id", event.event).num("stream", STREAMS[stream]);
        let args = args.num("correlation", correlation).num("device", 0).num("context", 1);
        let span = (issued + 300, self.device[index].duration - 500);
        self.push_device("cuda_sync", "Stream Wait Event".to_owned(), STREAMS[stream], span, args, correlation);
    }

    /// Simulate a synchronization: the host waits for one stream (`Some`) or the whole device (`None`).
    pub(super) fn synchronize(&mut self, stream: Option<usize>) {
        let issued = self.now[self.thread];
        let (call, callback, kind) = match stream {
            Some(_) => ("cudaStreamSynchronize", 131, "Stream Sync"),
            None => ("cudaDeviceSynchronize", 165, "Context Sync"),
        };
        let (correlation, index) = self.call(call, callback, 2_400);
        self.device[index].flow = Some(Flow::Start(correlation));
        let busy = match stream {
            Some(stream) => self.streams[stream].free,
            None => self.streams.iter().map(|s| s.free).max().unwrap_or(0),
        };
        let end = (issued + self.device[index].duration).max(busy + 3_100);
        self.device[index].duration = end - issued;
        self.now[self.thread] = end + 200;
        let args = self.external_id().text("cuda_sync_kind", kind);
        let args = args.num("stream", stream.map_or(4_294_967_295, |s| STREAMS[s]));
        let args = args.num("correlation", correlation).num("device", 0).num("context", 1);
        let thread = stream.map_or(-1, |s| STREAMS[s]);
        self.push_device("cuda_sync", kind.to_owned(), thread, (issued + 400, end - issued - 900), args, correlation);
    }

    /// Allocate `bytes` from the simulated caching allocator; returns the address and the rounded size of the block.
    pub(super) fn allocate(&mut self, bytes: i64) -> (u64, i64) {
        let bytes = (bytes + 511) / 512 * 512;
        let address = match self.free_blocks.get_mut(&bytes).and_then(Vec::pop) {
            Some(address) => address,
            None => {
                self.next_address += bytes as u64;
                self.next_address - bytes as u64
            }
        };
        self.note_memory(address, bytes);
        (address, bytes)
    }

    /// Free a memory block of the simulated caching allocator.
    pub(super) fn release(&mut self, (address, bytes): (u64, i64)) {
        self.free_blocks.entry(bytes).or_default().push(address);
        self.note_memory(address, -bytes);
    }

    /// Add the record of an allocation (positive `bytes`) or a release (negative).
    fn note_memory(&mut self, address: u64, bytes: i64) {
        self.allocated += bytes;
        self.reserved = self.reserved.max((self.allocated + 0x13f_ffff) / 0x140_0000 * 0x140_0000);
        let (thread, at) = (THREADS[self.thread], self.now[self.thread]);
        self.memory.push(Memory { thread, at, bytes, address, allocated: self.allocated, reserved: self.reserved });
        self.spend(250);
    }
}
