//! Inferred steps of a trace without step marks: the repeats of a launch pattern. Findings, critical paths and what-if
//! use them; tables do not.

use crate::Scope;
use crate::step_marks::{LikelySteps, likely_steps};
use crate::steps::Looked;
use crate::window_choice::WindowChoice;
use stackline_model::Trace;

impl Looked {
    /// The steps of the scope ([`Self::at`]). By default, in a trace without steps, the repeats of a launch pattern.
    #[must_use]
    pub fn or_inferred(trace: &Trace, scope: &Scope) -> Self {
        Self::or_likely(trace, scope).0
    }

    /// Select steps like [`Self::or_inferred`], with a note about spans that could be steps. The user must select such
    /// spans, because they may be requests or epochs.
    pub fn or_likely(trace: &Trace, scope: &Scope) -> (Self, Option<String>) {
        let looked = Self::at(trace, scope);
        if looked.steps > 0 || scope.whole || scope.steps.is_some() {
            return (looked, None);
        }
        match likely_steps(trace) {
            Some(LikelySteps::Pattern(pattern)) => {
                let (from, to) = pattern.window();
                let (choice, notes) = (WindowChoice::Between(from, to), vec![pattern.taken_as_steps()]);
                (Self { choice, steps: pattern.repeats.len(), notes, ..looked }, None)
            }
            Some(LikelySteps::Spans(spans)) => (looked, Some(format!("no steps are marked, but {spans}"))),
            None => (looked, None),
        }
    }

    /// Test if the steps are inferred, because the program marks none.
    #[must_use]
    pub fn are_inferred(&self) -> bool {
        matches!(self.choice, WindowChoice::Between(..))
    }
}
