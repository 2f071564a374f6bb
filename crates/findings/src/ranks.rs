//! Merge of the findings of several ranks of a job into one list.

use super::finding::{Finding, RankGain};
use super::identity::rank_identity;
use super::options::Options;
use super::rank::{Findings, ranking_key};
use super::rank_effects::remove_effects;
use super::rule::Requirement;
use super::rule_context::SharedContext;
use super::rules::{are_similar, find_straggler};
use super::skipped_rules::{Reason, SkippedRule};
use super::uncovered;
use stackline_critical_path::exact::what_if::Gain;
use stackline_model::{EventId, EventKind};
use stackline_timeline::host_collectives::host_collectives;
use stackline_timeline::inferred_steps::{RankSteps, no_shared_steps_note};
use stackline_timeline::intervals;
use stackline_timeline::kernel_type::{KernelType, NameTypes, RULES};
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::python::COLLECTIVE_REQUEST_PREFIX;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Step time of one of several ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankTimes {
    /// The rank.
    pub rank: i64,
    /// Length of a step in ns.
    pub step_ns: i64,
    /// Number of analyzed steps.
    pub steps: usize,
    /// Exposed collective time: GPU time with only collectives, per step, in ns; none without collectives.
    pub exposed_collectives_ns: Option<i64>,
    /// True if part of the trace is missing.
    pub is_incomplete: bool,
}

/// Comparison of the slowest rank with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slowness {
    /// All ranks are equally slow.
    Equal,
    /// The rank arrives last at collectives, and the slightly longer step of another rank counts as equal.
    LastAtCollectives,
    /// The rank has the longest step.
    Longest,
}

impl Slowness {
    /// Text that follows a rank's number in a sentence, such as `the slowest` in "rank 3, the slowest".
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Equal => "as slow as the other ranks",
            Self::LastAtCollectives => "the last to arrive at collectives",
            Self::Longest => "the slowest",
        }
    }
}

/// Step lengths within one part in this number of the longest step count as equal.
const TOLERANCE_DIVISOR: i64 = 100;

impl RankTimes {
    /// Rank with the longest step. Ranks that train together have equal step lengths: then the rank that the others
    /// wait for, with the least exposed collective time.
    #[must_use]
    pub fn slowest(ranks: &[Self]) -> Option<&Self> {
        let longest = ranks.iter().map(|rank| rank.step_ns).max()?;
        let is_as_long = |rank: &&Self| longest - rank.step_ns <= longest / TOLERANCE_DIVISOR;
        let key = |rank: &&Self| (rank.exposed_collectives_ns.unwrap_or(i64::MAX), Reverse(rank.step_ns), rank.rank);
        ranks.iter().filter(is_as_long).min_by_key(key)
    }

    /// Comparison of this rank, the slowest one, with the other ranks.
    #[must_use]
    pub fn slowness(&self, ranks: &[Self]) -> Slowness {
        match () {
            () if Self::are_equal(ranks) => Slowness::Equal,
            () if ranks.iter().any(|other| other.step_ns > self.step_ns) => Slowness::LastAtCollectives,
            () => Slowness::Longest,
        }
    }

    /// Check if all ranks are equally slow: steps and exposed collective times differ by no more than the tolerance of
    /// steps.
    fn are_equal(ranks: &[Self]) -> bool {
        let range = |of: &dyn Fn(&Self) -> i64| {
            let (least, most) = (ranks.iter().map(of).min(), ranks.iter().map(of).max());
            most.unwrap_or(0) - least.unwrap_or(0)
        };
        let longest = ranks.iter().map(|rank| rank.step_ns).max().unwrap_or(0);
        ranks.len() > 1
            && range(&|rank| rank.step_ns) <= longest / TOLERANCE_DIVISOR
            && range(&|rank| rank.exposed_collectives_ns.unwrap_or(0)) <= longest / TOLERANCE_DIVISOR
    }

    /// Check that the trace shows how long this rank waits for the others: collectives recorded, no records missing.
    fn is_comparable(&self) -> bool {
        self.exposed_collectives_ns.is_some() && !self.is_incomplete
    }
}

/// Exposed collective time per step of the window, in ns; none without collectives. In this time only collectives run
/// on the GPU, or on the host in a program without a GPU.
pub(super) fn exposed_collectives_ns(shared: &SharedContext<'_>) -> Option<i64> {
    let trace = shared.exact.trace();
    if !Requirement::Collectives.is_met(trace) {
        return None;
    }
    let (from, to) = (shared.window.start, shared.window.end);
    if trace.gpu.is_empty() {
        return Some(exposed_host_collectives_ns(shared));
    }
    let mut types = NameTypes::new(trace, RULES);
    let (mut talk, mut work) = (Vec::new(), Vec::new());
    for &event in trace.gpu.event.iter().filter(|&&event| trace.events.is_timed(event)) {
        let span = (trace.events.start[event.index()].max(from), trace.events.end(event).min(to));
        if span.0 < span.1 {
            let is_communication = types.of_event(event) == KernelType::Communication;
            if is_communication { talk.push(span) } else { work.push(span) }
        }
    }
    let alone = intervals::subtract(&intervals::union(talk), &intervals::union(work));
    Some(intervals::total(&alone) / shared.steps.max(1) as i64)
}

/// Exposed time of collectives on CPUs: no thread runs another operator, per step, in ns.
fn exposed_host_collectives_ns(shared: &SharedContext<'_>) -> i64 {
    let trace = shared.exact.trace();
    let (from, to) = (shared.window.start, shared.window.end);
    let span = |e: EventId| (trace.events.start[e.index()].max(from), trace.events.end(e).min(to));
    let is_in_window = |&(from, to): &(i64, i64)| from < to;
    let collectives: Vec<EventId> = host_collectives(trace).into_iter().map(|(event, _)| event).collect();
    // Operators that start collectives may wait for them.
    let works = |&e: &EventId| {
        trace.kind(e) == EventKind::Operator
            && trace.events.is_timed(e)
            && !trace.name(e).starts_with(COLLECTIVE_REQUEST_PREFIX)
    };
    let work = trace.events.ids().filter(works).map(span).filter(is_in_window);
    let talk = collectives.into_iter().map(span).filter(is_in_window);
    let alone = intervals::subtract(&intervals::union(talk), &intervals::union(work));
    intervals::total(&alone) / shared.steps.max(1) as i64
}

/// Identity of a finding across ranks.
type FindingIdentity = (String, SourceLocation, String);
/// Identity of a finding across ranks, with its position among equal findings of a rank.
type Identity = (FindingIdentity, usize);

/// Merge findings of ranks into one list; `None` without ranks.
///
/// Findings of one rule at one source location become one, which describes the rank with the largest gain and names all
/// ranks. Adds findings across ranks; those that fail the test are ignored. The findings of a single rank stay
/// unchanged.
pub fn merge(mut all: Vec<(i64, Findings)>, options: &Options, keep: &dyn Fn(&Finding) -> bool) -> Option<Findings> {
    all.sort_by_key(|(rank, _)| *rank);
    if all.len() < 2 {
        return all.pop().map(|(_, found)| found);
    }
    let unit = unify_steps(&mut all);
    let ranks: Vec<RankTimes> = all.iter().map(times).collect();
    let slowest = RankTimes::slowest(&ranks).map(|slowest| slowest.rank);
    let slowest = all.iter().find(|(rank, _)| Some(*rank) == slowest)?;
    let window = match all.iter().all(|(_, found)| found.window == slowest.1.window) {
        true => slowest.1.window.clone(),
        false => Some("the steps of each rank".to_owned()),
    };
    let base = Findings {
        window,
        findings: Vec::new(),
        ignored: Vec::new(),
        notes: Vec::new(),
        whole: None,
        ..slowest.1.clone()
    };
    let mut findings = merged(all.iter().map(|(rank, found)| (*rank, &found.findings)));
    let mut ignored = merged(all.iter().map(|(rank, found)| (*rank, &found.ignored)));
    let mut small = merged(all.iter().map(|(rank, found)| (*rank, &found.small)));
    let least_ns = (base.step_ns as f64 * options.least_percent / 100.0) as i64;
    let mut straggler = straggler(&ranks, options);
    let last = straggler.as_ref().filter(|finding| finding.gain_ns() >= least_ns).and_then(Finding::detail_rank);
    let uncovered = uncovered::merge(&all, (slowest.0, base.uncovered.clone()), last);
    let is_listed = |finding: &&mut Finding| finding.gain_ns() >= least_ns && keep(finding);
    let (mut combined, mut effects) = (base.combined, Vec::new());
    if let Some(last) = straggler.as_mut().filter(is_listed) {
        (combined, effects) = remove_waits_for_straggler(last, &mut findings, &all, least_ns);
    }
    match straggler {
        Some(finding) if finding.gain.is_some_and(|gain| gain.ns < least_ns.max(1)) => small.push(finding),
        Some(finding) if keep(&finding) => findings.push(finding),
        finding => ignored.extend(finding),
    }
    // Each rank excluded findings that are small relative to its own step.
    let is_enough = |finding: &Finding| finding.gain.is_none_or(|gain| gain.ns >= least_ns);
    small.extend(findings.extract_if(.., |finding| !is_enough(finding)));
    // A finding that is small on one rank may be listed for another.
    let listed: BTreeSet<FindingIdentity> = findings.iter().chain(&ignored).map(rank_identity).collect();
    small.retain(|finding| !listed.contains(&rank_identity(finding)));
    small.sort_by(|a, b| ranking_key(a).cmp(&ranking_key(b)));
    findings.sort_by(|a, b| ranking_key(a).cmp(&ranking_key(b)));
    ignored.sort_by(|a, b| ranking_key(a).cmp(&ranking_key(b)));
    let mut notes = notes(&all);
    notes.extend(unit);
    notes.extend(effects);
    notes.extend(not_compared(&ranks));
    Some(Findings { findings, ignored, small, combined, unchecked: unchecked(&all), notes, ranks, uncovered, ..base })
}

/// Remove findings of ranks that only wait for a listed straggler. Returns notes, and the combined gain of the
/// straggler's rank, because that of a waiting rank includes its waits.
fn remove_waits_for_straggler(
    straggler: &mut Finding,
    findings: &mut Vec<Finding>,
    all: &[(i64, Findings)],
    least_ns: i64,
) -> (Option<Gain>, Vec<String>) {
    let rank = straggler.detail_rank();
    let there = all.iter().find(|(of, _)| Some(*of) == rank).map(|(_, found)| found);
    let notes = remove_effects(straggler, findings, least_ns, |finding| same_on_ranks(all, finding));
    (there.and_then(|found| found.combined), notes)
}

/// Findings of the ranks that are the same as a merged one, also small ones, with the rank of each.
fn same_on_ranks<'f>(all: &'f [(i64, Findings)], merged: &Finding) -> Vec<(i64, &'f Finding)> {
    let identity = rank_identity(merged);
    let is_same = |other: &&Finding| rank_identity(other) == identity;
    let on_rank = |found: &'f Findings| found.findings.iter().chain(&found.small).find(is_same);
    all.iter().filter_map(|(rank, found)| on_rank(found).map(|same| (*rank, same))).collect()
}

/// Replace findings of inferred steps by those of whole traces, unless all ranks share the steps. Returns a note,
/// `None` without a change.
fn unify_steps(all: &mut [(i64, Findings)]) -> Option<String> {
    let steps = |(rank, found): &(i64, Findings)| RankSteps {
        rank: *rank,
        steps: found.steps,
        are_inferred: found.are_inferred,
    };
    let note = no_shared_steps_note(&all.iter().map(steps).collect::<Vec<_>>())?;
    let mut are_whole = false;
    for (_, found) in all {
        if let Some(whole) = found.whole.take() {
            *found = *whole;
            are_whole = true;
        }
    }
    are_whole.then_some(note)
}

/// Step length and exposed collective time of a rank, from its findings.
fn times((rank, found): &(i64, Findings)) -> RankTimes {
    let Findings { step_ns, steps, exposed_collectives_ns, is_incomplete, .. } = *found;
    RankTimes { rank: *rank, step_ns, steps, exposed_collectives_ns, is_incomplete }
}

/// Finding on the straggler (rank that others wait for) among the comparable ranks; `None` without one. Lower
/// confidence if some ranks are not comparable.
fn straggler(ranks: &[RankTimes], options: &Options) -> Option<Finding> {
    let compared: Vec<RankTimes> = ranks.iter().copied().filter(RankTimes::is_comparable).collect();
    let mut found = find_straggler(&compared, &options.settings)?;
    if compared.len() < ranks.len() {
        found.confidence = found.confidence.lower();
    }
    Some(found)
}

/// Notes on ranks that SL040 excluded, with the reason; none without any collectives, which the rule reports as a
/// missing requirement.
fn not_compared(ranks: &[RankTimes]) -> Vec<String> {
    if ranks.iter().all(|rank| rank.exposed_collectives_ns.is_none()) {
        return Vec::new();
    }
    let which = |test: fn(&RankTimes) -> bool| ranks.iter().filter(move |&rank| test(rank));
    let names = |test: fn(&RankTimes) -> bool| {
        let of: Vec<i64> = which(test).map(|rank| rank.rank).collect();
        (!of.is_empty()).then(|| ranks_text(&of))
    };
    let silent = names(|rank| rank.exposed_collectives_ns.is_none())
        .map(|ranks| format!("SL040 (slowest rank) excludes {ranks}, because no collectives were recorded"));
    let lost = names(|rank| rank.exposed_collectives_ns.is_some() && rank.is_incomplete)
        .map(|ranks| format!("SL040 (slowest rank) excludes {ranks}, because some records are missing"));
    let compared: Vec<RankTimes> = which(RankTimes::is_comparable).copied().collect();
    let apart = (!are_similar(&compared)).then(|| {
        "SL040 (slowest rank) was not checked: step lengths differ by more than a quarter between ranks".to_owned()
    });
    [silent, lost, apart].into_iter().flatten().collect()
}

/// Merge equal findings of all ranks to one, as on the rank with the largest gain, with the gain on each rank; sorted.
fn merged<'f>(all: impl Iterator<Item = (i64, &'f Vec<Finding>)>) -> Vec<Finding> {
    let mut by_identity: BTreeMap<Identity, Vec<(i64, &Finding)>> = BTreeMap::new();
    for (rank, findings) in all {
        let mut seen: BTreeMap<FindingIdentity, usize> = BTreeMap::new();
        for finding in findings {
            let common = rank_identity(finding);
            let nth = seen.entry(common.clone()).or_default();
            by_identity.entry((common, *nth)).or_default().push((rank, finding));
            *nth += 1;
        }
    }
    let one = |of: Vec<(i64, &Finding)>| {
        let ranks = of.iter().map(|(rank, f)| RankGain { rank: *rank, gain_ns: f.gain.map(|gain| gain.ns) }).collect();
        let (_, worst) = of.iter().max_by_key(|(rank, f)| (f.gain.map(|gain| gain.ns), Reverse(*rank)))?;
        Some(Finding { ranks, ..(*worst).clone() })
    };
    let mut merged: Vec<Finding> = by_identity.into_values().filter_map(one).collect();
    merged.sort_by(|a, b| ranking_key(a).cmp(&ranking_key(b)));
    merged
}

/// Rules that no rank could check. For SL040, which has several ranks now, the missing requirement becomes collectives.
fn unchecked(all: &[(i64, Findings)]) -> Vec<SkippedRule> {
    let all_lack = |code: &str| all.iter().all(|(_, found)| found.unchecked.iter().any(|u| u.rule.code == code));
    let no_collectives = all.iter().all(|(_, found)| found.exposed_collectives_ns.is_none());
    let mut kept = Vec::new();
    for unchecked in all.iter().take(1).flat_map(|(_, found)| &found.unchecked) {
        if unchecked.reason != Reason::Missing(Requirement::Ranks) {
            kept.extend(all_lack(&unchecked.rule.code).then(|| unchecked.clone()));
        } else if no_collectives {
            kept.push(SkippedRule {
                rule: Arc::clone(&unchecked.rule),
                reason: Reason::Missing(Requirement::Collectives),
            });
        }
    }
    kept
}

/// Merge the notes of all ranks without duplicates; notes of only some ranks name these.
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
        if of.len() == all.len() { note.clone() } else { format!("{}: {note}", ranks_text(&of)) }
    };
    by_note.into_iter().map(one).collect()
}

/// Format ascending rank numbers as text, with ranges: `rank 3`, `ranks 0-2, 5`.
pub fn ranks_text(ranks: &[i64]) -> String {
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
    use super::Slowness::{Equal, LastAtCollectives, Longest};
    use super::{RankTimes, ranks_text};

    #[test]
    fn slowest_rank_is_compared_with_the_others() {
        let rank = |rank: i64, step_ns: i64, exposed: i64| RankTimes {
            rank,
            step_ns,
            steps: 8,
            exposed_collectives_ns: Some(exposed),
            is_incomplete: false,
        };
        let compared =
            |ranks: &[RankTimes]| RankTimes::slowest(ranks).map(|slowest| (slowest.rank, slowest.slowness(ranks)));
        assert_eq!(compared(&[rank(0, 2980, 2354), rank(1, 2963, 517)]), Some((1, LastAtCollectives)));
        assert_eq!(compared(&[rank(0, 2980, 517), rank(1, 2963, 2354)]), Some((0, Longest)));
        assert_eq!(compared(&[rank(0, 2980, 2354), rank(1, 2000, 517)]), Some((0, Longest)));
        assert_eq!(compared(&[rank(0, 2980, 530), rank(1, 2963, 517)]), Some((1, Equal)));
        let silent = |steps: [i64; 2]| steps.map(|ns| RankTimes { exposed_collectives_ns: None, ..rank(ns, ns, 0) });
        assert_eq!(compared(&silent([2963, 2980])), Some((2980, Equal)));
        assert_eq!(compared(&silent([2000, 2980])), Some((2980, Longest)), "without collectives the longest step");
    }

    #[test]
    fn ranks_as_text() {
        assert_eq!(ranks_text(&[3]), "rank 3");
        assert_eq!(ranks_text(&[0, 1, 2, 5]), "ranks 0-2, 5");
    }
}
