//! Estimated gains of changes: by replay, or by a model.

use super::finding::{Candidate, GainEstimate, STATED};
use super::rank::RankedCandidate;
use super::rule_context::SharedContext;
use stackline_critical_path::exact::what_if::{Case, Edit, Gain};
use std::collections::BTreeMap;

/// Recording overhead that a gain contains, in ns over the whole window: that of the operators that the edits remove; 0
/// if unknown.
pub(super) fn recording_overhead_ns(shared: &SharedContext<'_>, edits: &[Edit], gain_ns: i64) -> i64 {
    shared.recorded_operators().map_or(0, |recorded| recorded.removed_by(shared.exact, edits).overhead_in_gain(gain_ns))
}

/// Subtract `recording`, an overhead in ns, from a gain and its bounds.
///
/// The overhead was measured while the program ran, except for the part of `PyTorch`. So the bounds assume half and one
/// and a half times of it. Gain and lower bound are reduced at most to 0, and stay unchanged if they are negative. The
/// lower bound is at most the gain. The upper bound is reduced at most to the gain, also to a negative one.
pub(super) fn subtract_overhead(gain: Gain, recording: i64) -> Gain {
    let ns = gain.ns - recording.min(gain.ns.max(0));
    let low_ns = (gain.low_ns - recording - recording / 2).max(gain.low_ns.min(0)).min(ns);
    Gain { ns, low_ns, high_ns: (gain.high_ns - recording / 2).max(ns) }
}

/// Gain of a finding per step: the replayed gain, or that of the rule's model. `None` without a gain, or if the gain is
/// unknown.
pub(super) fn gain_of(gain_estimate: &GainEstimate, replayed: Option<Gain>, step_ns: i64) -> Option<Gain> {
    match gain_estimate {
        // The recording overhead may exceed the part that was subtracted from the step.
        GainEstimate::Edits(_) | GainEstimate::Range(..) | GainEstimate::Sampled { .. } => {
            replayed.map(|gain| Gain { high_ns: gain.high_ns.min(step_ns.max(gain.ns)), ..gain })
        }
        GainEstimate::Speculative(_) | GainEstimate::SpeculativeRange(..) => replayed,
        // No gain exceeds the step, including gains that Python rules state.
        GainEstimate::Model { gain, model } if *model == STATED => {
            let at_most = |ns: i64| ns.min(step_ns);
            let ns = at_most(gain.ns).max(0);
            Some(Gain { ns, low_ns: at_most(gain.low_ns).min(ns), high_ns: at_most(gain.high_ns).max(ns) })
        }
        GainEstimate::Model { gain, .. } => Some(*gain),
        GainEstimate::Insignificant(_) | GainEstimate::None => None,
    }
}

/// Number of impossible gains that Python rules state, by rule code.
#[derive(Default)]
pub(super) struct ImplausibleGains {
    longer: BTreeMap<String, usize>,
    negative: BTreeMap<String, usize>,
}

impl ImplausibleGains {
    /// Count the gain that a Python rule states if it is negative or longer than a step; [`gain_of`] limits such gains.
    pub(super) fn count_if_implausible(&mut self, proposal: &RankedCandidate, step_ns: i64) {
        let GainEstimate::Model { gain, model } = &proposal.candidate.gain_estimate else { return };
        if *model != STATED {
            return;
        }
        let count = |of: &mut BTreeMap<String, usize>| *of.entry(proposal.rule.code.clone()).or_default() += 1;
        if gain.ns > step_ns {
            count(&mut self.longer);
        }
        if gain.ns < 0 {
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

/// Edits of a candidate's estimated gain, speculative or not; empty for gains without replay.
pub(super) fn edits_of(candidate: &Candidate) -> &[Edit] {
    match &candidate.gain_estimate {
        GainEstimate::Edits(edits)
        | GainEstimate::Speculative(edits)
        | GainEstimate::SpeculativeRange(edits, _)
        | GainEstimate::Range(edits, _)
        | GainEstimate::Sampled { likely: edits, .. } => edits,
        GainEstimate::Model { .. } | GainEstimate::Insignificant(_) | GainEstimate::None => &[],
    }
}

/// All edits to replay for a candidate: those of its estimated gain, and as further cases those of its bounds.
pub(super) fn edits_to_replay(candidate: &Candidate) -> Vec<Edit> {
    let in_case = |edits: &[Edit], case: Case| match edits {
        [] => vec![Edit::nothing(case)],
        edits => edits.iter().cloned().map(|edit| edit.in_case(case)).collect(),
    };
    let others: Vec<Vec<Edit>> = match &candidate.gain_estimate {
        _ if edits_of(candidate).is_empty() => Vec::new(),
        // The lower bound of a speculative gain is 0.
        GainEstimate::Speculative(_) => vec![in_case(&[], Case::Other(1))],
        GainEstimate::SpeculativeRange(_, most) => vec![in_case(&[], Case::Other(1)), in_case(most, Case::Other(2))],
        GainEstimate::Range(_, others) => {
            (1..).zip(others).map(|(number, of)| in_case(of, Case::Other(number))).collect()
        }
        // Samples show work of the thread, so the bounds do not assume that it waited.
        GainEstimate::Sampled { least, most, .. } => vec![in_case(least, Case::Lower), in_case(most, Case::Upper)],
        _ => Vec::new(),
    };
    edits_of(candidate).iter().cloned().chain(others.into_iter().flatten()).collect()
}

/// Edits of a candidate that the combined gain includes; none for speculative gains, and for gains without replay.
pub(super) fn repair_edits(candidate: &Candidate) -> Vec<Edit> {
    match &candidate.gain_estimate {
        GainEstimate::Edits(edits) | GainEstimate::Range(edits, _) | GainEstimate::Sampled { likely: edits, .. } => {
            edits.clone()
        }
        _ => Vec::new(),
    }
}

/// Divide a gain of all steps, with its bounds, by the number of steps.
pub(super) fn gain_per_step(gain: Gain, steps: i64) -> Gain {
    Gain { ns: gain.ns / steps, low_ns: gain.low_ns / steps, high_ns: gain.high_ns / steps }
}

#[cfg(test)]
mod tests {
    use super::super::external_rules::{ExternalFinding, ExternalRule, ExternalRules, Message};
    use super::{Gain, GainEstimate, ImplausibleGains, STATED, gain_of, subtract_overhead};

    #[test]
    fn impossible_gains_are_limited_and_reported() {
        let gain = |ns, low_ns, high_ns| Gain { ns, low_ns, high_ns };
        let stated = |gain| gain_of(&GainEstimate::Model { gain, model: STATED }, None, 1000);
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

    #[test]
    fn gain_without_recording_overhead_is_not_negative() {
        let gain = |ns, low_ns, high_ns| Gain { ns, low_ns, high_ns };
        assert_eq!(subtract_overhead(gain(100, 90, 110), 0), gain(100, 90, 110));
        assert_eq!(subtract_overhead(gain(100, 90, 110), 40), gain(60, 30, 90));
        // More than the whole gain; a change that costs time stays unchanged.
        assert_eq!(subtract_overhead(gain(100, 90, 110), 300), gain(0, 0, 0));
        assert_eq!(subtract_overhead(gain(100, -20, 110), 40), gain(60, -20, 90));
        assert_eq!(subtract_overhead(gain(-5, -9, 3), 40), gain(-5, -9, -5));
    }
}
