//! Comparison of one rank on both sides: rows of all tables, with significance tests.

use super::align::{Change, Method, TRIM_SHARE, Table, Verdict};
use super::comparability::Per;
use super::functions;
use super::profile::{Cell, Measure, Profile, Row};
use super::statistics::{Difference, Location, welch};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Minimum ratio of time up to the next step to step time, at which time between steps is compared.
const MIN_BETWEEN_RATIO: f64 = 1.02;

type RowsByName = BTreeMap<Arc<str>, Row>;

/// Profiles of one rank on both sides of a comparison.
pub(super) struct Pair<'a> {
    pub(super) rank: i64,
    pub(super) before: Vec<&'a Profile>,
    pub(super) after: Vec<&'a Profile>,
    pub(super) level: f64,
    pub(super) per: Per,
    /// Functions with a different name on the second side, and their name on the first.
    pub(super) names: BTreeMap<Arc<str>, Arc<str>>,
}

impl Pair<'_> {
    /// Source of the spread for significance tests: steps (one run per side), runs, or none.
    pub(super) fn method(&self) -> Method {
        let several = |side: &[&Profile]| side.iter().any(|profile| profile.units() > 1);
        match (self.before.len(), self.after.len()) {
            (1, 1) if self.per != Per::Call && (several(&self.before) || several(&self.after)) => Method::Steps,
            (1, 1) => Method::None,
            _ => Method::Runs,
        }
    }

    /// All changes in a table (such as operators or kernels) between the two sides.
    pub(super) fn changes(&self, table: Table, by_family: bool) -> Vec<Change> {
        let name = |text: &String| (text.as_str().into(), None);
        match table {
            Table::Steps => {
                // Profiles may lack the program's duration, which is not 0.
                let has_length = |profile: &&Profile| profile.totals.iter().any(|total| total.cpu_total > 0);
                let measures = [Measure::Step, Measure::Gpu, Measure::Cpu];
                let known =
                    if self.before.iter().chain(&self.after).all(has_length) { &measures[..] } else { &measures[1..] };
                let mut changes = self.step_changes(|p| &p.totals, known);
                let at = changes.iter().take_while(|change| change.measure == Measure::Step).count();
                changes.splice(at..at, self.step_and_between_changes());
                let steps = |side: &[&Profile]| side.iter().map(|p| p.units()).sum::<usize>() as f64;
                for change in changes.iter_mut().filter(|change| change.measure != Measure::Gpu) {
                    (change.count_before, change.count_after) = (steps(&self.before), steps(&self.after));
                }
                changes
            }
            Table::Operators => {
                self.rows(&[Measure::Gpu, Measure::Cpu, Measure::CpuTotal], |profile| &profile.operators, name)
            }
            Table::Kernels if by_family => self.rows(
                &[Measure::Gpu],
                |profile| &profile.families,
                |(operator, family)| ((*family).into(), Some(operator.clone())),
            ),
            Table::Kernels => self.rows(&[Measure::Gpu], |profile| &profile.kernels, name),
            Table::Functions => self.aligned(
                &[Measure::Cpu, Measure::CpuTotal],
                |profile| &profile.functions,
                |function, names| names.get(function).cloned(),
            ),
            Table::Paths => self.aligned(
                &[Measure::Gpu, Measure::Cpu],
                |profile| &profile.paths,
                |path, names| functions::renamed_path(path, names),
            ),
        }
    }

    /// Changes of step times that include the time to the next step. Empty unless a side spends considerable time
    /// between steps.
    fn step_and_between_changes(&self) -> Vec<Change> {
        let is_more = |profile: &&&Profile| {
            let sum = |cells: &[Cell]| cells.iter().map(|cell| cell.cpu_total as f64).sum::<f64>();
            sum(&profile.totals_with_between) > MIN_BETWEEN_RATIO * sum(&profile.totals)
        };
        let mut all = self.before.iter().chain(&self.after);
        let known = all.clone().all(|profile| profile.totals_with_between.len() == profile.units());
        if !known || !all.any(|profile| is_more(&profile)) {
            return Vec::new();
        }
        self.step_changes(|p| &p.totals_with_between, &[Measure::StepAndBetween])
    }

    /// Changes of whole steps in the given measures. `cells` returns one cell per step of a profile.
    fn step_changes(&self, cells: impl Fn(&Profile) -> &[Cell], measures: &[Measure]) -> Vec<Change> {
        let rows = |side: &[&Profile]| side.iter().map(|p| cells(p).iter().collect()).collect::<Vec<Row>>();
        let (before, after) = (rows(&self.before), rows(&self.after));
        let (before, after): (Vec<_>, Vec<_>) = (before.iter().map(Some).collect(), after.iter().map(Some).collect());
        self.row(("".into(), None), &before, &after, measures)
    }

    /// Changes of all rows of a table, matched by key.
    fn rows<K: Ord>(
        &self,
        measures: &[Measure],
        table: impl Fn(&Profile) -> &BTreeMap<K, Row>,
        name: impl Fn(&K) -> (Arc<str>, Option<String>),
    ) -> Vec<Change> {
        let keys: BTreeSet<&K> = self.before.iter().chain(&self.after).flat_map(|p| table(p).keys()).collect();
        let row = |key: &K| {
            let before: Vec<Option<&Row>> = self.before.iter().map(|p| table(p).get(key)).collect();
            let after: Vec<Option<&Row>> = self.after.iter().map(|p| table(p).get(key)).collect();
            self.row(name(key), &before, &after, measures)
        };
        keys.into_iter().flat_map(row).collect()
    }

    /// Changes of rows that are named by Python functions. Rows of the second side are matched by their names on the
    /// first side. `rename` returns that name if it differs.
    fn aligned(
        &self,
        measures: &[Measure],
        table: impl Fn(&Profile) -> &RowsByName,
        rename: impl Fn(&Arc<str>, &BTreeMap<Arc<str>, Arc<str>>) -> Option<Arc<str>>,
    ) -> Vec<Change> {
        let names = &self.names;
        let renamed = |rows: &RowsByName| -> RowsByName {
            rows.iter()
                .map(|(name, row)| (rename(name, names).unwrap_or_else(|| Arc::clone(name)), row.clone()))
                .collect()
        };
        // Usually there is nothing to rename.
        let renamed: Vec<Option<RowsByName>> =
            self.after.iter().map(|p| (!names.is_empty()).then(|| renamed(table(p)))).collect();
        let before: Vec<&RowsByName> = self.before.iter().map(|p| table(p)).collect();
        let after: Vec<&RowsByName> =
            self.after.iter().zip(&renamed).map(|(p, renamed)| renamed.as_ref().unwrap_or_else(|| table(p))).collect();
        let keys: BTreeSet<&Arc<str>> = before.iter().chain(&after).flat_map(|of| of.keys()).collect();
        // A function without samples on a side may still have run. Its known time is 0, and is tested as such.
        let unseen = Row::default();
        let sampled = measures.contains(&Measure::CpuTotal)
            && self.before.iter().any(|profile| profile.functions_by == Some(functions::BY_SAMPLES));
        let missing = sampled.then_some(&unseen);
        let row = |key: &Arc<str>| {
            let before: Vec<Option<&Row>> = before.iter().map(|of| of.get(key).or(missing)).collect();
            let after: Vec<Option<&Row>> = after.iter().map(|of| of.get(key).or(missing)).collect();
            self.row((Arc::clone(key), None), &before, &after, measures)
        };
        keys.into_iter().flat_map(row).collect()
    }

    /// Changes of one row, one per measure that is not zero on both sides.
    fn row(
        &self,
        (name, operator): (Arc<str>, Option<String>),
        before: &[Option<&Row>],
        after: &[Option<&Row>],
        measures: &[Measure],
    ) -> Vec<Change> {
        let trim = if name.is_empty() { TRIM_SHARE } else { 0.0 };
        let values = |side: &[&Profile], rows: &[Option<&Row>], get: &dyn Fn(&Cell) -> i64| -> Vec<Vec<f64>> {
            let of = |(profile, row): (&&Profile, &Option<&Row>)| {
                let cell = |at| row.and_then(|row| row.get(at)).map_or(0, get) as f64;
                (0..profile.units()).map(cell).collect()
            };
            side.iter().zip(rows).map(of).collect()
        };
        let both = |get: &dyn Fn(&Cell) -> i64| (values(&self.before, before, get), values(&self.after, after, get));
        let counts_of = both(&|cell| cell.count);
        let counts_are_steady = is_steady(&counts_of.0) && is_steady(&counts_of.1);
        let counts = (mean_of_means(&counts_of.0, 0.0), mean_of_means(&counts_of.1, 0.0));
        let mut out = Vec::new();
        for &measure in measures {
            let (a, b) = both(&|cell| cell.time(measure));
            if a.iter().chain(&b).flatten().all(|&ns| ns == 0.0) {
                continue;
            }
            let (before_ns, after_ns) = (mean_of_means(&a, trim), mean_of_means(&b, trim));
            let tested = match self.per {
                Per::Call => difference_of_calls((&a, &counts_of.0), (&b, &counts_of.1), self.level),
                Per::Step | Per::Run => difference(&a, &b, trim, self.level),
            };
            // A time cannot be negative.
            let interval = |tested: Difference| (tested.interval.0.max(-before_ns), tested.interval.1.max(-before_ns));
            let verdict = match () {
                () if before.iter().all(Option::is_none) => Verdict::OnlyAfter,
                () if after.iter().all(Option::is_none) => Verdict::OnlyBefore,
                () => Verdict::Untested,
            };
            out.push(Change {
                rank: self.rank,
                name: Arc::clone(&name),
                operator: operator.clone(),
                measure,
                before_ns,
                after_ns,
                p: tested.map(|tested| tested.p),
                interval_ns: tested.map(interval),
                q: None,
                verdict,
                count_before: counts.0,
                count_after: counts.1,
                counts_are_steady,
                is_incomplete: [false; 2],
            });
        }
        out
    }
}

/// Test if there are several steps and all have the same number of calls.
fn is_steady(runs: &[Vec<f64>]) -> bool {
    let all: Vec<f64> = runs.iter().flatten().copied().collect();
    all.len() > 1 && all.iter().all(|count| *count == all[0])
}

/// Mean over runs of the (trimmed) mean over steps; 0 without runs.
fn mean_of_means(runs: &[Vec<f64>], trim: f64) -> f64 {
    let centers: Vec<f64> = runs.iter().filter_map(|run| Location::estimate(run, trim)).map(|of| of.center).collect();
    centers.iter().sum::<f64>() / centers.len().max(1) as f64
}

/// Test the difference of mean times before and after; `None` if a side has no times or the spread is unknown.
///
/// If each side has one run, the spread is between steps; otherwise it is between runs, and at least the uncertainty
/// from their steps.
fn difference(before: &[Vec<f64>], after: &[Vec<f64>], trim: f64, level: f64) -> Option<Difference> {
    let locations = |runs: &[Vec<f64>]| runs.iter().filter_map(|run| Location::estimate(run, trim)).collect::<Vec<_>>();
    let (a, b) = (locations(before), locations(after));
    if let ([a], [b]) = (&a[..], &b[..]) {
        return welch(a, b, level, 0.0);
    }
    let of_runs = |runs: &[Location]| {
        let centers: Vec<f64> = runs.iter().map(|run| run.center).collect();
        Location::independent(&centers, 0.0)
    };
    let left_open = |runs: &[Location]| {
        let count = runs.len().max(1) as f64;
        runs.iter().filter_map(|run| run.error2).sum::<f64>() / (count * count)
    };
    welch(&of_runs(&a)?, &of_runs(&b)?, level, left_open(&a) + left_open(&b))
}

/// Test the time per call of runs with different numbers of calls. The difference is in ns for the mean number of calls
/// per run before. `None` if calls of any run are not counted.
fn difference_of_calls(
    (before, counts_before): (&[Vec<f64>], &[Vec<f64>]),
    (after, counts_after): (&[Vec<f64>], &[Vec<f64>]),
    level: f64,
) -> Option<Difference> {
    if counts_before.iter().chain(counts_after).flatten().any(|&count| count <= 0.0) {
        return None;
    }
    let calls = mean_of_means(counts_before, 0.0);
    // Linearized ratios (Cochran 1977, "Sampling Techniques", Ch. 6): their mean is the time of all runs divided by the
    // calls of all runs.
    let of_calls = |times: &[Vec<f64>], counts: &[Vec<f64>]| -> Vec<Vec<f64>> {
        let count = mean_of_means(counts, 0.0);
        let of_call = mean_of_means(times, 0.0) / count;
        let run = |(times, counts): (&Vec<f64>, &Vec<f64>)| {
            times.iter().zip(counts).map(|(ns, own)| calls * (of_call + (ns - of_call * own) / count)).collect()
        };
        times.iter().zip(counts).map(run).collect()
    };
    difference(&of_calls(before, counts_before), &of_calls(after, counts_after), 0.0, level)
}
