//! Query of the overview, as in `stackline report --format json`; or, with `only=first`, only the tables that are
//! computed fastest.

use crate::prefetch::{Part, Stage, alone, chosen, one_empty_set};
use crate::{Answer, Arguments, FailedCheck, OpenRun, QueryError, RunChecks};
use serde::Serialize;
use serde_json::Value;
use stackline_model::Table;
use stackline_present::json::{Document, schema_version};

/// Additional keys of an overview.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct OverviewKeys<'a> {
    /// Critical path of each trace; absent with `only=first`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional, as = "Option<Vec<crate::critical_path::CriticalPath<'a>>>"))]
    critical_path: Option<Vec<&'a Value>>,
    /// Failed checks on which tables and findings depend; absent with `only=first`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    failed_checks: Option<Vec<FailedCheck>>,
    /// Reason why the traces are not ranks of one job; absent without a contradiction, and with `only=first`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    rank_conflict: Option<&'a str>,
}

/// Answer the query for the overview, or only for its tables that are computed fastest.
pub(super) fn answer(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    opened.trace(None)?;
    let part = arguments.part()?;
    if arguments.choice("only", &[("first", ())])?.is_some() {
        return printed(opened, &opened.first_tables(part)?, &OverviewKeys::default());
    }
    let content = opened.content(part)?;
    let critical_path = Some(content.paths.iter().map(|path| &path.json).collect());
    let operations = opened.infos.iter().map(|info| info.gpu_operations as u64).sum();
    let failed_checks =
        Some(FailedCheck::all(&opened.set.traces, &RunChecks::of_traces(&opened.set.traces), operations));
    let rank_conflict = content.rank_conflict.as_deref();
    printed(opened, &content.tables, &OverviewKeys { critical_path, failed_checks, rank_conflict })
}

fn printed(opened: &OpenRun, tables: &[Table], keys: &OverviewKeys<'_>) -> Result<Answer, QueryError> {
    let document = Document {
        command: "report",
        version: schema_version("report"),
        traces: &opened.infos,
        set: &opened.set,
        extra: &[],
        tables,
    };
    super::printed(document, Vec::new(), keys)
}

/// Prefetched arguments of the query for the overview, by part of the page.
pub(super) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    match stage {
        Stage::Urgent if opened.set.traces.is_empty() => Vec::new(),
        Stage::Urgent => vec![chosen(opened).with("only", "first")],
        Stage::Opening => vec![chosen(opened)],
        Stage::Unchosen => one_empty_set(),
        Stage::Whole => vec![Part::Whole.arguments(opened)],
        Stage::Step(number, ..) => vec![alone(number)],
        _ => Vec::new(),
    }
}
