//! Several ranks in one tree of calls: each is looked at by itself, and what was found is put together.

use super::{NoCalls, no_times, of_rank};
use crate::findings::{Finding, Findings, Options, merge, ranges};
use stackline_model::CallTree;
use std::cmp::Reverse;

/// The ranks of a tree, ascending.
pub(super) fn of(tree: &CallTree) -> Vec<i64> {
    let mut known: Vec<i64> = tree.processes.iter().filter_map(|process| process.rank.map(i64::from)).collect();
    known.sort_unstable();
    known.dedup();
    known
}

/// What is found on any of these ranks.
pub(super) fn find(
    tree: &CallTree,
    ranks: Vec<i64>,
    options: &Options,
    keep: &dyn Fn(&Finding) -> bool,
) -> Result<Findings, NoCalls> {
    let (mut found, mut without) = (Vec::new(), Vec::new());
    for rank in ranks {
        match of_rank(tree, Some(rank), options, keep) {
            Ok(findings) => found.push((rank, findings)),
            Err(_) => without.push(rank),
        }
    }
    // Times of steps and of whole runs are not compared: a rank that makes none serves the others, or died before.
    let has_steps = |(_, findings): &(i64, Findings)| findings.steps > 0;
    let apart: Vec<i64> = if found.iter().any(has_steps) {
        found.extract_if(.., |of_one| !has_steps(of_one)).map(|(rank, _)| rank).collect()
    } else {
        Vec::new()
    };
    // What is left out of the others is not the same time, but the same kind of thing.
    let slowest = found.iter().max_by_key(|(rank, findings)| (findings.step_ns, Reverse(*rank)));
    let told = slowest.map(|(_, findings)| findings.notes.clone()).unwrap_or_default();
    found.iter_mut().for_each(|(_, findings): &mut (i64, Findings)| findings.notes.retain(|note| told.contains(note)));
    let mut merged = merge(found, options, keep).ok_or_else(|| no_times(tree, None))?;
    let told = [(apart, "nothing marks steps of"), (without, "no time was measured in the steps of")];
    for (ranks, what) in told.into_iter().filter(|(ranks, _)| !ranks.is_empty()) {
        merged.notes.push(format!("{what} {}: left out", ranges(&ranks)));
    }
    Ok(merged)
}
