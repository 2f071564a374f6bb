//! Candidate finding of a rule over a calling context tree, with its estimated gain.

use super::call_rule_context::CallRuleContext;
use super::thread::Time;
use crate::{CandidateKind, Fact, Rule};
use stackline_critical_path::exact::what_if::Gain;
use stackline_model::Unit;
use stackline_timeline::confidence::Confidence;
use stackline_timeline::sampling_error::count_bounds;
use stackline_timeline::source_location::SourceLocation;

/// Method of gains without replay.
pub(crate) const BY_TIME: &str = "time saved on the thread that runs the steps, estimated from samples and call counts; \
     the effect on other threads is unknown";

/// Candidate finding of a rule, with times over all steps.
#[derive(Clone, Debug)]
pub(super) struct CallCandidate {
    pub(super) rule: &'static Rule,
    pub(super) title: String,
    pub(super) place: SourceLocation,
    pub(super) facts: Vec<Fact>,
    pub(super) kind: Option<CandidateKind>,
    pub(super) confidence: Confidence,
    /// Gain over all steps. The combined gain excludes it if it is speculative.
    pub(super) gain: Gain,
    /// True if another candidate includes the same time.
    pub(super) is_within_other: bool,
    /// Time that the finding covers, in ns.
    pub(super) covers_ns: u64,
}

/// Gain over all steps of saving a time, in ns, with bounds from its sampling error. Rows of profiles stand for an
/// unknown number of samples.
pub(super) fn bounded_gain(context: &CallRuleContext<'_>, time: Time) -> Gain {
    let ns = signed(time.ns);
    let sampled_ns = time.ns.saturating_sub(time.measured_ns);
    if sampled_ns == 0 {
        return Gain::exact(ns);
    }
    if time.samples == 0 {
        return Gain::new(ns, 0, signed(context.window_ns()).max(ns));
    }
    let each = sampled_ns as f64 / time.samples as f64;
    let (low, high) = count_bounds(usize::try_from(time.samples).unwrap_or(usize::MAX));
    let with = |count: f64| signed(time.measured_ns).saturating_add((count * each) as i64);
    Gain::new(ns, with(low).min(ns), with(high).max(ns))
}

/// Convert a time in ns to a signed number, at most the largest one.
pub(super) fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// Confidence of a finding by the number of samples of its time: low for few samples, otherwise medium.
pub(super) fn confidence(time: Time) -> Confidence {
    const FEW: u64 = 10;
    let is_sampled = time.measured_ns < time.ns / 2;
    if is_sampled && (1..FEW).contains(&time.samples) { Confidence::Low } else { Confidence::Medium }
}

/// Facts on a finding's time: share of the thread, time per step, waits and samples.
pub(super) fn facts(context: &CallRuleContext<'_>, time: Time) -> Vec<Fact> {
    let share = Fact {
        name: "share of the reported code in the thread's time",
        value: context.percent(time.ns),
        unit: Unit::Percent,
    };
    let samples = Fact { name: "samples", value: time.samples as f64, unit: Unit::None };
    let waiting = Fact::time("wait time of the reported code per step", context.per_step(time.waits_ns));
    let mut facts = vec![share, Fact::time("total time of the reported code per step", context.per_step(time.ns))];
    facts.extend((time.waits_ns > 0 && time.waits_ns < time.ns).then_some(waiting));
    facts.extend((time.samples > 0).then_some(samples));
    facts
}
