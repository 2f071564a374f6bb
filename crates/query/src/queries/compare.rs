//! Query of the comparison of a run with its baseline, as in `stackline diff --format json`.

use crate::prefetch::{Stage, one_empty_set};
use crate::{Answer, Arguments, OpenRun, QueryError};
use serde::Serialize;
use stackline_diff as diff;
use stackline_diff::{Options, Side};
use stackline_model::TraceSet;
use stackline_present::json::{Document, schema_version};
use std::collections::{BTreeMap, BTreeSet};

/// Additional JSON keys of a comparison: names of the runs, method, unit and confidence.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct ComparisonKeys<'a> {
    before: [&'a str; 1],
    after: [&'a str; 1],
    method: &'static str,
    /// Unit of times: per `step`, per `run` without steps, or per `call` if runs without steps have different numbers
    /// of calls.
    per: &'static str,
    /// Share of false alarms that is accepted, in percent.
    level_percent: f64,
    kernels_by: &'static str,
    confidence: &'static str,
    /// Sentences on lost and untested times, and on limits of the comparison.
    warnings: Vec<&'a str>,
    notes: &'a [String],
}

/// Compare the run with its baseline, and answer with the tables of the comparison.
pub(super) fn answer(opened: &OpenRun, _: &Arguments) -> Result<Answer, QueryError> {
    let baseline = opened.before()?;
    if baseline.set.traces.is_empty() != opened.set.traces.is_empty() {
        return Err(QueryError::unavailable(
            "a recording of totals per call path cannot be compared with a trace; compare two runs of the same kind",
        ));
    }
    let (mut before, mut after): (Side, Side) = (vec![baseline.profiles()?], vec![opened.profiles()?]);
    diff::trim_warmup(&mut before, &mut after);
    let diff = diff::compare(&before, &after, Options::default());
    let keys = ComparisonKeys {
        before: [&baseline.name],
        after: [&opened.name],
        method: diff.method.name(),
        per: diff.per.name(),
        level_percent: diff.options.level * 100.0,
        kernels_by: if diff.by_family { "family" } else { "name" },
        confidence: diff.confidence().name(),
        warnings: diff.missing_records.iter().chain(&diff.warnings).map(String::as_str).collect(),
        notes: &diff.notes,
    };
    let infos: Vec<_> = baseline.infos.iter().chain(&opened.infos).cloned().collect();
    let document = Document {
        command: "diff",
        version: schema_version("diff"),
        traces: &infos,
        set: &TraceSet::default(),
        extra: &[],
        tables: &diff::tables(&diff, &before, &after),
    };
    super::printed(document, Vec::new(), &keys)
}

/// Peak memory of each device, in both runs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct MemoryPeaks<'a> {
    devices: Vec<ComparedPeak<'a>>,
}

/// Peak memory of a device in bytes; null where a run has no data about the device.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct ComparedPeak<'a> {
    device: &'a str,
    before: Option<u64>,
    after: Option<u64>,
}

/// Answer the query for the peak memory of each device, in the run and its baseline.
pub(super) fn memory(opened: &OpenRun, _: &Arguments) -> Result<Answer, QueryError> {
    let peaks = [opened.before()?, opened].map(peaks);
    let devices: BTreeSet<&String> = peaks.iter().flat_map(BTreeMap::keys).collect();
    let [before, after] = &peaks;
    let row = |device| ComparedPeak { device, before: before.get(device).copied(), after: after.get(device).copied() };
    Answer::document(&MemoryPeaks { devices: devices.into_iter().map(String::as_str).map(row).collect() })
}

/// Peak memory of a run in bytes, by device; empty without memory data.
fn peaks(opened: &OpenRun) -> BTreeMap<String, u64> {
    let memory = opened.has_memory().then(|| opened.memory(None).ok()).flatten();
    let mut peaks = BTreeMap::new();
    for peak in memory.into_iter().flat_map(|memory| &memory.findings.peaks) {
        peaks.insert(peak.device.clone(), peak.bytes);
    }
    peaks
}

/// Prefetched arguments of the query for the comparison with the baseline, by part of the page.
pub(super) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    if stage == Stage::Comparison && opened.before().is_ok() { one_empty_set() } else { Vec::new() }
}
