//! SL018: float32 matrix products and convolutions on a GPU with tensor cores.

use crate::{
    AdviceVariant, Area, Candidate, Fact, GainMethod, ProgramCondition, Requirement, Rule, RuleContext, Setting,
    Support,
};
use stackline_model::{Device, EventId, EventKind, Vendor};
use stackline_timeline::confidence::Confidence;

pub(super) const RULE: Rule = Rule {
    code: "SL018",
    name: "no-tensor-cores",
    area: Area::Kernels,
    about: "matrix products or convolutions run in float32 without the GPU's tensor cores",
    why: "Tensor cores compute products in TF32, bfloat16 or float16 at 8 or more times the float32 rate.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate multiplies the time of kernels with float32 in their names, if they take at least \
         `SL018.kernel_us`, by the setting `SL018.scale` (what-if operation `scale`). For GPUs other than A100, H100 \
         and their successors, it uses `SL018.scale_others`. The bounds of the gain assume that 0.5 and 2 times the \
         estimated time remains.",
    advice: "Enable TF32 (from A100 on) with torch.set_float32_matmul_precision(\"high\"), or use autocast with \
         bfloat16 or float16; keep dimensions multiples of 8.",
    example: ("y = x @ w", "torch.set_float32_matmul_precision(\"high\")\ny = x @ w"),
    cost: "the change takes one line; products are less exact (TF32 has 10 mantissa bits)",
    false_positives: "Tensor cores cannot be used if results need full float32, and do not help if memory bandwidth \
         limits the products. The estimate assumes that a fixed fraction of the kernels' time remains: `scale` on \
         A100, H100 and later GPUs, and `scale_others` on other GPUs. The bounds are 0.5 and 2 times this fraction: \
         large products gain more, small products less. In a measurement on an H100 with TF32, 0.23 of the time \
         remained.",
    source: "common practice; mixed-precision guides of NVIDIA and PyTorch",
    needs: &[Requirement::GpuWork, Requirement::GpuModel],
    settings: &[
        Setting::share_of_gpu(5.0),
        Setting {
            name: "kernel_us",
            default: 10.0,
            range: (0.0, 1e6),
            about: "report only kernels that take at least this long, in µs",
        },
        Setting {
            name: "scale",
            default: 0.25,
            range: (0.0, 1.0),
            about: "assumed fraction of the time of float32 products that remains with tensor cores, on A100, H100 and \
                 later GPUs",
        },
        Setting {
            name: "scale_others",
            default: 0.5,
            range: (0.0, 1.0),
            about: "assumed fraction of the time of float32 products that remains with tensor cores, on other GPUs, \
                 where TF32 is hardly faster than float32",
        },
    ],
    advice_variants: &[AdviceVariant {
        programs: "programs on GPUs without TF32 and bfloat16 (compute capability below 8, such as V100)",
        condition: ProgramCondition::Where(|context| !context.devices().iter().any(knows_tf32)),
        kind: None,
        advice: "Use autocast with float16: tensor cores of these GPUs support neither TF32 nor bfloat16, which \
             require compute capability 8 (such as A100). Keep dimensions multiples of 8.",
        example: ("y = x @ w", "with torch.autocast(\"cuda\", dtype=torch.float16):\n    y = x @ w"),
    }],
    properties: &[],
    check,
};

/// Name parts of GPUs whose tensor cores compute TF32 at about 8 times the float32 rate.
const FAST_TF32: &[&str] = &["A100", "A800", "H100", "H200", "H800", "B100", "B200", "B300"];
/// Name parts of kernels that compute float32 products without tensor cores, in lower case.
const FLOAT32: &[&str] =
    &["sgemm", "scudnn", "gemm_f32f32_f32f32", "dgrad_engine<float", "wgrad_alg0_engine<float", "dgrad2d_alg1_1<float"];
/// Name parts of kernels with tensor cores, which take precedence over the list above.
const TENSOR_CORES: &[&str] = &["tensorop", "tf32", "884", "1688", "16816", "bf16", "f16"];

/// Find float32 products and convolutions without tensor cores on a GPU that has these; at most one candidate.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let devices = context.devices();
    let Some(model) = devices.iter().find(|device| has_tensor_cores(device)) else { return Vec::new() };
    let mut kernels = context.named(&[EventKind::Kernel], |name| {
        let name = name.to_ascii_lowercase();
        FLOAT32.iter().any(|part| name.contains(part)) && !TENSOR_CORES.iter().any(|part| name.contains(part))
    });
    let least = (context.setting("kernel_us") * 1e3) as i64;
    kernels.retain(|&kernel| context.dur(kernel) >= least);
    candidate(context, model.name.as_deref().unwrap_or("the GPU"), kernels).into_iter().collect()
}

/// Test if a device is an NVIDIA GPU with tensor cores: from Volta on, except for the GTX 16 series.
fn has_tensor_cores(device: &Device) -> bool {
    let by_name = device.is_named(&["V100", "A100", "H100", "H200", "B200", "RTX"]);
    let by_number = device.compute_capability.is_some_and(|(major, _)| major >= 7);
    (by_name || by_number) && device.vendor != Some(Vendor::Amd) && !device.is_named(&["GTX 16"])
}

/// Candidate for all float32 kernels; `None` if their share of GPU time is small.
fn candidate(context: &RuleContext<'_>, model: &str, kernels: Vec<EventId>) -> Option<Candidate> {
    let ns = context.total(&kernels);
    let share = context.percent_of_gpu(ns);
    if kernels.is_empty() || share < context.setting("share") {
        return None;
    }
    let is_fast = FAST_TF32.iter().any(|part| model.contains(part));
    let scale = context.setting(if is_fast { "scale" } else { "scale_others" });
    let gain_estimate = context.scaled([scale, scale / 2.0, scale * 2.0], "kernel:~sgemm|scudnn", &kernels)?;
    let (place, _) = context.by_code(&kernels).into_iter().next()?;
    Some(Candidate {
        title: format!(
            "Float32 products without tensor cores: {share:.0} % of GPU time on {model} (gain assumes that {scale} \
                 of this time remains)"
        ),
        place,
        facts: vec![
            Fact::count("kernels", kernels.len()),
            Fact::time("total time of the kernels per step", context.per_step(ns)),
            Fact::time("mean", ns / kernels.len() as i64),
        ],
        events: kernels,
        kind: None,
        support: Support::Inferred,
        confidence: Confidence::Medium,
        gain_estimate,
    })
}

/// True for GPUs that support TF32: compute capability 8 or more. If the trace lacks it, all models except known older
/// ones.
fn knows_tf32(device: &Device) -> bool {
    let is_older = device.is_named(&["V100", "T4", "TITAN", "RTX 20", "Quadro RTX"]);
    device.compute_capability.map_or(!is_older, |(major, _)| major >= 8)
}
