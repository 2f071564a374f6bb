//! Time that no finding covers, of several ranks.

use super::{LargeGroup, Uncovered};
use crate::findings::rank::Findings;

/// What is uncovered on one rank, with the large calls of the other ones that it does not have: each of the rank on which it takes most.
pub(in crate::findings) fn merge(all: &[(i64, Findings)], (base, of_base): (i64, Uncovered)) -> Uncovered {
    let of_rank = |rank: i64, group: &LargeGroup| LargeGroup { rank: Some(rank), ..group.clone() };
    let mut groups: Vec<LargeGroup> = of_base.groups.iter().map(|group| of_rank(base, group)).collect();
    let has = |group: &LargeGroup| of_base.groups.iter().any(|g| (g.kind, &g.name) == (group.kind, &group.name));
    let mut others: Vec<LargeGroup> = Vec::new();
    for (rank, found) in all.iter().filter(|(rank, _)| *rank != base) {
        for group in found.uncovered.groups.iter().filter(|group| group.is_large_call() && !has(group)) {
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
