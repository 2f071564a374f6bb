//! SL063: matrix products on tensor cores with dimensions that are not multiples of 8.

use crate::{Area, Candidate, Fact, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, Unit};
use stackline_timeline::confidence::Confidence;

pub(super) const RULE: Rule = Rule {
    code: "SL063",
    name: "misaligned-products",
    area: Area::Kernels,
    about: "matrix products run on tensor cores with a dimension that is not a multiple of 8",
    why: "Rows of such a matrix do not begin at multiples of 16 bytes. Kernels of older GPUs then load elements one \
         or two at a time instead of 16 bytes at once.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate multiplies the time of tensor core kernels that load one or two elements at once by the \
         setting `SL063.scale` (what-if operation `scale`). The bounds of the gain assume that 0.5 and 2.4 times the \
         estimated time remains.",
    advice: "Pad the dimension to a multiple of 8, better of 64. For example, pad a vocabulary of 50,257 tokens to \
         50,304, or pad the number of classes or channels.",
    example: (
        "head = nn.Linear(width, 50257)",
        "head = nn.Linear(width, 50304)  # a multiple of 64; the last 47 are never a label",
    ),
    cost: "the weights have a few more rows; a checkpoint with the old size must be padded once",
    false_positives: "Padding does not help if the input determines the dimension and changes it in each step. The \
         setting `scale` is the fraction of the kernels' time that the estimate assumes to remain. The bounds are \
         0.5 and 2.4 times `scale`. In a measurement on an H100 (a vocabulary of 50,257, bfloat16), 0.19 of the time \
         remained.",
    source: "NVIDIA's matrix multiplication guide; common practice (nanoGPT's vocabulary of 50,304)",
    needs: &[Requirement::GpuWork],
    settings: &[
        Setting::share_of_gpu(3.0),
        Setting {
            name: "scale",
            default: 0.25,
            range: (0.0, 1.0),
            about: "assumed fraction of the time of the matrix products that remains if matrix rows are aligned to 16 \
                bytes",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Name parts of kernels that use tensor cores, in lower case.
const TENSOR_CORES: &[&str] = &["tensorop", "884gemm", "1688gemm", "16816gemm"];
/// Name parts for the number of elements per load. 4 elements of TF32 are the full 16 bytes.
const MISALIGNED: &[&str] = &["align1", "align2"];
/// Bounds of the remaining time, as multiples of `scale`.
const MIN_SCALE: f64 = 0.5;
const MAX_SCALE: f64 = 2.4;
/// Required multiple of dimensions for aligned loads.
const MULTIPLE: i64 = 8;

/// Find matrix products on tensor cores with misaligned dimensions, by kernel names (`align1`, `align2`); at most one
/// candidate for all.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let kernels = context.named(&[EventKind::Kernel], is_misaligned);
    candidate(context, kernels).into_iter().collect()
}

/// Test by its name if a tensor-core kernel loads only one or two elements at once.
fn is_misaligned(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_whole = |part: &&str| {
        name.match_indices(*part)
            .any(|(at, _)| !name[at + part.len()..].starts_with(|next: char| next.is_ascii_digit()))
    };
    TENSOR_CORES.iter().any(|part| name.contains(part)) && MISALIGNED.iter().any(is_whole)
}

/// Candidate for all misaligned kernels; `None` if their share of GPU time is small.
fn candidate(context: &RuleContext<'_>, kernels: Vec<EventId>) -> Option<Candidate> {
    let ns = context.total(&kernels);
    let share = context.percent_of_gpu(ns);
    if kernels.is_empty() || share < context.setting("share") {
        return None;
    }
    let scale = context.setting("scale");
    let gain_estimate = context.scaled([scale, scale * MIN_SCALE, scale * MAX_SCALE], "kernel:~align[12]", &kernels)?;
    let (place, _) = context.by_code(&kernels).into_iter().next()?;
    let dimension = dimension(context, &kernels);
    let mut facts = vec![
        Fact::count("kernels", kernels.len()),
        Fact::time("total time of the matrix products per step", context.per_step(ns)),
        Fact::time("mean", ns / kernels.len() as i64),
    ];
    facts.extend(dimension.map(|n| Fact { name: "dimension", value: n as f64, unit: Unit::None }));
    Some(Candidate {
        title: match dimension {
            Some(n) => format!(
                "Misaligned matrix products: {share:.0} % of GPU time, dimension {n} is not a multiple of {MULTIPLE} \
                 (gain assumes that aligned products take {scale} of this time)"
            ),
            None => format!(
                "Misaligned matrix products: {share:.0} % of GPU time, a dimension is not a multiple of {MULTIPLE} \
                 (gain assumes that aligned products take {scale} of this time)"
            ),
        },
        place,
        facts,
        events: kernels,
        kind: None,
        support: Support::Inferred,
        confidence: Confidence::Medium,
        gain_estimate,
    })
}

/// Dimension that is not a multiple of 8 and occurs in the operators with most of the kernels' time; none without
/// recorded shapes.
fn dimension(context: &RuleContext<'_>, kernels: &[EventId]) -> Option<i64> {
    let mut time: FxHashMap<i64, i64> = FxHashMap::default();
    for &kernel in kernels {
        let shapes = context.stack(kernel).find_map(|operator| context.json("Input Dims", operator));
        let mut odd: Vec<i64> =
            shapes.iter().flat_map(|shapes| shapes.as_array()).flatten().flat_map(odd_dimensions).collect();
        odd.sort_unstable();
        odd.dedup();
        for dimension in odd {
            *time.entry(dimension).or_default() += context.dur(kernel);
        }
    }
    time.into_iter().max_by_key(|&(dimension, ns)| (ns, dimension)).map(|(dimension, _)| dimension)
}

/// Dimensions of a matrix, or the last two of a batch of matrices, that are not multiples of 8.
fn odd_dimensions(shape: &serde_json::Value) -> Vec<i64> {
    let sizes: Vec<i64> = shape.as_array().into_iter().flatten().filter_map(serde_json::Value::as_i64).collect();
    let matrix = if sizes.len() >= 2 { &sizes[sizes.len() - 2..] } else { &[] };
    matrix.iter().copied().filter(|size| size % MULTIPLE != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::is_misaligned;

    #[test]
    fn kernel_names_state_the_elements_per_load() {
        for (name, is) in [
            ("void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>(Params)", true),
            ("cutlass_80_tensorop_f16_s16816gemm_f16_64x64_32x6_nn_align2", true),
            ("cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align4", false),
            ("cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8", false),
            ("some_tensorop_gemm_align16", false),
            ("cutlass_80_simt_sgemm_64x64_8x5_nn_align1", false),
            ("nvjet_sm90_tst_128x128_64x6_1x2_h_bz_NNT", false),
        ] {
            assert_eq!(is_misaligned(name), is, "{name}");
        }
    }
}
