//! Comparisons for people and pull requests: one file per form.

mod markdown;
mod text;

pub use markdown::markdown;
pub use text::text;

use super::human::duration;
use stackline_diff::{Change, ChangeTable, Diff, Measure, Method, Per, Verdict};
use std::collections::BTreeSet;

/// Comparison with display options.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// All of it.
    pub diff: &'a Diff,
    /// Labels of the runs before.
    pub before: &'a [String],
    /// Labels of the runs after.
    pub after: &'a [String],
    /// Rows of each table at most; 0 for all.
    pub top: usize,
    /// Conditions of `--fail-on` that held, in words.
    pub held: &'a [String],
}

/// The tables below the steps.
const BELOW: [ChangeTable; 4] =
    [ChangeTable::Operators, ChangeTable::Kernels, ChangeTable::Paths, ChangeTable::Functions];

impl Shown<'_> {
    /// Title of a table of changes between runs, such as `GPU work`.
    fn title(&self, table: ChangeTable) -> &'static str {
        match table {
            ChangeTable::Steps if self.diff.per == Per::Step => "Steps",
            ChangeTable::Steps => "Total",
            ChangeTable::Operators => "Operators by self time",
            ChangeTable::Kernels if self.diff.by_family => "GPU work by operator and kernel family",
            ChangeTable::Kernels => "GPU work",
            ChangeTable::Paths => "Call paths",
            ChangeTable::Functions => "Python functions",
        }
    }

    /// Number of calls or samples of a row: `24 a step`, `24 → 25 a step`, `68 → 60 calls`; empty if not counted.
    fn counts(&self, table: ChangeTable, change: &Change) -> String {
        let sampled = table == ChangeTable::Functions && self.diff.functions_by != Some("calls");
        let what = match (sampled, self.diff.per) {
            (true, Per::Step) => "samples a step",
            (false, Per::Step) => "a step",
            (true, _) => "samples",
            (false, _) => "calls",
        };
        let number = |count: f64| {
            let text = format!("{count:.1}");
            text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
        };
        let (a, b) = (number(change.count_before), number(change.count_after));
        match a == b {
            true if change.count_before == 0.0 => String::new(),
            true => format!("{a} {what}"),
            false => format!("{a} → {b} {what}"),
        }
    }

    /// Times of a row before and after with the change in percent: `1.20 ms → 1.30 ms, +8.3 %`. Times are per call if
    /// calls are compared.
    fn row_times(&self, table: ChangeTable, change: &Change) -> String {
        if let (Per::Call, Some((before, after))) = (self.diff.per, self.diff.call_ns(table, change)) {
            let share =
                if before > 0.0 { format!(", {}", percent(100.0 * (after / before - 1.0))) } else { String::new() };
            return format!("{} → {} a call{share}", time(before), time(after));
        }
        let only = matches!(change.verdict, Verdict::OnlyBefore | Verdict::OnlyAfter);
        let (times, share) = (times(change).join(" → "), change_text(change));
        if only || share.is_empty() { times } else { format!("{times}, {share}") }
    }

    /// Change of a row's time in ns, scaled to equal numbers of calls if calls are compared.
    fn change_ns(&self, table: ChangeTable, change: &Change) -> f64 {
        self.diff.change_ns(table, change)
    }

    /// Warning to show first if call times are compared: only one side has steps, or the numbers of calls differ.
    /// `None` for other comparisons.
    fn first_warning(&self) -> Option<&str> {
        self.diff.warnings.first().filter(|_| self.diff.per == Per::Call).map(String::as_str)
    }

    /// Word for the verdict on a change. With one run per side, only the variation between steps is known, so the word
    /// describes the times and does not claim that the program became slower or faster.
    fn verdict(&self, change: &Change) -> &'static str {
        match (self.diff.method, change.verdict) {
            (Method::Steps, Verdict::Slower) => "longer",
            (Method::Steps, Verdict::Faster) => "shorter",
            (_, verdict) => verdict.name(),
        }
    }

    fn changes(&self, table: ChangeTable) -> &[Change] {
        self.diff.changes.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Largest significant changes of a table, or largest changes if nothing was tested, with the numbers of changed
    /// rows.
    fn largest(&self, table: ChangeTable) -> (Vec<&Change>, ChangeCount) {
        let all = self.changes(table);
        let untested = self.diff.method == Method::None;
        let counts = |change: &&Change| {
            let real = change.verdict.is_change() || untested;
            // Total CPU time includes the callees, whose rows show its changes.
            real && self.change_ns(table, change) != 0.0 && change.measure != Measure::CpuTotal
        };
        let real: Vec<&Change> = all.iter().filter(counts).collect();
        // Without tests, rows of one run are listed with the others, if the times of the runs are comparable.
        let is_alone = |change: &&&Change| match untested {
            true => self.diff.has_different_bases && change.verdict != Verdict::Untested,
            false => !change.verdict.is_tested(),
        };
        let alone = real.iter().filter(is_alone).count();
        let count = ChangeCount { tested: real.len() - alone, alone };
        // If one side is a whole run and the other a step, total times are not comparable.
        let has_time = |change: &&Change| !self.diff.has_different_bases || self.diff.call_ns(table, change).is_some();
        let is_shown = |change: &&Change| table != ChangeTable::Paths || !self.is_shown_below(change, &real);
        let shown = real.iter().copied().filter(has_time).filter(is_shown);
        let top = if self.top == 0 { usize::MAX } else { self.top };
        (shown.take(top).collect(), count)
    }

    /// Number of rows without a significance test because records or times are missing, or numbers of calls differ.
    fn untested(&self, table: ChangeTable) -> usize {
        let is_untested = |change: &&Change| change.verdict == Verdict::Untested;
        let has_incomplete_runs = !self.diff.missing_records.is_empty() || self.diff.per == Per::Call;
        let counts = has_incomplete_runs && self.diff.method != Method::None;
        if counts { self.changes(table).iter().filter(is_untested).count() } else { 0 }
    }

    /// Rows whose number of calls changed in all steps, while the change of their time is within noise. Rows of one
    /// side only are excluded.
    fn rows_with_changed_calls(&self, table: ChangeTable) -> Vec<&Change> {
        let all = self.changes(table);
        let row = |change: &&'_ Change| (change.rank, change.name.clone(), change.operator.clone());
        // List each row once, independent of the number of its measures.
        let mut rows: BTreeSet<_> = all.iter().filter(|change| change.verdict.is_change()).map(|c| row(&c)).collect();
        let recounted = all.iter().filter(|change| change.verdict == Verdict::Noise && change.calls_changed());
        recounted.filter(|change| rows.insert(row(change))).collect()
    }

    /// Sentence on operators and kernels with a changed number of calls and a time change within noise; `None` without
    /// any.
    fn changed_calls_sentence(&self, table: ChangeTable) -> Option<String> {
        // Paths end in the same operators; functions are many.
        let is_in_other_table = matches!(table, ChangeTable::Paths | ChangeTable::Functions);
        // Of windows of other lengths all are.
        let all = if is_in_other_table || self.diff.per == Per::Call {
            Vec::new()
        } else {
            self.rows_with_changed_calls(table)
        };
        let top = if self.top == 0 { usize::MAX } else { self.top };
        let one = |change: &&Change| {
            let rank = if self.has_ranks() { format!("rank {} ", change.rank) } else { String::new() };
            format!("{rank}{} {}", name(table, change), self.counts(table, change))
        };
        let texts: Vec<String> = all.iter().take(top).map(one).collect();
        let more =
            if all.len() > texts.len() { format!(", and {} more", all.len() - texts.len()) } else { String::new() };
        let unit = if self.diff.per == Per::Step { "step" } else { "run" };
        let how =
            format!("The number of calls changed in every {unit}, but the change of the calls' time is within noise");
        (!texts.is_empty()).then(|| format!("{how}: {}{more}.", texts.join(", ")))
    }

    /// Check if at least 80 % of a call path's change comes from one longer call path, which is listed instead.
    fn is_shown_below(&self, change: &Change, all: &[&Change]) -> bool {
        let ns = |change: &Change| self.change_ns(ChangeTable::Paths, change);
        let below = |other: &&&Change| {
            let rest = other.name.strip_prefix(&*change.name);
            let same = other.measure == change.measure && other.rank == change.rank;
            same && rest.is_some_and(|rest| rest.starts_with(" > ")) && ns(other) / ns(change) >= 0.8
        };
        all.iter().find(below).is_some()
    }

    /// True if the comparison contains changes of more than one rank.
    fn has_ranks(&self) -> bool {
        let mut all = self.diff.changes.values().flatten().map(|change| change.rank);
        let first = all.next();
        all.any(|rank| Some(rank) != first)
    }
}

/// Numbers of changed rows of a table: rows of both runs (significant changes only, if tested), and rows of one run
/// only.
struct ChangeCount {
    /// More than noise makes of them.
    tested: usize,
    /// Rows on one side only, new or gone, which are not tested.
    alone: usize,
}

/// Label of a measure of the step, or of the whole run.
fn measure(measure: Measure, per: Per) -> &'static str {
    match measure {
        Measure::Step if per == Per::Step => "step",
        Measure::Step => "total",
        Measure::StepAndBetween => "step with the gap to the next step",
        Measure::Gpu => "GPU busy",
        Measure::Cpu | Measure::CpuTotal => "operators on CPU",
    }
}

/// Format a mean time in ns, rounded to whole ns.
fn time(ns: f64) -> String {
    duration(ns.round() as i64)
}

/// Texts of a time before and after: `1.20 ms`; `absent` if the row does not occur in a run, `missing` if its records
/// are missing. Neither is a time of 0.
fn times(change: &Change) -> [String; 2] {
    let [before, after] = change.known_ns();
    let text_of = |ns: Option<f64>, count: f64| match ns {
        None | Some(0.0) if count == 0.0 => "absent".to_owned(),
        None => "missing".to_owned(),
        Some(ns) => time(ns),
    };
    [text_of(before, change.count_before), text_of(after, change.count_after)]
}

/// Format a change of a time with its sign: `+1.20 ms`.
fn signed(ns: f64) -> String {
    if ns < 0.0 { format!("-{}", time(-ns)) } else { format!("+{}", time(ns)) }
}

fn percent(value: f64) -> String {
    format!("{value:+.1} %")
}

/// Change of a time in percent, with its interval if known: `+6.5 % (+5.1 % to +7.9 %)`; empty if the change is
/// unknown.
fn change_text(change: &Change) -> String {
    let Some(share) = change.known_change_ns().and_then(|ns| change.percent_of(ns)) else { return String::new() };
    match interval_percent(change) {
        Some((low, high)) if change.verdict != Verdict::OnlyBefore => {
            format!("{} ({} to {})", percent(share), percent(low), percent(high))
        }
        _ => percent(share),
    }
}

/// Display name of a row: a kernel after its operator, the last frames of a call path, the end of a file path.
fn name(table: ChangeTable, change: &Change) -> String {
    match (&change.operator, table) {
        (Some(operator), _) => format!("{operator}: {}", change.name),
        (None, ChangeTable::Paths) => {
            let parts: Vec<&str> = change.name.split(" > ").collect();
            let from = parts.len().saturating_sub(3);
            format!("{}{}", if from > 0 { "… > " } else { "" }, parts[from..].join(" > "))
        }
        (None, ChangeTable::Functions) => {
            let parts: Vec<&str> = change.name.split('/').collect();
            let from = parts.len().saturating_sub(2);
            format!("{}{}", if from > 0 { "…/" } else { "" }, parts[from..].join("/"))
        }
        _ => change.name.to_string(),
    }
}

/// Labels of both sides of a comparison: of the run, or of several runs the first and last label and their number.
fn sides(shown: &Shown<'_>) -> [String; 2] {
    let list = |names: &[String]| match names {
        [] => String::new(),
        [one] => one.clone(),
        [first, .., last] => format!("{first} … {last} ({} runs)", names.len()),
    };
    [list(shown.before), list(shown.after)]
}

/// Headline of a comparison: change of the step (of the rank with the largest change), of the total without steps, or
/// of calls.
fn headline(shown: &Shown<'_>) -> String {
    if shown.diff.per == Per::Call {
        return headline_of_calls(shown);
    }
    let is_step = |change: &&Change| matches!(change.measure, Measure::Step | Measure::StepAndBetween);
    let steps = shown.changes(ChangeTable::Steps).iter().filter(is_step);
    let largest = steps.max_by(|a, b| a.percent().unwrap_or(0.0).abs().total_cmp(&b.percent().unwrap_or(0.0).abs()));
    let Some(step) = largest else { return "the total time of run A or run B is unknown".to_owned() };
    let rank = if shown.has_ranks() { format!(" of rank {}", step.rank) } else { String::new() };
    let share = step.percent().unwrap_or(0.0);
    let subject = match step.measure {
        Measure::StepAndBetween => format!("the step{rank} with the gap to the next step"),
        _ if shown.diff.per == Per::Step => format!("the step{rank}"),
        _ => format!("the run{rank}"),
    };
    match step.verdict {
        Verdict::Slower | Verdict::Faster => {
            format!("{subject} is {:.1} % {}", share.abs(), shown.verdict(step))
        }
        Verdict::Untested => format!("{subject} changes by {share:+.1} % (not tested for significance)"),
        _ => match interval_percent(step) {
            Some((low, high)) if low < -NARROW || high > NARROW => format!(
                "{subject} changes by {share:+.1} %, within noise: confidence interval {low:+.1} % to {high:+.1} %"
            ),
            _ => format!("{subject} is unchanged within noise ({share:+.1} %)"),
        },
    }
}

/// Headline of a comparison of runs without steps and with other numbers of calls: change of mean call times.
fn headline_of_calls(shown: &Shown<'_>) -> String {
    const UNTESTED: &str = " (not tested for significance)";
    match shown.diff.percent_of_calls() {
        Some((ChangeTable::Kernels, share)) => {
            format!("the mean time of GPU operations present in both runs changes by {}{UNTESTED}", percent(share))
        }
        Some((_, share)) => {
            format!("the mean time of operator calls present in both runs changes by {}{UNTESTED}", percent(share))
        }
        None => "no call occurs in both runs".to_owned(),
    }
}

/// Largest interval, in percent, of a step that counts as unchanged; a wider one is inconclusive.
const NARROW: f64 = 5.0;

/// Lower and upper bound of a time's change, in percent; `None` if not tested.
fn interval_percent(change: &Change) -> Option<(f64, f64)> {
    let (low, high) = change.interval_ns?;
    Some((change.percent_of(low)?, change.percent_of(high)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_entries_have_zero_time() {
        let change = |times: (f64, f64), counts: (f64, f64)| Change {
            rank: 0,
            name: "aten::mm".into(),
            operator: None,
            measure: Measure::Cpu,
            before_ns: times.0,
            after_ns: times.1,
            interval_ns: None,
            p: None,
            q: None,
            verdict: Verdict::Untested,
            count_before: counts.0,
            count_after: counts.1,
            counts_are_steady: false,
            is_incomplete: [false; 2],
        };
        assert_eq!(times(&change((0.0, 5e3), (0.0, 2.0))), ["absent", "5000 ns"]);
        assert_eq!(times(&change((5e3, 0.0), (2.0, 0.0))), ["5000 ns", "absent"]);
        assert_eq!(times(&change((0.0, 5e3), (3.0, 2.0))), ["0 ns", "5000 ns"], "it ran, and took no time");
        let lost = Change { is_incomplete: [false, true], ..change((5e3, 0.0), (2.0, 2.0)) };
        assert_eq!((times(&lost), change_text(&lost)), (["5000 ns", "missing"].map(str::to_owned), String::new()));
        let part = Change { is_incomplete: [false, true], ..change((5e3, 4e3), (2.0, 2.0)) };
        assert_eq!(
            (times(&part), change_text(&part)),
            (["5000 ns", "4000 ns"].map(str::to_owned), "-20.0 %".to_owned())
        );
    }
}
