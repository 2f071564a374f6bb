//! Processes and threads by type and value; ranks.

use crate::forms::dump::{codes, expect, lines, read};
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::TrackKind;

fn span(name: &str, pid: &str, tid: &str, ts: u32) -> String {
    format!("{{\"ph\": \"X\", \"name\": \"{name}\", \"pid\": {pid}, \"tid\": {tid}, \"ts\": {ts}, \"dur\": 1}}")
}

#[test]
fn keys_differ_by_type_and_value() {
    let ids = ["7", "\"7\"", "-7", "-9223372036854775808", "18446744073709551615", "\"stream 7\"", "7.5", "null"];
    let records: Vec<String> = ids.iter().enumerate().map(|(i, id)| span(&format!("e{i}"), "1", id, 0)).collect();
    let trace = read(&format!("[{}]", records.join(",")));
    let keys = ["7", "\"7\"", "-7", "-9223372036854775808", "\"18446744073709551615\"", "\"stream 7\"", "\"7.5\"", "-"];
    let rows: Vec<String> = keys.iter().enumerate().map(|(i, k)| format!("e{i} other thread:1/{k} 0+1000")).collect();
    assert_eq!(lines(&trace), rows);
    assert_eq!(trace.tracks.len(), 8);
    let trace = read(&format!("[{}]", [span("a", "\"CPU functions\"", "0", 0), span("b", "0", "0", 0)].join(",")));
    assert_eq!(lines(&trace), ["a other thread:\"CPU functions\"/0 0+1000", "b other thread:0/0 0+1000"]);
}

#[test]
fn device_numbers_do_not_collide_with_process_ids() {
    let json = r#"[
        {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 0, "tid": 7, "ts": 0, "dur": 10},
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 2, "dur": 3, "args": {"stream": 7, "device": 0}},
        {"ph": "X", "cat": "kernel", "name": "old", "pid": 1, "tid": "stream 9", "ts": 2, "dur": 3}
    ]"#;
    let trace = read(json);
    assert_eq!(
        lines(&trace),
        [
            "op operator thread:0/7 0+10000",
            "k kernel stream:0/7 2000+3000 stream=7 device=0",
            "old kernel stream:1/\"stream 9\" 2000+3000",
        ]
    );
    let streams: Vec<_> =
        trace.tracks.tracks.iter().filter(|t| t.kind == TrackKind::Stream).map(|t| (t.device, t.stream)).collect();
    assert_eq!(streams, [(0, 7), (1, 9)]);
    assert_eq!(trace.tracks.tracks[0].stream, -1);
}

#[test]
fn rank_is_read_from_the_file_or_its_name() {
    let document = |info: &str| format!("{{{info} \"schemaVersion\": 1, \"traceEvents\": []}}");
    let with = r#""distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},"#;
    let read = |name: &str, info: &str| {
        let trace = read_bytes(name, document(info).as_bytes(), &ReadOptions::default()).unwrap();
        (trace.meta.rank, trace.meta.world_size, codes(&trace).join(" "))
    };
    assert_eq!(read("rank5.json", with), (Some(3), Some(8), String::new()));
    assert_eq!(read("rank5.json", ""), (Some(5), None, "rank_from_name".to_owned()));
    assert_eq!(read("host-rank_12.pt.trace.json", "").0, Some(12));
    assert_eq!(read("trace.json", ""), (None, None, String::new()));
    // Without a rank in the file, as in one file of the corpus, the name determines it.
    assert_eq!(
        read("rank-2.json", r#""distributedInfo": {"world_size": 4},"#),
        (Some(2), Some(4), "rank_from_name".into())
    );
    // A duplicate key: the last value is used.
    let twice = format!("{with} {}", with.replace("\"rank\": 3", "\"rank\": 4"));
    assert_eq!(read("x", &twice), (Some(4), Some(8), "duplicate_key".to_owned()));
}

#[test]
fn header_entries_and_the_exact_base() {
    let json = r#"{"schemaVersion": 1, "baseTimeNanoseconds": 1750000000000000001, "displayTimeUnit": "ns",
        "record_shapes": 1, "s": "a\"b", "b": [true, null], "traceEvents": [], "tail": 0.5}"#;
    let trace = expect(json, &[], &[]);
    assert_eq!((trace.meta.format.as_str(), trace.meta.base_ns), ("kineto", 1_750_000_000_000_000_001));
    let entries: Vec<String> = trace.meta.entries.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let expected = [
        "schemaVersion=1",
        "baseTimeNanoseconds=1750000000000000001",
        "displayTimeUnit=\"ns\"",
        "record_shapes=1",
        "s=\"a\\\"b\"",
        "b=[true,null]",
        "tail=0.5",
    ];
    assert_eq!(entries, expected);
    assert_eq!(read("[]").meta.format, "chrome");
}

#[test]
fn display_unit_does_not_scale_times() {
    let record = span("a", "1", "1", 3);
    for unit in ["ms", "ns"] {
        let trace = read(&format!("{{\"displayTimeUnit\": \"{unit}\", \"traceEvents\": [{record}]}}"));
        assert_eq!(lines(&trace), ["a other thread:1/1 3000+1000"]);
    }
}
