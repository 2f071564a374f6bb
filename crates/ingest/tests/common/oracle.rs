//! Comparison of a valid Chrome document, parsed by serde_json with integer arithmetic, with the reader's result.
//! Shared by the tests and the fuzz targets.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use stackline_model::{AttrValue, EventId, Key, Phase, Trace, flags};
use std::collections::BTreeMap;

/// One record, as far as it is compared.
#[derive(Deserialize)]
pub(crate) struct Record<'a> {
    ph: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    pid: Value,
    #[serde(default)]
    tid: Value,
    #[serde(borrow, default)]
    ts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    dur: Option<&'a RawValue>,
    #[serde(default)]
    args: BTreeMap<String, Value>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, rename = "traceEvents")]
    events: Vec<Record<'a>>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// The document's records and other top-level members; `None` if it is not JSON of this form.
pub(crate) fn parse(text: &[u8]) -> Option<(Vec<Record<'_>>, BTreeMap<String, Value>)> {
    match serde_json::from_slice::<Object<'_>>(text) {
        Ok(object) => Some((object.events, object.others)),
        Err(_) => serde_json::from_slice::<Vec<Record<'_>>>(text).ok().map(|events| (events, BTreeMap::new())),
    }
}

/// Codes for invalid JSON, which must not occur in a valid document.
const DAMAGE: &[&str] = &[
    "bare_quote",
    "backslash",
    "control_character",
    "invalid_utf8",
    "odd_value",
    "missing_value",
    "malformed_argument",
    "foreign_text",
    "missing_quote",
    "extra_comma",
    "missing_comma",
    "damaged_event",
    "not_an_event",
    "truncated",
    "unclosed_list",
    "damaged_compression",
    "trailing_data",
    "damaged_metadata",
];

/// Check if any record is a row by itself: a list without events is not a trace.
pub(crate) fn has_rows(records: &[Record<'_>]) -> bool {
    records.iter().any(|r| matches!(&*r.ph, "X" | "i" | "I" | "C"))
}

/// Compares all records that are rows by themselves (`X`, `i`, `I`, `C`); returns how many.
pub(crate) fn compare(
    trace: &Trace,
    records: &[Record<'_>],
    others: &BTreeMap<String, Value>,
) -> Result<usize, String> {
    let report = &trace.report;
    // `stackFrames` may be valid JSON without frames.
    let excused = |code: &str| code == "damaged_metadata" && others.contains_key("stackFrames");
    let damage = |p: &&stackline_model::Problem| DAMAGE.contains(&p.code.as_str()) && !excused(&p.code);
    if let Some(problem) = report.problems.iter().find(damage) {
        return Err(format!("valid JSON was called damaged: {problem:?}"));
    }
    if report.records != records.len() as u64 {
        return Err(format!("{} records read, not {}", report.records, records.len()));
    }
    let mut compared = 0;
    for event in trace.events.ids() {
        let index = trace.events.source_index[event.index()] as usize;
        let record = records.get(index).ok_or_else(|| format!("there is no record {index}"))?;
        if matches!(trace.events.phase[event.index()], Phase::Complete | Phase::Instant | Phase::Counter) {
            check_event(trace, event, record).map_err(|what| format!("record {index}: {what}"))?;
            compared += 1;
        }
    }
    let rows = records.iter().filter(|r| matches!(&*r.ph, "X" | "i" | "I" | "C")).count();
    if rows > compared {
        return Err(format!("{compared} rows of {rows}"));
    }
    check_header(trace, others)?;
    Ok(compared)
}

fn check_header(trace: &Trace, others: &BTreeMap<String, Value>) -> Result<(), String> {
    for (key, value) in others.iter().filter(|(key, _)| *key != "stackFrames") {
        let ours = trace.meta.entry(key).ok_or_else(|| format!("no entry {key:?}"))?;
        let ours: Value = serde_json::from_str(ours).map_err(|e| format!("entry {key:?}: {ours}: {e}"))?;
        same_value(&ours, value).then_some(()).ok_or_else(|| format!("entry {key:?}: {ours}, not {value}"))?;
    }
    Ok(())
}

fn check_event(trace: &Trace, event: EventId, record: &Record<'_>) -> Result<(), String> {
    let row = event.index();
    let differs = |what: &str, ours: &dyn std::fmt::Debug, theirs: &dyn std::fmt::Debug| {
        Err(format!("{what} is {ours:?}, not {theirs:?}"))
    };
    // Records without a name are named by their kind.
    let is_nameless = record.name.is_empty() && trace.name(event).ends_with(" without a name");
    if trace.name(event) != record.name && !is_nameless {
        return differs("name", &trace.name(event), &record.name);
    }
    if trace.category(event) != record.cat {
        return differs("category", &trace.category(event), &record.cat);
    }
    let track = trace.tracks.get(trace.events.track[row]);
    let pid = key(trace, trace.tracks.pid(trace.events.track[row]));
    if !same_key(&pid, &record.pid) {
        return differs("pid", &pid, &record.pid);
    }
    let tid = key(trace, track.tid);
    if trace.events.phase[row] != Phase::Counter
        && track.kind != stackline_model::TrackKind::Counter
        && !same_key(&tid, &record.tid)
    {
        return differs("tid", &tid, &record.tid);
    }
    let (start, dur) = (trace.events.start[row], trace.events.dur[row]);
    let is_placed = !trace.events.has(event, flags::NO_TIME);
    // Times of a device may have been shifted, which the report says.
    let shift = trace.meta.clocks.iter().find(|c| c.device == track.device).map_or(0, |c| c.applied_ns);
    let is_right =
        |ns: i64| start == ns || track.kind == stackline_model::TrackKind::Stream && start == ns.saturating_add(shift);
    if let Some(ns) = record.ts.and_then(|t| nanos(t.get())).filter(|&ns| is_placed && !is_right(ns)) {
        return differs("start", &start, &ns);
    }
    // With a start in nanoseconds, the duration is in nanoseconds, too.
    let is_micros = record.ts.is_none_or(|t| nanos(t.get()).is_some());
    if let Some(ns) = record.dur.and_then(|t| nanos(t.get())).filter(|_| is_micros) {
        let is_usable = trace.events.has(event, flags::HAS_DURATION) && trace.events.phase[row] == Phase::Complete;
        if is_usable && dur != ns.max(0) && !trace.events.has(event, flags::NO_TIME) {
            return differs("duration", &dur, &ns);
        }
    }
    check_arguments(trace, event, record)
}

fn check_arguments(trace: &Trace, event: EventId, record: &Record<'_>) -> Result<(), String> {
    const OWN: &[&str] = &["id", "sf"];
    if record.args.keys().any(|key| key.starts_with('$')) {
        return Ok(()); // cannot be told from the record's own members
    }
    let mut theirs: BTreeMap<String, &Value> = record.args.iter().map(|(k, v)| (k.clone(), v)).collect();
    for (key, value) in record.others.iter().filter(|(key, _)| !OWN.contains(&key.as_str())) {
        theirs.insert(format!("${key}"), value);
    }
    let own = |key: &str| key.strip_prefix('$').is_some_and(|k| OWN.contains(&k));
    let ours: BTreeMap<String, AttrValue> = trace
        .attrs
        .of_event(event)
        .map(|(k, v)| (trace.strings.get(k).to_owned(), v))
        .filter(|(k, _)| !own(k))
        .collect();
    if !ours.keys().eq(theirs.keys()) {
        return Err(format!("arguments are {:?}, not {:?}", ours.keys(), theirs.keys()));
    }
    for (key, value) in &ours {
        if !same(trace, *value, theirs[key]) {
            return Err(format!("argument {key:?} is {value:?}, not {}", theirs[key]));
        }
    }
    Ok(())
}

/// A process or thread key as JSON.
fn key(trace: &Trace, key: Key) -> Value {
    match key {
        Key::Int(number) => number.into(),
        Key::Str(text) => trace.strings.get(text).into(),
        Key::None => Value::Null,
    }
}

fn same_key(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        // Numbers that are not 64-bit integers, and other values, are kept as text.
        (Value::String(_), Value::Number(_) | Value::Array(_) | Value::Object(_) | Value::Bool(_)) => true,
        _ => ours == theirs,
    }
}

fn same(trace: &Trace, ours: AttrValue, theirs: &Value) -> bool {
    match ours {
        AttrValue::Null => theirs.is_null(),
        AttrValue::Bool(b) => theirs.as_bool() == Some(b),
        AttrValue::Int(i) => theirs.as_i64() == Some(i),
        AttrValue::Uint(u) => theirs.as_u64() == Some(u),
        AttrValue::Float(f) => theirs.is_f64() && theirs.as_f64().map(f64::to_bits) == Some(f.to_bits()),
        AttrValue::Str(s) => theirs.as_str() == Some(trace.strings.get(s)),
        AttrValue::Json(s) => {
            let ours = serde_json::from_str::<Value>(trace.strings.get(s));
            !theirs.is_string() && ours.is_ok_and(|v| same_value(&v, theirs))
        }
    }
}

fn same_value(a: &Value, b: &Value) -> bool {
    a == b
}

/// Decimal microseconds to nanoseconds, half away from zero, by long-hand arithmetic on the digits. `None` if the text
/// is no number, is so large that it may mean nanoseconds, or does not fit.
pub(crate) fn nanos(text: &str) -> Option<i64> {
    let text = text.trim_matches('"');
    let negative = text.starts_with('-');
    let unsigned = text.trim_start_matches('-');
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let exponent: i64 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Position of the decimal point in `digits` for a number in nanoseconds.
    let point = whole.len() as i64 + exponent + 3;
    let digit = |at: i64| usize::try_from(at).ok().and_then(|at| digits.get(at)).map_or(0, |d| i128::from(d - b'0'));
    let Some(first) = digits.iter().position(|&d| d != b'0') else { return Some(0) };
    let first = first as i64;
    if point - first > 20 {
        return None;
    }
    let mut value = 0i128;
    for at in first.min(point)..point {
        value = value * 10 + digit(at);
    }
    if digit(point) >= 5 && point >= 0 {
        value += 1;
    }
    // Above 1e17 µs the reader takes the number as nanoseconds.
    if value >= 100_000_000_000_000_000_000 {
        return None;
    }
    i64::try_from(if negative { -value } else { value }).ok()
}
