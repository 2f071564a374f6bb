//! Conditions of `findings --fail-on`, such as `gain>5%`: parsing and evaluation.

use crate::commands::limit::{Comparison, Limit};
use crate::failure::wrong_use;
use anyhow::Result;
use stackline_findings::{Finding, Findings};
use stackline_present::findings::Change;

/// Old name of the condition `combined`.
const OLD_COMBINED: &str = "together";

/// A condition of `findings --fail-on`, such as `gain>5%`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    /// Any finding that was not in the baseline, but for those that may well be nothing.
    New,
    /// A finding gains more than this much of a step, in percent.
    Gain(f64),
    /// The combined gain of all findings is more than this much of a step, in percent.
    Combined(f64),
    /// There are more findings than this.
    Count(f64),
}

impl Condition {
    /// Parse a `findings --fail-on` condition, such as `gain>5%` or `new`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let form = || {
            wrong_use(format!(
                "cannot understand --fail-on {text:?}; write 'gain>5%', 'combined>10%', 'count>3' or new"
            ))
        };
        if text.trim() == "new" {
            return Ok(Self::New);
        }
        let Limit { what, comparison, limit } = Limit::parse(text).ok_or_else(form)?;
        if comparison != Comparison::Above || !limit.is_finite() || limit < 0.0 {
            return Err(form());
        }
        match what {
            "gain" => Ok(Self::Gain(limit)),
            "combined" | OLD_COMBINED => Ok(Self::Combined(limit)),
            "count" if text.trim_end().ends_with('%') => Err(wrong_use(format!(
                "--fail-on {text:?}: count is a number of findings, not a percentage; write 'count>{limit}'"
            ))),
            "count" => Ok(Self::Count(limit)),
            _ => Err(form()),
        }
    }

    /// Note on the new name of a condition, if the text has an old one, which is accepted for one version.
    pub(super) fn renaming_note(text: &str) -> Option<String> {
        let is_old = Limit::parse(text).is_some_and(|limit| limit.what == OLD_COMBINED);
        is_old.then(|| "--fail-on: together is now called combined; the old name will be removed".to_owned())
    }

    /// Check if the condition (`new`) needs the findings of an earlier run.
    pub(super) fn needs_baseline(&self) -> bool {
        *self == Self::New
    }

    /// Evaluate the condition on the listed findings; return the reason if it holds.
    pub(super) fn holds(&self, found: &Findings, listed: &[(&Finding, Option<Change>)]) -> Option<String> {
        let percent = |ns: i64| 100.0 * ns as f64 / found.step_ns.max(1) as f64;
        match *self {
            Self::New => {
                let is_new = |(finding, change): &&(&Finding, Option<Change>)| {
                    *change == Some(Change::New) && !finding.is_unsure()
                };
                let new = listed.iter().find(is_new)?.0;
                Some(format!("new: {} {}", new.rule.code, new.title))
            }
            Self::Gain(limit) => {
                // A missing optimization is no fault, and speculative findings come and go from run to run.
                let is_sure = |finding: &&Finding| finding.is_repair() && !finding.is_unsure();
                let repairs = listed.iter().map(|(finding, _)| *finding).filter(is_sure);
                let most = repairs.max_by_key(|finding| finding.gain_ns())?;
                let gain = percent(most.gain_ns());
                (gain > limit)
                    .then(|| format!("the estimated gain of {} is {gain:.1} %, more than {limit} %", most.rule.code))
            }
            Self::Combined(limit) => {
                let gain = percent(found.combined?.likely_ns);
                (gain > limit).then(|| format!("the combined gain of all findings is {gain:.1} %, more than {limit} %"))
            }
            Self::Count(limit) => (listed.len() as f64 > limit)
                .then(|| format!("the number of findings is {}, more than {limit}", listed.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Condition;

    #[test]
    fn conditions_are_parsed_and_printed() {
        assert_eq!(Condition::parse("gain>5%").unwrap(), Condition::Gain(5.0));
        assert_eq!(Condition::parse(" combined > 10 %").unwrap(), Condition::Combined(10.0));
        assert_eq!(Condition::parse("together>10%").unwrap(), Condition::Combined(10.0));
        assert!(Condition::renaming_note(" together > 10 %").is_some());
        assert_eq!(Condition::renaming_note("combined>10%"), None);
        assert_eq!(Condition::parse("new").unwrap(), Condition::New);
        for bad in ["", "gain", "gain>x", "gain<5", "gain>-1", "gain>inf", "loss>3", "count>3%"] {
            assert!(Condition::parse(bad).is_err(), "{bad}");
        }
    }
}
