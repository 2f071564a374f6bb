//! `findings`: performance issues with source location and estimated gain.

pub(super) mod baseline;
mod calls;
mod conditions;
mod memory;
mod python_rules;
mod ranks;
pub(super) mod suppress;
mod worker;

pub(super) use ranks::find_in_session;

use crate::args::{Common, Document, FindingsArgs, Format};
use crate::failure::{did_you_mean, is_closed_pipe, wrong_use};
use crate::output::{Answer, print_message, print_read_report, style, to_output};
use crate::session::{Session, incomplete_part, reading, run_of};
use anyhow::{Context, Result, anyhow};
use baseline::Baseline;
use conditions::Condition;
use python_rules::PythonRules;
use serde_json::{Value, json};
use stackline_engine::{Part, Run};
use stackline_findings as findings;
use stackline_findings::{Finding, Findings, Options, Reason, Settings, SkippedRule};
use stackline_model::{Table, Trace};
use stackline_present::findings::{
    Change, Evidence, IgnoreLocation, Shown, Tool, explained, junit, keys, markdown, sarif, text,
};
use std::path::{Path, PathBuf};
use suppress::Suppressions;

/// Default maximum of findings in text output.
const TOP: usize = 10;

/// Name of the table of findings that are not to be shown.
pub(super) const IGNORED: &str = "ignored";

/// Run `stackline findings`: search for issues and print them. The result is true if a `--fail-on` condition held.
pub(crate) fn run(args: &FindingsArgs, common: &Common) -> Result<bool> {
    if let Some(code) = &args.explain {
        return explain(code, args, common).map(|()| false);
    }
    let (conditions, options) = parse_options(args, common)?;
    let baseline = args.baseline.as_deref().map(Baseline::read).transpose()?;
    let own = PythonRules::start(args, common)?;
    let rules = own.as_ref().map(PythonRules::rules).unwrap_or_default();
    let sources = suppress::comment_sources(&args.comments, &args.inputs.inputs)?;
    let suppressions = Suppressions::read(args.ignore.as_deref(), sources, rules)?;
    let keep = |finding: &Finding| suppressions.suppression_of(finding).is_none();
    let mut evidence = Evidence::default();
    let mut see = |rank: i64, trace: &Trace, found: &Findings| {
        suppressions.note_files(findings::files_of(trace));
        if common.format == Format::Json {
            evidence.gather(rank, trace, found);
        }
    };
    let mut own = own;
    let run = run_of(&args.inputs.inputs, common)?.with_memory(true);
    let (session, mut found) = match (reading(&run, Run::parts)?.first(), common.rank) {
        (Some(Part::Memory), None) => memory::find_in_memory(&run, common, (&options, own.is_some()), &keep)?,
        (Some(Part::Profile), _) => calls::find_in_call_tree(&run, common, (&options, own), &suppressions, &keep)?,
        (_, Some(_)) => ranks::find_in_one_rank(run, common, (&options, &mut own), &keep, &mut see)?,
        (_, None) => ranks::find_in_all_ranks(run, common, (&options, &mut own), &keep, &mut see)?,
    };
    let by = |finding| Some((finding, suppressions.suppression_of(finding)?));
    let suppressed: Vec<(&Finding, IgnoreLocation)> = found.ignored.iter().filter_map(by).collect();
    found.notes.extend(baseline.as_ref().and_then(Baseline::note));
    let unknown =
        baseline.as_ref().and_then(|baseline| baseline.unchecked_rules_note(|code| was_checked(&found, code)));
    found.notes.extend(unknown);
    let (listed, gone) = compared(&found, baseline.as_ref());
    let held: Vec<String> = conditions.iter().filter_map(|c| c.holds(&found, &listed)).collect();
    let shown = listed.len().min(maximum(args, common));
    let view = Shown {
        found: &found,
        listed: &listed[..shown],
        gone: &gone,
        suppressed: &suppressed,
        more: listed.len() - shown,
    };
    match write(args, common, &session, &view, (&held, &evidence)) {
        // The exit code depends on the conditions, even if the reader closes the pipe early.
        Err(error) if !conditions.is_empty() && is_closed_pipe(&error) => {}
        other => other?,
    }
    suppressions.warnings().iter().try_for_each(|text| print_message(text))?;
    held.iter().try_for_each(|text| print_message(&format!("--fail-on: {text}")))?;
    // On incomplete data a condition can hold, but cannot be excluded.
    let lost = incomplete_part(&session.infos, session.set.traces.iter().map(|trace| &trace.report));
    match lost.or_else(|| failed_rule(&found)).filter(|_| held.is_empty() && !conditions.is_empty()) {
        Some(reason) => Err(anyhow!("--fail-on cannot be judged: {reason}")),
        None => Ok(!held.is_empty()),
    }
}

/// Maximum number of listed findings. Documents for programs list all by default, since a finding that is absent from a
/// document counts as fixed.
fn maximum(args: &FindingsArgs, common: &Common) -> usize {
    let default = if args.document.is_none() && is_for_people(common) { TOP } else { 0 };
    match args.top.or(common.limit).unwrap_or(default) {
        0 => usize::MAX,
        top => top,
    }
}

/// Check if the output is text for people, rather than selected tables or a document.
fn is_for_people(common: &Common) -> bool {
    common.format == Format::Table && common.tables.is_empty()
}

/// Parse the `--fail-on` conditions and the options of rules (thresholds, minimum gain, steps) before the input is
/// read.
fn parse_options(args: &FindingsArgs, common: &Common) -> Result<(Vec<Condition>, Options)> {
    let conditions = args.fail_on.iter().map(|c| Condition::parse(c)).collect::<Result<Vec<_>>>()?;
    if args.baseline.is_none() && conditions.iter().any(Condition::needs_baseline) {
        return Err(wrong_use(
            "--fail-on new needs --baseline FILE with the findings of an earlier run, written with --format json",
        ));
    }
    let mut settings = Settings::default();
    let set_notes = args.set.iter().filter_map(|text| Some(format!("--set: {}", Settings::renaming_note(text)?)));
    let notes: Vec<String> =
        args.fail_on.iter().filter_map(|text| Condition::renaming_note(text)).chain(set_notes).collect();
    for text in &args.set {
        match python_rules::is_own(text) {
            // The interpreter knows their thresholds.
            true if !args.rules.is_empty() => {}
            true => {
                return Err(wrong_use(format!(
                    "--set {text}: no built-in rule has this code; load the Python rule with --rules"
                )));
            }
            false => settings.set(text).map_err(|error| wrong_use(format!("--set: {error}")))?,
        }
    }
    notes.iter().try_for_each(|note| print_message(note))?;
    let scope = common.scope();
    let options = Options { scope, settings, least_percent: args.min_gain, threads: common.threads, is_alone: false };
    Ok((conditions, options))
}

/// Print the documentation page of a rule.
fn explain(code: &str, args: &FindingsArgs, common: &Common) -> Result<()> {
    let page = match findings::rules::find(code) {
        Some(rule) => rule.page(),
        None => python_rule_page(code, args, common)?,
    };
    to_output(common, |out| out.write_all(explained(&page, &style(common)).as_bytes()))
}

/// Documentation page of a Python rule; an error if there is no rule with this code.
fn python_rule_page(code: &str, args: &FindingsArgs, common: &Common) -> Result<String> {
    let own = PythonRules::start(args, common)?;
    if let Some(page) = own.as_ref().and_then(|own| own.page(code)) {
        return Ok(page);
    }
    let rules = own.as_ref().map(PythonRules::rules).unwrap_or_default();
    let known = findings::rules::ALL.iter().flat_map(|rule| [rule.code, rule.name]);
    let near = did_you_mean(code, known.chain(rules.iter().flat_map(|rule| [rule.code.as_str(), rule.name.as_str()])));
    let message = if own.is_none() && suppress::is_python_rule_code(code) {
        format!("--explain: there is no rule {code:?} (load Python rules with --rules){near}")
    } else {
        format!("--explain: there is no rule {code:?}{near}")
    };
    Err(wrong_use(message))
}

/// Pairs of each finding with its change from the baseline, such as new, and the titles of gone findings.
pub(super) fn compared<'f>(
    found: &'f Findings,
    baseline: Option<&Baseline>,
) -> (Vec<(&'f Finding, Option<Change>)>, Vec<String>) {
    let kept: Vec<&Finding> = found.findings.iter().collect();
    match baseline {
        Some(baseline) => {
            let unlisted = found.small.iter().chain(&found.ignored);
            baseline.compare(&kept, unlisted, |code| was_checked(found, code))
        }
        None => (kept.into_iter().map(|finding| (finding, None)).collect(), Vec::new()),
    }
}

/// Check if the rule with this code exists and ran: it had its data and did not fail.
fn was_checked(found: &Findings, code: &str) -> bool {
    let is_unchecked = || found.unchecked.iter().any(|unchecked| unchecked.rule.code == code);
    found.rules.iter().any(|rule| rule.code == code) && !is_unchecked()
}

/// Code and error of the first Python rule that failed; `None` if all ran. Conditions that do not hold then remain
/// undecided.
fn failed_rule(found: &Findings) -> Option<String> {
    let failed = |unchecked: &&SkippedRule| matches!(unchecked.reason, Reason::Failed(..) | Reason::Cut(_));
    let unchecked = found.unchecked.iter().find(failed)?;
    Some(format!("{}: {}", unchecked.rule.code, unchecked.reason.short()))
}

/// Conditions that held, and evidence.
type Outcome<'f> = (&'f [String], &'f Evidence);

fn write(
    args: &FindingsArgs,
    common: &Common,
    session: &Session<'_>,
    view: &Shown<'_>,
    outcome: Outcome<'_>,
) -> Result<()> {
    if let Some(document) = args.document {
        let text = for_tools(document, view, args.inputs.inputs.first().map(PathBuf::as_path))?;
        to_output(common, |out| out.write_all(text.as_bytes()))?;
        print_failed_rules(view.found)?;
        return print_read_report(&session.set);
    }
    let people = is_for_people(common);
    if common.format == Format::Csv {
        print_failed_rules(view.found)?;
    }
    if let Some(text) = omitted(view).filter(|_| !people && common.format != Format::Json) {
        print_message(&text)?;
    }
    let head = if people { text(view, &style(common)) } else { String::new() };
    let mut tables = tables(view.found, view.listed);
    // JSON has a key for it, people and documents a list.
    if common.tables.iter().any(|name| name == IGNORED) || common.format == Format::Csv && !view.suppressed.is_empty() {
        tables.push(ignored(view));
    }
    let tables = session.select_tables_or(tables, &[IGNORED])?;
    let tables = if people { Vec::new() } else { tables };
    let extra = if common.format == Format::Json { extra(view, outcome) } else { Vec::new() };
    let extra = extra.into_iter().map(|(key, value)| (key, value.into())).collect();
    Answer { command: "findings", session, extra, tables, head, shown: None }.write(common)
}

/// Text of a document with the findings for other tools, such as SARIF. Findings without source location refer to the
/// file `input`.
pub(super) fn for_tools(document: Document, view: &Shown<'_>, input: Option<&Path>) -> Result<String> {
    Ok(match document {
        Document::Markdown => markdown(view),
        Document::Sarif => {
            let run = input.map(|path| path.display().to_string()).unwrap_or_default();
            // Pages are linked once Cargo.toml names a repository.
            let (version, repository) = (env!("CARGO_PKG_VERSION"), env!("CARGO_PKG_REPOSITORY"));
            let folder = std::env::current_dir().map(|folder| folder.display().to_string()).unwrap_or_default();
            let value = sarif(view, &Tool { version, repository, run: &run, folder: &folder });
            serde_json::to_string_pretty(&value).context("cannot write the findings as SARIF")? + "\n"
        }
        Document::Junit => junit(view).context("cannot write the findings as JUnit XML")? + "\n",
    })
}

/// Print on standard error which Python rules of the user failed, with the reasons.
fn print_failed_rules(found: &Findings) -> Result<()> {
    for SkippedRule { rule, reason } in &found.unchecked {
        if let Reason::Failed(why, _) | Reason::Cut(why) = reason {
            print_message(&format!("rule {}: {why}", rule.code))?;
            reason
                .traceback()
                .into_iter()
                .flat_map(str::lines)
                .try_for_each(|line| print_message(&format!("  {line}")))?;
        }
    }
    Ok(())
}

/// Tables of the listed findings, with the change from the baseline if there is one.
pub(super) fn tables(found: &Findings, listed: &[(&Finding, Option<Change>)]) -> Vec<Table> {
    let kept = Findings { findings: listed.iter().map(|(finding, _)| (*finding).clone()).collect(), ..found.clone() };
    let mut tables = findings::tables(&kept);
    if let Some(table) = tables.first_mut().filter(|_| listed.iter().any(|(_, change)| change.is_some())) {
        let changes = listed.iter().map(|(_, change)| change.map(|change| change.name().to_owned()));
        *table = table.clone().text("change", changes);
    }
    tables
}

/// Table of the findings that the ignore file or source comments suppress.
fn ignored(view: &Shown<'_>) -> Table {
    let rows = view.suppressed;
    let text = |text_of: fn(&Finding) -> Option<String>| rows.iter().map(move |(finding, _)| text_of(finding));
    Table::new(IGNORED, "Ignored findings")
        .text("code", text(|f| Some(f.rule.code.clone())))
        .text("title", text(|f| Some(f.title.clone())))
        .text("place", text(|f| Some(f.place.text())))
        .text("by", rows.iter().map(|(_, by)| by.to_string()))
}

fn extra(view: &Shown<'_>, (held, evidence): Outcome<'_>) -> Vec<(&'static str, Value)> {
    let evidence: Vec<Value> = view.listed.iter().map(|(finding, _)| evidence.to_json(finding)).collect();
    let mut keys = keys(view.found);
    if let Some((_, notes)) = keys.iter_mut().find(|(key, _)| *key == "notes") {
        *notes = view.found.notes.iter().cloned().chain(omitted(view)).collect();
    }
    keys.into_iter().chain([("evidence", json!(evidence))]).chain(outcome_keys(view, held)).collect()
}

/// Number of findings that `--top` or `--limit` omits, as a sentence; `None` if all are listed.
fn omitted(view: &Shown<'_>) -> Option<String> {
    match view.more {
        0 => None,
        1 => Some("1 more finding is omitted: --top 0 shows all findings".to_owned()),
        more => Some(format!("{more} more findings are omitted: --top 0 shows all findings")),
    }
}

/// JSON keys for unlisted, ignored and gone findings, and for the `--fail-on` conditions that hold.
pub(super) fn outcome_keys(view: &Shown<'_>, held: &[String]) -> [(&'static str, Value); 4] {
    let ignored: Vec<Value> = view
        .suppressed
        .iter()
        .map(|(f, by)| json!({"code": f.rule.code, "title": f.title, "place": f.place.text(), "by": by.to_string()}))
        .collect();
    let not_listed = baseline::unlisted_findings(view);
    [not_listed, ("ignored", json!(ignored)), ("gone", json!(view.gone)), ("fail_on_held", json!(held))]
}
