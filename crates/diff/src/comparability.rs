//! Comparability of two runs: the common unit, and other reasons than the program for differences.

use super::align::{Diff, Method, Side, TRIM_SHARE};
use super::inferred_steps::{has_steps, have_different_bases, is_whole, operations_per_step};
use super::profile::{MOST_FRAMES, MeanStep, Measure, Profile, Row};
use super::statistics::Location;
use std::collections::{BTreeMap, BTreeSet};

/// Minimum share of common time, in percent. Sides below it are different programs.
const MIN_SHARED_PERCENT: f64 = 20.0;

/// Factor between numbers of calls beyond which runs without steps count as windows of different lengths.
const MAX_COUNT_RATIO: f64 = 1.02;

/// Unit of compared times and calls: per step, per run or per call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Per step.
    Step,
    /// Per run: neither side has steps.
    Run,
    /// Per call. Neither side has steps and the numbers of calls differ, or only some runs have steps.
    Call,
}

impl Per {
    /// Name of the common unit in documents: `step`, `run` or `call`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Run => "run",
            Self::Call => "call",
        }
    }

    /// Choose the unit for comparison that both sides have.
    pub(super) fn choose(before: &Side, after: &Side) -> Self {
        let mut profiles = before.iter().chain(after).flatten().peekable();
        match () {
            () if have_different_bases(before, after) => Self::Call,
            () if profiles.peek().is_none() || profiles.any(|profile| !profile.steps.is_empty()) => Self::Step,
            () if different_counts(before, after).is_some() => Self::Call,
            () => Self::Run,
        }
    }
}

/// Warnings about other reasons than the program for differences, one sentence each; empty for comparable sides. The
/// unit of times comes first.
pub(super) fn warnings(before: &Side, after: &Side, by_family: bool) -> Vec<String> {
    let first = [different_bases(before, after), inferred_steps(before, after), different_counts(before, after)];
    let mut out: Vec<String> = first.into_iter().flatten().collect();
    let formats = (distinct_values(before, |p| p.format.clone()), distinct_values(after, |p| p.format.clone()));
    out.extend(differ(formats).map(|(a, b)| {
        format!(
            "A was recorded in the format {a} and B in the format {b}, which may \
                                              record different events."
        )
    }));
    let devices = (distinct_values(before, |p| p.device.clone()), distinct_values(after, |p| p.device.clone()));
    out.extend(differ(devices).map(|(a, b)| {
        format!("A ran on {a} and B on {b}, so the changes include the differences between these devices.")
    }));
    out.extend(steps(before, after));
    let shared = |what: &str, of: Option<(f64, f64)>| {
        let (a, b) = of.filter(|(a, b)| a.max(*b) < MIN_SHARED_PERCENT)?;
        Some(format!(
            "A and B have hardly any {what} in common: {a:.0} % of the time of A and {b:.0} % of the time of B is \
             spent in {what} that both have."
        ))
    };
    out.extend(shared("operators", shared_percent(before, after, |p| &p.operators)));
    out.extend(match by_family {
        true => shared("GPU work", shared_percent(before, after, |p| &p.families)),
        false => shared("GPU work", shared_percent(before, after, |p| &p.kernels)),
    });
    out.extend(shared("call paths", shared_percent(before, after, |p| &p.paths)));
    out
}

/// Distinct values of a property over all profiles of a side, without missing values.
fn distinct_values(side: &Side, of: impl Fn(&Profile) -> Option<String>) -> BTreeSet<String> {
    side.iter().flatten().filter_map(of).collect()
}

/// Values of a property on both sides as comma-separated text. `None` if they are equal or unknown on a side.
fn differ((a, b): (BTreeSet<String>, BTreeSet<String>)) -> Option<(String, String)> {
    let words = |set: &BTreeSet<String>| set.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    (!a.is_empty() && !b.is_empty() && a != b).then(|| (words(&a), words(&b)))
}

/// Warning if some runs have steps and others have none, so that only times per call are compared.
fn different_bases(before: &Side, after: &Side) -> Option<String> {
    if !have_different_bases(before, after) {
        return None;
    }
    let lacks = |side: &Side| side.iter().flatten().any(is_whole);
    let side = match (lacks(before), lacks(after)) {
        (true, false) => "B has steps and A has none, so only times per call are compared.",
        (false, true) => "A has steps and B has none, so only times per call are compared.",
        _ => "some runs have steps and others have none, so only times per call are compared.",
    };
    let all = || before.iter().chain(after).flatten();
    let inferred = all().filter_map(|profile| profile.by_inferred_steps.as_deref()).map(operations_per_step).next();
    let marked = all().filter(|profile| has_steps(profile)).map(operations_per_step).next();
    let why = match inferred.zip(marked) {
        Some((pattern, step)) => format!(
            " The runs without steps repeat a pattern of launches. One repetition has {pattern:.0} GPU operations, \
             but a step of the other runs has {step:.0}, so repetitions do not count as steps."
        ),
        None => String::new(),
    };
    Some(format!(
        "{side}{why} To compare steps, mark them in all runs, or select spans as steps with --step-annotation."
    ))
}

/// Warning if the steps of a side are inferred, because it marks none.
fn inferred_steps(before: &Side, after: &Side) -> Option<String> {
    let of = |side: &Side| side.iter().flatten().find_map(|profile| profile.inferred_from.clone());
    let inferred = match (of(before), of(after)) {
        (Some(from), None) => format!("A marks no steps, so its steps are inferred from {from}."),
        (None, Some(from)) => format!("B marks no steps, so its steps are inferred from {from}."),
        (Some(from), Some(_)) => format!("Some runs mark no steps, so their steps are inferred, such as from {from}."),
        (None, None) => return None,
    };
    Some(format!("{inferred} In all runs, a step is measured up to the start of the next step."))
}

/// Warning if one side has a single step and the other has several: the variation between steps is then unknown.
fn steps(before: &Side, after: &Side) -> Option<String> {
    let most = |side: &Side| side.iter().flatten().map(Profile::units).max().unwrap_or(0);
    let has_steps = |side: &Side| side.iter().flatten().all(|profile| !profile.steps.is_empty());
    let (a, b) = (most(before), most(after));
    if !has_steps(before) || !has_steps(after) {
        return None;
    }
    let (one, other, many) = match (before.len(), after.len()) {
        (1, _) if a == 1 && b > 1 => ("A", "B", b),
        (_, 1) if b == 1 && a > 1 => ("B", "A", a),
        _ => return None,
    };
    Some(format!("{one} has one step and {other} has {many}, so the variation between steps of {one} is unknown."))
}

/// Warning for runs without steps and with different numbers of calls. They are windows of different lengths, whose
/// times are compared per call.
fn different_counts(before: &Side, after: &Side) -> Option<String> {
    let is_whole = |side: &Side| side.iter().flatten().all(|profile| profile.steps.is_empty());
    if !is_whole(before) || !is_whole(after) {
        return None;
    }
    let counts = |table: fn(&Profile) -> &BTreeMap<String, Row>| [before, after].map(|side| mean_count(side, table));
    let (what, [a, b]) = match counts(|profile| &profile.kernels) {
        [0.0, 0.0] => ("operator calls", counts(|profile| &profile.operators)),
        of_kernels => ("GPU operations", of_kernels),
    };
    (a.max(b) > MAX_COUNT_RATIO * a.min(b)).then(|| match knows_means(before) || knows_means(after) {
        true => format!(
            "A has {a:.0} {what}, B has {b:.0}, and times of single steps were not recorded. Therefore, times per \
             call are compared instead of totals."
        ),
        false => format!(
            "A has {a:.0} {what}, B has {b:.0}, and neither has steps. Therefore, times per call are compared \
             instead of totals."
        ),
    })
}

/// Note on the mean step length of runs for which single steps were not kept.
pub(super) fn mean_steps(before: &Side, after: &Side) -> Option<String> {
    let steps = |side: &Side| side.iter().flatten().filter_map(|profile| profile.mean_step).collect::<Vec<_>>();
    let (of_a, of_b) = (steps(before), steps(after));
    let unequal = unequal_overhead(&of_a, &of_b);
    let mean = |all: &[MeanStep]| {
        let count: usize = all.iter().map(|step| step.steps).sum();
        let ns = |step: &MeanStep| if unequal.is_some() { step.as_recorded() } else { step.ns };
        let sum: f64 = all.iter().map(|step| ns(step) as f64 * step.steps as f64).sum();
        (count > 0).then(|| (sum / count as f64, count))
    };
    let ((a, in_a), (b, in_b)) = mean(&of_a).zip(mean(&of_b))?;
    let change = 100.0 * (b - a) / a.max(1.0);
    Some(format!(
        "{}A step takes {:.1} ms in A (mean of {in_a}) and {:.1} ms in B (mean of {in_b}): {change:+.1} % (not tested \
         for significance). Times of single steps were not recorded. All other values of this comparison therefore \
         cover whole runs, including start-up and imports.",
        unequal.unwrap_or_default(),
        a / 1e6,
        b / 1e6
    ))
}

/// Note if only some recordings measured their overhead, so that it cannot be subtracted.
fn unequal_overhead(of_a: &[MeanStep], of_b: &[MeanStep]) -> Option<String> {
    let part = |side: &[MeanStep]| {
        let measured = side.iter().filter(|step| step.recording_ns.is_some()).count();
        (measured > 0, measured == side.len())
    };
    let note = match (part(of_a), part(of_b)) {
        ((true, true), (true, true)) | ((false, _), (false, _)) => return None,
        ((true, true), (false, _)) => {
            "Step times include the overhead of recording: it was measured only in A, so it is not subtracted. "
        }
        ((false, _), (true, true)) => {
            "Step times include the overhead of recording: it was measured only in B, so it is not subtracted. "
        }
        _ => {
            "Step times include the overhead of recording: it was measured only in some runs, so it is not \
             subtracted. "
        }
    };
    Some(note.to_owned())
}

/// Test if a side has mean step lengths but no single steps.
fn knows_means(side: &Side) -> bool {
    side.iter().flatten().any(|profile| profile.mean_step.is_some())
}

/// Mean number of calls in all rows of a table per run of a side.
fn mean_count(side: &Side, table: fn(&Profile) -> &BTreeMap<String, Row>) -> f64 {
    let of = |profile: &Profile| table(profile).values().flat_map(Row::iter).map(|(_, cell)| cell.count).sum::<i64>();
    let all: i64 = side.iter().flatten().map(of).sum();
    all as f64 / side.len().max(1) as f64
}

/// Share of each side's time in rows that the other side also has, in percent; `None` if a side has no time.
fn shared_percent<K: Ord>(
    before: &Side,
    after: &Side,
    table: impl Fn(&Profile) -> &BTreeMap<K, Row>,
) -> Option<(f64, f64)> {
    let time = |row: &Row| row.iter().map(|(_, cell)| cell.gpu.saturating_add(cell.cpu)).sum::<i64>();
    let share = |side: &Side, other: &Side| {
        let (mut all, mut shared) = (0i64, 0i64);
        for profile in side.iter().flatten() {
            for (name, row) in table(profile) {
                let ns = time(row);
                all = all.saturating_add(ns);
                if other.iter().flatten().any(|other| table(other).contains_key(name)) {
                    shared = shared.saturating_add(ns);
                }
            }
        }
        (all > 0).then(|| 100.0 * shared as f64 / all as f64)
    };
    share(before, after).zip(share(after, before))
}

/// Notes on tables that are not compared, one sentence each. `paths` and `functions`: true if both sides measure them
/// in the same way.
pub(super) fn not_compared(before: &Side, after: &Side, (paths, functions): (bool, bool)) -> Vec<String> {
    let mut out = Vec::new();
    if !paths {
        out.push(
            "Call paths are not compared: A and B recorded different kinds of frames (modules, Python functions or \
             operators only)."
                .to_owned(),
        );
    }
    let long: usize = before.iter().chain(after).flatten().map(|profile| profile.long_paths).sum();
    if long > 0 {
        out.push(format!(
            "Call paths of more than {MOST_FRAMES} frames ({long}) have no rows: their times are part of the rows of \
             their first {MOST_FRAMES} frames."
        ));
    }
    let knows_functions = |side: &Side| side.iter().flatten().any(|profile| profile.functions_by.is_some());
    if !functions && knows_functions(before) && knows_functions(after) {
        out.push(
            "Python functions are not compared, because their times were measured differently (from calls in some \
             runs, from samples in others)."
                .to_owned(),
        );
    }
    out
}

/// Notes on a comparison for the reader, one sentence each.
pub(super) fn notes(diff: &Diff, before: &Side, after: &Side) -> Vec<String> {
    let mut out = Vec::new();
    match diff.method {
        Method::None => {
            let reason = match diff.per {
                Per::Step => "A and B have one step each, so the variation between steps is unknown.",
                _ if diff.has_different_bases => "A and B are one run each, so the variation between runs is unknown.",
                _ => "A and B are one run each and have no steps, so the variation is unknown.",
            };
            out.push(format!("{reason} No change can be tested for significance."));
        }
        Method::Steps => out.push(
            "A and B are one run each: changes are tested against the variation between steps. To include the \
             variation between runs, pass several runs for A and for B."
                .to_owned(),
        ),
        Method::Runs => {}
    }
    for (side, name) in [(before, "A"), (after, "B")] {
        for profile in side.iter().flatten() {
            out.extend(left_out(profile).into_iter().map(|what| format!("{name}: {what}.")));
            if profile.implausible > 0 {
                let (count, file) = (profile.implausible, &profile.name);
                out.push(format!("{name}: {count} events of {file} have implausible times and are excluded."));
            }
            out.extend(slow_steps(profile).map(|slow| format!("{name}: {slow}")));
            if profile.units() == 0 {
                out.push(format!("{name}: {} has no events with a duration.", profile.name));
            }
        }
    }
    let no_gpu = |side: &Side| side.iter().flatten().all(|p| p.totals.iter().all(|total| total.gpu == 0));
    if no_gpu(before) != no_gpu(after) {
        let note = if no_gpu(before) { "A has no GPU work, but B has." } else { "B has no GPU work, but A has." };
        out.push(note.to_owned());
    }
    let no_steps = |side: &Side| side.iter().flatten().any(|profile| profile.steps.is_empty());
    if no_steps(before) && no_steps(after) {
        out.push("A and B have runs without steps. Each of these runs is compared as a whole.".to_owned());
    }
    out
}

/// Minimum ratio of a slow step to the trimmed mean.
const SLOW_RATIO: f64 = 1.5;
/// Minimum ratio of mean to trimmed mean for a note on slow steps.
const MIN_MEAN_SHIFT_RATIO: f64 = 1.05;

/// Note on slow steps, which the trimmed mean hides.
fn slow_steps(profile: &Profile) -> Option<String> {
    let lengths: Vec<f64> = profile.totals.iter().map(|total| total.time(Measure::Step) as f64).collect();
    let usual = Location::estimate(&lengths, TRIM_SHARE)?.center;
    let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
    let slow = lengths.iter().filter(|&&length| length > SLOW_RATIO * usual).count();
    (slow > 0 && mean > MIN_MEAN_SHIFT_RATIO * usual).then(|| {
        format!(
            "{slow} of {} steps of {} are slow: they take more than {SLOW_RATIO} times the trimmed mean of {:.3} ms. \
             The trimmed mean, which is compared, excludes the slowest and fastest {:.0} % of steps. The mean of all \
             steps is {:.3} ms.",
            lengths.len(),
            profile.name,
            usual / 1e6,
            100.0 * TRIM_SHARE,
            mean / 1e6
        )
    })
}

/// Excluded steps with reasons: consecutive steps of a process with one reason are merged.
fn left_out(profile: &Profile) -> Vec<String> {
    let processes = profile.steps.iter().map(|step| step.process + 1).max().unwrap_or(0);
    // Most processes exclude the same numbers, so count processes per range.
    let mut runs: Vec<((&str, i64, i64), usize)> = Vec::new();
    for process in 0..processes {
        for run in left_out_of(profile, process) {
            match runs.iter_mut().find(|(known, _)| *known == run) {
                Some((_, count)) => *count += 1,
                None => runs.push((run, 1)),
            }
        }
    }
    let name = &profile.name;
    let sentence = |((why, first, last), count)| {
        let whose = if count < processes { format!(" in {count} of {processes} processes") } else { String::new() };
        match first == last {
            true => format!("step {first} of {name} is left out of the comparison{whose} ({why})"),
            false => format!("steps {first} to {last} of {name} are left out of the comparison{whose} ({why})"),
        }
    };
    runs.into_iter().map(sentence).collect()
}

/// Excluded steps of a process: reason, first and last number of consecutive steps.
fn left_out_of(profile: &Profile, process: usize) -> Vec<(&'static str, i64, i64)> {
    let mut runs: Vec<(&str, i64, i64)> = Vec::new();
    let steps = profile.steps.iter().filter(|step| step.process == process);
    for (number, why) in steps.filter_map(|step| Some((step.number, step.left_out?))) {
        match runs.last_mut() {
            Some((of, _, last)) if *of == why && last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((why, number, number)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, StepLength, compare};

    #[test]
    fn steps_kept_by_another_process_are_not_reported_as_excluded() {
        let step =
            |process: usize, number: i64, left_out| StepLength { number, process, ns: 1, with_between_ns: 1, left_out };
        let actual = |steps: Vec<StepLength>| left_out(&Profile { name: "a".to_owned(), steps, ..Profile::default() });
        let why = Some("warm-up");
        // In order of time, step 1 of the first process precedes step 2 of the second one. Step 2 of the first process
        // is not excluded.
        let mixed = vec![step(0, 1, why), step(1, 2, why), step(0, 2, None), step(1, 3, None)];
        assert_eq!(
            actual(mixed),
            [
                "step 1 of a is left out of the comparison in 1 of 2 processes (warm-up)",
                "step 2 of a is left out of the comparison in 1 of 2 processes (warm-up)"
            ]
        );
        let same = vec![step(0, 1, why), step(1, 1, why), step(0, 2, why), step(1, 2, why), step(0, 3, None)];
        assert_eq!(actual(same), ["steps 1 to 2 of a are left out of the comparison (warm-up)"]);
    }

    fn recording(mean_step: Option<(i64, usize)>, calls: i64) -> Side {
        let mean_step = mean_step.map(|(ns, steps)| MeanStep { ns, steps, recording_ns: None });
        let mut profile = Profile { mean_step, ..Profile::default() };
        let cell = super::super::profile::Cell { count: calls, cpu: 1_000, cpu_total: 1_000, ..Default::default() };
        profile.totals = vec![cell];
        profile.operators.entry("aten::mm".to_owned()).or_default().add(0, &cell);
        vec![vec![profile]]
    }

    #[test]
    fn mean_step_length_without_single_steps_is_reported() {
        let options = || Options { level: 0.05, by_family: None };
        let (before, after) = (recording(Some((100_000_000, 10)), 10), recording(Some((125_000_000, 20)), 20));
        let diff = compare(&before, &after, options());
        let expected = "A step takes 100.0 ms in A (mean of 10) and 125.0 ms in B (mean of 20): +25.0 % (not tested \
                        for significance).";
        assert!(diff.mean_steps.as_ref().is_some_and(|steps| steps.starts_with(expected)), "{:?}", diff.mean_steps);
        assert!(diff.notes[0].starts_with(expected) && !diff.warnings[0].contains("neither has steps"), "{diff:?}");
        let diff = compare(&recording(None, 10), &recording(None, 20), options());
        assert!(diff.mean_steps.is_none() && diff.warnings[0].contains("neither has steps"), "{diff:?}");
    }

    #[test]
    fn means_are_compared_as_recorded_if_overhead_is_unknown_for_some() {
        let actual = |recording_ns: [Option<i64>; 2]| {
            let [before, after] = recording_ns.map(|recording_ns| {
                let mut side = recording(Some((9_000_000, 10)), 10);
                side[0][0].mean_step.as_mut().unwrap().recording_ns = recording_ns;
                side
            });
            mean_steps(&before, &after).unwrap()
        };
        let mixed = actual([Some(6_000_000), None]);
        let first = "Step times include the overhead of recording: it was measured only in A, so it is not \
                     subtracted. A step takes 15.0 ms in A";
        assert!(mixed.starts_with(first) && mixed.contains("and 9.0 ms in B"), "{mixed}");
        let second = "measured only in B, so it is not subtracted. A step takes 9.0 ms in A";
        assert!(actual([None, Some(6_000_000)]).contains(second));
        for overheads in [[None, None], [Some(6_000_000), Some(1_000_000)]] {
            assert!(actual(overheads).starts_with("A step takes 9.0 ms in A (mean of 10) and 9.0 ms in B"));
        }
    }
}
