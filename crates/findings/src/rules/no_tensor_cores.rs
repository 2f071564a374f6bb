//! SL018: matrix products and convolutions in float32 on a GPU with tensor cores.

use crate::{AdviceVariant, Area, Candidate, Fact, Programs, Requirement, Rule, RuleContext, Setting, Support};
use stackline_model::{Device, EventId, EventKind, Vendor};
use stackline_timeline::confidence::Confidence;

pub(super) const RULE: Rule = Rule {
    code: "SL018",
    name: "no-tensor-cores",
    area: Area::Kernels,
    about: "matrix products or convolutions run in float32 without the GPU's tensor cores",
    why: "Tensor cores compute products in TF32, bfloat16 or float16 at 8 times the rate of float32 or more.",
    advice: "Allow TF32 (from A100 on) by torch.set_float32_matmul_precision(\"high\"), or use autocast with bfloat16 or float16; \
             keep dimensions multiples of 8.",
    example: ("y = x @ w", "torch.set_float32_matmul_precision(\"high\")\ny = x @ w"),
    cost: "one line; products are less exact (TF32 keeps 10 bits of the mantissa)",
    false_positives: "The results need full float32, or the products are bound by memory. The gain supposes `scale` of their time on \
                 A100, H100 and their successors, and `scale_others` elsewhere; the bounds hold half and twice of it: large products gain \
                 more, small ones less. Measured on an H100 with TF32: 0.23.",
    source: "field practice; NVIDIA's and PyTorch's guides for mixed precision",
    needs: &[Requirement::GpuWork, Requirement::GpuModel],
    settings: &[
        Setting::share_of_gpu(5.0),
        Setting {
            name: "kernel_us",
            default: 10.0,
            range: (0.0, 1e6),
            about: "shortest kernel that is expected to gain, in µs",
        },
        Setting {
            name: "scale",
            default: 0.25,
            range: (0.0, 1.0),
            about: "what is left of their time with tensor cores, on A100, H100 and their successors",
        },
        Setting {
            name: "scale_others",
            default: 0.5,
            range: (0.0, 1.0),
            about: "what is left of it on other GPUs, whose TF32 is hardly faster than their float32",
        },
    ],
    advice_variants: &[AdviceVariant {
        programs: "on tensor cores that know neither TF32 nor bfloat16 (before compute capability 8, such as V100)",
        which: Programs::Where(|context| !context.devices().iter().any(knows_tf32)),
        fits: |_| true,
        advice: "Use autocast with float16: these tensor cores know neither TF32 nor bfloat16 (from compute capability 8 on, such as \
                 A100); keep dimensions multiples of 8.",
        example: ("y = x @ w", "with torch.autocast(\"cuda\", dtype=torch.float16):\n    y = x @ w"),
    }],
    check,
};

/// Parts of names of GPUs whose tensor cores compute TF32 at 8 times the rate of float32 or nearly.
const FAST_TF32: &[&str] = &["A100", "A800", "H100", "H200", "H800", "B100", "B200", "B300"];
/// Parts of names of kernels that compute products in float32 without tensor cores, in lower case.
const FLOAT32: &[&str] =
    &["sgemm", "scudnn", "gemm_f32f32_f32f32", "dgrad_engine<float", "wgrad_alg0_engine<float", "dgrad2d_alg1_1<float"];
/// Parts of names of those that use them, though their name has one of the others.
const TENSOR_CORES: &[&str] = &["tensorop", "tf32", "884", "1688", "16816", "bf16", "f16"];

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

/// NVIDIA's from Volta on, but for the GTX 16 series.
fn has_tensor_cores(device: &Device) -> bool {
    let by_name = device.is_named(&["V100", "A100", "H100", "H200", "B200", "RTX"]);
    let by_number = device.compute_capability.is_some_and(|(major, _)| major >= 7);
    (by_name || by_number) && device.vendor != Some(Vendor::Amd) && !device.is_named(&["GTX 16"])
}

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
            "products in float32 without tensor cores take {share:.0} % of the time of {model}; if they took {scale} times as long"
        ),
        place,
        facts: vec![
            Fact::count("kernels", kernels.len()),
            Fact::time("together, a step", context.per_step(ns)),
            Fact::time("mean", ns / kernels.len() as i64),
        ],
        events: kernels,
        support: Support::Inferred,
        confidence: Confidence::Medium,
        gain_estimate,
    })
}

/// Compute capability 8 or more; where a trace does not say it, all models but those before.
fn knows_tf32(device: &Device) -> bool {
    let is_older = device.is_named(&["V100", "T4", "TITAN", "RTX 20", "Quadro RTX"]);
    device.compute_capability.map_or(!is_older, |(major, _)| major >= 8)
}
