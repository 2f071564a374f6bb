//! Conversion of a trace into a few lines of text for expected values.

use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::{AttrValue, EventId, Key, LinkKind, Phase, Trace, flags};

/// Read a valid document.
pub(crate) fn read(json: &str) -> Trace {
    read_with(json, &ReadOptions::default())
}

/// Read a valid document with options.
pub(crate) fn read_with(json: &str, options: &ReadOptions) -> Trace {
    read_bytes("test.json", json.as_bytes(), options).unwrap_or_else(|e| panic!("{e}\n{json}"))
}

/// Read a document and compare its rows and diagnostics.
#[track_caller]
pub(crate) fn expect(json: &str, rows: &[&str], problems: &[&str]) -> Trace {
    let trace = read(json);
    assert_eq!(lines(&trace), rows, "rows of {json}");
    assert_eq!(codes(&trace), problems, "problems of {json}");
    trace
}

/// One line per event: `name kind lane:pid/tid start+dur`, then unusual properties, parent and arguments.
pub(crate) fn lines(trace: &Trace) -> Vec<String> {
    trace.events.ids().map(|event| line(trace, event)).collect()
}

/// `code` or `code*count` of each diagnostic, in the report's order.
pub(crate) fn codes(trace: &Trace) -> Vec<String> {
    let text = |p: &stackline_model::Problem| match p.count {
        1 => p.code.clone(),
        n => format!("{}*{n}", p.code),
    };
    trace.report.problems.iter().map(text).collect()
}

fn line(trace: &Trace, event: EventId) -> String {
    let (row, table) = (event.index(), &trace.events);
    let track = trace.tracks.get(table.track[row]);
    let (pid, tid) = (key(trace, trace.tracks.pid(table.track[row])), key(trace, track.tid));
    let (name, kind, lane) = (trace.name(event), trace.kind(event).name(), track.kind.name());
    let mut out = format!("{name} {kind} {lane}:{pid}/{tid} {}+{}", table.start[row], table.dur[row]);
    if !matches!(table.phase[row], Phase::Complete | Phase::Instant) {
        out += &format!(" {}", table.phase[row].name());
    }
    let words = [
        (flags::UNFINISHED, "unfinished"),
        (flags::CLAMPED, "clamped"),
        (flags::IMPLAUSIBLE, "implausible"),
        (flags::CROSSING, "crossing"),
        (flags::NO_TIME, "no_time"),
    ];
    for (_, word) in words.iter().filter(|(bit, _)| table.has(event, *bit)) {
        out += &format!(" {word}");
    }
    if let Some(parent) = table.parent[row].some() {
        out += &format!(" in {}", trace.name(parent));
    }
    for (name, value) in trace.attrs.of_event(event) {
        out += &format!(" {}={}", trace.strings.get(name), value_text(trace, value));
    }
    out
}

/// A process or thread key; text in quotes, so that 7 and "7" differ.
pub(crate) fn key(trace: &Trace, key: Key) -> String {
    match key {
        Key::Int(number) => number.to_string(),
        Key::Str(text) => format!("{:?}", trace.strings.get(text)),
        Key::None => "-".to_owned(),
    }
}

fn value_text(trace: &Trace, value: AttrValue) -> String {
    match value {
        AttrValue::Null => "null".to_owned(),
        AttrValue::Bool(b) => b.to_string(),
        AttrValue::Int(i) => i.to_string(),
        AttrValue::Uint(u) => format!("{u}u"),
        AttrValue::Float(f) => format!("{f:?}"),
        AttrValue::Str(s) => format!("{:?}", trace.strings.get(s)),
        AttrValue::Json(s) => trace.strings.get(s).to_owned(),
    }
}

/// `from -> to` of each flow arrow that is not a launch.
pub(crate) fn arrows(trace: &Trace) -> Vec<String> {
    trace
        .links
        .of_kind(LinkKind::Flow)
        .map(|(from, to, _)| format!("{} -> {}", trace.name(from), trace.name(to)))
        .collect()
}

/// `forward -> backward` of each pair.
pub(crate) fn backward(trace: &Trace) -> Vec<String> {
    trace
        .links
        .of_kind(LinkKind::Backward)
        .map(|(from, to, _)| format!("{} -> {}", trace.name(from), trace.name(to)))
        .collect()
}

/// One line per GPU operation: `name correlation device/stream`, then launch and context.
pub(crate) fn gpu(trace: &Trace) -> Vec<String> {
    let name = |event: EventId| event.some().map_or("-", |e| trace.name(e));
    let row = |i: usize| {
        let table = &trace.gpu;
        let step = trace.steps.get(table.step[i] as usize).map_or("-".to_owned(), |s| s.number.to_string());
        format!(
            "{} {} {}/{} launch={} op={} py={} module={} annotation={} step={step}",
            name(table.event[i]),
            table.correlation[i],
            table.device[i],
            table.stream[i],
            name(table.launch[i]),
            name(table.operator[i]),
            name(table.python[i]),
            name(table.module[i]),
            name(table.annotation[i]),
        )
    };
    (0..trace.gpu.len()).map(row).collect()
}
