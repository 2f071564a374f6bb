//! Steps of a trace that marks none: the repeats of a pattern of launches. Findings, critical paths and what-if take them as steps;
//! tables do not.

use crate::Scope;
use crate::critical_path::exact::WindowChoice;
use crate::step_marks::{LikelySteps, likely_steps};
use crate::steps::Looked;
use stackline_model::Trace;

impl Looked {
    /// The steps of the scope ([`Self::at`]); by default, of a trace without any, the repeats of a pattern of launches.
    #[must_use]
    pub fn or_inferred(trace: &Trace, scope: &Scope) -> Self {
        Self::or_likely(trace, scope).0
    }

    /// The same, and what is to be said of spans that could be steps: they are for the user to choose, since they may be requests or
    /// epochs.
    pub(crate) fn or_likely(trace: &Trace, scope: &Scope) -> (Self, Option<String>) {
        let looked = Self::at(trace, scope);
        if looked.steps > 0 || scope.whole || scope.steps.is_some() {
            return (looked, None);
        }
        match likely_steps(trace) {
            Some(LikelySteps::Pattern(pattern)) => {
                let (from, to) = pattern.window();
                let (choice, notes) = (WindowChoice::Between(from, to), vec![pattern.taken_as_steps()]);
                (Self { choice, steps: pattern.repeats.len(), notes, warm_ups: Vec::new() }, None)
            }
            Some(LikelySteps::Spans(spans)) => (looked, Some(format!("no steps are marked, but {spans}"))),
            None => (looked, None),
        }
    }

    /// Whether the program marks none of the steps.
    #[must_use]
    pub fn are_inferred(&self) -> bool {
        matches!(self.choice, WindowChoice::Between(..))
    }
}
