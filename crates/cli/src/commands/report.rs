//! Command `report`: a summary of GPU time, steps, kernels, operators and the critical path.

use super::fail_on::Condition;
use super::process_ends::how_it_ended;
use super::report_tables::fit_to_screen;
use crate::args::{Cli, Command, Common, Format, ReportArgs, options_for, refused};
use crate::failure::{command_line, is_closed_pipe, wrong_use};
use crate::output::{Answer, checks_that_failed, print_message, to_file, to_output};
use crate::session::{Session, not_an_input, reading, run_of};
use crate::view::without_gpu;
use anyhow::{Error, Result, anyhow};
use clap::Parser;
use serde_json::{Value, json};
use stackline_engine::{Part, Run, RunOptions, earlier_processes, is_read_once, older_cycles};
use stackline_model::{ReadReport, Table, Trace};
use stackline_present::{TraceInfo, human};
use stackline_query::{Content, OfTrace, PathOptions};
use stackline_serve::{ReportOptions, WrittenReport};
use stackline_timeline::Scope;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Traces that the head lists one by one.
const LISTED: usize = 8;

/// Run `stackline report`: print the summary of a run. The result is true if a `--fail-on` condition held.
pub(crate) fn run(args: &ReportArgs, common: &Common) -> Result<bool> {
    if let Some(file) = &args.html {
        html(args, file, common)?;
        return Ok(false);
    }
    let conditions = args.fail_on.iter().map(|c| Condition::parse(c)).collect::<Result<Vec<_>>>()?;
    let inputs = &args.inputs.inputs;
    let known = if args.for_agent { None } else { load_cached(inputs, common) };
    let (session, content) = match known {
        Some(content) => (Session::described(&content.infos, &content.read_reports, common), content),
        None => {
            let mut run = run_of(inputs, common)?.with_memory(args.for_agent);
            if !reading(&run, Run::parts)?.contains(&Part::Traces) {
                return without_traces(args, common, &run);
            }
            if args.for_agent {
                let session = Session::from_run(&mut run, common)?;
                return for_agent(&session, &run, args);
            }
            let path = PathOptions { with_hta: common.format == Format::Json, is_alone: run.is_one_trace() };
            let of_trace = |trace: &Trace, options: &RunOptions| Ok(OfTrace::compute(trace, options, path)?);
            let (session, of_traces) = Session::map(run, common, &of_trace)?;
            let content = Content::merge(of_traces, &session.infos);
            (session, content)
        }
    };
    let Content { tables, paths, rank_conflict, run_checks, .. } = content;
    let session = session.with_run_checks(run_checks);
    let gpu_time = tables.iter().find(|t| t.name == "gpu_time");
    let gpu_rows = gpu_time.map_or(0, Table::rows);
    let has_operators = tables.iter().any(|table| table.name == "operators" && table.rows() > 0);
    let (held, unjudged) = judge(&conditions, gpu_time);
    let mut extra = vec![("critical_path", Value::Array(paths.iter().map(|p| p.json.clone()).collect()).into())];
    extra.push(("failed_checks", json!(checks_that_failed(&session)).into()));
    extra.push(("rank_conflict", json!(rank_conflict).into()));
    if !conditions.is_empty() {
        extra.push(("fail_on_held", json!(held).into()));
    }
    let (mut head, mut shown) = (String::new(), None);
    if common.format == Format::Table {
        head = header(&session, rank_conflict.as_deref());
        head.push_str(&how_it_ended(session.set.traces.iter().map(|trace| &trace.report)));
        for path in paths.iter().take(LISTED) {
            head.push_str(&path.line);
            head.push('\n');
        }
        if common.tables.is_empty() {
            let tables = fit_to_screen(&tables);
            shown = Some(if session.has_no_gpu_work() { without_gpu(tables) } else { tables });
        }
    }
    let tables = session.select_tables(tables)?;
    let written = Answer { command: "report", session: &session, extra, tables, head, shown }.write(common);
    match written {
        // The exit code depends on the conditions, even if the reader closes the pipe early.
        Err(error) if !conditions.is_empty() && is_closed_pipe(&error) => {}
        other => other?,
    }
    if conditions.is_empty() {
        return print_next(&session, has_operators, args, common).map(|()| false);
    }
    if gpu_rows == 0 {
        return Err(anyhow!(
            "--fail-on cannot be judged: the input has no GPU work; record GPU work, or leave --fail-on out"
        ));
    }
    verdict(&held, unjudged)
}

/// Evaluate `--fail-on` conditions on the table of GPU time. Returns sentences on those that hold, and errors for those
/// that cannot be judged.
fn judge(conditions: &[Condition], gpu_time: Option<&Table>) -> (Vec<String>, Vec<Error>) {
    let (mut held, mut unjudged) = (Vec::new(), Vec::new());
    let Some(gpu_time) = gpu_time else { return (held, unjudged) };
    for condition in conditions {
        match condition.holds(gpu_time) {
            Ok(words) => held.extend(words),
            Err(error) => unjudged.push(error),
        }
    }
    (held, unjudged)
}

/// Print the `--fail-on` conditions that hold; return true if any does. Conditions that cannot be judged then are
/// warnings, otherwise the first is the error.
fn verdict(held: &[String], unjudged: Vec<Error>) -> Result<bool> {
    held.iter().try_for_each(|text| print_message(&format!("--fail-on {text}")))?;
    let mut unjudged = unjudged.into_iter();
    if held.is_empty()
        && let Some(error) = unjudged.next()
    {
        return Err(error);
    }
    unjudged.try_for_each(|error| print_message(&format!("warning: {error}")))?;
    Ok(!held.is_empty())
}

/// Write the report for a language model (`--for-agent`) to the output. The result is always false.
fn for_agent(session: &Session<'_>, run: &Run, args: &ReportArgs) -> Result<bool> {
    let content = Content::compute(&session.set, &session.infos, &session.run_options(), false)?;
    let text = super::report_for_agent::text_for_agent(session, run, &content, &args.source);
    to_output(session.common, |out| out.write_all(text.as_bytes())).map(|()| false)
}

/// Show an input without traces with the command for its content: `memory`, or `calls` for call trees. The result is
/// true if a `--fail-on` condition held.
fn without_traces(args: &ReportArgs, common: &Common, run: &Run) -> Result<bool> {
    // A pipe was read to its end.
    if !args.fail_on.is_empty() || run.is_read_once() {
        run.traces()?;
    }
    let is_memory = run.is_memory_alone()?;
    let name = if is_memory { "memory" } else { "calls" };
    let refused = refused(name, common);
    if !refused.is_empty() {
        let (run, options) = (run.name(), refused.join(", "));
        return Err(wrong_use(if is_memory {
            format!(
                "{run}: `report` runs `stackline memory` for a memory file, and `memory` does not accept {options}; \
                 leave that out"
            )
        } else {
            format!(
                "{run}: `report` runs `stackline calls` for a recording without individual calls, and `calls` does \
                 not accept {options}; leave that out"
            )
        }));
    }
    if args.for_agent {
        use super::report_for_agent::{report_calls, report_memory};
        let text = if is_memory { report_memory(run, common)? } else { report_calls(run, common, &args.source)? };
        return to_output(common, |out| out.write_all(text.as_bytes())).map(|()| false);
    }
    let input = run.name();
    print_message(&if is_memory {
        format!("{input} has only memory data, so `report` shows the output of `stackline memory`")
    } else {
        format!(
            "{input} has totals per call path, not individual calls, so `report` shows the output of `stackline calls`"
        )
    })?;
    let words = ["stackline", name, "--"].map(OsStr::new).into_iter();
    let words = words.chain(run.inputs().iter().map(|path| path.as_os_str()));
    let (held, next) = match Cli::try_parse_from(words)?.command {
        // With several memory files, `memory` suggests the next file itself.
        Command::Memory(args) if !run.memory_files()?.is_empty() => return super::memory::run(&args, common),
        Command::Memory(args) => (super::memory::run(&args, common)?, "view"),
        // Findings need times, and `calls` returns true if the recording has some.
        Command::Calls(args) => (false, if super::calls::run(&args, common)? { "findings" } else { "view" }),
        _ => return Ok(false),
    };
    print_next_instead(next, args, common).map(|()| held)
}

/// Print the suggested next command after another command, such as `memory`, answered in place of `report`.
fn print_next_instead(next: &str, args: &ReportArgs, common: &Common) -> Result<()> {
    print_next_with(next, None, args, common)
}

/// Print the suggested next command, limited to `rank` if one is given. Nothing is printed for programs, and for pipes,
/// which cannot be read again.
fn print_next_with(next: &str, rank: Option<i64>, args: &ReportArgs, common: &Common) -> Result<()> {
    let is_for_people = common.format == Format::Table && common.tables.is_empty() && common.output.is_none();
    // A pipe cannot be read again.
    if !is_for_people || args.inputs.inputs.iter().any(|input| is_read_once(input)) {
        return Ok(());
    }
    let mut options = options_for(next, common, Some(&args.source));
    options.extend(rank.filter(|_| common.rank.is_none()).map(|rank| format!("--rank {rank}")));
    print_message(&format!("Next: {}", command_line(next, &args.inputs.inputs, &options)))
}

/// Print the suggested next command: `findings` if the trace has work to check, `doctor` if no event has a time,
/// otherwise `view`.
fn print_next(session: &Session<'_>, has_operators: bool, args: &ReportArgs, common: &Common) -> Result<()> {
    let infos = &session.infos;
    let has_work = has_operators || infos.iter().any(|info| info.gpu_operations > 0 || info.steps > 0);
    let next = match () {
        () if infos.iter().all(|info| info.window_ns().is_none()) => "doctor",
        () if has_work => "findings",
        () => "view",
    };
    // Findings are of the ranks of one job, or of one trace.
    let rank = session.infos.first().filter(|_| next == "findings" && !session.is_one_job()).map(|info| info.rank);
    print_next_with(next, rank, args, common)
}

/// Write the interactive page, with all answers that it needs, to one HTML file.
fn html(args: &ReportArgs, file: &Path, common: &Common) -> Result<()> {
    if common.scope() != Scope::default() || common.rank.is_some() || common.output.is_some() {
        return Err(wrong_use(
            "--html FILE writes all steps and ranks to FILE: leave --steps, --whole, --rank and -o out",
        ));
    }
    let most = args.max_size as usize * 1_000_000;
    let inputs: Vec<PathBuf> = args.inputs.inputs.iter().chain(&args.baseline).cloned().collect();
    not_an_input(file, &inputs)?;
    if !stackline_serve::is_built() {
        return Err(anyhow!(
            "this program was built without its web page; run `cd web && npm ci && npm run build`, then build the \
             program again"
        ));
    }
    let opened = super::view::open(&args.inputs.inputs, args.baseline.as_ref(), &args.source, common)?;
    let mut written = WrittenReport::default();
    to_file(file, |out| {
        written = stackline_serve::report(&opened, ReportOptions { most }, out)?;
        Ok(())
    })?;
    print_message(&format!("{}: {}, {} answers", file.display(), human::bytes(written.bytes as u64), written.kept))?;
    if !written.source_files.is_empty() {
        let files: Vec<&str> = written.source_files.iter().map(String::as_str).collect();
        let sources = if files.len() == 1 { "this source file" } else { "these source files" };
        print_message(&format!(
            "the HTML file contains the text of {sources} (--no-source omits it): {}",
            files.join(", ")
        ))?;
    }
    if let Some(left_out) = written.description() {
        print_message(&format!(
            "to stay below {} MB, the HTML file omits {left_out} (--max-size raises this limit)",
            args.max_size
        ))?;
    }
    print_message(
        "the HTML file cannot filter by text and contains only some individual events; `stackline view` shows all \
         events and can filter",
    )?;
    Ok(())
}

/// Load the report that `import` stored in a run directory; `None` for other inputs, or if options select part of the
/// run.
fn load_cached(inputs: &[PathBuf], common: &Common) -> Option<Content> {
    let whole = common.rank.is_none() && common.scope() == Scope::default();
    match inputs {
        [run] if whole => Content::load_cached(run),
        _ => None,
    }
}

/// Header lines: each trace with its size, omitted older traces, contradictory ranks, and GPUs.
fn header(session: &Session<'_>, rank_conflict: Option<&str>) -> String {
    let infos = &session.infos;
    let mut out = String::new();
    for info in infos.iter().take(LISTED) {
        out.push_str(&line(info, infos.len() > 1));
    }
    out.push_str(&older_traces(session));
    if infos.len() > LISTED {
        out.push_str(&format!("... and {} more traces\n", infos.len() - LISTED));
    }
    if let Some(reason) = rank_conflict {
        out.push_str(&format!(
            "Warning: the traces are not ranks of one job: {reason}; results that combine ranks are not valid\n"
        ));
    }
    let mut names: Vec<(String, usize)> = Vec::new();
    for gpu in infos.first().map(|i| &i.gpus[..]).unwrap_or_default() {
        let memory = gpu.memory_bytes.map(|b| format!(", {}", human::bytes(b))).unwrap_or_default();
        let name = format!("{}{memory}", gpu.name.as_deref().unwrap_or("unnamed"));
        match names.iter_mut().find(|(n, _)| *n == name) {
            Some((_, count)) => *count += 1,
            None => names.push((name, 1)),
        }
    }
    for (name, count) in names {
        out.push_str(&format!("GPU: {count} × {name}\n"));
    }
    stackline_present::terminal::clean_lines(&out)
}

/// Header lines with the numbers of older profiler cycles and of earlier processes of a rank that were omitted; empty
/// if none.
fn older_traces(session: &Session<'_>) -> String {
    let count = |of: fn(&ReadReport) -> u64| session.set.traces.iter().map(|trace| of(&trace.report)).sum::<u64>();
    let (cycles, restarted) = (count(older_cycles), count(earlier_processes));
    let each = if session.infos.len() > 1 { "each" } else { "the" };
    let mut out = String::new();
    if cycles > 0 {
        out.push_str(&format!(
            "Only the newest profiler cycle of {each} process is shown. Number of omitted older cycles: {cycles}. To \
             see an older cycle, pass only its file\n"
        ));
    }
    if restarted > 0 {
        out.push_str(&format!(
            "Only the newest process of {each} rank is shown, because the rank was restarted. Number of omitted older \
             processes: {restarted}. To see an older process, pass only its file\n"
        ));
    }
    out
}

fn line(info: &TraceInfo, many: bool) -> String {
    let window = info.window_ns().map_or("no timed events".to_owned(), |w| format!("window {}", human::duration(w)));
    let rank = match (info.rank_from_file, info.world_size) {
        (true, Some(size)) => format!(", rank {} of {size}", info.rank),
        (true, None) => format!(", rank {}", info.rank),
        (false, _) if many => {
            format!(", rank {} (no rank number recorded; the traces are numbered in their order)", info.rank)
        }
        (false, _) => String::new(),
    };
    format!(
        "{} ({}){rank}: {} events, {} GPU operations, {} steps, {window}\n",
        info.name,
        info.format,
        human::count(info.events),
        human::count(info.gpu_operations),
        info.steps,
    )
}
