//! Edits that change nothing, selectors that could mean several things, threads that cannot take turns.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code outside test functions"
)]

use crate::corpus_support;
use crate::critical_path_support;

use corpus_support::for_each_trace;
use critical_path_support::Mini;
use serde_json::json;
use stackline_analyze::critical_path::CriticalPathError;
use stackline_analyze::critical_path::exact::what_if::{self, Edit, Prediction};
use stackline_analyze::critical_path::exact::{Exact, WindowChoice};
use stackline_model::Trace;
use std::cell::Cell;

fn predict(trace: &Trace, edit: &str) -> Result<Prediction, CriticalPathError> {
    what_if::predict(trace, &WindowChoice::Whole, &[Edit::parse(edit).unwrap()])
}

fn bounds(found: &Prediction) -> [i64; 3] {
    [found.gain.low_ns, found.gain.ns, found.gain.high_ns]
}

#[test]
fn times_one_gains_exactly_nothing_anywhere() {
    let (done, with_other_clocks) = (Cell::new(0), Cell::new(0));
    for_each_trace(|name, trace| {
        for selector in ["kernel:*", "operator:*", "frame:*", "category:launch_latency", "category:host_python"] {
            // Some traces have no such thing.
            let Ok(found) = predict(trace, &format!("scale {selector} 1.0")) else { continue };
            assert_eq!(bounds(&found), [0; 3], "{name} {selector}");
            done.set(done.get() + 1);
            with_other_clocks.set(with_other_clocks.get() + u32::from(Exact::new(trace).clocks_disagree()));
        }
    });
    println!("{} edits, {} of them where clocks disagree", done.get(), with_other_clocks.get());
}

/// Launches and kernels; those of the second stream start `early` µs before their call.
fn two_streams(early: i64) -> Mini {
    let mut t = Mini::default();
    t.op("aten::mm", 10, 0, 200);
    for i in 0..5_i64 {
        t.call("cudaLaunchKernel", 10, 20 * i, 5, 10 + i);
        t.kernel("gemm", 7, 20 * i + 10, 8, 10 + i);
        t.call("cudaLaunchKernel", 10, 20 * i + 7, 5, 20 + i);
        t.kernel("gemm_tail", 9, 20 * i + 20 - early, 15, 20 + i);
    }
    t.call("cudaDeviceSynchronize", 10, 150, 20, 30);
    t
}

#[test]
fn clocks_that_disagree_make_no_gain_of_nothing() {
    let trace = two_streams(40).trace();
    assert!(Exact::new(&trace).clocks_disagree());
    assert_eq!(bounds(&predict(&trace, "scale kernel:* 1").unwrap()), [0; 3]);
    let changed = predict(&trace, "scale kernel:* 0.5").unwrap();
    assert!(changed.gain.low_ns < changed.gain.high_ns, "{changed:?}");
}

#[test]
fn a_whole_name_means_that_one() {
    let mut t = two_streams(0);
    t.call("cudaLaunchKernel", 10, 101, 5, 40);
    t.kernel("copy<a*>", 7, 110, 5, 40);
    t.call("cudaLaunchKernel", 10, 107, 5, 41);
    t.kernel("copy<ab>", 7, 120, 5, 41);
    for i in 0..3_i64 {
        t.call("cudaLaunchKernel", 10, 113 + 7 * i, 5, 50 + i);
        let name =
            ["ncclDevKernel_AllReduce", "ncclDevKernel_AllReduce_Sum", "ncclDevKernel_AllReduce_Max"][i as usize];
        t.kernel(name, 11, 130 + 10 * i, 5, 50 + i);
    }
    let trace = t.trace();
    let events = |edit: &str| predict(&trace, edit).unwrap().edits[0].1;
    assert_eq!(events("scale kernel:copy<a*> 0.5"), 1);
    assert_eq!(events("scale kernel:copy<* 0.5"), 2);
    assert_eq!(events("scale collective:ncclDevKernel_AllReduce 0.5"), 1);
    assert_eq!(events("scale collective:AllReduce 0.5"), 3);
}

#[test]
fn a_name_of_another_kind_is_offered_as_such() {
    let trace = two_streams(0).trace();
    let message = |edit: &str| predict(&trace, edit).unwrap_err().to_string();
    assert!(
        message("scale kernel:aten::mm 0.5").contains("'operator:aten::mm'"),
        "{}",
        message("scale kernel:aten::mm 0.5")
    );
    assert!(message("scale operator:gemm 0.5").contains("'kernel:gemm'"), "{}", message("scale operator:gemm 0.5"));
    assert!(message("scale kernel:gemn 0.5").contains("'gemm'"), "{}", message("scale kernel:gemn 0.5"));
}

/// Where many threads are in Python at once, their spans do not tell who has the interpreter: bounds stay within reason.
#[test]
fn threads_that_run_at_once_take_no_turns() {
    let mut t = Mini::default();
    for thread in 0..32_i64 {
        for i in 0..40_i64 {
            let start = 7 * thread + 100 * i;
            t.push("python_function", "train.py(1): work", (10, 10 + thread), (start, 60 + thread), json!({}));
            t.op("aten::mm", 10 + thread, start + 5, 40);
        }
    }
    let trace = t.trace();
    let found = predict(&trace, "scale operator:aten::mm 0.5").unwrap();
    let [low, gain, high] = bounds(&found);
    assert!(0 < gain && gain <= high && high <= found.before_ns(), "{found:?}");
    assert!(low > -found.before_ns() / 2, "{low} of {}", found.before_ns());
}
