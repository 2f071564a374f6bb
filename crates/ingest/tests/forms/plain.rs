//! Chrome traces of any writer: both outer forms, every phase that is a record by itself, metadata, stacks.

use crate::forms::dump::{expect, lines, read};
use stackline_ingest::{ReadOptions, read_bytes};

const ONE: &str = r#"{"ph": "X", "name": "a", "pid": 1, "tid": 2, "ts": 1, "dur": 2}"#;

#[test]
fn object_and_array_form() {
    let row = ["a other thread:1/2 1000+2000"];
    expect(&format!("[{ONE}]"), &row, &[]);
    expect(&format!(" [ {ONE} ] \n"), &row, &[]);
    expect(&format!("{{\"traceEvents\": [{ONE}]}}"), &row, &[]);
    expect(&format!("{{\"a\": {{\"traceEvents\": []}}, \"traceEvents\": [{ONE}], \"b\": [1]}}"), &row, &[]);
    expect(&format!("\u{feff}[{ONE}]"), &row, &[]);
    expect("[]", &[], &[]);
    expect("{\"traceEvents\": []}", &[], &[]);
}

#[test]
fn the_closing_bracket_may_be_missing() {
    let row = ["a other thread:1/2 1000+2000"];
    expect(&format!("[{ONE}"), &row, &["unclosed_list"]);
    expect(&format!("[{ONE},\n"), &row, &["unclosed_list"]);
    // The object form does not allow this.
    expect(&format!("{{\"traceEvents\": [{ONE}"), &row, &["truncated", "last_record"]);
    expect(&format!("{{\"traceEvents\": [{ONE}]"), &row, &["truncated", "last_record"]);
}

#[test]
fn log_lines_before_the_document() {
    let row = ["a other thread:1/2 1000+2000"];
    let log = "[W1203 12:00:01 profiler.cpp:17] CUPTI is busy\nSTAGE: stop\n";
    expect(&format!("{log}[{ONE}]"), &row, &["foreign_text"]);
    expect(&format!("{log}{{\"traceEvents\": [{ONE}]}}"), &row, &["foreign_text"]);
}

#[test]
fn several_lists_of_one_object_are_one() {
    let other = ONE.replace("\"a\"", "\"b\"");
    let rows = ["a other thread:1/2 1000+2000", "b other thread:1/2 1000+2000 in a"];
    let trace =
        expect(&format!("{{\"traceEvents\": [{ONE}], \"traceEvents\": [{other}]}}"), &rows, &["several_event_lists"]);
    assert_eq!(trace.events.source_index, [0, 1]);
}

#[test]
fn a_second_document_is_not_read() {
    let trace = expect(&format!("[{ONE}]\n[{ONE}]"), &["a other thread:1/2 1000+2000"], &["trailing_data"]);
    assert_eq!(trace.report.problems[0].offsets, [ONE.len() as u64 + 3]);
}

#[test]
fn instants_samples_counters_and_unknown_phases() {
    let json = r#"[
        {"ph": "i", "name": "i", "pid": 1, "tid": 2, "ts": 1, "s": "t"},
        {"ph": "I", "name": "I", "pid": 1, "tid": 2, "ts": 2},
        {"ph": "R", "name": "R", "pid": 1, "tid": 2, "ts": 3},
        {"ph": "P", "name": "P", "pid": 1, "tid": 2, "ts": 4},
        {"ph": "C", "name": "C", "pid": 1, "tid": 2, "ts": 5, "args": {"used": 3, "free": 0.5}},
        {"ph": "C", "name": "C", "pid": 1, "ts": 6, "args": {"used": 4, "free": 0}},
        {"ph": "O", "name": "O", "pid": 1, "tid": 2, "ts": 7},
        {"name": "no phase", "pid": 1, "tid": 2, "ts": 8, "dur": 1},
        {"name": "neither", "pid": 1, "tid": 2, "ts": 9}
    ]"#;
    let rows = [
        "i instant thread:1/2 1000+0 $s=\"t\"",
        "I instant thread:1/2 2000+0",
        "R instant thread:1/2 3000+0",
        "P sample thread:1/2 4000+0 sample",
        "C counter counter:1/- 5000+0 counter used=3 free=0.5",
        "C counter counter:1/- 6000+0 counter used=4 free=0",
        "O instant thread:1/2 7000+0 other",
        "no phase other thread:1/2 8000+1000",
    ];
    let trace = expect(json, &rows, &["unknown_record", "no_phase"]);
    assert_eq!(trace.report.records, 9);
    // Positions in the source's list count every record.
    assert_eq!(trace.events.source_index.last(), Some(&7));
}

#[test]
fn members_of_records_are_kept_in_any_order() {
    let json = r#"[
        {"tts": 5, "ph": "X", "name": "a", "pid": 1, "tid": 2, "ts": 1, "dur": 2, "args": {"x": 1}, "cname": "good"},
        {"ph": "X", "name": "b", "pid": 1, "tid": 2, "ts": 5, "dur": 2, "args": {"x": 1}, "v": true, "args": {"y": 2}},
        {"ph": "X", "name": "c", "pid": 1, "tid": 2, "ts": 9, "dur": 2, "args": "text"},
        {"\u0070h": "\u0058", "na\u006de": "\u0064", "pid": 1, "tid": 2, "ts": 12, "dur": 2, "o\\": 1}
    ]"#;
    let rows = [
        "a other thread:1/2 1000+2000 $tts=5 x=1 $cname=\"good\"",
        "b other thread:1/2 5000+2000 $v=true y=2",
        "c other thread:1/2 9000+2000 $args=\"text\"",
        "d other thread:1/2 12000+2000 $o\\=1",
    ];
    expect(json, &rows, &["duplicate_key"]);
}

#[test]
fn metadata_after_events_names_tracks_and_processes() {
    let json = r#"[
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
        {"ph": "M", "name": "process_labels", "pid": 1, "args": {"labels": "CPU"}},
        {"ph": "M", "name": "process_sort_index", "pid": 1, "args": {"sort_index": -7}},
        {"ph": "X", "name": "a", "pid": 1, "tid": 2, "ts": 1, "dur": 2},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "main"}},
        {"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": 2, "args": {"sort_index": 3}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": "2", "args": {"name": "another"}},
        {"ph": "M", "name": "process_name", "pid": 9, "args": {"name": "idle"}}
    ]"#;
    let trace = expect(json, &["a other thread:1/2 1000+2000"], &[]);
    let process = &trace.tracks.processes[0];
    assert_eq!((trace.strings.get(process.name), trace.strings.get(process.labels)), ("python", "CPU"));
    assert_eq!(process.sort_index, Some(-7));
    let track = &trace.tracks.tracks[0];
    assert_eq!((trace.strings.get(track.name), track.sort_index), ("main", Some(3)));
    assert_eq!(trace.tracks.processes.len(), 2);
}

const FRAMES: &str = r#""stackFrames": {
    "1": {"category": "py", "name": "main"},
    "2": {"category": "py", "name": "train", "parent": "1"},
    "3": {"category": "py", "name": "mm", "parent": 2},
    "8": {"name": "round", "parent": "9"},
    "9": {"name": "and round", "parent": "8"},
    "10": {"name": "orphan", "parent": "77"}
}"#;

const STACKED: &str = r#""traceEvents": [
    {"ph": "X", "name": "a", "pid": 1, "tid": 2, "ts": 1, "dur": 2, "sf": "3"},
    {"ph": "i", "name": "b", "pid": 1, "tid": 2, "ts": 5, "sf": 2},
    {"ph": "i", "name": "c", "pid": 1, "tid": 2, "ts": 6, "sf": "8"},
    {"ph": "i", "name": "d", "pid": 1, "tid": 2, "ts": 7, "sf": "404"},
    {"ph": "i", "name": "e", "pid": 1, "tid": 2, "ts": 8, "sf": 10}
]"#;

#[test]
fn stacks_before_and_after_the_events() {
    for json in [format!("{{{FRAMES}, {STACKED}}}"), format!("{{{STACKED}, {FRAMES}}}")] {
        let trace = read(&json);
        let stacks = &trace.stacks;
        let frames = |mut at: stackline_model::StackId| {
            let mut names = Vec::new();
            while let Some(frame) = at.some() {
                names.push(trace.strings.get(stacks.name[frame.index()]));
                at = stacks.parent[frame.index()];
            }
            names.join(" < ")
        };
        let found: Vec<String> = stacks
            .event
            .iter()
            .zip(&stacks.stack)
            .map(|(&event, &stack)| format!("{}: {}", trace.name(event), frames(stack)))
            .collect();
        // A cycle is cut at one frame.
        let circle = if found[2].ends_with("and round") { "c: round < and round" } else { "c: round" };
        assert_eq!(found, ["a: mm < train < main", "b: train < main", circle, "e: orphan"]);
        assert!(trace.report.is_clean(), "{:?}", trace.report.problems);
    }
}

#[test]
fn damaged_stacks_affect_no_events() {
    let trace = read(&format!("{{\"stackFrames\": [1, 2], {STACKED}}}"));
    assert_eq!((trace.events.len(), trace.stacks.event.len()), (5, 0));
    assert_eq!(trace.report.count_of("damaged_metadata"), 1);
    // An invalid frame affects only its own stacks.
    let frames = FRAMES.replace("{\"name\": \"round\", \"parent\": \"9\"}", "17");
    let trace = read(&format!("{{{frames}, {STACKED}}}"));
    assert_eq!((trace.stacks.event.len(), trace.report.count_of("damaged_metadata")), (3, 1));
}

#[test]
fn missing_and_invalid_times_are_excluded() {
    let json = r#"[
        {"ph": "X", "name": "none", "pid": 1, "tid": 2, "dur": 2},
        {"ph": "X", "name": "null", "pid": 1, "tid": 2, "ts": null, "dur": 2},
        {"ph": "X", "name": "text", "pid": 1, "tid": 2, "ts": "soon", "dur": 2},
        {"ph": "X", "name": "huge", "pid": 1, "tid": 2, "ts": 1e300, "dur": 2},
        {"ph": "X", "name": "long", "pid": 1, "tid": 2, "ts": 1, "dur": 9223372036854775807},
        {"ph": "X", "name": "quoted", "pid": 1, "tid": 2, "ts": "1.5", "dur": "0.25"},
        {"ph": "X", "name": "exact", "pid": 1, "tid": 2, "ts": 1e1, "dur": 0.0625},
        {"ph": "X", "name": "open", "pid": 1, "tid": 2, "ts": 20},
        {"ph": "X", "name": "back", "pid": 1, "tid": 2, "ts": 21, "dur": -3},
        {"ph": "X", "name": "epoch", "pid": 1, "tid": 2, "ts": 1695835535123456789, "dur": 1}
    ]"#;
    let rows = [
        "none other thread:1/2 0+2000 no_time",
        "null other thread:1/2 0+2000 no_time",
        "text other thread:1/2 0+2000 no_time",
        "huge other thread:1/2 0+2000 no_time",
        "long other thread:1/2 1000+0 no_time",
        "quoted other thread:1/2 1500+250",
        "exact other thread:1/2 10000+63",
        "open other thread:1/2 20000+0",
        "back other thread:1/2 21000+0 clamped",
        "epoch other thread:1/2 1695835535123456789+1",
    ];
    let problems = ["bad_time*3", "no_time*2", "negative_duration", "no_duration", "time_as_text*3", "time_in_ns"];
    let trace = expect(json, &rows, &problems);
    assert_eq!(trace.span(), Some((1_500, 1_695_835_535_123_456_790)));
}

#[test]
fn values_keep_their_types() {
    let json = r#"[{"ph": "X", "name": "a", "pid": 1, "tid": 2, "ts": 1, "dur": 2, "args": {
        "i": -9223372036854775808, "u": 10159970886766084423, "f": 1e3, "big": 340282366920938463463374607431768211456,
        "t": true, "n": null, "s": "\u00e9\ud83d\ude00\n", "l": [1, {"a": "b c"}], "": ""}}]"#;
    let row = "a other thread:1/2 1000+2000 i=-9223372036854775808 u=10159970886766084423u f=1000.0 \
        big=340282366920938463463374607431768211456 t=true n=null s=\"é😀\\n\" l=[1,{\"a\":\"b c\"}] =\"\"";
    expect(json, &[row], &[]);
}

#[test]
fn non_traces_report_the_reason() {
    let reason = |bytes: &[u8]| read_bytes("x.json", bytes, &ReadOptions::default()).unwrap_err().to_string();
    for (bytes, part) in [
        (&b""[..], "the file is empty"),
        (b" \n\t ", "the file is empty"),
        (b"hello", "the format of the input is unknown (it starts with \"hello\")"),
        (br#"{"a": 1}"#, "a JSON object without \"traceEvents\""),
        (br#"{"schema": "1.1.1", "nodes": []}"#, "only memory data"),
        (br#"{"rocprofiler-sdk-tool": []}"#, "rocprofv3"),
        (b"SQLite format 3\0", "SQLite"),
        (b"PAR1", "Parquet"),
        (b"<!DOCTYPE html>", "web page"),
        (b"\x7fELF", "binary file"),
        (b"\x80\x04\x95", "only memory data"),
    ] {
        let reason = reason(bytes);
        assert!(reason.starts_with("x.json: ") && reason.contains(part), "{reason}");
        assert!(!reason.contains('\n'), "{reason}");
    }
}

#[test]
fn rows_are_in_file_order() {
    let json =
        r#"[{"ph": "i", "name": "late", "ts": 9}, {"ph": "M", "name": "x"}, {"ph": "i", "name": "early", "ts": 1}]"#;
    let trace = read(json);
    assert_eq!(lines(&trace), ["late instant thread:-/- 9000+0", "early instant thread:-/- 1000+0"]);
    assert_eq!(trace.events.source_index, [0, 2]);
    let track = trace.events.track[0];
    assert_eq!(trace.track_events(track).iter().map(|e| trace.name(*e)).collect::<Vec<_>>(), ["early", "late"]);
}
