//! What `stackline diff --format json` says of the run and its baseline.

use crate::{Answer, Arguments, Opened, QueryError};
use serde_json::{Value, json};
use stackline_analyze::diff::{self, Options, Side};
use stackline_model::TraceSet;
use stackline_present::json::{Document, SCHEMA_VERSION};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn answer(opened: &Opened, _: &Arguments) -> Result<Answer, QueryError> {
    let baseline = opened.before()?;
    if baseline.set.traces.is_empty() != opened.set.traces.is_empty() {
        return Err(QueryError::unavailable(
            "a recording of sums and a trace measure different things: compare two of a kind",
        ));
    }
    let (mut before, mut after): (Side, Side) = (vec![baseline.profiles()?], vec![opened.profiles()?]);
    diff::alike(&mut before, &mut after);
    let diff = diff::compare(&before, &after, Options::default());
    let extra = [
        ("before", json!([baseline.name]).into()),
        ("after", json!([opened.name]).into()),
        ("method", json!(diff.method.name()).into()),
        ("level_percent", json!(diff.options.level * 100.0).into()),
        ("kernels_by", json!(if diff.by_family { "family" } else { "name" }).into()),
        ("confidence", json!(diff.confidence().name()).into()),
        ("warnings", json!(diff.warnings).into()),
        ("notes", json!(diff.notes).into()),
    ];
    let infos: Vec<_> = baseline.infos.iter().chain(&opened.infos).cloned().collect();
    let document = Document {
        command: "diff",
        version: SCHEMA_VERSION,
        traces: &infos,
        set: &TraceSet::default(),
        extra: &extra,
        tables: &diff::tables(&diff, &before, &after),
    };
    super::printed(&document)
}

/// How high the memory of each device stands at most, before and after; none where a run tells nothing of the device.
pub(super) fn memory(opened: &Opened, _: &Arguments) -> Result<Answer, QueryError> {
    let peaks = [opened.before()?, opened].map(peaks);
    let devices: BTreeSet<&String> = peaks.iter().flat_map(BTreeMap::keys).collect();
    let row =
        |device: &String| json!({"device": device, "before": peaks[0].get(device), "after": peaks[1].get(device)});
    let rows: Vec<Value> = devices.into_iter().map(row).collect();
    Ok(Answer::document(&json!({"devices": rows})))
}

fn peaks(opened: &Opened) -> BTreeMap<String, u64> {
    let memory = opened.has_memory().then(|| opened.memory(None).ok()).flatten();
    let mut peaks = BTreeMap::new();
    for peak in memory.into_iter().flat_map(|memory| &memory.findings.peaks) {
        peaks.insert(peak.device.clone(), peak.bytes);
    }
    peaks
}
