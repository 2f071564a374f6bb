//! SL008: expensive kernel that mostly stalls for one sampled reason.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, Unit};
use stackline_timeline::confidence::Confidence;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL008",
    name: "stalled-kernels",
    area: Area::Kernels,
    about: "a kernel with much GPU time stalls, mostly for one reason",
    why: "Instruction samples show warps that wait: for memory, for the result of an instruction, or at a barrier.",
    gain_methods: &[GainMethod::Speculative],
    gain_text: "The estimate removes half of the kernel time in which samples show the stall reason (what-if operation \
         `scale`).",
    advice: "For memory stalls, use fewer or wider loads, reuse data through shared memory, or fuse kernels. For \
         arithmetic stalls, use faster instructions, such as vectorized conversions. For barrier stalls, use smaller \
         blocks.",
    example: ("y = x.float() * w  # one element per thread", "y = torch.compile(scale)(x, w)  # vectorized loads"),
    cost: "the kernel must be optimized, or replaced by another implementation",
    false_positives: "Little is gained if other warps run during the stalls and hide them. The estimate assumes that \
         half of the stalls with this reason can be avoided.",
    source: "DeepContext paper, section 4.3, fine-grained stall analysis",
    needs: &[Requirement::GpuWork, Requirement::InstructionSamples],
    settings: &[
        Setting {
            name: "share",
            default: 10.0,
            range: (0.0, 100.0),
            about: "report only kernels that take at least this percentage of GPU busy time",
        },
        Setting {
            name: "stalled",
            default: 30.0,
            range: (0.0, 100.0),
            about: "report only kernels with the same stall reason in at least this percentage of the samples",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Reasons of samples in which a warp ran or could have run.
const NO_STALL: &[&str] = &["selected", "not_selected", "none", "issued"];

/// Find expensive kernels that mostly stall for one reason, one candidate per kernel name.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let kernels = context.kernels();
    context.by_name(&kernels).into_iter().filter_map(|(name, of)| candidate(context, name, of)).collect()
}

/// Number of stall samples in kernels, by stall reason.
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

/// Candidate for calls of one kernel; `None` if the share of GPU time or of the most frequent stall is small.
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
        title: format!(
            "Stalled kernel: {} stalls for {stalled:.0} % of its time (reason: {reason}; gain assumes that half of \
            the stall time is avoided)",
            super::shorten_name(name)
        ),
        place,
        facts: vec![
            Fact {
                name: "share of the kernel's samples with the reported stall reason",
                value: stalled,
                unit: Unit::Percent,
            },
            Fact { name: "share of the kernel in GPU time", value: share, unit: Unit::Percent },
            Fact::count("calls", kernels.len()),
        ],
        events: kernels,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Low,
        gain_estimate: GainEstimate::speculative(vec![edit]),
    })
}
