//! Command `critical-path --method ctda`: critical path by the rules of CTDA.

use super::{instances, one_trace, refuse, value};
use crate::args::{Common, CriticalPathArgs, Format};
use crate::failure::{WrongUse, unreadable, wrong_use};
use crate::output::Answer;
use crate::session::Session;
use anyhow::Result;
use serde_json::json;
use stackline_critical_path::Edit;
use stackline_critical_path::ctda;
use stackline_critical_path::ctda::{CtdaOptions, CtdaPath, CtdaReport, PhaseRules};
use stackline_present::human;
use stackline_present::json::Extra;
use std::path::Path;

/// The table of the path, which people see only when they ask for it.
const PATH: &str = "critical_path";

/// Run `critical-path --method ctda` and print its report.
pub(super) fn run(args: &CriticalPathArgs, common: &Common) -> Result<()> {
    refuse_options_of_hta(args)?;
    let edits = args.what_if.iter().map(|e| Edit::parse(e).map_err(refuse)).collect::<Result<Vec<_>>>()?;
    let phase_rules = args.phase_rules.as_deref().map(read_rules).transpose()?;
    let session = Session::open(&args.inputs, common)?;
    let options = CtdaOptions {
        annotation: args.annotation().to_owned(),
        instance: args.instance.map(instances).transpose()?,
        steps: common.steps.map(|r| (r.first, r.last)),
        phase_rules,
    };
    let mut path = ctda::analyze(one_trace(&session)?, &options).map_err(refuse)?;
    let before = (!edits.is_empty()).then(|| (path.window_ns(), path.report()));
    if before.is_some() {
        path = path.apply(&edits);
    }
    answer(&path, before.as_ref(), &session, common)
}

/// Refuse options that only the method of HTA has, instead of ignoring them.
fn refuse_options_of_hta(args: &CriticalPathArgs) -> Result<()> {
    let given = [
        ("--zero-weight-launch-edges", args.zero_weight_launch_edges),
        ("--data-load-events", !args.data_load_events.is_empty()),
        ("--include-last-profiler-step", args.include_last_profiler_step),
        ("--overlay", args.overlay.is_some()),
        ("--save", args.save.is_some()),
        ("--restore", args.restore.is_some()),
    ];
    match given.iter().find(|g| g.1) {
        Some(("--data-load-events", _)) => Err(wrong_use(
            "--data-load-events applies only to --method hta; with --method ctda, define data loading in a file for \
             --phase-rules",
        )),
        Some(("--overlay", _)) => {
            Err(wrong_use("--overlay needs --method exact or --method hta; select one of them, or leave --overlay out"))
        }
        Some((option, _)) => {
            Err(wrong_use(format!("{option} applies only to --method hta; leave {option} out, or write --method hta")))
        }
        None => Ok(()),
    }
}

/// Read a file of phase rules, which extend the built-in rules.
fn read_rules(file: &Path) -> Result<PhaseRules> {
    let text =
        std::fs::read_to_string(file).map_err(|e| unreadable(format!("{}: cannot read: {e}", file.display())))?;
    PhaseRules::extended_by(&text).map_err(|e| WrongUse(format!("{}: {e}", file.display())).into())
}

/// Print the critical path by method `ctda`, compared with the path before what-if edits, if any.
fn answer(path: &CtdaPath, before: Option<&(i64, CtdaReport)>, session: &Session<'_>, common: &Common) -> Result<()> {
    let report = path.report();
    let people = common.format == Format::Table && common.tables.is_empty();
    let mut tables = report.tables();
    let is_path_requested = common.tables.iter().any(|name| name == PATH);
    if !is_path_requested && common.format != Format::Csv {
        tables.retain(|t| t.name != PATH);
    }
    let tables = session.select_tables(tables)?;
    let head = if people { head(&report, before) } else { String::new() };
    let extra = if common.format == Format::Json { extra(&report, before)? } else { Vec::new() };
    Answer { command: "critical-path", session, extra, tables, head, shown: None }.write(common)
}

/// Keys of the JSON document of `critical-path --method ctda`, in the order of the report. Keys that method `hta` has
/// too have the same meaning.
fn extra<'a>(report: &'a CtdaReport, before: Option<&(i64, CtdaReport)>) -> Result<Vec<(&'static str, Extra<'a>)>> {
    let mut extra = vec![
        ("method", json!(report.method).into()),
        ("rule_set", json!(report.rule_set).into()),
        ("options", value(&report.options)?),
        ("window_ns", json!(report.window_ns).into()),
        ("window_start_ns", json!(report.window_start_ns).into()),
        ("window_end_ns", json!(report.window_end_ns).into()),
        ("rows", json!(report.rows).into()),
        ("graph_nodes", json!(report.graph_nodes).into()),
        ("edges", json!(report.edges).into()),
        ("path_nodes", json!(report.path_nodes).into()),
        ("path_events", json!(report.path_events).into()),
        ("path_edges", json!(report.path_edges).into()),
        ("weight_us", json!(report.weight_us).into()),
        ("cpcr", json!(report.cpcr).into()),
        ("bound_by", json!(report.bound_by).into()),
        ("bound_by_us", json!(report.bound_by_us).into()),
        ("phases_us", json!(report.phases_us).into()),
        ("hotspots", Extra::list(|| report.hotspots.iter())),
        ("path", Extra::list(|| report.path.iter())),
        ("warnings", value(&report.warnings)?),
    ];
    if let Some((window_ns, before)) = before {
        let before = json!({"window_ns": window_ns, "weight_us": before.weight_us, "path_nodes": before.path_nodes, "bound_by": before.bound_by});
        extra.push(("before", before.into()));
    }
    Ok(extra)
}

/// Header of the text output: length of the path, causes of its time, predicted effect of edits, and warnings.
fn head(report: &CtdaReport, before: Option<&(i64, CtdaReport)>) -> String {
    let scope = match (report.options.annotation.as_str(), report.options.steps) {
        ("", None) => "the whole trace".to_owned(),
        ("", Some((first, last))) if first == last => format!("step {first}"),
        ("", Some((first, last))) => format!("steps {first} to {last}"),
        (text, _) => format!("{text:?}"),
    };
    let mut out = format!(
        "Critical path of {scope}, computed by the CTDA-CPA algorithm\nEvents execute for {} on the critical path, \
         {:.1} % of the window of {}. The path has {} of {} nodes of the dependency graph, built from {} events.\n",
        human::duration((report.weight_us * 1e3) as i64),
        100.0 * report.cpcr,
        human::duration(report.window_ns),
        human::count(report.path_nodes),
        human::count(report.graph_nodes),
        human::count(report.rows),
    );
    let mut bounds: Vec<(&String, &f64)> = report.bound_by.iter().collect();
    bounds.sort_by(|a, b| b.1.total_cmp(a.1).then_with(|| a.0.cmp(b.0)));
    let bounds: Vec<String> = bounds.iter().map(|(name, percent)| format!("{name} {percent:.1} %")).collect();
    out.push_str(&format!("Bound by: {}\n", bounds.join(", ")));
    if let Some((window_ns, _)) = before {
        let change = 100.0 * (report.window_ns - window_ns) as f64 / *window_ns as f64;
        let change = if change.is_finite() { format!(" ({change:+.1} %)") } else { String::new() };
        let (old, new) = (human::duration(*window_ns), human::duration(report.window_ns));
        out.push_str(&format!(
            "Predicted length of the window: {old} without the changes of --what-if, {new} with them{change}\n"
        ));
    }
    for warning in &report.warnings {
        out.push_str(&format!("Note: {} ({} ×)\n", warning.code.message(), human::count(warning.count as i64)));
    }
    stackline_present::terminal::clean_lines(&out)
}
