//! SL037: conversions of a tensor's type by kernels that handle one element at a time.

use crate::{Area, Candidate, Fact, GainEstimate, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, EventKind};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;

pub(super) const RULE: Rule = Rule {
    code: "SL037",
    name: "slow-dtype-conversion",
    area: Area::Copies,
    about: "kernels convert a tensor's type element by element",
    why: "PyTorch's general copy kernel decides the type of each element while it runs, and loads and stores one at a time.",
    advice: "Fuse the conversion with its neighbours (torch.compile, a fused norm), keep the tensor in one type, or use a version of \
             PyTorch that has a vectorised kernel for this pair of types.",
    example: (
        "x = x.to(torch.float32)\nx = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)",
        "norm = torch.nn.RMSNorm(dim)  # or torch.compile",
    ),
    cost: "a few lines",
    false_positives: "The tensor is not contiguous: then no kernel is vectorised. The gain supposes `scale` of the time.",
    source: "DeepContext table 3 (Llama 3); the scale: conversions of the same size in both directions on H100 and MI300",
    needs: &[Requirement::GpuWork],
    settings: &[
        Setting {
            name: "share",
            default: 2.0,
            range: (0.0, 100.0),
            about: "least part of the GPU's busy time that conversions of one place take, in percent",
        },
        Setting {
            name: "scale",
            default: 0.65,
            range: (0.0, 1.0),
            about: "what is left of the time by a vectorised kernel",
        },
    ],
    advice_variants: &[],
    check,
};

fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let conversions = context.named(&[EventKind::Kernel], converts);
    context.by_code(&conversions).into_iter().filter_map(|(place, work)| candidate(context, place, work)).collect()
}

/// Whether a kernel's name is that of PyTorch's copy with types that are known only when it runs.
fn converts(name: &str) -> bool {
    let is_general = name.contains("unrolled_elementwise_kernel") || name.contains("gpu_kernel_impl<");
    is_general && name.contains("direct_copy_kernel") && !name.contains("nocast")
}

fn candidate(context: &RuleContext<'_>, place: SourceLocation, work: Vec<EventId>) -> Option<Candidate> {
    let ns = context.total(&work);
    let share = context.percent_of_gpu(ns);
    if share < context.setting("share") {
        return None;
    }
    let edit = context.edit(Action::Scale(context.setting("scale")), "kernel:~direct_copy_kernel", &work)?;
    Some(Candidate {
        title: format!("conversions of type, element by element, take {share:.0} % of the GPU's time"),
        place,
        facts: vec![Fact::count("kernels", work.len()), Fact::time("together, a step", context.per_step(ns))],
        events: work,
        support: Support::Inferred,
        confidence: Confidence::Low,
        gain_estimate: GainEstimate::Edits(vec![edit]),
    })
}
