//! Inferred steps for runs without step marks, so that they can be compared to runs with marks. Steps cannot be
//! compared to whole runs.

use super::align::Side;
use super::profile::{Profile, StepLength};
use super::units::{Units, exclude_outlier_ends};
use stackline_model::Trace;
use stackline_model::format::count;
use stackline_timeline::Scope;
use stackline_timeline::gpu_view::GpuView;
use stackline_timeline::step_marks::{LikelySteps, likely_steps};

/// Maximum ratio of GPU operations per step between marked and inferred steps. Beyond it the pattern is another unit,
/// such as a micro-batch.
const MAX_UNIT_RATIO: f64 = 1.5;

/// Create a profile of a trace by inferred steps; `None` if the trace marks steps, or none can be inferred. Also `None`
/// if the scope selects steps or the whole trace.
pub(super) fn profile(trace: &Trace, rank: i64, scope: &Scope, view: &GpuView<'_>) -> Option<Profile> {
    if scope.whole || scope.steps.is_some() {
        return None;
    }
    let Some(LikelySteps::Pattern(pattern)) = likely_steps(trace) else { return None };
    let length = |(number, &(from, to)): (i64, &(i64, i64))| {
        let ns = to.saturating_sub(from);
        StepLength { number, process: 0, ns, with_between_ns: ns, left_out: None }
    };
    let mut lengths: Vec<StepLength> = (0..).zip(&pattern.repeats).map(length).collect();
    exclude_outlier_ends(&mut lengths);
    let repeats = count(pattern.repeats.len() as i64);
    let from = format!("{repeats} repeats of a pattern of {} GPU operations", count(pattern.operations as i64));
    let units = Units::from_inferred_steps(trace, pattern.repeats, &lengths);
    let profile = Profile::from_units(trace, rank, (lengths, units), view);
    Some(Profile { inferred_from: Some(from), ..profile })
}

/// Switch runs without step marks to their inferred steps, if other runs mark steps with as much GPU work. An inferred
/// step extends to the next one, so marked steps are then measured up to the next one, too.
pub(super) fn use_inferred_steps(before: &mut Side, after: &mut Side) {
    let all = || before.iter().chain(after.iter()).flatten();
    if !have_different_bases(before, after)
        || !all().filter(|profile| is_whole(profile)).all(|whole| is_same_unit(whole, all()))
    {
        return;
    }
    for profile in before.iter_mut().chain(after.iter_mut()).flatten() {
        match profile.by_inferred_steps.take() {
            Some(inferred) => *profile = *inferred,
            None => {
                for (total, with_between) in profile.totals.iter_mut().zip(&profile.totals_with_between) {
                    total.cpu_total = with_between.cpu_total;
                }
            }
        }
    }
}

/// Test if some runs are compared per step, and others as a whole.
pub(super) fn have_different_bases(before: &Side, after: &Side) -> bool {
    let mut all = before.iter().chain(after).flatten();
    all.clone().any(has_steps) && all.any(is_whole)
}

/// Test if a run has steps, so that its times are per step.
pub(super) fn has_steps(profile: &Profile) -> bool {
    !profile.steps.is_empty()
}

/// Test if a run has data but no steps, so that it is compared as a whole.
pub(super) fn is_whole(profile: &Profile) -> bool {
    profile.steps.is_empty() && profile.units() > 0
}

/// Mean number of GPU operations per compared step of a run.
pub(super) fn operations_per_step(profile: &Profile) -> f64 {
    let all: i64 = profile.totals.iter().map(|total| total.count).sum();
    all as f64 / profile.units().max(1) as f64
}

/// Test if an inferred step of a run has about as many GPU operations as a marked step of each other run.
fn is_same_unit<'p>(whole: &Profile, all: impl Iterator<Item = &'p Profile>) -> bool {
    let Some(inferred) = &whole.by_inferred_steps else { return false };
    let own = operations_per_step(inferred);
    all.filter(|profile| has_steps(profile)).all(|profile| {
        let other = operations_per_step(profile);
        own.max(other) <= MAX_UNIT_RATIO * own.min(other)
    })
}
