//! Tables of the differences between the two sides of a comparison (A and B, each one or more runs).

use super::align::{Change, Diff, Side, Table as Compared};
use super::comparability::Per;
use stackline_model::{Table, Unit};

/// Create all tables of a comparison: `steps`, `operators`, `kernels`, `paths`, and `functions` if known. The table
/// `step_lengths` has each step of each run.
#[must_use]
pub fn tables(diff: &Diff, before: &Side, after: &Side) -> Vec<Table> {
    let mut out: Vec<Table> =
        Compared::ALL.into_iter().filter_map(|table| Some(changes(table, diff.changes.get(&table)?, diff))).collect();
    if let Some(first) = out.first_mut() {
        first.notes = diff.missing_records.iter().chain(&diff.warnings).chain(&diff.notes).cloned().collect();
        first.notes.push(test(diff));
    }
    out.push(lengths(before, after));
    out
}

/// Note that describes the statistical test of a comparison: level, method and adjustment.
fn test(diff: &Diff) -> String {
    format!(
        "Significance level {} %, by Welch's two-sided t test. Steps are compared by 20 % trimmed means (Yuen's \
         variant), table rows by means. The p values of table rows are adjusted for multiple tests \
         (Benjamini-Hochberg). Rows below 1 % of the step and inclusive times are separate groups in this adjustment. \
         Variation is measured between: {}.",
        diff.options.level * 100.0,
        diff.method.name()
    )
}

/// Table of the changes of one compared table, such as operators, one row per name and measure.
fn changes(table: Compared, changes: &[Change], diff: &Diff) -> Table {
    let per = match diff.per {
        Per::Step => "per step",
        _ if diff.has_different_bases => "per call",
        _ => "in total",
    };
    let title = match table {
        Compared::Steps if diff.per == Per::Step => "Times of a step in A and B".to_owned(),
        Compared::Steps => "Times of the whole run in A and B".to_owned(),
        Compared::Operators => format!("Times of operators in A and B, {per}"),
        Compared::Kernels if diff.by_family => {
            format!("Times of GPU work in A and B, {per}, by operator and kernel family")
        }
        Compared::Kernels => format!("Times of GPU work in A and B, {per}, by name"),
        Compared::Paths => format!("Inclusive times of call paths in A and B, {per}"),
        Compared::Functions => format!("Times of Python functions in A and B, {per}"),
    };
    let mut out = Table::new(table.name(), &title);
    if changes.iter().any(|change| change.rank != changes[0].rank) {
        out = out.i64("rank", Unit::None, changes.iter().map(|change| change.rank));
    }
    if table != Compared::Steps {
        out = out.text("name", changes.iter().map(|change| change.name.to_string()));
    }
    if table == Compared::Kernels {
        out = out.text("operator", changes.iter().map(|change| change.operator.clone()));
    }
    let ns = |get: fn(&Change) -> Option<f64>| changes.iter().map(get);
    let change_ns = |change: &Change| change.known_change_ns().filter(|_| !diff.has_different_bases);
    let end =
        |get: fn((f64, f64)) -> f64| changes.iter().map(move |change| change.percent_of(get(change.interval_ns?)));
    let out = out
        .text("measure", changes.iter().map(|change| change.measure.name().to_owned()))
        .text("verdict", changes.iter().map(|change| change.verdict.name().to_owned()))
        .f64("before_ns", Unit::Ns, ns(|change| change.known_ns()[0]))
        .f64("after_ns", Unit::Ns, ns(|change| change.known_ns()[1]))
        .f64("change_ns", Unit::Ns, changes.iter().map(change_ns))
        .f64("change_percent", Unit::Percent, changes.iter().map(|change| change.percent_of(change_ns(change)?)))
        .f64("low_percent", Unit::Percent, end(|interval| interval.0))
        .f64("high_percent", Unit::Percent, end(|interval| interval.1))
        .f64("p", Unit::None, changes.iter().map(|change| change.p))
        .f64("q", Unit::None, changes.iter().map(|change| change.q))
        .f64("count_before", Unit::None, changes.iter().map(|change| change.count_before))
        .f64("count_after", Unit::None, changes.iter().map(|change| change.count_after));
    // For whole steps, counts are steps.
    if table == Compared::Steps {
        return out;
    }
    let call = |get: fn((f64, f64)) -> Option<f64>| {
        changes.iter().map(move |change| get(diff.call_ns(table, change)?)).collect::<Vec<_>>()
    };
    out.text("calls", changes.iter().map(|change| calls(change).to_owned()))
        .f64("before_ns_per_call", Unit::Ns, call(|(before, _)| Some(before)))
        .f64("after_ns_per_call", Unit::Ns, call(|(_, after)| Some(after)))
        .f64("change_percent_per_call", Unit::Percent, call(percent))
}

/// Change from the first value to the second in percent of the first; `None` if that is 0.
fn percent((before, after): (f64, f64)) -> Option<f64> {
    (before > 0.0).then(|| 100.0 * (after - before) / before)
}

/// Change in the number of calls: `same` in all steps, `changed` between the sides, or `varies` between steps.
fn calls(change: &Change) -> &'static str {
    match () {
        () if change.calls_changed() => "changed",
        () if change.counts_are_steady => "same",
        () => "varies",
    }
}

/// Table `step_lengths`: number, length and reason for exclusion of each step of each run on both sides.
fn lengths(before: &Side, after: &Side) -> Table {
    let mut rows = Vec::new();
    for (side, name) in [(before, "A"), (after, "B")] {
        for (run, profiles) in (1..).zip(side) {
            rows.extend(profiles.iter().flat_map(|p| p.steps.iter().map(move |step| (name, run, p.rank, *step))));
        }
    }
    Table::new("step_lengths", "Duration of each step of each run in A and B")
        .text("side", rows.iter().map(|row| row.0.to_owned()))
        .i64("run", Unit::None, rows.iter().map(|row| row.1))
        .i64("rank", Unit::None, rows.iter().map(|row| row.2))
        .i64("step", Unit::None, rows.iter().map(|row| row.3.number))
        .i64("time_ns", Unit::Ns, rows.iter().map(|row| row.3.ns))
        .text("left_out", rows.iter().map(|row| row.3.left_out.map(str::to_owned)))
}
