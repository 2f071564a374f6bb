//! Alternatives to the edits of a what-if; the bounds of the predicted gain also cover the gains of the alternatives.

use super::edit::{Case, Edit};
use super::{Gain, Measured, Stop, WhatIf, apply};
use crate::CriticalPathError;
use std::borrow::Cow;

/// Gain of edits without effect.
pub(super) const NO_GAIN: Gain = Gain::exact(0);

/// Edits divided by case: the likely ones, whose gain is predicted, and those of each alternative.
pub(super) struct Cases<'e> {
    pub(super) likely: Cow<'e, [Edit]>,
    others: Vec<(Case, Vec<Edit>)>,
}

impl<'e> Cases<'e> {
    /// Separate the edits of the prediction from those of each alternative.
    ///
    /// # Errors
    /// Returns an error if there are alternatives without the edits that they replace.
    pub(super) fn new(edits: &'e [Edit]) -> Result<Self, CriticalPathError> {
        if edits.iter().all(|edit| edit.case == Case::Likely) {
            return Ok(Self { likely: Cow::Borrowed(edits), others: Vec::new() });
        }
        let of_case = |case: Case| edits.iter().filter(|edit| edit.case == case).cloned().collect::<Vec<Edit>>();
        let likely = of_case(Case::Likely);
        if likely.is_empty() {
            let text = edits[0].to_string();
            let reason = "edits that begin with `case N:`, `lower:` or `upper:` change only the bounds of the gain; \
                          also give an edit without such a beginning, whose gain is predicted"
                .to_owned();
            return Err(CriticalPathError::RefusedEdit { text, reason });
        }
        let mut cases: Vec<Case> = edits.iter().map(|edit| edit.case).filter(|&case| case != Case::Likely).collect();
        cases.sort_unstable();
        cases.dedup();
        let others = cases.into_iter().map(|case| (case, of_case(case))).collect();
        Ok(Self { likely: Cow::Owned(likely), others })
    }
}

/// Gain of one alternative.
pub(super) struct CaseGain {
    case: Case,
    gain: Gain,
}

/// Gains of alternatives, and notes about them.
#[derive(Default)]
pub(super) struct CaseGains {
    pub(super) gains: Vec<CaseGain>,
    /// Text and number of events of each edit.
    pub(super) edits: Vec<(String, usize)>,
    pub(super) notes: Vec<String>,
}

impl Gain {
    /// Extend the bounds to cover another gain and its bounds.
    pub(super) fn widen(&mut self, other: Self) {
        self.low_ns = self.low_ns.min(other.low_ns);
        self.high_ns = self.high_ns.max(other.high_ns);
    }

    /// Set the bounds of the gain so that they cover the gains of the alternatives.
    pub(super) fn bounded_by(mut self, cases: &[CaseGain]) -> Self {
        // In the order of cases: those that only widen the bounds come before those that set a bound.
        for CaseGain { case, gain } in cases {
            match case {
                Case::Likely => {}
                Case::Other(_) => self.widen(*gain),
                Case::Lower => self.low_ns = gain.likely_ns.min(self.likely_ns),
                Case::Upper => self.high_ns = gain.high_ns.max(self.likely_ns),
            }
        }
        self
    }
}

impl WhatIf<'_, '_> {
    /// Predict the gain of edits, with bounds that cover the alternatives. Also returns the number of events of the
    /// first edit.
    ///
    /// # Errors
    /// Returns an error if the likely edits cannot be applied.
    pub(super) fn gain_with_cases(
        &self,
        measured: &Measured,
        edits: &[Edit],
        stop: Stop<'_>,
    ) -> Result<(Gain, usize), CriticalPathError> {
        let cases = Cases::new(edits)?;
        let (gain, counts) = self.gain_of_list(measured, &cases.likely, stop)?;
        let count = counts.first().copied().unwrap_or(0);
        Ok((gain.bounded_by(&self.gains_of_cases(measured, &cases, stop).gains), count))
    }

    /// Predict the gains of all alternatives that can be applied.
    pub(super) fn gains_of_cases(&self, measured: &Measured, cases: &Cases<'_>, stop: Stop<'_>) -> CaseGains {
        let mut found = CaseGains::default();
        for (case, edits) in &cases.others {
            let (gain, counts) = match self.gain_of_list(measured, edits, stop) {
                Ok(gain) => gain,
                Err(error) => {
                    let mark = case.to_string();
                    found.notes.push(format!(
                        "the range of the gain leaves out an alternative ('{}' in the list of edits) that could not be \
                         simulated: {error}",
                        mark.trim_end_matches(": ")
                    ));
                    continue;
                }
            };
            found.edits.extend(edits.iter().map(ToString::to_string).zip(counts));
            found.gains.push(CaseGain { case: *case, gain });
        }
        found
    }

    /// Gain of edits applied together, with the bounds of replay, and the number of events per edit.
    fn gain_of_list(
        &self,
        measured: &Measured,
        edits: &[Edit],
        stop: Stop<'_>,
    ) -> Result<(Gain, Vec<usize>), CriticalPathError> {
        if !edits.is_empty() && edits.iter().all(Edit::is_nothing) {
            return Ok((NO_GAIN, vec![0; edits.len()]));
        }
        let applied = apply(self.exact, (&self.plan, &self.index), edits, measured.window, stop)?;
        let mut shifts = Vec::new();
        let after = self.end_after(measured, &applied, super::Mode::Usual, &mut shifts, stop).length;
        let gain = self.gain(measured, &applied, after, &mut shifts, stop);
        Ok((gain, applied.counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_each_case() {
        let gain = Gain::new;
        let of = |cases: &[(Case, Gain)]| {
            let cases: Vec<CaseGain> = cases.iter().map(|&(case, gain)| CaseGain { case, gain }).collect();
            gain(100, 90, 110).bounded_by(&cases)
        };
        assert_eq!(of(&[]), gain(100, 90, 110));
        assert_eq!(of(&[(Case::Other(1), gain(60, 50, 70)), (Case::Other(2), NO_GAIN)]), gain(100, 0, 110));
        assert_eq!(of(&[(Case::Other(1), gain(130, 120, 140))]), gain(100, 90, 140));
        // These gains only have the counting error of samples, and no bounds of replay.
        assert_eq!(of(&[(Case::Lower, gain(95, 2, 98)), (Case::Upper, gain(103, 4, 105))]), gain(100, 95, 105));
        assert_eq!(of(&[(Case::Lower, gain(120, 2, 98)), (Case::Upper, gain(80, 4, 85))]), gain(100, 100, 100));
    }

    #[test]
    fn cases_as_text() {
        let text = "remove events:1; case 1: nothing; case 2: scale events:1 0.5; lower: remove events:2; upper: set events:3 7";
        let edits = Edit::parse_all(text).unwrap();
        assert_eq!(edits.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "), text);
        let cases = Cases::new(&edits).unwrap();
        assert_eq!(cases.likely.len(), 1);
        let others: Vec<Case> = cases.others.iter().map(|(case, _)| *case).collect();
        assert_eq!(others, [Case::Other(1), Case::Other(2), Case::Lower, Case::Upper]);
        assert!(Cases::new(&edits[1..]).is_err());
        for bad in
            ["nothing", "case x: nothing", "case 1: ", "lower: lower: remove events:1", "case -1: remove events:1"]
        {
            assert!(Edit::parse(bad).is_err(), "{bad}");
        }
    }
}
