//! `findings`: what to change, where, and what it gains.

mod baseline;
mod conditions;
mod suppress;

use super::critical_path::{one_trace, refuse};
use crate::args::{Common, Document, FindingsArgs, Format};
use crate::failure::{is_closed_pipe, wrong_use};
use crate::output::{Answer, say, say_read_report, style, to_output};
use crate::session::Session;
use anyhow::{Context, Result};
use baseline::Baseline;
use conditions::Condition;
use serde_json::{Value, json};
use stackline_analyze::critical_path::exact::what_if::Gain;
use stackline_analyze::findings::{self, Finding, Findings, Options, Settings};
use stackline_model::Table;
use stackline_present::findings::{Change, Shown, junit, markdown, sarif, text};
use suppress::Suppressions;

/// Runs the command; tells whether a `--fail-on` condition held.
pub(crate) fn run(args: &FindingsArgs, common: &Common) -> Result<bool> {
    let conditions = args.fail_on.iter().map(|c| Condition::parse(c)).collect::<Result<Vec<_>>>()?;
    if args.baseline.is_none() && conditions.iter().any(Condition::needs_baseline) {
        return Err(wrong_use(
            "--fail-on new needs --baseline: findings of an earlier run, written with --format json",
        ));
    }
    let mut settings = Settings::default();
    for text in &args.set {
        settings.set(text).map_err(|error| wrong_use(format!("--set: {error}")))?;
    }
    let baseline = args.baseline.as_deref().map(Baseline::read).transpose()?;
    let suppressions = Suppressions::read(args.ignore.as_deref(), args.source.as_deref())?;
    let session = Session::open(&args.inputs.inputs, common)?;
    let trace = one_trace(&session)?;
    let options = Options { scope: session.scope, settings, least_percent: args.min_gain, threads: common.threads };
    let found = findings::find(trace, &options).map_err(refuse)?;
    let (suppressed, kept): (Vec<_>, Vec<_>) =
        found.findings.iter().map(|finding| (finding, suppressions.of(finding))).partition(|(_, by)| by.is_some());
    let suppressed: Vec<(&Finding, String)> =
        suppressed.into_iter().filter_map(|(finding, by)| Some((finding, by?))).collect();
    let (listed, gone) = compared(kept.into_iter().map(|(finding, _)| finding).collect(), baseline.as_ref());
    let held: Vec<String> = conditions.iter().filter_map(|c| c.holds(&found, &listed)).collect();
    let shown = if args.top == 0 { listed.len() } else { args.top.min(listed.len()) };
    let view = Shown {
        found: &found,
        listed: &listed[..shown],
        gone: &gone,
        suppressed: &suppressed,
        more: listed.len() - shown,
    };
    match write(args, common, &session, &view, (&listed, &held)) {
        // The exit code answers the conditions even if nobody reads to the end.
        Err(error) if !held.is_empty() && is_closed_pipe(&error) => {}
        other => other?,
    }
    for text in &held {
        say(&format!("--fail-on: {text}"))?;
    }
    Ok(!held.is_empty())
}

/// Findings with what they are beside the baseline, and the titles of those that are gone.
fn compared<'f>(
    kept: Vec<&'f Finding>,
    baseline: Option<&Baseline>,
) -> (Vec<(&'f Finding, Option<Change>)>, Vec<String>) {
    match baseline {
        Some(baseline) => baseline.compare(&kept),
        None => (kept.into_iter().map(|finding| (finding, None)).collect(), Vec::new()),
    }
}

type Listed<'f> = (&'f [(&'f Finding, Option<Change>)], &'f [String]);

fn write(
    args: &FindingsArgs,
    common: &Common,
    session: &Session<'_>,
    view: &Shown<'_>,
    (listed, held): Listed<'_>,
) -> Result<()> {
    if let Some(document) = args.document {
        let text = match document {
            Document::Markdown => markdown(view),
            Document::Sarif => {
                let value = sarif(view, env!("CARGO_PKG_VERSION"));
                serde_json::to_string_pretty(&value).context("cannot write SARIF")? + "\n"
            }
            Document::Junit => junit(view).context("cannot write JUnit")? + "\n",
        };
        to_output(common, |out| out.write_all(text.as_bytes()))?;
        return say_read_report(&session.set);
    }
    let people = common.format == Format::Table && common.tables.is_empty();
    let head = if people { text(view, &style(common)) } else { String::new() };
    let tables = session.pick(tables(view.found, listed))?;
    let tables = if people { Vec::new() } else { tables };
    let extra = if common.format == Format::Json { extra(view, held) } else { Vec::new() };
    let extra = extra.into_iter().map(|(key, value)| (key, value.into())).collect();
    Answer { command: "findings", session, extra, tables, head, shown: None }.write(common)
}

/// The tables, with only those findings that are not ignored.
fn tables(found: &Findings, listed: &[(&Finding, Option<Change>)]) -> Vec<Table> {
    let kept = Findings { findings: listed.iter().map(|(finding, _)| (*finding).clone()).collect(), ..found.clone() };
    let mut tables = findings::tables(&kept);
    if let Some(table) = tables.first_mut().filter(|_| listed.iter().any(|(_, change)| change.is_some())) {
        let changes = listed.iter().map(|(_, change)| change.map(|change| change.name().to_owned()));
        *table = table.clone().text("change", changes);
    }
    tables
}

fn extra(view: &Shown<'_>, held: &[String]) -> Vec<(&'static str, Value)> {
    let gain = |gain: &Gain| json!({"ns": gain.ns, "low_ns": gain.low_ns, "high_ns": gain.high_ns});
    let ignored: Vec<Value> = view
        .suppressed
        .iter()
        .map(|(f, by)| json!({"code": f.rule.code, "title": f.title, "place": f.place.text(), "by": by}))
        .collect();
    vec![
        ("step_ns", json!(view.found.step_ns)),
        ("steps", json!(view.found.steps)),
        ("together", json!(view.found.together.as_ref().map(gain))),
        ("left_out", json!(view.found.small)),
        ("ignored", json!(ignored)),
        ("gone", json!(view.gone)),
        ("notes", json!(view.found.notes)),
        ("fail_on_held", json!(held)),
    ]
}
