//! Findings on ranks that only wait for another one: effects, whose cause is on the rank that comes last.

use super::finding::{Finding, OfRank};
use super::place::Place;
use super::rule::RuleInfo;
use super::rules::waits_for_ranks;
use crate::critical_path::exact::what_if::Gain;
use std::sync::Arc;

/// A rank whose waits gain so many times less than those of others is the one that is waited for.
const MUCH_LESS: i64 = 4;

/// Findings without those that a rank which comes last explains, and a note of these; its finding names what is found on that rank
/// alone, or far more than elsewhere, and where to change that. Its own place stays: a cause that moves makes it no other finding.
pub(super) fn joined(straggler: &mut Finding, findings: &mut Vec<Finding>) -> Option<String> {
    let last = straggler.told_of()?;
    if let Some(at) = cause(last, findings) {
        // It stays a finding of its own: who looks for its rule finds it.
        with_cause(straggler, &findings[at]);
    }
    // The last one may wait, too, for what it sent to come back: far less.
    let is_effect = |finding: &Finding| {
        let there = finding.ranks.iter().filter(|of| of.rank == last).filter_map(|of| of.gain_ns).max();
        waits_for_ranks(finding) && there.is_none_or(|ns| MUCH_LESS * ns <= finding.gain_ns())
    };
    let effects: Vec<Finding> = findings.extract_if(.., |finding| is_effect(finding)).collect();
    let mut codes: Vec<&str> = effects.iter().map(|finding| finding.rule.code.as_str()).collect();
    codes.sort_unstable();
    codes.dedup();
    (!codes.is_empty())
        .then(|| format!("{} on other ranks is left out: they wait for rank {last}, as SL040 says", codes.join(", ")))
}

/// What is to be done about a rank that comes last is what is to be done about its cause there. It gains no more than the cause does.
fn with_cause(straggler: &mut Finding, cause: &Finding) {
    straggler.title = format!("{}; there {}: {}", straggler.title, cause.rule.code, cause.title);
    straggler.change = Some(cause.change_place().clone()).filter(|place| *place != Place::default());
    straggler.events.clone_from(&cause.events);
    straggler.rule = Arc::new(RuleInfo { advice: cause.rule.advice.clone(), ..(*straggler.rule).clone() });
    let (Some(waits), Some(gain)) = (straggler.gain, cause.gain) else { return };
    straggler.edits.clone_from(&cause.edits);
    // Its edits gain on that rank what they gain for all, unless the next rank is as late before that.
    if gain.ns <= waits.ns {
        straggler.method = cause.method;
        straggler.gain = Some(Gain { low_ns: gain.low_ns.min(waits.low_ns), ..gain });
    }
}

/// Of what is found on a rank and no wait for others, what gains most there: on no other rank, or on none half as much.
fn cause(rank: i64, findings: &[Finding]) -> Option<usize> {
    let gain_on = |finding: &Finding, is: &dyn Fn(&OfRank) -> bool| {
        finding.ranks.iter().filter(|of| is(of)).filter_map(|of| of.gain_ns).max()
    };
    let own = |finding: &Finding| gain_on(finding, &|of| of.rank == rank).filter(|ns| *ns > 0);
    let is_its = |finding: &Finding| {
        let others = gain_on(finding, &|of| of.rank != rank).unwrap_or(0);
        !waits_for_ranks(finding) && finding.is_repair() && own(finding).is_some_and(|ns| ns >= 2 * others)
    };
    let its = findings.iter().enumerate().filter(|(_, finding)| is_its(finding));
    its.max_by_key(|(_, finding)| own(finding)).map(|(at, _)| at)
}
