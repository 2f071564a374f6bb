//! Recordings with individual calls as traces: recorded data is kept unchanged, and inferred data follows from it.

mod devices;
mod machine;
mod recorder_frames;
mod samples;
mod steps;

use proptest::prelude::*;
use stackline_ingest::recording::traces_of;
use stackline_model::{EventId, EventKind, INFERRED, LinkKind, Trace};
use stackline_recording::{CallDetail, ChunkWriter, FrameKey, HEADER, Metric, Process, Record, Thread};
use std::collections::HashMap;

/// A stream, written call by call. Frames are `def:FUNCTION:LINE`, with a file `def@FILE:FUNCTION:LINE`, `mod:PATH`,
/// `bwd:NAME`, `span:NAME` or an operator; `~` represents a space.
struct Script {
    records: Vec<Record>,
    texts: HashMap<String, u32>,
    frames: HashMap<String, u32>,
    nodes: HashMap<(u32, u32, u32), u32>,
    counts: HashMap<u32, u32>,
    last_end: HashMap<u32, i64>,
    last_number: i64,
    /// Details of the next call of each thread.
    next: HashMap<u32, CallDetail>,
}

impl Script {
    fn new(process: Process) -> Self {
        Self {
            records: vec![Record::Process(Box::new(process))],
            texts: HashMap::new(),
            frames: HashMap::new(),
            nodes: HashMap::new(),
            counts: HashMap::new(),
            last_end: HashMap::new(),
            last_number: 0,
            next: HashMap::new(),
        }
    }

    fn thread(&mut self, id: u32, tid: u32, torch_id: u64) {
        self.records.push(Record::Thread(Thread { id, tid, torch_id, name: format!("thread {id}") }));
        self.counts.insert(id, 0);
    }

    fn text(&mut self, text: &str) -> u32 {
        let next = self.texts.len() as u32;
        let id = *self.texts.entry(text.to_owned()).or_insert(next);
        if id == next {
            self.records.push(Record::Text { id, text: text.to_owned() });
        }
        id
    }

    fn frame(&mut self, frame: &str) -> u32 {
        if let Some(&id) = self.frames.get(frame) {
            return id;
        }
        let spaced = frame.replace('~', " ");
        let parts: Vec<&str> = spaced.splitn(3, ':').collect();
        let key = match parts[..] {
            [def, function, line] if def.starts_with("def") => FrameKey::Python {
                function: self.text(function),
                file: self.text(def.strip_prefix("def@").unwrap_or("/src/train.py")),
                line: line.parse().unwrap(),
                first_line: 1,
            },
            ["mod", path] => FrameKey::Module { path: self.text(path), class: self.text("Linear") },
            ["bwd", name] => FrameKey::Backward { name: self.text(name) },
            ["span", name] => FrameKey::Span { name: self.text(name) },
            _ => FrameKey::Operator { name: self.text(frame) },
        };
        let id = self.frames.len() as u32;
        self.records.push(Record::Frame { id, key });
        self.frames.insert(frame.to_owned(), id);
        id
    }

    fn node(&mut self, thread: u32, path: &str) -> u32 {
        path.split(' ').fold(0, |parent, frame| {
            let frame = self.frame(frame);
            if let Some(&node) = self.nodes.get(&(thread, parent, frame)) {
                return node;
            }
            let id = self.counts.get_mut(&thread).map(|count| {
                *count += 1;
                *count
            });
            let id = id.unwrap();
            self.records.push(Record::Node { thread, id, parent, frame });
            self.nodes.insert((thread, parent, frame), id);
            id
        })
    }

    /// A call; calls are written in the order of their ends.
    fn call(&mut self, thread: u32, path: &str, start: i64, end: i64) {
        let node = self.node(thread, path);
        let last = self.last_end.insert(thread, end).unwrap_or(0);
        let duration_ns = (end - start).cast_unsigned();
        let detail = self.next.remove(&thread).unwrap_or_default();
        self.records.push(Record::Call { thread, node, start_delta_ns: start - last, duration_ns, detail });
    }

    /// Autograd's sequence number of the next call.
    fn number(&mut self, thread: u32, number: i64, forward_thread: u64) {
        let delta = number - std::mem::replace(&mut self.last_number, number);
        self.next.insert(thread, CallDetail::Autograd { delta, forward_thread });
    }

    fn end(mut self) -> Vec<u8> {
        self.records.push(Record::End { at_ns: 1 });
        written(&self.records)
    }
}

fn written(records: &[Record]) -> Vec<u8> {
    let mut chunk = ChunkWriter::new();
    records.iter().for_each(|record| chunk.push(record).unwrap());
    [HEADER.as_slice(), chunk.finish()].concat()
}

fn process(pid: u32, rank: Option<u32>) -> Process {
    let command = ["python", "train.py"].map(str::to_owned).to_vec();
    Process { pid, rank, start_unix_ns: 5_000_000, start_monotonic_ns: 1_000, command, ..Process::default() }
}

fn one(file: &[u8]) -> Trace {
    let mut set = traces_of("run", [("a.slr", file)]);
    assert_eq!(set.traces.len(), 1);
    set.traces.remove(0)
}

/// `name start..end` of each span on the track of a thread, by nesting, without samples; inferred ones with a star.
fn outline(trace: &Trace, track: usize) -> Vec<String> {
    let inferred = trace.attr(INFERRED);
    let line = |&event: &EventId| {
        let depth = trace.ancestors(event).count();
        let star = if inferred.get(event).is_some() { "*" } else { "" };
        let (start, end) = (trace.events.start[event.index()], trace.events.end(event));
        format!("{}{}{star} {start}..{end}", "  ".repeat(depth), trace.name(event))
    };
    let spans = trace.track_events(trace.tracks.ids().nth(track).unwrap()).iter();
    spans.filter(|&&event| trace.kind(event) != EventKind::Sample).map(line).collect()
}

#[test]
fn functions_last_from_their_first_operator_to_their_last() {
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    script.call(0, "def:main:10 def:forward:2 mod:fc aten::linear aten::addmm", 1_110, 1_190);
    script.call(0, "def:main:10 def:forward:2 mod:fc aten::linear", 1_100, 1_200);
    script.call(0, "def:main:10 def:forward:3 aten::relu", 1_300, 1_400);
    script.call(0, "def:main:11 def:loss:7 aten::mse", 1_500, 1_600);
    let trace = one(&script.end());
    let expected = [
        "train.py(1): main* 100..600",
        "  train.py(1): forward* 100..400",
        "    nn.Module: Linear fc* 100..200",
        "      aten::linear 100..200",
        "        aten::addmm 110..190",
        "    aten::relu 300..400",
        "  train.py(1): loss* 500..600",
        "    aten::mse 500..600",
    ];
    assert_eq!(outline(&trace, 0), expected);
    assert!(trace.report.is_clean(), "{:?}", trace.report.problems);
    // `base_ns` is the beginning of the process in ns since 1970.
    assert_eq!((trace.meta.base_ns, trace.meta.format.as_str()), (5_000_000, "recording"));
    let stack = trace.stacks.event.iter().position(|&e| trace.name(e) == "aten::relu").unwrap();
    let stack = trace.stacks.stack[stack];
    assert_eq!(trace.strings.get(trace.stacks.name[stack.index()]), "train.py(3): forward");
}

/// Names of a file's functions in the trace of a command.
fn named(command: &[&str], files: &[&str]) -> Vec<String> {
    let command = command.iter().map(|&word| word.to_owned()).collect();
    let mut script = Script::new(Process { command, ..process(7, None) });
    script.thread(0, 70, 1);
    for (at, file) in (1..).zip(files) {
        script.call(0, &format!("def@{file}:f:2 aten::add"), 1_000 * at, 1_000 * at + 500);
    }
    let trace = one(&script.end());
    let functions = trace.events.ids().filter(|&event| trace.kind(event) == EventKind::PythonFunction);
    functions.map(|event| trace.name(event).split_once('(').unwrap().0.to_owned()).collect()
}

#[test]
fn file_names_are_relative_to_the_directory_of_the_command() {
    let files = ["/src/prog/x.py", "/src/prog/harness.py", "/src/lib.py", "/other/y.py"];
    assert_eq!(
        named(&["python", "prog/x.py", "a.py"], &files),
        ["prog/x.py", "prog/harness.py", "lib.py", "/other/y.py"]
    );
    assert_eq!(named(&["python", "./prog/x.py"], &files[..2]), ["prog/x.py", "prog/harness.py"]);
    // Python leaves the dots in the script's own name.
    assert_eq!(named(&["python", "../x.py"], &["/src/prog/../x.py", "/src/y.py"]), ["../x.py", "/src/y.py"]);
    // The working directory of this one is unknown.
    assert_eq!(named(&["python", "/src/prog/x.py"], &files[..3]), ["x.py", "harness.py", "/src/lib.py"]);
    assert_eq!(named(&["python", "-m", "prog.x"], &files[..1]), ["/src/prog/x.py"]);
    // Installed files keep the name that all tools use, independent of their folder.
    let libraries = ["/src/x.py", "/src/.venv/lib/python3.11/site-packages/torch/a.py", "/usr/lib/python3.11/queue.py"];
    assert_eq!(named(&["python", "x.py"], &libraries), ["x.py", "torch/a.py", "queue.py"]);
}

#[test]
fn calls_from_different_lines_are_separate() {
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    for (line, start) in [(10, 1_000), (11, 1_100), (12, 1_200)] {
        script.call(0, &format!("def:main:{line} def:f:2 aten::add"), start, start + 50);
    }
    let trace = one(&script.end());
    let calls = outline(&trace, 0).into_iter().filter(|line| line.contains(": f*")).count();
    assert_eq!(calls, 3);
}

/// Autograd runs backward nodes in the engine, not at the call of the forward operator.
#[test]
fn backward_nodes_belong_to_no_function_of_the_forward_pass() {
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    script.number(0, 5, 0);
    script.call(0, "def:main:10 def:forward:2 aten::mul", 1_000, 1_100);
    script.call(0, "def:main:10 def:forward:2 aten::mul bwd:MulBackward0 aten::mul", 1_210, 1_290);
    script.number(0, 5, 1);
    script.call(0, "def:main:10 def:forward:2 aten::mul bwd:MulBackward0", 1_200, 1_300);
    script.call(0, "def:main:12 aten::add_", 1_400, 1_500);
    let trace = one(&script.end());
    let expected = [
        "train.py(1): main* 0..500",
        "  train.py(1): forward* 0..100",
        "    aten::mul 0..100",
        "  MulBackward0 200..300",
        "    aten::mul 210..290",
        "  aten::add_ 400..500",
    ];
    assert_eq!(outline(&trace, 0), expected);
    let pairs: Vec<_> =
        trace.links.of_kind(LinkKind::Backward).map(|(from, to, _)| (trace.name(from), trace.name(to))).collect();
    assert_eq!(pairs, [("aten::mul", "MulBackward0")]);
}

/// Numbers count per thread: equal numbers on two threads denote two operators.
#[test]
fn backward_nodes_find_the_thread_of_their_forward_operator() {
    let mut script = Script::new(process(7, None));
    for (id, torch_id) in [(0, 1), (1, 2), (2, 3)] {
        script.thread(id, 70 + id, torch_id);
    }
    for (thread, name) in [(0, "aten::mul"), (1, "aten::exp")] {
        script.last_number = 0;
        script.number(thread, 5, 0);
        script.call(thread, name, 1_000 + i64::from(thread), 1_100);
    }
    script.last_number = 0;
    for (forward, name) in [(1, "bwd:MulBackward0"), (2, "bwd:ExpBackward0")] {
        script.number(2, 5, forward);
        let at = 2_000 + 100 * i64::try_from(forward).unwrap();
        script.call(2, name, at, at + 50);
    }
    let trace = one(&script.end());
    let pairs: Vec<_> =
        trace.links.of_kind(LinkKind::Backward).map(|(from, to, _)| (trace.name(from), trace.name(to))).collect();
    assert_eq!(pairs, [("aten::mul", "MulBackward0"), ("aten::exp", "ExpBackward0")]);
}

/// Samples of the launcher alone form no trace among those of the ranks.
#[test]
fn launchers_are_no_rank() {
    let mut launcher = Script::new(process(1, None));
    launcher.thread(0, 1, 0);
    let node = launcher.node(0, "def:wait:3");
    launcher.records.push(Record::Sample { thread: 0, node, delta_ns: 1_500, metric: Metric::CpuTime, value: 10 });
    let rank = |pid: u32, rank: u32, ended: bool| {
        let mut script = Script::new(process(pid, Some(rank)));
        script.thread(0, pid, 1);
        script.call(0, "aten::add", 2_000, 2_010);
        if ended { script.end() } else { written(&script.records) }
    };
    let (launcher, zero, one) = (launcher.end(), rank(2, 0, true), rank(3, 1, false));
    let set = traces_of("job", [("1.slr", &launcher[..]), ("2.slr", &zero), ("3.slr", &one)]);
    let counts = |code: &str| set.traces.iter().map(|t| (t.meta.rank, t.report.count_of(code))).collect::<Vec<_>>();
    assert_eq!(counts("without_rank"), [(Some(0), 1), (Some(1), 0)]);
    assert_eq!(counts("process_killed"), [(Some(0), 0), (Some(1), 1)], "said of the rank that it happened to");
}

#[test]
fn ranks_are_traces_and_share_a_clock() {
    let file = |pid: u32, rank: Option<u32>, at: i64| {
        let mut script = Script::new(process(pid, rank));
        script.thread(0, pid, 1);
        script.call(0, "aten::add", at, at + 10);
        script.end()
    };
    let (launcher, zero, one) =
        (written(&[Record::Process(Box::new(process(1, None)))]), file(2, Some(0), 2_000), file(3, Some(1), 3_000));
    let set = traces_of("job", [("1.slr", &launcher[..]), ("2.slr", &zero), ("3.slr", &one)]);
    let starts: Vec<_> = set.traces.iter().map(|t| (t.meta.name.as_str(), t.meta.rank, t.events.start[0])).collect();
    assert_eq!(starts, [("job:rank0", Some(0), 1_000), ("job:rank1", Some(1), 2_000)]);
    assert_eq!(set.traces[0].report.count_of("process_killed"), 1, "the launcher's stream has no end");
}

#[test]
fn processes_of_one_boot_share_a_clock() {
    let offset_ns = |boots: [Option<u64>; 2], second: i64| {
        let files = [(2_u32, 0), (3, second)].map(|(pid, later)| {
            let mut script = Script::new(Process { start_unix_ns: 5_000_000 + later, ..process(pid, None) });
            script.records.extend(boots[pid as usize - 2].map(|boot| Record::Machine { boot }));
            script.thread(0, pid, 1);
            script.call(0, "aten::add", 2_000, 2_010);
            script.end()
        });
        let set = traces_of("job", [("2.slr", &files[0][..]), ("3.slr", &files[1])]);
        set.traces[0].events.start[1] - set.traces[0].events.start[0]
    };
    let minute = 60_000_000_000;
    assert_eq!(offset_ns([Some(1), Some(1)], minute), 0, "the system's time was set anew");
    assert_eq!(offset_ns([Some(1), Some(2)], 500_000), 500_000, "two machines, booted within a second");
    assert_eq!([offset_ns([None, Some(2)], 500_000), offset_ns([None, None], minute)], [0, minute], "old streams");
}

#[test]
fn times_are_wall_clock_times() {
    let now = 1_790_000_000_000_000_000;
    let mut script = Script::new(Process { start_unix_ns: now, ..process(7, None) });
    script.thread(0, 70, 1);
    script.call(0, "aten::add", 2_000, 2_010);
    let trace = one(&script.end());
    assert_eq!((trace.meta.base_ns, trace.events.start[0]), (now, 1_000));
}

#[test]
fn call_trees_without_calls_are_not_traces() {
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    script.node(0, "aten::add");
    assert!(traces_of("run", [("a.slr", &script.end()[..])]).traces.is_empty());
}

/// Any record, with IDs that are often valid.
fn statement() -> impl Strategy<Value = Record> {
    let id = || prop_oneof![0_u32..4, any::<u32>()];
    let time = || prop_oneof![-50_i64..200, any::<i64>()];
    let length = || prop_oneof![0_u64..100, any::<u64>()];
    let detail = || {
        prop_oneof![
            Just(CallDetail::None),
            (time(), any::<u64>()).prop_map(|(delta, forward_thread)| CallDetail::Autograd { delta, forward_thread }),
            "[a-z]{0,4}".prop_map(CallDetail::Name),
        ]
    };
    prop_oneof![
        (id(), "[a-z]{1,4}|Optimizer.step#X|f32\\[[0-9,?]{0,4}\\], scalar")
            .prop_map(|(id, text)| Record::Text { id, text }),
        (id(), id(), 0_u8..7).prop_map(|(id, text, kind)| Record::Frame {
            id,
            key: match kind {
                0 => FrameKey::Python { function: text, file: text, line: 3, first_line: 1 },
                1 => FrameKey::Backward { name: text },
                2 => FrameKey::Span { name: text },
                3 => FrameKey::Module { path: text, class: text },
                4 => FrameKey::ShapedOperator { name: text, inputs: text },
                5 => FrameKey::ShapedBackward { name: text, inputs: text },
                _ => FrameKey::Operator { name: text },
            },
        }),
        (time(), any::<(u64, bool, bool)>()).prop_map(|(at_ns, (step, open, at_step))| Record::Window {
            at_ns,
            step,
            open,
            at_step
        }),
        (id(), any::<u32>()).prop_map(|(id, tid)| Record::Thread(Thread { id, tid, ..Thread::default() })),
        (id(), id(), id(), id()).prop_map(|(thread, id, parent, frame)| Record::Node { thread, id, parent, frame }),
        (id(), id(), time(), length(), detail()).prop_map(|(thread, node, start_delta_ns, duration_ns, detail)| {
            Record::Call { thread, node, start_delta_ns, duration_ns, detail }
        }),
        (id(), id(), time(), length()).prop_map(|(thread, node, delta_ns, value)| Record::Sample {
            thread,
            node,
            delta_ns,
            metric: Metric::WallTime,
            value
        }),
    ]
}

/// In the form of PyTorch's profiler, so that analyses that group by inputs work on recordings.
#[test]
fn inputs_become_attributes_of_the_pytorch_profiler() {
    let cases = [
        ("f32[4,32]", "[[4,32]]", r#"["float"]"#),
        ("(bf16[2], i64[])", r"[[[2],[]]]", r#"["TensorList"]"#),
        ("(f32[2], -)", "[[]]", r#"[""]"#),
        ("f32[?]", "[[]]", r#"[""]"#),
        ("scalar", "[[]]", r#"["Scalar"]"#),
        ("scalars", "[[]]", r#"["ScalarList"]"#),
        ("-", "[[]]", r#"[""]"#),
        ("…", "", ""),
    ];
    for (inputs, dims, types) in cases {
        let mut script = Script::new(process(1, None));
        script.thread(0, 1, 0);
        let name = script.text("aten::op");
        let inputs_text = script.text(inputs);
        script.records.push(Record::Frame { id: 0, key: FrameKey::ShapedOperator { name, inputs: inputs_text } });
        script.records.push(Record::Node { thread: 0, id: 1, parent: 0, frame: 0 });
        let detail = CallDetail::None;
        script.records.push(Record::Call { thread: 0, node: 1, start_delta_ns: 2_000, duration_ns: 5, detail });
        let trace = one(&script.end());
        let attr = |name: &str| {
            let value = trace.attr(name).get(EventId(0)).and_then(|value| value.text_id());
            value.map_or("", |id| trace.strings.get(id)).to_owned()
        };
        assert_eq!((attr("Input Dims").as_str(), attr("Input type").as_str()), (dims, types), "{inputs}");
        assert_eq!(trace.strings.get(trace.events.name[0]), "aten::op");
    }
}

proptest! {
    /// Any content of a stream: no panic, every valid call is an event, and spans nest.
    #[test]
    fn random_statements_give_a_valid_trace_or_none(statements in proptest::collection::vec(statement(), 0..120)) {
        let mut records = vec![Record::Process(Box::new(process(7, None)))];
        records.extend(statements);
        let calls = records.iter().filter(|r| matches!(r, Record::Call { .. } | Record::Sample { .. })).count() as u64;
        let set = traces_of("run", [("a.slr", &written(&records)[..])]);
        if let Some(trace) = set.traces.first() {
            let kept = trace.events.ids().filter(|&e| trace.attr(INFERRED).get(e).is_none()).count() as u64;
            prop_assert!(kept <= calls && kept + trace.report.count_of("dangling_record") >= calls);
            prop_assert!(trace.events.check().is_ok());
        }
    }

    /// Nested calls as in programs: spans nest, every call keeps its times, functions contain their operators.
    #[test]
    fn nested_calls_stay_nested(calls in proptest::collection::vec((1_usize..5, 0_usize..3, 1_i64..20, 0_i64..20), 1..60)) {
        let mut script = Script::new(process(7, None));
        script.thread(0, 70, 1);
        let (mut at, mut last) = (1_000, 0);
        for &(depth, line, length, gap) in &calls {
            let functions: Vec<String> = (0..depth).map(|level| format!("def:f{level}:{line}")).collect();
            if gap > 1 {
                let node = script.node(0, &format!("{} def:seen:1", functions.join(" ")));
                let seen = at + gap / 2;
                let delta_ns = seen - std::mem::replace(&mut last, seen);
                script.records.push(Record::Sample { thread: 0, node, delta_ns, metric: Metric::CpuTime, value: 10 });
            }
            at += gap;
            let path = format!("{} aten::outer", functions.join(" "));
            script.call(0, &format!("{path} aten::inner"), at + 1, at + 1 + length);
            script.call(0, &path, at, at + length + 2);
            at += length + 2;
        }
        let trace = one(&script.end());
        prop_assert!(trace.report.is_clean(), "{:?}", trace.report.problems);
        for event in trace.events.ids().filter(|&e| trace.name(e) == "aten::inner") {
            let around: Vec<&str> = trace.ancestors(event).map(|e| trace.name(e)).collect();
            prop_assert_eq!(around.first(), Some(&"aten::outer"));
            let depth = around.len() - 1;
            let expected: Vec<String> = (0..depth).rev().map(|level| format!("train.py(1): f{level}")).collect();
            prop_assert_eq!(&around[1..], &expected.iter().map(String::as_str).collect::<Vec<_>>()[..]);
        }
        prop_assert!(trace.events.check().is_ok());
        let outers = trace.events.ids().filter(|&e| trace.name(e) == "aten::outer").count();
        prop_assert_eq!(outers, calls.len());
    }
}

/// A stream that is damaged before its first call looks like one without individual calls, but is reported as damaged.
#[test]
fn recordings_with_lost_calls_are_not_taken_for_sums() {
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    script.call(0, "def:main:3 aten::randn", 1_000, 1_900);
    let whole = script.end();
    let folder = tempfile::tempdir().unwrap();
    let path = |run: &str| folder.path().join(run).join("streams");
    let error = |run: &str, file: &[u8]| {
        std::fs::create_dir_all(path(run)).unwrap();
        std::fs::write(path(run).join("7-1.slr"), file).unwrap();
        let options = stackline_ingest::ReadOptions::default();
        stackline_ingest::recording::read_traces(&folder.path().join(run), &options).map(|_| ()).unwrap_err()
    };
    let cut = error("cut", &whole[..HEADER.len() + 4]);
    let stackline_ingest::Error::NoSingleCalls { report, .. } = &cut else { panic!("{cut}") };
    assert!(report.count_of("cut_stream") > 0, "{report:?}");
    assert!(cut.to_string().contains("individual calls are missing") && !cut.to_string().contains("totals"), "{cut}");
}
