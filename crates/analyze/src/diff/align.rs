//! Puts profiles beside each other and tells what is beyond the spread from noise.

use super::comparable::{slow_steps, warnings};
use super::profile::{Cell, Measure, Profile, Row};
use super::statistics::{Difference, Location, adjusted, welch};
use crate::findings::Confidence;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// Steps as a whole.
    Steps,
    /// Operators by name.
    Operators,
    /// Work of the GPU by name, or by operator and family.
    Kernels,
    /// Call paths.
    Paths,
}

impl Table {
    /// All of them, in the order shown.
    pub const ALL: [Self; 4] = [Self::Steps, Self::Operators, Self::Kernels, Self::Paths];

    /// Stable text name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::Operators => "operators",
            Self::Kernels => "kernels",
            Self::Paths => "paths",
        }
    }
}

/// What a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes longer, beyond the spread.
    Slower,
    /// It takes less time, beyond the spread.
    Faster,
    /// No difference that the spread could not have made.
    Noise,
    /// It occurs only before.
    OnlyBefore,
    /// It occurs only after.
    OnlyAfter,
    /// There is no spread to tell anything from.
    Untested,
}

impl Verdict {
    /// Stable text name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Noise => "noise",
            Self::OnlyBefore => "only in A",
            Self::OnlyAfter => "only in B",
            Self::Untested => "untested",
        }
    }

    /// Whether the change is more than noise.
    #[must_use]
    pub fn is_change(self) -> bool {
        !matches!(self, Self::Noise | Self::Untested)
    }
}

/// One measure of one thing, before and after. Times in ns per step.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Rank before (its counterpart may have another number where each run is one trace).
    pub rank: i64,
    /// Name of the operator, kernel or path; empty for the step.
    pub name: Arc<str>,
    /// For kernels by family: the operator that launched them.
    pub operator: Option<String>,
    /// What is measured.
    pub measure: Measure,
    /// Mean before (trimmed for steps).
    pub before_ns: f64,
    /// Mean after.
    pub after_ns: f64,
    /// Interval that holds the true change, where it was tested: no less than that all of it goes.
    pub interval_ns: Option<(f64, f64)>,
    /// How likely such a change is by chance alone.
    pub p: Option<f64>,
    /// The same, adjusted for the number of rows of its table.
    pub q: Option<f64>,
    /// What it is.
    pub verdict: Verdict,
    /// Calls or operations per step before; of the step as a whole the steps compared, and the operations of the GPU.
    pub count_before: f64,
    /// The same after.
    pub count_after: f64,
    /// Whether each side has several steps, and each of its steps as many calls as its others: then no chance is in how they differ.
    pub counts_are_steady: bool,
}

impl Change {
    /// Whether all steps after have another number of calls than all steps before.
    #[must_use]
    pub fn calls_changed(&self) -> bool {
        self.counts_are_steady && self.count_before != self.count_after
    }

    /// How much more time it takes per step.
    #[must_use]
    pub fn change_ns(&self) -> f64 {
        self.after_ns - self.before_ns
    }

    /// The same in percent of the time before; none if there was none.
    #[must_use]
    pub fn percent(&self) -> Option<f64> {
        self.percent_of(self.change_ns())
    }

    /// A time in percent of the time before.
    #[must_use]
    pub fn percent_of(&self, ns: f64) -> Option<f64> {
        (self.before_ns > 0.0).then(|| 100.0 * ns / self.before_ns)
    }
}

/// What the spread was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Steps of one run on each side.
    Steps,
    /// Means of several runs.
    Runs,
    /// There is no spread: one step each.
    None,
}

impl Method {
    /// Stable text name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::Runs => "runs",
            Self::None => "none",
        }
    }
}

/// How to compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Share of false alarms that is accepted, 0 to 1.
    pub level: f64,
    /// Whether kernels are aligned by operator and family rather than by name; without, if vendors differ.
    pub by_family: Option<bool>,
}

impl Default for Options {
    fn default() -> Self {
        Self { level: 0.05, by_family: None }
    }
}

/// One side: its runs, each with its ranks.
pub type Side = Vec<Vec<Profile>>;

/// Two sides compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// How.
    pub options: Options,
    /// What the spread was taken from.
    pub method: Method,
    /// Whether kernels are aligned by operator and family.
    pub by_family: bool,
    /// All changes by table, the largest first.
    pub changes: BTreeMap<Table, Vec<Change>>,
    /// Why the sides can hardly be compared, a sentence each; mostly none.
    pub warnings: Vec<String>,
    /// What the reader should know, a sentence each.
    pub notes: Vec<String>,
}

impl Diff {
    /// How much it says of a change of the program: `high` of several runs, `medium` of steps of one run each, `low` of one step
    /// each and where the sides can hardly be compared.
    #[must_use]
    pub fn confidence(&self) -> Confidence {
        match self.method {
            _ if !self.warnings.is_empty() => Confidence::Low,
            Method::Runs => Confidence::High,
            Method::Steps => Confidence::Medium,
            Method::None => Confidence::Low,
        }
    }
}

/// Of the steps, the share left out at each end.
pub(super) const TRIM: f64 = 0.2;

/// Compares two sides.
#[must_use]
pub fn compare(before: &Side, after: &Side, options: Options) -> Diff {
    let all = || before.iter().chain(after).flatten();
    let vendor = |side: &Side| side.iter().flatten().find_map(|profile| profile.vendor);
    let vendors = vendor(before).zip(vendor(after)).filter(|(a, b)| a != b);
    let by_family = options.by_family.unwrap_or(vendors.is_some());
    let warnings = warnings(before, after, by_family);
    let (method, changes) = (Method::None, BTreeMap::new());
    let mut diff = Diff { options, method, by_family, changes, warnings, notes: Vec::new() };
    if let Some((a, b)) = vendors {
        diff.notes.push(format!("A ran on {} and B on {}.", a.name(), b.name()));
    }
    let same_paths = all().map(|profile| profile.path_kind).collect::<BTreeSet<_>>().len() <= 1;
    if !same_paths {
        diff.notes.push(
            "Call paths are not compared: the two sides record different parts of them (modules, Python functions or \
             operators only)."
                .to_owned(),
        );
    }
    for (rank, a, b) in pairs(before, after, &mut diff.notes) {
        let pair = Pair { rank, before: a, after: b, level: options.level };
        diff.method = stronger(diff.method, pair.method());
        for table in Table::ALL.into_iter().filter(|table| *table != Table::Paths || same_paths) {
            diff.changes.entry(table).or_default().extend(pair.changes(table, by_family));
        }
    }
    for (table, changes) in &mut diff.changes {
        judge(*table, changes, options.level);
    }
    diff.notes.extend(notes(&diff, before, after));
    diff
}

fn stronger(a: Method, b: Method) -> Method {
    if a == Method::None { b } else { a }
}

type Ranked<'a> = (i64, Vec<&'a Profile>, Vec<&'a Profile>);

/// The profiles of each rank that both sides have.
fn pairs<'a>(before: &'a Side, after: &'a Side, notes: &mut Vec<String>) -> Vec<Ranked<'a>> {
    if before.iter().chain(after).all(|run| run.len() == 1) {
        // One trace is compared with one trace, whatever ranks they were.
        let rank = before.first().map_or(0, |run| run[0].rank);
        return vec![(rank, before.iter().flatten().collect(), after.iter().flatten().collect())];
    }
    let of = |side: &'a Side, rank: i64| side.iter().flatten().filter(|p| p.rank == rank).collect::<Vec<_>>();
    let ranks: BTreeSet<i64> = before.iter().chain(after).flatten().map(|profile| profile.rank).collect();
    let mut out = Vec::new();
    for rank in ranks {
        let (a, b) = (of(before, rank), of(after, rank));
        match (a.is_empty(), b.is_empty()) {
            (true, _) => notes.push(format!("Rank {rank} is only in B and is not compared.")),
            (_, true) => notes.push(format!("Rank {rank} is only in A and is not compared.")),
            _ => out.push((rank, a, b)),
        }
    }
    out
}

/// One rank on both sides.
struct Pair<'a> {
    rank: i64,
    before: Vec<&'a Profile>,
    after: Vec<&'a Profile>,
    level: f64,
}

impl Pair<'_> {
    fn method(&self) -> Method {
        let several = |side: &[&Profile]| side.iter().any(|profile| profile.units() > 1);
        match (self.before.len(), self.after.len()) {
            (1, 1) if several(&self.before) || several(&self.after) => Method::Steps,
            (1, 1) => Method::None,
            _ => Method::Runs,
        }
    }

    fn changes(&self, table: Table, by_family: bool) -> Vec<Change> {
        let name = |text: &String| (text.as_str().into(), None);
        match table {
            Table::Steps => {
                let measures = [Measure::Step, Measure::Gpu, Measure::Cpu];
                let rows = |side: &[&Profile]| side.iter().map(|p| p.totals.iter().collect()).collect::<Vec<Row>>();
                let (before, after) = (rows(&self.before), rows(&self.after));
                let (before, after): (Vec<_>, Vec<_>) =
                    (before.iter().map(Some).collect(), after.iter().map(Some).collect());
                let mut changes = self.row(("".into(), None), &before, &after, &measures);
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
            Table::Paths => {
                self.rows(&[Measure::Gpu, Measure::Cpu], |profile| &profile.paths, |text| (Arc::clone(text), None))
            }
        }
    }

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

    /// The measures of one thing that has any.
    fn row(
        &self,
        (name, operator): (Arc<str>, Option<String>),
        before: &[Option<&Row>],
        after: &[Option<&Row>],
        measures: &[Measure],
    ) -> Vec<Change> {
        let trim = if name.is_empty() { TRIM } else { 0.0 };
        let values = |side: &[&Profile], rows: &[Option<&Row>], get: &dyn Fn(&Cell) -> i64| -> Vec<Vec<f64>> {
            let of = |(profile, row): (&&Profile, &Option<&Row>)| {
                let cell = |at| row.and_then(|row| row.get(at)).map_or(0, get) as f64;
                (0..profile.units()).map(cell).collect()
            };
            side.iter().zip(rows).map(of).collect()
        };
        let both = |get: &dyn Fn(&Cell) -> i64| (values(&self.before, before, get), values(&self.after, after, get));
        let counts = both(&|cell| cell.count);
        let counts_are_steady = is_steady(&counts.0) && is_steady(&counts.1);
        let counts = (center(&counts.0, 0.0), center(&counts.1, 0.0));
        let mut out = Vec::new();
        for &measure in measures {
            let (a, b) = both(&|cell| cell.time(measure));
            if a.iter().chain(&b).flatten().all(|&ns| ns == 0.0) {
                continue;
            }
            let tested = difference(&a, &b, trim, self.level);
            let (before_ns, after_ns) = (center(&a, trim), center(&b, trim));
            // Nothing takes less than no time.
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
            });
        }
        out
    }
}

/// Whether there are several steps, with one number in all of them.
fn is_steady(runs: &[Vec<f64>]) -> bool {
    let all: Vec<f64> = runs.iter().flatten().copied().collect();
    all.len() > 1 && all.iter().all(|count| *count == all[0])
}

/// The mean over runs of the (trimmed) mean over steps; 0 without any.
fn center(runs: &[Vec<f64>], trim: f64) -> f64 {
    let centers: Vec<f64> = runs.iter().filter_map(|run| Location::of(run, trim)).map(|of| of.center).collect();
    centers.iter().sum::<f64>() / centers.len().max(1) as f64
}

/// The test: of steps where there is one run each, else of runs, with what their steps leave open as the least error.
fn difference(before: &[Vec<f64>], after: &[Vec<f64>], trim: f64, level: f64) -> Option<Difference> {
    let locations = |runs: &[Vec<f64>]| runs.iter().filter_map(|run| Location::of(run, trim)).collect::<Vec<_>>();
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

/// Verdicts, once all rows of a table are known; the largest changes first.
fn judge(table: Table, changes: &mut [Change], level: f64) {
    // What is asked of steps is asked for itself, of each rank; other tables ask as often as they have rows.
    let families: &[Option<Measure>] =
        if table == Table::Steps { &[Some(Measure::Step), Some(Measure::Gpu), Some(Measure::Cpu)] } else { &[None] };
    for family in families {
        let is_asked = |change: &&mut Change| family.is_none_or(|measure| change.measure == measure);
        let asked: Vec<&mut Change> = changes.iter_mut().filter(is_asked).filter(|change| change.p.is_some()).collect();
        let q = adjusted(&asked.iter().filter_map(|change| change.p).collect::<Vec<_>>());
        asked.into_iter().zip(q).for_each(|(change, q)| change.q = Some(q));
    }
    for change in changes.iter_mut() {
        let Some(q) = change.q else { continue };
        if change.verdict == Verdict::Untested {
            change.verdict = match (q <= level, change.change_ns() > 0.0) {
                (true, true) => Verdict::Slower,
                (true, false) if change.change_ns() < 0.0 => Verdict::Faster,
                _ => Verdict::Noise,
            };
        }
    }
    if table != Table::Steps {
        changes.sort_by(|a, b| b.change_ns().abs().total_cmp(&a.change_ns().abs()));
    }
}

fn notes(diff: &Diff, before: &Side, after: &Side) -> Vec<String> {
    let mut out = Vec::new();
    match diff.method {
        Method::None => out.push("One step: no spread, so nothing can be told from noise.".to_owned()),
        Method::Steps => out.push(
            "One run each: changes are told from the spread between steps, not from that between runs; give several runs \
             of each to know that too."
                .to_owned(),
        ),
        Method::Runs => {}
    }
    for (side, name) in [(before, "A"), (after, "B")] {
        for profile in side.iter().flatten() {
            let left_out = profile.steps.iter().filter_map(|step| Some((step.number, step.left_out?)));
            out.extend(
                left_out.map(|(step, why)| format!("{name}: step {step} of {} is left out ({why}).", profile.name)),
            );
            if profile.implausible > 0 {
                let (count, file) = (profile.implausible, &profile.name);
                out.push(format!("{name}: {count} events of {file} have times that cannot be and are not counted."));
            }
            out.extend(slow_steps(profile).map(|slow| format!("{name}: {slow}")));
            if profile.units() == 0 {
                out.push(format!("{name}: {} has no events with a duration.", profile.name));
            }
        }
    }
    let no_gpu = |side: &Side| side.iter().flatten().all(|p| p.totals.iter().all(|total| total.gpu == 0));
    if no_gpu(before) != no_gpu(after) {
        let name = if no_gpu(before) { "A" } else { "B" };
        out.push(format!("{name} has no GPU work; the other side has."));
    }
    let no_steps = |side: &Side| side.iter().flatten().any(|profile| profile.steps.is_empty());
    if no_steps(before) && no_steps(after) {
        out.push("There are no steps: all of a run counts as one.".to_owned());
    }
    out
}
