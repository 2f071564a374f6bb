//! `doctor` for a recording of a call tree: recorded data per process and source.

use crate::args::Common;
use crate::commands::calls::{metric_names, read_report_of};
use crate::session::{Session, reading};
use anyhow::Result;
use stackline_engine::Run;
use stackline_model::{CallProcess, CallingContextTree, Table, Unit};
use std::path::Path;

/// Create the tables of `doctor` for a recording or profile, and a session with its read report.
pub(super) fn tables<'a>(run: &Run, common: &'a Common) -> Result<(Session<'a>, Vec<Table>)> {
    let (tree, path) = (reading(run, Run::profile)?, &run.inputs()[0]);
    let session = Session::from_reports(vec![read_report_of(path, &tree)], common);
    Ok((session, vec![processes(path, &tree), sources(&tree)]))
}

fn processes(run: &Path, tree: &CallingContextTree) -> Table {
    let rows = &tree.processes;
    let lost = |process: &CallProcess| process.lost.iter().map(|(_, count)| count).sum::<u64>();
    let run = run.display();
    let measured = match metric_names(tree) {
        names if names.is_empty() => "nothing".to_owned(),
        names => names.join(", "),
    };
    let findings = if tree.measured().iter().any(|metric| metric.is_time()) {
        format!(", and `stackline findings {run}` reports issues")
    } else {
        String::new()
    };
    Table::new("processes", "Processes of the recording")
        .i64("pid", Unit::None, rows.iter().map(|process| i64::from(process.pid)))
        .text("role", rows.iter().map(|process| process.role.name().to_owned()))
        .i64("rank", Unit::None, rows.iter().map(|process| process.rank.map(i64::from)))
        .i64("lasted_ns", Unit::Ns, rows.iter().map(|process| process.lasted_ns.and_then(|ns| i64::try_from(ns).ok())))
        .i64("lost", Unit::None, rows.iter().map(|process| i64::try_from(lost(process)).unwrap_or(i64::MAX)))
        .text("python", rows.iter().map(|process| process.python.clone()))
        .text("torch", rows.iter().map(|process| process.torch.clone()))
        .text("command", rows.iter().map(|process| process.command.join(" ")))
        .note(format!("Measured: {measured}."))
        .note(format!(
            "The recording contains totals per call path: `stackline calls {run}` and `stackline view {run}` show \
             them{findings}. To see single steps, the timeline, the critical path \
             and simulated gains, record each call: `stackline record --mode trace -- COMMAND`."
        ))
}

fn sources(tree: &CallingContextTree) -> Table {
    let sources_of_processes =
        || tree.processes.iter().flat_map(|process| process.sources.iter().map(move |source| (process, source)));
    Table::new("sources", "Data sources of each process, recorded or not")
        .i64("pid", Unit::None, sources_of_processes().map(|(process, _)| i64::from(process.pid)))
        .text("source", sources_of_processes().map(|(_, source)| source.name.clone()))
        .bool("on", sources_of_processes().map(|(_, source)| source.on))
        .text("detail", sources_of_processes().map(|(_, source)| source.detail.clone()))
}
