//! Which parts of two runs are put beside each other.

use crate::Opened;
use stackline_analyze::Scope;
use stackline_analyze::calls::Stretch;
use stackline_analyze::steps::Looked;
use std::collections::BTreeSet;

impl Opened {
    /// The part of this run that is like a part of the one that it is compared with: its own steps for any steps, without as many
    /// first ones as the other run leaves out as warm-ups.
    pub(crate) fn like(&self, rank: Option<i64>, part: Stretch, of: &Self) -> Stretch {
        match (part, self.trace(rank)) {
            (Stretch::Steps(..) | Stretch::Chosen, Ok((at, trace))) => {
                let chosen = self.chosen(at).map(|(first, last)| {
                    let numbers = trace.steps.iter().map(|step| step.number);
                    let numbers: BTreeSet<i64> = numbers.filter(|number| (first..last).contains(number)).collect();
                    let more = of.warm_ups(rank).saturating_sub(self.warm_ups(rank));
                    // Two steps stay at least.
                    (numbers.iter().nth(more).or(numbers.last()).copied().unwrap_or(first), last)
                });
                let whole = if part == Stretch::Chosen { Stretch::Chosen } else { Stretch::Whole };
                chosen.map_or(whole, |(first, last)| Stretch::Steps(first, last))
            }
            (Stretch::Steps(..), Err(_)) => Stretch::Whole,
            (part, _) => part,
        }
    }

    /// Whether a part is that of all steps that are looked at where nobody chose any.
    pub(crate) fn is_all(&self, rank: Option<i64>, part: Stretch) -> bool {
        let chosen = self.trace(rank).ok().and_then(|(at, _)| self.chosen(at));
        part == Stretch::Chosen || chosen.is_some_and(|(first, last)| part == Stretch::Steps(first, last))
    }

    /// How many first steps are left out by themselves.
    fn warm_ups(&self, rank: Option<i64>) -> usize {
        self.trace(rank).map_or(0, |(_, trace)| Looked::at(trace, &Scope::default()).warm_ups.len())
    }
}
