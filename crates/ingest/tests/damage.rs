//! Every row of the damage table at seeded positions of real traces: a result with a correct report, or an error with
//! file and byte; never a panic, a hang, or a silent change.

use crate::common;
use crate::expected;
use crate::invariants;

use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::{EventId, Trace};
use stackline_testkit::damage::{self, Kept, Kind};
use stackline_testkit::demo;
use std::collections::BTreeMap;

fn read(name: &str, bytes: &[u8]) -> Result<Trace, String> {
    read_bytes(name, bytes, &ReadOptions::default()).map_err(|e| e.to_string())
}

/// Number of occurrences of each (name, start, duration).
fn rows(trace: &Trace) -> BTreeMap<(String, i64, i64), i64> {
    let mut rows = BTreeMap::new();
    for event in trace.events.ids() {
        let key = (trace.name(event).to_owned(), trace.events.start[event.index()], trace.events.dur[event.index()]);
        *rows.entry(key).or_insert(0) += 1;
    }
    rows
}

/// Rows of `whole` that `damaged` lacks.
fn missing(whole: &BTreeMap<(String, i64, i64), i64>, damaged: &BTreeMap<(String, i64, i64), i64>) -> i64 {
    whole.iter().map(|(key, n)| (n - damaged.get(key).unwrap_or(&0)).max(0)).sum()
}

/// Number of records of an undamaged trace that end before a byte.
fn records_before(text: &[u8], end: usize) -> i64 {
    let list = text.windows(13).position(|w| w == b"\"traceEvents\"").unwrap_or(0);
    let (mut depth, mut in_string, mut escaped, mut records) = (0, false, false, 0);
    for &byte in text.get(list + 13..end).unwrap_or_default() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => {
                depth -= 1;
                records += i64::from(depth == 0);
            }
            _ => {}
        }
    }
    records
}

/// Check if a kind of damage has a visible effect: a longer frame need not cross another one, and a second call with an
/// ID need not be that of a launch. `crossings` is compared with all pairs of spans.
fn shows(kind: &Kind, trace: &Trace, crossings: u64) -> bool {
    match kind.name {
        "crossing-frame" => {
            // The reader compares only spans up to the parent: at most all pairs, and 0 only if there are none.
            let all = crossing_spans(trace);
            assert!(crossings <= all && (crossings > 0) == (all > 0), "{crossings} crossings, {all} by all pairs");
            false
        }
        "duplicate-correlation" => {
            let correlation = trace.attr("correlation");
            let calls = trace.events.ids().filter(|e| trace.kind(*e).is_api_call());
            let ids: Vec<i64> = calls.filter_map(|e| correlation.i64(e)).collect();
            trace.gpu.correlation.iter().any(|c| ids.iter().filter(|id| *id == c).count() > 1)
        }
        _ => true,
    }
}

/// Spans that begin in another one of their thread and end after it, by brute force.
fn crossing_spans(trace: &Trace) -> u64 {
    let on_thread =
        |e: &EventId| trace.tracks.get(trace.events.track[e.index()]).kind == stackline_model::TrackKind::Thread;
    let usable = |e: &EventId| on_thread(e) && trace.events.is_plausible(*e);
    let spans: Vec<_> = trace.events.ids().filter(usable).collect();
    let at = |e: EventId| (trace.events.track[e.index()], trace.events.start[e.index()], trace.events.end(e));
    let crosses = |e: &&EventId| {
        let (track, start, end) = at(**e);
        spans.iter().any(|other| {
            let (t, s, o) = at(*other);
            t == track && s < start && start < o && o < end
        })
    };
    spans.iter().filter(crosses).count() as u64
}

/// Kinds of damage that change times or names of many events, so that rows cannot be compared one by one.
const CHANGES_ROWS: &[&str] = &["gpu-clock-skew", "time-absolute", "legacy-array", "wrong-display-unit"];

fn check(kind: &Kind, name: &str, text: &[u8], whole: &Trace, seed: u64) -> Result<(), String> {
    let mutation = damage::mutate(kind, text, seed);
    if mutation.bytes == text {
        return Ok(());
    }
    let places = mutation.offsets.len().max(1) as i64;
    let damaged = match read(name, &mutation.bytes) {
        Ok(trace) => trace,
        Err(reason) if kind.kept == Kept::Nothing && reason.contains(name) => return Ok(()),
        Err(reason) => return Err(format!("unreadable: {reason}")),
    };
    let report = &damaged.report;
    let changed = missing(&rows(whole), &rows(&damaged));
    // A flipped bit in a gzip header has no visible effect.
    let unnoticeable = kind.kept == Kept::Nothing && changed == 0 && damaged.meta == whole.meta;
    let harmless = unnoticeable || !shows(kind, &damaged, report.count_of("crossing"));
    if kind.reported && !harmless && report.problems == whole.report.problems {
        return Err("the report says nothing of it".into());
    }
    let whole_events = whole.events.len() as i64;
    let lost = whole_events - damaged.events.len() as i64;
    match kind.kept {
        Kept::All if lost > 0 => return Err(format!("{lost} events lost")),
        // A damaged position may cost its own event and the adjacent one.
        Kept::Others if lost > 2 * places => return Err(format!("{lost} events lost for {places} places")),
        Kept::Others if changed > 3 * places => return Err(format!("{changed} rows changed for {places} places")),
        Kept::Prefix => {
            let complete = records_before(text, mutation.offsets.first().copied().unwrap_or(0));
            if (report.records as i64) < complete - 1 {
                return Err(format!("{} records read, {complete} stand before the damage", report.records));
            }
        }
        _ => {}
    }
    if lost > 0 && report.is_clean() {
        return Err(format!("{lost} events lost silently"));
    }
    if kind.kept == Kept::All && !CHANGES_ROWS.contains(&kind.name) && changed > 4 * places + 40 {
        return Err(format!("{changed} rows changed for {places} places"));
    }
    expected::check(kind.name, whole, &damaged, !harmless)
        .map_err(|e| format!("{e}; {:?} of {:?}", damaged.span(), whole.span()))?;
    invariants::check(&damaged)
}

#[test]
fn every_kind_of_damage_on_real_traces() {
    let seeds: u64 = std::env::var("STACKLINE_DAMAGE_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(2);
    let expected_codes = [
        "nvidia-a100-simple-add-cuda-sync",
        "nvidia-h100-bert-small",
        "amd-mi250-toy-train",
        "old-category-names",
        "amd-mi300-torch-compile-triton",
        "nvidia-a100-event-sync",
        "amd-mi300-sglang-decode-graph-replay",
        "cpu-only-gloo",
        "amd-mi210-gpu-only",
        "gpu-metrics-input",
        "nvidia-a100-user-triton",
        "no-gpu-rank",
    ];
    let mut variants: u64 = 0;
    let mut failures = Vec::new();
    // Real traces of this size have no collectives with arguments, but a generated one has.
    let made = demo::generate(&demo::Config { steps: 2, layers: 1, ..demo::Config::default() });
    let mut traces = vec![("demo.json".to_owned(), made.into_bytes())];
    for path in common::kineto() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if expected_codes.iter().any(|w| name.starts_with(w)) {
            let text = common::text(&path);
            traces.push((name, text));
        }
    }
    for (name, text) in traces {
        let whole = read(&name, &text).unwrap();
        for kind in damage::kinds() {
            for seed in 0..seeds {
                variants += 1;
                if let Err(reason) = check(kind, &name, &text, &whole, seed) {
                    failures.push(format!("{} seed {seed} on {name}: {reason}", kind.name));
                }
            }
        }
    }
    println!("{variants} damaged variants read");
    let unknown = expected::EXPECTED.iter().find(|(name, ..)| damage::kind(name).is_none());
    assert!(unknown.is_none(), "{:?} is no kind of damage", unknown.map(|(name, ..)| name));
    assert!(failures.is_empty(), "{} of {variants} failed:\n{}", failures.len(), failures.join("\n"));
    assert!(variants >= 500 * seeds || common::corpus().is_none());
}
