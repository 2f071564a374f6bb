//! Command `critical-path --method exact`: a cause for every nanosecond of the window.

use super::{one_trace, overlay, refuse, value};
use crate::args::{Common, CriticalPathArgs, Format, Range};
use crate::failure::wrong_use;
use crate::output::Answer;
use crate::session::{Session, not_an_input};
use crate::view::top;
use anyhow::Result;
use serde_json::json;
use stackline_critical_path::exact;
use stackline_critical_path::exact::{
    Exact, ExactReport, FalseHotspot, SegmentReports, StepSpread, WindowChoice, spread,
};
use stackline_model::{Table, Trace};
use stackline_present::json::Extra;
use stackline_present::{human, terminal};
use stackline_timeline::Scope;
use stackline_timeline::steps::StepSelection;

/// Run `critical-path --method exact`, print its report, and write the overlay on request.
pub(super) fn run(args: &CriticalPathArgs, common: &Common) -> Result<()> {
    if let Some(target) = &args.overlay {
        not_an_input(target, &args.inputs)?;
    }
    let mut session = Session::open(&args.inputs, common)?;
    // An overlay is drawn into the text of one trace.
    if args.overlay.is_some() {
        one_trace(&session)?;
    }
    let mut looked = windows(&session, args)?;
    let slowest = session.select_slowest_trace(&mut looked);
    let trace = one_trace(&session)?;
    let looked = looked.pop().map_or_else(|| window(trace, args.annotation(), args.instance, &session.scope), Ok);
    let StepSelection { choice, mut notes, .. } = looked?;
    notes.splice(0..0, slowest);
    let graph = Exact::new(trace);
    let path = graph.path(&choice).map_err(refuse)?;
    if let Some(file) = &args.overlay {
        overlay::write(&graph.overlay(&path, args.only_critical), &args.inputs, file)?;
    }
    let report = graph.report(&path);
    let segments = graph.segment_reports(&path);
    let hotspots = graph.false_hotspots(&path);
    let steps = spread(&graph.step_paths());
    let mut all = exact::tables(&report, &hotspots, &steps);
    if common.tables.is_empty() {
        all = exact::without_empty_optional(all);
    }
    if common.tables.iter().any(|name| name == exact::SLACK) {
        all.push(exact::slack_table(&graph.event_slacks(path.window), graph.slack_is_unknown(path.window)));
    }
    let people = common.format == Format::Table && common.tables.is_empty();
    // JSON documents contain the segments under a separate key.
    if common.format == Format::Csv
        || common.tables.iter().any(|t| t == exact::SEGMENTS) && common.format == Format::Table
    {
        all.push(exact::segments_table(&segments));
    }
    let tables = session.select_tables_or(all, &exact::ON_DEMAND)?;
    let head = if people { head(&report, &choice, &notes) } else { String::new() };
    let extra =
        if common.format == Format::Json { extra(&report, &segments, &hotspots, &steps, &notes)? } else { Vec::new() };
    let shown = (people && common.limit.is_none()).then(|| tables.iter().map(short).collect());
    Answer { command: "critical-path", session: &session, extra, tables, head, shown }.write(common)
}

/// Default maximum of rows in the tables below the summary.
const ROWS: usize = 8;

/// Shorten the tables `top` and `false_hotspots` to their largest rows; other tables are unchanged.
fn short(table: &Table) -> Table {
    match table.name.as_str() {
        "top" => top(table, "weight_us", ROWS),
        "false_hotspots" => top(table, "total_ns", ROWS),
        _ => table.clone(),
    }
}

/// Window that the options select, for each trace of the session. Ranks of one job share inferred steps.
fn windows(session: &Session<'_>, args: &CriticalPathArgs) -> Result<Vec<StepSelection>> {
    let traces = &session.set.traces;
    if args.annotation().is_empty() && session.is_one_job() {
        let ranks: Vec<(i64, &Trace)> = session.infos.iter().map(|info| info.rank).zip(traces).collect();
        return Ok(StepSelection::select_or_infer_in_job(&ranks, &session.scope));
    }
    traces.iter().map(|trace| window(trace, args.annotation(), args.instance, &session.scope)).collect()
}

/// Window of one trace that the options select: instances of an annotation, steps (marked or inferred), or the whole
/// trace.
pub(in crate::commands) fn window(
    trace: &Trace,
    annotation: &str,
    instance: Option<Range>,
    scope: &Scope,
) -> Result<StepSelection> {
    if annotation.is_empty() {
        return Ok(StepSelection::select_or_infer(trace, scope));
    }
    if *scope != Scope::default() {
        return Err(wrong_use(
            "--annotation cannot be combined with --steps or --whole, because each of them selects the window",
        ));
    }
    let instances = instance.map_or(Ok((0, 0)), super::instance_numbers)?;
    let choice = WindowChoice::Annotation { text: annotation.to_owned(), instances };
    let (notes, warm_ups, unfinished) = (Vec::new(), Vec::new(), Vec::new());
    Ok(StepSelection { choice, steps: 0, notes, warm_ups, unfinished, is_default: false })
}

/// Keys of the JSON document of `critical-path --method exact`.
fn extra<'a>(
    report: &ExactReport,
    segments: &'a SegmentReports<'_>,
    hotspots: &[FalseHotspot],
    steps: &[StepSpread],
    notes: &'a [String],
) -> Result<Vec<(&'static str, Extra<'a>)>> {
    Ok(vec![
        ("method", json!(report.method).into()),
        ("window_ns", json!(report.window_ns).into()),
        ("window_notes", json!(notes).into()),
        ("window_start_ns", json!(report.window_start_ns).into()),
        ("window_end_ns", json!(report.window_end_ns).into()),
        ("path_ns", json!(report.path_ns).into()),
        ("weight_us", json!(report.weight_us).into()),
        ("graph_nodes", json!(report.graph_nodes).into()),
        ("edges", json!(report.edges).into()),
        ("path_nodes", json!(report.path_nodes).into()),
        ("path_events", json!(report.path_events).into()),
        ("bound_by", json!(report.bound_by).into()),
        ("bound_by_ns", json!(report.bound_by_ns).into()),
        ("inferred_ns", json!(report.inferred_ns).into()),
        ("inferred_by_rule_ns", json!(report.inferred_by_rule_ns).into()),
        ("top", value(&report.top)?),
        ("summary", value(&report.summary)?),
        ("false_hotspots", value(hotspots)?),
        ("steps", value(steps)?),
        (exact::SEGMENTS, Extra::list(|| segments.segments())),
        ("path", Extra::list(|| segments.points())),
        ("warnings", value(&report.warnings)?),
    ])
}

/// Sentence on the assumptions that the critical path uses, with their shares of the window, largest first. Shares
/// below 0.1 % are omitted.
fn assumption_text(report: &ExactReport) -> String {
    let percent = |ns: i64| 100.0 * ns as f64 / report.window_ns.max(1) as f64;
    let mut rules: Vec<(&str, i64)> = report.inferred_by_rule_ns.iter().map(|(rule, ns)| (*rule, *ns)).collect();
    rules.retain(|(_, ns)| percent(*ns) >= 0.1);
    rules.sort_by_key(|&(rule, ns)| (std::cmp::Reverse(ns), rule));
    let words = |(rule, ns): (&str, i64)| match (rule, percent(ns)) {
        ("gap", share) => {
            format!("in {share:.1} % of the window, threads are assumed to work between their recorded events")
        }
        ("innermost_span", share) => {
            format!("in {share:.1} % of the window, host calls are assumed to contain no unrecorded waits")
        }
        ("wait_samples", share) => {
            format!("in {share:.1} % of the window, threads are assumed to wait where samples show them as blocked")
        }
        ("record", share) => {
            format!("in {share:.1} % of the window, overlapping GPU operations are assumed to end as recorded")
        }
        (rule, share) => format!("in {share:.1} % of the window, the assumption {rule} applies"),
    };
    let assumptions: Vec<String> = rules.iter().take(4).copied().map(words).collect();
    let assumptions = assumptions.join("; ");
    match rules.len() {
        0 => String::new(),
        1..=4 => format!("Assumptions: {assumptions}\n"),
        _ => format!("Main assumptions: {assumptions}\n"),
    }
}

/// Header of the text output: window, length of the path, notes, assumptions and warnings.
fn head(report: &ExactReport, choice: &WindowChoice, notes: &[String]) -> String {
    let scope = choice.in_words();
    let inferred = 100.0 * report.inferred_ns as f64 / report.window_ns.max(1) as f64;
    let mut out = format!(
        "Critical path of {scope}: {}. For {inferred:.1} % of this time, the cause is inferred or unknown.\n",
        human::duration(report.window_ns),
    );
    for note in notes {
        out.push_str(&format!("Note: {note}\n"));
    }
    out.push_str(&assumption_text(report));
    for warning in &report.warnings {
        out.push_str(&format!("Note: {} ({} ×)\n", warning.sentence(), human::count(warning.count as i64)));
    }
    terminal::clean_lines(&out)
}
