//! Which steps a command looks at, and in which window.

use crate::findings_support::read;
use serde_json::{Value, json};
use stackline_analyze::critical_path::exact::Exact;
use stackline_analyze::steps::{Looked, StartUp};
use stackline_analyze::{Scope, analyses};
use stackline_model::{Trace, Values};

fn span(name: &str, cat: &str, (pid, start, length): (u32, i64, i64), correlation: i64) -> Value {
    let on_gpu = cat == "kernel";
    let (pid, tid) = if on_gpu { (0, 7) } else { (pid, pid) };
    let args = if correlation == 0 { json!({}) } else { json!({"correlation": correlation, "device": 0, "stream": 7}) };
    json!({"ph": "X", "name": name, "cat": cat, "ts": start, "dur": length, "pid": pid, "tid": tid, "args": args})
}

/// A step of process 1 from `start` µs on.
fn step(number: i64, start: i64, length: i64) -> Value {
    span(&format!("ProfilerStep#{number}"), "user_annotation", (1, start, length), 0)
}

/// A kernel, and the call that launches it.
fn kernel(correlation: i64, launched: i64, start: i64, length: i64) -> [Value; 2] {
    [
        span("cudaLaunchKernel", "cuda_runtime", (1, launched, 5), correlation),
        span("gemm", "kernel", (0, start, length), correlation),
    ]
}

fn trace(events: impl IntoIterator<Item = Value>) -> Trace {
    read(&json!({"traceEvents": events.into_iter().collect::<Vec<_>>()}).to_string())
}

/// The window in µs, by the table and by the path; both are the same.
#[track_caller]
fn window(trace: &Trace, scope: &Scope) -> (usize, (i64, i64)) {
    let looked = Looked::at(trace, scope);
    let (start, end) = looked.window(trace).unwrap();
    let exact = Exact::new(trace).window(&looked.choice).unwrap();
    assert_eq!((exact.start, exact.end), (start, end));
    let base = trace.span().unwrap().0;
    (looked.steps, ((start - base) / 1000, (end - base) / 1000))
}

fn one(number: i64) -> Scope {
    Scope::of_steps(Some((number, number)))
}

#[test]
fn work_that_was_launched_before_is_none_of_the_step() {
    let events = [step(0, 100, 100), step(1, 200, 100), step(2, 300, 100)];
    let before = kernel(1, 10, 50, 90);
    let late = kernel(2, 210, 220, 150);
    let trace = trace(events.into_iter().chain(before).chain(late));
    let base = |at: i64| at - 10;
    assert_eq!(window(&trace, &one(0)), (1, (base(140), base(200))));
    assert_eq!(window(&trace, &one(1)), (1, (base(200), base(370))));
    assert_eq!(window(&trace, &one(2)), (1, (base(370), base(400))));
    assert_eq!(window(&trace, &Scope::default()), (3, (base(140), base(400))));
}

#[test]
fn a_step_that_other_work_hides_has_its_span() {
    let events = [step(0, 0, 100), step(1, 100, 100), step(2, 200, 300)];
    let trace = trace(events.into_iter().chain(kernel(1, 20, 50, 300)));
    assert_eq!(window(&trace, &one(1)), (1, (100, 200)));
    let kernels = &(analyses::find("gpu_time").unwrap().run)(&trace, &one(1))[1];
    let Values::I64(counts) = &kernels.columns.iter().find(|c| c.name == "count").unwrap().values else { panic!() };
    assert_eq!(counts, &[Some(1)], "what runs in the window counts, whoever launched it");
}

#[test]
fn repeated_numbers_are_steps_of_their_own() {
    let of = |numbers: [i64; 4]| trace(numbers.into_iter().zip(0..).map(|(n, at)| step(n, at * 1000, 1000)));
    for numbers in [[7, 7, 7, 7], [3, 4, 4, 5]] {
        assert_eq!(window(&of(numbers), &Scope::default()), (4, (0, 4000)), "{numbers:?}");
    }
    // The first one takes long, but its number does not tell it from the others.
    let slow = trace([step(7, 0, 6000), step(7, 6000, 1000), step(7, 7000, 1000), step(7, 8000, 1000)]);
    assert_eq!(window(&slow, &Scope::default()), (4, (0, 9000)));
}

#[test]
fn a_first_step_that_warms_up_is_left_out_and_said() {
    let slow = trace([step(0, 2000, 2600), step(1, 4600, 1000), step(2, 5600, 1000), step(3, 6600, 1000)]);
    assert_eq!(window(&slow, &Scope::default()), (3, (2600, 5600)));
    let notes = Looked::at(&slow, &Scope::default()).notes;
    assert!(notes[0].starts_with("step 0 took 2.6 times as long as the middle one"), "{notes:?}");
    assert_eq!(Looked::at(&slow, &Scope { whole: true, ..Scope::default() }).steps, 0);
    let beside = span("setup", "user_annotation", (1, 0, 1500), 0);
    let late = trace([beside, step(0, 2000, 1000), step(1, 3000, 1000)]);
    assert_eq!(StartUp::of(&late).map(|start_up| start_up.before_ns), Some(2_000_000));
    assert_eq!(StartUp::of(&slow), None);
}
