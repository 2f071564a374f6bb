//! Command `record`: runs a command with the recorder in its Python processes, and merges their event streams.
//!
//! The command behaves as without recording. Failures here after its start never change its result.

mod launch;
mod options;
mod run_directory;
mod surviving_processes;

use crate::args::{Common, Mode, RecordArgs};
use crate::failure::command_line;
use crate::output::print_message;
use anyhow::Result;
use run_directory::RunDirectory;
use stackline_engine::{OpenOptions, Run};
use stackline_model::{CallingContextTree, FrameKind, Problem, Severity};
use stackline_present::human;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// Record a command and return its exit code. If a signal killed the command, this process ends by the same signal.
pub(crate) fn run(args: &RecordArgs, common: &Common) -> Result<u8> {
    let options = options::variables(args, common)?;
    for warning in options::former_name_warnings(args) {
        // The command runs even if the warning cannot be written.
        let _ = print_message(&format!("stackline: {warning}"));
    }
    let recorder = run_directory::recorder()?;
    launch::outlive_file_limit();
    let place = match RunDirectory::create(common.output.as_deref(), &args.command) {
        Ok(place) => place,
        Err(error) if is_storage_full(&error) => {
            print_message(&format!("stackline: {error:#}: the command runs without recording"))?;
            return Ok(launch::end_like(launch::run(&args.command, &[])?.1));
        }
        Err(error) => return Err(error),
    };
    let mut environment = place.environment(&recorder)?;
    environment.extend(options);
    environment.extend(launch::start_time_variable());
    let ended = match launch::run(&args.command, &environment) {
        Ok(ended) => ended,
        Err(error) => {
            place.give_up();
            return Err(error);
        }
    };
    place.remove_bootstrap();
    // Best effort: the stream of a killed process also shows that the process was killed.
    let (pid, ended) = ended;
    let signaled = launch::signaled(pid, ended);
    let _ = signaled.as_ref().map(|signaled| signaled.note(place.path()));
    let how = signaled.map(|signaled| signaled.name);
    let how = how.map_or_else(String::new, |signal| format!("the command was ended by {signal}; "));
    let run = place.shown();
    let running = surviving_processes::sentence(place.path());
    // The exit code is the command's, even if the recording fails.
    let _ = match stackline_engine::merge_calls(place.path()) {
        Ok(tree) => print_message(&summary(&tree, (&how, &run, next(args, &tree)), (part(args, common), &running))),
        Err(stackline_engine::Error::Ingest(stackline_ingest::Error::NoStreams { .. })) => {
            place.give_up();
            print_message(&format!("stackline: {how}{NOTHING}"))
        }
        Err(error) => print_message(&not_merged(args, common, &place, (&how, &error))),
    };
    Ok(launch::end_like(ended))
}

/// Check if an error means that storage, quota or the file size limit is exceeded. The command then runs without
/// recording.
fn is_storage_full(error: &anyhow::Error) -> bool {
    let kind = error.root_cause().downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::FileTooLarge | ErrorKind::QuotaExceeded))
}

const NOTHING: &str = "nothing was recorded: no Python process started the recorder. Recording needs Python without \
                       -I, -S and -E, and the environment variables that `record` sets.";

/// Message for a recording whose merged call tree could not be saved, or whose data could not be merged.
fn not_merged(
    args: &RecordArgs,
    common: &Common,
    place: &RunDirectory,
    (how, error): (&str, &stackline_engine::Error),
) -> String {
    let run = place.shown();
    let read = Run::open(&[place.path().to_owned()], &OpenOptions::default()).and_then(|run| run.profile());
    match read {
        Ok(tree) => {
            let more = format!(
                ". The merged call tree could not be saved: {error}. `stackline calls {run}` merges the data of the \
                 processes again"
            );
            summary(&tree, (how, &run, next(args, &tree)), (part(args, common), &more))
        }
        Err(_) => format!(
            "stackline: {how}the recorded data of the processes could not be merged: {error}. The data is in {run}."
        ),
    }
}

/// Text on missing records of the recording, to append to the summary; empty if none are missing.
fn missing(tree: &CallingContextTree) -> String {
    let is_write = |problem: &&Problem| ["not_written", "write_delayed"].contains(&problem.code.as_str());
    let mut text: String =
        tree.report.problems.iter().filter(is_write).map(|problem| format!("; {}", problem.example)).collect();
    let is_other = |problem: &Problem| problem.severity != Severity::Note && !is_write(&problem);
    if tree.report.problems.iter().any(is_other) {
        text.push_str("; records may be missing: `stackline doctor` on the run lists the reasons");
    }
    text
}

/// Part of the program's run that the options record: all, from a later start, or up to a duration.
#[derive(Clone, Copy)]
enum Part {
    All,
    /// Start at a time or step, or a range of steps.
    Later,
    /// For a time, which counts from the begin of the recording: imports may take longer.
    Ends,
}

/// Part of the program's run that the options select for recording.
fn part(args: &RecordArgs, common: &Common) -> Part {
    if args.duration.is_some() {
        Part::Ends
    } else if common.steps.is_some() || args.every.is_some() || args.after.is_some() {
        Part::Later
    } else {
        Part::All
    }
}

/// Suggested next command: `memory` or `findings` if operator calls are recorded, otherwise `calls`.
fn next(args: &RecordArgs, tree: &CallingContextTree) -> &'static str {
    let is_operator = |kind| matches!(kind, FrameKind::Operator | FrameKind::Backward);
    let has_operators = tree.frames.iter().any(|frame| is_operator(frame.kind()));
    match args.mode {
        Some(Mode::Trace) if has_operators && args.memory => "memory",
        _ if has_operators => "findings",
        _ => "calls",
    }
}

/// Summary line: end of the command, recorded data, sources, missing records, `more`, and the next command.
fn summary(tree: &CallingContextTree, (how, run, next): (&str, &str, &str), (part, more): (Part, &str)) -> String {
    let mut off: Vec<String> = Vec::new();
    let mut on: Vec<&str> = Vec::new();
    for source in tree.processes.iter().flat_map(|process| &process.sources) {
        if source.on && !on.contains(&source.name.as_str()) {
            on.push(&source.name);
        }
        // The details of an enabled source list its available data first, then its missing data.
        let lacks = source.detail.split("; ").filter(|part| source.on && part.starts_with("no "));
        let lacking = lacks.map(|part| format!("{}: {part}", source.name));
        let text = (!source.on).then(|| format!("{} off ({})", source.name, source.detail));
        for text in text.into_iter().chain(lacking) {
            if !off.contains(&text) {
                off.push(text);
            }
        }
    }
    let sources = if on.is_empty() { "no data source was active".to_owned() } else { format!("{} on", on.join(", ")) };
    let lost = missing(tree);
    let is_whole = lost.is_empty() && !tree.processes.is_empty();
    let nothing = match (tree.metrics.is_empty(), part) {
        (false, _) => "",
        (true, _) if !how.is_empty() => "; nothing was measured before the program ended",
        (true, Part::Later) => "; nothing was measured: the program may have ended before the requested steps or time",
        (true, Part::Ends) => {
            "; nothing was measured: the program may not have reached the requested steps or time, or ran no operator \
             in them"
        }
        (true, Part::All) if is_whole => "; no PyTorch operator ran",
        (true, Part::All) => "; no measurement was written, so it is unknown if PyTorch operators ran",
    };
    let overhead = super::overhead::sentence(tree).map_or_else(String::new, |text| format!("; {text}"));
    let (paths, sources) = (human::count(tree.nodes.len().saturating_sub(1)), [vec![sources], off].concat().join("; "));
    format!(
        "stackline: {how}recorded {paths} call paths of {} ({sources}){nothing}{lost}{overhead}{more}. Next: {}",
        super::calls::processes(tree),
        command_line(next, &[PathBuf::from(run)], &[]),
    )
}

#[cfg(test)]
mod tests {
    use super::{Part, missing, summary};
    use stackline_model::{CallOverhead, CallProcess, CallingContextTree, Severity};

    #[test]
    fn programs_that_failed_immediately_are_not_reported_as_run_without_operators() {
        let tree = CallingContextTree { processes: vec![CallProcess::default()], ..CallingContextTree::default() };
        let summary_for = |how| summary(&tree, (how, "a.stackline", "calls"), (Part::All, ""));
        let failed = summary_for("the command exited with 1. ");
        assert!(failed.contains("; nothing was measured before the program ended"), "{failed}");
        assert!(summary_for("").contains("; no PyTorch operator ran"));
        let nothing = summary(&CallingContextTree::default(), ("", "a.stackline", "calls"), (Part::All, ""));
        assert!(nothing.contains("it is unknown if PyTorch operators ran"), "{nothing}");
    }

    #[test]
    fn failed_writes_are_reported_with_their_reason() {
        let mut tree = CallingContextTree::default();
        tree.report.count(
            "not_written",
            Severity::Lost,
            "",
            None,
            "7-0.slr: disk full for 2.1 s; 12 records were not written",
        );
        assert_eq!(missing(&tree), "; 7-0.slr: disk full for 2.1 s; 12 records were not written");
        tree.report.count("process_killed", Severity::Lost, "", None, "8-0.slr");
        assert!(
            missing(&tree).ends_with("; records may be missing: `stackline doctor` on the run lists the reasons"),
            "{}",
            missing(&tree)
        );
    }

    #[test]
    fn reason_for_missing_measurements_follows_from_the_requested_part() {
        let tree = CallingContextTree { processes: vec![CallProcess::default()], ..CallingContextTree::default() };
        let summary_for = |part| summary(&tree, ("", "a.stackline", "calls"), (part, ""));
        let (later, ends) = (summary_for(Part::Later), summary_for(Part::Ends));
        assert!(later.contains("ended before the requested steps or time. Next"), "{later}");
        assert!(ends.contains("or ran no operator in them. Next"), "{ends}");
    }

    #[test]
    fn suggested_command_ends_the_line() {
        let overhead = Some(CallOverhead { unrecorded_steps: 1, ..CallOverhead::default() });
        let process = CallProcess { overhead, ..CallProcess::default() };
        let tree = CallingContextTree { processes: vec![process], ..CallingContextTree::default() };
        let text = summary(&tree, ("", "a.stackline", "calls"), (Part::All, "; 1 process is still running"));
        assert!(text.ends_with("still running. Next: stackline calls a.stackline"), "{text}");
        assert!(text.contains("; overhead of recording: unknown, because too few steps"), "{text}");
    }
}
