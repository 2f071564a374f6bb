//! Greedy search for the combination of suggestions that lowers the peak most.

use super::Replay;
use crate::curve::Peak;
use std::cmp::Reverse;

/// Combination of suggestions, and the peak with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combination {
    /// Indices of suggestions, in the order in which they were chosen.
    pub chosen: Vec<usize>,
    /// The peak before.
    pub before: Peak,
    /// The peak after.
    pub after: Peak,
    /// Added run time, ns (see [`crate::suggest::Suggestion::cost_ns`]).
    pub cost_ns: u64,
}

impl Combination {
    /// Sort key, best first: lower peak, then less time, then fewer changes.
    fn order(&self) -> (u64, u64, usize) {
        (self.after.bytes, self.cost_ns, self.chosen.len())
    }
}

/// Maximum number of evaluated suggestions in [`Replay::lower`] from the first start, and the same number from all
/// other starts together.
const MOST_LOOKS: usize = 100_000_000;

/// Number of single suggestions, those that lower the peak most, from which the search also starts.
const STARTS: usize = 8;

/// Suggestions that the search may choose, in two orders, and the least bytes that each choice must save.
struct Candidates<'a> {
    /// By effort, then by descending bytes.
    by_effort: &'a [usize],
    /// By descending bytes.
    by_bytes: &'a [usize],
    least: u64,
}

/// First criterion of the search for the choice among suggestions that lower the peak: effort or saved bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Criterion {
    LeastEffort,
    MostBytes,
}

impl Replay<'_> {
    /// Apply the combination of suggestions that lowers the memory peak most, as found by a search. At the highest
    /// point, the search applies the suggestion of least effort in `among` (of equal effort, the one that saves most
    /// there), until none saves at least `least` bytes. Then it undoes suggestions without which the peak is no higher,
    /// greatest effort first.
    ///
    /// A small effort may exclude a larger saving. So the search is repeated with the largest saving first, and from
    /// each of the suggestions that lower the peak most alone. The best result is applied. It is never worse than the
    /// best single suggestion, or than none.
    ///
    /// Very long lists are cut off after `MOST_LOOKS` evaluated suggestions.
    pub fn lower(&mut self, among: &[usize], least: u64) -> Combination {
        let suggestions = self.suggestions;
        let bytes = |at: &usize| Reverse(suggestions[*at].total_bytes());
        let mut by_effort: Vec<usize> = among.to_vec();
        by_effort.sort_by_cached_key(|at| (suggestions[*at].action.effort(), bytes(at), *at));
        by_effort.dedup();
        let mut by_bytes = by_effort.clone();
        by_bytes.sort_by_key(bytes);
        let among = Candidates { by_effort: &by_effort, by_bytes: &by_bytes, least };
        // No change is better than a higher peak. A peak can rise if members that others excluded take effect once
        // those are undone.
        let mut best = Combination { chosen: Vec::new(), before: self.peak(), after: self.peak(), cost_ns: 0 };
        let mut looks = MOST_LOOKS;
        let singles = self.best_singles(&by_effort, least);
        let mut others = vec![self.run_search(None, Criterion::LeastEffort, &among, &mut MOST_LOOKS.clone())];
        others.push(self.run_search(None, Criterion::MostBytes, &among, &mut looks));
        others.extend(
            singles.iter().map(|start| self.run_search(Some(*start), Criterion::LeastEffort, &among, &mut looks)),
        );
        // The best single suggestion without further ones: others can hardly make it worse, but this guarantees it.
        others
            .extend(singles.first().map(|start| self.run_search(Some(*start), Criterion::LeastEffort, &among, &mut 0)));
        for other in others {
            if other.order() < best.order() {
                best = other;
            }
        }
        self.apply_all(&best.chosen);
        best
    }

    /// Up to [`STARTS`] suggestions (by index) that lower the memory peak most when applied alone, best first.
    fn best_singles(&mut self, among: &[usize], least: u64) -> Vec<usize> {
        let position = self.peak().position.0;
        let least = i64::try_from(least.max(1)).unwrap_or(i64::MAX);
        let mut singles: Vec<(u64, usize)> = Vec::new();
        for at in among.iter().copied() {
            let reaches = self.suggestions[at].members().any(|member| member.may_affect(position));
            if reaches && self.saving_at(at, position) >= least {
                singles.push((self.lowers(at), at));
            }
        }
        singles.retain(|(lowers, _)| *lowers > 0);
        // The stable sort keeps those of less effort first among equal ones.
        singles.sort_by_key(|(lowers, _)| Reverse(*lowers));
        singles.into_iter().take(STARTS).map(|(_, at)| at).collect()
    }

    /// Run the search from one start, and return the combination that it finds. The state of the replay is restored
    /// afterwards.
    fn run_search(
        &mut self,
        start: Option<usize>,
        first: Criterion,
        among: &Candidates<'_>,
        looks: &mut usize,
    ) -> Combination {
        let before = self.peak();
        let mut chosen: Vec<usize> = start.into_iter().filter(|start| self.apply(*start)).collect();
        self.search_from(&mut chosen, first, among, looks);
        self.undo_useless(&mut chosen);
        // Reapplied in their order, as a user of the list would do: suggestions that others excluded may be accepted
        // now.
        self.undo_all(&chosen);
        self.apply_all(&chosen);
        let applied = |at: &usize| self.members[*at].clone().filter(|member| self.plan.is_applied(*member));
        let costs = chosen.iter().flat_map(applied).map(|member| self.plan.suggestions[member].cost_ns);
        let cost_ns = costs.fold(0, u64::saturating_add);
        let after = self.peak();
        self.undo_all(&chosen);
        Combination { chosen, before, after, cost_ns }
    }

    /// Apply further suggestions one by one, each the best at the current peak, and return to the state with the lowest
    /// peak.
    fn search_from(&mut self, chosen: &mut Vec<usize>, first: Criterion, among: &Candidates<'_>, looks: &mut usize) {
        let list = if first == Criterion::LeastEffort { among.by_effort } else { among.by_bytes };
        let mut left: Vec<usize> = list.iter().copied().filter(|at| !chosen.contains(at)).collect();
        let mut members: usize = left.iter().map(|at| self.members[*at].len()).sum();
        let mut lowest = (self.peak().bytes, chosen.len());
        while *looks >= members {
            *looks -= members;
            let peak = self.peak();
            let Some(best) = self.best_at(&left, peak.position.0, (first, among.least)) else { break };
            left.retain(|other| *other != best);
            members -= self.members[best].len();
            if self.apply(best) {
                chosen.push(best);
            }
            if self.peak().bytes < lowest.0 {
                lowest = (self.peak().bytes, chosen.len());
            }
        }
        self.undo_all(&chosen[lowest.1..]);
        chosen.truncate(lowest.1);
    }

    /// Undo suggestions without which the peak is no higher, greatest effort first.
    fn undo_useless(&mut self, chosen: &mut Vec<usize>) {
        let mut by_effort = chosen.clone();
        by_effort.sort_by_key(|at| (Reverse(self.suggestions[*at].action.effort()), *at));
        let reached = self.peak().bytes;
        for at in by_effort {
            let taken_back = self.take_back(at);
            if self.peak().bytes > reached {
                taken_back.into_iter().for_each(|member| self.change(member, true));
            } else {
                chosen.retain(|other| *other != at);
            }
        }
    }

    /// Apply suggestions (by index) in order.
    fn apply_all(&mut self, chosen: &[usize]) {
        for at in chosen {
            self.apply(*at);
        }
    }

    /// Undo suggestions (by index) in reverse order.
    fn undo_all(&mut self, chosen: &[usize]) {
        chosen.iter().rev().for_each(|at| self.undo(*at));
    }

    /// Suggestion in `left` that is best at a position, by least effort or by largest saving; `None` if none saves at
    /// least `least` bytes.
    ///
    /// `left` is sorted by effort (if that is the first criterion), then by descending bytes.
    fn best_at(&mut self, left: &[usize], position: u32, (first, least): (Criterion, u64)) -> Option<usize> {
        let enough = i64::try_from(least.max(1)).unwrap_or(i64::MAX);
        let suggestions = self.suggestions;
        let mut best: Option<(u8, i64, usize)> = None;
        for at in left.iter().copied() {
            let effort = if first == Criterion::LeastEffort { suggestions[at].action.effort() } else { 0 };
            let bytes = i64::try_from(suggestions[at].total_bytes()).unwrap_or(i64::MAX);
            // No suggestion saves more than its bytes, so no later one is better.
            if best.is_some_and(|(least, most, _)| effort > least || bytes <= most) {
                break;
            }
            if bytes < enough || !suggestions[at].members().any(|member| member.may_affect(position)) {
                continue;
            }
            let saved = self.saving_at(at, position);
            if saved >= enough && best.is_none_or(|(_, most, _)| saved > most) {
                best = Some((effort, saved, at));
            }
        }
        best.map(|(_, _, at)| at)
    }
}
