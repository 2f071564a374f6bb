//! `diff`: two runs, or several of each, compared; or two memory snapshots.

mod conditions;
mod memory;

use crate::args::{Common, DiffArgs, DiffDocument, Format, KernelsBy};
use crate::failure::{is_closed_pipe, wrong_use};
use crate::output::{Answer, print_message, print_read_report, style, to_output};
use crate::progress::ProgressDisplay;
use crate::session::{Session, incomplete_part, not_an_input};
use anyhow::{Result, anyhow};
use conditions::{Condition, Outcome};
use serde_json::json;
use stackline_diff as diff;
use stackline_diff::{Diff, Options, Profile, Side};
use stackline_engine::Run;
use stackline_model::ReadReport;
use stackline_present::TraceInfo;
use stackline_present::diff::{Shown, markdown, text};
use std::path::{Path, PathBuf};

/// Changes shown of each kind to people who do not say.
const TOP: usize = 5;

/// Runs before and after the change, with descriptions and read reports of their traces.
#[derive(Default)]
struct OpenedSides {
    before: Side,
    after: Side,
    infos: Vec<TraceInfo>,
    reports: Vec<ReadReport>,
}

/// Run `stackline diff`: compare runs and print the changes. The result is true if a `--fail-on` condition held.
pub(crate) fn run(args: &DiffArgs, common: &Common) -> Result<bool> {
    let (before, after) = sides(args)?;
    let runs = open_runs((before, after), common)?;
    if memory::compare(args, common, (&runs.0, &runs.1))? {
        return Ok(false);
    }
    let conditions = args.fail_on.iter().map(|c| Condition::parse(c)).collect::<Result<Vec<_>>>()?;
    let opened = open(runs, common)?;
    let by_family = match args.kernels_by {
        KernelsBy::Auto => None,
        KernelsBy::Name => Some(false),
        KernelsBy::Family => Some(true),
    };
    let options = Options { level: args.level / 100.0, by_family };
    let diff = diff::compare(&opened.before, &opened.after, options);
    let judged = conditions.iter().map(|c| c.judge(&diff, args.significant)).collect::<Vec<_>>();
    let (mut held, mut within) = (Vec::new(), Vec::new());
    for outcome in judged.iter().flatten() {
        match outcome {
            Outcome::Held(words) => held.push(words.clone()),
            Outcome::Within(words) => within.push(words.clone()),
            Outcome::Passed => {}
        }
    }
    let names = [names(before), names(after)];
    match write(args, common, (&opened, &diff), (&names, &held)) {
        // The exit code depends on the conditions, even if the reader closes the pipe early.
        Err(error) if !conditions.is_empty() && is_closed_pipe(&error) => {}
        other => other?,
    }
    if !conditions.is_empty()
        && let Some(reason) = incomplete(&opened).or_else(|| diff.missing_records.first().cloned())
    {
        return Err(anyhow!("--fail-on cannot be judged: {reason}"));
    }
    if !conditions.is_empty() {
        diff.warnings.iter().try_for_each(|warning| print_message(&format!("warning: {warning}")))?;
    }
    for words in held.iter().chain(&within) {
        print_message(&format!("--fail-on {words}"))?;
    }
    // A condition that holds decides the result. Conditions that cannot be judged are then only warnings.
    let mut unjudged = judged.into_iter().filter_map(Result::err);
    if held.is_empty()
        && let Some(error) = unjudged.next()
    {
        return Err(error);
    }
    unjudged.try_for_each(|error| print_message(&format!("warning: {error}")))?;
    Ok(!held.is_empty())
}

/// Reason why `--fail-on` conditions cannot pass: a run without timed events, or missing records; `None` if all runs
/// are complete.
fn incomplete(opened: &OpenedSides) -> Option<String> {
    let runs = opened.before.iter().chain(&opened.after).flatten();
    if let Some(empty) = runs.into_iter().find(|profile| profile.units() == 0) {
        return Some(format!("{} has no events with a duration, so its times cannot be compared", empty.name));
    }
    incomplete_part(&opened.infos, opened.reports.iter())
}

/// Paths of the runs before the change and of those after.
fn sides(args: &DiffArgs) -> Result<(&[PathBuf], &[PathBuf])> {
    let sides = match (&args.runs[..], &args.with[..]) {
        ([_, _], []) => args.runs.split_at(1),
        (before, []) => {
            return Err(wrong_use(match before.len() {
                1 => "`diff` compares at least two runs, but only one was given; write `stackline diff A B`".to_owned(),
                runs => format!(
                    "{runs} runs were given without --with, so it is unknown which of them belong to A and to B; write \
                     `stackline diff A1 A2 --with B1 B2`"
                ),
            }));
        }
        (before, after) => (before, after),
    };
    let stdin = |paths: &[PathBuf]| paths.iter().filter(|path| *path == Path::new("-")).count();
    if stdin(sides.0) + stdin(sides.1) > 1 {
        return Err(wrong_use("standard input (-) can be read only once; give it for only one run"));
    }
    Ok(sides)
}

/// Open the runs before and after the change. All share one progress handle.
fn open_runs((before, after): (&[PathBuf], &[PathBuf]), common: &Common) -> Result<(Vec<Run>, Vec<Run>)> {
    if let Some(target) = &common.output {
        not_an_input(target, before)?;
        not_an_input(target, after)?;
    }
    let options = crate::session::open_options(common);
    let run = |path: &PathBuf| Ok(Run::open(std::slice::from_ref(path), &options)?);
    Ok((before.iter().map(run).collect::<Result<_>>()?, after.iter().map(run).collect::<Result<_>>()?))
}

/// Read the runs of both sides as profiles, without warm-up steps. Error for a mix of call-tree recordings and traces.
fn open((before, after): (Vec<Run>, Vec<Run>), common: &Common) -> Result<OpenedSides> {
    let _progress = before.first().map(|run| ProgressDisplay::start(&run.options().watch));
    let scope = common.scope();
    let mut opened = OpenedSides::default();
    for (runs, is_before) in [(before, true), (after, false)] {
        for run in runs {
            let (infos, reports) = (&mut opened.infos, &mut opened.reports);
            let profiles = stackline_engine::profiles(run, &scope, common.rank, &mut |trace, rank| {
                infos.push(TraceInfo::new(trace, rank));
                reports.push(trace.report.clone());
            })?;
            if is_before { &mut opened.before } else { &mut opened.after }.push(profiles);
        }
    }
    let recording = |profile: &Profile| profile.path_kind == "calls";
    diff::trim_warmup(&mut opened.before, &mut opened.after);
    let mut profiles = opened.before.iter().chain(&opened.after).flatten();
    let some = profiles.clone().find(|profile| recording(profile));
    if let (Some(calls), Some(trace)) = (some, profiles.find(|profile| !recording(profile))) {
        return Err(wrong_use(format!(
            "{} is a call-tree recording and {} is a trace, so their times are not comparable. Compare two of the same \
             kind; `stackline record --mode trace` records traces",
            calls.name, trace.name
        )));
    }
    Ok(opened)
}

fn names(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.display().to_string()).collect()
}

/// Write the comparison in the requested form: Markdown, text, JSON or CSV.
fn write(
    args: &DiffArgs,
    common: &Common,
    (opened, diff): (&OpenedSides, &Diff),
    ([before, after], held): (&[Vec<String>; 2], &[String]),
) -> Result<()> {
    let session = Session::described(&opened.infos, &opened.reports, common);
    let shown = Shown { diff, before, after, top: args.top.unwrap_or(TOP), held };
    if args.document == Some(DiffDocument::Markdown) {
        to_output(common, |out| out.write_all(markdown(&shown).as_bytes()))?;
        return print_read_report(&session.set);
    }
    let people = common.format == Format::Table && common.tables.is_empty();
    let head = if people { text(&shown, &style(common)) } else { String::new() };
    let tables = session.select_tables(diff::tables(diff, &opened.before, &opened.after))?;
    let tables = if people { Vec::new() } else { tables };
    let extra = vec![
        ("before", json!(before).into()),
        ("after", json!(after).into()),
        ("method", json!(diff.method.name()).into()),
        ("per", json!(diff.per.name()).into()),
        ("level_percent", json!(diff.options.level * 100.0).into()),
        ("kernels_by", json!(if diff.by_family { "family" } else { "name" }).into()),
        ("confidence", json!(diff.confidence().name()).into()),
        ("warnings", json!(diff.missing_records.iter().chain(&diff.warnings).collect::<Vec<_>>()).into()),
        ("notes", json!(diff.notes).into()),
        ("fail_on_held", json!(held).into()),
    ];
    Answer { command: "diff", session: &session, extra, tables, head, shown: None }.write(common)
}
