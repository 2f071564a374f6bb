//! Findings on ranks that only wait for another one: effects, whose cause is on the rank that comes last.

use super::finding::{Finding, OfRank};
use super::rule::RuleInfo;
use super::rules::waits_for_ranks;
use super::source_location::SourceLocation;
use crate::critical_path::exact::what_if::Gain;
use std::sync::Arc;

/// A rank whose waits gain so many times less than those of others is the one that is waited for.
const MUCH_LESS: i64 = 4;

/// The rule of collectives that nothing runs beside.
const COLLECTIVES: &str = "SL019";

/// Findings without those that a rank which comes last explains, and a note of these; those of collectives are told of
/// that rank, by
/// `on_last`. Its finding names what is found on that rank
/// alone, or far more than elsewhere, and where to change that. Its own place stays: a cause that moves makes it no
/// other finding.
pub(super) fn joined(
    straggler: &mut Finding,
    findings: &mut Vec<Finding>,
    on_last: impl Fn(&Finding) -> Option<Finding>,
) -> Option<String> {
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
    let mut effects: Vec<Finding> = findings.extract_if(.., |finding| is_effect(finding)).collect();
    // Collectives, and waits for them, last until the last rank has come: what they take there is what is left of them
    // once it comes in time.
    let is_longer = |finding: &Finding| {
        (finding.rule.code == COLLECTIVES || waits_for_ranks(finding)) && finding.told_of() != Some(last)
    };
    for finding in findings.iter_mut().filter(|finding| is_longer(finding)) {
        if let Some(there) = on_last(finding) {
            let gain_ns = |of: &OfRank| of.gain_ns.filter(|_| of.rank == last);
            let ranks = finding.ranks.iter().map(|of| OfRank { rank: of.rank, gain_ns: gain_ns(of) }).collect();
            *finding = Finding { ranks, ..there };
        }
    }
    effects.extend(findings.extract_if(.., |finding| is_longer(finding)));
    let mut codes: Vec<&str> = effects.iter().map(|finding| finding.rule.code.as_str()).collect();
    codes.sort_unstable();
    codes.dedup();
    (!codes.is_empty()).then(|| {
        format!("{} on other ranks is excluded: these ranks wait for rank {last}, see SL040", codes.join(", "))
    })
}

/// What is to be done about a rank that comes last is what is to be done about its cause there. It gains no more than
/// the cause does.
fn with_cause(straggler: &mut Finding, cause: &Finding) {
    straggler.title = format!("{}; there {}: {}", straggler.title, cause.rule.code, cause.title);
    straggler.change = Some(cause.change_place().clone()).filter(|place| *place != SourceLocation::default());
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

/// Of what is found on a rank and no wait for others what is found there alone, or gains at least twice as much as on
/// any other; of several what no other rank has, and of these what gains most.
fn cause(rank: i64, findings: &[Finding]) -> Option<usize> {
    let gain_on = |finding: &Finding, is: &dyn Fn(&OfRank) -> bool| {
        finding.ranks.iter().filter(|of| is(of)).filter_map(|of| of.gain_ns).max()
    };
    let own = |finding: &Finding| gain_on(finding, &|of| of.rank == rank).filter(|ns| *ns > 0);
    let is_alone = |finding: &Finding| finding.ranks.iter().all(|of| of.rank == rank);
    let is_its = |finding: &Finding| {
        let others = gain_on(finding, &|of| of.rank != rank).unwrap_or(0);
        let counts = finding.is_repair() || is_alone(finding);
        !waits_for_ranks(finding) && counts && own(finding).is_some_and(|ns| ns >= 2 * others)
    };
    let its = findings.iter().enumerate().filter(|(_, finding)| is_its(finding));
    its.max_by_key(|(_, finding)| (is_alone(finding), own(finding))).map(|(at, _)| at)
}
