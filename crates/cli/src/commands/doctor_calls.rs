//! `doctor` of a recording that keeps sums of calls: there is no trace in it to look at, but what was recorded, and how.

use crate::commands::calls::{metric_names, read_report_of};
use crate::session::Session;
use anyhow::{Error, Result};
use stackline_model::{CallProcess, CallTree, ReadReport, Table, TraceSet, Unit};
use std::path::{Path, PathBuf};

/// The recording and what was met in its streams, if that is why the inputs did not open as traces.
pub(super) fn instead_of(error: &Error) -> Option<(PathBuf, ReadReport)> {
    match error.downcast_ref() {
        Some(stackline_engine::Error::OnlyCalls { path, report }) => Some((path.clone(), (**report).clone())),
        _ => None,
    }
}

/// Its calls, with what was met in its streams.
pub(super) fn open((run, streams): (&Path, &ReadReport)) -> Result<CallTree> {
    let mut tree = stackline_engine::open_calls(run)?;
    stackline_engine::note_lost(&mut tree.report, streams);
    Ok(tree)
}

/// Its tables; the session gets its read report.
pub(super) fn tables((run, streams): (&Path, &ReadReport), session: &mut Session<'_>) -> Result<Vec<Table>> {
    let tree = open((run, streams))?;
    session.set = TraceSet { traces: vec![read_report_of(run, &tree)] };
    Ok(vec![processes(run, &tree), sources(&tree)])
}

fn processes(run: &Path, tree: &CallTree) -> Table {
    let of = &tree.processes;
    let lost = |process: &CallProcess| process.lost.iter().map(|(_, count)| count).sum::<u64>();
    let run = run.display();
    Table::new("processes", "Processes of the recording")
        .i64("pid", Unit::None, of.iter().map(|process| i64::from(process.pid)))
        .text("role", of.iter().map(|process| process.role.name().to_owned()))
        .i64("rank", Unit::None, of.iter().map(|process| process.rank.map(i64::from)))
        .i64("lasted_ns", Unit::Ns, of.iter().map(|process| process.lasted_ns.and_then(|ns| i64::try_from(ns).ok())))
        .i64("lost", Unit::None, of.iter().map(|process| i64::try_from(lost(process)).unwrap_or(i64::MAX)))
        .text("python", of.iter().map(|process| process.python.clone()))
        .text("torch", of.iter().map(|process| process.torch.clone()))
        .text("command", of.iter().map(|process| process.command.join(" ")))
        .note(format!("Measured: {}.", metric_names(tree).join(", ")))
        .note(format!(
            "It keeps sums of calls: stackline calls {run} and stackline view {run} show them, stackline findings {run} tells what \
             to change. Single steps, the timeline, the critical path and gains by replay need single calls: stackline record \
             --mode trace -- COMMAND."
        ))
}

fn sources(tree: &CallTree) -> Table {
    let of = || tree.processes.iter().flat_map(|process| process.sources.iter().map(move |source| (process, source)));
    Table::new("sources", "What was recorded, and what could not be")
        .i64("pid", Unit::None, of().map(|(process, _)| i64::from(process.pid)))
        .text("source", of().map(|(_, source)| source.name.clone()))
        .bool("on", of().map(|(_, source)| source.on))
        .text("detail", of().map(|(_, source)| source.detail.clone()))
}
