//! Rows of devices in the Chrome form of other profilers: told by names of processes and threads.

use crate::common;
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::{EventKind, Trace};

fn read(events: &[String]) -> Trace {
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    read_bytes("t.json", text.as_bytes(), &ReadOptions::default()).unwrap()
}

fn process(pid: i64, name: &str) -> String {
    format!(r#"{{"ph":"M","name":"process_name","pid":{pid},"args":{{"name":"{name}"}}}}"#)
}

fn thread(pid: i64, tid: i64, name: &str) -> String {
    format!(r#"{{"ph":"M","name":"thread_name","pid":{pid},"tid":{tid},"args":{{"name":"{name}"}}}}"#)
}

fn span(pid: i64, tid: i64, name: &str, ts: i64) -> String {
    format!(r#"{{"ph":"X","pid":{pid},"tid":{tid},"ts":{ts},"dur":5,"name":"{name}"}}"#)
}

/// Names of events by kind.
fn of_kind(trace: &Trace, kind: EventKind) -> Vec<&str> {
    trace.events.ids().filter(|e| trace.kind(*e) == kind).map(|e| trace.name(e)).collect()
}

#[test]
fn streams_of_jax_on_a_gpu_are_work_and_what_is_derived_from_them_is_not() {
    let trace = read(&[
        process(1, "/device:GPU:3"),
        thread(1, 1, "Stream #13(Compute,MemcpyD2D)"),
        thread(1, 2, "XLA Ops"),
        thread(1, 3, "XLA Modules"),
        process(701, "/host:CPU"),
        span(1, 1, "fusion.1", 10),
        span(1, 1, "MemcpyD2D", 20),
        span(1, 2, "fusion", 10),
        span(1, 3, "jit_step", 10),
        span(701, 9, "PjitFunction(step)", 0),
    ]);
    assert_eq!(of_kind(&trace, EventKind::Kernel), ["fusion.1"]);
    assert_eq!(of_kind(&trace, EventKind::Memcpy), ["MemcpyD2D"]);
    assert_eq!(of_kind(&trace, EventKind::GpuAnnotation), ["fusion", "jit_step"]);
    assert_eq!(of_kind(&trace, EventKind::Operator), ["PjitFunction(step)"]);
    assert_eq!(trace.gpu.device, [3, 3]);
}

#[test]
fn operations_of_a_tpu_are_work() {
    let rows = [process(1, "/device:TPU:0"), thread(1, 3, "XLA Ops"), thread(1, 1, "Steps")];
    let trace = read(&[&rows[..], &[span(1, 3, "fusion.1", 10), span(1, 1, "12", 10)]].concat());
    assert_eq!((trace.gpu.len(), of_kind(&trace, EventKind::GpuAnnotation)), (1, vec!["12"]));
}

#[test]
fn devices_of_tensorflow_1_and_intel_are_devices_and_processors_are_not() {
    let job = "/job:localhost/replica:0/task:0/device";
    let trace = read(&[
        process(1, &format!("{job}:GPU:1/stream:7 Compute")),
        process(2, &format!("{job}:GPU:1/stream:all Compute")),
        process(3, &format!("{job}:CPU:0 Compute")),
        process(4, "DEVICE<host>[0000:29:0.0]#0.0"),
        span(1, 0, "Conv2D", 10),
        span(2, 0, "Conv2D", 10),
        span(3, 0, "Const", 0),
        span(4, 0, "gemm_kernel", 12),
    ]);
    assert_eq!(of_kind(&trace, EventKind::Kernel), ["Conv2D", "gemm_kernel"]);
    assert_eq!(trace.gpu.device[0], 1);
    assert_eq!(of_kind(&trace, EventKind::Other), ["Const"]);
}

#[test]
fn categories_go_before_names() {
    let kineto = r#"{"ph":"X","cat":"cpu_op","pid":1,"tid":1,"ts":0,"dur":5,"name":"aten::mm"}"#.to_owned();
    let trace = read(&[process(1, "GPU0"), kineto]);
    assert_eq!((trace.gpu.len(), of_kind(&trace, EventKind::Operator)), (0, vec!["aten::mm"]));
}

#[test]
fn operations_of_rpd_have_the_launches_that_their_arrows_say() {
    let Some(corpus) = common::corpus() else { return };
    let text = std::fs::read(corpus.join("rpd/matmul.chrome.json")).unwrap();
    let trace = read_bytes("matmul.chrome.json", &text, &ReadOptions::default()).unwrap();
    assert_eq!((trace.gpu.len(), trace.gpu.device[0]), (85, 2));
    let total: i64 = trace.gpu.event.iter().map(|e| trace.events.dur[e.index()]).sum();
    assert_eq!(total / 1_000_000, 183);
    let linked = trace.gpu.launch.iter().filter(|launch| launch.is_some()).count();
    assert!(linked >= 80, "{linked} of 85");
    assert!(of_kind(&trace, EventKind::Runtime).contains(&"hipLaunchKernel"));
}
