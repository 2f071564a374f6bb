//! Findings of one rank, and of all ranks of a job: these are read one after another.

use super::memory;
use super::own::OwnRules;
use crate::args::{Common, FindingsArgs};
use crate::commands::critical_path::{one_trace, refuse};
use crate::failure::wrong_use;
use crate::progress::Progress;
use crate::session::{Session, not_an_input};
use anyhow::{Context, Result};
use stackline_analyze::critical_path::CriticalPathError;
use stackline_analyze::findings::{self, Finding, Findings, Options, Others};
use stackline_engine::{OpenOptions, Watch, check_steps};
use stackline_model::{MemoryTrace, ReadReport, Trace};
use stackline_present::TraceInfo;

/// How to look, and rules of the user's own that are being run.
type How<'o> = (&'o Options, &'o mut Option<OwnRules>);

/// Sees each rank's trace while it is at hand, with what was found in it.
type See<'s> = &'s mut dyn FnMut(i64, &Trace, &Findings);

fn others(own: &mut Option<OwnRules>) -> Result<Others> {
    Ok(own.take().map(OwnRules::finish).transpose()?.unwrap_or_default())
}

/// Of the rank that was chosen.
pub(super) fn of_one<'a>(
    args: &FindingsArgs,
    common: &'a Common,
    (options, own): How<'_>,
    keep: &dyn Fn(&Finding) -> bool,
    see: See<'_>,
) -> Result<(Session<'a>, Findings)> {
    let session = Session::open(&args.inputs.inputs, common)?;
    let trace = one_trace(&session)?;
    let found = findings::find_with(trace, options, &others(own)?, keep).map_err(refuse)?;
    see(session.infos.first().map_or(0, |info| info.rank), trace, &found);
    let open = crate::session::open_options(common);
    let memory = stackline_engine::memory_of_rank(&args.inputs.inputs, trace, &open);
    let memory = stackline_engine::if_any(memory)?;
    let found = stackline_engine::findings_with_memory(found, memory.as_ref(), options, keep);
    Ok((session, found))
}

/// What is known of the ranks that were looked at so far.
#[derive(Default)]
struct Looked {
    infos: Vec<TraceInfo>,
    reports: Vec<ReadReport>,
    found: Vec<(i64, Findings)>,
    /// Ranks in which nothing can be looked for, and why.
    failed: Vec<(i64, CriticalPathError)>,
    /// The first memory trace within them.
    memory: Option<MemoryTrace>,
}

/// Of all ranks, merged; of one trace as it is.
pub(super) fn of_all<'a>(
    args: &FindingsArgs,
    common: &'a Common,
    (options, own): How<'_>,
    keep: &dyn Fn(&Finding) -> bool,
    see: See<'_>,
) -> Result<(Session<'a>, Findings)> {
    if let Some(target) = &common.output {
        not_an_input(target, &args.inputs.inputs)?;
    }
    let watch = Watch::new();
    let progress = Progress::start(&watch);
    let open = OpenOptions { watch: watch.clone(), ..crate::session::open_options(common) };
    let mut looked = Looked::default();
    let has_own = own.is_some();
    let skipped = stackline_engine::open_ranks(&args.inputs.inputs, &open, &mut |trace: Trace| -> Result<()> {
        if has_own && !looked.infos.is_empty() {
            return Err(wrong_use(
                "rules of your own look at one rank, and the input has several; choose one with --rank",
            ));
        }
        check_steps(std::slice::from_ref(&trace), &options.scope)?;
        let rank = trace.meta.rank.unwrap_or(0);
        looked.infos.push(TraceInfo::new(&trace, rank));
        looked.reports.push(trace.report.clone());
        looked.memory = looked.memory.take().or_else(|| stackline_engine::memory_within(&trace));
        match findings::find_with(&trace, options, &others(own)?, keep) {
            Ok(found) => {
                see(rank, &trace, &found);
                looked.found.push((rank, found));
            }
            Err(error) => looked.failed.push((rank, error)),
        }
        Ok(())
    })?;
    let memory = memory::beside(&args.inputs.inputs, &open)?;
    drop(progress);
    let Looked { infos, mut reports, found, failed, memory: within } = looked;
    if let Some(first) = reports.first_mut() {
        stackline_engine::note_skipped(first, &skipped);
    }
    let merged = findings::merge(found, options, keep);
    let Some(merged) = merged else {
        let (_, error) = failed.into_iter().next().context("no trace was read")?;
        return Err(refuse(error));
    };
    let mut merged = stackline_engine::findings_with_memory(merged, memory.or(within).as_ref(), options, keep);
    merged.notes.extend(failed.into_iter().map(|(rank, error)| format!("rank {rank} is left out: {error}")));
    Ok((Session::described(&infos, &reports, common), merged))
}
