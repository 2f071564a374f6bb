//! Which parts of two runs are put beside each other.

use crate::Opened;
use stackline_analyze::Scope;
use stackline_analyze::calls::Stretch;
use stackline_analyze::steps::Looked;

impl Opened {
    /// The part of this run that is like a part of the one that it is compared with: its own steps for any steps, without the first
    /// one if the other run's is a warm-up.
    pub(crate) fn like(&self, rank: Option<i64>, part: Stretch, of: &Self) -> Stretch {
        match (part, self.trace(rank)) {
            (Stretch::Steps(..) | Stretch::Chosen, Ok((at, trace))) => {
                let chosen = self.chosen(at).map(|(first, last)| {
                    let second = trace.steps.iter().map(|step| step.number).filter(|&number| number > first).min();
                    let second = second.filter(|&second| of.warms_up(rank) && !self.warms_up(rank) && second < last);
                    (second.unwrap_or(first), last)
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

    /// Whether a first step is left out by itself.
    fn warms_up(&self, rank: Option<i64>) -> bool {
        let warms_up = |(_, trace)| !Looked::at(trace, &Scope::default()).warm_ups.is_empty();
        self.trace(rank).is_ok_and(warms_up)
    }
}
