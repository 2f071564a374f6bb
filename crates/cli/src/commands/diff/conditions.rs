//! Conditions of `diff --fail-on`, such as `step>3%`: parsing and evaluation.

use crate::commands::limit::{Comparison, Limit};
use crate::failure::{did_you_mean, wrong_use};
use anyhow::{Result, anyhow};
use stackline_critical_path::matches;
use stackline_diff::statistics::holm;
use stackline_diff::{Change, ChangeTable, Diff, Measure, Method, Per, Verdict};
use std::collections::BTreeSet;

/// Compared value that a `--fail-on` condition limits: a measure of the step, any row of a table, or named rows.
#[derive(Clone, Debug, PartialEq)]
enum Subject {
    /// A measure of the step.
    Step(Measure),
    /// Any row of a table.
    Any(ChangeTable),
    /// Rows of a table whose name fits a pattern.
    Named(ChangeTable, String),
}

/// A condition of `diff --fail-on`, such as `step>3%`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Condition {
    /// Condition as typed.
    text: String,
    subject: Subject,
    comparison: Comparison,
    limit: f64,
}

/// Outcome of a `diff --fail-on` condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// The condition holds; with the reason.
    Held(String),
    /// The change is above the limit, but it may be noise (or is not tested, where that does not count).
    Within(String),
    /// The condition does not hold.
    Passed,
}

const WHOLE: [(&str, Subject); 7] = [
    ("step", Subject::Step(Measure::Step)),
    ("gpu", Subject::Step(Measure::Gpu)),
    ("cpu", Subject::Step(Measure::Cpu)),
    ("operators", Subject::Any(ChangeTable::Operators)),
    ("kernels", Subject::Any(ChangeTable::Kernels)),
    ("paths", Subject::Any(ChangeTable::Paths)),
    ("functions", Subject::Any(ChangeTable::Functions)),
];

const NAMED: [(&str, ChangeTable); 4] = [
    ("op:", ChangeTable::Operators),
    ("kernel:", ChangeTable::Kernels),
    ("path:", ChangeTable::Paths),
    ("function:", ChangeTable::Functions),
];

impl Condition {
    /// Parse a `diff --fail-on` condition, such as `step>3%`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let form = || {
            wrong_use(format!(
                "cannot understand --fail-on {text:?}; write 'step>3%', 'kernels>10%', 'op:aten::mm>10%' or 'function:load>10%'"
            ))
        };
        let Limit { what, comparison, limit } = Limit::parse(text).ok_or_else(form)?;
        if !text.trim_end().ends_with('%') {
            let right = text.trim_end();
            return Err(wrong_use(format!(
                "--fail-on {text:?}: the limit must be a percentage of the time in A; write '{right}%'"
            )));
        }
        if !comparison.is_upper() || !limit.is_finite() || limit < 0.0 {
            return Err(wrong_use(format!(
                "--fail-on {text:?}: the limit is a slowdown, so write > and a percentage of 0 or more"
            )));
        }
        let named = NAMED.iter().find_map(|(prefix, table)| Some((what.strip_prefix(prefix)?.trim(), *table)));
        let subject = match named {
            Some(("", _)) => return Err(form()),
            Some((name, table)) => Subject::Named(table, name.to_owned()),
            None => {
                let whole = WHOLE.iter().find(|(name, _)| *name == what).map(|(_, subject)| subject.clone());
                let names = WHOLE.iter().map(|(name, _)| *name).chain(NAMED.iter().map(|(name, _)| *name));
                whole.ok_or_else(|| {
                    let near = did_you_mean(what, names.clone());
                    let all = names.collect::<Vec<_>>().join(", ");
                    wrong_use(format!("--fail-on has no condition {what:?}{near} The conditions are: {all}"))
                })?
            }
        };
        Ok(Self { text: text.to_owned(), subject, comparison, limit })
    }

    /// Check if the condition applies to a row of a table of changes, by table, measure or name.
    fn is_about(&self, table: ChangeTable, change: &Change) -> bool {
        match &self.subject {
            // A step of unchanged length may start later, so the time between steps counts too.
            Subject::Step(Measure::Step) => {
                table == ChangeTable::Steps && matches!(change.measure, Measure::Step | Measure::StepAndBetween)
            }
            Subject::Step(measure) => table == ChangeTable::Steps && change.measure == *measure,
            _ if change.measure == Measure::CpuTotal => false,
            // New names are often renamed ones, and the whole step shows their cost. A change from zero has no
            // percentage.
            Subject::Any(table_name) => table == *table_name && change.percent().is_some(),
            Subject::Named(table_name, name) => {
                let operator = change.operator.as_ref().is_some_and(|operator| matches(name, operator));
                table == *table_name
                    && (operator || matches(name, &change.name) || matches(name, without_file(*table_name, change)))
            }
        }
    }

    /// Evaluate the condition on a comparison; with `significant`, untested changes do not count.
    ///
    /// # Errors
    /// If there is nothing that the condition is about.
    pub(super) fn judge(&self, diff: &Diff, significant: bool) -> Result<Outcome> {
        let about = self.subject_rows(diff)?;
        let verdicts = self.verdicts(diff, &about);
        let (mut within, mut held) = (None, None);
        // Select the largest change for the message.
        for (change, verdict) in about.into_iter().zip(verdicts).filter(|(change, _)| self.is_above(diff, change)) {
            let counts = match verdict {
                Verdict::Slower | Verdict::OnlyAfter => true,
                Verdict::Untested => !significant,
                // The number of calls is exact, without noise, and explains the time.
                Verdict::Noise => self.is_called_more(diff, change),
                _ => false,
            };
            let place = if counts { &mut held } else { &mut within };
            let more = |change: &Change| diff.change_ns(self.table(), change);
            let largest = place.is_none_or(|(other, _): (&Change, _)| more(other) < more(change));
            if largest {
                *place = Some((change, verdict));
            }
        }
        if let (None, Some(lost)) = (held, self.vanished_work(diff)) {
            return Err(anyhow!(
                "--fail-on {:?} cannot be judged: A contains {} time and B contains none; missing time does not \
                 count as a speedup",
                self.text,
                lost.measure.name()
            ));
        }
        Ok(match (held, within) {
            (Some((change, verdict)), _) => Outcome::Held(self.words(diff, change, verdict)),
            (None, Some((change, verdict))) => {
                let increase = self.words(diff, change, verdict);
                Outcome::Within(format!("{increase}; this increase alone does not make the condition hold"))
            }
            (None, None) => Outcome::Passed,
        })
    }

    /// Rows of the comparison to which the condition applies.
    ///
    /// # Errors
    /// If there are none.
    fn subject_rows<'d>(&self, diff: &'d Diff) -> Result<Vec<&'d Change>> {
        let all = diff.changes.iter().flat_map(|(table, changes)| changes.iter().map(move |change| (*table, change)));
        let mut about: Vec<&Change> =
            all.filter(|(table, c)| self.is_about(*table, c)).map(|(_, change)| change).collect();
        let rows = |table| diff.changes.get(table).into_iter().flatten();
        match &self.subject {
            _ if !about.is_empty() => {}
            Subject::Any(table) | Subject::Named(table, _) if !diff.changes.contains_key(table) => {
                let (text, label) = (&self.text, table.name());
                return Err(anyhow!(
                    "--fail-on {text:?} cannot be judged: A or B has no {label}, or A and B were recorded in different \
                     ways"
                ));
            }
            // All its rows are new: of no time there are no percents.
            Subject::Any(table) if rows(table).next().is_some() => {}
            Subject::Named(table, name) => {
                let known: BTreeSet<&str> =
                    rows(table).flat_map(|change| [&*change.name, without_file(*table, change)]).collect();
                return Err(self.unknown(*table, &did_you_mean(name, known)));
            }
            Subject::Step(_) if diff.has_different_bases => {
                let why = diff.warnings.first().map_or("", String::as_str);
                return Err(anyhow!("--fail-on {:?} cannot be judged: {why}", self.text));
            }
            _ => {
                let text = &self.text;
                return Err(anyhow!(
                    "--fail-on {text:?} cannot be judged: neither A nor B contains the time that this condition compares"
                ));
            }
        }
        if diff.per == Per::Call && !about.is_empty() {
            // If whole runs have different numbers of calls, only the time per call is comparable. Rows of one run only
            // remain.
            about.retain(|change| diff.call_ns(self.table(), change).is_some() || is_on_one_side(change));
            if about.is_empty() {
                let why = diff.warnings.first().map_or("", String::as_str);
                return Err(anyhow!("--fail-on {:?} cannot be judged per call: {why}", self.text));
            }
        }
        Ok(about)
    }

    fn table(&self) -> ChangeTable {
        match &self.subject {
            Subject::Step(_) => ChangeTable::Steps,
            Subject::Any(table) | Subject::Named(table, _) => *table,
        }
    }

    /// Error for a name that no row of the table has, with similar names.
    fn unknown(&self, table: ChangeTable, near: &str) -> anyhow::Error {
        let (text, label) = (&self.text, table.name());
        if table == ChangeTable::Functions {
            return anyhow!(
                "--fail-on {text:?} cannot be judged: neither A nor B has samples of this function; to sample short \
                 functions, raise `record --sample-hz` or record more steps{near}"
            );
        }
        wrong_use(format!("--fail-on {text:?}: the table {label} has no row of this name{near}"))
    }

    /// Verdict of each row to which the condition applies, such as slower or noise. The p values of named rows are
    /// adjusted among these rows only, since any of them fails the gate.
    fn verdicts(&self, diff: &Diff, about: &[&Change]) -> Vec<Verdict> {
        let level = diff.options.level;
        let is_named = matches!(self.subject, Subject::Named(..));
        let chance = |change: &&Change| change.p.filter(|_| is_named && change.verdict.is_tested());
        let mut adjusted = holm(&about.iter().filter_map(chance).collect::<Vec<_>>()).into_iter();
        let verdict = |change: &&Change| {
            let p = chance(change).and_then(|_| adjusted.next());
            match (change.verdict, p) {
                (Verdict::Slower | Verdict::Noise, Some(p))
                    if p <= level && diff.change_ns(self.table(), change) > 0.0 =>
                {
                    Verdict::Slower
                }
                (Verdict::Slower | Verdict::Noise, Some(_)) => Verdict::Noise,
                (verdict, _) => verdict,
            }
        };
        about.iter().map(verdict).collect()
    }

    /// Check if the calls of a named row increased in every step by more than the limit. Runs compared by call are
    /// excluded, since their windows differ in length.
    fn is_called_more(&self, diff: &Diff, change: &Change) -> bool {
        let has_calls = match self.subject {
            _ if diff.per == Per::Call => false,
            // Sample counts vary randomly by one or more.
            Subject::Named(ChangeTable::Functions, _) => diff.functions_by == Some("calls"),
            Subject::Named(..) => true,
            Subject::Step(_) | Subject::Any(_) => false,
        };
        let more = 100.0 * (change.count_after / change.count_before - 1.0);
        has_calls && change.calls_changed() && self.comparison.holds(more, self.limit)
    }

    /// Change of a measure of the step, such as GPU time, from above 0 to 0; `None` if there is none. Work that moved
    /// off the GPU must not count as faster.
    fn vanished_work<'d>(&self, diff: &'d Diff) -> Option<&'d Change> {
        let measure = match &self.subject {
            Subject::Step(measure) => *measure,
            Subject::Any(ChangeTable::Kernels) | Subject::Named(ChangeTable::Kernels, _) => Measure::Gpu,
            Subject::Any(ChangeTable::Operators) | Subject::Named(ChangeTable::Operators, _) => Measure::Cpu,
            _ => return None,
        };
        let steps = diff.changes.get(&ChangeTable::Steps).into_iter().flatten();
        steps.filter(|change| change.measure == measure).find(|c| c.before_ns > 0.0 && c.after_ns == 0.0)
    }

    /// Check if the increase of a row exceeds the limit. A row without a time in A counts if it has one in B.
    fn is_above(&self, diff: &Diff, change: &Change) -> bool {
        match diff.percent(self.table(), change) {
            Some(percent) => self.comparison.holds(percent, self.limit),
            None => change.after_ns > 0.0,
        }
    }

    /// Sentence on a row whose increase exceeds the limit, with the significance of the change.
    fn words(&self, diff: &Diff, change: &Change, verdict: Verdict) -> String {
        let (whole, unit) = if diff.per == Per::Step { ("the step", "step") } else { ("the run", "run") };
        let subject = match (&change.operator, &*change.name) {
            (Some(operator), family) => format!("{operator} ({family})"),
            (None, "") if change.measure == Measure::Step => whole.to_owned(),
            (None, "") => format!("{} of {whole}", change.measure.name()),
            (None, name) if diff.per == Per::Call => format!("a call of {name}"),
            (None, name) => name.to_owned(),
        };
        let text = &self.text;
        let Some(percent) = diff.percent(self.table(), change) else {
            return match verdict {
                Verdict::OnlyAfter => format!("{text}: {subject} is new"),
                Verdict::Noise if !self.is_called_more(diff, change) => {
                    format!("{text}: {subject} takes time only in B, not in A; this time may be noise")
                }
                _ => format!("{text}: {subject} takes time only in B, not in A"),
            };
        };
        let (slower, significant) = adjectives(diff.method);
        let ends = change.interval_ns.and_then(|(low, high)| Some((change.percent_of(low)?, change.percent_of(high)?)));
        match (verdict, ends) {
            (Verdict::Noise, _) if self.is_called_more(diff, change) => {
                let [before, after] = [change.count_before, change.count_after];
                format!(
                    "{text}: {subject} is {percent:.1} % {slower}, with {after:.1} calls per {unit} instead of \
                     {before:.1}"
                )
            }
            (Verdict::Noise, Some((low, high))) => {
                format!(
                    "{text}: {subject} is {percent:.1} % {slower}, which may be noise (confidence interval {low:.1} % \
                     to {high:.1} %)"
                )
            }
            (Verdict::Slower, Some((low, high))) if change.verdict == Verdict::Noise => {
                format!(
                    "{text}: {subject} is {percent:.1} % {slower}, {significant} among the times of this condition, \
                     but not among all compared times (confidence interval {low:.1} % to {high:.1} %)"
                )
            }
            (_, Some((low, high))) => format!(
                "{text}: {subject} is {percent:.1} % {slower}, {significant} (confidence interval {low:.1} % to \
                 {high:.1} %)"
            ),
            (_, None) => format!(
                "{text}: {subject} is {percent:.1} % {slower}, but not tested for significance, because the variation \
                 is unknown"
            ),
        }
    }
}

/// Adjectives for an increase, and for one beyond the noise. With one run per side, only the variation between steps is
/// known.
fn adjectives(method: Method) -> (&'static str, &'static str) {
    match method {
        Method::Steps => ("longer", "beyond the variation between steps"),
        Method::Runs | Method::None => ("slower", "significant"),
    }
}

/// Check if a row occurs only before or only after the change.
fn is_on_one_side(change: &Change) -> bool {
    matches!(change.verdict, Verdict::OnlyBefore | Verdict::OnlyAfter)
}

/// Name of a row without the file of a function: `step` for `train.py: step`. Conditions may omit the file.
fn without_file(table: ChangeTable, change: &Change) -> &str {
    let function = change.name.rsplit_once(": ").map(|(_, function)| function);
    function.filter(|_| table == ChangeTable::Functions).unwrap_or(&change.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_diff::Options;
    use std::collections::BTreeMap;

    #[test]
    fn conditions_are_parsed_and_printed() {
        let subject = |text: &str| Condition::parse(text).unwrap().subject;
        assert_eq!(subject("step>3%"), Subject::Step(Measure::Step));
        assert_eq!(subject("kernels >= 10 %"), Subject::Any(ChangeTable::Kernels));
        assert_eq!(subject("op:aten::mm>10%"), Subject::Named(ChangeTable::Operators, "aten::mm".to_owned()));
        assert_eq!(subject("path:A > B>0%"), Subject::Named(ChangeTable::Paths, "A > B".to_owned()));
        let error = |text: &str| Condition::parse(text).unwrap_err().to_string();
        assert!(error("stpe>3%").contains("did you mean step"), "{}", error("stpe>3%"));
        for bad in ["step<3%", "step>-1%", "step>nan%", "step>inf%"] {
            assert!(error(bad).contains("slowdown"), "{bad}");
        }
        assert!(error("step>3").contains("write 'step>3%'") && error("op:a >= 3 ").contains("write 'op:a >= 3%'"));
        for bad in ["step", "", "op:>3%", "step>x"] {
            assert!(error(bad).contains("cannot understand"), "{bad}");
        }
    }

    fn change(name: &str, (before_ns, after_ns): (f64, f64), p: f64) -> Change {
        Change {
            rank: 0,
            name: name.into(),
            operator: None,
            measure: Measure::Cpu,
            before_ns,
            after_ns,
            interval_ns: None,
            p: Some(p),
            q: Some(0.5),
            verdict: Verdict::Noise,
            count_before: 1.0,
            count_after: 1.0,
            counts_are_steady: false,
            is_incomplete: [false; 2],
        }
    }

    #[test]
    fn increases_of_single_runs_are_longer_and_not_slower() {
        let mut row = change("aten::mm", (100.0, 150.0), 0.001);
        (row.interval_ns, row.verdict) = (Some((40.0, 60.0)), Verdict::Slower);
        let mut diff = stackline_diff::compare(&Vec::new(), &Vec::new(), Options::default());
        diff.changes = BTreeMap::from([(ChangeTable::Operators, vec![row])]);
        for (method, expected) in [
            (
                Method::Steps,
                "is 50.0 % longer, beyond the variation between steps (confidence interval 40.0 % to 60.0 %)",
            ),
            (Method::Runs, "is 50.0 % slower, significant (confidence interval 40.0 % to 60.0 %)"),
        ] {
            diff.method = method;
            let outcome = Condition::parse("operators>5%").unwrap().judge(&diff, true).unwrap();
            assert!(matches!(&outcome, Outcome::Held(text) if text.ends_with(expected)), "{outcome:?}");
        }
    }

    #[test]
    fn named_conditions_are_not_adjusted_for_many_comparisons() {
        let mut rows: Vec<Change> = (0..50).map(|i| change(&format!("a.py: f{i}"), (5.0, 6.0), 0.6)).collect();
        rows.push(change("train.py: tokens", (1.0, 1284.0), 0.007));
        let mut diff = stackline_diff::compare(&Vec::new(), &Vec::new(), Options::default());
        diff.changes = BTreeMap::from([(ChangeTable::Functions, rows)]);
        let judge = |text: &str| Condition::parse(text).unwrap().judge(&diff, true);
        for held in ["function:tokens>5%", "function:train.py: tokens>5%", "function:*tok*>5%"] {
            assert!(matches!(judge(held), Ok(Outcome::Held(_))), "{held}: {:?}", judge(held));
        }
        assert!(matches!(judge("function:f1>5%"), Ok(Outcome::Within(_))));
        // Among all functions the change may be random.
        assert!(matches!(judge("functions>5%"), Ok(Outcome::Within(_))));
        assert!(matches!(judge("function:*>5%"), Ok(Outcome::Within(_))));
        let error = |text: &str| judge(text).unwrap_err().to_string();
        assert!(error("function:tokns>5%").ends_with("did you mean tokens?"), "{}", error("function:tokns>5%"));
        assert!(error("kernels>5%").contains("A or B has no kernels"), "{}", error("kernels>5%"));
        diff.changes.insert(ChangeTable::Kernels, Vec::new());
        for nothing in ["kernels>5%", "step>5%"] {
            let error = Condition::parse(nothing).unwrap().judge(&diff, true).unwrap_err().to_string();
            assert!(
                error.contains("cannot be judged: neither A nor B contains the time that this condition"),
                "{error}"
            );
        }
    }
}
