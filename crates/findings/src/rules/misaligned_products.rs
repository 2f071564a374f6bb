//! SL063: matrix products on tensor cores whose dimensions are no multiples of 8.

use crate::{Area, Candidate, Fact, Requirement, Rule, RuleContext, Setting, Support};
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, Unit};
use stackline_timeline::confidence::Confidence;

pub(super) const RULE: Rule = Rule {
    code: "SL063",
    name: "misaligned-products",
    area: Area::Kernels,
    about: "matrix products run on tensor cores with a dimension that is no multiple of 8",
    why: "Rows of a matrix then do not begin at multiples of 16 bytes: its elements are read one by one or in pairs instead of 16 bytes \
          at once, by kernels of older GPUs.",
    advice: "Pad that dimension to a multiple of 8, better of 64: a vocabulary of 50,257 to 50,304, classes, channels, widths of layers.",
    example: (
        "head = nn.Linear(width, 50257)",
        "head = nn.Linear(width, 50304)  # a multiple of 64; the last 47 are never a label",
    ),
    cost: "a few rows of weights more; a checkpoint of the old size is padded once",
    false_positives: "The dimension is given from outside and changes in each step. The gain supposes `scale` of their time, its bounds half \
                 and more than twice of that. Measured on an H100: 0.19 (a vocabulary of 50,257, bfloat16).",
    source: "NVIDIA's guide for matrix multiplication; field practice (nanoGPT's vocabulary of 50,304)",
    needs: &[Requirement::GpuWork],
    settings: &[
        Setting::share_of_gpu(3.0),
        Setting {
            name: "scale",
            default: 0.25,
            range: (0.0, 1.0),
            about: "what is left of their time with aligned rows",
        },
    ],
    advice_variants: &[],
    check,
};

/// Parts of names of kernels that use tensor cores, in lower case.
const TENSOR_CORES: &[&str] = &["tensorop", "884gemm", "1688gemm", "16816gemm"];
/// What their names say of so many elements that are read at once; 4 are all of TF32's 16 bytes.
const MISALIGNED: &[&str] = &["align1", "align2"];
/// How much more and less may be left than is supposed.
const LEAST: f64 = 0.5;
const MOST: f64 = 2.4;
/// A dimension that tensor cores like.
const MULTIPLE: i64 = 8;

fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let kernels = context.named(&[EventKind::Kernel], is_misaligned);
    candidate(context, kernels).into_iter().collect()
}

fn is_misaligned(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_whole = |part: &&str| {
        name.match_indices(*part)
            .any(|(at, _)| !name[at + part.len()..].starts_with(|next: char| next.is_ascii_digit()))
    };
    TENSOR_CORES.iter().any(|part| name.contains(part)) && MISALIGNED.iter().any(is_whole)
}

fn candidate(context: &RuleContext<'_>, kernels: Vec<EventId>) -> Option<Candidate> {
    let ns = context.total(&kernels);
    let share = context.percent_of_gpu(ns);
    if kernels.is_empty() || share < context.setting("share") {
        return None;
    }
    let scale = context.setting("scale");
    let gain_estimate = context.scaled([scale, scale * LEAST, scale * MOST], "kernel:~align[12]", &kernels)?;
    let (place, _) = context.by_code(&kernels).into_iter().next()?;
    let dimension = dimension(context, &kernels);
    let which = dimension.map(|n| format!(" ({n})")).unwrap_or_default();
    let mut facts = vec![
        Fact::count("kernels", kernels.len()),
        Fact::time("together, a step", context.per_step(ns)),
        Fact::time("mean", ns / kernels.len() as i64),
    ];
    facts.extend(dimension.map(|n| Fact { name: "dimension", value: n as f64, unit: Unit::None }));
    Some(Candidate {
        title: format!(
            "products with a dimension that is no multiple of {MULTIPLE}{which} take {share:.0} % of the GPU's time; if they took {scale} times as long"
        ),
        place,
        facts,
        events: kernels,
        support: Support::Inferred,
        confidence: Confidence::Medium,
        gain_estimate,
    })
}

/// The dimension that is no multiple of 8 and is in the operators of most of the kernels' time, where shapes were recorded.
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

/// Of a matrix, or of many, the last two dimensions.
fn odd_dimensions(shape: &serde_json::Value) -> Vec<i64> {
    let sizes: Vec<i64> = shape.as_array().into_iter().flatten().filter_map(serde_json::Value::as_i64).collect();
    let matrix = if sizes.len() >= 2 { &sizes[sizes.len() - 2..] } else { &[] };
    matrix.iter().copied().filter(|size| size % MULTIPLE != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::is_misaligned;

    #[test]
    fn names_tell_how_many_elements_are_read_at_once() {
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
