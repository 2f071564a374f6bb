//! What was found on several ranks of one job, as one list.

use super::finding::{Finding, OfRank};
use super::place::Place;
use super::rank::{Findings, Reason, Unchecked, order};
use super::rule::Need;
use super::rules::{are_alike, find, find_straggler};
use super::settings::Settings;
use super::subject::{Ground, Subject};
use crate::intervals;
use crate::kernel_type::KernelType;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long one of several ranks takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankTimes {
    /// The rank.
    pub rank: i64,
    /// Length of a step in ns.
    pub step_ns: i64,
    /// Steps that were looked at.
    pub steps: usize,
    /// Time of the GPU's collectives beside which nothing else runs, per step, in ns.
    pub alone_ns: i64,
}

/// Time in the window in which the GPU does nothing but communicate, per step, in ns.
pub(super) fn collectives_alone<'a>(ground: &'a Ground<'a>) -> i64 {
    let Some(rule) = find("SL040") else { return 0 };
    let subject = Subject::new(ground, rule);
    let (trace, (from, to)) = (subject.trace(), subject.window());
    let mut types = subject.kernel_types();
    let (mut talk, mut work) = (Vec::new(), Vec::new());
    for &event in trace.gpu.event.iter().filter(|&&event| trace.events.is_timed(event)) {
        let span = (trace.events.start[event.index()].max(from), trace.events.end(event).min(to));
        if span.0 < span.1 {
            let is_talk = types.of_event(event) == KernelType::Communication;
            if is_talk { talk.push(span) } else { work.push(span) }
        }
    }
    let alone = intervals::subtract(&intervals::union(talk), &intervals::union(work));
    subject.per_step(intervals::total(&alone))
}

/// What makes findings of two ranks the same: the rule, the place, the title but for its numbers, and which of those that have
/// all of this in common.
type Identity = (String, Place, String, usize);

/// Findings of ranks as one list: those of one rule at one place become one, which tells of the rank that gains most by it and
/// names all that have it; and what only several ranks show. A single rank's come back as they are.
pub fn merge(mut all: Vec<(i64, Findings)>, settings: &Settings) -> Option<Findings> {
    all.sort_by_key(|(rank, _)| *rank);
    if all.len() < 2 {
        return all.pop().map(|(_, found)| found);
    }
    let ranks: Vec<RankTimes> = all.iter().map(times).collect();
    let slowest = all.iter().max_by_key(|(rank, found)| (found.step_ns, Reverse(*rank)))?;
    let base = Findings { findings: Vec::new(), ignored: Vec::new(), notes: Vec::new(), ..slowest.1.clone() };
    let unchecked = unchecked(&all);
    let is_comparable = unchecked.iter().all(|unchecked| unchecked.rule.code != "SL040");
    let straggler = if is_comparable { find_straggler(&ranks, settings) } else { None };
    let mut findings = merged(all.iter().map(|(rank, found)| (*rank, &found.findings)));
    findings.extend(straggler);
    findings.sort_by(|a, b| order(a).cmp(&order(b)));
    let ignored = merged(all.iter().map(|(rank, found)| (*rank, &found.ignored)));
    let small = all.iter().map(|(_, found)| found.small).max().unwrap_or(0);
    let mut notes = notes(&all);
    if is_comparable && !are_alike(&ranks) {
        notes.push("steps of the ranks differ in length by more than a quarter: SL040 did not compare them".to_owned());
    }
    Some(Findings { findings, ignored, small, unchecked, notes, ranks, ..base })
}

fn times((rank, found): &(i64, Findings)) -> RankTimes {
    RankTimes { rank: *rank, step_ns: found.step_ns, steps: found.steps, alone_ns: found.alone_ns }
}

fn merged<'f>(all: impl Iterator<Item = (i64, &'f Vec<Finding>)>) -> Vec<Finding> {
    let mut by_identity: BTreeMap<Identity, Vec<(i64, &Finding)>> = BTreeMap::new();
    for (rank, findings) in all {
        let mut seen: BTreeMap<(&str, &Place, String), usize> = BTreeMap::new();
        for finding in findings {
            let title: String = finding.title.chars().filter(|c| !c.is_ascii_digit()).collect();
            let nth = seen.entry((&finding.rule.code, &finding.place, title.clone())).or_default();
            let identity = (finding.rule.code.clone(), finding.place.clone(), title, *nth);
            *nth += 1;
            by_identity.entry(identity).or_default().push((rank, finding));
        }
    }
    let one = |of: Vec<(i64, &Finding)>| {
        let ranks = of.iter().map(|(rank, f)| OfRank { rank: *rank, gain_ns: f.gain.map(|gain| gain.ns) }).collect();
        let (_, worst) = of.iter().max_by_key(|(rank, f)| (f.gain.map(|gain| gain.ns), Reverse(*rank)))?;
        Some(Finding { ranks, ..(*worst).clone() })
    };
    let mut merged: Vec<Finding> = by_identity.into_values().filter_map(one).collect();
    merged.sort_by(|a, b| order(a).cmp(&order(b)));
    merged
}

/// Rules that could look on no rank; the one that needs several has them now, and asks for collectives.
fn unchecked(all: &[(i64, Findings)]) -> Vec<Unchecked> {
    let all_lack = |code: &str| all.iter().all(|(_, found)| found.unchecked.iter().any(|u| u.rule.code == code));
    // It asks for nothing but collectives on the GPU.
    let no_collectives = all_lack("SL019");
    let mut kept = Vec::new();
    for unchecked in all.iter().take(1).flat_map(|(_, found)| &found.unchecked) {
        if unchecked.reason != Reason::Missing(Need::Ranks) {
            kept.extend(all_lack(&unchecked.rule.code).then(|| unchecked.clone()));
        } else if no_collectives {
            kept.push(Unchecked { rule: Arc::clone(&unchecked.rule), reason: Reason::Missing(Need::Collectives) });
        }
    }
    kept
}

/// What is noted of all ranks once; of some with their numbers.
fn notes(all: &[(i64, Findings)]) -> Vec<String> {
    let mut by_note: Vec<(&String, Vec<i64>)> = Vec::new();
    for (rank, found) in all {
        for note in &found.notes {
            match by_note.iter_mut().find(|(known, _)| *known == note) {
                Some((_, of)) => of.push(*rank),
                None => by_note.push((note, vec![*rank])),
            }
        }
    }
    let one = |(note, of): (&String, Vec<i64>)| {
        if of.len() == all.len() { note.clone() } else { format!("{}: {note}", ranges(&of)) }
    };
    by_note.into_iter().map(one).collect()
}

/// Ranks for people: `rank 3`, `ranks 0-2, 5`. Ascending.
pub fn ranges(ranks: &[i64]) -> String {
    let parts: Vec<String> = ranks
        .chunk_by(|a, b| a + 1 == *b)
        .map(|run| match run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        })
        .collect();
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn ranks_for_people() {
        assert_eq!(ranges(&[3]), "rank 3");
        assert_eq!(ranges(&[0, 1, 2, 5]), "ranks 0-2, 5");
    }
}
