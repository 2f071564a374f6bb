//! Removal of findings on ranks that only wait for another rank; the cause is on the rank that arrives last.

use super::finding::{Fact, Finding, RankGain};
use super::rules::is_wait_for_ranks;
use stackline_critical_path::exact::what_if::Gain;
use stackline_model::Unit;

/// Factor by which the waits of a rank must gain less than those of others, to be the rank that the others wait for.
const MIN_GAIN_RATIO: i64 = 4;

/// Rule of exposed collectives.
const COLLECTIVES: &str = "SL019";

/// Fact of the cause: the time that other ranks wait for its rank, which limits the gain of the job.
const WAIT_OF_OTHERS: &str = "minimum wait of the other ranks for this rank per step";

/// Remove findings that waits for the last-arriving rank explain, and return notes about them. Findings of collectives
/// are replaced by those of the last rank, from `on_last`. A finding that only the last rank has, or that is much
/// larger there, is the cause of the delay: the straggler's finding keeps only the gain that the cause does not
/// explain.
pub(super) fn remove_effects(
    straggler: &mut Finding,
    findings: &mut Vec<Finding>,
    least_ns: i64,
    on_last: impl Fn(&Finding) -> Option<Finding>,
) -> Vec<String> {
    let Some(last) = straggler.detail_rank() else { return Vec::new() };
    let mut notes = Vec::new();
    let mut reason = straggler.rule.code.clone();
    if let Some(at) = find_cause(last, least_ns, findings) {
        let (delay, cause) = (straggler.title.clone(), &mut findings[at]);
        subtract_cause(straggler, cause);
        if straggler.gain.is_some_and(|rest| rest.ns < least_ns.max(1)) {
            notes.push(format!(
                "{delay} ({reason}); the list contains only the cause on that rank, {}",
                cause.rule.code
            ));
        }
        if straggler.gain_ns() < least_ns.max(1) {
            reason.clone_from(&cause.rule.code);
        }
    }
    // The last rank may wait as well, for the response to its own message, but much less.
    let is_effect = |finding: &Finding| {
        let there = finding.ranks.iter().filter(|of| of.rank == last).filter_map(|of| of.gain_ns).max();
        is_wait_for_ranks(finding) && there.is_none_or(|ns| MIN_GAIN_RATIO * ns <= finding.gain_ns())
    };
    let mut effects: Vec<Finding> = findings.extract_if(.., |finding| is_effect(finding)).collect();
    // Collectives, and waits for them, last until the last rank arrives. The remaining time is that of the last
    // rank.
    let is_longer = |finding: &Finding| {
        (finding.rule.code == COLLECTIVES || is_wait_for_ranks(finding)) && finding.detail_rank() != Some(last)
    };
    for finding in findings.iter_mut().filter(|finding| is_longer(finding)) {
        if let Some(there) = on_last(finding) {
            let gain_ns = |of: &RankGain| of.gain_ns.filter(|_| of.rank == last);
            let ranks = finding.ranks.iter().map(|of| RankGain { rank: of.rank, gain_ns: gain_ns(of) }).collect();
            *finding = Finding { ranks, ..there };
        }
    }
    effects.extend(findings.extract_if(.., |finding| is_longer(finding)));
    let mut codes: Vec<&str> = effects.iter().map(|finding| finding.rule.code.as_str()).collect();
    codes.sort_unstable();
    codes.dedup();
    if !codes.is_empty() {
        notes.push(format!(
            "{} on other ranks is not listed, because these ranks only wait for rank {last}: see {reason}",
            codes.join(", ")
        ));
    }
    notes
}

/// Reduce the straggler's gain by that of the cause on the last rank, which has its own finding with replayed edits. The
/// cause receives the waits of the other ranks as a fact.
fn subtract_cause(straggler: &mut Finding, cause: &mut Finding) {
    let (Some(waits), Some(gain)) = (straggler.gain, cause.gain) else { return };
    let rest = unexplained_gain(waits, gain);
    // Without a rest, the finding only tells which rank is late: its gain is that of the cause.
    straggler.gain = Some(rest).filter(|rest| rest.ns > 0);
    straggler.ranks.iter_mut().for_each(|of| of.gain_ns = straggler.gain.map(|rest| rest.ns));
    let code = &cause.rule.code;
    straggler.title = match rest.ns {
        0 => format!("{}; {code} on that rank explains this wait and has the gain", straggler.title),
        _ => format!("{}; {code} on that rank explains a part of this wait, which this gain excludes", straggler.title),
    };
    cause.facts.push(Fact { name: WAIT_OF_OTHERS.to_owned(), value: waits.ns as f64 / 1e3, unit: Unit::Us });
}

/// Part of the waits of the other ranks that a cause on the last rank does not explain. At each collective, a change on
/// that rank saves time until the next rank is the last one, so its gain is part of the waits. Both are estimates: a
/// cause of nine tenths of the waits explains all of them, and so does one of half of them whose upper bound exceeds
/// them. The lower bound is 0, as that of the waits.
fn unexplained_gain(waits: Gain, cause: Gain) -> Gain {
    let is_explained = 10 * cause.ns >= 9 * waits.ns || (2 * cause.ns >= waits.ns && cause.high_ns >= waits.ns);
    let ns = if is_explained { 0 } else { (waits.ns - cause.ns).max(0) };
    Gain { ns, low_ns: 0, high_ns: (waits.high_ns - cause.low_ns).max(ns) }
}

/// Finding of a rank with at least some gain that is not a wait for others, and that only this rank has, or with at
/// least twice the gain of any other rank. Prefers repairs to speculative changes, then the largest gain.
fn find_cause(rank: i64, least_ns: i64, findings: &[Finding]) -> Option<usize> {
    let gain_on = |finding: &Finding, is: &dyn Fn(&RankGain) -> bool| {
        finding.ranks.iter().filter(|of| is(of)).filter_map(|of| of.gain_ns).max()
    };
    let own = |finding: &Finding| gain_on(finding, &|of| of.rank == rank).filter(|ns| *ns >= least_ns.max(1));
    let is_alone = |finding: &Finding| finding.ranks.iter().all(|of| of.rank == rank);
    let is_its = |finding: &Finding| {
        let others = gain_on(finding, &|of| of.rank != rank).unwrap_or(0);
        let counts = finding.is_repair() || is_alone(finding);
        !is_wait_for_ranks(finding) && counts && own(finding).is_some_and(|ns| ns >= 2 * others)
    };
    let its = findings.iter().enumerate().filter(|(_, finding)| is_its(finding));
    its.max_by_key(|(_, finding)| (finding.is_repair(), own(finding), is_alone(finding))).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::{Gain, unexplained_gain};

    #[test]
    fn gain_of_a_cause_is_subtracted_from_the_waits() {
        let gain = |ns, low_ns, high_ns| Gain { ns, low_ns, high_ns };
        let waits = gain(500, 0, 700);
        assert_eq!(unexplained_gain(waits, gain(300, 250, 400)), gain(200, 0, 450));
        assert_eq!(unexplained_gain(waits, gain(300, 250, 900)), gain(0, 0, 450), "the upper bound explains all");
        assert_eq!(unexplained_gain(waits, gain(100, 0, 900)), gain(400, 0, 700), "less than half explains a part");
        assert_eq!(unexplained_gain(waits, gain(460, 440, 480)), gain(0, 0, 260), "more than nine tenths");
        assert_eq!(unexplained_gain(waits, gain(900, 800, 1000)), gain(0, 0, 0));
    }
}
