//! Slack of events, in a trace small enough to compute it by hand.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code outside test functions"
)]

use crate::support::{mini, read};
use stackline_critical_path::CriticalPathError;
use stackline_critical_path::exact::{Exact, WindowChoice};
use std::collections::BTreeMap;

/// A thread that launches three kernels and waits for none; times in µs.
fn trace() -> stackline_model::Trace {
    let t = mini(
        "10/10   python_function  train.py(1): main  0..200
         10/10   user_annotation  first              0..100
         10/10   user_annotation  nothing            150..150
         10/10   cuda_runtime     cudaLaunchKernel   1..3      correlation=0
         gpu0/7  kernel           a                  15..40    correlation=0
         10/10   cuda_runtime     cudaLaunchKernel   4..6      correlation=1
         gpu0/7  kernel           c                  41..120   correlation=1
         10/10   cuda_runtime     cudaLaunchKernel   7..9      correlation=2
         gpu0/8  kernel           b                  30..90    correlation=2",
    );
    read(t.json())
}

fn annotation(text: &str) -> WindowChoice {
    WindowChoice::Annotation { text: text.to_owned(), instances: (0, 0) }
}

/// Slack of events with one of these names, in µs.
fn slack_us(choice: &WindowChoice) -> BTreeMap<String, i64> {
    let trace = trace();
    let exact = Exact::new(&trace);
    let rows = exact.event_slacks(exact.window(choice).unwrap());
    rows.iter().map(|row| (row.name.to_owned(), row.slack_ns / 1000)).collect()
}

#[test]
fn unawaited_work_has_slack_until_the_end() {
    let whole = slack_us(&WindowChoice::Whole);
    // `c` follows `a` on its stream after 1 µs, and may be late as a whole.
    assert_eq!((whole["a"], whole["b"], whole["c"]), (80, 110, 80));
    assert_eq!(whole["train.py(1): main"], 0);
}

#[test]
fn work_beyond_the_window_does_not_limit_slack() {
    let first = slack_us(&annotation("first"));
    assert_eq!((first["a"], first["b"], first["c"]), (60, 10, 0));
}

#[test]
fn empty_window_is_rejected() {
    let trace = trace();
    assert_eq!(Exact::new(&trace).window(&annotation("nothing")), Err(CriticalPathError::EmptyWindow));
}
