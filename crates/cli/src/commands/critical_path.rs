//! Command `critical-path`: selects the method; and runs method `hta` with saving, what-if edits and overlays.

mod compare;
mod ctda;
pub(super) mod exact;

use super::overlay;
use crate::args::{Common, CriticalPathArgs, Format, Method, Range};
use crate::failure::{WrongUse, unreadable, wrong_use};
use crate::output::{Answer, to_file};
use crate::session::{Session, not_an_input};
use anyhow::Result;
use serde::Serialize;
use serde_json::json;
use stackline_critical_path::hta;
use stackline_critical_path::hta::{CriticalPath, CriticalPathReport, HtaOptions, OverlayMode};
use stackline_critical_path::{CriticalPathError, Edit, Instances, WarningCode};
use stackline_model::names::STEP_NAME;
use stackline_model::{Table, Trace, Unit};
use stackline_present::json::Extra;
use stackline_present::{TraceNote, human};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

/// Run `stackline critical-path` with the method that the options select.
pub(crate) fn run(args: &CriticalPathArgs, common: &Common) -> Result<()> {
    if args.instance.is_some() && args.annotation.is_none() {
        return Err(wrong_use("--instance selects among the events of --annotation: give --annotation too"));
    }
    if args.compare {
        return compare::run(args, common);
    }
    let hta_only = hta_only(args);
    match args.method {
        Some(Method::Exact) if !hta_only.is_empty() => Err(refused_by_exact(&hta_only, args)),
        Some(Method::Exact | Method::Hta) if args.phase_rules.is_some() => {
            Err(wrong_use("--phase-rules needs --method ctda, the only method that assigns events to training phases"))
        }
        None if hta_only.is_empty() && args.phase_rules.is_none() => exact::run(args, common),
        Some(Method::Exact) => exact::run(args, common),
        None if args.phase_rules.is_some() => ctda::run(args, common),
        Some(Method::Ctda) => ctda::run(args, common),
        Some(Method::Hta) | None => run_hta(args, common),
    }
}

/// List the options on the command line that apply only to method `hta`.
fn hta_only(args: &CriticalPathArgs) -> Vec<&'static str> {
    let given = [
        ("--zero-weight-launch-edges", args.zero_weight_launch_edges),
        ("--data-load-events", !args.data_load_events.is_empty()),
        ("--include-last-profiler-step", args.include_last_profiler_step),
        ("--show-all-edges", args.show_all_edges),
        ("--save", args.save.is_some()),
        ("--restore", args.restore.is_some()),
        ("--what-if", !args.what_if.is_empty()),
    ];
    given.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect()
}

/// Error for options that only method `hta` has, given with method `exact`.
fn refused_by_exact(options: &[&str], args: &CriticalPathArgs) -> anyhow::Error {
    let message = match options {
        [option] => format!("{option} does not apply to --method exact; write --method hta, or leave {option} out"),
        _ => {
            let options = options.join(", ");
            format!("{options} do not apply to --method exact; write --method hta, or leave these options out")
        }
    };
    wrong_use(format!("{message}{}", what_if_hint(args)))
}

/// Hint at `stackline what-if`, to append to an error message; empty unless `--what-if` was given.
fn what_if_hint(args: &CriticalPathArgs) -> &'static str {
    if args.what_if.is_empty() {
        ""
    } else {
        ". To predict the effect of changes with the exact method, use `stackline what-if`"
    }
}

/// Run method `hta`: compute or restore the path, then save, edit, overlay and print it as the options request.
fn run_hta(args: &CriticalPathArgs, common: &Common) -> Result<()> {
    let edits = args.what_if.iter().map(|e| Edit::parse(e).map_err(refuse)).collect::<Result<Vec<_>>>()?;
    if args.restore.is_some() && !args.inputs.is_empty() && args.overlay.is_none() {
        return Err(wrong_use(
            "--restore reads a saved critical path instead of a trace; leave out the trace or --restore",
        ));
    }
    for target in args.overlay.iter().chain(&args.save) {
        not_an_input(target, &args.inputs)?;
    }
    let (session, mut path) = match &args.restore {
        Some(file) => restore(file, args, common)?,
        None => {
            let session = Session::open(&args.inputs, common)?;
            refuse_steps(args, &session)?;
            let path = analyze(args, &session)?;
            (session, path)
        }
    };
    if let Some(file) = &args.save {
        let trace = session.set.traces.first().zip(session.infos.first());
        let note = trace.map(|(t, i)| TraceNote { info: i.clone(), read_report: t.report.clone() });
        to_file(file, |out| path.save_with(note.as_ref(), out))?;
    }
    let before = (!edits.is_empty()).then(|| path.summary());
    if before.is_some() {
        path = path.apply(&edits);
    }
    if let Some(file) = &args.overlay {
        let mode = OverlayMode { only_critical: args.only_critical, all_edges: args.show_all_edges };
        overlay::write(&path.overlay(mode), &args.inputs, file)?;
    }
    answer(&path, before.as_ref(), &session, common)
}

/// Return an error if `--steps` was given, because HTA's method selects steps by name.
fn refuse_steps(args: &CriticalPathArgs, session: &Session<'_>) -> Result<()> {
    if session.common.steps.is_none() {
        return Ok(());
    }
    // If the user did not choose a method, name the option that selected it.
    let who = match args.method {
        None => format!("--method hta (selected by {})", hta_only(args).join(", ")),
        Some(_) => "--method hta".to_owned(),
    };
    Err(wrong_use(format!("{}{}", steps_by_name_error(&who, session), what_if_hint(args))))
}

/// Create the error for `--steps` with a method that selects steps by name. The message suggests `--annotation` with
/// the name of the requested steps.
fn steps_by_name_error(who: &str, session: &Session<'_>) -> anyhow::Error {
    let is_selected = |number: i64| session.common.steps.is_some_and(|r| (r.first..=r.last).contains(&number));
    let steps = session.set.traces.iter().flat_map(|t| t.steps.iter().map(move |s| (t, s)));
    let name = steps.filter(|(_, s)| is_selected(s.number)).map(|(t, s)| t.name(s.event)).next().unwrap_or(STEP_NAME);
    wrong_use(format!("{who} selects steps by name, not by number; use --annotation '{name}' instead of --steps"))
}

/// Read a critical path that `--save` wrote, with the saved description of its trace.
fn restore<'a>(file: &Path, args: &CriticalPathArgs, common: &'a Common) -> Result<(Session<'a>, CriticalPath)> {
    let given = [
        ("--steps", common.steps.is_some()),
        ("--annotation", args.annotation.is_some()),
        ("--zero-weight-launch-edges", args.zero_weight_launch_edges),
        ("--data-load-events", !args.data_load_events.is_empty()),
        ("--include-last-profiler-step", args.include_last_profiler_step),
        ("--rank", common.rank.is_some()),
        ("--clip-overlaps", common.clip_overlaps),
    ];
    let given: Vec<&str> = given.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    if !given.is_empty() {
        return Err(wrong_use(format!(
            "{} cannot be used with --restore, which loads a saved critical path; to use such options, give the trace \
             instead of --restore",
            given.join(", ")
        )));
    }
    let fail = |e: &dyn std::fmt::Display| unreadable(format!("{}: {e}", file.display()));
    let read = File::open(file).map_err(|e| fail(&format!("cannot read: {e}")))?;
    let (path, note) = CriticalPath::restore_with::<TraceNote>(BufReader::new(read)).map_err(|e| fail(&e))?;
    let session = match note {
        Some(note) => Session::described(&[note.info], &[note.read_report], common),
        None => Session::empty(common),
    };
    Ok((session, path))
}

fn analyze(args: &CriticalPathArgs, session: &Session<'_>) -> Result<CriticalPath> {
    let trace = one_trace(session)?;
    let options = HtaOptions {
        annotation: args.annotation().to_owned(),
        instance: args.instance.map(instances).transpose()?,
        zero_weight_launch_edges: args.zero_weight_launch_edges,
        data_load_events: args.data_load_events.clone(),
        include_last_profiler_step: args.include_last_profiler_step,
    };
    hta::analyze(trace, &options).map_err(refuse)
}

/// The only trace of a session; an error if there are several.
pub(super) fn one_trace<'a>(session: &'a Session<'_>) -> Result<&'a Trace> {
    match &session.set.traces[..] {
        [trace] => Ok(trace),
        _ => {
            let message = "a critical path covers one rank, and the input has several; select one with --rank";
            Err(wrong_use(format!("{message} {}", session.ranks())))
        }
    }
}

/// Instances of an annotation as method `hta` takes them.
fn instances(range: Range) -> Result<Instances> {
    let (first, last) = instance_numbers(range)?;
    Ok(if first == last { Instances::One(first) } else { Instances::Range(first, last) })
}

/// First and last instance number of a range.
fn instance_numbers(range: Range) -> Result<(usize, usize)> {
    let number = |n: i64| {
        usize::try_from(n).map_err(|_| {
            wrong_use(format!("the events that match --annotation are numbered from 0, so none has the number {n}"))
        })
    };
    Ok((number(range.first)?, number(range.last)?))
}

/// Convert a critical-path error to one of wrong use if the request is at fault, or of unreadable input without usable
/// events.
pub(super) fn refuse(error: CriticalPathError) -> anyhow::Error {
    match error {
        CriticalPathError::AnnotationNotFound { .. }
        | CriticalPathError::LastStepLeftOut { .. }
        | CriticalPathError::StepsNotFound { .. }
        | CriticalPathError::InstanceOutOfRange { .. }
        | CriticalPathError::EmptyRange { .. }
        | CriticalPathError::InvalidPattern { .. }
        | CriticalPathError::InvalidEdit { .. }
        | CriticalPathError::RefusedEdit { .. }
        | CriticalPathError::NothingSelected { .. }
        | CriticalPathError::AmbiguousFunction { .. }
        | CriticalPathError::ContradictingEdits { .. }
        | CriticalPathError::InvalidPhaseRules { .. }
        | CriticalPathError::Restore { .. } => WrongUse(error.to_string()).into(),
        // The tool did not fail: the input has nothing that a path could be made of.
        CriticalPathError::NoTimedEvents | CriticalPathError::EmptyGraph { whole_trace: true, .. } => {
            unreadable(error.to_string())
        }
        CriticalPathError::EmptyGraph { .. } => WrongUse(error.to_string()).into(),
        other => other.into(),
    }
}

/// Print the critical path by method `hta`, compared with the path before what-if edits, if any.
fn answer(
    path: &CriticalPath,
    before: Option<&CriticalPathReport<'_>>,
    session: &Session<'_>,
    common: &Common,
) -> Result<()> {
    let people = common.format == Format::Table && common.tables.is_empty();
    let report = path.summary();
    let mut tables = tables(path, &report);
    // The points of a long path cost more than all other tables, so compute them only on request.
    let is_points_requested = common.tables.iter().any(|name| name == POINTS);
    if is_points_requested || common.format == Format::Csv {
        tables.push(points(path));
    }
    let tables = session.select_tables(tables)?;
    let head = if people { head(&report, before) } else { String::new() };
    let shown = None;
    let extra = if common.format == Format::Json { extra(path, &report, before)? } else { Vec::new() };
    Answer { command: "critical-path", session, extra, tables, head, shown }.write(common)
}

/// Keys of the JSON document of `critical-path --method hta`, in the order of the report.
fn extra<'a>(
    path: &'a CriticalPath,
    report: &CriticalPathReport<'_>,
    before: Option<&CriticalPathReport<'_>>,
) -> Result<Vec<(&'static str, Extra<'a>)>> {
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
        ("bound_by", json!(report.bound_by).into()),
        ("bound_by_us", json!(report.bound_by_us).into()),
        ("top", value(&report.top)?),
        ("path", Extra::list(|| path.points())),
        ("warnings", value(&report.warnings)?),
    ];
    if let Some(before) = before {
        let before =
            json!({"weight_us": before.weight_us, "path_nodes": before.path_nodes, "bound_by": before.bound_by});
        extra.push(("before", before.into()));
    }
    Ok(extra)
}

fn value(content: &(impl Serialize + ?Sized)) -> Result<Extra<'static>> {
    Ok(serde_json::to_value(content).map_err(io::Error::from)?.into())
}

/// Header of the text output: length of the path, predicted effect of edits, and warnings.
fn head(report: &CriticalPathReport<'_>, before: Option<&CriticalPathReport<'_>>) -> String {
    let us = |weight: f64| human::duration((weight * 1e3) as i64);
    let left_out = report.warnings.iter().any(|w| w.code == WarningCode::LastStepLeftOut);
    let scope = match report.options.annotation.as_str() {
        "" if left_out => "the trace without its last profiler step".to_owned(),
        "" => "the whole trace".to_owned(),
        text => format!("{text:?}"),
    };
    let mut out = format!(
        "Critical path of {scope}, computed as in Holistic Trace Analysis (HTA) {}\nThe critical path takes {} of \
         the window of {}. It has {} nodes of the dependency graph, from {} of {} analyzed events.\n",
        report.rule_set,
        us(report.weight_us),
        human::duration(report.window_ns),
        human::count(report.path_nodes),
        human::count(report.path_events),
        human::count(report.rows),
    );
    if let Some(before) = before {
        let change = 100.0 * (report.weight_us - before.weight_us) / before.weight_us;
        let change = if change.is_finite() { format!(" ({change:+.1} %)") } else { String::new() };
        out.push_str(&format!(
            "Predicted length of the critical path: {} without the changes of --what-if, {} with them{change}\n",
            us(before.weight_us),
            us(report.weight_us)
        ));
    }
    for warning in &report.warnings {
        out.push_str(&format!("Note: {} ({} ×", warning.code.message(), human::count(warning.count as i64)));
        if !warning.details.is_empty() {
            out.push_str(&format!("; {}", warning.details.join("; ")));
        }
        out.push_str(")\n");
    }
    stackline_present::terminal::clean_lines(&out)
}

fn tables(path: &CriticalPath, report: &CriticalPathReport<'_>) -> Vec<Table> {
    let mut bounds: Vec<(&String, &f64)> = report.bound_by.iter().collect();
    bounds.sort_by(|a, b| b.1.total_cmp(a.1).then_with(|| a.0.cmp(b.0)));
    let bound_by = Table::new("bound_by", "Causes of critical-path time")
        .text("bound_by", bounds.iter().map(|(n, _)| (*n).clone()))
        .f64("percent", Unit::Percent, bounds.iter().map(|(_, p)| **p))
        .f64("weight_us", Unit::Us, bounds.iter().map(|(n, _)| report.bound_by_us.get(*n).copied()));
    let top = path.top_names();
    let top = Table::new("top", "Event names with the most time on the critical path")
        .text("name", top.iter().map(|s| s.name.clone()))
        .f64("percent", Unit::Percent, top.iter().map(|s| s.percent))
        .f64("weight_us", Unit::Us, top.iter().map(|s| s.weight_us))
        .i64("edges", Unit::None, top.iter().map(|s| s.edges as i64));
    let edges = Table::new("edges", "Edges of the dependency graph, by type")
        .text("type", report.edges.keys().cloned())
        .i64("edges", Unit::None, report.edges.values().map(|&n| n as i64))
        .i64("on_path", Unit::None, report.edges.keys().map(|k| report.path_edges.get(k).map_or(0, |&n| n as i64)));
    vec![bound_by, top, edges]
}

/// Name of the table of points; JSON documents have them under `path`.
const POINTS: &str = "critical_path";

/// Table of the nodes of the dependency graph on the critical path.
fn points(path: &CriticalPath) -> Table {
    let points = || path.points();
    Table::new(POINTS, "Nodes of the dependency graph on the critical path")
        .i64("event", Unit::None, points().map(|p| i64::from(p.event)))
        .text("at", points().map(|p| p.at.into_owned()))
        .i64("time_ns", Unit::Ns, points().map(|p| p.time_ns))
        .text("name", points().map(|p| p.name.into_owned()))
        .text("track", points().map(|p| p.track.into_owned()))
}
