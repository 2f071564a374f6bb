//! Findings of one rank, or of all ranks of a distributed job, whose traces are read one after another.

use super::python_rules::PythonRules;
use crate::args::Common;
use crate::commands::critical_path::{one_trace, refuse};
use crate::failure::wrong_use;
use crate::progress::ProgressDisplay;
use crate::session::Session;
use anyhow::{Context, Result};
use stackline_critical_path::CriticalPathError;
use stackline_engine::{Run, check_cycles, check_steps};
use stackline_findings as findings;
use stackline_findings::{ExternalRules, Finding, Findings, Options};
use stackline_model::{MemoryTrace, ReadReport, Trace};
use stackline_present::TraceInfo;
use stackline_query::RunChecks;

/// Options, and Python rules that are running.
type How<'o> = (&'o Options, &'o mut Option<PythonRules>);

/// Callback for each rank's trace with its findings, while the trace is in memory.
type See<'s> = &'s mut dyn FnMut(i64, &Trace, &Findings);

/// Findings of the user's Python rules, after waiting for their end; empty without Python rules.
fn external_rules(own: &mut Option<PythonRules>) -> Result<ExternalRules> {
    Ok(own.take().map(PythonRules::finish).transpose()?.unwrap_or_default())
}

/// Search the trace of the selected rank for findings.
pub(super) fn find_in_one_rank<'a>(
    mut run: Run,
    common: &'a Common,
    (options, own): How<'_>,
    keep: &dyn Fn(&Finding) -> bool,
    see: See<'_>,
) -> Result<(Session<'a>, Findings)> {
    let session = Session::from_run(&mut run, common)?;
    let trace = one_trace(&session)?;
    let options = &Options { is_alone: true, ..options.clone() };
    let found = findings::find_with(trace, options, &external_rules(own)?, keep).map_err(refuse)?;
    see(session.infos.first().map_or(0, |info| info.rank), trace, &found);
    let memory = run.find_memory(common.rank)?;
    let found = stackline_engine::findings_with_memory(found, memory.as_ref(), options, keep);
    Ok((session, found))
}

/// Results of the ranks analyzed so far.
#[derive(Default)]
struct RankResults {
    /// Description, read report and checks of each trace.
    traces: Vec<(TraceInfo, ReadReport, RunChecks)>,
    found: Vec<(i64, Findings)>,
    /// Ranks in which nothing can be looked for, and why.
    failed: Vec<(i64, CriticalPathError)>,
}

impl RankResults {
    /// Add the description and read report of a rank's trace. A newer profiler cycle of a process replaces the older
    /// one and its findings.
    fn add_trace(&mut self, trace: &Trace, rank: i64, takes_place_of: Option<usize>) {
        let added = (TraceInfo::new(trace, rank), trace.report.clone(), RunChecks::of_trace(trace));
        let Some(known) = takes_place_of.and_then(|at| self.traces.get_mut(at)) else {
            self.traces.push(added);
            return;
        };
        *known = added;
        self.found.retain(|(described, _)| *described != rank);
        self.failed.retain(|(described, _)| *described != rank);
    }
}

/// Search all traces for findings, and merge the results of several ranks.
pub(super) fn find_in_all_ranks<'a>(
    mut run: Run,
    common: &'a Common,
    (options, own): How<'_>,
    keep: &dyn Fn(&Finding) -> bool,
    see: See<'_>,
) -> Result<(Session<'a>, Findings)> {
    let progress = ProgressDisplay::start(&run.options().watch);
    let mut looked = RankResults::default();
    let options = &Options { is_alone: run.is_one_trace(), ..options.clone() };
    let (has_own, mut known) = (own.is_some(), None);
    let left_out = run.each_rank(&mut |trace: Trace, takes_place_of: Option<usize>| -> Result<()> {
        if has_own && takes_place_of.is_none() && !looked.traces.is_empty() {
            return Err(wrong_use(
                "Python rules analyze only one rank, and the input has several; select one with --rank",
            ));
        }
        check_steps(std::slice::from_ref(&trace), &options.scope)?;
        check_cycles(&trace, &options.scope)?;
        let rank = trace.meta.rank.unwrap_or(0);
        looked.add_trace(&trace, rank, takes_place_of);
        if known.is_none() {
            known = Some(external_rules(own)?);
        }
        match findings::find_with(&trace, options, known.as_ref().unwrap_or(&ExternalRules::default()), keep) {
            Ok(found) => {
                see(rank, &trace, &found);
                looked.found.push((rank, found));
            }
            Err(error) => looked.failed.push((rank, error)),
        }
        Ok(())
    })?;
    let memory = run.find_memory(None)?;
    drop(progress);
    let RankResults { traces, found, failed } = looked;
    let run_checks = RunChecks::sum(traces.iter().map(|(_, _, of_trace)| of_trace));
    let (infos, mut reports): (Vec<_>, Vec<_>) = traces.into_iter().map(|(info, report, _)| (info, report)).unzip();
    if let Some(first) = reports.first_mut() {
        stackline_engine::note_left_out(first, &left_out);
    }
    let merged = combined((found, failed), memory.as_ref(), (options, keep))?;
    Ok((Session::described(&infos, &reports, common).with_run_checks(run_checks), merged))
}

/// Findings of a session's traces: all ranks of a job, merged, with memory. Traces that are not ranks of one job give
/// findings of the first, with a note.
///
/// # Errors
/// If nothing can be looked for in any trace, or memory cannot be read.
pub(in crate::commands) fn find_in_session(session: &Session<'_>, run: &Run) -> Result<Findings> {
    let is_job = session.infos.iter().all(|info| info.rank_from_file);
    let looked_at = if is_job { session.infos.len() } else { 1 };
    let (scope, threads) = (session.scope, session.common.threads);
    let options = Options { scope, threads, is_alone: looked_at == 1, ..Options::default() };
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for (trace, info) in session.set.traces.iter().zip(&session.infos).take(looked_at) {
        match findings::find(trace, &options) {
            Ok(of_rank) => found.push((info.rank, of_rank)),
            Err(error) => failed.push((info.rank, error)),
        }
    }
    let memory = run.find_memory(session.common.rank)?;
    let mut merged = combined((found, failed), memory.as_ref(), (&options, &|_| true))?;
    if let Some(first) = session.infos.first().filter(|_| looked_at < session.infos.len()) {
        let (name, all) = (&first.name, session.infos.len());
        merged.notes.push(format!(
            "findings cover only {name}, because the {all} traces are not marked as ranks of one job; \
             analyze each of the other traces on its own"
        ));
    }
    Ok(merged)
}

/// Something of ranks, by their numbers.
type ByRank<T> = Vec<(i64, T)>;

/// Merge the findings of all ranks and of the memory trace, with a note for each excluded rank.
fn combined(
    (found, failed): (ByRank<Findings>, ByRank<CriticalPathError>),
    memory: Option<&MemoryTrace>,
    (options, keep): (&Options, &dyn Fn(&Finding) -> bool),
) -> Result<Findings> {
    let Some(merged) = findings::merge(found, options, keep) else {
        let (_, error) = failed.into_iter().next().context("no trace could be read")?;
        return Err(refuse(error));
    };
    let mut merged = stackline_engine::findings_with_memory(merged, memory, options, keep);
    merged.notes.extend(failed.into_iter().map(|(rank, error)| format!("rank {rank} is excluded: {error}")));
    Ok(merged)
}
