//! Host records with impossible times.

use crate::repairs::{common, list, read, x};
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::Trace;

const HOST: (i64, i64) = (1, 1);
const SECOND: i64 = 1_000_000;
const YEAR: i64 = 365 * 86_400 * SECOND;

fn op(name: &str, ts: i64, dur: i64) -> String {
    x("cpu_op", name, HOST, (ts, dur), "")
}

fn annotation(name: &str, ts: i64, dur: i64) -> String {
    x("user_annotation", name, HOST, (ts, dur), "")
}

fn instant(name: &str, ts: i64) -> String {
    format!("Traces/Trace - {name} @{ts}")
}

/// Twenty operators, one per ms, and further records.
fn program(more: &[String]) -> Trace {
    let mut events: Vec<String> = (0..20).map(|i| op("aten::add", SECOND + 1000 * i, 900)).collect();
    events.extend_from_slice(more);
    read(&list(&events))
}

/// Names of marked records.
fn marked(trace: &Trace) -> Vec<&str> {
    let marked: Vec<&str> =
        trace.events.ids().filter(|e| !trace.events.is_plausible(*e)).map(|e| trace.name(e)).collect();
    assert_eq!(trace.report.count_of("implausible_host_time"), marked.len() as u64);
    marked
}

#[test]
fn records_outside_of_the_recording_are_excluded() {
    let marks =
        [instant("Iteration Start: PyTorch Profiler", SECOND - 10), instant("Record Window End", SECOND + 25_000)];
    let with = |event: &str| program(&[&marks[..], &[event.to_owned()]].concat());
    for event in [op("wrong", SECOND + 50, SECOND), op("wrong", SECOND + 50, YEAR), op("wrong", 10, 5)] {
        let trace = with(&event);
        assert_eq!(marked(&trace), ["wrong"], "{event}");
        assert_eq!(trace.span(), Some((SECOND * 1000, SECOND * 1000 + 19_900_000)));
    }
    assert_eq!(marked(&with(&op("late", SECOND + 50, 50_000))), [""; 0]);
    // A step that the user names may be longer than its recorded part.
    assert_eq!(marked(&with(&annotation("ProfilerStep#3", SECOND, 30 * SECOND))), [""; 0]);
    let steps = with(&annotation("ProfilerStep#3", SECOND, YEAR));
    assert_eq!((marked(&steps), steps.steps.len()), (vec!["ProfilerStep#3"], 0));
}

#[test]
fn marks_contradicted_by_the_trace_are_ignored() {
    let trace = program(&[instant("Record Window End", SECOND - 900_000)]);
    assert_eq!(marked(&trace), [""; 0]);
}

#[test]
fn isolated_distant_records_are_excluded_without_marks() {
    for event in [op("wrong", SECOND, 11 * SECOND), op("wrong", YEAR, 5), annotation("wrong", SECOND - 1, YEAR)] {
        assert_eq!(marked(&program(&[event])), ["wrong"]);
    }
    // Several independent ones.
    let several = [op("wrong", SECOND, 20 * SECOND), op("wrong too", SECOND, YEAR), op("early", -YEAR, 5)];
    assert_eq!(marked(&program(&several)), ["wrong", "wrong too", "early"]);
    let fine = [
        vec![op("a long one", SECOND, 9 * SECOND)],
        vec![op("behind a pause", 300 * SECOND, 5)],
        vec![op("waits", 2 * SECOND, YEAR), x("cuda_runtime", "cudaStreamSynchronize", HOST, (2 * SECOND, YEAR), "")],
        // The first call loads libraries and still contains all others.
        vec![op("a slow start", -40 * SECOND, 41 * SECOND)],
    ];
    for events in fine {
        assert_eq!(marked(&program(&events)), [""; 0], "{events:?}");
    }
}

#[test]
fn absurd_records_do_not_extend_open_spans() {
    let trace = program(&[op("wrong", SECOND, YEAR), "1/1 user_annotation open B@1000000".to_owned()]);
    assert_eq!(trace.span(), Some((SECOND * 1000, SECOND * 1000 + 19_900_000)));
}

#[test]
fn calls_end_with_their_caller() {
    let ms = 1000;
    // Steps of 100 ms with a module in each.
    let steps = |call: &str| {
        let mut events: Vec<String> = Vec::new();
        for i in 0..20 {
            let at = 100 * ms * i;
            events.push(annotation(&format!("ProfilerStep#{i}"), at, 100 * ms));
            events.push(x("python_function", "nn.Module: Net_0", HOST, (at + ms, 50 * ms), ""));
            events.push(x("cpu_op", "aten::mm", HOST, (at + 20 * ms, 9 * ms), ""));
        }
        events.push(call.to_owned());
        read(&list(&events))
    };
    let call = |cat: &str, at: i64, dur: i64| x(cat, "cudaLaunchKernel", HOST, (at * ms, dur * ms), "");
    // Across the ends of module and step; across the start of a step; around an operator of its step.
    for wrong in [call("cpu_op", 230, 400), call("cpu_op", 270, 400), call("cuda_runtime", 215, 150)] {
        let trace = steps(&wrong);
        assert_eq!(marked(&trace), ["cudaLaunchKernel"], "{wrong}");
        assert_eq!(trace.steps.len(), 20);
    }
    for fine in [call("cpu_op", 230, 90), call("cpu_op", 270, 29), call("cuda_runtime", 1980, 300)] {
        assert_eq!(marked(&steps(&fine)), [""; 0], "{fine}");
    }
    // A frame may call the next step; a single span may itself be too short.
    let frame = x("python_function", "loop", HOST, (230 * ms, 400 * ms), "");
    assert_eq!(marked(&steps(&frame)), [""; 0]);
    let short = [annotation("epoch", 0, 2), op("aten::mm", 1, 500 * ms)];
    assert_eq!(marked(&read(&list(&short))), [""; 0]);
}

#[test]
fn real_traces_have_plausible_times() {
    for path in common::kineto() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let trace = read_bytes(&name, &std::fs::read(&path).unwrap(), &ReadOptions::default()).unwrap();
        assert_eq!(trace.report.count_of("implausible_host_time"), 0, "{name}: {:?}", trace.report.problems);
    }
}
