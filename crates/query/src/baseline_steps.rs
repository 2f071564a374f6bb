//! Choice of the steps to compare between a run and its baseline.

use crate::OpenRun;
use stackline_calls::TimeRange;
use stackline_timeline::Scope;
use stackline_timeline::steps::StepSelection;
use std::collections::BTreeSet;

impl OpenRun {
    /// Time range of this baseline to compare with range `part` of `run`. Steps map to the baseline's default steps,
    /// without as many first ones as `run` excludes as warm-up.
    pub(crate) fn corresponding_part(&self, rank: Option<i64>, part: TimeRange, run: &Self) -> TimeRange {
        match (part, self.trace(rank)) {
            (TimeRange::Steps(..) | TimeRange::Chosen, Ok((at, trace))) => {
                let chosen = self.chosen(at).map(|(first, last)| {
                    let numbers = trace.steps.iter().map(|step| step.number);
                    let numbers: BTreeSet<i64> = numbers.filter(|number| (first..last).contains(number)).collect();
                    let more = run.warm_ups(rank).saturating_sub(self.warm_ups(rank));
                    // Two steps stay at least.
                    (numbers.iter().nth(more).or(numbers.last()).copied().unwrap_or(first), last)
                });
                let whole = if part == TimeRange::Chosen { TimeRange::Chosen } else { TimeRange::Whole };
                chosen.map_or(whole, |(first, last)| TimeRange::Steps(first, last))
            }
            (TimeRange::Steps(..), Err(_)) => TimeRange::Whole,
            (part, _) => part,
        }
    }

    /// Check if a time range equals the default selection of steps, by name or by the same step numbers.
    pub(crate) fn is_default_part(&self, rank: Option<i64>, part: TimeRange) -> bool {
        let chosen = self.trace(rank).ok().and_then(|(at, _)| self.chosen(at));
        part == TimeRange::Chosen || chosen.is_some_and(|(first, last)| part == TimeRange::Steps(first, last))
    }

    /// Number of warm-up steps that the default selection excludes.
    fn warm_ups(&self, rank: Option<i64>) -> usize {
        self.trace(rank).map_or(0, |(_, trace)| StepSelection::select(trace, &Scope::default()).warm_ups.len())
    }
}
