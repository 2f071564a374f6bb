//! Runs as comparisons keep them: opened one by one, so that memory holds one at a time.

use crate::{Error, OpenOptions, check_steps, note_lost, open, open_calls, ranks, select_rank};
use stackline_analyze::Scope;
use stackline_analyze::diff::Profile;
use stackline_model::{ReadReport, Trace, TraceSet};
use std::path::Path;

/// The profiles of one run: of each rank of a trace, archive, directory or run directory, or of a recording of calls.
/// `seen` gets each trace with its rank (of a recording one that is nothing but its name and read report).
///
/// # Errors
/// If it cannot be read, or does not have the rank or the steps.
pub fn profiles(
    input: &Path,
    options: &OpenOptions,
    scope: &Scope,
    rank: Option<i64>,
    seen: &mut dyn FnMut(&Trace, i64),
) -> Result<Vec<Profile>, Error> {
    let mut set = match open(&[input.to_owned()], options) {
        Err(Error::OnlyCalls { report, .. }) => return of_calls((input, &report), scope, rank, seen),
        other => other?,
    };
    let mut numbers = ranks(&set);
    if let Some(rank) = rank {
        set = select_rank(set, rank)?;
        numbers = vec![rank];
    }
    check_steps(&set.traces, scope)?;
    let TraceSet { traces } = set;
    let profile = |(trace, rank): (Trace, i64)| {
        seen(&trace, rank);
        Profile::of(&trace, rank, scope)
    };
    Ok(traces.into_iter().zip(numbers).map(profile).collect())
}

fn of_calls(
    (input, streams): (&Path, &ReadReport),
    scope: &Scope,
    rank: Option<i64>,
    seen: &mut dyn FnMut(&Trace, i64),
) -> Result<Vec<Profile>, Error> {
    if let Some((first, last)) = scope.steps {
        return Err(Error::NoStep { first, last, available: Vec::new() });
    }
    if let Some(wanted) = rank {
        return Err(Error::NoRank { wanted, available: Vec::new() });
    }
    let tree = open_calls(input)?;
    let mut trace = Trace::default();
    trace.meta.name = input.display().to_string();
    trace.meta.format = "recording".to_owned();
    trace.report = tree.report.clone();
    note_lost(&mut trace.report, streams);
    seen(&trace, 0);
    let profile = Profile::of_calls(&tree, &trace.meta.name);
    Ok(vec![profile.map_err(|_| Error::NoTimes { path: input.to_owned() })?])
}
