//! Spans with numbers in their names: the recording's memory does not grow with them, and individual calls keep their
//! names.

use crate::support;

use stackline_model::EventKind;
use stackline_recording::{CallDetail, FrameKey, Metric, Record};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use support::{here, recorded, torch};

/// Run `count` spans within some seconds. Returns the growth of the process in MB after the first quarter.
fn storm(python: &Path, run: &Path, mode: &str, count: u32, seconds: u32) -> f64 {
    let mut command = recorded(python, run);
    command.env("STACKLINE_MODE", mode).env("STACKLINE_SAMPLE_HZ", "99").arg(here("tests/programs/spans.py"));
    let output = command.args([count.to_string(), seconds.to_string()]).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let resident: Vec<f64> =
        stdout.trim().trim_matches(['[', ']']).split(", ").map(|number| number.parse().unwrap()).collect();
    println!("{mode}: {resident:?} MB after a quarter and all of {count} spans");
    resident[1] - resident[0]
}

/// Check that every call is recorded, with few names: the number of calls of each.
fn check_tree(run: &Path, count: u32) {
    let streams = support::streams(run);
    let stream = &streams[0];
    assert!(stream.ended && !stream.damaged);
    assert!(stream.lost.is_empty(), "{:?}", stream.lost);
    let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
    let mut nodes = HashSet::new();
    for (&(thread, node, metric), stats) in &stream.stats {
        if metric == Metric::CallTime {
            nodes.insert((thread, node));
            if let Some(FrameKey::Span { name } | FrameKey::FoldedSpan { name }) = stream.path(thread, node).last() {
                *calls.entry(stream.text(*name)).or_default() += stats.count;
            }
        }
    }
    let iterations = u64::from(count / 2);
    // The first 64 of a kind have a node each.
    assert_eq!(calls["iteration <n>"], iterations - 64, "{calls:?}");
    assert_eq!(calls["epoch <n> batch <n>"], iterations - 64);
    assert_eq!(calls["iteration 63"], 1);
    assert_eq!(calls["layer 11"], iterations.div_ceil(100), "few numbers are told apart");
    assert_eq!(calls.len(), 2 * 65 + 12, "{calls:?}");
    assert!(nodes.len() < 1000, "{} nodes", nodes.len());
}

#[test]
fn spans_with_numbers_do_not_grow_the_process() {
    let Some(python) = torch() else { return };
    const COUNT: u32 = 200_000;
    let run = tempfile::tempdir().unwrap();
    let grown = storm(&python, run.path(), "profile", COUNT, 0);
    assert!(grown < 2.0, "{grown} MB");
    check_tree(run.path(), COUNT);
}

#[test]
#[ignore = "long: ./dev test --long"]
fn five_minutes_of_spans_do_not_grow_the_process() {
    let Some(python) = torch() else { return };
    const COUNT: u32 = 1_200_000;
    let run = tempfile::tempdir().unwrap();
    let grown = storm(&python, run.path(), "profile", COUNT, 300);
    assert!(grown < 2.0, "{grown} MB");
    check_tree(run.path(), COUNT);
}

/// In a trace each span has the name that the program gave it.
#[test]
fn single_calls_keep_their_names() {
    let Some(python) = torch() else { return };
    const COUNT: u32 = 40_000;
    let run = tempfile::tempdir().unwrap();
    let grown = storm(&python, run.path(), "trace", COUNT, 4);
    // Rings of calls that wait for the writer are made when they are needed.
    assert!(grown < 40.0, "{grown} MB");
    let set = stackline_ingest::recording::read_traces(run.path(), &stackline_ingest::ReadOptions::default()).unwrap();
    let trace = &set.traces[0];
    let mut names: HashSet<&str> = HashSet::new();
    for event in trace.events.ids().filter(|event| trace.events.kind[event.index()] == EventKind::Annotation) {
        names.insert(trace.strings.get(trace.events.name[event.index()]));
    }
    for number in 0..COUNT / 2 {
        assert!(names.contains(format!("iteration {number}").as_str()), "iteration {number}");
        assert!(names.contains(format!("epoch {} batch {number}", number / 1000).as_str()), "batch {number}");
    }
    assert!(!names.iter().any(|name| name.contains("<n>")));
}

/// Steps that a program names itself are recognized, for any number of steps.
#[test]
fn named_steps_stay_steps() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let program = "import torch\nfor number in range(300):\n    with torch.profiler.record_function(f'ProfilerStep#{number}'):\n        torch.zeros(1).cosh()\n";
    let output = recorded(&python, run.path()).env("STACKLINE_MODE", "trace").args(["-c", program]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let set = stackline_ingest::recording::read_traces(run.path(), &stackline_ingest::ReadOptions::default()).unwrap();
    let steps: Vec<i64> = set.traces[0].steps.iter().map(|step| step.number).collect();
    assert_eq!(steps, (0..300).collect::<Vec<i64>>());
    let folded = support::all_records(run.path())
        .into_iter()
        .any(|record| matches!(record, Record::Call { detail: CallDetail::Name(_), .. }));
    assert!(folded, "those beyond 64 share a frame");
}
