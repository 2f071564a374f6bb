//! SL014: attention as separate matrix product, softmax and matrix product.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::EventId;
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::aten;

pub(super) const RULE: Rule = Rule {
    code: "SL014",
    name: "unfused-attention",
    area: Area::Kernels,
    about: "attention writes all scores to memory between its two matrix products, because the softmax is a separate \
         kernel",
    why: "The size of the scores grows with the square of the sequence length. Scaling, masking and softmax each read \
         and write all of them.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate removes all GPU work between the two matrix products, including softmax, and the \
         operators that launch only this work (what-if operation `remove`). The products stay unchanged. The upper \
         bound also removes the products and the copies next to them.",
    advice: "Call torch.nn.functional.scaled_dot_product_attention (transformers: attn_implementation=\"sdpa\") with \
         shapes, dtypes and a mask that its flash, memory-efficient or cuDNN backend supports.",
    example: (
        "scores = (q @ k.transpose(-2, -1)) * scale\ny = scores.softmax(-1) @ v",
        "y = F.scaled_dot_product_attention(q, k, v, scale=scale)",
    ),
    cost: "the change takes a few lines; the fused operator does not return attention weights",
    false_positives: "Attention cannot be fused if the program needs the attention weights, or uses a form of \
         attention without a fused version. The estimate removes the kernels between the two matrix products. The upper bound \
         also removes the matrix products, and the copies of their inputs and outputs.",
    source: "common practice; FlashAttention (Dao 2022)",
    needs: &[Requirement::GpuWork, Requirement::Operators],
    settings: &[Setting {
        name: "share",
        default: 1.0,
        range: (0.0, 100.0),
        about: "report only if the kernels between the two matrix products of attention take at least this percentage \
            of GPU busy time",
    }],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Number of operations to analyze on each side of a softmax.
const SEARCH_DISTANCE: usize = 8;

/// Attention operations: those between the products, all including the products and adjacent copies, and each softmax.
#[derive(Default)]
struct AttentionOperations {
    between: Vec<EventId>,
    all: Vec<EventId>,
    calls: Vec<EventId>,
}

/// Find attention as separate products and softmax in the order of launches; at most one candidate for all.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let mut parts = AttentionOperations::default();
    for order in context.launch_order() {
        let names: Vec<&str> = order.iter().map(|&work| context.operator_name(work)).collect();
        for (at, _) in names.iter().enumerate().filter(|(_, name)| aten::SOFTMAX.contains(name)) {
            let before = distance_to_product(names[..at].iter().rev());
            let after = distance_to_product(names[at + 1..].iter());
            if let (Some(before), Some(after)) = (before, after) {
                parts.calls.push(order[at]);
                parts.between.extend(&order[at - before..=at + after]);
                let (first, last) = (at - before, at + after);
                let from = first - adjacent_operations(names[..first].iter().rev());
                parts.all.extend(&order[from..=last + adjacent_operations(names[last + 1..].iter())]);
            }
        }
    }
    for list in [&mut parts.between, &mut parts.all] {
        list.sort_unstable();
        list.dedup();
    }
    let ns = context.total(&parts.between);
    if parts.between.is_empty() || context.percent_of_gpu(ns) < context.setting("share") {
        return Vec::new();
    }
    candidate(context, parts).into_iter().collect()
}

/// Number of operations between a softmax and the nearest matrix product; `None` if another operation comes first.
fn distance_to_product<'n>(names: impl Iterator<Item = &'n &'n str>) -> Option<usize> {
    for (count, name) in names.take(SEARCH_DISTANCE + 1).enumerate() {
        if aten::BATCHED_PRODUCTS.contains(name) {
            return Some(count);
        }
        if !aten::BETWEEN_PRODUCTS.contains(name) {
            return None;
        }
    }
    None
}

/// Number of adjacent product and copy operations outside of the two products.
fn adjacent_operations<'n>(names: impl Iterator<Item = &'n &'n str>) -> usize {
    names.take(SEARCH_DISTANCE).take_while(|name| aten::BATCHED_PRODUCTS.contains(name) || **name == aten::COPY).count()
}

/// Candidate for all unfused attention, at the source location with most softmax time.
fn candidate(
    context: &RuleContext<'_>,
    AttentionOperations { between, all, calls }: AttentionOperations,
) -> Option<Candidate> {
    let ns = context.total(&between);
    let remove = |work: &[EventId], text: &str| {
        let mut removable = context.operators_launching_only(work);
        removable.extend(work);
        Some(vec![context.edit(Action::Remove, text, &removable)?])
    };
    let likely = remove(&between, "operators between the two matrix products of attention")?;
    let gain_estimate = GainEstimate::range(likely, vec![remove(&all, "all operators of attention")?]);
    let (place, _) = context.by_code(&calls).into_iter().next()?;
    let share = context.percent_of_gpu(ns);
    Some(Candidate {
        title: format!("Unfused attention: kernels between its two matrix products take {share:.0} % of GPU time"),
        place,
        facts: vec![
            Fact::count("softmax", calls.len()),
            Fact::count("kernels between the two matrix products of attention", between.len()),
            Fact::time("time of kernels between the two matrix products of attention per step", context.per_step(ns)),
        ],
        events: between,
        kind: None,
        support: Support::Inferred,
        confidence: Confidence::High,
        gain_estimate,
    })
}
