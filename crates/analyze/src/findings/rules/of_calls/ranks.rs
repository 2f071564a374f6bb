//! Several ranks in one tree of calls: each is looked at by itself, and what was found is put together.

use super::super::{busy_python, dataloader_starved, operators_in_loops};
use super::{NoCalls, no_times, of_rank};
use crate::findings::identity::on_ranks;
use crate::findings::{Finding, Findings, Options, Place, Rule, merge, ranges};
use stackline_model::CallTree;
use std::cmp::Reverse;
use std::collections::BTreeMap;

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
    unify_lines(&mut found, keep);
    let mut merged = merge(found, options, keep).ok_or_else(|| no_times(tree, None))?;
    let told = [(apart, "nothing marks steps of"), (without, "no time was measured in the steps of")];
    for (ranks, what) in told.into_iter().filter(|(ranks, _)| !ranks.is_empty()) {
        merged.notes.push(format!("{what} {}: left out", ranges(&ranks)));
    }
    Ok(merged)
}

/// Rules whose findings are of all lines of a function, or of the whole program, and stand at the line that takes most time. Which one
/// that is may differ from rank to rank.
const OF_MANY_LINES: [&Rule; 3] = [&busy_python::RULE, &dataloader_starved::RULE, &operators_in_loops::RULE];

/// What findings of those rules have in common that are merged once their lines agree; none of other rules.
fn merge_key(finding: &Finding) -> Option<(String, Place, String)> {
    let rule = OF_MANY_LINES.iter().find(|rule| rule.code == finding.rule.code)?;
    let is_of_program = rule.code == dataloader_starved::RULE.code;
    let (code, place, words) = on_ranks(finding);
    let place = if is_of_program { Place::default() } else { Place { line: None, ..place } };
    Some((code, place, words))
}

/// Puts findings that differ in their lines alone at the line of the rank that gains most, unless findings are ignored there.
fn unify_lines(found: &mut [(i64, Findings)], keep: &dyn Fn(&Finding) -> bool) {
    let mut places: BTreeMap<_, Vec<(i64, i64, Place)>> = BTreeMap::new();
    for (rank, findings) in &*found {
        for finding in findings.findings.iter().chain(&findings.small) {
            if let Some(key) = merge_key(finding) {
                places.entry(key).or_default().push((finding.gain_ns(), *rank, finding.place.clone()));
            }
        }
    }
    // Two loops of a function that is called from two places are told apart by their lines alone.
    places.retain(|_, of| of.windows(2).all(|pair| pair[0].1 != pair[1].1));
    for (_, findings) in found {
        for finding in findings.findings.iter_mut().chain(&mut findings.small) {
            let of = merge_key(finding).and_then(|key| places.get(&key));
            if let Some((.., place)) = of.and_then(|of| of.iter().max_by_key(|(ns, rank, _)| (*ns, Reverse(*rank)))) {
                let moved = Finding { place: place.clone(), ..finding.clone() };
                if keep(&moved) {
                    *finding = moved;
                }
            }
        }
    }
}
