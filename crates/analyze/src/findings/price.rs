//! What changes are worth: gains by replay, or by a model.

use super::finding::{Draft, STATED, Worth};
use super::rank::Proposal;
use super::subject::Ground;
use crate::critical_path::exact::what_if::{Edit, Gain};
use std::collections::BTreeMap;

/// What the recording cost of operators that edits do away with, in ns of the whole window, as far as it is in what they gain.
pub(super) fn recording_ns(ground: &Ground<'_>, edits: &[Edit], gain_ns: i64) -> i64 {
    ground.recorded().map_or(0, |recorded| recorded.gone_with(ground.exact, edits).of_gain(gain_ns))
}

/// A gain without what recording cost. That was measured while the program ran, but for the part that is `PyTorch`'s: the bounds
/// hold half as much and as much again.
pub(super) fn without(gain: Gain, recording: i64) -> Gain {
    let ns = gain.ns - recording.min(gain.ns.max(0));
    let low_ns = (gain.low_ns - recording - recording / 2).min(ns);
    Gain { ns, low_ns, high_ns: (gain.high_ns - recording / 2).max(ns) }
}

/// What a change gains per step; none where nothing is gained by it, or where that cannot be told.
pub(super) fn gain_of(worth: &Worth, replayed: Option<Gain>, step_ns: i64) -> Option<Gain> {
    match worth {
        // What recording cost may be more than was taken out of the step.
        Worth::Edits(_) | Worth::Range(..) | Worth::Sampled { .. } => {
            replayed.map(|gain| Gain { high_ns: gain.high_ns.min(step_ns.max(gain.ns)), ..gain })
        }
        Worth::Hope(_) | Worth::HopeTo(..) => replayed.map(|gain| Gain { low_ns: gain.low_ns.min(0), ..gain }),
        // Nothing gains more than a step takes, whatever a rule of the user's own says.
        Worth::Model { gain, model } if *model == STATED => {
            let at_most = |ns: i64| ns.min(step_ns);
            let ns = at_most(gain.ns).max(0);
            Some(Gain { ns, low_ns: at_most(gain.low_ns).min(ns), high_ns: at_most(gain.high_ns).max(ns) })
        }
        Worth::Model { gain, .. } => Some(*gain),
        Worth::Chance(_) | Worth::None => None,
    }
}

/// Gains that rules of the user's own state and that cannot be, by code.
#[derive(Default)]
pub(super) struct Beyond {
    longer: BTreeMap<String, usize>,
    negative: BTreeMap<String, usize>,
}

impl Beyond {
    /// Notes one of them: [`gain_of`] takes as much of it as can be.
    pub(super) fn note(&mut self, proposal: &Proposal, step_ns: i64) {
        let Worth::Model { gain, model } = &proposal.draft.worth else { return };
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

    /// A sentence for each rule.
    pub(super) fn told(&self) -> Vec<String> {
        let gains = |n: usize| {
            if n == 1 { "1 gain that it states is".to_owned() } else { format!("{n} gains that it states are") }
        };
        let longer = self
            .longer
            .iter()
            .map(|(code, &n)| format!("{code}: {} more than a step takes, and cut to a step", gains(n)));
        let negative = self
            .negative
            .iter()
            .map(|(code, &n)| format!("{code}: {} less than nothing, and counted as nothing", gains(n)));
        longer.chain(negative).collect()
    }
}

pub(super) fn edits_of(draft: &Draft) -> &[Edit] {
    match &draft.worth {
        Worth::Edits(edits)
        | Worth::Hope(edits)
        | Worth::HopeTo(edits, _)
        | Worth::Range(edits, _)
        | Worth::Sampled { likely: edits, .. } => edits,
        Worth::Model { .. } | Worth::Chance(_) | Worth::None => &[],
    }
}

/// What is replayed for a draft: its edits, and those that its bounds must hold.
pub(super) fn lists_of(draft: &Draft) -> Vec<&[Edit]> {
    let others: Vec<&[Edit]> = match &draft.worth {
        Worth::HopeTo(_, most) => vec![most],
        Worth::Range(_, others) => others.iter().map(Vec::as_slice).collect(),
        Worth::Sampled { least, most, .. } => vec![least, most],
        _ => Vec::new(),
    };
    std::iter::once(edits_of(draft)).chain(others).collect()
}

/// The gain of a draft from those of its lists, in their order.
pub(super) fn replayed(draft: &Draft, gains: &[Option<Gain>]) -> Option<Gain> {
    let (first, others) = gains.split_first()?;
    let first = (*first)?;
    if let (Worth::Sampled { .. }, [Some(least), Some(most)]) = (&draft.worth, others) {
        // Samples say that the thread did work there: nothing is taken as if it might have waited.
        return Some(Gain { ns: first.ns, low_ns: least.ns.min(first.ns), high_ns: most.high_ns.max(first.ns) });
    }
    // Bounds that hold all of them.
    Some(others.iter().flatten().fold(first, |all, gain| Gain {
        ns: all.ns,
        low_ns: all.low_ns.min(gain.low_ns),
        high_ns: all.high_ns.max(gain.high_ns),
    }))
}

/// The edits that repair it; none of a hope.
pub(super) fn repair(draft: &Draft) -> Vec<Edit> {
    match &draft.worth {
        Worth::Edits(edits) | Worth::Range(edits, _) | Worth::Sampled { likely: edits, .. } => edits.clone(),
        _ => Vec::new(),
    }
}

pub(super) fn scaled(gain: Gain, steps: i64) -> Gain {
    Gain { ns: gain.ns / steps, low_ns: gain.low_ns / steps, high_ns: gain.high_ns / steps }
}

#[cfg(test)]
mod tests {
    use super::super::others::{Message, OtherFinding, OtherRule, Others};
    use super::{Beyond, Gain, STATED, Worth, gain_of, without};

    #[test]
    fn gains_that_cannot_be_are_cut_and_told() {
        let gain = |ns, low_ns, high_ns| Gain { ns, low_ns, high_ns };
        let stated = |gain| gain_of(&Worth::Model { gain, model: STATED }, None, 1000);
        assert_eq!(stated(gain(1 << 60, 5, 1 << 60)), Some(gain(1000, 5, 1000)));
        assert_eq!(stated(gain(-50, -90, -10)), Some(gain(0, -90, 0)));
        assert_eq!(stated(gain(500, -90, 700)), Some(gain(500, -90, 700)));
        let mut others = Others::default();
        let text = str::to_owned;
        others.add(Message::Rule(OtherRule { code: text("MY001"), ..OtherRule::default() })).unwrap();
        for ns in [1 << 60, 2000, -1, 10] {
            let (support, confidence) = (text("exact"), text("low"));
            let (code, title, gain) = (text("MY001"), text("t"), Some((ns, ns, ns)));
            let said = OtherFinding { code, title, support, confidence, gain, ..OtherFinding::default() };
            others.add(Message::Found(Box::new(said))).unwrap();
        }
        let mut beyond = Beyond::default();
        let trace = stackline_model::Trace::default();
        others.proposals(&trace).iter().for_each(|proposal| beyond.note(proposal, 1000));
        assert_eq!(
            beyond.told(),
            [
                "MY001: 2 gains that it states are more than a step takes, and cut to a step",
                "MY001: 1 gain that it states is less than nothing, and counted as nothing"
            ]
        );
    }

    #[test]
    fn a_gain_without_recording_is_not_below_nothing() {
        let gain = |ns, low_ns, high_ns| Gain { ns, low_ns, high_ns };
        assert_eq!(without(gain(100, 90, 110), 0), gain(100, 90, 110));
        assert_eq!(without(gain(100, 90, 110), 40), gain(60, 30, 90));
        // More than all of it; a change that costs time is left as it is.
        assert_eq!(without(gain(100, 90, 110), 300), gain(0, -360, 0));
        assert_eq!(without(gain(-5, -9, 3), 40), gain(-5, -69, -5));
    }
}
