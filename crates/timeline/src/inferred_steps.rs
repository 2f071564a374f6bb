//! Selection of inferred steps in a trace without step marks: the repeats of a launch pattern. Findings, critical paths
//! and what-if use them; tables do not. Ranks of a job share them, or use the whole traces.

use crate::Scope;
use crate::step_marks::{LikelySteps, likely_steps};
use crate::steps::StepSelection;
use crate::window_choice::WindowChoice;
use stackline_model::Trace;

impl StepSelection {
    /// Select the steps of the scope; by default, in a trace without steps, the repeats of a launch pattern.
    #[must_use]
    pub fn select_or_infer(trace: &Trace, scope: &Scope) -> Self {
        Self::select_or_infer_with_note(trace, scope).0
    }

    /// Select marked or inferred steps, with a note about spans that could be steps. The user must select such spans,
    /// because they may be requests or epochs.
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
            Some(LikelySteps::Spans(spans)) => {
                (selection, Some(format!("no steps are marked, but spans repeat like steps: {spans}")))
            }
            None => (selection, None),
        }
    }

    /// Select marked or inferred steps for each rank of a job. If the ranks cannot share inferred steps, all have the
    /// whole trace, and the note of [`no_shared_steps_note`].
    #[must_use]
    pub fn select_or_infer_in_job(ranks: &[(i64, &Trace)], scope: &Scope) -> Vec<Self> {
        let mut selections: Vec<Self> = ranks.iter().map(|(_, trace)| Self::select_or_infer(trace, scope)).collect();
        let steps = |(&(rank, _), own): (&(i64, &Trace), &Self)| own.steps_of_rank(rank);
        let steps: Vec<RankSteps> = ranks.iter().zip(&selections).map(steps).collect();
        if let Some(note) = no_shared_steps_note(&steps) {
            for (selection, (_, trace)) in selections.iter_mut().zip(ranks) {
                *selection = Self::select(trace, scope);
                selection.notes.push(note.clone());
            }
        }
        selections
    }

    /// Summarize the number of selected steps, for a comparison with other ranks of the job.
    #[must_use]
    pub fn steps_of_rank(&self, rank: i64) -> RankSteps {
        RankSteps { rank, steps: self.steps, are_inferred: self.are_inferred() }
    }

    /// Test if the steps are inferred, because the program marks none.
    #[must_use]
    pub fn are_inferred(&self) -> bool {
        matches!(self.choice, WindowChoice::Between(..))
    }
}

/// Number of selected steps of one rank of a job, marked or inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankSteps {
    /// The rank.
    pub rank: i64,
    /// Number of steps; 0 for a whole trace.
    pub steps: usize,
    /// True if the steps are inferred.
    pub are_inferred: bool,
}

/// Note if the ranks of a job cannot share inferred steps: their numbers differ by more than one, and no rank marks
/// steps. All ranks then have their whole traces, because times per step and per trace are not comparable.
#[must_use]
pub fn no_shared_steps_note(ranks: &[RankSteps]) -> Option<String> {
    let steps = || ranks.iter().map(|rank| rank.steps);
    let are_equal = steps().max()?.abs_diff(steps().min()?) <= 1;
    if are_equal || ranks.iter().any(|rank| rank.steps > 0 && !rank.are_inferred) {
        return None;
    }
    let inferred = ranks.iter().filter(|rank| rank.are_inferred);
    let inferred: Vec<String> = inferred.map(|rank| format!("{} on rank {}", rank.steps, rank.rank)).collect();
    Some(format!(
        "steps could not be inferred, because the launch pattern repeats a different number of times on each rank \
         ({}). So times cover whole traces. To simulate changes, use `stackline what-if --whole`. To learn how to mark \
         steps, run `stackline steps`",
        inferred.join(", ")
    ))
}
