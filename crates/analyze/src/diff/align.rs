//! Puts profiles beside each other and tells what is beyond the spread from noise.

use super::comparability::{Per, mean_steps, not_compared, notes, warnings};
use super::functions;
use super::inferred_steps::have_different_bases;
use super::lost::{self, Unknown};
use super::pair::Pair;
use super::profile::{Measure, Profile};
use super::statistics::adjusted;
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
    /// Python functions by file and name.
    Functions,
}

impl Table {
    /// All, as shown.
    pub const ALL: [Self; 5] = [Self::Steps, Self::Operators, Self::Kernels, Self::Paths, Self::Functions];

    /// Stable text name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::Operators => "operators",
            Self::Kernels => "kernels",
            Self::Paths => "paths",
            Self::Functions => "functions",
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

    /// Whether it is what a test says of a row that both sides have.
    #[must_use]
    pub fn is_tested(self) -> bool {
        matches!(self, Self::Slower | Self::Faster | Self::Noise)
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
    /// Interval that holds the true change, where it was tested: no less than that all of it goes. Where calls are compared ([`Per::Call`]),
    /// that of as many calls as before; so are `p`, `q` and the verdict.
    pub interval_ns: Option<(f64, f64)>,
    /// How likely such a change is by chance alone.
    pub p: Option<f64>,
    /// The same, adjusted for the number of rows that are asked with it: those of its table that are small, or are not, as it is.
    pub q: Option<f64>,
    /// What it is.
    pub verdict: Verdict,
    /// Calls or operations per step before; of the step as a whole the steps compared, and the operations of the GPU.
    pub count_before: f64,
    /// The same after.
    pub count_after: f64,
    /// Whether each side has several steps, and each of its steps as many calls as its others: then no chance is in how they differ.
    pub counts_are_steady: bool,
    /// Whether records are missing that the time before is made of, and the time after.
    pub is_incomplete: [bool; 2],
}

impl Change {
    /// Mean before and after; none where it is 0 because records are missing.
    #[must_use]
    pub fn known_ns(&self) -> [Option<f64>; 2] {
        let [before, after] = self.is_incomplete;
        [(self.before_ns, before), (self.after_ns, after)]
            .map(|(ns, is_incomplete)| (ns != 0.0 || !is_incomplete).then_some(ns))
    }

    /// How much more time it takes per step; none where one of both times is missing.
    #[must_use]
    pub fn known_change_ns(&self) -> Option<f64> {
        self.known_ns().iter().all(Option::is_some).then(|| self.change_ns())
    }

    /// Whether all steps after have another number of calls than all steps before.
    #[must_use]
    pub fn calls_changed(&self) -> bool {
        self.counts_are_steady && self.count_before != self.count_after
    }

    /// How much more time it takes per step.
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
    /// What times are compared per.
    pub per: Per,
    /// Whether some runs have steps and others none: times of a step stand beside times of a whole run, and only those of a call compare.
    pub has_different_bases: bool,
    /// Whether kernels are aligned by operator and family.
    pub by_family: bool,
    /// How it is known what Python functions take, where both sides know it the same way.
    pub functions_by: Option<&'static str>,
    /// How long a step takes on both sides, as a sentence, where single steps were not kept but their mean is known.
    pub mean_steps: Option<String>,
    /// All changes by table, the largest first.
    pub changes: BTreeMap<Table, Vec<Change>>,
    /// Why the sides can hardly be compared, a sentence each; mostly none.
    pub warnings: Vec<String>,
    /// Which runs lack so many records, or times, that what is made of them is not tested, a sentence each; mostly none.
    pub lost: Vec<String>,
    /// What the reader should know, a sentence each.
    pub notes: Vec<String>,
}

impl Diff {
    /// How much it says of a change of the program: `high` of several runs, `medium` of steps of one run each, `low` of one step
    /// each and where the sides can hardly be compared.
    #[must_use]
    pub fn confidence(&self) -> Confidence {
        match self.method {
            _ if !self.warnings.is_empty() || !self.lost.is_empty() => Confidence::Low,
            Method::Runs => Confidence::High,
            Method::Steps => Confidence::Medium,
            Method::None => Confidence::Low,
        }
    }

    /// Time of a call in a row on both sides, in ns; none where calls are not counted, or a side has none. Of a step as a whole
    /// and of functions by samples, counts are not those of calls.
    #[must_use]
    pub fn call_ns(&self, table: Table, change: &Change) -> Option<(f64, f64)> {
        let is_on_both = change.count_before > 0.0 && change.count_after > 0.0 && change.known_change_ns().is_some();
        (counts_calls(table, self.functions_by) && is_on_both)
            .then(|| (change.before_ns / change.count_before, change.after_ns / change.count_after))
    }

    /// How much more time a row takes, in ns: per step or run, or with as many calls as before where calls are compared.
    #[must_use]
    pub fn change_ns(&self, table: Table, change: &Change) -> f64 {
        match self.call_ns(table, change).filter(|_| self.per == Per::Call) {
            Some((before, after)) => (after - before) * change.count_before,
            None => change.change_ns(),
        }
    }

    /// The same in percent of the time before; none if there was none.
    #[must_use]
    pub fn percent(&self, table: Table, change: &Change) -> Option<f64> {
        change.percent_of(self.change_ns(table, change))
    }

    /// How much longer calls take that both sides have, in percent, each as often as before: of GPU operations where there are
    /// any, else of operators without the operators in them. None if no call is on both sides.
    #[must_use]
    pub fn percent_of_calls(&self) -> Option<(Table, f64)> {
        [(Table::Kernels, Measure::Gpu), (Table::Operators, Measure::Cpu)].into_iter().find_map(|(table, measure)| {
            let rows = self.changes.get(&table)?.iter().filter(|change| change.measure == measure);
            let (mut before_ns, mut change_ns) = (0.0, 0.0);
            for (change, (before, after)) in rows.filter_map(|change| Some((change, self.call_ns(table, change)?))) {
                before_ns += change.before_ns;
                change_ns += (after - before) * change.count_before;
            }
            (before_ns > 0.0).then(|| (table, 100.0 * change_ns / before_ns))
        })
    }

    /// Gives all rows their verdicts.
    fn judge(&mut self) {
        let steps = self.changes.get(&Table::Steps).into_iter().flatten().filter(|step| step.measure == Measure::Step);
        let steps: BTreeMap<i64, f64> = steps.map(|change| (change.rank, mean_ns(change))).collect();
        let mut changes = std::mem::take(&mut self.changes);
        for (table, changes) in &mut changes {
            judge(*table, changes, self.options.level, &steps, |change| self.change_ns(*table, change));
        }
        self.changes = changes;
    }

    /// Puts the rows first whose calls changed most.
    fn sort_by_calls(&mut self) {
        let mut changes = std::mem::take(&mut self.changes);
        for (table, rows) in changes.iter_mut().filter(|(table, _)| **table != Table::Steps) {
            rows.sort_by(|a, b| self.change_ns(*table, b).abs().total_cmp(&self.change_ns(*table, a).abs()));
        }
        self.changes = changes;
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
    let functions_by = functions_by(before, after);
    let (per, has_different_bases) = (Per::choose(before, after), have_different_bases(before, after));
    let mean_steps = mean_steps(before, after);
    let first_notes = mean_steps.iter().cloned().collect();
    let lost = lost::sentences(before, after);
    let mut diff = Diff {
        options,
        method,
        per,
        has_different_bases,
        by_family,
        functions_by,
        mean_steps,
        changes,
        warnings,
        lost,
        notes: first_notes,
    };
    if let Some((a, b)) = vendors {
        diff.notes.push(format!("A ran on {} and B on {}.", a.name(), b.name()));
    }
    let same_paths = all().map(|profile| profile.path_kind).collect::<BTreeSet<_>>().len() <= 1;
    diff.notes.extend(not_compared(before, after, (same_paths, functions_by.is_some())));
    for (rank, a, b) in pairs(before, after, &mut diff.notes) {
        let names = functions::aligned(&a, &b);
        let unknown = Unknown::new(&a, &b);
        let pair = Pair { rank, before: a, after: b, level: options.level, per, names };
        let is_known = |table: &Table| match table {
            Table::Paths => same_paths,
            Table::Functions => functions_by.is_some(),
            _ => true,
        };
        diff.method = stronger(diff.method, pair.method());
        for table in Table::ALL.into_iter().filter(is_known) {
            let is_compared = table != Table::Steps || !has_different_bases;
            let mut changes = if is_compared { pair.changes(table, by_family) } else { Vec::new() };
            unknown.untest(table, by_family, &mut changes);
            if per == Per::Call && !counts_calls(table, functions_by) {
                lost::untest(changes.iter_mut());
            }
            diff.changes.entry(table).or_default().extend(changes);
        }
    }
    diff.judge();
    if diff.per == Per::Call {
        diff.sort_by_calls();
    }
    diff.notes.extend(notes(&diff, before, after));
    diff
}

/// Whether counts of a table are those of calls.
fn counts_calls(table: Table, functions_by: Option<&str>) -> bool {
    match table {
        Table::Steps => false,
        Table::Functions => functions_by == Some(functions::BY_CALLS),
        Table::Operators | Table::Kernels | Table::Paths => true,
    }
}

/// How it is known what Python functions take; none if not all runs know it the same way.
fn functions_by(before: &Side, after: &Side) -> Option<&'static str> {
    let mut ways = before.iter().chain(after).flatten().map(|profile| profile.functions_by);
    let first = ways.next()??;
    ways.all(|way| way == Some(first)).then_some(first)
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

/// Rows that take less than this share of the step are many and tell little: what is asked of them is adjusted apart from what is asked of the others.
const SMALL: f64 = 0.01;

/// Verdicts, once all rows of a table are known; the largest changes first. `steps`: how long a step of each rank takes, in ns.
/// `change_ns`: what is compared of a row, see [`Diff::change_ns`].
fn judge(
    table: Table,
    changes: &mut [Change],
    level: f64,
    steps: &BTreeMap<i64, f64>,
    change_ns: impl Fn(&Change) -> f64,
) {
    // What is asked of steps is asked for itself, of each rank; other tables ask as often as they have rows. Rows are told apart by
    // what both sides take together, which says nothing of how they differ (stratified: Sun et al. 2006).
    let is_small = |change: &Change| mean_ns(change) < SMALL * steps.get(&change.rank).copied().unwrap_or(0.0);
    let family = |change: &Change| match table {
        Table::Steps => (Some(change.measure), false),
        _ => (Some(change.measure).filter(|&of| of == Measure::CpuTotal), is_small(change)),
    };
    let mut asked: BTreeMap<_, Vec<&mut Change>> = BTreeMap::new();
    for change in changes.iter_mut().filter(|change| change.p.is_some()) {
        asked.entry(family(change)).or_default().push(change);
    }
    for family in asked.into_values() {
        let q = adjusted(&family.iter().filter_map(|change| change.p).collect::<Vec<_>>());
        family.into_iter().zip(q).for_each(|(change, q)| change.q = Some(q));
    }
    for change in changes.iter_mut() {
        let Some(q) = change.q else { continue };
        if change.verdict == Verdict::Untested {
            change.verdict = match change_ns(change) {
                more if q <= level && more > 0.0 => Verdict::Slower,
                more if q <= level && more < 0.0 => Verdict::Faster,
                _ => Verdict::Noise,
            };
        }
    }
    if table != Table::Steps {
        changes.sort_by(|a, b| b.change_ns().abs().total_cmp(&a.change_ns().abs()));
    }
}

/// What a row takes on either side, in ns.
fn mean_ns(change: &Change) -> f64 {
    f64::midpoint(change.before_ns, change.after_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(measure: Measure, ns: f64, p: f64) -> Change {
        Change {
            rank: 0,
            name: "".into(),
            operator: None,
            measure,
            before_ns: ns,
            after_ns: ns * 1.2,
            interval_ns: None,
            p: Some(p),
            q: None,
            verdict: Verdict::Untested,
            count_before: 1.0,
            count_after: 1.0,
            counts_are_steady: true,
            is_incomplete: [false; 2],
        }
    }

    #[test]
    fn what_is_small_or_holds_others_hides_nothing() {
        let steps = BTreeMap::from([(0, 1e6), (1, 1e9)]);
        let verdict = |others: Change| {
            let mut rows = vec![row(Measure::Cpu, 1e5, 0.02)];
            rows.extend(std::iter::repeat_n(others, 40));
            judge(Table::Functions, &mut rows, 0.05, &steps, Change::change_ns);
            rows.into_iter().find(|row| row.p == Some(0.02)).map(|row| row.verdict)
        };
        assert_eq!(verdict(row(Measure::Cpu, 5e3, 0.5)), Some(Verdict::Slower));
        assert_eq!(verdict(row(Measure::CpuTotal, 1e5, 0.5)), Some(Verdict::Slower));
        assert_eq!(
            verdict(row(Measure::Cpu, 1e5, 0.5)),
            Some(Verdict::Noise),
            "these are as many questions of one kind"
        );
        // What is small in a long step of another rank is not in a short one.
        let other_rank = Change { rank: 1, ..row(Measure::Cpu, 1e5, 0.5) };
        assert_eq!(verdict(other_rank), Some(Verdict::Slower));
    }
}
