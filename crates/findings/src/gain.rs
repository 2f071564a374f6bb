//! Limits of gains, and the recording overhead in them.

use super::finding::RankedCandidate;
use super::gain_estimate::GainEstimate;
use super::rule_context::SharedContext;
use stackline_critical_path::exact::what_if::{Edit, Gain};
use std::collections::BTreeMap;

/// Recording overhead that a gain contains, in ns over the whole window: that of the operators that the edits remove; 0
/// if unknown.
pub(super) fn recording_overhead_ns(shared: &SharedContext<'_>, edits: &[Edit], gain_ns: i64) -> i64 {
    shared.recorded_operators().map_or(0, |recorded| recorded.removed_by(shared.exact, edits).overhead_in_gain(gain_ns))
}

/// Number of impossible gains that Python rules state, by rule code.
#[derive(Default)]
pub(super) struct ImplausibleGains {
    longer: BTreeMap<String, usize>,
    negative: BTreeMap<String, usize>,
}

impl ImplausibleGains {
    /// Count the gain that a Python rule states if it is negative or longer than a step; [`GainEstimate::gain`] limits
    /// such gains.
    pub(super) fn count_if_implausible(&mut self, proposal: &RankedCandidate, step_ns: i64) {
        let GainEstimate::Stated(gain) = &proposal.candidate.gain_estimate else { return };
        let count = |of: &mut BTreeMap<String, usize>| *of.entry(proposal.rule.code.clone()).or_default() += 1;
        if gain.likely_ns > step_ns {
            count(&mut self.longer);
        }
        if gain.likely_ns < 0 {
            count(&mut self.negative);
        }
    }

    /// Notes on impossible gains that Python rules state, one sentence per rule and problem.
    pub(super) fn notes(&self) -> Vec<String> {
        let longer = self.longer.iter().map(|(code, &n)| match n {
            1 => format!("{code}: the rule states 1 gain longer than a step, which is reduced to the length of a step"),
            n => format!(
                "{code}: the rule states {n} gains longer than a step, which are reduced to the length of a step"
            ),
        });
        let negative = self.negative.iter().map(|(code, &n)| match n {
            1 => format!("{code}: the rule states 1 negative gain, which is replaced by 0"),
            n => format!("{code}: the rule states {n} negative gains, which are replaced by 0"),
        });
        longer.chain(negative).collect()
    }
}

/// Divide a gain of all steps, with its bounds, by the number of steps.
pub(super) fn gain_per_step(gain: Gain, steps: i64) -> Gain {
    gain.map(|ns| ns / steps)
}

/// Limit the upper bound of a gain to the length of a step, but not below the gain itself.
pub(super) fn limit_to_step(gain: Gain, step_ns: i64) -> Gain {
    Gain { high_ns: gain.high_ns.min(step_ns.max(gain.likely_ns)), ..gain }
}

#[cfg(test)]
mod tests {
    use super::super::external_rules::{ExternalFinding, ExternalRule, ExternalRules, Message};
    use super::{Gain, GainEstimate, ImplausibleGains, limit_to_step};

    #[test]
    fn upper_bound_is_limited_to_a_step() {
        assert_eq!(
            limit_to_step(Gain::new(500, -90, 1700).speculative(), 1000),
            Gain::new(500, -90, 1000).speculative()
        );
        assert_eq!(limit_to_step(Gain::new(1200, 900, 1700), 1000), Gain::new(1200, 900, 1200));
    }

    #[test]
    fn impossible_gains_are_limited_and_reported() {
        let gain = Gain::new;
        let stated = |gain| GainEstimate::Stated(gain).gain(None, 1000);
        assert_eq!(stated(gain(1 << 60, 5, 1 << 60)), Some(gain(1000, 5, 1000)));
        assert_eq!(stated(gain(-50, -90, -10)), Some(gain(0, -90, 0)));
        assert_eq!(stated(gain(500, -90, 700)), Some(gain(500, -90, 700)));
        let mut others = ExternalRules::default();
        let text = str::to_owned;
        others.add(Message::Rule(ExternalRule { code: text("MY001"), ..ExternalRule::default() })).unwrap();
        for ns in [1 << 60, 2000, -1, 10] {
            let (support, confidence) = (text("exact"), text("low"));
            let (code, title, gain) = (text("MY001"), text("t"), Some((ns, ns, ns)));
            let finding = ExternalFinding { code, title, support, confidence, gain, ..ExternalFinding::default() };
            others.add(Message::Found(Box::new(finding))).unwrap();
        }
        let mut beyond = ImplausibleGains::default();
        let trace = stackline_model::Trace::default();
        others.ranked_candidates(&trace).iter().for_each(|proposal| beyond.count_if_implausible(proposal, 1000));
        assert_eq!(
            beyond.notes(),
            [
                "MY001: the rule states 2 gains longer than a step, which are reduced to the length of a step",
                "MY001: the rule states 1 negative gain, which is replaced by 0"
            ]
        );
    }
}
