//! Traces with one record whose times cannot be true: it is never the first finding.

use stackline_findings as findings;
use stackline_findings::{Findings, Options};
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::{EventId, Trace};
use stackline_testkit::corpus;

/// Traces of several makers, with and without steps and Python frames.
const TRACES: &[&str] = &[
    "amd-mi250-toy-train.json.gz",
    "amd-mi300-bert-small.json.gz",
    "cpu-only-gloo.json.gz",
    "nvidia-a100-alexnet-cuda-sync.json.gz",
    "nvidia-a100-event-sync.json.gz",
    "nvidia-h100-bert-small.json.gz",
    "gpu-metrics-input.json",
    "no-gpu-rank.json.gz",
];
/// Records that are damaged in each of them.
const RECORDS: usize = 12;

/// The text of a trace of the corpus; none where that is missing.
fn text(name: &str) -> Option<String> {
    Some(String::from_utf8(corpus::unpacked(&corpus::folder()?.join("kineto").join(name))).unwrap())
}

fn read(name: &str, text: &str) -> Trace {
    read_bytes(name, text.as_bytes(), &ReadOptions::default()).unwrap()
}

fn found(trace: &Trace) -> Option<Findings> {
    findings::find(trace, &Options { threads: 1, ..Options::default() }).ok()
}

/// Numbers that look drawn, the same in each run.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % below as u64) as usize
    }
}

/// The value of a key of a record, and its position in the text.
fn member(text: &str, record: &str, key: &str) -> Option<(std::ops::Range<usize>, f64)> {
    let at = record.as_ptr() as usize - text.as_ptr() as usize;
    let from = record.find(&format!("\"{key}\":"))? + key.len() + 3;
    let from = from + record[from..].len() - record[from..].trim_start().len();
    let length = record[from..].find(|c: char| !c.is_ascii_digit() && c != '.')?;
    Some((at + from..at + from + length, record[from..from + length].parse().ok()?))
}

/// The text with a record's duration, or its begin, absurdly large.
fn damaged(text: &str, record: &str, drawn: &mut RandomNumbers, length_us: f64) -> Option<String> {
    let (of_ts, ts) = member(text, record, "ts")?;
    let (of_dur, _) = member(text, record, "dur")?;
    let absurd = (20e6 + 20.0 * length_us) * 10f64.powi(drawn.next(8) as i32);
    let (range, value) = match drawn.next(3) {
        0 => (of_ts, ts + 1000.0 * absurd),
        _ => (of_dur, absurd),
    };
    Some(format!("{}{value:.0}{}", &text[..range.start], &text[range.end..]))
}

/// The row of the record that was changed.
fn row(whole: &Trace, damaged: &Trace) -> Option<EventId> {
    let time = |trace: &Trace, e: EventId| (trace.events.start[e.index()], trace.events.dur[e.index()]);
    whole.events.ids().find(|&event| time(whole, event) != time(damaged, event))
}

#[test]
fn damaged_record_is_not_the_first_finding() {
    let (mut changed, mut reported) = (0, 0);
    for name in TRACES {
        let Some(text) = text(name) else { return };
        let whole = read(name, &text);
        let (from, to) = whole.span().unwrap();
        let usual =
            found(&whole).and_then(|found| found.findings.first().map(|f| (f.rule.code.clone(), f.place.clone())));
        let records: Vec<&str> = text.split('{').collect();
        let mut drawn = RandomNumbers(7);
        for _ in 0..RECORDS {
            let record = loop {
                let record = records[drawn.next(records.len())];
                if record.contains("\"dur\"") && !record.contains("\"Trace\"") {
                    break record;
                }
            };
            let Some(text) = damaged(&text, record, &mut drawn, (to - from) as f64 / 1e3) else { continue };
            let trace = read(name, &text);
            let Some(row) = row(&whole, &trace) else { continue };
            changed += 1;
            reported += usize::from(trace.report.problems.len() > whole.report.problems.len());
            let Some(found) = found(&trace) else { continue };
            let Some(first) = found.findings.first() else { continue };
            let is_usual = usual.as_ref().is_some_and(|usual| *usual == (first.rule.code.clone(), first.place.clone()));
            assert!(is_usual || !first.events.contains(&row), "{name}: {} of {record}", first.title);
            let (begin, end) = trace.span().unwrap();
            assert!(end - begin <= 2 * (to - from), "{name}: {begin} to {end} of {from} to {to} by {record}");
        }
    }
    println!("{changed} records damaged, {reported} told");
    assert!(changed > TRACES.len() * RECORDS / 2, "{changed}");
}

/// A kernel that would last five seconds, among others of its stream that cannot have run at the same time.
#[test]
fn overlong_kernel_does_not_change_findings() {
    for (name, number) in [("schema-2021-v100-resnet50.json.gz", 3000), ("nvidia-h100-bert-small.json.gz", 10)] {
        let Some(text) = text(name) else { return };
        let usual = found(&read(name, &text)).unwrap();
        let kernels = text.split('{').filter(|record| {
            let category = record.split("\"cat\":").nth(1).map(|rest| rest.trim_start().to_ascii_lowercase());
            category.is_some_and(|category| category.starts_with("\"kernel\""))
        });
        let (range, _) = member(&text, kernels.clone().nth(number).unwrap(), "dur").unwrap();
        let damaged = read(name, &format!("{}5000000{}", &text[..range.start], &text[range.end..]));
        assert_eq!(damaged.report.count_of("implausible_length"), 1, "{name}");
        let found = found(&damaged).unwrap();
        let of = |found: &Findings| found.findings.iter().map(|f| f.rule.code.clone()).collect::<Vec<_>>();
        assert_eq!(of(&found), of(&usual), "{name}");
        assert!(
            (found.step_ns - usual.step_ns).abs() < usual.step_ns / 50,
            "{name}: {} of {}",
            found.step_ns,
            usual.step_ns
        );
    }
}
