//! Command `memory` for several files: ranks of a job, or snapshots over time.

use super::described;
use crate::args::{Common, Format, MemoryArgs};
use crate::failure::{command_line, wrong_use};
use crate::output::{Answer, print_message};
use crate::progress::ProgressDisplay;
use crate::session::{Session, reading};
use anyhow::Result;
use serde_json::json;
use stackline_engine::{Error, Run};
use stackline_ingest::diagnostics::note_skipped_input;
use stackline_memory::tables::{Arrangement, MemorySource, MemorySummary, SeveralMemories, unique_ranks};
use stackline_model::{MemoryTrace, Severity, Trace};
use std::path::{Path, PathBuf};

/// Files of memory, each with its name.
type Files = [(PathBuf, String)];

/// Results of reading several files.
pub(in crate::commands) struct Read {
    pub(in crate::commands) memories: SeveralMemories,
    /// The read reports of the files, and of those that could not be read.
    pub(in crate::commands) reports: Vec<Trace>,
}

/// Run `stackline memory` on several files: ranks of a job, or snapshots over time.
pub(super) fn run(run: &Run, files: &Files, args: &MemoryArgs, common: &Common) -> Result<()> {
    refuse_options_of_one(files, args)?;
    let Read { memories, reports } = read(run, files, common)?;
    let name = match memories.arrangement() {
        Arrangement::Ranks => "memory-ranks",
        Arrangement::Times => "memory-series",
    };
    let mut head = String::new();
    if common.format == Format::Table {
        head = format!("{}\n{}\n", run.name(), memories.sentences().join("\n"));
    }
    let session = Session::from_reports(reports, common);
    let tables = session.select_tables(memories.tables())?;
    let inputs: Vec<String> = run.inputs().iter().map(|path| path.display().to_string()).collect();
    let extra = vec![("inputs", json!(inputs).into())];
    Answer { command: name, session: &session, extra, tables, head, shown: None }.write(common)?;
    let is_for_people = common.format == Format::Table && common.tables.is_empty() && common.output.is_none();
    if is_for_people { print_message(&next(&memories, run)) } else { Ok(()) }
}

/// Memory trace of a rank. If file names contain the rank, no other file is read.
pub(in crate::commands) fn trace_of_rank(
    run: &Run,
    files: &Files,
    (rank, common): (i64, &Common),
) -> Result<MemoryTrace> {
    let names: Vec<&str> = files.iter().map(|(_, name)| &**name).collect();
    if let Some(mut ranks) = unique_ranks(&names) {
        let Some(at) = ranks.iter().position(|known| *known == rank) else {
            ranks.sort_unstable();
            return Err(Error::NoRank { requested: rank, available: ranks }.into());
        };
        let mut traces = reading(run, |run| run.memories_of_file(&files[at].0))?;
        if traces.len() == 1 {
            return Ok(traces.swap_remove(0));
        }
    }
    let Read { memories, .. } = read(run, files, common)?;
    let MemorySource { path, member } =
        memories.file_of_rank(rank).map_err(|available| match available.is_empty() {
            true => {
                wrong_use("--rank does not apply, because the memory files have no ranks; give one file without --rank")
            }
            false => Error::NoRank { requested: rank, available }.into(),
        })?;
    let traces = reading(run, |run| run.memories_of_file(path))?;
    traces.into_iter().nth(member.unwrap_or(0)).ok_or_else(|| wrong_use("no memory file could be read"))
}

/// Read memory files one after another and keep only a summary of each.
pub(in crate::commands) fn read(run: &Run, files: &Files, common: &Common) -> Result<Read> {
    let _progress = ProgressDisplay::start(&run.options().watch);
    let (mut summaries, mut reports, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for (path, name) in files {
        let traces = match run.memories_of_file(path) {
            Err(Error::Cancelled) => return Err(Error::Cancelled.into()),
            Err(error) => {
                failed.push(error);
                continue;
            }
            Ok(traces) => traces,
        };
        for (at, trace) in traces.iter().enumerate() {
            let member = (traces.len() > 1).then_some(at);
            let name = &if member.is_some() { name_of_member((path, name), trace, files) } else { name.clone() };
            summaries.push(MemorySummary::new(MemorySource { path: path.clone(), member }, name, trace));
            // People would read the same remarks for each rank.
            let is_lost = |problem: &stackline_model::Problem| problem.severity == Severity::Lost;
            if common.format != Format::Table || trace.report.problems.iter().any(is_lost) {
                let mut report = described(trace);
                report.meta.name.clone_from(name);
                reports.push(report);
            }
        }
    }
    if summaries.is_empty() {
        return Err(failed.into_iter().next().map_or_else(|| wrong_use("no memory file could be read"), Into::into));
    }
    let mut skipped = Trace::default();
    skipped.meta.name = run.name();
    failed.iter().for_each(|error| note_skipped_input(&mut skipped.report, &error.to_string()));
    if !failed.is_empty() {
        reports.push(skipped);
    }
    Ok(Read { memories: SeveralMemories::new(summaries), reports })
}

/// Display name of a memory trace: the file, followed by the member if the file holds several traces.
fn name_of_member((path, name): (&Path, &str), trace: &MemoryTrace, files: &Files) -> String {
    if files.len() == 1 {
        return trace.label.clone();
    }
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    match trace.label.strip_prefix(&*file) {
        Some(member) => format!("{name}{member}"),
        None => format!("{name}/{}", trace.label),
    }
}

/// Return an error if options were given that apply only to a single memory trace.
fn refuse_options_of_one(files: &Files, args: &MemoryArgs) -> Result<()> {
    let gate = &args.gate;
    let given = [
        ("--peaks", args.peaks.is_some()),
        ("--by", args.by.is_some()),
        ("--at", args.at.is_some()),
        ("--curve", args.curve),
        ("--objects", args.objects),
        ("--apply", !args.apply.is_empty()),
        ("--rules", args.rules.is_some()),
        ("--set", !args.set.is_empty()),
        ("--process", args.process.is_some()),
        ("--as", gate.document.is_some()),
        ("--min-gain", gate.min_gain.is_some()),
        ("--baseline", gate.baseline.is_some()),
        ("--ignore", gate.ignore.is_some()),
        ("--source-root", !gate.comments.source_root.is_empty() || gate.comments.source.is_some()),
        ("--no-source", gate.comments.no_source),
        ("--fail-on", !gate.fail_on.is_empty()),
    ];
    let given: Vec<&str> = given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect();
    if given.is_empty() {
        return Ok(());
    }
    let given = given.join(", ");
    Err(wrong_use(match files {
        [(archive, _)] => {
            let archive = archive.display();
            format!(
                "{given} needs one memory trace, and {archive} contains several; unpack it and give one of its files"
            )
        }
        _ => {
            let example = files.first().map(|(path, _)| path.display().to_string()).unwrap_or_default();
            let count = files.len();
            format!("{given} needs one memory trace, but {count} files were given; give one, such as {example}")
        }
    }))
}

/// Text with the next command: `memory` for one of the files, or `diff` for the first and last snapshot.
fn next(memories: &SeveralMemories, run: &Run) -> String {
    let files = memories.suggested_files();
    let paths: Vec<PathBuf> = files.iter().map(|(_, source)| source.path.clone()).collect();
    let is_packed = files.iter().any(|(_, source)| source.member.is_some() && !source.path.is_dir());
    let command = match (&files[..], memories.arrangement()) {
        ([(Some(rank), _)], _) if is_packed => command_line("memory", run.inputs(), &[format!("--rank {rank}")]),
        _ if is_packed => {
            return "Unpack the archive to analyze one of its files, or to compare two with `stackline diff`."
                .to_owned();
        }
        ([_, _], Arrangement::Times) => command_line("diff", &paths, &[]),
        _ => command_line("memory", &paths, &[]),
    };
    format!("Next: {command}")
}
