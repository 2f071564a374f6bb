//! Command `critical-path --compare`: one table with a row per critical-path method.

use super::{analyze, exact, instances, one_trace, refuse, steps_by_name_error};
use crate::args::{Common, CriticalPathArgs, Format};
use crate::output::Answer;
use crate::session::Session;
use crate::view::select;
use anyhow::Result;
use stackline_critical_path::WarningCode;
use stackline_critical_path::ctda;
use stackline_critical_path::ctda::{CtdaOptions, CtdaReport};
use stackline_critical_path::exact::{Exact, WindowChoice};
use stackline_model::{Table, Trace, Unit};
use stackline_timeline::Scope;
use std::collections::BTreeMap;

/// Critical path of one method, as a row of the comparison.
#[derive(Default)]
struct Row {
    method: &'static str,
    nodes: Option<i64>,
    /// Start and end in ns since the trace's base.
    window: Option<(i64, i64)>,
    path_ns: Option<i64>,
    bound_by: String,
    /// Notes for the reader.
    notes: Vec<String>,
    failure: Option<anyhow::Error>,
}

/// Run `critical-path --compare`: print one row per critical-path method.
pub(super) fn run(args: &CriticalPathArgs, common: &Common) -> Result<()> {
    let session = Session::open(&args.inputs, common)?;
    let trace = one_trace(&session)?;
    if common.steps.is_some() {
        return Err(steps_by_name_error("--compare", &session));
    }
    // The others know all of the trace, or an annotation.
    let choice = match args.annotation() {
        "" => WindowChoice::Whole,
        text => exact::window(trace, text, args.instance, &Scope::default())?.choice,
    };
    let mut left_out: Vec<String> = Vec::new();
    let mut rows = [
        row_of("exact", || {
            let exact = Exact::new(trace);
            let report = exact.report(&exact.path(&choice).map_err(refuse)?);
            let bound_by = report.bound_by.iter().map(|(c, p)| ((*c).to_owned(), *p)).collect();
            let window = (report.window_start_ns, report.window_end_ns);
            Ok((report.graph_nodes, window, report.path_ns, bound_by))
        }),
        row_of("ctda", || {
            let report = ctda_report(args, trace)?;
            let window = (report.window_start_ns, report.window_end_ns);
            Ok((report.graph_nodes, window, (report.weight_us * 1e3) as i64, report.bound_by))
        }),
        row_of("hta", || {
            let report = analyze(args, &session)?.summary();
            let window = (report.window_start_ns, report.window_end_ns);
            let of_window = [WarningCode::LastStepLeftOut, WarningCode::MissingInstances];
            let warnings = report.warnings.iter().filter(|w| of_window.contains(&w.code));
            left_out = warnings.map(|w| format!("{} {}", w.count, w.code.message())).collect();
            Ok((report.graph_nodes, window, (report.weight_us * 1e3) as i64, report.bound_by))
        }),
    ];
    rows[2].notes = left_out;
    if rows.iter().all(|r| r.failure.is_some())
        && let Some(failure) = rows[0].failure.take()
    {
        return Err(failure);
    }
    let start_ns = session.infos.first().and_then(|i| i.start_ns).unwrap_or(0);
    let tables = session.select_tables(vec![table(&rows, start_ns)])?;
    // Where the window is, people learn from a note if it matters.
    let people = common.format == Format::Table;
    let mut columns = vec!["method", "graph_nodes", "window_ns", "path_ns", "path_percent", "bound_by"];
    if rows.iter().any(|r| r.failure.is_some()) {
        columns.push("no_result_because");
    }
    let shown = people.then(|| tables.iter().map(|t| select(t, &columns)).collect());
    let answer =
        Answer { command: "critical-path", session: &session, extra: Vec::new(), tables, head: String::new(), shown };
    answer.write(common)
}

fn table(rows: &[Row], start_ns: i64) -> Table {
    let length = |r: &Row| r.window.map(|(start, end)| end - start);
    let share = |r: &Row| Some(100.0 * r.path_ns? as f64 / length(r).filter(|w| *w > 0)? as f64);
    let table = Table::new("methods", "Comparison of critical-path methods")
        .text("method", rows.iter().map(|r| r.method.to_owned()))
        .i64("graph_nodes", Unit::None, rows.iter().map(|r| r.nodes))
        .i64("window_start_ns", Unit::Ns, rows.iter().map(|r| r.window.map(|w| w.0)))
        .i64("window_end_ns", Unit::Ns, rows.iter().map(|r| r.window.map(|w| w.1)))
        .i64("window_ns", Unit::Ns, rows.iter().map(length))
        .i64("path_ns", Unit::Ns, rows.iter().map(|r| r.path_ns))
        .f64("path_percent", Unit::Percent, rows.iter().map(share))
        .text("bound_by", rows.iter().map(|r| r.bound_by.clone()))
        .text(
            "no_result_because",
            rows.iter().map(|r| r.failure.as_ref().map_or_else(String::new, ToString::to_string)),
        );
    notes(rows, start_ns).into_iter().fold(table, Table::note)
}

/// Windows that differ by less are one, in ns: HTA counts in whole µs.
const ROUNDED_NS: i64 = 2_000;

/// Notes on limits of the comparison: different windows, and parts that a method excludes from its window.
fn notes(rows: &[Row], start_ns: i64) -> Vec<String> {
    let mut notes: Vec<String> =
        rows.iter().flat_map(|r| r.notes.iter().map(|n| format!("{}: {n}.", r.method))).collect();
    let found: Vec<(&str, (i64, i64))> = rows.iter().filter_map(|r| Some((r.method, r.window?))).collect();
    let differ = |a: (i64, i64), b: (i64, i64)| (a.0 - b.0).abs().max((a.1 - b.1).abs()) > ROUNDED_NS;
    if found.iter().any(|(_, window)| differ(*window, found[0].1)) {
        let ms = |ns: i64| format!("{:.3}", (ns - start_ns) as f64 / 1e6);
        let each = found.iter().map(|(method, (start, end))| format!("{method} {} to {}", ms(*start), ms(*end)));
        notes.push(format!(
            "The methods analyze different windows, so the lengths and shares of their critical paths are not \
             comparable. Windows, in ms since the start of the trace: {}. To get the same window from all methods, \
             give --annotation a text that matches only one event.",
            each.collect::<Vec<_>>().join(", ")
        ));
    }
    notes
}

/// Report of method `ctda` for the whole trace or the selected annotation.
fn ctda_report(args: &CriticalPathArgs, trace: &Trace) -> Result<CtdaReport> {
    let instance = args.instance.map(instances).transpose()?;
    let options = CtdaOptions { annotation: args.annotation().to_owned(), instance, steps: None, phase_rules: None };
    Ok(ctda::analyze(trace, &options).map_err(refuse)?.report())
}

/// Nodes of the graph, start and end of the window, length of the path, percent by cause.
type Found = (usize, (i64, i64), i64, BTreeMap<String, f64>);

/// Run one critical-path method and convert its result, or its error, to a row of the comparison.
fn row_of(method: &'static str, run: impl FnOnce() -> Result<Found>) -> Row {
    match run() {
        Ok((nodes, window, path, bound_by)) => Row {
            method,
            nodes: Some(nodes as i64),
            window: Some(window),
            path_ns: Some(path),
            bound_by: largest_causes(&bound_by),
            ..Row::default()
        },
        Err(error) => Row { method, failure: Some(error), ..Row::default() },
    }
}

/// Text with the three largest causes of a critical path and their percentages.
fn largest_causes(bound_by: &BTreeMap<String, f64>) -> String {
    let mut causes: Vec<(&String, &f64)> = bound_by.iter().collect();
    causes.sort_by(|a, b| b.1.total_cmp(a.1).then_with(|| a.0.cmp(b.0)));
    causes.iter().take(3).map(|(n, p)| format!("{n} {p:.0} %")).collect::<Vec<_>>().join(", ")
}
