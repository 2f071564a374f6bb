//! Trimming of warm-up steps, the same on both sides of a comparison.

use super::Side;
use super::inferred_steps;
use super::profile::{Profile, Row, StepLength};
use super::units::{UNLIKE_OTHERS, compared_by_process};
use stackline_timeline::steps::WARM_UP;
use std::collections::BTreeMap;

/// Reason for an excluded step that is not warm-up itself.
const EXCLUDED_IN_OTHER_RUN: &str = "as many first steps are left out in another run";
/// Minimum number of remaining steps per process.
const MIN_REMAINING: usize = 2;

/// Exclude the same number of warm-up steps from all runs, after runs without marked steps got inferred steps if
/// possible.
///
/// If a run excludes first steps, as many are excluded of each process of all runs, if enough steps remain. Otherwise
/// work that occurs only in first steps would appear as removed or new.
pub fn trim_warmup(before: &mut Side, after: &mut Side) {
    inferred_steps::use_inferred_steps(before, after);
    let profiles = || before.iter().chain(after.iter()).flatten();
    let first_ones = |profile: &Profile| excluded_first_steps(&profile.steps).into_iter().max();
    let Some(most @ 1..) = profiles().filter_map(first_ones).max() else { return };
    for profile in before.iter_mut().chain(after.iter_mut()).flatten() {
        let spare = |(own, done): (Vec<usize>, usize)| {
            let more = most.saturating_sub(done).min(own.len().saturating_sub(MIN_REMAINING));
            own.into_iter().take(more).collect::<Vec<_>>()
        };
        let done = excluded_first_steps(&profile.steps);
        let mut steps: Vec<usize> = compared_by_process(&profile.steps).into_iter().zip(done).flat_map(spare).collect();
        steps.sort_unstable();
        leave_out(profile, &steps);
    }
}

/// Number of first steps that are excluded as warm-up or unusual, per process.
fn excluded_first_steps(steps: &[StepLength]) -> Vec<usize> {
    let mut of_processes = vec![0; steps.iter().map(|step| step.process + 1).max().unwrap_or(0)];
    for step in steps.iter().filter(|step| matches!(step.left_out, Some(WARM_UP | UNLIKE_OTHERS))) {
        of_processes[step.process] += 1;
    }
    of_processes
}

/// Exclude compared steps of a profile, with their times in all rows. `places` has their indices in the list of steps.
fn leave_out(profile: &mut Profile, places: &[usize]) {
    // All fields are named, so that a new field with values per step is not forgotten.
    let Profile {
        steps,
        totals,
        totals_with_between,
        operators,
        kernels,
        families,
        paths,
        functions,
        name: _,
        format: _,
        device: _,
        rank: _,
        vendor: _,
        long_paths: _,
        functions_by: _,
        path_kind: _,
        implausible: _,
        mean_step: _,
        gpu_records: _,
        host_records: _,
        by_inferred_steps: _,
        inferred_from: _,
    } = profile;
    let is_compared = |place: &usize| steps[*place].left_out.is_none();
    let units: Vec<usize> = places.iter().map(|&place| (0..place).filter(is_compared).count()).collect();
    for &place in places {
        steps[place].left_out = Some(EXCLUDED_IN_OTHER_RUN);
    }
    for cells in [totals, totals_with_between] {
        let mut unit = 0..;
        cells.retain(|_| unit.next().is_none_or(|unit| units.binary_search(&unit).is_err()));
    }
    drop_units(operators, &units);
    drop_units(kernels, &units);
    drop_units(families, &units);
    drop_units(paths, &units);
    drop_units(functions, &units);
}

/// Remove compared steps (ascending indices) from the rows of a table, and rows that become empty.
fn drop_units<K: Ord>(rows: &mut BTreeMap<K, Row>, units: &[usize]) {
    rows.values_mut().for_each(|row| row.leave_out(units));
    rows.retain(|_, row| !row.is_empty());
}
