//! SL037: dtype conversions by kernels that handle one element at a time.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, EventKind};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;

pub(super) const RULE: Rule = Rule {
    code: "SL037",
    name: "slow-dtype-conversion",
    area: Area::Copies,
    about: "kernels convert a tensor's dtype element by element",
    why: "PyTorch's generic copy kernel selects the dtype of each element at run time, and loads and stores one \
         element at a time.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate multiplies the time of the kernels by the setting `SL037.scale` (what-if operation \
         `scale`). The setting is an assumption: the fraction of the time that remains if dtypes are fixed at \
         compile time.",
    advice: "Fuse the conversion with neighboring operators (torch.compile, a fused norm). Alternatively, keep the \
         tensor in one dtype, or use a version of PyTorch with a vectorized kernel for this pair of dtypes.",
    example: (
        "x = x.to(torch.float32)\nx = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)",
        "norm = torch.nn.RMSNorm(dim)  # or torch.compile",
    ),
    cost: "the change takes a few lines",
    false_positives: "No vectorized kernel can be used if the tensor is not contiguous. The setting `scale` is the \
         fraction of the time that the estimate assumes to remain.",
    source: "DeepContext paper, table 3 (Llama 3). The default of the setting `scale` was measured with \
         conversions of tensors of equal size, in both directions, on H100 and MI300",
    needs: &[Requirement::GpuWork],
    settings: &[
        Setting {
            name: "share",
            default: 2.0,
            range: (0.0, 100.0),
            about: "report only source locations whose conversions take at least this percentage of GPU busy time",
        },
        Setting {
            name: "scale",
            default: 0.65,
            range: (0.0, 1.0),
            about: "assumed fraction of the time of dtype conversions that remains with a vectorized kernel",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Find dtype conversions by slow kernels, one candidate per source location.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let conversions = context.named(&[EventKind::Kernel], converts);
    context.by_code(&conversions).into_iter().filter_map(|(place, work)| candidate(context, place, work)).collect()
}

/// Test if a kernel name is that of PyTorch's copy with dtypes that are known only at run time.
fn converts(name: &str) -> bool {
    let is_general = name.contains("unrolled_elementwise_kernel") || name.contains("gpu_kernel_impl<");
    is_general && name.contains("direct_copy_kernel") && !name.contains("nocast")
}

/// Candidate for conversions at one source location; `None` if their share of GPU time is small.
fn candidate(context: &RuleContext<'_>, place: SourceLocation, work: Vec<EventId>) -> Option<Candidate> {
    let ns = context.total(&work);
    let share = context.percent_of_gpu(ns);
    if share < context.setting("share") {
        return None;
    }
    let edit = context.edit(Action::Scale(context.setting("scale")), "kernel:~direct_copy_kernel", &work)?;
    Some(Candidate {
        title: format!("Element-wise dtype conversions: {share:.0} % of GPU time"),
        place,
        facts: vec![
            Fact::count("kernels", work.len()),
            Fact::time("total time of the conversions per step", context.per_step(ns)),
        ],
        events: work,
        kind: None,
        support: Support::Inferred,
        confidence: Confidence::Low,
        gain_estimate: GainEstimate::edits(vec![edit]),
    })
}
