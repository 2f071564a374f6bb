//! `critical-path --method exact`.

use super::{one_trace, refuse};
use crate::args::{Common, CriticalPathArgs, Format, Range};
use crate::failure::wrong_use;
use crate::output::Answer;
use crate::session::Session;
use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};
use stackline_analyze::critical_path::exact::{
    Exact, ExactReport, Harmless, HopReport, StepSpread, WindowChoice, spread,
};
use stackline_model::{Table, Unit};
use stackline_present::{human, terminal};
use std::io;

/// Runs the command.
pub(super) fn run(args: &CriticalPathArgs, common: &Common) -> Result<()> {
    let choice = window(&args.annotation, args.instance, common)?;
    let session = Session::open(&args.inputs, common)?;
    let trace = one_trace(&session)?;
    let exact = Exact::new(trace);
    let path = exact.path(&choice).map_err(refuse)?;
    let wants_hops = common.format != Format::Table || common.tables.iter().any(|t| t == HOPS);
    let report = if wants_hops { exact.report(&path) } else { exact.summary(&path) };
    let harmless = exact.large_but_harmless(&path);
    let steps = spread(&exact.step_paths());
    let mut all = tables(&report, &harmless, &steps);
    let people = common.format == Format::Table && common.tables.is_empty();
    if wants_hops && common.format != Format::Json {
        all.push(hops(&report.hops));
    }
    let tables = session.pick(all)?;
    let head = if people { head(&report, &choice) } else { String::new() };
    let extra = if common.format == Format::Json { extra(&report, &harmless, &steps)? } else { Vec::new() };
    Answer { command: "critical-path", session: &session, extra, tables, head, shown: None }.write(common)
}

/// The stretch of the trace that the options name.
pub(in crate::commands) fn window(annotation: &str, instance: Option<Range>, common: &Common) -> Result<WindowChoice> {
    match (common.steps, annotation) {
        (Some(_), text) if !text.is_empty() => {
            Err(wrong_use("--steps and --annotation both choose a window: give one"))
        }
        (Some(range), _) => Ok(WindowChoice::Steps(range.first, range.last)),
        (None, "") => Ok(WindowChoice::Whole),
        (None, text) => {
            let (first, last) = instance.map_or((0, 0), |r| (r.first, r.last));
            let number = |n: i64| {
                usize::try_from(n).map_err(|_| wrong_use(format!("instances count from 0, {n} is not one of them")))
            };
            Ok(WindowChoice::Annotation { text: text.to_owned(), instances: (number(first)?, number(last)?) })
        }
    }
}

/// The keys of the JSON document.
fn extra(report: &ExactReport, harmless: &[Harmless], steps: &[StepSpread]) -> Result<Vec<(&'static str, Value)>> {
    Ok(vec![
        ("method", json!(report.method)),
        ("window_ns", json!(report.window_ns)),
        ("window_start_ns", json!(report.window_start_ns)),
        ("window_end_ns", json!(report.window_end_ns)),
        ("path_ns", json!(report.path_ns)),
        ("weight_us", json!(report.weight_us)),
        ("graph_nodes", json!(report.graph_nodes)),
        ("edges", json!(report.edges)),
        ("path_nodes", json!(report.path_nodes)),
        ("path_events", json!(report.path_events)),
        ("bound_by", json!(report.bound_by)),
        ("bound_by_ns", json!(report.bound_by_ns)),
        ("inferred_ns", json!(report.inferred_ns)),
        ("top", value(&report.top)?),
        ("story", value(&report.story)?),
        ("large_but_harmless", value(harmless)?),
        ("steps", value(steps)?),
        ("hops", value(&report.hops)?),
        ("path", value(&report.path)?),
        ("warnings", value(&report.warnings)?),
    ])
}

fn value<T: Serialize + ?Sized>(of: &T) -> Result<Value> {
    Ok(serde_json::to_value(of).map_err(io::Error::from)?)
}

/// A window in words.
pub(in crate::commands) fn in_words(choice: &WindowChoice) -> String {
    match choice {
        WindowChoice::Whole => "the whole trace".to_owned(),
        WindowChoice::Steps(a, b) if a == b => format!("step {a}"),
        WindowChoice::Steps(a, b) => format!("steps {a} to {b}"),
        WindowChoice::Annotation { text, .. } => format!("{text:?}"),
    }
}

fn head(report: &ExactReport, choice: &WindowChoice) -> String {
    let what = in_words(choice);
    let inferred = 100.0 * report.inferred_ns as f64 / report.window_ns.max(1) as f64;
    let mut out = format!(
        "Critical path of {what}: {}, every nanosecond with a cause ({inferred:.1} % inferred or unknown)\n",
        human::duration(report.window_ns),
    );
    for warning in &report.warnings {
        out.push_str(&format!("Note: {} {}\n", human::count(warning.count as i64), warning.message));
    }
    terminal::clean_lines(&out)
}

fn tables(report: &ExactReport, harmless: &[Harmless], steps: &[StepSpread]) -> Vec<Table> {
    let mut causes: Vec<(&&str, &i64)> = report.bound_by_ns.iter().collect();
    causes.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
    let bound_by = Table::new("bound_by", "What bounds the window")
        .text("bound_by", causes.iter().map(|(c, _)| (**c).to_owned()))
        .f64("percent", Unit::Percent, causes.iter().map(|(c, _)| report.bound_by.get(**c).copied()))
        .i64("time_ns", Unit::Ns, causes.iter().map(|(_, ns)| **ns));
    let story = &report.story;
    let story = Table::new("story", "The path as a story, in time order")
        .i64("start_ns", Unit::Ns, story.iter().map(|c| c.start_ns))
        .i64("dur_ns", Unit::Ns, story.iter().map(|c| c.dur_ns))
        .f64("percent", Unit::Percent, story.iter().map(|c| c.percent))
        .text("place", story.iter().map(|c| c.place.clone()))
        .text("bound_by", story.iter().map(|c| c.bound_by.clone()))
        .text("longest", story.iter().map(|c| c.longest.clone()));
    let top = &report.top;
    let top = Table::new("top", "Names with the most time on the path")
        .text("name", top.iter().map(|s| s.name.clone()))
        .f64("percent", Unit::Percent, top.iter().map(|s| s.percent))
        .f64("weight_us", Unit::Us, top.iter().map(|s| s.weight_us))
        .i64("hops", Unit::None, top.iter().map(|s| s.edges as i64));
    let mut tables = vec![bound_by, story, top];
    if !harmless.is_empty() {
        tables.push(harmless_table(harmless));
    }
    if !steps.is_empty() {
        tables.push(steps_table(steps));
    }
    tables
}

fn harmless_table(rows: &[Harmless]) -> Table {
    Table::new("large_but_harmless", "Large but harmless: much time in sum, little of it on the path")
        .text("name", rows.iter().map(|h| h.name.clone()))
        .text("resource", rows.iter().map(|h| h.resource.to_owned()))
        .i64("calls", Unit::None, rows.iter().map(|h| h.calls as i64))
        .i64("total_ns", Unit::Ns, rows.iter().map(|h| h.total_ns))
        .i64("on_path_ns", Unit::Ns, rows.iter().map(|h| h.on_path_ns))
        .i64("min_slack_ns", Unit::Ns, rows.iter().map(|h| h.min_slack_ns))
        .i64("median_slack_ns", Unit::Ns, rows.iter().map(|h| h.median_slack_ns))
}

fn steps_table(rows: &[StepSpread]) -> Table {
    let name = |s: &StepSpread| s.category.map_or("step", |c| c.name()).to_owned();
    Table::new("steps", "Over all steps")
        .text("bound_by", rows.iter().map(name))
        .i64("min_ns", Unit::Ns, rows.iter().map(|s| s.min_ns))
        .i64("median_ns", Unit::Ns, rows.iter().map(|s| s.median_ns))
        .i64("max_ns", Unit::Ns, rows.iter().map(|s| s.max_ns))
        .i64("max_step", Unit::None, rows.iter().map(|s| s.max_step))
}

/// Name of the table of hops; JSON documents have them under `hops`.
const HOPS: &str = "hops";

fn hops(hops: &[HopReport]) -> Table {
    Table::new(HOPS, "The path, hop by hop")
        .i64("start_ns", Unit::Ns, hops.iter().map(|h| h.start_ns))
        .i64("end_ns", Unit::Ns, hops.iter().map(|h| h.end_ns))
        .text("category", hops.iter().map(|h| h.category.name().to_owned()))
        .text("track", hops.iter().map(|h| h.track.clone()))
        .i64("event", Unit::None, hops.iter().map(|h| h.event.map(i64::from)))
        .text("name", hops.iter().map(|h| h.name.clone()))
        .text("operator", hops.iter().map(|h| h.operator.clone()))
        .text("frame", hops.iter().map(|h| h.frame.clone()))
        .text("evidence", hops.iter().map(|h| h.evidence.name().to_owned()))
        .text("rule", hops.iter().map(|h| h.rule.to_owned()))
}
