//! SL008: a hot kernel mostly waits, and its samples say for what.

use crate::{Area, Candidate, Fact, GainEstimate, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, Unit};
use stackline_timeline::confidence::Confidence;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL008",
    name: "stalled-kernels",
    area: Area::Kernels,
    about: "a kernel that takes much of the GPU's time mostly stalls for one reason",
    why: "Samples of its instructions show that they wait: for memory, for each other, for a barrier.",
    advice: "Waits for memory: fewer or wider loads, reuse through shared memory, a fused kernel. Waits for arithmetic: faster \
             instructions, such as vectorised conversions. Waits at barriers: smaller blocks.",
    example: ("y = x.float() * w  # one element a thread", "y = torch.compile(scale)(x, w)  # vectorised loads"),
    cost: "work on the kernel, or another implementation",
    false_positives: "Enough other warps run meanwhile: then the stalls are hidden. The gain is that of half the stalls of this reason.",
    source: "DeepContext 4.3, fine-grained stall analysis",
    needs: &[Requirement::GpuWork, Requirement::InstructionSamples],
    settings: &[
        Setting {
            name: "share",
            default: 10.0,
            range: (0.0, 100.0),
            about: "least part of the GPU's busy time that the kernel takes, in percent",
        },
        Setting {
            name: "stalled",
            default: 30.0,
            range: (0.0, 100.0),
            about: "least part of its samples that have the same reason, in percent",
        },
    ],
    advice_variants: &[],
    check,
};

/// Reasons that mean that a warp ran, or could have.
const NO_STALL: &[&str] = &["selected", "not_selected", "none", "issued"];

fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let kernels = context.kernels();
    context.by_name(&kernels).into_iter().filter_map(|(name, of)| candidate(context, name, of)).collect()
}

/// Samples of kernels by reason.
fn samples(context: &RuleContext<'_>, kernels: &[EventId]) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for &kernel in kernels {
        let reasons = context.json("stall_reasons", kernel);
        for (reason, count) in reasons.iter().filter_map(|r| r.as_object()).flatten() {
            *found.entry(reason.clone()).or_default() += count.as_f64().filter(|count| *count > 0.0).unwrap_or(0.0);
        }
    }
    found
}

fn candidate(context: &RuleContext<'_>, name: &str, kernels: Vec<EventId>) -> Option<Candidate> {
    let share = context.percent_of_gpu(context.total(&kernels));
    if share < context.setting("share") {
        return None;
    }
    let samples = samples(context, &kernels);
    let all: f64 = samples.values().sum();
    let stalls = samples.iter().filter(|(reason, _)| !NO_STALL.contains(&reason.as_str()));
    let (reason, count) = stalls.max_by(|a, b| a.1.total_cmp(b.1))?;
    let stalled = 100.0 * count / all.max(1.0);
    if stalled < context.setting("stalled") {
        return None;
    }
    let edit = context.edit(Action::Scale(1.0 - stalled / 200.0), format!("kernel:{name}"), &kernels)?;
    let (place, _) = context.by_code(&kernels).into_iter().next()?;
    let reason = reason.replace('_', " ");
    Some(Candidate {
        title: format!("{} stalls {stalled:.0} % of its time: {reason}; with half of it", super::short(name)),
        place,
        facts: vec![
            Fact { name: "samples with this reason", value: stalled, unit: Unit::Percent },
            Fact { name: "share of the GPU's time", value: share, unit: Unit::Percent },
            Fact::count("calls", kernels.len()),
        ],
        events: kernels,
        support: Support::Exact,
        confidence: Confidence::Low,
        gain_estimate: GainEstimate::Speculative(vec![edit]),
    })
}
