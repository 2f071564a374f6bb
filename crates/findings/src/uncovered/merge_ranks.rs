//! Merge of the uncovered time of several ranks.

use crate::findings::Findings;
use crate::large_group::{LARGE_PERCENT, LargeGroup, Uncovered};

/// Uncovered time of one rank, with large calls of other ranks that it lacks, each from the rank with most of it.
/// `last`: the rank that the others wait for, if a finding reports it.
pub(crate) fn merge(all: &[(i64, Findings)], (base, of_base): (i64, Uncovered), last: Option<i64>) -> Uncovered {
    // A blocking copy after a collective lasts until the last rank arrives: an effect, with little time on its own
    // path.
    let is_effect =
        |rank: i64, group: &LargeGroup| last.is_some_and(|last| last != rank) && group.path_percent < LARGE_PERCENT;
    let of_rank = |rank: i64, group: &LargeGroup| LargeGroup { rank: Some(rank), ..group.clone() };
    let mut groups: Vec<LargeGroup> = of_base.groups.iter().map(|group| of_rank(base, group)).collect();
    let has = |group: &LargeGroup| of_base.groups.iter().any(|g| (g.kind, &g.name) == (group.kind, &group.name));
    let mut others: Vec<LargeGroup> = Vec::new();
    for (rank, found) in all.iter().filter(|(rank, _)| *rank != base) {
        let large = found.uncovered.groups.iter().filter(|group| group.is_large_call() && !is_effect(*rank, group));
        for group in large.filter(|group| !has(group)) {
            match others.iter_mut().find(|other| other.name == group.name) {
                Some(other) if other.percent >= group.percent => {}
                Some(other) => *other = of_rank(*rank, group),
                None => others.push(of_rank(*rank, group)),
            }
        }
    }
    others.sort_by(|a, b| b.percent.total_cmp(&a.percent).then_with(|| (a.rank, &a.name).cmp(&(b.rank, &b.name))));
    groups.extend(others);
    Uncovered { groups, ..of_base }
}
