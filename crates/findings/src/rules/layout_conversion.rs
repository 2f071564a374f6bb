//! SL003: kernels that only convert between channels-first and channels-last layout.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, EventKind};
use stackline_timeline::confidence::Confidence;

pub(super) const RULE: Rule = Rule {
    code: "SL003",
    name: "layout-conversion",
    area: Area::Copies,
    about: "kernels convert between channels-first and channels-last layout around convolutions",
    why: "Fast convolutions of GPU libraries require channels-last tensors, so tensors in another layout are copied \
         before and after each convolution.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate removes the conversion kernels and the calls that launch them (what-if operation \
         `remove`). The upper bound also shortens batch norm to 0.3 of its time.",
    advice: "Keep model and input in channels_last: call .to(memory_format=torch.channels_last) on both.",
    example: (
        "model = UNet().cuda()\ny = model(x.cuda())",
        "model = UNet().cuda().to(memory_format=torch.channels_last)\ny = model(x.cuda().to(memory_format=torch.channels_last))",
    ),
    cost: "the change takes one line for the model and one for its input; layers without channels-last support \
         convert back",
    false_positives: "The channels-last layout does not help if a layer requires channels-first tensors, because \
                      conversions are then needed around that layer. The estimate removes the conversions. The upper \
                      bound also assumes that batch norm is faster \
         with channels last (0.3 of its time, measured on an H100).",
    source: "DeepContext paper, section 6.2 (U-Net: 1.28 times)",
    needs: &[Requirement::GpuWork],
    settings: &[Setting::share_of_gpu(1.0)],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Name parts of conversion kernels, in lower case.
const CONVERSIONS: &[&str] =
    &["nchwtonhwc", "nhwctonchw", "nchw2nhwc", "nhwc2nchw", "batched_transpose", "transpose_nchw"];

/// Name parts of normalization kernels, in lower case, and the lowest remaining share of their time with channels last.
const NORMALIZATIONS: &[&str] = &["batch_norm", "batchnorm", "bn_fw_", "bn_bw_", "bn_fwd", "bn_bwd"];
const CHANNELS_LAST: &[&str] = &["channels_last", "nhwc"];
const NORMALIZATION_REMAINING: f64 = 0.3;

/// Find kernels that convert between channels-first and channels-last layout; at most one candidate for all.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let converts = context.named(&[EventKind::Kernel], |name| {
        let name = name.to_ascii_lowercase();
        CONVERSIONS.iter().any(|part| name.contains(part))
    });
    let ns = context.total(&converts);
    let share = context.percent_of_gpu(ns);
    if converts.is_empty() || share < context.setting("share") {
        return Vec::new();
    }
    let Some(gain_estimate) = gain_estimate(context, &converts) else { return Vec::new() };
    let place = context.by_place(&converts).into_iter().max_by_key(|(_, of)| context.total(of)).map(|(place, _)| place);
    vec![Candidate {
        title: format!("Layout conversions: {share:.0} % of GPU time in {} kernels", converts.len()),
        place: place.unwrap_or_default(),
        facts: vec![
            Fact::count("kernels", converts.len()),
            Fact::time("total time of the conversions per step", context.per_step(ns)),
        ],
        events: converts,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::High,
        gain_estimate,
    }]
}

/// Gain estimate of removing the conversions. The upper bound also scales channels-first normalization by the measured
/// factor.
fn gain_estimate(context: &RuleContext<'_>, converts: &[EventId]) -> Option<GainEstimate> {
    let remove = context.edit(Action::Remove, "kernel:~nchwToNhwc|nhwcToNchw", converts)?;
    let normalize = context.named(&[EventKind::Kernel], |name| {
        let name = name.to_ascii_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        has(NORMALIZATIONS) && !has(CHANNELS_LAST)
    });
    let faster = context.edit(Action::Scale(NORMALIZATION_REMAINING), "normalization kernels", &normalize);
    Some(match faster {
        Some(faster) => GainEstimate::range(vec![remove.clone()], vec![vec![remove, faster]]),
        None => GainEstimate::edits(vec![remove]),
    })
}
