//! Chrome traces of XProf on a GPU: hand-made ones, and two of JAX on an H100 with counts made by Python.

use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::{EventKind, Trace};
use std::io::Read as _;
use std::path::Path;

fn read(events: &[String]) -> Trace {
    let text = format!(r#"{{"displayTimeUnit":"ns","traceEvents":[{}]}}"#, events.join(","));
    read_bytes("t.json", text.as_bytes(), &ReadOptions::default()).unwrap()
}

/// A row: a thread of a process, both named.
fn row((pid, process): (i64, &str), (tid, thread): (i64, &str)) -> String {
    format!(
        r#"{{"ph":"M","name":"process_name","pid":{pid},"args":{{"name":"{process}"}}}},
           {{"ph":"M","name":"thread_name","pid":{pid},"tid":{tid},"args":{{"name":"{thread}"}}}}"#
    )
}

fn span((pid, tid): (i64, i64), name: &str, (ts, dur): (i64, i64), args: &str) -> String {
    format!(r#"{{"ph":"X","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"name":"{name}","args":{{{args}}}}}"#)
}

fn rows() -> Vec<String> {
    let host = (701, "/host:CPU");
    vec![
        row((1, "/device:GPU:0"), (14, "Stream #14(Compute)")),
        row(host, (9, "python3")),
        row(host, (1242, "Host Threads/1242")),
    ]
}

#[test]
fn correlation_ids_identify_launches() {
    let events = [
        span((701, 9), "loop_fusion", (10, 5), r#""correlation_id":"7","device_id":"0""#),
        span((701, 9), "cuGraphLaunch (CudaGraph:2)", (20, 5), r#""correlation_id":"8""#),
        span((1, 14), "loop_fusion", (17, 3), r#""correlation_id":"7","hlo_op":"loop_fusion""#),
        span((1, 14), "gemm", (30, 3), r#""correlation_id":"8","cuda_graph_id":"2""#),
        span((1, 14), "add", (34, 3), r#""correlation_id":"8","cuda_graph_id":"2""#),
    ];
    let trace = read(&[rows(), events.to_vec()].concat());
    let launches: Vec<&str> = trace.gpu.launch.iter().map(|&call| trace.name(call)).collect();
    assert_eq!(launches, ["loop_fusion", "cuGraphLaunch (CudaGraph:2)", "cuGraphLaunch (CudaGraph:2)"]);
    assert_eq!(trace.gpu.correlation, [7, 8, 8]);
    assert_eq!(trace.report.problems, []);
}

#[test]
fn kinds_of_host_spans_follow_from_names() {
    let on_host = |name, at, args| span((701, 9), name, at, args);
    let events = [
        on_host("train", (0, 100), r#""step_num":"3""#),
        on_host("$train.py:12 step", (1, 90), ""),
        on_host("PjitFunction(step)", (2, 50), ""),
        on_host("PjitFunction(step)", (3, 48), ""),
        on_host("Thunks::Prepare", (4, 2), ""),
        on_host("cuLaunchHostFunc", (7, 2), ""),
        on_host("custom", (10, 2), ""),
        span((701, 1242), "<UNKNOWN>", (5, 5), ""),
    ];
    let trace = read(&[rows(), events.to_vec()].concat());
    let kinds: Vec<EventKind> = trace.events.kind.clone();
    use EventKind::{Annotation, Driver, Operator, Other, Overhead, PythonFunction};
    assert_eq!(kinds, [Annotation, PythonFunction, Operator, Other, Other, Driver, Other, Overhead]);
    assert_eq!(trace.steps.iter().map(|step| step.number).collect::<Vec<_>>(), [3]);
    // The same names in another program's trace have no meaning.
    let other = read(&[span((701, 9), "$train.py:12 step", (1, 90), "")]);
    assert_eq!(other.events.kind, [Other]);
}

#[test]
fn empty_records_are_damage_except_at_the_end() {
    let one = span((701, 9), "a", (0, 1), "");
    let problems = |events: &[String]| {
        let trace = read(events);
        assert_eq!(trace.report.records, events.len() as u64);
        trace.report.problems.iter().map(|p| (p.code.clone(), p.count)).collect::<Vec<_>>()
    };
    assert_eq!(problems(&[one.clone(), "{}".to_owned()]), []);
    let inside = [one.clone(), "{}".to_owned(), "{}".to_owned(), one];
    assert_eq!(problems(&inside), [("unknown_record".to_owned(), 2)]);
}

fn fixture(name: &str) -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/traces-h100").join(name);
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_end(&mut text).unwrap();
    read_bytes(name, &text, &ReadOptions::default()).unwrap()
}

/// Operations with a launch, launch calls, and spans of threads by kind, as counted by Python in the file.
#[test]
fn all_jax_gpu_work_has_a_launch() {
    let counts = |trace: &Trace| {
        let mut calls: Vec<_> = trace.gpu.launch.iter().filter_map(|call| call.some()).collect();
        let linked = calls.len();
        calls.sort_unstable();
        calls.dedup();
        let count = |kind| trace.events.kind.iter().filter(|&&k| k == kind).count();
        use EventKind::{Driver, Operator, Overhead, PythonFunction};
        (trace.gpu.len(), linked, calls.len(), [Driver, Operator, Overhead, PythonFunction].map(count))
    };
    let (train, eager) = (fixture("jax-train.trace.json.gz"), fixture("jax-eager.trace.json.gz"));
    // Python frames without the 7 of the profile's start and similar ones.
    assert_eq!(counts(&train), (250, 250, 10, [41, 5, 7, 90]));
    assert_eq!(counts(&eager), (36, 36, 36, [72, 20, 5, 1036]));
    assert_eq!(train.steps.iter().map(|step| step.number).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    for trace in [train, eager] {
        assert_eq!(trace.report.count_of("unknown_record"), 0);
        assert_eq!(trace.report.count_of("no_launch"), 0);
    }
}
