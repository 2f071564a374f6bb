//! Memory traces of hand-written recording streams.

use stackline_ingest::ReadOptions;
use stackline_ingest::recording::{is_shown_by, memory_of, read_memory, read_traces};
use stackline_model::{AccessMode, FrameKind, MemoryCallKind, MemoryObjectKind, MemoryTrace, call_flags};
use stackline_recording::{CallDetail, ChunkWriter, FrameKey, HEADER, Process, Record, TensorPart, Thread, TouchKind};

/// Operators that may be called: node 1, 2, and so on.
const OPERATORS: [&str; 6] = ["aten::add", "aten::mul_", "aten::empty", "aten::linear", "aten::zero_", "aten::copy_"];

/// A stream of one thread, with the state for deltas.
pub(crate) struct Stream {
    records: Vec<Record>,
    touched: (i64, i64),
    ended: i64,
}

impl Stream {
    pub(crate) fn new() -> Self {
        let thread = Thread { id: 0, tid: 7, torch_id: 0, name: "main".into() };
        let mut records = vec![Record::Process(Box::default()), Record::Thread(thread)];
        for (id, text) in OPERATORS.iter().enumerate() {
            let id = id as u32;
            records.push(Record::Text { id, text: (*text).into() });
            records.push(Record::Frame { id, key: FrameKey::Operator { name: id } });
            records.push(Record::Node { thread: 0, id: id + 1, parent: 0, frame: id });
        }
        Self { records, touched: (0, 0), ended: 0 }
    }

    pub(crate) fn touch(mut self, at: i64, node: u32, kind: TouchKind, address: i64, bytes: u64) -> Self {
        let (before, last) = std::mem::replace(&mut self.touched, (at, address));
        let (delta_ns, address_delta) = (at - before, address - last);
        self.records.push(Record::Touch { thread: 0, node, delta_ns, kind, address_delta, bytes });
        self
    }

    pub(crate) fn call(mut self, node: u32, start: i64, end: i64) -> Self {
        let start_delta_ns = start - std::mem::replace(&mut self.ended, end);
        let duration_ns = (end - start).cast_unsigned();
        self.records.push(Record::Call { thread: 0, node, start_delta_ns, duration_ns, detail: CallDetail::None });
        self
    }

    fn with(mut self, record: Record) -> Self {
        self.records.push(record);
        self
    }

    pub(crate) fn of_process(mut self, pid: u32, rank: Option<u32>) -> Self {
        self.records[0] = Record::Process(Box::new(Process { pid, rank, ..Process::default() }));
        self
    }

    pub(crate) fn file(self) -> Vec<u8> {
        self.with(Record::End { at_ns: 1000 }).file_without_end()
    }

    pub(crate) fn file_without_end(self) -> Vec<u8> {
        let mut chunk = ChunkWriter::new();
        for record in &self.records {
            chunk.push(record).unwrap();
        }
        let mut file = HEADER.to_vec();
        file.extend_from_slice(chunk.finish());
        file
    }

    fn read(self) -> MemoryTrace {
        let trace = memory_of("stream", &self.file()).unwrap();
        trace.check().unwrap();
        trace
    }
}

/// Kind of a call, its flags, and object index and mode of its accesses.
pub(crate) type Happened = (MemoryCallKind, u8, Vec<(usize, AccessMode)>);

pub(crate) fn listing(trace: &MemoryTrace) -> Vec<Happened> {
    let accesses = |call| trace.accesses_of(call).map(|access| (access.object.index(), access.mode)).collect();
    trace
        .calls
        .ids()
        .map(|call| (trace.calls.kind[call.index()], trace.calls.flags[call.index()], accesses(call)))
        .collect()
}

use MemoryCallKind::{Allocate, CopyOnDevice, Free, Kernel, Set};
use TouchKind::{Allocated, Freed, Input};

#[test]
fn callees_access_forwarded_inputs_and_results_are_writes() {
    let trace = Stream::new()
        .touch(10, 0, Allocated, 0x1000, 64)
        .touch(20, 4, Input(0), 0x1000, 64)
        .touch(22, 1, Input(0), 0x1000, 64)
        .touch(24, 3, Allocated, 0x2000, 64)
        .touch(30, 2, Input(0), 0x2000, 64)
        .call(3, 23, 25)
        .call(1, 22, 28)
        .call(2, 30, 35)
        .call(4, 20, 40)
        .read();
    let expected = vec![
        (Allocate, 0, vec![]),
        (Allocate, call_flags::WITHIN_OPERATOR, vec![]),
        (Kernel, 0, vec![(0, AccessMode::Read), (1, AccessMode::Write)]),
        (Kernel, 0, vec![(1, AccessMode::Both)]),
    ];
    assert_eq!(listing(&trace), expected);
    assert!(trace.saw_end && trace.has_accesses && trace.report.problems.is_empty());
    assert_eq!(trace.calls.start_ns[2..], [22, 30], "a call begins when the operator does");
}

/// Calls are written when they end, with a clock rate that may have changed since their tensors were written. By its
/// time, this call began before its memory was allocated. By the order of the thread it did not.
#[test]
fn allocations_precede_uses_at_equal_times() {
    for skew in [-3000, -60, 0, 60, 3000] {
        let trace = Stream::new()
            .touch(10_000, 0, Allocated, 0x1000, 64)
            .touch(20_000, 0, Allocated, 0x2000, 8)
            .touch(20_050, 2, Input(0), 0x1000, 64)
            .touch(20_050, 2, Input(1), 0x2000, 8)
            .touch(20_900, 0, Freed, 0x2000, 8)
            .call(2, 20_050 + skew, 20_800 + skew)
            .read();
        let kinds = [Allocate, Allocate, Kernel, Free];
        assert_eq!(listing(&trace).iter().map(|call| call.0).collect::<Vec<_>>(), kinds, "{skew}");
        assert_eq!(listing(&trace)[2].2, [(0, AccessMode::Both), (1, AccessMode::Read)], "{skew}");
        assert!(trace.report.problems.is_empty(), "{:?}", trace.report.problems);
    }
    // A free that precedes its allocation by the clock follows it nevertheless.
    let back = Stream::new().touch(10_000, 0, Allocated, 0x1000, 64).touch(9_990, 0, Freed, 0x1000, 64).read();
    assert_eq!((back.objects.len(), back.report.problems.len()), (1, 0));
}

/// A name belongs to the memory at its address at that time, and the first of several is kept. A name may precede the
/// first use of the memory, but not outlive the memory.
#[test]
fn tensor_names_apply_to_the_object_live_at_their_time() {
    let name = |id, module: &str, part| Record::TensorName { id, module: module.into(), name: "weight".into(), part };
    let named = |at_ns, address, name| Record::Named { at_ns, address, name };
    let trace = Stream::new()
        .with(name(0, "", TensorPart::Parameter))
        .with(name(1, "net.head", TensorPart::State("exp_avg".into())))
        .with(name(2, "net.head", TensorPart::Buffer))
        .touch(10, 0, Allocated, 0x1000, 64)
        .touch(20, 0, Freed, 0x1000, 64)
        .touch(30, 0, Allocated, 0x1000, 64)
        .touch(40, 0, Allocated, 0x2000, 64)
        .touch(50, 1, Input(0), 0x9000, 64)
        .call(1, 50, 55)
        .with(named(25, 0x1000, 0))
        .with(named(35, 0x1000, 1))
        .with(named(36, 0x1000, 2))
        .with(named(45, 0x9000, 2))
        .with(named(46, 0x2020, 2))
        .with(named(47, 0x2000, 7))
        .with(name(1, "net", TensorPart::State("exp_avg".into())))
        .read();
    let text = |id| trace.strings.get(id);
    let names: Vec<(&str, &str, MemoryObjectKind)> = (0..trace.objects.len())
        .map(|row| (text(trace.objects.name[row]), text(trace.objects.module[row]), trace.objects.kind[row]))
        .collect();
    let expected = [
        ("", "", MemoryObjectKind::Temporary),
        ("net.weight.exp_avg", "net", MemoryObjectKind::OptimizerState),
        ("", "", MemoryObjectKind::Unknown),
        ("net.head.weight", "net.head", MemoryObjectKind::Foreign),
    ];
    assert_eq!(names, expected);
    assert_eq!(trace.report.problems.len(), 1, "a name that is not there: {:?}", trace.report.problems);
}

#[test]
fn reused_addresses_imply_a_preceding_free() {
    let trace = Stream::new().touch(10, 0, Allocated, 0x1000, 64).touch(20, 0, Allocated, 0x1020, 64).read();
    let expected = vec![(Allocate, 0, vec![]), (Free, call_flags::INFERRED, vec![]), (Allocate, 0, vec![])];
    assert_eq!(listing(&trace), expected);
    assert_eq!(trace.report.problems.len(), 1);
    assert!(!trace.has_accesses, "nobody said what operators were called with");
}

#[test]
fn foreign_memory_ends_at_an_allocation_of_its_address() {
    let trace = Stream::new()
        .touch(10, 0, Allocated, 0x1100, 64)
        .touch(20, 1, Input(0), 0x1000, 4096)
        .call(1, 20, 25)
        .touch(30, 0, Freed, 0x1100, 0)
        .read();
    assert_eq!(trace.objects.bytes, [64, 0x100]);
    assert_eq!(trace.objects.kind[1], MemoryObjectKind::Foreign);
    assert!(trace.objects.freed_by[0].is_some() && trace.report.problems.is_empty());
}

/// The recording ended before an operator ran, and the report states this.
#[test]
fn windows_without_operators_are_reported() {
    let window = |at_ns, open| Record::Window { at_ns, step: 0, open, at_step: false };
    let is_reported =
        |trace: &MemoryTrace| !trace.has_accesses && stackline_ingest::diagnostics::is_outside_window(&trace.report);
    let early = || Stream::new().touch(10, 0, Allocated, 0x1000, 64);
    assert!(is_reported(&early().with(window(5, true)).with(window(8, false)).read()));
    assert!(!is_reported(&early().read()), "all was recorded");
    let with = early().touch(20, 1, Input(0), 0x1000, 64).call(1, 20, 25).with(window(5, true)).with(window(30, false));
    assert!(!is_reported(&with.read()));
}

#[test]
fn pauses_and_dropped_records_may_access_all_objects() {
    let plain = || Stream::new().touch(10, 0, Allocated, 0x1000, 64).touch(20, 1, Input(0), 0x1000, 64).call(1, 20, 25);
    let opaque = |trace: &MemoryTrace| trace.calls.ids().filter(|&call| trace.calls.is_opaque(call)).count();
    assert_eq!(opaque(&plain().read()), 0);
    let paused = plain().with(Record::Window { at_ns: 30, step: 1, open: false, at_step: true }).read();
    assert_eq!((opaque(&paused), paused.saw_end), (1, true));
    let lost = plain().with(Record::Lost { what: "touches_too_fast".into(), count: 3 }).read();
    assert_eq!((opaque(&lost), lost.saw_end), (2, false), "frees may be among what was lost");
    let unnamed = plain().with(Record::Lost { what: "names_over_limit".into(), count: 3 }).read();
    assert_eq!((opaque(&unnamed), unnamed.saw_end), (0, true), "names touch nothing");
    let problem = &unnamed.report.problems[0];
    assert!(problem.count == 3 && problem.example.contains("names_over_limit"), "{problem:?}");
}

#[test]
fn dangling_references_are_counted() {
    let process = Process { pid: 3, ..Process::default() };
    let trace = Stream::new()
        .with(Record::Process(Box::new(process)))
        .touch(10, 99, Allocated, 0x1000, 64)
        .touch(20, 0, Freed, 0x5000, 8)
        .touch(30, 0, Allocated, i64::MAX, u64::MAX)
        .read();
    assert_eq!(trace.objects.len(), 1);
    assert_eq!(trace.report.problems.len(), 2, "{:?}", trace.report.problems);
}

/// `torch.zeros` and a copy: they fill memory that was not used then.
#[test]
fn fills_are_not_uses() {
    let trace = Stream::new()
        .touch(10, 0, Allocated, 0x1000, 64)
        .touch(20, 5, Input(0), 0x1000, 64)
        .call(5, 20, 25)
        .touch(30, 0, Allocated, 0x2000, 64)
        .touch(40, 6, Input(0), 0x2000, 64)
        .touch(40, 6, Input(1), 0x1000, 64)
        .call(6, 40, 45)
        .read();
    let expected = vec![
        (Allocate, 0, vec![]),
        (Set, 0, vec![(0, AccessMode::Write)]),
        (Allocate, 0, vec![]),
        (CopyOnDevice, 0, vec![(1, AccessMode::Write), (0, AccessMode::Read)]),
    ];
    assert_eq!(listing(&trace), expected);
}

/// `aten::linear` allocates memory, works on other memory, and only then uses its own. The program's allocation is used
/// by an operator that did not allocate it.
#[test]
fn temporaries_of_operators_are_marked() {
    let trace = Stream::new()
        .touch(5, 0, Allocated, 0x9000, 64)
        .touch(10, 4, Input(0), 0x9000, 64)
        .touch(12, 4, Allocated, 0x1000, 64)
        .touch(14, 2, Input(0), 0x9000, 64)
        .call(2, 14, 16)
        .touch(18, 2, Input(0), 0x1000, 64)
        .call(2, 18, 20)
        .call(4, 10, 30)
        .touch(40, 2, Input(0), 0x1000, 64)
        .call(2, 40, 42)
        .read();
    let flags: Vec<u8> = trace.objects.allocated_by.iter().map(|call| trace.calls.flags[call.index()]).collect();
    assert_eq!(flags, [0, call_flags::WITHIN_OPERATOR]);
}

/// One call with a list of as many tensors as the recorder takes, so it may have accessed more. Each one is also passed
/// to an inner call, so the outer one accesses none. The time is proportional to the number of tensors.
#[test]
fn tensor_lists_are_forwarded_element_by_element() {
    let count = 4096;
    let mut stream = Stream::new();
    for at in 0..count {
        stream = stream.touch(10, 4, Input(0), 0x1000 + at * 64, 64);
    }
    for at in 0..count {
        stream =
            stream.touch(1000 + 10 * at, 2, Input(0), 0x1000 + at * 64, 64).call(2, 1000 + 10 * at, 1005 + 10 * at);
    }
    let trace = stream.call(4, 10, 1_000_000).read();
    assert_eq!(trace.accesses.len(), count as usize);
    assert_eq!(trace.calls.len(), count as usize, "the outer one touches nothing itself");
    let mut stream = Stream::new();
    for at in 0..count {
        stream = stream.touch(10, 4, Input(0), 0x1000 + at * 64, 64);
    }
    let trace = stream.call(4, 10, 1_000_000).read();
    assert_eq!((trace.calls.len(), trace.calls.flags[0]), (1, call_flags::OPAQUE));
}

/// Parameters of an inference are never updated: objects that modules did not create, read repeatedly, and that are
/// never freed.
#[test]
fn objects_that_modules_read_repeatedly_are_parameters() {
    let mut stream = Stream::new();
    let (text, frame) = (OPERATORS.len() as u32, OPERATORS.len() as u32);
    let (module, node) = (frame + 1, frame + 2);
    for record in [
        Record::Text { id: text, text: "encoder".into() },
        Record::Frame { id: frame, key: FrameKey::Module { path: text, class: text } },
        Record::Node { thread: 0, id: module, parent: 0, frame },
        Record::Node { thread: 0, id: node, parent: module, frame: 0 },
    ] {
        stream = stream.with(record);
    }
    // Weight and freed weight, a batch that is kept, and a kept result in each of two calls.
    stream = stream.touch(10, 0, Allocated, 0x1000, 64).touch(11, 0, Allocated, 0x2000, 64);
    for (call, batch) in [(100, 0x3000), (200, 0x4000)] {
        stream = stream
            .touch(call, 0, Allocated, batch, 64)
            .touch(call + 10, node, Input(0), batch, 64)
            .touch(call + 10, node, Input(1), 0x1000, 64)
            .touch(call + 10, node, Input(2), 0x2000, 64)
            .touch(call + 15, node, Allocated, batch + 0x4000, 64)
            .call(node, call + 10, call + 20);
    }
    let trace = stream.touch(300, 0, Freed, 0x2000, 64).read();
    let kinds = [0x1000, 0x2000, 0x3000, 0x4000, 0x7000, 0x8000].map(|address| {
        let row = trace.objects.address.iter().position(|known| *known == address).unwrap();
        trace.objects.kind[row]
    });
    use MemoryObjectKind::{Parameter, Temporary, Unknown};
    assert_eq!(kinds, [Parameter, Temporary, Unknown, Unknown, Unknown, Unknown]);
}

/// Same as in the trace of the recording: a finding does not depend on the program's folder.
#[test]
fn file_names_are_relative_to_the_working_directory() {
    let text = OPERATORS.len() as u32;
    let process = Process { command: vec!["python".into(), "run/train.py".into()], ..Process::default() };
    let mut stream = Stream::new();
    stream.records[0] = Record::Process(Box::new(process));
    let files = ["/data/me/run/train.py", "/data/me/net.py", "/venv/lib/python3.11/site-packages/torch/nn/linear.py"];
    for (at, file) in (text..).zip(files) {
        let key = FrameKey::Python { function: 0, file: at, line: 3, first_line: 1 };
        let parent = if at == text { 0 } else { at };
        stream = stream
            .with(Record::Text { id: at, text: file.into() })
            .with(Record::Frame { id: at, key })
            .with(Record::Node { thread: 0, id: at + 1, parent, frame: at });
    }
    let trace = stream.touch(10, text + 3, Allocated, 0x1000, 64).read();
    let files: Vec<_> =
        trace.stacks.frames_of(trace.calls.stack[0]).map(|frame| frame.file_text(&trace.strings)).collect();
    assert_eq!(files, ["site-packages/torch/nn/linear.py", "net.py", "run/train.py"]);
    let mut frames = trace.stacks.frames_of(trace.calls.stack[0]);
    assert!(frames.all(|frame| frame.kind() == FrameKind::Python && frame.line() == Some(3)));
}

/// With `--shapes` operators have the types and sizes of their inputs.
#[test]
fn types_and_sizes_come_from_operators() {
    let mut stream = Stream::new();
    let text = OPERATORS.len() as u32;
    for record in [
        Record::Text { id: text, text: "f32[4,4], (i64[2], i64[3])".into() },
        Record::Frame { id: text, key: FrameKey::ShapedOperator { name: 0, inputs: text } },
        Record::Node { thread: 0, id: text + 1, parent: 0, frame: text },
    ] {
        stream = stream.with(record);
    }
    let trace = stream
        .touch(10, 0, Allocated, 0x1000, 64)
        .touch(12, 0, Allocated, 0x2000, 16)
        .touch(20, text + 1, Input(0), 0x1000, 64)
        .touch(20, text + 1, Input(1), 0x2000, 16)
        .call(text + 1, 20, 25)
        .read();
    let texts =
        |ids: &[stackline_model::StrId]| ids.iter().map(|id| trace.strings.get(*id).to_owned()).collect::<Vec<_>>();
    assert_eq!(texts(&trace.objects.dtype), ["f32", "i64"]);
    assert_eq!(texts(&trace.objects.shape), ["[4, 4]", ""]);
}

/// An operator without a new tensor writes its last argument; the rest of a partly written object is kept.
#[test]
fn partially_written_objects_are_not_results() {
    let accesses_for = |bytes: u64| {
        let trace = Stream::new()
            .touch(10, 0, Allocated, 0x1000, 64)
            .touch(12, 0, Allocated, 0x2000, 64)
            .touch(20, 1, Input(0), 0x1000, 64)
            .touch(20, 1, Input(1), 0x2000, bytes)
            .call(1, 20, 25)
            .read();
        listing(&trace)[2].2.clone()
    };
    assert_eq!(accesses_for(64), [(0, AccessMode::Read), (1, AccessMode::Write)]);
    assert_eq!(accesses_for(32), [(0, AccessMode::Read), (1, AccessMode::Both)]);
}

/// `aten::linear` lets `aten::copy_` fill its result and then uses it; its own input is not passed on.
#[test]
fn inputs_filled_for_an_operator_are_used_by_it() {
    let trace = Stream::new()
        .touch(5, 0, Allocated, 0x9000, 64)
        .touch(6, 0, Allocated, 0xa000, 64)
        .touch(10, 4, Input(0), 0x9000, 64)
        .touch(10, 4, Input(1), 0xa000, 64)
        .touch(12, 4, Allocated, 0x1000, 64)
        .touch(14, 6, Input(0), 0x1000, 64)
        .touch(14, 6, Input(1), 0x9000, 64)
        .call(6, 14, 16)
        .call(4, 10, 30)
        .read();
    let expected = vec![
        (Allocate, 0, vec![]),
        (Allocate, 0, vec![]),
        (Allocate, call_flags::WITHIN_OPERATOR, vec![]),
        (CopyOnDevice, 0, vec![(2, AccessMode::Write), (0, AccessMode::Read)]),
        (Kernel, 0, vec![(1, AccessMode::Read), (2, AccessMode::Both)]),
    ];
    assert_eq!(listing(&trace), expected);
}

/// Processes of a job by number and optional rank: names of their memory traces, and of the traces that show them.
fn labels(processes: &[(u32, Option<u32>)]) -> Vec<(String, String)> {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("job.stackline");
    std::fs::create_dir_all(run.join("streams")).unwrap();
    for (pid, rank) in processes {
        let stream = Stream::new().touch(10, 3, Allocated, 0x1000, 64).call(3, 5, 20).of_process(*pid, *rank);
        std::fs::write(run.join(format!("streams/{pid}.slr")), stream.file()).unwrap();
    }
    let traces = read_traces(&run, &ReadOptions::default()).unwrap().traces;
    let memory = read_memory(&run, &ReadOptions::default()).unwrap();
    let shown = |memory: MemoryTrace| {
        let by: Vec<_> = traces.iter().filter(|trace| is_shown_by(&memory, &trace.meta.name)).collect();
        assert_eq!(by.len(), 1, "{} is shown by one trace", memory.label);
        (memory.label, by[0].meta.name.clone())
    };
    memory.into_iter().map(shown).collect()
}

#[test]
fn memory_traces_are_named_like_their_process_trace() {
    let named = |pairs: &[(&str, &str)]| -> Vec<_> {
        pairs
            .iter()
            .map(|(memory, trace)| (format!("job.stackline{memory}"), format!("job.stackline{trace}")))
            .collect()
    };
    assert_eq!(labels(&[(11, None)]), named(&[("", "")]));
    assert_eq!(labels(&[(11, Some(3))]), named(&[("", "")]));
    assert_eq!(labels(&[(11, None), (12, None)]), named(&[(":11", ""), (":12", "")]));
    let job = [(11, Some(1)), (12, Some(12)), (13, Some(1))];
    assert_eq!(labels(&job), named(&[(":rank1:11", ":rank1"), (":rank12", ":rank12"), (":rank1:13", ":rank1")]));
    // A process without a rank, such as the launcher.
    assert_eq!(labels(&[(11, Some(1)), (12, None)]), named(&[(":rank1", ":rank1"), ("", "")]));
}
