//! A trace as CSV files: one per table of the model, joined by row numbers.

use crate::presenters::csv;
use stackline_model::{AttrValue, EventId, LinkKind, StrId, Table, Trace, Unit};
use std::fmt::Write as _;
use std::io::{self, Write};

/// A file of the export: its name and its writer.
pub type File = (&'static str, fn(&Trace, &mut dyn Write) -> io::Result<()>);

/// The files of one trace.
pub const FILES: [File; 4] =
    [("events.csv", write_events), ("gpu.csv", write_gpu), ("tracks.csv", write_tracks), ("links.csv", write_links)];

/// Write a CSV file with one row per event, in source order; `args` is JSON text.
fn write_events(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"event,source_index,start_ns,dur_ns,kind,phase,category,name,track,parent,flags,args\n")?;
    let mut line = String::new();
    for event in trace.events.ids() {
        let row = event.index();
        let e = &trace.events;
        line.clear();
        let _ = write!(line, "{row},{},{},{}", e.source_index[row], e.start[row], e.dur[row]);
        let _ = write!(line, ",{},{}", e.kind[row].name(), e.phase[row].name());
        let _ = write!(line, ",{},{}", csv::field(trace.category(event)), csv::field(trace.name(event)));
        let _ = write!(line, ",{},{},{},", e.track[row].0, number(e.parent[row]), e.flags[row]);
        line.push_str(&csv::field(&args(trace, event)));
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn args(trace: &Trace, event: EventId) -> String {
    let mut object = serde_json::Map::new();
    for (key, value) in trace.attrs.of_event(event) {
        let text = |s: StrId| trace.strings.get(s).to_owned();
        let value = match value {
            AttrValue::Null => serde_json::Value::Null,
            AttrValue::Bool(b) => b.into(),
            AttrValue::Int(i) => i.into(),
            AttrValue::Uint(u) => u.into(),
            AttrValue::Float(f) => f.into(),
            AttrValue::Str(s) => text(s).into(),
            AttrValue::Json(s) => serde_json::from_str(trace.strings.get(s)).unwrap_or_else(|_| text(s).into()),
        };
        object.insert(trace.strings.get(key).to_owned(), value);
    }
    if object.is_empty() { String::new() } else { serde_json::Value::Object(object).to_string() }
}

fn number(event: EventId) -> String {
    event.some().map(|e| e.0.to_string()).unwrap_or_default()
}

/// Write a CSV file with one row per GPU operation: device, stream, launch call, operator, module and step.
fn write_gpu(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let gpu = &trace.gpu;
    let event = |ids: &[EventId]| ids.iter().map(|e| e.some().map(|e| i64::from(e.0))).collect::<Vec<_>>();
    let known = |v: i64| Some(v).filter(|&v| v >= 0);
    let step = |s: &u32| trace.steps.get(*s as usize).map(|s| s.number);
    let table = Table::new("gpu", "")
        .i64("event", Unit::None, event(&gpu.event))
        .i64("correlation", Unit::None, gpu.correlation.iter().map(|&c| known(c)))
        .i64("device", Unit::None, gpu.device.iter().map(|&d| known(i64::from(d))))
        .i64("stream", Unit::None, gpu.stream.iter().map(|&s| known(s)))
        .i64("launch", Unit::None, event(&gpu.launch))
        .i64("operator", Unit::None, event(&gpu.operator))
        .i64("python", Unit::None, event(&gpu.python))
        .i64("module", Unit::None, event(&gpu.module))
        .i64("annotation", Unit::None, event(&gpu.annotation))
        .i64("step", Unit::None, gpu.step.iter().map(step));
    csv::write(&table, out)
}

/// Write a CSV file with one row per track, with its process.
fn write_tracks(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let tracks = &trace.tracks.tracks;
    let text = |s: StrId| s.some().map(|s| trace.strings.get(s).to_owned());
    let process = |f: &dyn Fn(&stackline_model::Process) -> Option<String>| {
        tracks.iter().map(|t| f(&trace.tracks.processes[t.process.index()])).collect::<Vec<_>>()
    };
    let table = Table::new("tracks", "")
        .i64("track", Unit::None, 0..tracks.len() as i64)
        .text("kind", tracks.iter().map(|t| t.kind.name().to_owned()))
        .text("pid", process(&|p| Some(trace.key_text(p.pid))))
        .text("process_name", process(&|p| text(p.name)))
        .text("process_labels", process(&|p| text(p.labels)))
        .text("tid", tracks.iter().map(|t| trace.key_text(t.tid)))
        .text("thread_name", tracks.iter().map(|t| text(t.name)))
        .i64("device", Unit::None, tracks.iter().map(|t| Some(i64::from(t.device)).filter(|&d| d >= 0)))
        .i64("stream", Unit::None, tracks.iter().map(|t| Some(t.stream).filter(|&s| s >= 0)));
    csv::write(&table, out)
}

/// Write a CSV file with one row per link between events, such as launches, arrows, or forward to backward. Nesting is
/// not included.
fn write_links(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let line = |kind: &str, from: EventId, to: EventId, category: &str| {
        format!("{kind},{},{},{}\n", number(from), number(to), csv::field(category))
    };
    out.write_all(b"kind,from,to,category\n")?;
    for gpu in trace.gpu.ids().filter(|g| trace.gpu.launch[g.index()].is_some()) {
        let (from, to) = (trace.gpu.launch[gpu.index()], trace.gpu.event[gpu.index()]);
        out.write_all(line("launch", from, to, "").as_bytes())?;
    }
    for &kind in LinkKind::ALL {
        for (from, to, category) in trace.links.of_kind(kind) {
            out.write_all(line(kind.name(), from, to, trace.strings.get(category)).as_bytes())?;
        }
    }
    Ok(())
}
