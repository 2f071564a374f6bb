//! Export of a trace as Chrome trace JSON, which Stackline's reader converts back to the same model.
//!
//! Times are exact decimal microseconds; arguments keep their types; tracks and processes keep their order. Repairs of
//! reading remain: begin and end records become complete events, negative durations become 0. Spans that were cut at
//! the end of their caller get their recorded duration back. A metadata entry lists data that was missing in the input.

use super::redact;
use rustc_hash::FxHashSet;
use stackline_model::{
    AttrValue, EventId, Key, LOST_DATA, LinkKind, Phase, RECORDED_DURATION, StackId, StrId, Trace, flags,
};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Arrows from launches to GPU work that viewers draw; readers take them from the correlation ids.
const LAUNCH_FLOW: &str = "ac2g";

/// Write one trace as Chrome trace JSON, optionally redacted.
pub fn write(trace: &Trace, redact: bool, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"{\n")?;
    for (key, json) in redact::entries(&trace.meta, redact) {
        writeln!(out, "  {}: {json},", quote(key))?;
    }
    let lost = trace.report.lost_counts();
    if !lost.is_empty() {
        writeln!(out, "  {}: {},", quote(LOST_DATA), serde_json::to_string(&lost)?)?;
    }
    if !trace.stacks.is_empty() {
        write_stack_frames(trace, out)?;
    }
    out.write_all(b"  \"traceEvents\": [\n")?;
    let mut list = EventListWriter { out, first: true };
    write_metadata(trace, &mut list)?;
    write_events(trace, &mut list)?;
    write_flows(trace, &mut list)?;
    out.write_all(b"\n  ]\n}\n")
}

/// Writer of the JSON event list, with commas between records.
struct EventListWriter<'a> {
    out: &'a mut dyn Write,
    first: bool,
}

impl EventListWriter<'_> {
    fn push(&mut self, record: &str) -> io::Result<()> {
        if !std::mem::take(&mut self.first) {
            self.out.write_all(b",\n")?;
        }
        self.out.write_all(record.as_bytes())
    }
}

fn write_events(trace: &Trace, list: &mut EventListWriter<'_>) -> io::Result<()> {
    let mut stacks = trace.stacks.event.iter().copied().zip(trace.stacks.stack.iter().copied()).peekable();
    let mut record = String::new();
    for event in trace.events.ids() {
        let stack = stacks.next_if(|(e, _)| *e == event).map(|(_, s)| s);
        record.clear();
        write_event(trace, event, stack, &mut record);
        list.push(&record)?;
        if trace.events.phase[event.index()] == Phase::Async && !trace.events.has(event, flags::UNFINISHED) {
            record.clear();
            write_async_end(trace, event, &mut record);
            list.push(&record)?;
        }
    }
    Ok(())
}

fn write_event(trace: &Trace, event: EventId, stack: Option<StackId>, record: &mut String) {
    let row = event.index();
    let events = &trace.events;
    let letter = match events.phase[row] {
        Phase::BeginEnd if events.has(event, flags::UNFINISHED) => 'B',
        Phase::Complete | Phase::BeginEnd => 'X',
        Phase::Instant => 'i',
        Phase::Counter => 'C',
        Phase::Async => 'b',
        Phase::AsyncInstant => 'n',
        Phase::Sample => 'P',
        _ => 'O',
    };
    let _ = write!(record, "{{\"ph\":\"{letter}\"");
    text_member("cat", events.category[row], trace, record);
    text_member("name", events.name[row], trace, record);
    let track = events.track[row];
    key_member("pid", trace.tracks.pid(track), trace, record);
    key_member("tid", trace.tracks.get(track).tid, trace, record);
    if !events.has(event, flags::NO_TIME) {
        member("ts", &micros(events.start[row]), record);
    }
    if letter == 'X' && events.has(event, flags::HAS_DURATION) {
        member("dur", &micros(recorded_duration(trace, event).unwrap_or(events.dur[row])), record);
    }
    if matches!(letter, 'b' | 'n') {
        member("id", &row.to_string(), record);
    }
    if let Some(stack) = stack {
        member("sf", &quote(&frame_id(stack)), record);
    }
    write_attributes(trace, event, record);
    record.push('}');
}

/// Original duration in ns of an event that the reader shortened to the end of its caller; `None` for other events.
fn recorded_duration(trace: &Trace, event: EventId) -> Option<i64> {
    if !trace.events.has(event, flags::CLAMPED) {
        return None;
    }
    let own = trace.attrs.of_event(event).find(|(key, _)| trace.strings.get(*key) == RECORDED_DURATION);
    own.and_then(|(_, value)| value.as_i64())
}

fn write_async_end(trace: &Trace, event: EventId, record: &mut String) {
    let row = event.index();
    record.push_str("{\"ph\":\"e\"");
    text_member("cat", trace.events.category[row], trace, record);
    text_member("name", trace.events.name[row], trace, record);
    let track = trace.events.track[row];
    key_member("pid", trace.tracks.pid(track), trace, record);
    key_member("tid", trace.tracks.get(track).tid, trace, record);
    member("ts", &micros(trace.events.end(event)), record);
    member("id", &row.to_string(), record);
    record.push('}');
}

/// Members that a record has of its own: an attribute of such a name stays among the arguments.
const RESERVED: &[&str] = &["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "sf"];

/// Write the arguments of an event as `args`, and attributes whose keys start with `$` as members of the record.
fn write_attributes(trace: &Trace, event: EventId, record: &mut String) {
    let outer = |key: StrId| trace.strings.get(key).strip_prefix('$').filter(|name| !RESERVED.contains(name));
    let is_cut = trace.events.has(event, flags::CLAMPED);
    let ours = |key: StrId| is_cut && trace.strings.get(key) == RECORDED_DURATION;
    let mut inner = trace.attrs.of_event(event).filter(|(key, _)| outer(*key).is_none() && !ours(*key)).peekable();
    let whole = |key: StrId| trace.strings.get(key) == "$args";
    if let Some((key, value)) = inner.next() {
        // Arguments that were no object at all.
        if whole(key) && inner.peek().is_none() {
            record.push_str(",\"args\":");
            value_text(value, trace, record);
        } else {
            record.push_str(",\"args\":{");
            for (i, (key, value)) in std::iter::once((key, value)).chain(inner).enumerate() {
                if i > 0 {
                    record.push(',');
                }
                record.push_str(&quote(trace.strings.get(key)));
                record.push(':');
                value_text(value, trace, record);
            }
            record.push('}');
        }
    }
    for (key, value) in trace.attrs.of_event(event) {
        if let Some(name) = outer(key) {
            let _ = write!(record, ",{}:", quote(name));
            value_text(value, trace, record);
        }
    }
}

fn value_text(value: AttrValue, trace: &Trace, record: &mut String) {
    let _ = match value {
        AttrValue::Null => record.write_str("null"),
        AttrValue::Bool(b) => write!(record, "{b}"),
        AttrValue::Int(i) => write!(record, "{i}"),
        AttrValue::Uint(u) => write!(record, "{u}"),
        // The form with a point or an exponent: a float must not come back as an integer.
        AttrValue::Float(f) if f.is_finite() => write!(record, "{f:?}"),
        AttrValue::Float(_) => record.write_str("null"),
        AttrValue::Str(s) => record.write_str(&quote(trace.strings.get(s))),
        AttrValue::Json(s) => record.write_str(trace.strings.get(s)),
    };
}

fn write_metadata(trace: &Trace, list: &mut EventListWriter<'_>) -> io::Result<()> {
    // Every process, in order: readers number processes by first appearance.
    for process in &trace.tracks.processes {
        let pid = process.pid;
        meta_text(trace, list, "process_name", "name", pid, None, process.name)?;
        if process.labels.is_some() {
            meta_text(trace, list, "process_labels", "labels", pid, None, process.labels)?;
        }
        if let Some(order) = process.sort_index {
            meta_number(trace, list, "process_sort_index", pid, None, order)?;
        }
    }
    let mut named = FxHashSet::default();
    for track in trace.tracks.ids() {
        let (pid, track) = (trace.tracks.pid(track), trace.tracks.get(track));
        if !named.insert((pid, track.tid)) {
            continue;
        }
        if track.name.is_some() {
            meta_text(trace, list, "thread_name", "name", pid, Some(track.tid), track.name)?;
        }
        if let Some(order) = track.sort_index {
            meta_number(trace, list, "thread_sort_index", pid, Some(track.tid), order)?;
        }
    }
    Ok(())
}

/// Begin a metadata record (`M`) of a process or thread, without its arguments.
fn meta_head(trace: &Trace, name: &str, pid: Key, tid: Option<Key>) -> String {
    let mut record = format!("{{\"ph\":\"M\",\"name\":\"{name}\"");
    key_member("pid", pid, trace, &mut record);
    if let Some(tid) = tid {
        key_member("tid", tid, trace, &mut record);
    }
    record
}

fn meta_text(
    trace: &Trace,
    list: &mut EventListWriter<'_>,
    name: &str,
    key: &str,
    pid: Key,
    tid: Option<Key>,
    text: StrId,
) -> io::Result<()> {
    let mut record = meta_head(trace, name, pid, tid);
    match text.is_some() {
        true => drop(write!(record, ",\"args\":{{\"{key}\":{}}}", quote(trace.strings.get(text)))),
        // Readers look into it without asking whether it is there.
        false => record.push_str(",\"args\":{}"),
    }
    record.push('}');
    list.push(&record)
}

fn meta_number(
    trace: &Trace,
    list: &mut EventListWriter<'_>,
    name: &str,
    pid: Key,
    tid: Option<Key>,
    number: i64,
) -> io::Result<()> {
    let record = meta_head(trace, name, pid, tid);
    list.push(&format!("{record},\"args\":{{\"sort_index\":{number}}}}}"))
}

fn write_flows(trace: &Trace, list: &mut EventListWriter<'_>) -> io::Result<()> {
    let mut id = 0u64;
    for (from, to, category) in trace.links.of_kind(LinkKind::Flow) {
        id += 1;
        let category = trace.strings.get(category);
        write_flow(trace, list, id, category, from, to)?;
    }
    // Where the correlation ids are known, readers go by them and ignore these arrows.
    if trace.gpu.correlation.iter().any(|&c| c > 0) {
        for gpu in trace.gpu.ids() {
            let (launch, event) = (trace.gpu.launch[gpu.index()], trace.gpu.event[gpu.index()]);
            if launch.is_some() && trace.gpu.correlation[gpu.index()] > 0 {
                id += 1;
                write_flow(trace, list, id, LAUNCH_FLOW, launch, event)?;
            }
        }
    }
    Ok(())
}

fn write_flow(
    trace: &Trace,
    list: &mut EventListWriter<'_>,
    id: u64,
    category: &str,
    from: EventId,
    to: EventId,
) -> io::Result<()> {
    let start = time_inside(trace, from, i64::MIN);
    let finish = time_inside(trace, to, start);
    for (letter, event, at) in [('s', from, start), ('f', to, finish)] {
        let mut record = format!("{{\"ph\":\"{letter}\",\"id\":{id},\"cat\":{},\"name\":{0}", quote(category));
        let track = trace.events.track[event.index()];
        key_member("pid", trace.tracks.pid(track), trace, &mut record);
        key_member("tid", trace.tracks.get(track).tid, trace, &mut record);
        member("ts", &micros(at), &mut record);
        record.push_str(if letter == 'f' { ",\"bp\":\"e\"}" } else { "}" });
        list.push(&record)?;
    }
    Ok(())
}

/// Find a time at which `event` is the innermost event of its track, at `least` or later if possible. Viewers bind
/// arrows to the innermost event.
fn time_inside(trace: &Trace, event: EventId, least: i64) -> i64 {
    let order = trace.track_events(trace.events.track[event.index()]);
    let (start, end) = (trace.events.start[event.index()], trace.events.end(event));
    let mut at = start.max(least.min(end));
    // If all times of the trace are whole microseconds, these times must be whole too, because HTA applies
    // rounding to all times of a trace with fractions.
    let unit = if trace.meta.fractional_ts { 1 } else { 1000 };
    let after = |t: i64| t.div_euclid(unit).saturating_add(1).saturating_mul(unit);
    // Skip later events inside `event`, up to the first time that none of them covers.
    let first = order.partition_point(|e| trace.events.start[e.index()] < start);
    for &other in &order[first..] {
        let (other_start, other_end) = (trace.events.start[other.index()], trace.events.end(other));
        if other_start > at || other_start > end {
            break;
        }
        let inside = trace.ancestors(other).any(|a| a == event);
        if inside && other_end >= at {
            at = after(other_end);
        }
    }
    if at <= end { at } else { start }
}

fn write_stack_frames(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"  \"stackFrames\": {")?;
    for (i, &name) in trace.stacks.name.iter().enumerate() {
        let mut record = format!("{}\n    {}: {{", if i > 0 { "," } else { "" }, quote(&frame_id(StackId::new(i))));
        let _ = write!(record, "\"name\":{}", quote(trace.strings.get(name)));
        let _ = write!(record, ",\"category\":{}", quote(trace.strings.get(trace.stacks.category[i])));
        if let Some(parent) = trace.stacks.parent[i].some() {
            let _ = write!(record, ",\"parent\":{}", quote(&frame_id(parent)));
        }
        record.push('}');
        out.write_all(record.as_bytes())?;
    }
    out.write_all(b"\n  },\n")
}

/// Id of a stack frame, padded with zeros so that ids sort as text like numbers.
fn frame_id(stack: StackId) -> String {
    format!("{:010}", stack.0)
}

/// Format nanoseconds as exact microseconds: `-12.345`, without a fraction for whole numbers.
pub(super) fn micros(ns: i64) -> String {
    let (sign, abs) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    match abs % 1000 {
        0 => format!("{sign}{}", abs / 1000),
        fraction => format!("{sign}{}.{fraction:03}", abs / 1000),
    }
}

fn quote(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

/// Append a member with a value of JSON text to the record.
fn member(name: &str, json: &str, record: &mut String) {
    let _ = write!(record, ",\"{name}\":{json}");
}

fn text_member(name: &str, text: StrId, trace: &Trace, record: &mut String) {
    if text.is_some() {
        member(name, &quote(trace.strings.get(text)), record);
    }
}

fn key_member(name: &str, key: Key, trace: &Trace, record: &mut String) {
    match key {
        Key::Int(i) => member(name, &i.to_string(), record),
        Key::Str(s) => member(name, &quote(trace.strings.get(s)), record),
        Key::None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::micros;

    #[test]
    fn times_are_exact() {
        assert_eq!(micros(0), "0");
        assert_eq!(micros(1_000), "1");
        assert_eq!(micros(-1), "-0.001");
        assert_eq!(micros(1_234_567), "1234.567");
        assert_eq!(micros(i64::MIN), "-9223372036854775.808");
    }
}
