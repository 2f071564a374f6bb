//! Inferred steps of a trace without step marks: the repeats of a launch pattern. Findings, critical paths and what-if
//! use them; tables do not.

use crate::Scope;
use crate::step_marks::{LikelySteps, likely_steps};
use crate::steps::StepSelection;
use crate::window_choice::WindowChoice;
use stackline_model::Trace;

impl StepSelection {
    /// The steps of the scope ([`Self::select`]). By default, in a trace without steps, the repeats of a launch
    /// pattern.
    #[must_use]
    pub fn select_or_infer(trace: &Trace, scope: &Scope) -> Self {
        Self::select_or_infer_with_note(trace, scope).0
    }

    /// Select steps like [`Self::select_or_infer`], with a note about spans that could be steps. The user must select
    /// such spans, because they may be requests or epochs.
    pub fn select_or_infer_with_note(trace: &Trace, scope: &Scope) -> (Self, Option<String>) {
        let selection = Self::select(trace, scope);
        if selection.steps > 0 || scope.whole || scope.steps.is_some() {
            return (selection, None);
        }
        match likely_steps(trace) {
            Some(LikelySteps::Pattern(pattern)) => {
                let (from, to) = pattern.window();
                let (choice, notes) = (WindowChoice::Between(from, to), vec![pattern.inferred_steps_note()]);
                (Self { choice, steps: pattern.repeats.len(), notes, ..selection }, None)
            }
            Some(LikelySteps::Spans(spans)) => (selection, Some(format!("no steps are marked, but {spans}"))),
            None => (selection, None),
        }
    }

    /// Test if the steps are inferred, because the program marks none.
    #[must_use]
    pub fn are_inferred(&self) -> bool {
        matches!(self.choice, WindowChoice::Between(..))
    }
}
