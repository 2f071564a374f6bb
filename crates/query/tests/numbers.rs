//! Tests of numbers in answers against known inputs.

use crate::common::{document, numbers};
use serde_json::{Value, json};
use stackline_engine::OpenOptions;
use stackline_query::{Answer, Arguments, OpenRun, QueryError, run_query};
use stackline_testkit::mini;

/// The trace that these lines of a mini trace describe.
fn opened(lines: &str) -> OpenRun {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    std::fs::write(&path, mini::trace(lines)).expect("written");
    OpenRun::open(&[path], &OpenOptions::default()).expect("opens")
}

fn answer(opened: &OpenRun, name: &str, arguments: &[(&str, &str)]) -> Answer {
    run_query(opened, name, &Arguments::new(arguments.iter().copied())).expect("answered")
}

/// Four steps of 1 ms, 10 µs apart.
fn steps() -> String {
    let step = |at: u32| {
        format!(
            "1/1     user_annotation      ProfilerStep#{at}  {at}000+990
             1/1     cpu_op               aten::mm           {at}010+500
             1/1     cpu_op               aten::mm           {at}020+400
             gpu0/7  gpu_user_annotation  ProfilerStep#{at}  {at}000+990
             gpu0/7  kernel               gemm               {at}100+250\n"
        )
    };
    (0..4).map(step).collect()
}

/// Lines that a test accepts.
fn without(lines: &str, part: &str) -> String {
    lines.lines().filter(|line| !line.contains(part)).collect::<Vec<_>>().join("\n")
}

#[test]
fn ranges_are_busy_with_work_only_and_recursion_counts_once() {
    let run = opened(&steps());
    let range = document(&answer(&run, "range", &[("from", "1000000"), ("to", "2000000")]));
    let busy: Vec<_> = range["tracks"].as_array().expect("tracks").iter().map(|row| row["busy"].clone()).collect();
    assert_eq!(busy, [990_000, 250_000]);
    let names = range["names"].as_array().expect("names").iter();
    let rows: Vec<_> = names
        .map(|row| {
            let name = range["texts"][row["name"].as_u64().expect("a text") as usize].as_str().expect("a text");
            format!("{name} {} {} {}", row["gpu"], row["count"], row["ns"])
        })
        .collect();
    assert_eq!(rows, ["ProfilerStep#1 false 1 990000", "aten::mm false 2 500000", "gemm true 1 250000"]);
}

#[test]
fn call_counts_equal_occurrences_in_the_trace() {
    let run = opened(&steps());
    let calls_answer = answer(&run, "calls", &[("steps", "whole"), ("metric", "host_time")]);
    let labels = document(&calls_answer)["labels"].clone();
    let name = |at: &f64| labels[*at as usize][1].as_str().expect("a name").to_owned();
    let rows: Vec<_> =
        numbers(&calls_answer, "label").iter().map(name).zip(numbers(&calls_answer, "calls")).skip(1).collect();
    let row = |name: &str| (name.to_owned(), 4.0);
    // Not eight or twelve: what lies below is not counted with it.
    assert_eq!(rows, [row("ProfilerStep"), row("aten::mm"), row("aten::mm")]);
    // Of the GPU's time, the operator's calls are still its own.
    let frame = document(&answer(&run, "frame", &[("steps", "whole"), ("metric", "host_time"), ("root", "2")]));
    assert_eq!(frame["calls"], 4);
}

#[test]
fn recording_time_is_that_of_the_events() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("train.py");
    std::fs::write(&source, "pass\n".repeat(5)).expect("written");
    let (source, root) = (source.display().to_string(), folder.path().to_owned());
    let changed = |base_ns: u64, start_us: u64| {
        let event = format!("1/1 python_function {source}(2): f {start_us}+9");
        let run = opened(&format!("file baseTimeNanoseconds={base_ns}\n{event}"));
        let run = run.with_source_roots(std::slice::from_ref(&root));
        document(&answer(&run, "excerpt", &[("file", &source), ("line", "2")]))["changed"].clone()
    };
    let (year_2020, forty_years_us) = (1_577_836_800_000_000_000, 40 * 365 * 86_400_000_000_u64);
    assert_eq!(changed(year_2020, 0), true, "written after 2020");
    assert_eq!(changed(year_2020, forty_years_us), false, "its events are of 2060, whenever their clock began");
    assert_eq!(changed(0, 5_000_000), Value::Null, "since the machine was started: nobody knows when that was");
}

#[test]
fn path_covers_the_requested_steps() {
    let run = opened(&steps());
    let window = |steps: &str| {
        let path = document(&answer(&run, "path", &[("steps", steps)]));
        (path["start"].as_f64().expect("a time"), path["end"].as_f64().expect("a time"))
    };
    let (one, whole) = (window("2"), window("whole"));
    assert!(one.0 >= 2e6 - 20e3 && one.1 <= 3e6, "{one:?}");
    assert!(whole.0 < one.0 && whole.1 > one.1, "{whole:?}");
    let refused = run_query(&run, "path", &Arguments::new([("steps", "77")]));
    assert!(matches!(refused, Err(QueryError::Missing { .. })));
}

#[test]
fn timelines_have_at_most_the_requested_boxes_and_all_events() {
    let run = opened(&(0..2000).map(|at| format!("1/1 cpu_op a {}+6\n", at * 10)).collect::<String>());
    let tiles =
        |most: &str| answer(&run, "tiles", &[("level", "0"), ("first", "0"), ("last", "1000000"), ("most", most)]);
    let (all, few) = (tiles("2000"), tiles("100"));
    assert_eq!((numbers(&all, "count").len(), document(&all)["level"].as_u64()), (2000, Some(0)));
    let counts = numbers(&few, "count");
    assert!(counts.len() <= 100 && document(&few)["level"].as_u64() > Some(0), "{}", counts.len());
    assert_eq!(counts.iter().sum::<f64>(), 2000.0);
    assert_eq!(numbers(&few, "busy").iter().sum::<f64>(), 2000.0 * 6000.0);
}

#[test]
fn incomparable_runs_are_reported() {
    let both = opened(&steps()).compared_with(opened(&without(&steps(), "Step")));
    let compared = document(&answer(&both, "compare", &[]));
    assert_eq!(compared["confidence"], "low");
    assert!(compared["warnings"].to_string().contains("A has none"), "{}", compared["warnings"]);
    let like = opened(&steps()).compared_with(opened(&steps()));
    assert_eq!(document(&answer(&like, "compare", &[]))["warnings"], json!([]));
    // What only one of both measured cannot be drawn as a difference.
    let both = opened(&steps()).compared_with(opened(&without(&steps(), "gpu0/7")));
    // What launched these operations is not known: they count in no step.
    let whole = [("baseline", "before"), ("steps", "whole")];
    let answer_for =
        |metric: &str| run_query(&both, "calls", &Arguments::new(whole.into_iter().chain([("metric", metric)])));
    assert!(answer_for("host_time").is_ok());
    match answer_for("gpu_time") {
        Err(QueryError::Unavailable { why }) => assert!(why.contains("has no values of GPU time"), "{why}"),
        other => panic!("{other:?}"),
    }
}
