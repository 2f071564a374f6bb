//! Merge of the findings of several ranks of a job into one list.

use super::finding::{Fact, Finding, RankGain};
use super::findings::{Findings, ranking_key};
use super::identity::rank_identity;
use super::options::Options;
use super::rank_effects::remove_effects;
use super::rank_times::RankTimes;
use super::requirement::Requirement;
use super::rules::{are_similar, find_straggler};
use super::skipped_rules::{Reason, SkippedRule};
use super::uncovered;
use stackline_critical_path::exact::what_if::Gain;
use stackline_model::Unit;
use stackline_timeline::inferred_steps::{RankSteps, no_shared_steps_note};
use stackline_timeline::source_location::SourceLocation;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
        false => Some("the selected steps of each rank, which differ between ranks".to_owned()),
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
    let job_size = larger_job_size(&all);
    let mut straggler = straggler(&ranks, job_size, options);
    let last = straggler.as_ref().filter(|finding| finding.gain_ns() >= least_ns).and_then(Finding::detail_rank);
    let uncovered = uncovered::merge(&all, (slowest.0, base.uncovered.clone()), last);
    let is_listed = |finding: &&mut Finding| finding.gain_ns() >= least_ns && keep(finding);
    let (mut combined, mut effects) = (base.combined, Vec::new());
    if let Some(last) = straggler.as_mut().filter(is_listed) {
        (combined, effects) = remove_waits_for_straggler(last, &mut findings, &all, least_ns);
    }
    match straggler {
        Some(finding) if finding.gain.is_some_and(|gain| gain.likely_ns < least_ns.max(1)) => small.push(finding),
        Some(finding) if keep(&finding) => findings.push(finding),
        finding => ignored.extend(finding),
    }
    // Each rank excluded findings that are small relative to its own step.
    let is_enough = |finding: &Finding| finding.gain.is_none_or(|gain| gain.likely_ns >= least_ns);
    let too_small: Vec<Finding> = findings.extract_if(.., |finding| !is_enough(finding)).collect();
    let moved: BTreeSet<FindingIdentity> = too_small.iter().map(rank_identity).collect();
    small.retain(|finding| !moved.contains(&rank_identity(finding)));
    small.extend(too_small);
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
    notes.extend(job_size.map(|size| missing_ranks_note(&all, size)));
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

/// Number of ranks of the job, if it has more ranks than the input.
fn larger_job_size(all: &[(i64, Findings)]) -> Option<i64> {
    let size = all.iter().filter_map(|(_, found)| found.world_size).max()?;
    (size > all.len() as i64).then_some(size)
}

/// Largest job whose missing ranks are named.
const MAX_NAMED_JOB: i64 = 1024;

/// Note on the ranks of a job of `size` ranks that the input lacks.
fn missing_ranks_note(all: &[(i64, Findings)], size: i64) -> String {
    let is_missing = |rank: &i64| all.iter().all(|(known, _)| known != rank);
    let names: Vec<i64> = (0..size.min(MAX_NAMED_JOB)).filter(is_missing).collect();
    let which = if size <= MAX_NAMED_JOB { format!(" ({})", ranks_text(&names)) } else { String::new() };
    format!(
        "the input lacks {} of the {size} ranks of the job{which}, so another rank may be slower, or arrive last at \
         collectives",
        size - all.len() as i64
    )
}

/// Finding on the straggler (rank that others wait for) among the comparable ranks; `None` without one. Lower
/// confidence if some ranks are not comparable or, of a job of `job_size` ranks, not in the input.
fn straggler(ranks: &[RankTimes], job_size: Option<i64>, options: &Options) -> Option<Finding> {
    let compared: Vec<RankTimes> = ranks.iter().copied().filter(RankTimes::is_comparable).collect();
    let mut found = find_straggler(&compared, &options.settings)?;
    if compared.len() < ranks.len() || job_size.is_some() {
        found.confidence = found.confidence.lower();
    }
    if let Some(size) = job_size {
        found.title = found.title.replacen("Straggler:", "Straggler among the ranks with a trace:", 1);
        found.facts.push(Fact { name: "ranks of the job".to_owned(), value: size as f64, unit: Unit::None });
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
        let ranks =
            of.iter().map(|(rank, f)| RankGain { rank: *rank, gain_ns: f.gain.map(|gain| gain.likely_ns) }).collect();
        let (_, worst) = of.iter().max_by_key(|(rank, f)| (f.gain.map(|gain| gain.likely_ns), Reverse(*rank)))?;
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
    use super::ranks_text;

    #[test]
    fn ranks_as_text() {
        assert_eq!(ranks_text(&[3]), "rank 3");
        assert_eq!(ranks_text(&[0, 1, 2, 5]), "ranks 0-2, 5");
    }
}
