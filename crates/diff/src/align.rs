//! Comparison of two sets of profiles: rows matched by name, and a significance test of every difference.

use super::comparability::{Per, mean_steps, not_compared, notes, warnings};
use super::functions;
use super::inferred_steps::have_different_bases;
use super::missing_records::{self, UntestableResults};
use super::pair::Pair;
use super::profile::{Measure, Profile};
use super::statistics::benjamini_hochberg;
use stackline_timeline::confidence::Confidence;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Compared table: steps, operators, kernels, call paths or functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// Whole steps.
    Steps,
    /// Operators by name.
    Operators,
    /// GPU work by name, or by operator and family.
    Kernels,
    /// Call paths.
    Paths,
    /// Python functions by file and name.
    Functions,
}

impl Table {
    /// All tables, in display order.
    pub const ALL: [Self; 5] = [Self::Steps, Self::Operators, Self::Kernels, Self::Paths, Self::Functions];

    /// Name of the compared table in documents, such as `operators`.
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

/// Result of the comparison of one row, such as slower or noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Significantly longer.
    Slower,
    /// Significantly shorter.
    Faster,
    /// A difference that the spread can explain.
    Noise,
    /// Only in the first side.
    OnlyBefore,
    /// Only in the second side.
    OnlyAfter,
    /// Untested: the spread is unknown, or records are missing.
    Untested,
}

impl Verdict {
    /// Name of the verdict in documents, such as `slower`.
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

    /// Test if the verdict is the result of a significance test, so that the row exists on both sides.
    #[must_use]
    pub fn is_tested(self) -> bool {
        matches!(self, Self::Slower | Self::Faster | Self::Noise)
    }

    /// Test if the change is significant or the row is only on one side.
    #[must_use]
    pub fn is_change(self) -> bool {
        !matches!(self, Self::Noise | Self::Untested)
    }
}

/// Change of one measure of one row between the sides. Times are in ns per step.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Rank on the first side. The second side's number may differ if each run is one trace.
    pub rank: i64,
    /// Name of the operator, kernel or path; empty for steps.
    pub name: Arc<str>,
    /// Launching operator, for kernels by family.
    pub operator: Option<String>,
    /// The measured quantity.
    pub measure: Measure,
    /// Mean before (trimmed for steps).
    pub before_ns: f64,
    /// Mean after.
    pub after_ns: f64,
    /// Confidence interval of the change, if it was tested; its lower end is not below minus the time before. If calls
    /// are compared ([`Per::Call`]), it refers to as many calls as before, like `p`, `q` and the verdict.
    pub interval_ns: Option<(f64, f64)>,
    /// Probability of such a change by chance (p value).
    pub p: Option<f64>,
    /// The p value adjusted for the number of tested rows in the same group, small or other (q value).
    pub q: Option<f64>,
    /// Verdict of the test.
    pub verdict: Verdict,
    /// Calls or operations per step before. For whole steps: the number of compared steps, or GPU operations.
    pub count_before: f64,
    /// The same after.
    pub count_after: f64,
    /// True if each side has several steps with equal numbers of calls. A difference in calls is then not random.
    pub counts_are_steady: bool,
    /// True per side if records are missing from its time.
    pub is_incomplete: [bool; 2],
}

impl Change {
    /// Mean times before and after; `None` for a time of 0 that is caused by missing records.
    #[must_use]
    pub fn known_ns(&self) -> [Option<f64>; 2] {
        let [before, after] = self.is_incomplete;
        [(self.before_ns, before), (self.after_ns, after)]
            .map(|(ns, is_incomplete)| (ns != 0.0 || !is_incomplete).then_some(ns))
    }

    /// Change of the time per step in ns; `None` if one of the times is missing.
    #[must_use]
    pub fn known_change_ns(&self) -> Option<f64> {
        self.known_ns().iter().all(Option::is_some).then(|| self.change_ns())
    }

    /// Test if the number of calls per step differs between the sides and is constant on each.
    #[must_use]
    pub fn calls_changed(&self) -> bool {
        self.counts_are_steady && self.count_before != self.count_after
    }

    /// Change of the time per step, in ns.
    pub fn change_ns(&self) -> f64 {
        self.after_ns - self.before_ns
    }

    /// Change in percent of the time before; `None` if that is 0.
    #[must_use]
    pub fn percent(&self) -> Option<f64> {
        self.percent_of(self.change_ns())
    }

    /// A time in percent of the time before; `None` if that is 0.
    #[must_use]
    pub fn percent_of(&self, ns: f64) -> Option<f64> {
        (self.before_ns > 0.0).then(|| 100.0 * ns / self.before_ns)
    }
}

/// Source of the spread that differences are tested against: steps, runs or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Steps of one run on each side.
    Steps,
    /// Means of several runs.
    Runs,
    /// No spread: one step each.
    None,
}

impl Method {
    /// Name of the source of spread (steps, runs or none) in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::Runs => "runs",
            Self::None => "none",
        }
    }
}

/// Options of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Accepted share of false alarms, 0 to 1.
    pub level: f64,
    /// Align kernels by operator and family instead of by name. Default: only if vendors differ.
    pub by_family: Option<bool>,
}

impl Default for Options {
    fn default() -> Self {
        Self { level: 0.05, by_family: None }
    }
}

/// One side of a comparison: its runs, each with the profiles of its ranks.
pub type Side = Vec<Vec<Profile>>;

/// Result of a comparison of two sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// Options of the comparison.
    pub options: Options,
    /// Source of the spread.
    pub method: Method,
    /// Unit of compared times.
    pub per: Per,
    /// True if some runs have steps and others none: only times per call are comparable.
    pub has_different_bases: bool,
    /// True if kernels are aligned by operator and family.
    pub by_family: bool,
    /// Method of measuring Python functions, if it is the same on both sides.
    pub functions_by: Option<&'static str>,
    /// Mean step length on both sides, as a sentence, if single steps were not kept.
    pub mean_steps: Option<String>,
    /// All changes by table, the largest first.
    pub changes: BTreeMap<Table, Vec<Change>>,
    /// Reasons why the sides are hardly comparable, one sentence each; usually empty.
    pub warnings: Vec<String>,
    /// Runs with so many missing records or times that their results are not tested, one sentence each; usually empty.
    pub missing_records: Vec<String>,
    /// Notes for the reader, one sentence each.
    pub notes: Vec<String>,
}

impl Diff {
    /// Confidence that a change comes from the program: `high` for several runs, `medium` for steps of one run each.
    /// The confidence is `low` for one step each and for hardly comparable sides.
    #[must_use]
    pub fn confidence(&self) -> Confidence {
        match self.method {
            _ if !self.warnings.is_empty() || !self.missing_records.is_empty() => Confidence::Low,
            Method::Runs => Confidence::High,
            Method::Steps => Confidence::Medium,
            Method::None => Confidence::Low,
        }
    }

    /// Time per call of a row on both sides, in ns; `None` if calls are not counted or a side has none. For whole steps
    /// and for functions by samples, counts are not calls.
    #[must_use]
    pub fn call_ns(&self, table: Table, change: &Change) -> Option<(f64, f64)> {
        let is_on_both = change.count_before > 0.0 && change.count_after > 0.0 && change.known_change_ns().is_some();
        (counts_calls(table, self.functions_by) && is_on_both)
            .then(|| (change.before_ns / change.count_before, change.after_ns / change.count_after))
    }

    /// Change of a row's time, in ns: per step or run. If calls are compared, for as many calls as before.
    #[must_use]
    pub fn change_ns(&self, table: Table, change: &Change) -> f64 {
        match self.call_ns(table, change).filter(|_| self.per == Per::Call) {
            Some((before, after)) => (after - before) * change.count_before,
            None => change.change_ns(),
        }
    }

    /// Change in percent of the time before; `None` if that is 0.
    #[must_use]
    pub fn percent(&self, table: Table, change: &Change) -> Option<f64> {
        change.percent_of(self.change_ns(table, change))
    }

    /// Change in time per call, in percent, over calls on both sides, weighted by the calls before. Uses GPU operations
    /// if there are any, otherwise operators (self time). `None` if no call is on both sides.
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

    /// Set the verdict (slower, faster, noise …) of every compared row of all tables.
    fn judge(&mut self) {
        let steps = self.changes.get(&Table::Steps).into_iter().flatten().filter(|step| step.measure == Measure::Step);
        let steps: BTreeMap<i64, f64> = steps.map(|change| (change.rank, mean_ns(change))).collect();
        let mut changes = std::mem::take(&mut self.changes);
        for (table, changes) in &mut changes {
            judge_table(*table, changes, self.options.level, &steps, |change| self.change_ns(*table, change));
        }
        self.changes = changes;
    }

    /// Sort rows by change per call, largest first.
    fn sort_by_calls(&mut self) {
        let mut changes = std::mem::take(&mut self.changes);
        for (table, rows) in changes.iter_mut().filter(|(table, _)| **table != Table::Steps) {
            rows.sort_by(|a, b| self.change_ns(*table, b).abs().total_cmp(&self.change_ns(*table, a).abs()));
        }
        self.changes = changes;
    }
}

/// Share of steps that the trimmed mean excludes at each end.
pub(super) const TRIM_SHARE: f64 = 0.2;

/// Compare the profiles before with those after, and test the differences.
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
    let missing_records = missing_records::missing_record_notes(before, after);
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
        missing_records,
        notes: first_notes,
    };
    if let Some((a, b)) = vendors {
        diff.notes.push(format!("A ran on {} and B on {}.", a.name(), b.name()));
    }
    let same_paths = all().map(|profile| profile.path_kind).collect::<BTreeSet<_>>().len() <= 1;
    diff.notes.extend(not_compared(before, after, (same_paths, functions_by.is_some())));
    for (rank, a, b) in profiles_by_rank(before, after, &mut diff.notes) {
        let names = functions::aligned_names(&a, &b);
        let unknown = UntestableResults::new(&a, &b);
        let pair = Pair { rank, before: a, after: b, level: options.level, per, names };
        let is_known = |table: &Table| match table {
            Table::Paths => same_paths,
            Table::Functions => functions_by.is_some(),
            _ => true,
        };
        diff.method = first_known_method(diff.method, pair.method());
        for table in Table::ALL.into_iter().filter(is_known) {
            let is_compared = table != Table::Steps || !has_different_bases;
            let mut changes = if is_compared { pair.changes(table, by_family) } else { Vec::new() };
            unknown.clear_tests(table, by_family, &mut changes);
            if per == Per::Call && !counts_calls(table, functions_by) {
                missing_records::clear_tests(changes.iter_mut());
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

/// Test if the counts in the rows of a table are numbers of calls, not of steps or samples.
fn counts_calls(table: Table, functions_by: Option<&str>) -> bool {
    match table {
        Table::Steps => false,
        Table::Functions => functions_by == Some(functions::BY_CALLS),
        Table::Operators | Table::Kernels | Table::Paths => true,
    }
}

/// Common method of measuring Python functions (calls or samples); `None` if profiles differ or lack one.
fn functions_by(before: &Side, after: &Side) -> Option<&'static str> {
    let mut methods = before.iter().chain(after).flatten().map(|profile| profile.functions_by);
    let first = methods.next()??;
    methods.all(|method| method == Some(first)).then_some(first)
}

fn first_known_method(a: Method, b: Method) -> Method {
    if a == Method::None { b } else { a }
}

type Ranked<'a> = (i64, Vec<&'a Profile>, Vec<&'a Profile>);

/// Profiles of each rank on both sides. Ranks on one side only are left out, with a note in `notes`.
fn profiles_by_rank<'a>(before: &'a Side, after: &'a Side, notes: &mut Vec<String>) -> Vec<Ranked<'a>> {
    if before.iter().chain(after).all(|run| run.len() == 1) {
        // One trace per run: compare them independent of their rank numbers.
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

/// Share of the step below which rows are small. Their p values are adjusted apart, because they are many.
const SMALL_SHARE: f64 = 0.01;

/// Compute q values and verdicts for the rows of a table, and sort them by change, largest first. `steps`: step length
/// per rank, in ns. `change_ns`: the compared change, see [`Diff::change_ns`].
fn judge_table(
    table: Table,
    changes: &mut [Change],
    level: f64,
    steps: &BTreeMap<i64, f64>,
    change_ns: impl Fn(&Change) -> f64,
) {
    // Steps are tested on their own, per rank; rows of other tables are adjusted for their number. Rows are grouped by
    // the mean over both sides, which is independent of the difference (stratified: Sun et al. 2006).
    let is_small = |change: &Change| mean_ns(change) < SMALL_SHARE * steps.get(&change.rank).copied().unwrap_or(0.0);
    let family = |change: &Change| match table {
        Table::Steps => (Some(change.measure), false),
        _ => (Some(change.measure).filter(|&of| of == Measure::CpuTotal), is_small(change)),
    };
    let mut tested: BTreeMap<_, Vec<&mut Change>> = BTreeMap::new();
    for change in changes.iter_mut().filter(|change| change.p.is_some()) {
        tested.entry(family(change)).or_default().push(change);
    }
    for family in tested.into_values() {
        let q = benjamini_hochberg(&family.iter().filter_map(|change| change.p).collect::<Vec<_>>());
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

/// Mean of a row's times before and after, in ns.
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
    fn small_or_enclosing_rows_do_not_hide_others() {
        let steps = BTreeMap::from([(0, 1e6), (1, 1e9)]);
        let verdict = |others: Change| {
            let mut rows = vec![row(Measure::Cpu, 1e5, 0.02)];
            rows.extend(std::iter::repeat_n(others, 40));
            judge_table(Table::Functions, &mut rows, 0.05, &steps, Change::change_ns);
            rows.into_iter().find(|row| row.p == Some(0.02)).map(|row| row.verdict)
        };
        assert_eq!(verdict(row(Measure::Cpu, 5e3, 0.5)), Some(Verdict::Slower));
        assert_eq!(verdict(row(Measure::CpuTotal, 1e5, 0.5)), Some(Verdict::Slower));
        assert_eq!(
            verdict(row(Measure::Cpu, 1e5, 0.5)),
            Some(Verdict::Noise),
            "these are as many questions of one kind"
        );
        // A row that is small in a long step of another rank is not small in a short one.
        let other_rank = Change { rank: 1, ..row(Measure::Cpu, 1e5, 0.5) };
        assert_eq!(verdict(other_rank), Some(Verdict::Slower));
    }
}
