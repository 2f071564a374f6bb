//! Recordings with devices: operations on tracks of queues, launches by correlation ID, clocks of devices, damage.

use super::*;
use stackline_ingest::recording::read_streams;
use stackline_model::{AttrValue, GpuOpId, TrackKind};
use stackline_recording::{
    Activity, ClockReading, CompiledOperation, CompiledProgram, CopyDirection, Device, Interface, Launch, MemoryKind,
    OperationClock, PeakRates, Queue, Work,
};

/// Begin of the first launch, `CLOCK_MONOTONIC`.
const BEGIN: i64 = 1_000_000_000;
/// Begin of the process, which is time 0 of its trace.
const BASE: i64 = 1_000;
/// Time by which the clock of device 1 is late.
const LATE: i64 = 5_000_000_000;

/// A stream with launches of one thread, and operations of queues.
struct DeviceScript {
    script: Script,
    last_launch: i64,
    last_operation: HashMap<u32, i64>,
}

impl DeviceScript {
    fn new(pid: u32) -> Self {
        let mut script = Script::new(process(pid, None));
        script.thread(0, pid, 1);
        Self { script, last_launch: 0, last_operation: HashMap::new() }
    }

    fn device(&mut self, device: Device) {
        self.script.records.push(Record::Device(Box::new(device)));
    }

    fn queue(&mut self, id: u32, device: u32, number: u64) {
        self.script.records.push(Record::Queue(Queue { id, device, number, ..Queue::default() }));
    }

    /// An operator around a launch call of 5 µs.
    fn launch(&mut self, correlation: u64, start: i64) {
        let (node, name) = (self.script.node(0, "aten::mm"), self.script.text("cudaLaunchKernel"));
        let (end, interface) = (start + 5_000, Interface::Runtime);
        let start_delta_ns = start - std::mem::replace(&mut self.last_launch, end);
        let launch = Launch { thread: 0, node, name, interface, correlation, start_delta_ns, duration_ns: 5_000 };
        self.script.records.push(Record::Launch(launch));
        self.script.call(0, "aten::mm", start - 1_000, end + 1_000);
    }

    fn operation(&mut self, queue: u32, correlation: u64, (start, end): (i64, i64), work: Work) {
        let last = self.last_operation.insert(queue, end).unwrap_or(0);
        let (start_delta_ns, duration_ns) = (start - last, (end - start).cast_unsigned());
        let activity = Activity { queue, correlation, start_delta_ns, duration_ns, work };
        self.script.records.push(Record::Activity(activity));
    }

    /// A kernel of 10 µs.
    fn kernel(&mut self, queue: u32, correlation: u64, start: i64, name: &str) {
        let name = self.script.text(name);
        let work = Work::Kernel { name, grid: [4, 2, 1], block: [256, 1, 1], shared_bytes: 1_024, registers: 32 };
        self.operation(queue, correlation, (start, start + 10_000), work);
    }

    /// Begin a chunk; returns the number of records before it.
    fn restart(&mut self) -> usize {
        let records = self.script.records.len();
        self.script.records.push(Record::Restart);
        self.script.last_end.clear();
        self.last_operation.clear();
        self.last_launch = 0;
        records
    }
}

fn gpu(id: u32, uuid: &str, clock: OperationClock) -> Device {
    let peak_rates =
        PeakRates { memory_bandwidth: Some(3.35e12), clock_rate: None, flops: vec![("bf16".to_owned(), 9.89e14)] };
    Device {
        id,
        number: id,
        name: "NVIDIA H100 80GB HBM3".to_owned(),
        uuid: uuid.to_owned(),
        memory_bytes: 80 << 30,
        multiprocessors: 132,
        warp_size: 32,
        compute_capability: Some((9, 0)),
        peak_rates,
        clock,
        ..Device::default()
    }
}

/// Two devices with three queues. The clock of the second device is late, one launch has no operation, and one
/// operation has no launch.
fn two_devices() -> Vec<u8> {
    let mut stream = DeviceScript::new(7);
    stream.device(gpu(0, "GPU-a", OperationClock::Host));
    stream.device(gpu(1, "GPU-b", OperationClock::Device));
    stream.queue(0, 0, 7);
    let nccl = Queue { id: 1, device: 0, number: 20, priority: -5, name: "nccl".to_owned() };
    stream.script.records.push(Record::Queue(nccl));
    stream.queue(2, 1, 7);
    for (correlation, at) in (1..5).zip([0, 100_000, 200_000, 300_000]) {
        stream.launch(correlation, BEGIN + at);
        stream.kernel(0, correlation, BEGIN + at + 8_000, "gemm");
    }
    stream.launch(99, BEGIN + 450_000);
    let copy = Work::Copy {
        direction: CopyDirection::DeviceToHost,
        from: MemoryKind::Device,
        to: MemoryKind::Pageable,
        bytes: 1_000_000,
    };
    stream.operation(1, 0, (BEGIN + 500_000, BEGIN + 600_000), copy);
    for (correlation, at) in (11_u64..15).zip([700_000, 801_000, 902_000, 1_003_000]) {
        let launched = 700_000 + 100_000 * (correlation.cast_signed() - 11);
        stream.launch(correlation, BEGIN + launched);
        stream.kernel(2, correlation, BEGIN + at + 8_000 - LATE, "relu");
    }
    stream.script.end()
}

/// Name, start and number of the stream of each operation, in their recorded order.
fn operations(trace: &Trace) -> Vec<(&str, i64, i64)> {
    let operation = |gpu: GpuOpId| {
        let event = trace.gpu.event[gpu.index()];
        (trace.name(event), trace.events.start[event.index()], trace.gpu.stream[gpu.index()])
    };
    trace.gpu.ids().map(operation).collect()
}

#[test]
fn operations_have_tracks_and_launches() {
    let trace = one(&two_devices());
    let tracks = trace.tracks.ids().filter(|&track| trace.tracks.get(track).kind == TrackKind::Stream);
    let tracks: Vec<_> = tracks
        .map(|track| {
            let of = trace.tracks.get(track);
            (trace.process_name(track), trace.track_name(track), of.device, of.stream)
        })
        .collect();
    let track =
        |process: &str, name: &str, device: i32, stream: i64| (process.to_owned(), name.to_owned(), device, stream);
    let expected = [track("GPU 0", "7", 0, 7), track("GPU 0", "nccl (priority -5)", 0, 20), track("GPU 1", "7", 1, 7)];
    assert_eq!(tracks, expected);
    let launched: Vec<_> = trace.gpu.ids().filter(|gpu| trace.gpu.launch[gpu.index()].is_some()).collect();
    assert_eq!((trace.gpu.len(), launched.len()), (9, 8));
    for gpu in launched {
        let (call, event) = (trace.gpu.launch[gpu.index()], trace.gpu.event[gpu.index()]);
        assert_eq!((trace.name(call), trace.kind(call)), ("cudaLaunchKernel", EventKind::Runtime));
        assert_eq!(trace.name(trace.gpu.operator[gpu.index()]), "aten::mm");
        let delay = trace.events.start[event.index()] - trace.events.start[call.index()];
        assert!((0..10_000).contains(&delay), "{delay}");
    }
    let count = |code: &str| trace.report.count_of(code);
    assert_eq!(["no_launch", "no_device_record", "device_clock_shifted"].map(count), [1, 1, 1]);
    let unexpected = ["dangling_record", "unknown_statement", "ambiguous_launch", "kernel_before_launch"];
    assert_eq!(unexpected.map(count), [0; 4]);
}

#[test]
fn operations_have_their_sizes() {
    let trace = one(&two_devices());
    let [first, copy] = [0, 4].map(|at: usize| trace.gpu.event[at]);
    let json = |key: &str| match trace.attr(key).get(first) {
        Some(AttrValue::Json(text)) => trace.strings.get(text),
        other => panic!("{other:?}"),
    };
    assert_eq!([json("grid"), json("block")], ["[4,2,1]", "[256,1,1]"]);
    assert_eq!(trace.attr("registers per thread").i64(first), Some(32));
    assert_eq!((trace.name(copy), trace.kind(copy)), ("Memcpy DtoH (Device -> Pageable)", EventKind::Memcpy));
    assert_eq!(trace.attr("bytes").i64(copy), Some(1_000_000));
    assert_eq!(trace.attr("memory bandwidth (GB/s)").get(copy), Some(AttrValue::Float(10.0)));
    let devices = trace.meta.devices();
    assert_eq!(devices.iter().map(|device| device.number).collect::<Vec<_>>(), [Some(0), Some(1)]);
    for device in devices {
        assert_eq!((device.memory_bytes, device.multiprocessors), (Some(80 << 30), Some(132)));
        assert_eq!((device.memory_bandwidth, device.peak_flops.bf16), (Some(3.35e12), Some(9.89e14)));
        assert_eq!((device.name.as_deref(), device.clock_rate), (Some("NVIDIA H100 80GB HBM3"), None));
    }
}

/// Without readings, the launches show the difference of the clocks: the quickest one seems to take no time.
#[test]
fn late_clocks_are_shifted_by_launches() {
    let trace = one(&two_devices());
    let starts: Vec<i64> = operations(&trace).into_iter().filter(|one| one.0 == "relu").map(|one| one.1).collect();
    let at = |ns: i64| BEGIN + ns - BASE;
    assert_eq!(starts, [at(700_000), at(801_000), at(902_000), at(1_003_000)]);
    let shifts: Vec<_> = trace.meta.clocks.iter().map(|clock| (clock.device, clock.applied_ns)).collect();
    assert_eq!(shifts, [(0, 0), (1, LATE - 8_000)]);
}

/// The clock of the device is late and loses 100 µs in the second between two readings.
#[test]
fn readings_convert_the_times_of_a_device() {
    let mut stream = DeviceScript::new(7);
    stream.device(Device { id: 0, ..gpu(1, "GPU-b", OperationClock::Device) });
    stream.queue(0, 0, 7);
    let device_ns = BEGIN - LATE;
    for (passed, host_passed) in [(0, 0), (1_000_000_000, 1_000_100_000)] {
        let reading =
            ClockReading { device: 0, device_ns: device_ns + passed, host_ns: BEGIN + host_passed, error_ns: 500 };
        stream.script.records.push(Record::Clock(reading));
    }
    stream.launch(1, BEGIN + 500_040_000);
    stream.kernel(0, 1, device_ns + 500_000_000, "gemm");
    let trace = one(&stream.script.end());
    assert_eq!(operations(&trace), [("gemm", BEGIN + 500_050_000 - BASE, 7)]);
    let event = trace.gpu.event[0];
    assert_eq!((trace.events.dur[event.index()], trace.gpu.device[0]), (10_001, 1));
    assert_eq!(trace.report.count_of("device_clock_shifted"), 0);
}

/// Each process counts devices, queues and correlation IDs from the start.
#[test]
fn processes_of_a_trace_keep_their_own_launches() {
    let file = |pid: u32, uuid: &str| {
        let mut stream = DeviceScript::new(pid);
        stream.device(gpu(0, uuid, OperationClock::Host));
        stream.queue(0, 0, 7);
        for (correlation, at) in (1..4).zip([0, 100_000, 200_000]) {
            stream.launch(correlation, BEGIN + at);
            stream.kernel(0, correlation, BEGIN + at + 8_000, &format!("kernel of {pid}"));
        }
        stream.script.end()
    };
    for (uuid, devices) in [("GPU-b", vec![0, 1]), ("GPU-a", vec![0])] {
        let files = [file(7, "GPU-a"), file(8, uuid)];
        let mut set = traces_of("run", [("7.slr", &files[0][..]), ("8.slr", &files[1])]);
        assert_eq!(set.traces.len(), 1);
        let trace = set.traces.remove(0);
        for gpu in trace.gpu.ids() {
            let (call, event) = (trace.gpu.launch[gpu.index()], trace.gpu.event[gpu.index()]);
            let pid = trace.key_text(trace.tracks.pid(trace.events.track[call.index()]));
            assert_eq!(trace.name(event), format!("kernel of {pid}"));
        }
        let mut numbers: Vec<i32> = trace.gpu.device.clone();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((numbers, trace.meta.devices().len()), (devices.clone(), devices.len()));
        let streams = trace.tracks.tracks.iter().filter(|track| track.kind == TrackKind::Stream);
        assert_eq!(streams.count(), 2, "queues of two processes");
        assert_eq!(trace.report.count_of("ambiguous_launch"), 0);
    }
}

/// The second of three chunks is torn. It defines a queue that the third one uses.
#[test]
fn torn_chunks_hide_only_their_own_operations() {
    let mut stream = DeviceScript::new(7);
    stream.device(gpu(0, "GPU-a", OperationClock::Host));
    stream.queue(0, 0, 7);
    stream.script.node(0, "aten::mm");
    for text in ["cudaLaunchKernel", "early", "late"] {
        stream.script.text(text);
    }
    let second = stream.restart();
    stream.queue(1, 0, 20);
    for (correlation, at) in (1..4).zip([0, 100_000, 200_000]) {
        stream.launch(correlation, BEGIN + at);
        stream.kernel(0, correlation, BEGIN + at + 8_000, "early");
    }
    let third = stream.restart();
    for (correlation, at) in (4..7).zip([300_000, 400_000, 500_000]) {
        stream.launch(correlation, BEGIN + at);
        stream.kernel(0, correlation, BEGIN + at + 8_000, "late");
    }
    stream.launch(7, BEGIN + 600_000);
    stream.kernel(1, 7, BEGIN + 608_000, "late");
    stream.script.records.push(Record::End { at_ns: 1 });
    let records = &stream.script.records;
    let chunk = |records: &[Record]| written(records)[HEADER.len()..].to_vec();
    let (first, torn, last) = (chunk(&records[..second]), chunk(&records[second..third]), chunk(&records[third..]));
    let whole = [HEADER.as_slice(), &first, &torn, &last].concat();
    let expected = one(&whole);
    assert_eq!((expected.gpu.len(), expected.report.is_clean()), (7, true), "{:?}", expected.report.problems);
    for kept in [1, torn.len() / 2, torn.len() - 1] {
        let file = [HEADER.as_slice(), &first, &torn[..kept], &last].concat();
        let trace = one(&file);
        let late: Vec<_> = operations(&expected).into_iter().filter(|one| one.0 == "late" && one.2 == 7).collect();
        assert_eq!(operations(&trace), late, "{kept} bytes");
        assert!(trace.gpu.launch.iter().all(|call| call.is_some()));
        let count = |code: &str| trace.report.count_of(code);
        assert_eq!(["damaged_chunk", "dangling_record"].map(count), [1, 1], "{kept} bytes");
    }
    let tree = read_streams([("7.slr", &whole[..])]);
    assert_eq!((tree.check(), tree.report.count_of("unknown_statement")), (Ok(()), 0));
}

/// Kernels of a compiled program have its operators, unless two programs differ in the kernel.
#[test]
fn kernels_of_compiled_programs_have_operators() {
    let mut stream = DeviceScript::new(7);
    stream.device(gpu(0, "GPU-a", OperationClock::Host));
    stream.queue(0, 0, 7);
    let operation = |kernel: &str, line: u32| CompiledOperation {
        kernel: kernel.to_owned(),
        operator: "jit(f)/tanh".to_owned(),
        fused: vec!["jit(f)/mul".to_owned(), "jit(f)/tanh".to_owned()],
        file: "a.py".to_owned(),
        line,
    };
    for (name, line) in [("jit_f", 5), ("jit_g", 9)] {
        let operations = vec![operation("fusion_1", 5), operation("fusion_2", line)];
        stream.script.records.push(Record::Compiled(CompiledProgram { name: name.to_owned(), operations }));
    }
    for (name, at) in [("fusion_1", 0), ("fusion_2", 20_000), ("gemm", 40_000)] {
        stream.kernel(0, 0, BEGIN + at, name);
    }
    let trace = one(&stream.script.end());
    let text = |key: &str, at: usize| match trace.attr(key).get(trace.gpu.event[at]) {
        Some(AttrValue::Str(text)) => Some(trace.strings.get(text)),
        _ => None,
    };
    assert_eq!([0, 1, 2].map(|at| text("source", at)), [Some("a.py:5"), None, None]);
    assert_eq!(text("op_name", 0), Some("jit(f)/tanh"));
    let fusions = trace.fusions();
    assert_eq!(fusions.len(), 1);
    assert_eq!(fusions[0].operators, ["jit(f)/mul", "jit(f)/tanh"]);
}

/// Processes without operators and samples have a trace, too.
#[test]
fn operations_alone_form_a_trace() {
    let mut stream = DeviceScript::new(7);
    stream.device(gpu(0, "GPU-a", OperationClock::Host));
    stream.queue(0, 0, 7);
    stream.kernel(0, 1, BEGIN, "gemm");
    let trace = one(&stream.script.end());
    assert_eq!(operations(&trace), [("gemm", BEGIN - BASE, 7)]);
    assert_eq!(trace.report.count_of("no_launch"), 1);
}
