//! Every event and every argument of every trace of the corpus, against what serde_json reads.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "helpers of tests")]

mod common;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use stackline_ingest::{ReadOptions, read_bytes, read_paths};
use stackline_model::{AttrValue, EventId, Trace};
use std::borrow::Cow;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow, default)]
    ph: Cow<'a, str>,
    #[serde(default)]
    name: Option<Value>,
    #[serde(borrow, default)]
    cat: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    ts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    dur: Option<&'a RawValue>,
    #[serde(default)]
    args: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow, rename = "traceEvents")]
    events: Vec<Record<'a>>,
}

/// Decimal µs text to ns by integer arithmetic on the digits.
fn nanos(text: &RawValue) -> i64 {
    let text = text.get();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let sign = if whole.starts_with('-') { -1 } else { 1 };
    assert!(fraction.len() <= 3 && !text.contains(['e', 'E']), "{text}");
    let fraction: i64 = format!("{fraction:0<3}").parse().unwrap();
    whole.parse::<i64>().unwrap() * 1000 + sign * fraction
}

fn same(trace: &Trace, ours: AttrValue, theirs: &Value) -> bool {
    match ours {
        AttrValue::Null => theirs.is_null(),
        AttrValue::Bool(b) => theirs.as_bool() == Some(b),
        AttrValue::Int(i) => theirs.as_i64() == Some(i),
        AttrValue::Uint(u) => theirs.as_u64() == Some(u),
        AttrValue::Float(f) => theirs.as_f64() == Some(f),
        AttrValue::Str(s) => theirs.as_str() == Some(trace.strings.get(s)),
        AttrValue::Json(s) => {
            let text = trace.strings.get(s);
            serde_json::from_str::<Value>(text).unwrap_or_else(|e| panic!("{text}: {e}")) == *theirs
        }
    }
}

fn check_event(trace: &Trace, event: EventId, index: usize, record: &Record<'_>) {
    let place = format!("{} record {index}", trace.meta.name);
    assert_eq!(trace.events.source_index[event.index()] as usize, index, "{place}");
    let name = record.name.as_ref().and_then(Value::as_str).unwrap_or_default();
    assert_eq!(trace.name(event), name, "{place}");
    assert_eq!(trace.category(event), record.cat.as_deref().unwrap_or_default(), "{place}");
    assert_eq!(trace.events.start[event.index()], record.ts.map_or(0, nanos), "{place}");
    assert_eq!(trace.events.dur[event.index()], record.dur.map_or(0, nanos).max(0), "{place}");
    let ours: BTreeMap<String, AttrValue> = trace
        .attrs
        .of(event)
        .map(|(key, value)| (trace.strings.get(key).to_owned(), value))
        .filter(|(key, _)| !key.starts_with('$'))
        .collect();
    assert_eq!(ours.keys().collect::<Vec<_>>(), record.args.keys().collect::<Vec<_>>(), "{place}");
    for (key, value) in &ours {
        assert!(same(trace, *value, &record.args[key]), "{place}: {key}: {value:?}, not {}", record.args[key]);
    }
}

#[test]
fn every_event_and_argument_equals_serde_json() {
    let mut compared = 0;
    for path in common::kineto() {
        let text = common::text(&path);
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let trace = read_bytes(&name, &text, &ReadOptions::default()).unwrap();
        let records = serde_json::from_slice::<Document<'_>>(&text).map(|d| d.events);
        let records = records.or_else(|_| serde_json::from_slice::<Vec<Record<'_>>>(&text)).unwrap();
        assert_eq!(trace.report.records, records.len() as u64, "{name}");
        let mut events = trace.events.ids();
        for (index, record) in records.iter().enumerate() {
            if matches!(&*record.ph, "X" | "i" | "I" | "C") {
                check_event(&trace, events.next().expect("a row for each record"), index, record);
                compared += 1;
            }
        }
        assert_eq!(events.next(), None, "{name}: rows without record");
        assert!(trace.report.is_clean(), "{name}: {:?}", trace.report.problems);
    }
    println!("{compared} events compared");
    assert!(compared > 900_000 || common::corpus().is_none());
}

#[test]
fn threads_and_packing_do_not_change_the_trace() {
    for path in common::kineto().iter().filter(|p| p.metadata().unwrap().len() < 500_000) {
        let columns = |threads| {
            let options = ReadOptions { threads, ..ReadOptions::default() };
            let set = read_paths(std::slice::from_ref(path), &options).unwrap();
            format!("{:?}", (&set.traces[0].events, &set.traces[0].gpu, &set.traces[0].report, &set.traces[0].steps))
        };
        let one = columns(1);
        assert_eq!(one, columns(2));
        assert_eq!(one, columns(8));
        let plain =
            read_bytes(&path.file_name().unwrap().to_string_lossy(), &common::text(path), &ReadOptions::default());
        let plain = plain.unwrap();
        assert_eq!(one, format!("{:?}", (&plain.events, &plain.gpu, &plain.report, &plain.steps)));
    }
}
