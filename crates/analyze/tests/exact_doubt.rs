//! What the exact path says for certain, and what it does not, in tiny traces with records that are wrong or missing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code outside test functions"
)]

use crate::critical_path_support;

use critical_path_support::Mini;
use serde_json::json;
use stackline_analyze::critical_path::exact::{Category, Exact, ExactPath, Hop, WindowChoice};
use stackline_analyze::critical_path::gpu_order::Evidence;
use stackline_model::Trace;

fn path(trace: &Trace) -> (Vec<&'static str>, ExactPath) {
    let exact = Exact::new(trace);
    let warnings = exact.warnings().into_iter().map(|w| w.code).collect();
    (warnings, exact.path(&WindowChoice::Whole).unwrap())
}

fn hops_of<'a>(trace: &'a Trace, path: &'a ExactPath, name: &'a str) -> impl Iterator<Item = Hop> + 'a {
    path.hops.iter().filter(move |h| h.event.is_some() && trace.name(h.event) == name)
}

/// Two kernels of a stream; the first is said to end long after the second began.
fn late_flush() -> Mini {
    let mut t = Mini::default();
    t.op("aten::mm", 10, 0, 60);
    t.call("cudaLaunchKernel", 10, 10, 10, 1);
    t.call("cudaLaunchKernel", 10, 30, 10, 2);
    t.kernel("long", 7, 40, 900, 1);
    t.kernel("short", 7, 140, 100, 2);
    t
}

#[test]
fn the_end_of_an_overlong_kernel_is_inferred() {
    let trace = late_flush().trace();
    let (warnings, path) = path(&trace);
    assert!(warnings.contains(&"overlong_operations"), "{warnings:?}");
    let evidence: Vec<Evidence> =
        hops_of(&trace, &path, "long").filter(|h| h.rule == "record").map(|h| h.evidence).collect();
    assert_eq!(evidence, [Evidence::Inferred]);
}

#[test]
fn a_clipped_kernel_is_a_fact() {
    let options = stackline_ingest::ReadOptions { clip_overlaps: true, ..Default::default() };
    let trace = stackline_ingest::read_bytes("t.json", &late_flush().json(), &options).unwrap();
    let (warnings, path) = path(&trace);
    assert!(!warnings.contains(&"overlong_operations"), "{warnings:?}");
    let records: Vec<_> = path.hops.iter().filter(|h| h.rule == "record").map(|h| h.evidence).collect();
    assert!(!records.is_empty() && records.iter().all(|&evidence| evidence == Evidence::Exact), "{records:?}");
}

/// Five launches and kernels of a process and its device, with `lost` without the second kernel's launch and the third
/// launch's kernel.
fn rank(t: &mut Mini, process: i64, lost: bool) {
    let (host, device) = ((process, process), (process - 100, 7));
    for i in 0..5_i64 {
        let args = json!({ "correlation": process * 10 + i });
        if !(lost && i == 1) {
            t.push("cuda_runtime", "cudaLaunchKernel", host, (20 * i, 5), args);
        }
        let args = json!({ "stream": 7, "correlation": process * 10 + i, "device": process - 100 });
        if !(lost && i == 2) {
            t.push("kernel", "work", device, (20 * i + 10, 15), args);
        }
    }
}

#[test]
fn what_one_process_lost_leaves_the_others_certain() {
    let mut t = Mini::default();
    rank(&mut t, 100, false);
    rank(&mut t, 101, true);
    let trace = t.trace();
    let exact = Exact::new(&trace);
    let of = |rule: &str| exact.graph().edges.iter().filter(|e| e.dependency.rule() == rule).count();
    assert_eq!((of("stream_order"), of("stream_order_amid_loss")), (4, 2));
}

#[test]
fn clocks_that_disagree_are_those_of_a_process() {
    let mut t = Mini::default();
    rank(&mut t, 100, false);
    // A kernel that starts 5 µs before its call.
    t.push("cuda_runtime", "cudaLaunchKernel", (200, 200), (50, 5), json!({ "correlation": 9000 }));
    t.push("kernel", "early", (1, 7), (45, 20), json!({ "stream": 7, "correlation": 9000, "device": 1 }));
    let trace = t.trace();
    let (warnings, path) = path(&trace);
    assert!(warnings.contains(&"clocks_disagree"), "{warnings:?}");
    let launches: Vec<Hop> = path.hops.iter().filter(|h| h.category == Category::LaunchLatency).collect();
    assert!(!launches.is_empty() && launches.iter().all(|h| h.evidence == Evidence::Exact), "{launches:?}");
}

#[test]
fn only_the_loop_of_queries_is_uncertain() {
    let mut t = Mini::default();
    t.push("python_function", "train.py(1): step", (10, 10), (0, 1_000), json!({}));
    for i in 0..10 {
        t.call("cudaEventQuery", 10, 400 + 20 * i, 5, 100 + i);
    }
    let trace = t.trace();
    let (_, path) = path(&trace);
    let inferred = path.inferred_ns();
    assert!((185_000..=200_000).contains(&inferred), "{inferred} ns: {:?}", path.hops);
}

#[test]
fn gaps_of_threads_without_python_are_not_called_python() {
    let mut t = Mini::default();
    t.op("aten::mm", 10, 0, 100);
    t.op("aten::mm", 10, 200, 100);
    t.op("aten::add", 11, 300, 100);
    t.op("aten::add", 11, 500, 100);
    let causes = |t: &Mini| {
        let trace = t.trace();
        let (_, path) = path(&trace);
        path.by_category().into_iter().filter(|(_, ns)| *ns > 0).collect::<Vec<_>>()
    };
    let found = causes(&t);
    assert!(found.contains(&(Category::HostPython, 100_000)), "{found:?}");
    assert!(found.contains(&(Category::Unknown, 100_000)), "{found:?}");
    // Where the process has frames, a thread without any runs none.
    t.push("python_function", "train.py(1): step", (10, 10), (0, 301), json!({}));
    let found = causes(&t);
    assert!(found.iter().all(|(c, _)| *c != Category::Unknown), "{found:?}");
}
