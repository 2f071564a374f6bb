//! `memory` of several files: ranks of a job beside each other, or a series in time.

use super::described;
use crate::args::{Common, Format, MemoryArgs};
use crate::failure::{command_line, wrong_use};
use crate::output::{Answer, say};
use crate::progress::Progress;
use crate::session::Session;
use anyhow::Result;
use serde_json::json;
use stackline_engine::{Error, Run};
use stackline_ingest::problems::note_skipped_input;
use stackline_memory::tables::{Arrangement, MemorySummary, SeveralMemories};
use stackline_model::{Severity, Trace};
use std::path::{Path, PathBuf};

/// Files of memory, each with its name below its folder.
type Files = [(PathBuf, String)];

/// What was read of several files.
struct Read {
    memories: SeveralMemories,
    /// The read reports of the files, and of those that could not be read.
    reports: Vec<Trace>,
}

/// Shows several files of memory.
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
    let session = Session::of_reports(reports, common);
    let tables = session.pick(memories.tables())?;
    let inputs: Vec<String> = run.inputs().iter().map(|path| path.display().to_string()).collect();
    let extra = vec![("inputs", json!(inputs).into())];
    Answer { command: name, session: &session, extra, tables, head, shown: None }.write(common)?;
    let is_for_people = common.format == Format::Table && common.tables.is_empty() && common.output.is_none();
    if is_for_people { say(&format!("Next: {}", next(&memories, files))) } else { Ok(()) }
}

/// The file of a rank.
pub(super) fn file_of_rank(run: &Run, files: &Files, (rank, common): (i64, &Common)) -> Result<PathBuf> {
    let Read { memories, .. } = read(run, files, common)?;
    let name = memories.file_of_rank(rank).map_err(|available| match available.is_empty() {
        true => wrong_use("--rank: these files of memory do not say which ranks they are; give one of them"),
        false => Error::NoRank { wanted: rank, available }.into(),
    })?;
    Ok(path_of(files, name).to_owned())
}

/// Reads file after file: of each only its summary is kept.
fn read(run: &Run, files: &Files, common: &Common) -> Result<Read> {
    let _progress = Progress::start(&run.options().watch);
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
        for trace in &traces {
            let name = if traces.len() > 1 { &trace.label } else { name };
            summaries.push(MemorySummary::new(name, trace));
            // People would read the same remarks for each rank.
            let is_told = |problem: &stackline_model::Problem| problem.severity == Severity::Lost;
            if common.format != Format::Table || trace.report.problems.iter().any(is_told) {
                let mut report = described(trace);
                report.meta.name.clone_from(name);
                reports.push(report);
            }
        }
    }
    if summaries.is_empty() {
        return Err(failed.into_iter().next().map_or_else(|| wrong_use("no file of memory was read"), Into::into));
    }
    let mut skipped = Trace::default();
    skipped.meta.name = run.name();
    failed.iter().for_each(|error| note_skipped_input(&mut skipped.report, &error.to_string()));
    if !failed.is_empty() {
        reports.push(skipped);
    }
    Ok(Read { memories: SeveralMemories::new(summaries), reports })
}

fn refuse_options_of_one(files: &Files, args: &MemoryArgs) -> Result<()> {
    let gate = &args.gate;
    let asked = [
        ("--at", args.at.is_some()),
        ("--curve", args.curve),
        ("--objects", args.objects),
        ("--apply", !args.apply.is_empty()),
        ("--rules", args.rules.is_some()),
        ("--process", args.process.is_some()),
        ("--as", gate.document.is_some()),
        ("--baseline", gate.baseline.is_some()),
        ("--ignore", gate.ignore.is_some()),
        ("--fail-on", !gate.fail_on.is_empty()),
    ];
    let asked: Vec<&str> = asked.into_iter().filter(|(_, is_asked)| *is_asked).map(|(name, _)| name).collect();
    if asked.is_empty() {
        return Ok(());
    }
    let example = files.first().map(|(path, _)| path.display().to_string()).unwrap_or_default();
    let (asked, count) = (asked.join(", "), files.len());
    Err(wrong_use(format!("{asked}: of one memory trace, and these are {count} files; give one, such as {example}")))
}

/// The command that shows one of the ranks, or what changed from the first to the last time.
fn next(memories: &SeveralMemories, files: &Files) -> String {
    let paths: Vec<PathBuf> = memories.to_look_at().into_iter().map(|name| path_of(files, name).to_owned()).collect();
    match memories.arrangement() {
        Arrangement::Ranks => command_line("memory", &paths, &[]),
        Arrangement::Times => command_line("diff", &paths, &[]),
    }
}

/// The path of a file that is called so; of a member of an archive that of the archive.
fn path_of<'f>(files: &'f Files, name: &str) -> &'f Path {
    let is_it = |(_, known): &&(PathBuf, String)| known == name || name.starts_with(&format!("{known}/"));
    files.iter().find(is_it).or(files.first()).map_or(Path::new(""), |(path, _)| path)
}
