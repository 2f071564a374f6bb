//! Sources of memory traces, read from real and generated files, and compared with other tools.

use crate::common;

use common::corpus;
use serde_json::Value as Json;
use stackline_ingest::memory::pickle::{self, Limits};
use stackline_ingest::memory::values::{Kind, Value, Values};
use stackline_ingest::memory::{from_trace, read_bytes, read_path};
use stackline_memory::curve::curves;
use stackline_memory::tables;
use stackline_model::{MemoryBlockState, MemoryCallId, MemoryTrace};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ingest/tests/memory").join(name)
}

/// Output of Python; `None` without Python, except in CI.
fn python(arguments: &[&str]) -> Option<String> {
    let python = std::env::var("STACKLINE_TORCH").unwrap_or_else(|_| "python3".to_owned());
    match Command::new(python).args(arguments).output() {
        Ok(output) => {
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs Python: {error}");
            println!("skipped: no Python: {error}");
            None
        }
    }
}

/// Normalized value, in the format of `pickles.py`.
fn canonical(
    values: &Values,
    value: Value,
    seen: &mut BTreeMap<stackline_ingest::memory::values::NodeId, usize>,
) -> String {
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (node, kind) = match values.kind(value) {
        Kind::None => return "n".to_owned(),
        Kind::Bool(value) => return if value { "t" } else { "f" }.to_owned(),
        Kind::Int(value) => return format!("i{value}"),
        Kind::Float(value) => return format!("d{:016x}", value.to_bits()),
        Kind::Text(text) => return format!("s{}", hex(values.strings.get(text))),
        Kind::Bytes(text) => return format!("b{}", hex(values.strings.get(text))),
        Kind::List(node) => (node, '['),
        Kind::Tuple(node) => (node, '('),
        Kind::Dict(node) => (node, '{'),
    };
    if kind == '(' && values.items(node).is_empty() {
        return "()".to_owned();
    }
    if let Some(number) = seen.get(&node) {
        return format!("@{number}");
    }
    seen.insert(node, seen.len());
    if kind == '{' {
        let entries = values.entries(node).map(|(key, value)| {
            let key = canonical(values, key, seen);
            format!("{key}:{}", canonical(values, value, seen))
        });
        return format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
    }
    let items: Vec<String> = values.items(node).iter().map(|item| canonical(values, *item, seen)).collect();
    let (open, close) = if kind == '[' { ('[', ']') } else { ('(', ')') };
    format!("{open}{}{close}", items.join(","))
}

#[test]
fn pickles_equal_the_values_of_python() {
    let Some(cases) = python(&[script("pickles.py").to_str().unwrap(), "1500", "7"]) else { return };
    let mut shared = 0;
    for line in cases.lines() {
        let (hex, expected) = line.split_once(' ').unwrap();
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        let (values, root) = pickle::read(&bytes[..], Limits::default()).unwrap();
        assert_eq!(canonical(&values, root, &mut BTreeMap::new()), expected, "{hex}");
        shared += usize::from(expected.contains('@'));
        // Truncation is detected at any position.
        let cut = bytes.len() * 2 / 3;
        assert!(pickle::read(&bytes[..cut], Limits::default()).is_err());
    }
    assert!(shared > 100, "{shared}");
}

/// Generated snapshot, and the expected state of its allocator.
fn generate(folder: &Path, name: &str, more: &[&str]) -> Option<(PathBuf, Json)> {
    let file = folder.join(name);
    let out = file.to_str().unwrap();
    python(&[&[script("make_snapshot.py").to_str().unwrap(), out, "3000"], more].concat())?;
    let expected = std::fs::read(format!("{out}.expected.json")).unwrap();
    Some((file, serde_json::from_slice(&expected).unwrap()))
}

/// The end of the trace equals the allocator's state.
fn check_end(trace: &MemoryTrace, expected: &Json) {
    trace.check().unwrap();
    for (number, expected) in expected["devices"].as_array().unwrap().iter().enumerate() {
        let name = trace.strings.find(&format!("cuda:{number}"));
        let device = trace.devices.iter().position(|device| Some(device.name) == name).unwrap();
        let alive: Vec<usize> = trace
            .objects
            .ids()
            .map(|object| object.index())
            .filter(|row| trace.objects.freed_by[*row].is_none() && trace.objects.device[*row].index() == device)
            .collect();
        let sum = |column: &[u64]| alive.iter().map(|row| column[*row]).sum::<u64>();
        assert_eq!(alive.len() as u64, expected["alive"].as_u64().unwrap());
        assert_eq!(sum(&trace.objects.requested), expected["requested"].as_u64().unwrap());
        assert_eq!(sum(&trace.objects.bytes), expected["allocated"].as_u64().unwrap());
        let total = trace.totals.iter().find(|total| total.device.index() == device).unwrap();
        assert_eq!(total.allocated, expected["allocated"].as_u64().unwrap());
        assert_eq!(total.reserved, expected["reserved"].as_u64().unwrap());
        let last = MemoryCallId::new(trace.calls.len() - 1);
        assert_eq!(tables::Reserved::from_trace(trace).at(total.device, last), Some(total.reserved));
        let segments = trace.segments.iter().filter(|segment| segment.device.index() == device);
        assert_eq!(segments.count() as u64, expected["segments"].as_u64().unwrap());
    }
    assert!(trace.blocks.iter().all(|block| block.object.is_some() == (block.state == MemoryBlockState::Active)));
}

#[test]
fn generated_snapshots_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    for (number, more) in [
        &["--protocol", "2", "--oom"][..],
        &["--protocol", "3", "--devices", "3"],
        &["--protocol", "4", "--streams", "1", "--seed", "5"],
        &["--protocol", "5"],
        &["--json"],
    ]
    .iter()
    .enumerate()
    {
        let Some((file, expected)) = generate(folder.path(), &format!("{number}.pickle"), more) else { return };
        let trace = read_path(&file).unwrap();
        check_end(&trace, &expected);
        assert!(trace.report.problems.is_empty(), "{:?}", trace.report.problems);
        assert_eq!(trace.out_of_memory.len(), usize::from(more.contains(&"--oom")));
        assert_eq!(trace.report.records, expected["events"].as_u64().unwrap() + trace.segments.len() as u64);
    }
}

/// The ring buffer of events lost its beginning: objects that are live at the end are still known, with their call
/// paths.
#[test]
fn a_snapshot_that_begins_in_the_middle() {
    let folder = tempfile::tempdir().unwrap();
    let Some((file, expected)) = generate(folder.path(), "ring.pickle", &["--ring", "500", "--alive", "100"]) else {
        return;
    };
    let trace = read_path(&file).unwrap();
    check_end(&trace, &expected);
    let older: Vec<usize> = (0..trace.objects.len()).filter(|row| trace.objects.allocated_by[*row].is_none()).collect();
    assert!(!older.is_empty());
    assert_eq!(trace.report.count_of("older_than_records"), older.len() as u64);
    let unfreed = older.iter().filter(|row| trace.objects.freed_by[**row].is_none());
    assert!(unfreed.clone().count() > 0 && unfreed.clone().all(|row| trace.objects.stack[*row].is_some()));
    let curve = &curves(&trace)[0];
    assert_eq!(curve.at(curve.end - 1), expected["devices"][0]["allocated"].as_u64().unwrap());
}

/// PyTorch's own `_memory_viz` gives the same result for a generated snapshot, and its pages are read.
#[test]
fn curve_equals_that_of_memory_viz() {
    let Ok(torch) = std::env::var("STACKLINE_TORCH") else {
        println!("skipped: STACKLINE_TORCH names no Python with PyTorch");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let Some((file, _)) = generate(folder.path(), "s.pickle", &["--ring", "700"]) else { return };
    // Only the module, because an import of all of PyTorch takes seconds.
    let program = "import importlib.util as u, os, pickle, sys; torch = u.find_spec('torch').submodule_search_locations[0]; \
        s = u.spec_from_file_location('viz', os.path.join(torch, 'cuda', '_memory_viz.py')); v = u.module_from_spec(s); \
        s.loader.exec_module(v); d = pickle.load(open(sys.argv[1], 'rb')); print(v.segsum(d)); \
        open(sys.argv[1] + '.html', 'w').write(v.trace_plot(d))";
    let output = Command::new(torch).args(["-c", program]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8(output.stdout).unwrap();
    let line = |key: &str| stdout.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned();
    let trace = read_path(&file).unwrap();
    let reserved: u64 = trace.totals.iter().map(|total| total.reserved).sum();
    let alive = trace.objects.ids().filter(|object| trace.objects.freed_by[object.index()].is_none());
    let requested: u64 = alive.map(|object| trace.objects.requested[object.index()]).sum();
    let mib = |bytes: u64| format!("{:.1}MiB", bytes as f64 / 1_048_576.0);
    assert_eq!(line("segments:"), trace.segments.len().to_string());
    assert_eq!(line("total_reserved:"), mib(reserved));
    assert_eq!(line("total_allocated:"), mib(requested));
    let page = read_path(&folder.path().join("s.pickle.html")).unwrap();
    assert_eq!((page.calls, page.objects), (trace.calls, trace.objects));
}

/// PyTorch writes the allocator's total into each event: the curve equals all of them.
#[test]
fn kineto_totals_equal_the_curve() {
    for (name, events) in [
        ("nvidia-h100-bert-small", 236),
        ("amd-mi300-bert-small", 0),
        ("nvidia-h100-qwen1.5-0.5b", 0),
        ("nvidia-h100-timesformer", 0),
    ] {
        let Some(file) = corpus(&format!("kineto/{name}.json.gz")) else { return };
        let set = stackline_ingest::read_paths(&[file], &stackline_ingest::ReadOptions::default()).unwrap();
        let trace = from_trace(&set.traces[0]).unwrap();
        trace.check().unwrap();
        assert!(events == 0 || trace.calls.len() == events, "{name}: {}", trace.calls.len());
        assert_eq!(trace.report.count_of("totals_disagree"), 0, "{name}");
        assert_eq!(trace.report.count_of("free_without_allocation"), 0, "{name}");
        assert!(trace.totals.len() > 100, "{name}");
        let curves = curves(&trace);
        for total in &trace.totals {
            let curve = curves.iter().find(|curve| curve.device == total.device).unwrap();
            assert_eq!(curve.at(total.after.0), total.allocated, "{name} at {:?}", total.after);
        }
        // Every allocation is in an operator and has a call path.
        let made: Vec<usize> =
            (0..trace.objects.len()).filter(|row| trace.objects.allocated_by[*row].is_some()).collect();
        let placed = made.iter().filter(|row| trace.objects.stack[**row].is_some()).count();
        assert!(placed * 10 >= made.len() * 9, "{name}");
        assert!(trace.objects.operator.iter().any(|id| trace.strings.get(*id).starts_with("aten::")), "{name}");
    }
}

/// Traces of 2021 have sizes only.
#[test]
fn kineto_without_addresses() {
    let Some(file) = corpus("kineto/schema-2021-v100-resnet50.json.gz") else { return };
    let set = stackline_ingest::read_paths(&[file], &stackline_ingest::ReadOptions::default()).unwrap();
    let trace = from_trace(&set.traces[0]).unwrap();
    trace.check().unwrap();
    assert_eq!(trace.calls.len(), 12838);
    assert_eq!(trace.report.count_of("without_addresses"), 12838);
    // Operators have their thread as text, memory events as a number: it is the same thread.
    let made: Vec<usize> = (0..trace.objects.len()).filter(|row| trace.objects.allocated_by[*row].is_some()).collect();
    let trace_of = |begin: &str| {
        let name = |row: &&usize| trace.strings.get(trace.objects.operator[**row]);
        made.iter().filter(|row| !name(row).is_empty() && name(row).starts_with(begin)).count()
    };
    // As counted in the file; allocations outside of `aten` are in autograd nodes, the optimizer and the data loader.
    assert_eq!((made.len(), trace_of(""), trace_of("aten::")), (6420, 6420, 4944));
}

#[test]
fn invalid_events_are_counted() {
    let event = |action: &str, addr: u64, size: u64, time: u64| {
        format!(r#"{{"action":"{action}","addr":{addr},"size":{size},"stream":0,"time_us":{time},"frames":[]}}"#)
    };
    let events = [
        event("alloc", 4096, 1000, 10),
        event("alloc", 4608, 512, 11),           // lies in the first one
        event("free_requested", 4096, 1000, 12), // which is gone
        event("free_requested", 9999, 64, 13),   // older than the records
        event("free_completed", 9999, 64, 14),
        event("free_completed", 7777, 64, 15), // asked for before the records
        event("alloc", 8192, 0, 9),            // the clock goes back; no bytes
        event("free_requested", 8192, 1, 16),  // another size
        event("teleport", 1, 1, 17),
        r#"{"action":"alloc","size":12,"time_us":18}"#.to_owned(),
        "7".to_owned(),
        r#"{"action":"oom","device_free":100,"size":1099511627776,"stream":0,"time_us":19,"frames":[]}"#.to_owned(),
        event("alloc", 16384, 512, 20),
    ];
    let text = format!(r#"{{"device_traces":[[{}],[]],"segments":[5,{{"address":1}}]}}"#, events.join(","));
    let trace = read_bytes("odd", text.as_bytes()).unwrap();
    trace.check().unwrap();
    let nothing = trace.objects.requested.iter().zip(&trace.objects.address).position(|it| it == (&0, &8192)).unwrap();
    assert_eq!(trace.objects.bytes[nothing], 0, "no bytes were asked for, none are in use");
    let codes: Vec<(&str, u64)> = trace.report.problems.iter().map(|p| (p.code.as_str(), p.count)).collect();
    let expected = [
        ("damaged_memory_event", 2),
        ("damaged_segment", 2),
        ("free_without_allocation", 1),
        ("unknown_memory_event", 1),
        ("memory_clock_back", 1),
        ("overlapping_allocation", 1),
        ("free_before_records", 1),
        ("freed_other_size", 1),
        ("older_than_records", 1),
    ];
    let mut sorted = codes.clone();
    sorted.sort_unstable();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
    assert_eq!(trace.out_of_memory[0].device_free, Some(100));
    assert_eq!(trace.out_of_memory[0].before.index(), trace.calls.len() - 1);
}

/// A list that is referenced for a thousand devices is read once; a dict that contains itself does not loop.
#[test]
fn shared_lists_are_read_once() {
    let mut bytes = b"\x80\x02}q\x00(X\x0d\x00\x00\x00device_traces](]q\x01(".to_vec();
    bytes.extend(b"}q\x02(X\x06\x00\x00\x00actionX\x05\x00\x00\x00allocX\x04\x00\x00\x00addrK\x10X\x04\x00\x00\x00sizeK\x08X\x06\x00\x00\x00framesh\x01ue");
    bytes.extend(b"h\x01".repeat(1000));
    bytes.extend(b"eX\x08\x00\x00\x00segmentsh\x01u.");
    let trace = read_bytes("bomb", &bytes).unwrap();
    trace.check().unwrap();
    assert_eq!(trace.calls.len(), 1);
}

/// Pickle by its instructions: texts and numbers, and values that are reused by number.
#[derive(Default)]
struct Pickled(Vec<u8>);

impl Pickled {
    fn new() -> Self {
        Self(vec![0x80, 4])
    }

    fn text(mut self, text: &str) -> Self {
        self.0.extend([0x8c, u8::try_from(text.len()).unwrap()]);
        self.0.extend(text.bytes());
        self
    }

    fn number(mut self, number: u32) -> Self {
        self.0.push(b'J');
        self.0.extend(number.to_le_bytes());
        self
    }

    fn op(mut self, instructions: &[u8]) -> Self {
        self.0.extend(instructions);
        self
    }

    /// List with `count` references to the memoized value of this number.
    fn times(self, number: u8, count: usize) -> Self {
        let again = [b'h', number].repeat(count);
        self.op(b"](").op(&again).op(b"e")
    }
}

/// Thousands of segments that share one list of blocks: it belongs to the first one.
#[test]
fn blocks_of_segments_are_not_confused() {
    let block = |pickle: Pickled| {
        let pickle = pickle.op(b"}(").text("size").number(512).text("state").text("active_allocated");
        pickle.text("address").number(0).op(b"u\x94")
    };
    let mut pickle = block(Pickled::new().op(b"}(").text("segments").op(b"]("));
    // The value is not a segment; it is in the memo as 0, and the list of its copies as 1.
    pickle = pickle.times(0, 5000).op(b"\x940");
    for number in 0..5000 {
        pickle = pickle.op(b"}(").text("address").number(number << 13).text("total_size").number(512);
        pickle = pickle.text("blocks").op(b"h\x01u");
    }
    let bytes = pickle.op(b"eu.").0;
    let begin = std::time::Instant::now();
    let trace = read_bytes("shared", &bytes).unwrap();
    // Only the first of these, because the others are within it.
    assert_eq!((trace.segments.len(), trace.blocks.len()), (1, 1));
    let problem = trace.report.problems.iter().find(|problem| problem.code == "damaged_segment").unwrap();
    assert!(problem.count >= 4999 + 4999, "{problem:?}");
    println!("{:?}", begin.elapsed());
}

/// Nested lists, each with a hundred references to the same list: a hundred million tensors in a few hundred bytes.
#[test]
fn nested_tensor_lists_are_not_expanded() {
    let mut pickle = Pickled::new().op(b"}(").text("schema").text("1.1").text("nodes").op(b"](}(");
    pickle = pickle.text("id").number(2).text("name").text("aten::cat").text("input_types").op(b"](");
    pickle = pickle.text("GenericList[Tensor(float)]").op(b"e").text("inputs").op(b"](");
    pickle = pickle.op(b"](").number(1).number(7).number(0).number(8).number(4).text("cuda:0").op(b"e\x940");
    for level in 0..4 {
        pickle = pickle.times(level, 100).op(b"\x940");
    }
    let bytes = pickle.op(b"h\x04eueu.").0;
    let trace = read_bytes("unfolding", &bytes).unwrap();
    assert!(trace.accesses.len() < 1000, "{}", trace.accesses.len());
    assert!(trace.report.problems.iter().any(|problem| problem.code == "damaged_memory_event"), "{:?}", trace.report);
}

/// One operator with very many tensors takes no longer than as many operators with one each.
#[test]
fn operators_with_many_tensors_are_read_quickly() {
    let count = 60_000;
    let tensors: Vec<String> = (1..=count).map(|storage| format!(r#"[{storage},{storage},0,8,4,"cuda:0"]"#)).collect();
    let text = format!(
        r#"{{"schema": "1.1", "nodes": [{{"id": 2, "name": "aten::cat", "input_types": ["GenericList[Tensor(float)]"],
        "inputs": [[{0}]], "output_types": ["GenericList[Tensor(float)]"], "outputs": [[{0}]]}}]}}"#,
        tensors.join(",")
    );
    let trace = read_bytes("many", text.as_bytes()).unwrap();
    assert_eq!((trace.objects.len(), trace.accesses.len()), (count, count));
    assert!(!trace.report.problems.iter().any(|problem| problem.code == "damaged_memory_event"), "nothing is left out");
}

#[test]
fn files_without_memory_data_are_refused() {
    for (bytes, words) in [
        (&b"\x80\x02cos\nsystem\nU\x02ls\x85R."[..], "GLOBAL of \"os.system\" was refused and no code was run"),
        (b"(dp0\n.", "protocol=4"),
        (b"\x80\x04]\x94.", "not a memory snapshot"),
        (b"\x80\x04}\x94(", "the file ends in the middle"),
        (b"<html>MemoryViz</html>", "the web page contains no memory snapshot"),
        (b"{\"segments\": [", "EOF"),
        (b"hello", "not a memory trace"),
    ] {
        let error = read_bytes("file", bytes).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// Operators with their input and output storages; `linear` is one layer, forward and backward.
#[test]
fn execution_traces() {
    for name in ["linear", "simple-add"] {
        let Some(file) = corpus(&format!("execution-trace/{name}.json.gz")) else { return };
        let trace = read_path(&file).unwrap();
        trace.check().unwrap();
        assert!(trace.has_accesses && trace.report.is_clean(), "{:?}", trace.report.problems);
        assert_eq!(trace.report.count_of("without_frees"), 1);
    }
    let Some(file) = corpus("execution-trace/linear.json.gz") else { return };
    let trace = read_path(&file).unwrap();
    let addmm = trace.strings.find("aten::addmm").unwrap();
    let call =
        trace.calls.ids().find(|call| trace.calls.name[call.index()] == addmm && !trace.access_rows(*call).is_empty());
    let touched: Vec<(u64, &str)> = trace
        .accesses_of(call.unwrap())
        .map(|access| (trace.objects.bytes[access.object.index()], access.mode.name()))
        .collect();
    // bias, input, weight; the output.
    assert_eq!(touched, [(4096, "read"), (2_097_152, "read"), (4_194_304, "read"), (2_097_152, "write")]);
    // The weight is read through a view, and is older than the trace.
    let weight = trace.accesses_of(call.unwrap()).nth(2).unwrap().object;
    assert!(trace.objects.allocated_by[weight.index()].is_none());
    let peak = curves(&trace)[0].peak();
    assert!(peak.bytes >= 2 * 4_194_304, "the weight and its gradient are alive together: {}", peak.bytes);
}

/// The same in Chakra's layout.
#[test]
fn execution_traces_of_chakra() {
    let Some(archive) = corpus("bundles/chakra-1.0.2-chakra.0.0.4.tgz") else { return };
    let archive = std::fs::File::open(archive).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new("tar").arg("xzf").arg("-").arg("-C").arg(folder.path()).stdin(archive).status().unwrap();
    assert!(status.success());
    let trace = read_path(&folder.path().join("1.0.2-chakra.0.0.4.json")).unwrap();
    trace.check().unwrap();
    let kinds: Vec<&str> = trace.calls.kind.iter().map(|kind| kind.name()).collect();
    assert!(kinds.contains(&"kernel") && kinds.contains(&"copy to device"), "{kinds:?}");
    assert!(trace.devices.len() >= 2);
    assert_eq!(trace.report.count_of("damaged_tensor"), 0);
}

#[test]
fn files_of_drgpum() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("memory_liveness.txt"), "[1]: 1(0), 2(2), 3(4), 4(5), \n").unwrap();
    assert!(read_path(folder.path()).is_err());
    std::fs::write(folder.path().join("memory_size_list.txt"), "op_id=1, size=4096\n").unwrap();
    let trace = read_path(folder.path()).unwrap();
    assert_eq!((trace.calls.len(), curves(&trace)[0].peak().bytes), (4, 4096));
}
