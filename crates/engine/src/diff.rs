//! Profiles of one run for comparisons: one per rank of its traces, or one from the call tree of a recording.

use crate::{Error, Part, Run, check_cycles, check_steps, ranks};
use stackline_calls::{calls_of_rank, fold_imports, ranks_of_calls};
use stackline_diff::{MeanStep, Profile};
use stackline_findings::step_time;
use stackline_model::{CallingContextTree, Trace};
use stackline_timeline::Scope;

/// Read the profiles of one run for a comparison: one per rank of its traces, or one of a recording of calls.
///
/// `seen` gets each trace with its rank; for a recording, a trace with only a name and a read report.
///
/// # Errors
/// If the run cannot be read, lacks the rank or the steps, or several recordings have the rank.
pub fn profiles(
    mut run: Run,
    scope: &Scope,
    rank: Option<i64>,
    seen: &mut dyn FnMut(&Trace, i64),
) -> Result<Vec<Profile>, Error> {
    if let Some(rank) = rank {
        run = run.recording_of_rank(rank)?;
    }
    if run.parts()?.first() == Some(&Part::Profile) {
        return of_calls(&run, scope, rank, seen);
    }
    if let Some(rank) = rank {
        run.select_rank(rank)?;
    }
    let set = run.traces()?;
    check_steps(&set.traces, scope)?;
    set.traces.iter().try_for_each(|trace| check_cycles(trace, scope))?;
    let profile = |(trace, rank): (&Trace, i64)| {
        seen(trace, rank);
        Profile::from_trace(trace, rank, scope)
    };
    Ok(set.traces.iter().zip(ranks(&set)).map(profile).collect())
}

/// Profile of a recording of calls (one list entry), optionally of the processes of one rank. The error names missing
/// steps, ranks or times.
fn of_calls(
    run: &Run,
    scope: &Scope,
    rank: Option<i64>,
    seen: &mut dyn FnMut(&Trace, i64),
) -> Result<Vec<Profile>, Error> {
    if let Some((first, last)) = scope.steps {
        return Err(Error::NoStep { first, last, available: Vec::new() });
    }
    let tree = match rank {
        None => run.profile()?,
        Some(requested) => of_rank(run.profile()?, requested)?,
    };
    let tree = fold_imports(tree);
    let mut trace = Trace::default();
    trace.meta.name = run.name();
    trace.meta.format = "recording".to_owned();
    trace.report = tree.report.clone();
    seen(&trace, 0);
    let profile = profile_of_calls(&tree, &trace.meta.name);
    Ok(vec![profile.map_err(|_| Error::NoTimes { path: trace.meta.name.into() })?])
}

/// The profile of a recording without individual calls, with the mean step that its call tree shows.
///
/// # Errors
/// If the recording has no times; the message names it.
pub fn profile_of_calls(tree: &CallingContextTree, name: &str) -> Result<Profile, String> {
    let marked = step_time(tree).filter(|time| time.steps > 0);
    let mean_step = marked.map(|time| MeanStep { ns: time.ns, steps: time.steps, recording_ns: time.recording_ns });
    Profile::from_calls(tree, name, mean_step)
}

/// Restrict a call tree to the processes of one rank, with the engine's error if no process has it.
fn of_rank(tree: CallingContextTree, requested: i64) -> Result<CallingContextTree, Error> {
    let available = ranks_of_calls(&tree);
    calls_of_rank(tree, requested).map_err(|_| Error::NoRank { requested, available })
}
