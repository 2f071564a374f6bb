//! Gains as rules state them: edits to replay, or known gains.

use stackline_critical_path::exact::what_if::{Case, Edit, Gain};

/// Basis of a finding's gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GainBasis {
    /// No gain.
    Nothing,
    /// Replay of edits, or of the allocations of a memory trace.
    Replay,
    /// Statement of a Python rule.
    Stated,
    /// Model, with its description in a sentence.
    Model(&'static str),
}

/// Estimated gain of a change, in the form in which its rule states it.
#[derive(Clone, Debug)]
pub enum GainEstimate {
    /// Gain that a replay of edits predicts.
    Replay {
        /// Edits of the gain, applied together.
        likely: Vec<Edit>,
        /// Edits of the bounds, by case.
        bounds: Vec<(Case, Vec<Edit>)>,
        /// True if the change may be impossible ([`Gain::is_speculative`]).
        is_speculative: bool,
    },
    /// Gain in ns per step by a model with this description; replay cannot express the change.
    Model(Gain, &'static str),
    /// Gain in ns per step that a Python rule states.
    Stated(Gain),
    /// Insignificant for the given reason: reported as a note, not as a finding.
    Insignificant(&'static str),
    /// No gain: the problem affects only the measurement.
    None,
}

impl GainEstimate {
    /// Replay of these edits, applied together.
    pub fn edits(likely: Vec<Edit>) -> Self {
        Self::range(likely, Vec::new())
    }

    /// Replay with bounds for an uncertain effect of the change. The bounds also cover the other lists.
    pub fn range(likely: Vec<Edit>, others: Vec<Vec<Edit>>) -> Self {
        let bounds = (1..).zip(others).map(|(number, edits)| (Case::Other(number), edits)).collect();
        Self::Replay { likely, bounds, is_speculative: false }
    }

    /// Replay for sampled work, with the sampling error: likely case, lower and upper bound.
    pub fn sampled(likely: Vec<Edit>, least: Vec<Edit>, most: Vec<Edit>) -> Self {
        // Samples show work of the thread, so the bounds do not assume that it waited.
        let bounds = vec![(Case::Lower, least), (Case::Upper, most)];
        Self::Replay { likely, bounds, is_speculative: false }
    }

    /// Replay of a speculative change, such as half of the time. The lower bound is 0, and the combined gain excludes
    /// it.
    pub fn speculative(likely: Vec<Edit>) -> Self {
        Self::Replay { likely, bounds: vec![(Case::Other(1), Vec::new())], is_speculative: true }
    }

    /// Replay of a speculative change that may remove all of the work: the gain of the first list, the upper bound of
    /// the second.
    pub fn speculative_range(likely: Vec<Edit>, most: Vec<Edit>) -> Self {
        let bounds = vec![(Case::Other(1), Vec::new()), (Case::Other(2), most)];
        Self::Replay { likely, bounds, is_speculative: true }
    }

    /// Basis of the gain.
    pub(super) fn basis(&self) -> GainBasis {
        match *self {
            Self::Replay { .. } => GainBasis::Replay,
            Self::Model(_, model) => GainBasis::Model(model),
            Self::Stated(_) => GainBasis::Stated,
            Self::Insignificant(_) | Self::None => GainBasis::Nothing,
        }
    }

    /// Gain of a finding per step: the replayed gain, or the known one. `None` without a gain, or if the gain is
    /// unknown.
    pub(super) fn gain(&self, replayed: Option<Gain>, step_ns: i64) -> Option<Gain> {
        match self {
            Self::Replay { is_speculative, .. } => {
                replayed.map(|gain| if *is_speculative { gain.speculative() } else { gain })
            }
            // No gain exceeds the step, including gains that Python rules state.
            Self::Stated(gain) => {
                let Gain { likely_ns, low_ns, high_ns, .. } = gain.map(|ns| ns.min(step_ns));
                let likely_ns = likely_ns.max(0);
                Some(Gain::new(likely_ns, low_ns.min(likely_ns), high_ns.max(likely_ns)))
            }
            Self::Model(gain, _) => Some(*gain),
            Self::Insignificant(_) | Self::None => None,
        }
    }

    /// Edits of the gain, speculative or not; empty for gains without replay.
    pub(super) fn likely_edits(&self) -> &[Edit] {
        match self {
            Self::Replay { likely, .. } => likely,
            _ => &[],
        }
    }

    /// Edits that the combined gain includes; none for speculative gains, and for gains without replay.
    pub(super) fn repair_edits(&self) -> &[Edit] {
        match self {
            Self::Replay { likely, is_speculative: false, .. } => likely,
            _ => &[],
        }
    }

    /// All edits to replay: those of the gain, and as further cases those of its bounds.
    pub(super) fn edits_to_replay(&self) -> Vec<Edit> {
        let Self::Replay { likely, bounds, .. } = self else { return Vec::new() };
        if likely.is_empty() {
            return Vec::new();
        }
        let in_case = |(case, edits): &(Case, Vec<Edit>)| match &edits[..] {
            [] => vec![Edit::nothing(*case)],
            edits => edits.iter().cloned().map(|edit| edit.in_case(*case)).collect(),
        };
        likely.iter().cloned().chain(bounds.iter().flat_map(in_case)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Edit, Gain, GainBasis, GainEstimate};

    fn edits(text: &str) -> Vec<Edit> {
        Edit::parse_all(text).unwrap()
    }

    /// Edits to replay, as text.
    fn replayed(estimate: &GainEstimate) -> String {
        estimate.edits_to_replay().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn each_form_replays_its_bounds_as_cases() {
        let [one, half, none] = ["remove events:1", "scale events:1 0.5", ""];
        assert_eq!(replayed(&GainEstimate::edits(edits(one))), one);
        assert_eq!(
            replayed(&GainEstimate::range(edits(one), vec![edits(half), edits("remove events:2"), Vec::new()])),
            "remove events:1; case 1: scale events:1 0.5; case 2: remove events:2; case 3: nothing"
        );
        assert_eq!(
            replayed(&GainEstimate::sampled(edits(one), edits(half), Vec::new())),
            "remove events:1; lower: scale events:1 0.5; upper: nothing"
        );
        assert_eq!(replayed(&GainEstimate::speculative(edits(half))), "scale events:1 0.5; case 1: nothing");
        assert_eq!(
            replayed(&GainEstimate::speculative_range(edits(half), edits(one))),
            "scale events:1 0.5; case 1: nothing; case 2: remove events:1"
        );
        assert_eq!(replayed(&GainEstimate::speculative(Vec::new())), none);
        assert_eq!(replayed(&GainEstimate::Stated(Gain::exact(5))), none);
    }

    #[test]
    fn only_speculative_forms_have_speculative_gains() {
        let (gain, some) = (Gain::new(20, 10, 30), edits("remove events:1"));
        let forms = [
            (GainEstimate::edits(some.clone()), false),
            (GainEstimate::range(some.clone(), Vec::new()), false),
            (GainEstimate::sampled(some.clone(), Vec::new(), Vec::new()), false),
            (GainEstimate::speculative(some.clone()), true),
            (GainEstimate::speculative_range(some.clone(), Vec::new()), true),
        ];
        for (estimate, is_speculative) in forms {
            assert_eq!(estimate.gain(Some(gain), 100), Some(Gain { is_speculative, ..gain }), "{estimate:?}");
            assert_eq!(estimate.repair_edits().is_empty(), is_speculative, "{estimate:?}");
            assert_eq!((estimate.likely_edits().len(), estimate.basis()), (1, GainBasis::Replay), "{estimate:?}");
            assert_eq!(estimate.gain(None, 100), None, "{estimate:?}");
        }
        assert_eq!(GainEstimate::Model(gain, "model").gain(None, 100), Some(gain));
        assert_eq!(GainEstimate::Insignificant("too little").gain(Some(gain), 100), None);
    }
}
