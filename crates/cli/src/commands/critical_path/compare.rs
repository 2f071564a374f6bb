//! `critical-path --compare`: the methods side by side.

use super::{analyze, exact, instances, one_trace, refuse};
use crate::args::{Common, CriticalPathArgs};
use crate::failure::wrong_use;
use crate::output::Answer;
use crate::session::Session;
use anyhow::Result;
use stackline_analyze::critical_path::ctda::{self, CtdaOptions, CtdaReport};
use stackline_analyze::critical_path::exact::Exact;
use stackline_model::{Table, Trace, Unit};
use std::collections::BTreeMap;

/// What one method says.
#[derive(Default)]
struct Row {
    method: &'static str,
    nodes: Option<i64>,
    window_ns: Option<i64>,
    path_ns: Option<i64>,
    bound_by: String,
    failure: Option<anyhow::Error>,
}

/// Runs the command.
pub(super) fn run(args: &CriticalPathArgs, common: &Common) -> Result<()> {
    if common.steps.is_some() {
        return Err(wrong_use("--compare chooses by name: use --annotation 'ProfilerStep#5' instead of --steps"));
    }
    let choice = exact::window(args.annotation(), args.instance, common)?;
    let session = Session::open(&args.inputs, common)?;
    let trace = one_trace(&session)?;
    let mut rows = [
        row_of("exact", || {
            let exact = Exact::new(trace);
            let report = exact.report(&exact.path(&choice).map_err(refuse)?);
            let bound_by = report.bound_by.iter().map(|(c, p)| ((*c).to_owned(), *p)).collect();
            Ok((report.graph_nodes, report.window_ns, report.path_ns, bound_by))
        }),
        row_of("ctda", || {
            let report = ctda_report(args, trace)?;
            Ok((report.graph_nodes, report.window_ns, (report.weight_us * 1e3) as i64, report.bound_by))
        }),
        row_of("hta", || {
            let report = analyze(args, &session)?.summary();
            Ok((report.graph_nodes, report.window_ns, (report.weight_us * 1e3) as i64, report.bound_by))
        }),
    ];
    if rows.iter().all(|r| r.failure.is_some())
        && let Some(failure) = rows[0].failure.take()
    {
        return Err(failure);
    }
    let share = |r: &Row| Some(100.0 * r.path_ns? as f64 / r.window_ns.filter(|w| *w > 0)? as f64);
    let table = Table::new("methods", "The methods side by side")
        .text("method", rows.iter().map(|r| r.method.to_owned()))
        .i64("graph_nodes", Unit::None, rows.iter().map(|r| r.nodes))
        .i64("window_ns", Unit::Ns, rows.iter().map(|r| r.window_ns))
        .i64("path_ns", Unit::Ns, rows.iter().map(|r| r.path_ns))
        .f64("path_percent", Unit::Percent, rows.iter().map(share))
        .text("bound_by", rows.iter().map(|r| r.bound_by.clone()))
        .text(
            "no_result_because",
            rows.iter().map(|r| r.failure.as_ref().map_or_else(String::new, ToString::to_string)),
        );
    let tables = session.pick(vec![table])?;
    let answer = Answer {
        command: "critical-path",
        session: &session,
        extra: Vec::new(),
        tables,
        head: String::new(),
        shown: None,
    };
    answer.write(common)
}

fn ctda_report(args: &CriticalPathArgs, trace: &Trace) -> Result<CtdaReport> {
    let instance = args.instance.map(instances).transpose()?;
    let options = CtdaOptions { annotation: args.annotation().to_owned(), instance, steps: None, phase_rules: None };
    Ok(ctda::analyze(trace, &options).map_err(refuse)?.report())
}

/// Nodes of the graph, window, length of the path, percent by cause.
type Found = (usize, i64, i64, BTreeMap<String, f64>);

fn row_of(method: &'static str, run: impl FnOnce() -> Result<Found>) -> Row {
    match run() {
        Ok((nodes, window, path, bound_by)) => Row {
            method,
            nodes: Some(nodes as i64),
            window_ns: Some(window),
            path_ns: Some(path),
            bound_by: most(&bound_by),
            ..Row::default()
        },
        Err(error) => Row { method, failure: Some(error), ..Row::default() },
    }
}

/// The three largest causes.
fn most(bound_by: &BTreeMap<String, f64>) -> String {
    let mut causes: Vec<(&String, &f64)> = bound_by.iter().collect();
    causes.sort_by(|a, b| b.1.total_cmp(a.1).then_with(|| a.0.cmp(b.0)));
    causes.iter().take(3).map(|(n, p)| format!("{n} {p:.0} %")).collect::<Vec<_>>().join(", ")
}
