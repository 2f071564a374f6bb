//! Trimming of warm-up steps, the same on both sides of a comparison.

use super::Side;
use super::inferred_steps;
use super::profile::{Profile, Row, StepLength};
use super::units::{UNLIKE, compared};
use crate::steps::WARM_UP;
use std::collections::BTreeMap;

/// Why a step is left out that is no warm-up itself.
const LIKE_THE_OTHER: &str = "as in another run";
/// So many steps stay of each process.
const LEAST: usize = 2;

/// Where some runs mark steps and others do not, these are compared by inferred steps, if they have any of the same kind. Where first steps of any run are left out, as many of each process of all runs are, if enough steps stay: they may not stand out
/// there, and what happens in them alone would seem to be gone, or new.
pub fn trim_warmup(before: &mut Side, after: &mut Side) {
    inferred_steps::take(before, after);
    let profiles = || before.iter().chain(after.iter()).flatten();
    let first_ones = |profile: &Profile| left_out_first(&profile.steps).into_iter().max();
    let Some(most @ 1..) = profiles().filter_map(first_ones).max() else { return };
    for profile in before.iter_mut().chain(after.iter_mut()).flatten() {
        let spare = |(own, done): (Vec<usize>, usize)| {
            let more = most.saturating_sub(done).min(own.len().saturating_sub(LEAST));
            own.into_iter().take(more).collect::<Vec<_>>()
        };
        let done = left_out_first(&profile.steps);
        let mut steps: Vec<usize> = compared(&profile.steps).into_iter().zip(done).flat_map(spare).collect();
        steps.sort_unstable();
        leave_out(profile, &steps);
    }
}

/// Of each process, how many first steps are left out.
fn left_out_first(steps: &[StepLength]) -> Vec<usize> {
    let mut of_processes = vec![0; steps.iter().map(|step| step.process + 1).max().unwrap_or(0)];
    for step in steps.iter().filter(|step| matches!(step.left_out, Some(WARM_UP | UNLIKE))) {
        of_processes[step.process] += 1;
    }
    of_processes
}

/// Leaves out compared steps, by their places in the list of steps, in ascending order.
fn leave_out(profile: &mut Profile, places: &[usize]) {
    // All fields are named, so that a new one that has values by step is not forgotten.
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
        functions_by: _,
        path_kind: _,
        implausible: _,
        mean_step: _,
        gpu_records: _,
        lost_host: _,
        by_inferred_steps: _,
        inferred_from: _,
    } = profile;
    let is_compared = |place: &usize| steps[*place].left_out.is_none();
    let units: Vec<usize> = places.iter().map(|&place| (0..place).filter(is_compared).count()).collect();
    for &place in places {
        steps[place].left_out = Some(LIKE_THE_OTHER);
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

fn drop_units<K: Ord>(rows: &mut BTreeMap<K, Row>, units: &[usize]) {
    rows.values_mut().for_each(|row| row.leave_out(units));
    rows.retain(|_, row| !row.is_empty());
}
