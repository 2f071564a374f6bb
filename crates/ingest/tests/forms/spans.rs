//! Spans joined from two records: `B`/`E` on threads, `b`/`n`/`e` (and `S`/`T`/`F`) by id; flow arrows.

use crate::forms::dump::{arrows, expect, read};

/// A record of pid 1 from phase, name, thread, time and further members.
fn record(phase: char, name: &str, tid: u32, ts: f64, more: &str) -> String {
    let name = if name.is_empty() { String::new() } else { format!("\"name\": \"{name}\", ") };
    format!("{{\"ph\": \"{phase}\", {name}\"pid\": 1, \"tid\": {tid}, \"ts\": {ts}{more}}}")
}

fn list(records: &[String]) -> String {
    format!("[{}]", records.join(",\n"))
}

#[test]
fn begin_and_end_nest_and_interleave_on_threads() {
    let json = list(&[
        record('B', "outer", 1, 0.0, ""),
        record('B', "other thread", 2, 1.0, ""),
        record('B', "inner", 1, 2.0, r#", "args": {"a": 1}"#),
        record('E', "", 2, 3.0, ""),
        record('E', "", 1, 4.0, r#", "args": {"b": 2, "a": 1}"#),
        record('X', "leaf", 1, 5.0, r#", "dur": 1"#),
        record('E', "outer", 1, 10.0, ""),
    ]);
    let rows = [
        "outer other thread:1/1 0+10000 begin_end",
        "other thread other thread:1/2 1000+2000 begin_end",
        "inner other thread:1/1 2000+2000 begin_end in outer a=1 b=2",
        "leaf other thread:1/1 5000+1000 in outer",
    ];
    let trace = expect(&json, &rows, &[]);
    assert_eq!(trace.events.source_index, [0, 1, 2, 5]);
}

#[test]
fn arguments_of_the_end_follow_those_of_the_begin() {
    let json = list(&[
        record('B', "x", 1, 0.0, r#", "args": {"n": 1, "m": 1}"#),
        record('E', "", 1, 1.0, r#", "args": {"m": 2, "n": 1, "late": true}"#),
        record('X', "y", 1, 2.0, r#", "dur": 1, "args": {"k": "v"}"#),
    ]);
    // If both records have a key, the last value is used, as in every reader of duplicate keys.
    let rows = ["x other thread:1/1 0+1000 begin_end n=1 m=1 m=2 late=true", "y other thread:1/1 2000+1000 k=\"v\""];
    let trace = expect(&json, &rows, &[]);
    assert_eq!(trace.attr("m").i64(stackline_model::EventId(0)), Some(2));
}

#[test]
fn ends_without_begin_and_begins_without_end() {
    let json = list(&[
        record('E', "ghost", 1, 0.5, ""),
        record('B', "open", 1, 1.0, ""),
        record('B', "also open", 1, 2.0, ""),
        record('X', "last", 2, 8.0, r#", "dur": 2"#),
        record('E', "", 3, 9.0, ""),
    ]);
    let rows = [
        "open other thread:1/1 1000+9000 begin_end unfinished",
        "also open other thread:1/1 2000+8000 begin_end unfinished in open",
        "last other thread:1/2 8000+2000",
    ];
    let trace = expect(&json, &rows, &["unmatched_end*2", "unfinished*2", "in_flight"]);
    assert_eq!(trace.report.problems[0].offsets[0], 1);
}

#[test]
fn absurd_gpu_records_do_not_extend_open_spans() {
    let json = list(&[
        record('B', "open", 1, 1.0, ""),
        record('X', "last", 1, 8.0, r#", "dur": 2"#),
        r#"{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 9, "dur": 900000000000}"#.to_owned(),
    ]);
    let trace = read(&json);
    assert_eq!(trace.events.dur[0], 9_000);
}

#[test]
fn ends_before_their_begin_are_clamped() {
    let json = list(&[record('B', "x", 1, 5.0, ""), record('E', "", 1, 3.0, "")]);
    expect(&json, &["x other thread:1/1 5000+0 begin_end clamped"], &["negative_duration"]);
}

#[test]
fn asynchronous_spans_by_category_id_and_name() {
    let json = list(&[
        record('b', "request", 1, 0.0, r#", "cat": "net", "id": "0x1""#),
        record('b', "request", 1, 1.0, r#", "cat": "net", "id": "0x2", "args": {"n": 2}"#),
        record('b', "parse", 1, 2.0, r#", "cat": "net", "id": "0x1""#),
        record('n', "mark", 1, 3.0, r#", "cat": "net", "id": "0x1""#),
        // Another thread may end it; a number is not the text of the same digits.
        record('e', "request", 7, 4.0, r#", "cat": "net", "id": "0x1""#),
        record('e', "parse", 1, 5.0, r#", "cat": "net", "id": "0x1""#),
        record('e', "request", 1, 6.0, r#", "cat": "disk", "id": "0x2""#),
        record('e', "request", 1, 7.0, r#", "cat": "net", "id": "0x2", "args": {"status": 200}"#),
        record('S', "old", 1, 8.0, r#", "id": 3"#),
        record('T', "old", 1, 8.5, r#", "id": 3"#),
        record('F', "old", 1, 9.0, r#", "id": 3"#),
    ]);
    let rows = [
        "request async async:1/1 0+4000 async",
        "request async async:1/1 1000+6000 async n=2 status=200",
        "parse async async:1/1 2000+3000 async",
        "mark instant async:1/1 3000+0 async_instant",
        "old async async:1/1 8000+1000 async",
        "old instant async:1/1 8500+0 async_instant",
    ];
    expect(&json, &rows, &["unmatched_end"]);
}

#[test]
fn scoped_ids() {
    let on = |pid: u32, phase: char, ts: f64, id: &str| {
        format!("{{\"ph\": \"{phase}\", \"name\": \"p{pid}\", \"pid\": {pid}, \"tid\": 1, \"ts\": {ts}, {id}}}")
    };
    let local = r#""id2": {"local": "0x5"}"#;
    let global = r#""id2": {"global": 6}"#;
    let plain = r#""id": 7"#;
    let named = |name: &str, pid: u32, phase: char, ts: f64, id: &str| {
        on(pid, phase, ts, id).replace(&format!("\"p{pid}\""), &format!("\"{name}\""))
    };
    let json = list(&[
        // The same local id in two processes: two spans.
        named("local", 1, 'b', 0.0, local),
        named("local", 2, 'b', 1.0, local),
        named("local", 1, 'e', 2.0, local),
        named("local", 2, 'e', 4.0, local),
        // A local id never ends in another process.
        named("astray", 1, 'b', 5.0, local),
        named("astray", 2, 'e', 6.0, local),
        // A global id does.
        named("global", 1, 'b', 7.0, global),
        named("global", 2, 'e', 8.0, global),
        // A plain ID does, too, unless the process has its own span.
        named("plain", 1, 'b', 9.0, plain),
        named("plain", 2, 'b', 10.0, plain),
        named("plain", 1, 'e', 11.0, plain),
        named("plain", 3, 'e', 12.0, plain),
    ]);
    let rows = [
        "local async async:1/1 0+2000 async $id2={\"local\":\"0x5\"}",
        "local async async:2/1 1000+3000 async $id2={\"local\":\"0x5\"}",
        "astray async async:1/1 5000+5000 async unfinished $id2={\"local\":\"0x5\"}",
        "global async async:1/1 7000+1000 async $id2={\"global\":6}",
        "plain async async:1/1 9000+2000 async",
        "plain async async:2/1 10000+2000 async",
    ];
    let trace = read(&json);
    assert_eq!(crate::forms::dump::lines(&trace)[..2], rows[..2]);
    assert_eq!(crate::forms::dump::lines(&trace)[3..], rows[3..]);
    assert_eq!(crate::forms::dump::codes(&trace), ["unmatched_end", "unfinished"]);
}

const TWO: [&str; 2] = [
    r#"{"ph": "X", "cat": "cpu_op", "name": "from", "pid": 1, "tid": 1, "ts": 10, "dur": 10}"#,
    r#"{"ph": "X", "cat": "cpu_op", "name": "to", "pid": 1, "tid": 2, "ts": 30, "dur": 10}"#,
];

fn flow(phase: char, tid: u32, ts: f64) -> String {
    record(phase, "arrow", tid, ts, r#", "cat": "handover", "id": 4, "bp": "e""#)
}

#[test]
fn arrows_bind_to_the_innermost_span_in_any_file_order() {
    let (from, to) = (TWO[0].to_owned(), TWO[1].to_owned());
    let inner = r#"{"ph": "X", "cat": "cpu_op", "name": "inner", "pid": 1, "tid": 1, "ts": 12, "dur": 2}"#.to_owned();
    let (start, finish) = (flow('s', 1, 13.0), flow('f', 2, 30.0));
    let orders = [
        [&from, &inner, &to, &start, &finish],
        [&finish, &start, &from, &inner, &to],
        [&to, &finish, &inner, &from, &start],
    ];
    for order in orders {
        let trace = read(&list(&order.map(String::clone)));
        assert_eq!(arrows(&trace), ["inner -> to"]);
        assert!(trace.report.problems.is_empty(), "{:?}", trace.report.problems);
    }
}

#[test]
fn arrows_with_steps_and_with_one_end() {
    let third = r#"{"ph": "X", "cat": "cpu_op", "name": "third", "pid": 1, "tid": 3, "ts": 50, "dur": 10}"#;
    let records = [TWO[0].to_owned(), TWO[1].to_owned(), third.to_owned()];
    let chain = [flow('s', 1, 20.0), flow('t', 2, 35.0), flow('f', 3, 50.0)];
    let trace = read(&list(&[&records[..], &chain[..]].concat()));
    assert_eq!(arrows(&trace), ["from -> to", "to -> third"]);
    let trace = read(&list(&[&records[..], &chain[2..]].concat()));
    assert_eq!((arrows(&trace).len(), trace.report.count_of("dangling_flow")), (0, 1));
    // Arrow ends that are on no span dangle as well.
    let astray = [flow('s', 1, 25.0), flow('f', 2, 30.0)];
    let trace = read(&list(&[&records[..], &astray[..]].concat()));
    assert_eq!((arrows(&trace).len(), trace.report.count_of("dangling_flow")), (0, 1));
    assert!(trace.report.is_clean());
}
