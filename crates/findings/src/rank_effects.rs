//! Effects on ranks that only wait for another rank; the cause is on the rank that arrives last.

use super::finding::{Finding, RankGain};
use super::rule::RuleInfo;
use super::rules::is_wait_for_ranks;
use stackline_critical_path::exact::what_if::Gain;
use stackline_timeline::source_location::SourceLocation;
use std::sync::Arc;

/// Factor by which the waits of a rank must gain less than those of others, to be the rank that the others wait for.
const MIN_GAIN_RATIO: i64 = 4;

/// Rule of exposed collectives.
const COLLECTIVES: &str = "SL019";

/// Remove findings that the last rank explains, and return a note about them. Findings of collectives are replaced by
/// those of the last rank, from `on_last`. The straggler's finding names the findings that only the last rank has, or
/// that are much larger there, with their location of the change. Its own location stays, so that its identity does not
/// depend on the cause.
pub(super) fn remove_effects(
    straggler: &mut Finding,
    findings: &mut Vec<Finding>,
    on_last: impl Fn(&Finding) -> Option<Finding>,
) -> Option<String> {
    let last = straggler.detail_rank()?;
    if let Some(at) = find_cause(last, findings) {
        // The cause remains a separate finding, under its own rule.
        copy_cause(straggler, &findings[at]);
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
    (!codes.is_empty()).then(|| {
        format!(
            "{} on other ranks is not listed, because these ranks only wait for rank {last}: see \
             SL040",
            codes.join(", ")
        )
    })
}

/// Copy location, advice and edits of the cause on the last rank to the straggler's finding, with the joint gain.
fn copy_cause(straggler: &mut Finding, cause: &Finding) {
    straggler.title = format!("{}; there {}: {}", straggler.title, cause.rule.code, cause.title);
    straggler.change = Some(cause.fix_location().clone()).filter(|place| *place != SourceLocation::default());
    straggler.events.clone_from(&cause.events);
    straggler.rule = Arc::new(RuleInfo { advice: cause.rule.advice.clone(), ..(*straggler.rule).clone() });
    let (Some(waits), Some(gain)) = (straggler.gain, cause.gain) else { return };
    straggler.edits.clone_from(&cause.edits);
    if gain.ns <= waits.ns {
        straggler.method = cause.method;
    }
    straggler.gain = Some(joint_gain(gain, waits));
}

/// Gain on all ranks of removing a cause on the last rank. At each collective, edits on that rank save time until the
/// next rank is the last one. So the gain is a sum of minima: at most the gain on that rank, and at most the wait. The
/// lower bound of the wait is 0, because the cause may delay other collectives than those in which the ranks wait.
fn joint_gain(cause: Gain, waits: Gain) -> Gain {
    Gain {
        ns: cause.ns.min(waits.ns),
        low_ns: cause.low_ns.min(waits.low_ns),
        high_ns: cause.high_ns.min(waits.high_ns),
    }
}

/// Finding of a rank that is not a wait for others, and that only this rank has, or with at least twice the gain of any
/// other rank. Prefers findings of this rank only, then the largest gain.
fn find_cause(rank: i64, findings: &[Finding]) -> Option<usize> {
    let gain_on = |finding: &Finding, is: &dyn Fn(&RankGain) -> bool| {
        finding.ranks.iter().filter(|of| is(of)).filter_map(|of| of.gain_ns).max()
    };
    let own = |finding: &Finding| gain_on(finding, &|of| of.rank == rank).filter(|ns| *ns > 0);
    let is_alone = |finding: &Finding| finding.ranks.iter().all(|of| of.rank == rank);
    let is_its = |finding: &Finding| {
        let others = gain_on(finding, &|of| of.rank != rank).unwrap_or(0);
        let counts = finding.is_repair() || is_alone(finding);
        !is_wait_for_ranks(finding) && counts && own(finding).is_some_and(|ns| ns >= 2 * others)
    };
    let its = findings.iter().enumerate().filter(|(_, finding)| is_its(finding));
    its.max_by_key(|(_, finding)| (is_alone(finding), own(finding))).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::{Gain, joint_gain};

    #[test]
    fn joint_gain_is_limited_by_the_cause_and_by_the_wait() {
        let gain = |ns, low_ns, high_ns| Gain { ns, low_ns, high_ns };
        let waits = gain(500, 0, 700);
        assert_eq!(joint_gain(gain(300, 250, 900), waits), gain(300, 0, 700), "others wait for 700 at most");
        assert_eq!(joint_gain(gain(600, 550, 650), waits), gain(500, 0, 650), "the cause takes 650 at most");
        assert_eq!(joint_gain(gain(900, 800, 1000), waits), waits);
    }
}
