//! What a report says, apart from how: worked out from traces, or read back from where `import` kept it.

use super::tables::INSTEAD_OF_OPERATORS;
use crate::args::Common;
use crate::session::Session;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stackline_analyze::critical_path::{WarningCode, hta};
use stackline_engine::cache;
use stackline_model::{ReadReport, Table, Trace};
use stackline_present::{TraceInfo, human};
use std::path::{Path, PathBuf};

const ANALYSES: [&str; 5] = ["steps", "gpu_time", "coverage", "operators", "coll_analysis"];
/// Tables of these analyses that a report is too short for.
const LEFT_OUT: [&str; 1] = ["operator_tree"];
/// Name of the entry in a run's cache.
const ENTRY: &str = "report";

/// Everything that a report shows.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Content {
    pub(crate) infos: Vec<TraceInfo>,
    pub(crate) read_reports: Vec<ReadReport>,
    pub(crate) tables: Vec<Table>,
    pub(crate) paths: Vec<PathSummary>,
}

/// The critical path of one trace, in short.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PathSummary {
    pub(crate) json: Value,
    pub(crate) line: String,
}

impl Content {
    /// Works a report out.
    pub(crate) fn compute(session: &Session<'_>) -> Result<Self> {
        let mut tables = session.run(&ANALYSES)?;
        tables.retain(|t| !LEFT_OUT.contains(&t.name.as_str()));
        if tables.iter().all(|t| t.name != "operators" || t.rows() == 0) {
            tables.extend(session.run(&[INSTEAD_OF_OPERATORS])?);
        }
        let read_reports = session.set.traces.iter().map(|t| t.report.clone()).collect();
        Ok(Self { infos: session.infos.clone(), read_reports, tables, paths: critical_paths(session) })
    }

    /// The report that `import` kept in a run directory, if these inputs and options ask for just that.
    pub(crate) fn kept(inputs: &[PathBuf], common: &Common) -> Option<Self> {
        let whole = common.rank.is_none() && common.steps.is_none();
        match inputs {
            [run] if whole && stackline_engine::is_run(run) && stackline_engine::is_complete(run) => {
                cache::load(run, ENTRY)
            }
            _ => None,
        }
    }

    /// The report of all that a session has, if a run made of it should keep one.
    pub(crate) fn to_keep(session: &Session<'_>) -> Result<Option<Self>> {
        let whole = session.common.rank.is_none() && session.common.steps.is_none();
        whole.then(|| Self::compute(session)).transpose()
    }

    /// Keeps the report in a run that was just written. Best effort: without it, a report is worked out again.
    pub(crate) fn keep(&self, run: &Path) {
        cache::keep(run, ENTRY, self);
    }
}

fn critical_paths(session: &Session<'_>) -> Vec<PathSummary> {
    let many = session.infos.len() > 1;
    let with_steps = session.scope.steps.is_some();
    let traces = session.set.traces.iter().zip(&session.infos);
    traces.map(|(trace, info)| critical_path(trace, info, many, with_steps)).collect()
}

fn critical_path(trace: &Trace, info: &TraceInfo, many: bool, with_steps: bool) -> PathSummary {
    let label = if many { format!("Critical path, rank {}", info.rank) } else { "Critical path".to_owned() };
    if with_steps {
        let hint = "stackline critical-path --annotation 'ProfilerStep#N' looks at one step";
        let json = json!({"rank": info.rank, "left_out": "--steps"});
        return PathSummary { json, line: format!("{label}: {hint}.") };
    }
    let report = match hta::analyze(trace, &hta::HtaOptions::default()) {
        Ok(path) => path.summary(),
        Err(error) => {
            let json = json!({"rank": info.rank, "error": error.to_string()});
            return PathSummary { json, line: format!("{label}: none, for {error}.") };
        }
    };
    let mut bounds: Vec<(&String, &f64)> = report.bound_by.iter().filter(|(_, p)| **p >= 0.1).collect();
    bounds.sort_by(|a, b| b.1.total_cmp(a.1).then_with(|| a.0.cmp(b.0)));
    let bounds: Vec<String> = bounds.iter().map(|(name, p)| format!("{} {p:.1} %", name.replace('_', " "))).collect();
    let left_out = report.warnings.iter().any(|w| w.code == WarningCode::LastStepLeftOut);
    let line = format!(
        "{label} (HTA's rules{}): {} of a window of {}, {} events: {}.",
        if left_out { ", without the last step" } else { "" },
        human::duration((report.weight_us * 1e3) as i64),
        human::duration(report.window_ns),
        human::count(report.path_events),
        if bounds.is_empty() { "no time on it".to_owned() } else { bounds.join(", ") },
    );
    let json = json!({
        "rank": info.rank,
        "method": report.method,
        "window_ns": report.window_ns,
        "weight_us": report.weight_us,
        "path_nodes": report.path_nodes,
        "path_events": report.path_events,
        "bound_by": report.bound_by,
        "warnings": report.warnings,
    });
    PathSummary { json, line }
}
