//! A trace written as Chrome JSON and read again is the same model: over every trace of the corpus.

use stackline_ingest::{ReadOptions, read_bytes, read_paths};
use stackline_model::{AttrValue, EventId, Key, LinkKind, StrId, Trace, flags};
use stackline_present::exports::{chrome, perfetto};
use stackline_testkit::{corpus, mini};
use std::fmt::Write as _;

fn value(trace: &Trace, value: AttrValue) -> String {
    match value {
        AttrValue::Str(s) => format!("text {}", trace.strings.get(s)),
        AttrValue::Json(s) => format!("json {}", trace.strings.get(s)),
        other => format!("{other:?}"),
    }
}

fn key(trace: &Trace, key: Key) -> String {
    match key {
        Key::Str(s) => format!("text {}", trace.strings.get(s)),
        other => format!("{other:?}"),
    }
}

/// One line per row of every table, free of handles of strings.
fn lines(trace: &Trace, flows: bool) -> Vec<String> {
    let text = |s: StrId| s.some().map(|s| trace.strings.get(s));
    let mut out = vec![format!(
        "{} {} {:?} {:?} {}",
        trace.meta.format, trace.meta.base_ns, trace.meta.rank, trace.meta.world_size, trace.meta.fractional_ts
    )];
    out.extend(trace.meta.entries.iter().map(|(k, v)| format!("entry {k} {v}")));
    for process in &trace.tracks.processes {
        let (name, labels) = (text(process.name), text(process.labels));
        out.push(format!("process {} {name:?} {labels:?} {:?}", key(trace, process.pid), process.sort_index));
    }
    for t in &trace.tracks.tracks {
        let (tid, name) = (key(trace, t.tid), text(t.name));
        out.push(format!(
            "track {:?} {tid} {:?} {name:?} {:?} {} {}",
            t.process, t.kind, t.sort_index, t.device, t.stream
        ));
    }
    for e in trace.events.ids() {
        out.push(event_line(trace, e));
    }
    let gpu = &trace.gpu;
    for g in gpu.ids().map(|g| g.index()) {
        out.push(format!(
            "gpu {:?} {} {} {} {:?} {:?} {:?} {:?} {:?} {}",
            gpu.event[g],
            gpu.correlation[g],
            gpu.device[g],
            gpu.stream[g],
            gpu.launch[g],
            gpu.operator[g],
            gpu.python[g],
            gpu.module[g],
            gpu.annotation[g],
            gpu.step[g],
        ));
    }
    out.extend(trace.steps.iter().map(|s| format!("{s:?}")));
    for &kind in LinkKind::ALL.iter().filter(|_| flows) {
        out.extend(trace.links.of_kind(kind).map(|(a, b, c)| format!("{} {a:?} {b:?} {:?}", kind.name(), text(c))));
    }
    for (i, &frame) in trace.stacks.name.iter().enumerate() {
        let (frame, category) = (text(frame), text(trace.stacks.category[i]));
        out.push(format!("frame {frame:?} {category:?} {:?}", trace.stacks.parent[i]));
    }
    out.extend(trace.stacks.event.iter().zip(&trace.stacks.stack).map(|(e, s)| format!("stack {e:?} {s:?}")));
    out
}

fn event_line(trace: &Trace, e: EventId) -> String {
    let i = e.index();
    let events = &trace.events;
    // What reading clamped or joined is written as it was understood.
    let bits = events.flags[i] & !flags::CLAMPED;
    let mut line = format!(
        "{} {} {:?} {:?} {bits} {:?} {} {}",
        events.start[i],
        events.dur[i],
        events.track[i],
        events.kind[i],
        events.parent[i],
        trace.category(e),
        trace.name(e)
    );
    // Whether members of the record stand before or behind its arguments says nothing.
    let (outer, args): (Vec<_>, Vec<_>) =
        trace.attrs.of_event(e).partition(|(k, _)| trace.strings.get(*k).starts_with('$'));
    for (k, v) in args.into_iter().chain(outer) {
        let _ = write!(line, " {}={}", trace.strings.get(k), value(trace, v));
    }
    line
}

fn assert_same(name: &str, before: &Trace, after: &Trace) {
    let (a, b) = (lines(before, true), lines(after, true));
    let differing = a.iter().zip(&b).filter(|(x, y)| x != y);
    if let Some((x, y)) = differing.clone().next() {
        panic!("{name}: {} lines differ, first:\n  {x}\n  {y}", differing.count());
    }
    assert_eq!(a.len(), b.len(), "{name}: number of lines");
}

fn round_trip(trace: &Trace) -> Trace {
    let mut bytes = Vec::new();
    chrome::write(trace, false, &mut bytes).unwrap();
    serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).unwrap();
    read_bytes(&trace.meta.name, &bytes, &ReadOptions::default()).unwrap()
}

#[test]
fn corpus_traces_survive_a_round_trip() {
    if corpus::folder().is_none() {
        return;
    }
    let paths = corpus::small_files("kineto");
    assert!(paths.len() > 30);
    for path in paths {
        let set = read_paths(std::slice::from_ref(&path), &ReadOptions::default()).unwrap();
        for trace in &set.traces {
            assert_same(&path.display().to_string(), trace, &round_trip(trace));
        }
    }
}

#[test]
fn cut_spans_are_exported_with_recorded_durations() {
    let json = mini::trace(
        "file -
        7/7  python_function  main       0..100
        7/7  python_function  caller     10..30
        7/7  python_function  lost       15..100  a=1
        7/7  cpu_op           open       B@20
        7/7  cpu_op           aten::add  40..90",
    );
    let trace = read_bytes("cut", json.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!(trace.events.dur[2..4], [15_000, 10_000]);
    let mut bytes = Vec::new();
    chrome::write(&trace, false, &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("\"dur\":85,") && !text.contains("recorded"), "{text}");
    assert_same("cut", &trace, &round_trip(&trace));
}

#[test]
fn unnamed_processes_are_exported() {
    let json = br#"{"traceEvents": [{"ph": "X", "name": "a", "pid": 7, "tid": 7, "ts": 1, "dur": 1}]}"#;
    let trace = read_bytes("nameless", json, &ReadOptions::default()).unwrap();
    let mut bytes = Vec::new();
    chrome::write(&trace, false, &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    // chrome://tracing reads `args.name` of each: without `args` it opens nothing.
    let named: Vec<&str> = text.lines().filter(|line| line.contains("process_name")).collect();
    assert!(matches!(named[..], [line] if line.contains(r#""args":{}"#)), "{named:?}");
    assert_same("nameless", &trace, &round_trip(&trace));
}

#[test]
fn all_phases_survive_a_round_trip() {
    let json = br#"{"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": [
        {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_sort_index", "pid": 7, "tid": "main", "args": {"sort_index": 5}},
        {"ph": "X", "name": "outer", "cat": "cpu_op", "pid": 7, "tid": "main", "ts": 1.001, "dur": 20,
         "args": {"a": 1, "b": 2.0, "c": "x\"\\\u0001", "d": [1, {"e": null}], "f": null, "g": true, "h": 10159970886766084423,
                  "i": 99999999999999999999999, "$odd": 1}, "cname": "good"},
        {"ph": "B", "name": "begun", "pid": 7, "tid": "main", "ts": 2, "args": {"x": 1}},
        {"ph": "E", "pid": 7, "tid": "main", "ts": 5, "args": {"y": 2}},
        {"ph": "B", "name": "never ends", "pid": 7, "tid": "other", "ts": 6},
        {"ph": "b", "name": "async", "cat": "c", "id": 1, "pid": 7, "tid": 1, "ts": 7},
        {"ph": "e", "name": "async", "cat": "c", "id": 1, "pid": 7, "tid": 1, "ts": 90},
        {"ph": "n", "name": "point", "cat": "c", "id": 1, "pid": 7, "tid": 1, "ts": 8},
        {"ph": "i", "name": "now", "pid": 7, "tid": 1, "ts": -3.5, "s": "t"},
        {"ph": "C", "name": "memory", "pid": 7, "ts": 3, "args": {"bytes": 12, "ratio": 0.5}},
        {"ph": "X", "name": "with stack", "pid": 7, "tid": 2, "ts": 3, "dur": 1, "sf": "b"},
        {"ph": "X", "name": "no duration", "pid": 7, "tid": 2, "ts": 9},
        {"ph": "X", "name": "no time", "pid": 7, "tid": 2, "dur": 9},
        {"ph": "X", "name": "backwards", "pid": 7, "tid": 2, "ts": 4, "dur": -2},
        {"ph": "s", "id": 4, "cat": "arrow", "name": "a", "pid": 7, "tid": "main", "ts": 3},
        {"ph": "f", "id": 4, "cat": "arrow", "name": "a", "pid": 7, "tid": 2, "ts": 3.5, "bp": "e"}],
        "stackFrames": {"a": {"name": "main", "category": "m"}, "b": {"name": "work", "category": "m", "parent": "a"}}}"#;
    let trace = read_bytes("phases", json, &ReadOptions::default()).unwrap();
    assert_eq!((trace.links.len(), trace.stacks.len(), trace.events.len()), (1, 2, 11));
    let again = round_trip(&trace);
    assert_same("phases", &trace, &again);
    // And once more: the second text is the first.
    let text = |t: &Trace| {
        let mut bytes = Vec::new();
        chrome::write(t, false, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!(text(&again), text(&round_trip(&again)));
}

#[test]
fn exports_of_truncated_files_are_not_complete() {
    let event = |ts: u32| format!(r#"{{"ph": "X", "name": "a", "pid": 7, "tid": 7, "ts": {ts}, "dur": 1}}"#);
    let text = format!(r#"{{"traceEvents": [{}, {}, {{"ph": "X", "na"#, event(1), event(3));
    let cut = read_bytes("cut", text.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!((cut.report.count_of("truncated"), cut.events.len()), (1, 2));
    let again = round_trip(&cut);
    assert_same("cut", &cut, &again);
    assert_eq!(again.report.count_of("truncated"), 1);
    assert!(again.report.breaks_off().is_some_and(|problem| problem.example.contains("export")));
    assert_eq!(round_trip(&again).report.lost_counts(), cut.report.lost_counts());
    let whole = format!(r#"{{"traceEvents": [{}, {}]}}"#, event(1), event(3));
    let whole = read_bytes("whole", whole.as_bytes(), &ReadOptions::default()).unwrap();
    assert!(round_trip(&whole).report.breaks_off().is_none());
}

#[test]
fn perfetto_omits_only_events_without_time() {
    let Some(corpus) = corpus::folder() else { return };
    let path = corpus.join("kineto/nvidia-a100-event-sync.json.gz");
    let set = read_paths(&[path], &ReadOptions::default()).unwrap();
    let trace = &set.traces[0];
    let mut bytes = Vec::new();
    let left_out = perfetto::write(&[trace], &mut bytes).unwrap();
    let implausible = trace.events.ids().filter(|e| !trace.events.is_plausible(*e)).count();
    assert_eq!(left_out, implausible as u64);
    assert_eq!(bytes[0], 0x0a);
    insta::assert_snapshot!(format!("{} bytes for {} events", bytes.len(), trace.events.len()));
}
