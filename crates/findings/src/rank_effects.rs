//! Removal of findings on ranks that only wait for another rank; the cause is on the rank that arrives last.

use super::finding::{Fact, Finding, RankGain};
use super::gain_estimate::GainBasis;
use super::rule::RuleProperty;
use super::rules::{is_wait_for_ranks, properties_of};
use stackline_critical_path::exact::what_if::Gain;
use stackline_model::Unit;
use std::cmp::Reverse;

/// Factor by which the waits of a rank must gain less than those of others, to be the rank that the others wait for.
const MIN_GAIN_RATIO: i64 = 4;

/// Fact of the cause: the time that other ranks wait for its rank, which limits the gain of the job.
const WAIT_OF_OTHERS: &str = "minimum wait of the other ranks for this rank per step";

/// End of the names of facts that state a time per step.
const PER_STEP: &str = "per step";

/// Remove findings that the last rank explains, and return notes about them.
///
/// `same_on_ranks` returns the findings of all ranks that are the same as a merged one, with the rank of each. Findings
/// of collectives are replaced by those of the last rank. A finding by which the last rank differs from the others is
/// the cause of the delay. The straggler's finding keeps only the gain that this cause does not explain.
pub(super) fn remove_effects<'f>(
    straggler: &mut Finding,
    findings: &mut Vec<Finding>,
    least_ns: i64,
    same_on_ranks: impl Fn(&Finding) -> Vec<(i64, &'f Finding)>,
) -> Vec<String> {
    let Some(last) = straggler.detail_rank() else { return Vec::new() };
    let mut notes = Vec::new();
    let mut reason = straggler.rule.code.clone();
    if let Some(waits) = straggler.gain
        && let Some((at, cause)) = find_cause(last, waits, least_ns, findings, &same_on_ranks)
    {
        let (delay, finding) = (straggler.title.clone(), &mut findings[at]);
        subtract_cause(straggler, waits, &cause, finding);
        if straggler.gain.is_some_and(|rest| rest.likely_ns < least_ns.max(1)) {
            notes.push(format!(
                "finding {reason} ({delay}) is not listed, because its cause on the same rank, finding {}, is listed",
                finding.rule.code
            ));
        }
        if straggler.gain_ns() < least_ns.max(1) {
            reason.clone_from(&finding.rule.code);
        }
    }
    // The last rank may wait as well, for the response to its own message, but much less.
    let is_effect = |finding: &Finding| {
        let there = finding.ranks.iter().filter(|of| of.rank == last).filter_map(|of| of.gain_ns).max();
        is_wait_for_ranks(finding) && there.is_none_or(|ns| MIN_GAIN_RATIO * ns <= finding.gain_ns())
    };
    let mut effects: Vec<Finding> = findings.extract_if(.., |finding| is_effect(finding)).collect();
    // Collectives, and waits for them, last until the last rank arrives. The remaining time is that of the last
    // rank, and none if the finding is small there.
    let is_longer = |finding: &Finding| {
        let is_collective = properties_of(&finding.rule.code).contains(&RuleProperty::Collectives);
        (is_collective || is_wait_for_ranks(finding)) && finding.detail_rank() != Some(last)
    };
    for finding in findings.iter_mut().filter(|finding| is_longer(finding)) {
        let is_listed_there = finding.ranks.iter().any(|of| of.rank == last);
        if let Some(there) = on_rank(last, finding, &same_on_ranks).filter(|_| is_listed_there) {
            use_numbers_of(last, finding, there);
        }
    }
    effects.extend(findings.extract_if(.., |finding| is_longer(finding)));
    let mut codes: Vec<&str> = effects.iter().map(|finding| finding.rule.code.as_str()).collect();
    codes.sort_unstable();
    codes.dedup();
    if !codes.is_empty() {
        notes.push(format!(
            "findings of {} on other ranks are not listed, because these ranks only wait for rank {last} (see \
             {reason})",
            codes.join(", ")
        ));
    }
    notes.extend(limit_gains(last, findings, &same_on_ranks));
    notes
}

/// Limit replayed gains of other ranks to those of the last rank, which determines the step. Returns a note on findings
/// that the last rank lacks: their lower bound becomes 0.
///
/// A replay of one rank moves the ends of collectives, and of waits for them, although these end when the last rank
/// arrives. So a change saves no more on a rank that waits than on the last one.
fn limit_gains<'f>(
    last: i64,
    findings: &mut [Finding],
    same_on_ranks: &impl Fn(&Finding) -> Vec<(i64, &'f Finding)>,
) -> Option<String> {
    let is_of_others = |finding: &Finding| {
        finding.basis == GainBasis::Replay && finding.gain.is_some() && finding.detail_rank() != Some(last)
    };
    let mut codes: Vec<String> = Vec::new();
    for finding in findings.iter_mut().filter(|finding| is_of_others(finding)) {
        match on_rank(last, finding, same_on_ranks) {
            Some(there) if there.gain == finding.gain => {}
            Some(there) => use_numbers_of(last, finding, there),
            None => {
                if let Some(gain) = finding.gain.as_mut().filter(|gain| gain.low_ns > 0) {
                    gain.low_ns = 0;
                    codes.push(finding.rule.code.clone());
                }
            }
        }
    }
    codes.sort_unstable();
    codes.dedup();
    (!codes.is_empty()).then(|| {
        format!(
            "rank {last} determines the step, and lacks findings of {} on other ranks: their gains may be 0 until it is \
             no longer last",
            codes.join(", ")
        )
    })
}

/// The finding of a rank that is the same as a merged one; `None` if the rank lacks it.
fn on_rank<'f>(
    rank: i64,
    merged: &Finding,
    same_on_ranks: &impl Fn(&Finding) -> Vec<(i64, &'f Finding)>,
) -> Option<&'f Finding> {
    same_on_ranks(merged).into_iter().find(|(of, _)| *of == rank).map(|(_, there)| there)
}

/// Replace a merged finding by that of a rank, without the gains on the other ranks.
fn use_numbers_of(rank: i64, finding: &mut Finding, there: &Finding) {
    let gain_ns = there.gain.map(|gain| gain.likely_ns);
    let on = |of: &RankGain| RankGain { rank: of.rank, gain_ns: gain_ns.filter(|_| of.rank == rank) };
    let mut ranks: Vec<RankGain> = finding.ranks.iter().map(on).collect();
    // The finding is small on the rank, so the merged one does not list it.
    if !ranks.iter().any(|of| of.rank == rank) {
        ranks.push(RankGain { rank, gain_ns });
        ranks.sort_unstable_by_key(|of| of.rank);
    }
    *finding = Finding { ranks, ..there.clone() };
}

/// Find the finding that explains best why the last rank is late; returns its position in the list and the cause.
/// `None` without a large cause.
fn find_cause<'f>(
    last: i64,
    waits: Gain,
    least_ns: i64,
    findings: &[Finding],
    same_on_ranks: &impl Fn(&Finding) -> Vec<(i64, &'f Finding)>,
) -> Option<(usize, Cause)> {
    let cause = |finding: &Finding| Cause::new(finding, last, waits, &same_on_ranks(finding));
    let causes = findings.iter().enumerate().filter_map(|(at, finding)| Some((at, cause(finding)?)));
    let large = causes.filter(|(_, cause)| cause.gain.likely_ns >= least_ns.max(1));
    large.max_by_key(|(_, cause)| cause.strength(waits))
}

/// Reduce the straggler's gain by that of the cause on the last rank, which has its own finding with replayed edits.
/// The cause's finding receives the waits of the other ranks as a fact.
fn subtract_cause(straggler: &mut Finding, waits: Gain, cause: &Cause, finding: &mut Finding) {
    let rest = unexplained_gain(waits, cause.gain, cause.excess_ns);
    // Without a rest, the finding only names the late rank: its gain is that of the cause.
    straggler.gain = Some(rest).filter(|rest| rest.likely_ns > 0);
    straggler.ranks.iter_mut().for_each(|of| of.gain_ns = straggler.gain.map(|rest| rest.likely_ns));
    let code = &finding.rule.code;
    straggler.title = match rest.likely_ns {
        0 => format!(
            "{}; finding {code} on the same rank is the cause of this wait and states the gain",
            straggler.title
        ),
        _ => format!(
            "{}; finding {code} on the same rank causes a part of this wait, which this gain excludes",
            straggler.title
        ),
    };
    finding.facts.push(Fact { name: WAIT_OF_OTHERS.to_owned(), value: waits.likely_ns as f64 / 1e3, unit: Unit::Us });
}

/// Part of the waits of the other ranks that a cause on the last rank does not explain.
///
/// At each collective, a change on that rank saves time until the next rank is the last one. So the change's gain is
/// part of the waits. Both are estimates, and many gains assume that half of the time is saved. So a cause of nine
/// tenths of the waits explains all of them. A cause of about half of them does, too, if its upper bound or excess time
/// is about as long as the waits. The lower bound is 0, as that of the waits.
fn unexplained_gain(waits: Gain, cause: Gain, excess_ns: i64) -> Gain {
    let is_most = |ns: i64| 10 * ns >= 9 * waits.likely_ns;
    let is_explained =
        is_most(cause.likely_ns) || is_most(2 * cause.likely_ns) && is_most(cause.high_ns.max(excess_ns));
    let ns = if is_explained { 0 } else { (waits.likely_ns - cause.likely_ns).max(0) };
    Gain::new(ns, 0, (waits.high_ns - cause.low_ns).max(ns))
}

/// Difference of the last rank from the others in one finding.
struct Cause {
    /// Gain on the last rank, minus the largest one on the other ranks.
    gain: Gain,
    /// Time per step on the last rank, minus the largest one on the other ranks, in ns; 0 if unknown.
    excess_ns: i64,
    /// True unless the gain is speculative.
    is_repair: bool,
}

impl Cause {
    /// Compare a finding of the last rank with the same finding on the other ranks; `None` if the finding is no cause
    /// of the delay.
    ///
    /// `None` for a wait for other ranks, and for a finding that the other ranks have as well and that takes about as
    /// long there. Its gain alone does not show a cause: a rank that waits in a collective gains little from any change
    /// before it.
    fn new(finding: &Finding, last: i64, waits: Gain, same: &[(i64, &Finding)]) -> Option<Self> {
        let own = finding.gain.filter(|_| finding.detail_rank() == Some(last) && !is_wait_for_ranks(finding))?;
        let others: Vec<&Finding> = same.iter().filter(|(rank, _)| *rank != last).map(|(_, of)| *of).collect();
        let other_ns = others.iter().map(|of| of.gain_ns()).max().unwrap_or(0);
        let excess_ns = excess_ns(finding, &others);
        let differs = match excess_ns {
            _ if others.is_empty() => true,
            Some(excess_ns) => 2 * excess_ns >= waits.likely_ns,
            None => finding.is_repair() && own.likely_ns >= 2 * other_ns,
        };
        let less = |ns: i64| (ns - other_ns).max(0);
        differs.then(|| Self { gain: own.map(less), excess_ns: excess_ns.unwrap_or(0), is_repair: finding.is_repair() })
    }

    /// Sort key of causes: those that explain at least half of the waits, then repairs, then those that explain most.
    fn strength(&self, waits: Gain) -> (bool, bool, Reverse<i64>, i64) {
        let rest = unexplained_gain(waits, self.gain, self.excess_ns).likely_ns;
        (2 * rest <= waits.likely_ns, self.is_repair, Reverse(rest), self.gain.likely_ns)
    }
}

/// Largest excess of a finding's facts on time per step over the same facts of other findings, in ns. `None` if the
/// finding states no time per step.
fn excess_ns(finding: &Finding, others: &[&Finding]) -> Option<i64> {
    let elsewhere = |name: &str| {
        let facts = others.iter().flat_map(|of| &of.facts).filter(|fact| fact.name == name);
        facts.map(|fact| fact.value).fold(0.0, f64::max)
    };
    let per_step = finding.facts.iter().filter(|fact| fact.unit == Unit::Us && fact.name.ends_with(PER_STEP));
    per_step.map(|fact| ((fact.value - elsewhere(&fact.name)) * 1e3) as i64).max()
}

#[cfg(test)]
mod tests {
    use super::{Finding, Gain, GainBasis, RankGain, limit_gains, unexplained_gain};
    use crate::Support;
    use stackline_timeline::confidence::Confidence;
    use stackline_timeline::source_location::SourceLocation;

    const NO_EXCESS: i64 = 0;

    /// Finding with a replayed gain, and the gain of each rank that has it.
    fn finding(code: &str, gain: Gain, ranks: &[(i64, i64)]) -> Finding {
        Finding {
            rule: crate::rules::find(code).unwrap().info(),
            title: String::new(),
            place: SourceLocation::default(),
            change: None,
            events: Vec::new(),
            facts: Vec::new(),
            kind: None,
            support: Support::Exact,
            confidence: Confidence::High,
            gain: Some(gain),
            memory: None,
            on_top_ns: None,
            basis: GainBasis::Replay,
            edits: Vec::new(),
            edit_labels: Vec::new(),
            ranks: ranks.iter().map(|&(rank, ns)| RankGain { rank, gain_ns: Some(ns) }).collect(),
        }
    }

    #[test]
    fn gains_of_waiting_ranks_are_limited_to_those_of_the_last_rank() {
        let there = finding("SL004", Gain::new(190, 180, 200), &[]);
        let equal = finding("SL011", Gain::new(70, 60, 80), &[]);
        let mut findings = vec![
            finding("SL004", Gain::new(520, 510, 530), &[(0, 520), (2, 190)]),
            finding("SL011", Gain::new(70, 60, 80), &[(0, 70), (2, 70)]),
            finding("SL024", Gain::new(50, 40, 60), &[(1, 50)]),
            finding("SL025", Gain::new(90, 80, 95), &[(0, 10), (2, 90)]),
        ];
        let note = limit_gains(2, &mut findings, &|merged: &Finding| match merged.rule.code.as_str() {
            "SL004" => vec![(2, &there)],
            "SL011" => vec![(2, &equal)],
            _ => Vec::new(),
        });
        let gains: Vec<Option<Gain>> = findings.iter().map(|finding| finding.gain).collect();
        let expected = [Gain::new(190, 180, 200), Gain::new(70, 60, 80), Gain::new(50, 0, 60), Gain::new(90, 80, 95)];
        assert_eq!(gains, expected.map(Some));
        let ranks: Vec<Option<i64>> = findings.iter().map(Finding::detail_rank).collect();
        assert_eq!(ranks, [Some(2), Some(0), Some(1), Some(2)]);
        let note = note.unwrap();
        assert!(note.starts_with("rank 2 determines the step, and lacks findings of SL024 on other ranks: "), "{note}");
    }

    #[test]
    fn gain_of_a_cause_is_subtracted_from_the_waits() {
        let gain = Gain::new;
        let waits = gain(500, 0, 700);
        assert_eq!(unexplained_gain(waits, gain(300, 250, 400), NO_EXCESS), gain(200, 0, 450));
        assert_eq!(
            unexplained_gain(waits, gain(300, 250, 900), NO_EXCESS),
            gain(0, 0, 450),
            "the upper bound explains all"
        );
        assert_eq!(
            unexplained_gain(waits, gain(100, 0, 900), NO_EXCESS),
            gain(400, 0, 700),
            "less than half explains a part"
        );
        assert_eq!(unexplained_gain(waits, gain(460, 440, 480), NO_EXCESS), gain(0, 0, 260), "more than nine tenths");
        assert_eq!(unexplained_gain(waits, gain(900, 800, 1000), NO_EXCESS), gain(0, 0, 0));
        // The gain assumes that half of the 520 that this takes longer than on the other ranks is saved.
        assert_eq!(unexplained_gain(waits, gain(260, 0, 260), 520), gain(0, 0, 700));
        assert_eq!(unexplained_gain(waits, gain(260, 0, 260), 300), gain(240, 0, 700), "too short for these waits");
        assert_eq!(unexplained_gain(waits, gain(100, 0, 100), 520), gain(400, 0, 700), "it may be overlapped");
    }
}
