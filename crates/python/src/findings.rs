//! Python functions that find issues in traces and memory files.

use crate::critical_path::{critical_path_error, position};
use crate::errors::analysis_error;
use crate::run::NativeRun;
use crate::table::NativeTable;
use crate::worker::quiet;
use pyo3::prelude::*;
use stackline_critical_path::CriticalPathError;
use stackline_engine::{Job, Progress, Run, findings_of_memory, findings_with_memory};
use stackline_findings::{
    ExternalRules, Findings, Message, Options, Requirement, Settings, Support, find_in_calls, find_with,
    findings_table, merge,
};
use stackline_model::{TraceSet, Unit};
use stackline_timeline::Scope;
use stackline_timeline::confidence::Confidence;
use std::sync::Arc;

/// Notes on thresholds of rules that are set by an old name, such as `SL055.rounds=3`.
#[pyfunction]
pub(crate) fn renaming_notes(settings: Vec<String>) -> Vec<String> {
    settings.iter().filter_map(|text| Settings::renaming_note(text)).collect()
}

/// Find issues in one trace or a memory file. `steps` includes both ends. `rule_messages`: messages of Python rules,
/// one JSON object each.
#[pyfunction]
#[pyo3(signature = (run, rank, steps, whole, settings, least_percent, threads, rule_messages))]
#[expect(clippy::too_many_arguments, reason = "Python callers name the arguments; a struct would only copy them")]
pub(crate) fn findings(
    py: Python<'_>,
    run: &Bound<'_, NativeRun>,
    rank: Option<i64>,
    steps: Option<(i64, i64)>,
    whole: bool,
    settings: Vec<String>,
    least_percent: f64,
    threads: usize,
    rule_messages: Vec<String>,
) -> PyResult<NativeTable> {
    let run = run.get();
    let mut chosen = Settings::default();
    for setting in &settings {
        chosen.set(setting).map_err(|error| analysis_error(py, &error.to_string()))?;
    }
    let mut others = ExternalRules::default();
    for line in &rule_messages {
        let message = serde_json::from_str::<Message>(line).map_err(|error| error.to_string());
        message.and_then(|message| others.add(message)).map_err(|reason| analysis_error(py, &reason))?;
    }
    let options = Options {
        scope: Scope { steps, whole, ..Scope::default() },
        settings: chosen,
        least_percent,
        threads,
        is_alone: false,
    };
    if let (Some(memory), None) = (&run.memory, rank) {
        if steps.is_some() {
            return Err(analysis_error(py, "steps= does not apply: a memory file has no steps"));
        }
        let memory = Arc::clone(memory);
        let look = move || findings_of_memory(&memory, &options, &|_| true);
        return table(py, Ok(quiet(py, &Progress::new(), look)?));
    }
    if let Some(held) = run.calls.as_ref().filter(|_| run.set.traces.is_empty()) {
        let held = Arc::clone(held);
        let look = move || find_in_calls(&held.index.tree, rank, &options, &others, &|_| true);
        let found = quiet(py, &Progress::new(), look)?;
        let found = found.map_err(|reason| analysis_error(py, &reason.to_string()))?;
        return NativeTable::from_model(&findings_table(&found));
    }
    let watch = Progress::new();
    let (set, opened) = (Arc::clone(&run.set), run.run.watched_by(&watch));
    // Python rules refer to events of one trace, so ranks can't be merged.
    if rank.is_none() && run.ranks.len() > 1 && others.rules().next().is_none() {
        let mut job = Job::default();
        for trace in &set.traces {
            let not_one = |reason| {
                analysis_error(
                    py,
                    &format!("the traces are not ranks of one job: {reason}; select one trace with rank="),
                )
            };
            job.add(&trace.meta).map_err(not_one)?;
        }
        let look = move || Ok(with_memory(findings_of_all_ranks(&set, &options)?, (&opened, None), &options));
        return table(py, quiet(py, &watch, look)?);
    }
    let at = position(py, run, rank)?;
    let options = Options { is_alone: true, ..options };
    let look = move || {
        let found = find_with(&set.traces[at], &options, &others, &|_| true)?;
        Ok(with_memory(found, (&opened, rank), &options))
    };
    table(py, quiet(py, &watch, look)?)
}

/// Add findings of the run's memory data, if any, to findings of its trace. Unreadable memory data give a note instead
/// of an error.
fn with_memory(mut found: Findings, (run, rank): (&Run, Option<i64>), options: &Options) -> Findings {
    // Findings of the trace are valid even if the memory data in the same run are missing or damaged by now.
    let memory = run.find_memory(rank).unwrap_or_else(|error| {
        found.notes.push(format!("the memory data could not be read: {error}"));
        None
    });
    findings_with_memory(found, memory.as_ref(), options, &|_| true)
}

/// Convert findings, or the error of their search, to a Python table or exception.
fn table(py: Python<'_>, found: Result<Findings, CriticalPathError>) -> PyResult<NativeTable> {
    NativeTable::from_model(&findings_table(&found.map_err(|error| critical_path_error(py, &error))?))
}

/// Find issues in each rank's trace and merge them. Ranks that cannot be analyzed are named in the notes.
fn findings_of_all_ranks(set: &TraceSet, options: &Options) -> Result<Findings, CriticalPathError> {
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for (rank, trace) in stackline_engine::ranks(set).into_iter().zip(&set.traces) {
        match find_with(trace, options, &ExternalRules::default(), &|_| true) {
            Ok(found) => all.push((rank, found)),
            Err(error) => failed.push((rank, error)),
        }
    }
    let Some(mut merged) = merge(all, options, &|_| true) else {
        let (_, error) = failed.swap_remove(0);
        return Err(error);
    };
    merged.notes.extend(failed.into_iter().map(|(rank, error)| format!("findings do not cover rank {rank}: {error}")));
    Ok(merged)
}

/// Names of the data requirements that Python rules can declare, each with the message if the data is missing.
#[pyfunction]
pub(crate) fn needs() -> Vec<(&'static str, &'static str)> {
    Requirement::ALL.into_iter().map(|need| (need.name(), need.missing())).collect()
}

/// Allowed values of three fields of findings: support, confidence, and unit of a fact.
#[pyfunction]
pub(crate) fn finding_words() -> (Vec<&'static str>, Vec<&'static str>, Vec<&'static str>) {
    let support = Support::ALL.into_iter().map(Support::name).collect();
    let confidence = Confidence::ALL.into_iter().map(Confidence::name).collect();
    (support, confidence, Unit::ALL.into_iter().map(Unit::suffix).collect())
}

/// Subset of the named data requirements of Python rules that a trace or call tree does not meet.
#[pyfunction]
pub(crate) fn missing_needs(
    py: Python<'_>,
    run: &Bound<'_, NativeRun>,
    rank: Option<i64>,
    names: Vec<String>,
) -> PyResult<Vec<String>> {
    let run = run.get();
    if let Some(held) = run.calls.as_ref().filter(|_| run.set.traces.is_empty()) {
        let is_missing =
            |name: &String| Requirement::from_name(name).is_some_and(|need| !need.is_met_by_calls(&held.index.tree));
        return Ok(names.into_iter().filter(is_missing).collect());
    }
    let trace = &run.set.traces[position(py, run, rank)?];
    let is_missing = |name: &String| Requirement::from_name(name).is_some_and(|need| !need.is_met(trace));
    Ok(names.into_iter().filter(is_missing).collect())
}
