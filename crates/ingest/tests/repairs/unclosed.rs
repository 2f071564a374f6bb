//! Spans without a recorded end.

use crate::repairs::{list, read, x};
use stackline_model::{EventId, RECORDED_DURATION, Trace, flags};

fn frame(name: &str, ts: i64, dur: i64) -> String {
    x("python_function", name, (1, 1), (ts, dur), "")
}

fn row(trace: &Trace, name: &str) -> EventId {
    trace.events.ids().find(|e| trace.name(*e) == name).unwrap()
}

fn span(trace: &Trace, name: &str) -> (i64, i64) {
    let event = row(trace, name);
    (trace.events.start[event.index()] / 1000, trace.events.dur[event.index()] / 1000)
}

/// The profiler missed the return of `lost`; the recording stops at 1000.
fn recording(more: &[String]) -> Trace {
    let mut events = vec![
        frame("main", 0, 1000),
        frame("caller", 100, 100),
        frame("lost", 150, 850),
        frame("later", 300, 50),
        x("cpu_op", "aten::mm", (1, 1), (310, 10), ""),
        x("cpu_op", "aten::add", (1, 1), (940, 50), ""),
    ];
    events.extend_from_slice(more);
    read(&list(&events))
}

#[test]
fn a_frame_that_was_never_closed_ends_with_its_caller() {
    let trace = recording(&[]);
    let lost = row(&trace, "lost");
    assert_eq!(span(&trace, "lost"), (150, 50));
    assert!(trace.events.has(lost, flags::CLAMPED) && !trace.events.has(lost, flags::CROSSING));
    assert_eq!(trace.attr(RECORDED_DURATION).i64(lost), Some(850_000));
    assert_eq!(trace.events.parent[lost.index()], row(&trace, "caller"));
    // Later work of the caller's caller is not below it.
    assert_eq!(trace.events.parent[row(&trace, "later").index()], row(&trace, "main"));
    let problem = trace.report.problems.iter().find(|p| p.code == "never_closed").unwrap();
    assert_eq!((problem.count, problem.offsets.len()), (1, 1));
    assert_eq!(trace.report.count_of("crossing"), 0);
}

#[test]
fn frames_below_a_lost_one_are_cut_as_well() {
    let trace = recording(&[frame("lost too", 160, 840)]);
    assert_eq!((span(&trace, "lost"), span(&trace, "lost too")), ((150, 50), (160, 40)));
    assert_eq!(trace.events.parent[row(&trace, "lost too").index()], row(&trace, "lost"));
    assert_eq!(trace.report.count_of("never_closed"), 2);
}

#[test]
fn other_crossings_keep_their_times() {
    // A frame that ends before the recording stops, or is in an annotation, which may end before the frame.
    let trace = recording(&[
        frame("inner", 340, 30),
        x("user_annotation", "phase", (1, 1), (380, 100), ""),
        frame("still open", 400, 600),
    ]);
    assert_eq!((span(&trace, "inner"), span(&trace, "still open")), ((340, 30), (400, 600)));
    assert_eq!(trace.report.count_of("never_closed"), 1);
    assert_eq!(trace.report.count_of("crossing"), 2);
}

#[test]
fn begins_without_end_are_cut_at_the_end_of_their_parent() {
    let trace = recording(&["1/1 cpu_op open B@305".to_owned()]);
    assert_eq!(span(&trace, "open"), (305, 45));
    let flags = trace.events.flags[row(&trace, "open").index()];
    assert_eq!(flags & (flags::UNFINISHED | flags::CLAMPED), flags::UNFINISHED | flags::CLAMPED);
    assert_eq!((trace.report.count_of("unfinished"), trace.report.count_of("never_closed")), (1, 2));
    let problem = trace.report.problems.iter().find(|p| p.code == "unfinished").unwrap();
    assert_eq!(problem.offsets.len(), 1);
}

/// An aborted program leaves begin records without an end: the innermost one of each thread shows the running call.
#[test]
fn calls_in_flight_are_reported_with_callers() {
    let trace = read(&list(
        &[
            "thread 1/1 name=main",
            "1/1 python_function train B@0",
            "1/1 cpu_op aten::mm 10+20",
            "1/1 user_annotation step B@40",
            "1/1 cpu_op c10d::allreduce B@60",
            "1/2 - load_batch B@50",
            "1/3 - done B@5",
            "1/3 - done E@7",
        ]
        .map(str::to_owned),
    ));
    let problem = trace.report.problems.iter().find(|p| p.code == "in_flight").unwrap();
    let examples: Vec<&str> = problem.examples().collect();
    let expected =
        ["t.json: c10d::allreduce on thread main (1), called from step < train", "t.json: load_batch on thread 2"];
    assert_eq!((problem.count, &examples[..], trace.report.count_of("unfinished")), (2, &expected[..], 4));
    assert_eq!(problem.offsets.len(), 2);
    // If its caller has an end, only its own end record is missing.
    assert_eq!(recording(&["1/1 cpu_op open B@305".to_owned()]).report.count_of("in_flight"), 0);
}

/// Calls of a thread with these records that were running at the end of the recording. Records with a mark lack their
/// end.
fn in_flight(lines: &[&str]) -> Vec<String> {
    let trace = read(&list(&lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>()));
    let problem = trace.report.problems.iter().find(|problem| problem.code == "in_flight");
    problem.map(|problem| problem.examples().map(str::to_owned).collect()).unwrap_or_default()
}

#[test]
fn levels_of_a_recursion_in_flight_are_one_call() {
    let walks: Vec<String> = (1..=9).map(|at| format!("1/1 - walk B@{at}")).collect();
    let of = |last: &'static str| {
        let lines = ["1/1 - train B@0"].into_iter().chain(walks.iter().map(String::as_str));
        in_flight(&lines.chain([last].into_iter().filter(|last| !last.is_empty())).collect::<Vec<_>>())
    };
    assert_eq!(of(""), ["t.json: walk (9 recursive calls) on thread 1, called from train"]);
    assert_eq!(of("1/1 - load B@10"), ["t.json: load on thread 1, called from walk (9 recursive calls) < train"]);
}

#[test]
fn spans_repeated_later_are_not_in_flight() {
    // The ends of the first two steps are missing, so they contain all later spans.
    let steps = ["1/1 - step B@0", "1/1 - step B@10", "1/1 - step B@20", "1/1 - step E@29", "1/1 cpu_op aten::mm 32+3"];
    assert_eq!(in_flight(&steps), Vec::<String>::new());
    let hangs = [&steps[..], &["1/1 - step B@40", "1/1 - wait B@41"]].concat();
    assert_eq!(in_flight(&hangs), ["t.json: wait on thread 1, called from step"]);
    // Within a call that is open itself.
    let within = [&["1/1 - train B@0", "1/1 - load B@1"], &steps[1..]].concat();
    assert_eq!(in_flight(&within), ["t.json: load on thread 1, called from train"]);
    let within = [&["1/1 - train B@0"], &steps[1..]].concat();
    assert_eq!(in_flight(&within), ["t.json: train on thread 1"]);
}
