//! Tests of `diff` for runs without steps: first lines, and times of calls.

use crate::common;

use common::{run, stdout};
use serde_json::Value;
use stackline_testkit::mini::MiniTrace;
use std::fs;
use std::path::Path;

/// Writes a trace with so many calls of attention, each of so many µs on the GPU.
fn trace(folder: &Path, name: &str, (calls, us): (i64, i64)) -> String {
    let mut trace = MiniTrace::new("");
    for call in 0..calls {
        let lines = format!(
            "1/1     cpu_op        attend            0+40
             1/1     cuda_runtime  cudaLaunchKernel  5+10      correlation={}
             gpu0/7  kernel        attend_kernel     30+{us}   correlation={}",
            call + 1,
            call + 1
        );
        trace.add_at(1000 + call * (us + 80), &lines);
    }
    let path = folder.join(name).to_str().unwrap().to_owned();
    fs::write(&path, trace.json()).unwrap();
    path
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn different_call_counts_are_reported_first_and_calls_compared() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] =
        [("a.json", (68, 4005)), ("b.json", (60, 4013))].map(|(name, counts)| trace(folder.path(), name, counts));
    let shown = stdout(&["diff", &a, &b]);
    let first = shown.lines().next().unwrap();
    assert!(
        first.starts_with("Not tested for significance: the runs have different numbers of calls. A has 68"),
        "{shown}"
    );
    let text = one_line(&shown);
    let mean = "The mean time of GPU operations present in both runs changes by +0.2 %";
    assert!(text.contains(&format!("{mean} (not tested for significance).")), "{text}");
    assert!(text.contains("4005 µs → 4013 µs a call, +0.2 %, 68 → 60 calls, untested"), "{text}");
    assert!(!text.contains(" a step") && !text.contains("he step ") && !text.contains("1 steps"), "{text}");
    let markdown = stdout(&["diff", &a, &b, "--as", "markdown"]);
    let lines: Vec<&str> = markdown.lines().filter(|line| !line.is_empty()).take(2).collect();
    assert!(
        lines[0]
            .starts_with("### Stackline: the runs have different numbers of calls: the mean time of GPU operations"),
        "{markdown}"
    );
    assert!(lines[1].starts_with("**Warning:** A has 68 GPU operations, B has 60"), "{markdown}");
    assert!(markdown.contains("| total | A | B |") && !markdown.contains(" a step"), "{markdown}");
    let document: Value = serde_json::from_str(&stdout(&["diff", &a, &b, "--format", "json"])).unwrap();
    let row = &document["tables"]["kernels"]["rows"][0];
    assert_eq!((&document["per"], &row["before_ns_per_call"]), (&"call".into(), &4_005_000.0.into()), "{row}");
    assert_eq!(row["after_ns_per_call"], 4_013_000.0, "{row}");
}

#[test]
fn runs_without_steps_are_compared_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] =
        [("a.json", (60, 400)), ("b.json", (60, 600))].map(|(name, counts)| trace(folder.path(), name, counts));
    let text = one_line(&stdout(&["diff", &a, &b]));
    assert!(text.starts_with("Not tested for significance: each side has one run without steps"), "{text}");
    assert!(text.contains("The run changes by +") && text.contains(", 60 calls, untested"), "{text}");
    assert!(!text.contains(" a step") && !text.contains("he step "), "{text}");
    let judged = run(&["diff", &a, &b, "--fail-on", "step>3%"]);
    let stderr = String::from_utf8(judged.stderr).unwrap();
    assert!(judged.status.code() == Some(4) && stderr.contains("step>3%: the run is "), "{stderr}");
}

#[test]
fn several_runs_with_different_call_counts_are_judged_per_call() {
    let folder = tempfile::tempdir().unwrap();
    let write = |(name, counts): (&str, (i64, i64))| trace(folder.path(), name, counts);
    let [a1, a2, a3] = [("a1.json", (20, 999)), ("a2.json", (20, 1000)), ("a3.json", (20, 1001))].map(write);
    let [b1, b2, b3] = [("b1.json", (40, 949)), ("b2.json", (40, 950)), ("b3.json", (40, 951))].map(write);
    let (a, b) = ([&*a1, &*a2, &*a3], [&*b1, &*b2, &*b3]);
    let diff = |(before, after): ([&str; 3], [&str; 3]), rest: &[&str]| {
        run(&[&["diff"], &before[..], &["--with"], &after[..], rest].concat())
    };
    let text = one_line(&String::from_utf8(diff((a, b), &[]).stdout).unwrap());
    assert!(text.contains("1000 µs → 950.0 µs a call, -5.0 %, 20 → 40 calls, faster"), "{text}");
    assert!(!text.contains("slower") && !text.contains("umber of calls changed"), "{text}");
    let markdown = String::from_utf8(diff((a, b), &["--as", "markdown"]).stdout).unwrap();
    assert!(markdown.contains("-5.0 % | 20 → 40 calls | **faster** |"), "{markdown}");
    for condition in ["kernels>3%", "kernel:attend_kernel>3%", "kernel:attend_kernel>0%"] {
        assert_eq!(diff((a, b), &["--fail-on", condition]).status.code(), Some(0), "{condition}");
    }
    let slower = diff((b, a), &["--fail-on", "kernel:attend_kernel>3%"]);
    let stderr = String::from_utf8(slower.stderr).unwrap();
    assert!(
        slower.status.code() == Some(4) && stderr.contains("a call of attend_kernel is 5.3 % slower, significant"),
        "{stderr}"
    );
    // Wholes of other lengths are no answer, and not judged.
    for condition in ["step>3%", "gpu>3%", "cpu>3%"] {
        let refused = diff((a, b), &["--fail-on", condition]);
        let stderr = String::from_utf8(refused.stderr).unwrap();
        let why = "cannot be judged per call: A has 20 GPU operations, B has 40";
        assert!(refused.status.code() == Some(1) && stderr.contains(why), "{condition}: {stderr}");
    }
}

/// Iterations of a copy and nine kernels, so many µs from one to the next, each in a step or in none.
fn iterations(folder: &Path, name: &str, (period, are_marked): (i64, bool)) -> String {
    let mut trace = MiniTrace::new("");
    for at in 0..8 {
        if are_marked {
            trace.add_at(period * at, &format!("1/1 user_annotation ProfilerStep#{at} 0+{period}"));
        }
        common::add_iteration(&mut trace, at, period * at);
    }
    common::write(folder, name, trace.json())
}

#[test]
fn runs_with_and_without_steps_are_compared_per_call_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let a = iterations(folder.path(), "a.json", (1000, true));
    let b = trace(folder.path(), "b.json", (30, 400));
    for (before, after, who) in [(&a, &b, "A has steps and B has none"), (&b, &a, "B has steps and A has none")] {
        let shown = stdout(&["diff", before, after]);
        let text = one_line(&shown);
        assert!(text.starts_with(&format!("Steps are not comparable: {who}, so only times per call")), "{text}");
        assert!(!text.contains("slower") && !text.contains("faster") && !text.contains("he step is"), "{text}");
        assert!(!text.contains("GPU busy"), "{text}");
        // No row is listed, so the heading counts none.
        assert!(text.contains("No call occurs in both runs") && text.contains("GPU work: none of "), "{text}");
        assert!(text.contains("; rows in one run only: ") && !text.contains("changes are scaled"), "{text}");
    }
    let markdown = stdout(&["diff", &a, &b, "--as", "markdown"]);
    assert!(markdown.starts_with("### Stackline: the steps of the runs are not comparable: "), "{markdown}");
    assert!(!markdown.contains("| in all | A | B |"), "{markdown}");
    let document: Value = serde_json::from_str(&stdout(&["diff", &a, &b, "--format", "json"])).unwrap();
    assert_eq!((&document["per"], &document["confidence"]), (&"call".into(), &"low".into()));
    assert!(document["warnings"][0].as_str().unwrap().starts_with("A has steps and B has none"), "{document}");
    assert_eq!(document["tables"]["steps"]["rows"], serde_json::json!([]));
    for row in document["tables"]["kernels"]["rows"].as_array().unwrap() {
        assert!(row["change_percent"].is_null() && row["change_ns"].is_null(), "{row}");
    }
    let judged = run(&["diff", &a, &b, "--fail-on", "step>3%"]);
    let stderr = String::from_utf8(judged.stderr).unwrap();
    assert!(
        judged.status.code() == Some(1) && stderr.contains("cannot be judged: A has steps and B has none"),
        "{stderr}"
    );
}

#[test]
fn calls_of_a_step_and_of_a_whole_run_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let a = iterations(folder.path(), "a.json", (1000, true));
    let b = iterations(folder.path(), "b.json", (1000, false));
    // All of the trace is asked for, so that no steps are inferred.
    let text = one_line(&stdout(&["diff", &a, &b, "--whole"]));
    assert!(text.starts_with("Steps are not comparable: A has steps and B has none"), "{text}");
    let mean = "The mean time of GPU operations present in both runs changes by +0.0 %";
    assert!(text.contains(&format!("{mean} (not tested for significance).")), "{text}");
}

#[test]
fn steps_are_compared_with_inferred_ones() {
    let folder = tempfile::tempdir().unwrap();
    let a = iterations(folder.path(), "a.json", (1000, true));
    let b = iterations(folder.path(), "b.json", (1200, false));
    let text = one_line(&stdout(&["diff", &a, &b]));
    let warning =
        "Warning: B marks no steps, so its steps are inferred from 8 repeats of a pattern of 10 GPU operations.";
    let (warned, claimed) = (text.find(warning), text.find("The step"));
    assert!(warned.is_some() && warned < claimed, "{text}");
    assert!(text.contains("20.0 %") && text.contains("1000 µs → 1200 µs"), "{text}");
    let document: Value = serde_json::from_str(&stdout(&["diff", &a, &b, "--format", "json"])).unwrap();
    assert_eq!((&document["per"], &document["confidence"]), (&"step".into(), &"low".into()));
}
