//! Command `what-if`: predicts the time that edits of a trace save.

use super::critical_path::exact::window;
use super::critical_path::{one_trace, refuse};
use crate::args::{Common, Format, WhatIfArgs};
use crate::failure::wrong_use;
use crate::output::{Answer, print_message};
use crate::session::Session;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use stackline_critical_path::exact::what_if;
use stackline_critical_path::exact::what_if::{
    Action, Edit, Prediction, Sweep, SweepOptions, sweep_table, sweep_tables, tables,
};
use stackline_critical_path::exact::{Exact, WindowChoice};
use stackline_findings::{RemovedOperators, removed_operators};
use stackline_present::{human, terminal};
use stackline_timeline::steps::StepSelection;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Run `stackline what-if`: predict the gain of edits, or sweep over likely edits.
pub(crate) fn run(args: &WhatIfArgs, common: &Common) -> Result<()> {
    let edits = edits(args)?;
    match (edits.is_empty(), args.sweep) {
        (true, false) => {
            return Err(wrong_use("no what-if change given; add one, such as --scale 'kernel:*gemm*' 0.5, or --sweep"));
        }
        (false, true) => {
            return Err(wrong_use(
                "--sweep itself chooses the changes to simulate: leave out --scale, --edit and all other options for changes",
            ));
        }
        _ => {}
    }
    if args.instance.is_some() && args.annotation.is_none() {
        return Err(wrong_use("--instance selects among the events of --annotation: give --annotation too"));
    }
    let session = Session::open(&args.inputs.inputs, common)?;
    let trace = one_trace(&session)?;
    let annotation = args.annotation.as_deref().unwrap_or_default();
    let StepSelection { choice, steps, notes, .. } = window(trace, annotation, args.instance, &session.scope)?;
    let steps = Some(steps).filter(|&steps| steps > 0);
    let people = common.format == Format::Table && common.tables.is_empty();
    let (tables, extra, head) = if args.sweep {
        let options = SweepOptions { candidates: args.candidates, threads: common.threads };
        let stop = stop_on_interrupt()?;
        let stopped = || stop.load(Ordering::Relaxed);
        let mut sweep = what_if::sweep(trace, &choice, &options, &stopped).map_err(refuse)?;
        sweep.notes.splice(0..0, notes);
        if sweep.interrupted {
            print_message(&match sweep.planned {
                0 => "Stopped before any change was simulated.".to_owned(),
                planned => format!("Stopped: {} of {planned} changes were simulated.", sweep.tried),
            })?;
        }
        (
            if people { sweep_tables(&sweep) } else { vec![sweep_table(&sweep)] },
            sweep_extra(&sweep),
            sweep_head(&sweep, &choice),
        )
    } else {
        let exact = Exact::new(trace);
        let recorded = removed_operators(&exact, &edits);
        let mut segments = common.tables.iter().any(|name| name == what_if::PATH).then(Vec::new);
        let mut prediction = what_if::predict_in(exact, &choice, &edits, segments.as_mut()).map_err(refuse)?;
        prediction.notes.splice(0..0, notes);
        let in_gain = |recorded: RemovedOperators| recorded.sentence(prediction.gain.likely_ns, steps.unwrap_or(0));
        prediction.notes.extend(recorded.and_then(in_gain));
        let path = segments.map(|segments| what_if::path_table(trace, &segments));
        let tables = tables(&prediction).into_iter().chain(path).collect();
        (tables, extra(&prediction, steps), head(&prediction, &choice, steps))
    };
    let tables = session.select_tables_or(tables, if args.sweep { &[] } else { &[what_if::PATH] })?;
    let head = if people { head } else { String::new() };
    let extra = if common.format == Format::Json { extra } else { Vec::new() };
    let extra = extra.into_iter().map(|(key, value)| (key, value.into())).collect();
    Answer { command: "what-if", session: &session, extra, tables, head, shown: None }.write(common)
}

/// Parse the options for edits (`--scale`, `--set` and so on), ordered by option.
fn edits(args: &WhatIfArgs) -> Result<Vec<Edit>> {
    let mut edits = Vec::new();
    let mut add = |action: Action, selector: &str| -> Result<()> {
        edits.push(Edit::new(action, selector).map_err(refuse)?);
        Ok(())
    };
    for pair in args.scale.chunks_exact(2) {
        let factor =
            pair[1].parse().map_err(|_| wrong_use(format!("--scale: {:?} is not a factor such as 0.5", pair[1])))?;
        add(Action::Scale(factor), &pair[0])?;
    }
    for pair in args.set.chunks_exact(2) {
        let ns = pair[1]
            .parse()
            .map_err(|_| wrong_use(format!("--set: {:?} is not a whole number of nanoseconds", pair[1])))?;
        add(Action::SetNs(ns), &pair[0])?;
    }
    let lists = [
        (Action::Remove, &args.remove),
        (Action::Fuse, &args.fuse),
        (Action::Graph, &args.graph),
        (Action::Overlap, &args.overlap),
    ];
    for (action, selectors) in lists {
        selectors.iter().try_for_each(|s| add(action, s))?;
    }
    if let Some(more) = args.more_workers {
        edits.push(Edit::more_workers(more).map_err(refuse)?);
    }
    for text in &args.edit {
        let text = match text.strip_prefix('@') {
            Some("-") => {
                std::io::read_to_string(std::io::stdin()).context("cannot read what-if changes from standard input")?
            }
            Some(file) => {
                std::fs::read_to_string(file).with_context(|| format!("{file}: cannot read what-if changes"))?
            }
            None => text.clone(),
        };
        for line in edit_lines(&text) {
            edits.extend(Edit::parse_all(line.trim()).map_err(refuse)?);
        }
    }
    Ok(edits)
}

/// Split the text of `--edit` into single edits: its lines, or the strings of a JSON string or array.
fn edit_lines(text: &str) -> Vec<String> {
    // Findings without edits have null.
    let of_json = match serde_json::from_str::<Vec<Option<String>>>(text) {
        Ok(texts) => Some(texts.into_iter().flatten().collect()),
        Err(_) => serde_json::from_str::<String>(text).ok().map(|text| vec![text]),
    };
    let mut lines: Vec<String> = of_json.unwrap_or_else(|| text.lines().map(str::to_owned).collect());
    lines.retain(|line| !line.trim().is_empty());
    lines
}

/// Maximum length of an edit in text output, since event lists can be long.
const EDIT_CHARACTERS: usize = 200;

/// Install a handler for Ctrl-C. The first Ctrl-C sets the returned flag; a second one ends the program.
fn stop_on_interrupt() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if seen.swap(true, Ordering::Relaxed) {
            #[expect(clippy::exit, reason = "a second Ctrl-C means it")]
            std::process::exit(130);
        }
    })
    .context("cannot listen for Ctrl-C")?;
    Ok(stop)
}

/// Header of the text output: predicted time, gain with bounds, edits and notes.
fn head(found: &Prediction, choice: &WindowChoice, steps: Option<usize>) -> String {
    let (gain, before) = (found.gain, found.before_ns());
    let share = |ns: i64| format!("{:.1} %", found.percent(ns));
    let mut out = format!(
        "Prediction for {}: {} without the changes, {} with them\nEstimated gain {} ({}), lower bound {} ({}), upper \
         bound {} ({})\n",
        choice.in_words(),
        human::duration(before),
        human::duration(found.after_ns),
        human::signed_duration(gain.likely_ns),
        share(gain.likely_ns),
        human::signed_duration(gain.low_ns),
        share(gain.low_ns),
        human::signed_duration(gain.high_ns),
        share(gain.high_ns),
    );
    if let Some(steps) = steps.filter(|&steps| steps > 1) {
        let per_step = human::signed_duration(gain.likely_ns / steps as i64);
        out.push_str(&format!("Gain per step: {per_step} (mean of {} steps)\n", human::count(steps as i64)));
    }
    for (edit, count) in &found.edits {
        let edit = terminal::shorten(edit, EDIT_CHARACTERS);
        out.push_str(&format!("Edit: {edit} ({} events)\n", human::count(*count as i64)));
    }
    if let Some(next) = found.after.bound_by() {
        out.push_str(&format!("Category with the most time on the predicted critical path: {}\n", next.name()));
    }
    for note in &found.notes {
        out.push_str(&format!("Note: {note}\n"));
    }
    terminal::clean_lines(&out)
}

fn extra(found: &Prediction, steps: Option<usize>) -> Vec<(&'static str, Value)> {
    let by_category = |path: &what_if::NewPath| -> Value {
        path.by_category
            .iter()
            .map(|(c, ns)| (c.name().to_owned(), json!(ns)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let edits: Vec<Value> = found.edits.iter().map(|(edit, n)| json!({"edit": edit, "events": n})).collect();
    vec![
        ("method", json!("exact")),
        ("window_start_ns", json!(found.window.start)),
        ("window_end_ns", json!(found.window.end)),
        ("before_ns", json!(found.before_ns())),
        ("after_ns", json!(found.after_ns)),
        ("gain_ns", json!(found.gain.likely_ns)),
        ("gain_low_ns", json!(found.gain.low_ns)),
        ("gain_high_ns", json!(found.gain.high_ns)),
        ("gain_percent", json!(found.percent(found.gain.likely_ns))),
        ("steps", json!(steps)),
        ("gain_per_step_ns", json!(steps.map(|steps| found.gain.likely_ns / steps as i64))),
        ("edits", json!(edits)),
        ("bound_by_ns_before", by_category(&found.before)),
        ("bound_by_ns_after", by_category(&found.after)),
        ("next_bound", json!(found.after.bound_by().map(|c| c.name()))),
        ("notes", json!(found.notes)),
    ]
}

fn sweep_head(sweep: &Sweep, choice: &WindowChoice) -> String {
    format!(
        "What-if changes ranked by estimated gain, for {} ({} long); {} changes simulated one by one\n",
        choice.in_words(),
        human::duration(sweep.window_ns),
        human::count(sweep.tried as i64),
    )
}

fn sweep_extra(sweep: &Sweep) -> Vec<(&'static str, Value)> {
    vec![
        ("method", json!("exact")),
        ("window_ns", json!(sweep.window_ns)),
        ("planned", json!(sweep.planned)),
        ("tried", json!(sweep.tried)),
        ("left_out", json!(sweep.left_out)),
        ("interrupted", json!(sweep.interrupted)),
    ]
}

#[cfg(test)]
mod tests {
    use super::edit_lines;

    #[test]
    fn edits_may_be_lines_or_json() {
        let (one, two) = ("remove sync:item()", "scale kernel:*gemm* 0.5; more-workers 2");
        assert_eq!(edit_lines(&format!("{one}\n\n{two}\n")), [one, two]);
        assert_eq!(edit_lines(&format!("[\"{one}\", null, \"{two}\"]")), [one, two]);
        assert_eq!(edit_lines(&format!("\"{one}\"\n")), [one]);
        assert!(edit_lines(" \n").is_empty() && edit_lines("[]").is_empty());
    }
}
