//! The steps that findings look at: those that are marked, else the repeats of a pattern of launches.

use crate::Scope;
use crate::critical_path::exact::WindowChoice;
use crate::step_marks::{LikelySteps, likely_steps};
use crate::steps::Looked;
use stackline_model::Trace;

/// The steps of a trace, and whether they are inferred.
pub(super) struct ChosenSteps {
    pub(super) looked: Looked,
    pub(super) are_inferred: bool,
}

impl ChosenSteps {
    /// The steps that [`Looked`] chooses; by default, of a trace without any, the repeats of a pattern of launches. Spans that could be
    /// steps are for the user to choose: they may be requests or epochs.
    pub(super) fn of(trace: &Trace, scope: &Scope) -> Self {
        let mut looked = Looked::at(trace, scope);
        if looked.steps > 0 || scope.whole || scope.steps.is_some() {
            return Self { looked, are_inferred: false };
        }
        let are_inferred = match likely_steps(trace) {
            Some(LikelySteps::Pattern(pattern)) => {
                let (from, to) = pattern.window();
                let notes = vec![pattern.taken_as_steps()];
                let choice = WindowChoice::Between(from, to);
                looked = Looked { choice, steps: pattern.repeats.len(), notes, warm_ups: Vec::new() };
                true
            }
            Some(LikelySteps::Spans(spans)) => {
                looked.notes.push(format!("no steps are marked, but {spans}"));
                false
            }
            None => false,
        };
        Self { looked, are_inferred }
    }
}
