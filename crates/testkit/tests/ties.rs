//! Events with equal times: their order in the source does not affect results.

use serde_json::Value;
use stackline_critical_path::exact::{Exact, WindowChoice};
use stackline_testkit::simulator::{Damage, Profile, simulate};
use std::collections::BTreeSet;

/// Round GPU times to multiples of 5 µs and host times to 1 µs, so that many events begin or end together. `None` if
/// two spans of one thread do both, because only the order of the source determines which one encloses the other.
fn coarse(json: &str) -> Option<String> {
    let mut trace: Value = serde_json::from_str(json).unwrap();
    let mut seen = BTreeSet::new();
    for event in trace["traceEvents"].as_array_mut().unwrap() {
        let (Some(start), Some(length)) = (event["ts"].as_f64(), event["dur"].as_f64()) else { continue };
        let unit = if event["args"]["stream"].is_number() { 5.0 } else { 1.0 };
        let round = |us: f64| (us / unit).floor() * unit;
        let (start, length) = (round(start), round(start + length) - round(start));
        if unit == 1.0 && !seen.insert((event["tid"].to_string(), start as i64, length as i64)) {
            return None;
        }
        event["ts"] = start.into();
        event["dur"] = length.into();
    }
    Some(trace.to_string())
}

/// The path as text, without row numbers.
fn path(json: &str) -> Vec<String> {
    let trace = stackline_ingest::read_bytes("t.json", json.as_bytes(), &Default::default()).unwrap();
    let exact = Exact::new(&trace);
    let path = exact.path(&WindowChoice::Whole).unwrap();
    let name = |e: stackline_model::EventId| e.some().map_or("", |e| trace.name(e));
    let segment = |h: stackline_critical_path::exact::PathSegment| {
        let track = exact.track_label(h.track);
        format!("{} {} {:?} {track} {:?} {} {}", h.start, h.end, h.category, h.evidence, h.rule, name(h.event))
    };
    path.segments.iter().map(segment).collect()
}

#[test]
fn equal_times_in_any_order_give_the_same_path() {
    let mut compared = 0;
    for seed in 0..300 {
        let run = simulate(seed, &Profile::any(seed));
        let Some(json) = coarse(&run.json()) else { continue };
        let expected = path(&json);
        for other in 1..3 {
            let reordered = run.damaged(&[Damage::Reordered], seed + 1_000 * other).json;
            let found = path(&coarse(&reordered).unwrap());
            let differ = found.iter().zip(&expected).find(|(a, b)| a != b);
            assert!(found == expected, "seed {seed}: {differ:?}");
            compared += 1;
        }
    }
    assert!(compared > 100, "only {compared}");
}
