//! Python function that compares runs before and after a change.

use crate::call_nodes::IndexedCallTree;
use crate::errors::{analysis_error, engine_error};
use crate::run::NativeRun;
use crate::table::NativeTable;
use crate::worker::quiet;
use pyo3::prelude::*;
use stackline_diff::{Options, Profile, Side, compare, tables, trim_warmup};
use stackline_engine::{Error, Progress};
use stackline_model::TraceSet;
use stackline_timeline::Scope;
use std::path::Path;
use std::sync::Arc;

/// Side of a comparison: traces with their ranks, or a call tree with its name.
enum Compared {
    Traces(Arc<TraceSet>, Vec<i64>),
    Calls(Arc<IndexedCallTree>, String),
}

/// Compare runs before and after a change. `steps` includes both ends; `level` is a fraction (0.05 is 5 %).
#[pyfunction]
#[pyo3(signature = (before, after, steps, level, by_family))]
pub(crate) fn diff(
    py: Python<'_>,
    before: Vec<Py<NativeRun>>,
    after: Vec<Py<NativeRun>>,
    steps: Option<(i64, i64)>,
    level: f64,
    by_family: Option<bool>,
) -> PyResult<Vec<NativeTable>> {
    if before.is_empty() || after.is_empty() {
        return Err(analysis_error(py, "nothing to compare: give at least one run on each side"));
    }
    if !(0.000_01..=0.5).contains(&level) {
        return Err(analysis_error(
            py,
            "level= is out of range: pass the significance level (rate of false alarms) in percent, from 0.001 to 50",
        ));
    }
    let scope = Scope::from_steps(steps);
    let profiles_of = |runs: &[Py<NativeRun>]| -> PyResult<Vec<Compared>> {
        let one = |run: &Py<NativeRun>| {
            let run = run.get();
            if run.calls.is_none() {
                run.needs_traces(py)?;
            }
            let traces = &run.set.traces;
            let cycles = || traces.iter().try_for_each(|trace| stackline_engine::check_cycles(trace, &scope));
            let checked = stackline_engine::check_steps(traces, &scope).and_then(|()| cycles());
            checked.map_err(|error| engine_error(py, &error, Path::new("")))?;
            if let Some(calls) = &run.calls {
                return Ok(Compared::Calls(Arc::clone(calls), run.name()));
            }
            Ok(Compared::Traces(Arc::clone(&run.set), run.ranks.clone()))
        };
        runs.iter().map(one).collect()
    };
    let (before, after) = (profiles_of(&before)?, profiles_of(&after)?);
    let tables = quiet(py, &Progress::new(), move || {
        let side =
            |runs: &[Compared]| -> Result<Side, String> { runs.iter().map(|run| profiles(run, &scope)).collect() };
        let (mut before, mut after) = (side(&before)?, side(&after)?);
        trim_warmup(&mut before, &mut after);
        Ok(tables(&compare(&before, &after, Options { level, by_family }), &before, &after))
    })?;
    let tables = tables.map_err(|reason: String| analysis_error(py, &reason))?;
    tables.iter().map(NativeTable::from_model).collect()
}

/// Profiles of one side for the comparison: one of each trace, or that of a call tree. Error for a tree without times.
fn profiles(run: &Compared, scope: &Scope) -> Result<Vec<Profile>, String> {
    match run {
        Compared::Traces(set, ranks) => {
            Ok(set.traces.iter().zip(ranks).map(|(trace, rank)| Profile::from_trace(trace, *rank, scope)).collect())
        }
        Compared::Calls(held, name) => match stackline_engine::profile_of_calls(&held.index.tree, name) {
            Ok(profile) => Ok(vec![profile]),
            Err(_) => Err(Error::NoTimes { path: name.into() }.to_string()),
        },
    }
}
