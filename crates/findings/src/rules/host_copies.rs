//! SL064: copies between host and GPU on the critical path.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use rustc_hash::FxHashSet;
use stackline_critical_path::exact::what_if::Action;
use stackline_model::gpu_calls::{CopyDirection, copy_direction};
use stackline_model::{EventId, EventKind, Unit, format};
use stackline_timeline::confidence::Confidence;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL064",
    name: "host-copies-on-path",
    area: Area::Copies,
    about: "computation waits for copies between host and GPU",
    why: "PCI Express is 20 to 100 times slower than the GPU's own memory. While all other work waits for a copy, \
        the GPU computes nothing.",
    gain_methods: &[GainMethod::Speculative],
    gain_text: "The estimate removes all copies in the reported direction and from or to the reported kind of memory, \
                and the calls that start them (what-if operation `remove`). The upper bound also removes operators \
                that only copy. No trace shows how much \
         of the data can stay on the GPU.",
    advice: "Keep repeatedly copied data on the GPU: offloaded weights, caches, tables. If it does not fit, prefetch \
        the next copy during computation (another stream, pinned memory, non_blocking=True). Do more work per copy \
        (larger batches), and copy fewer bytes (bfloat16, quantized weights).",
    example: (
        "pipe.enable_sequential_cpu_offload()\npipe(prompt)",
        "pipe.to(\"cuda\")  # or pipe.enable_model_cpu_offload(): one copy of a model, not one of each layer\npipe(prompt)",
    ),
    cost: "GPU memory for the data that stays there",
    false_positives: "The copies are needed if the window covers the loading of a model, which happens once, or if \
        the data does not fit on the GPU. The gain assumes that none of the reported copies is needed. The upper \
        bound also removes operators that only copy.",
    source: "Yang et al., critical paths across threads (CTDA-CPA): bottleneck of the critical path; common practice",
    needs: &[Requirement::GpuWork],
    settings: &[
        Setting {
            name: "share",
            default: 10.0,
            range: (0.0, 100.0),
            about: "report only copies that take at least this percentage of the critical path",
        },
        Setting {
            name: "kib",
            default: 64.0,
            range: (0.0, 1e9),
            about: "report only copies of at least this size, in KiB; smaller copies take as long as the call itself",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Find copies between host and GPU on the critical path, one candidate per kind; not from pageable memory to the GPU.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let least = (context.setting("kib") * 1024.0) as i64;
    // Copies to the GPU from pageable memory belong to SL011.
    let is_host_copy = |name: &str| {
        copy_direction(name).is_some_and(|direction| direction != CopyDirection::OnDevice)
            && !name.contains("Pageable -> Device")
    };
    let mut copies = context.named(&[EventKind::Memcpy], is_host_copy);
    copies.retain(|&copy| bytes(context, copy).is_none_or(|bytes| bytes >= least));
    context.by_name(&copies).into_iter().filter_map(|(name, of)| candidate(context, name, of)).collect()
}

/// Recorded size of a copy in bytes; `None` if not recorded.
fn bytes(context: &RuleContext<'_>, copy: EventId) -> Option<i64> {
    let trace = context.trace();
    ["bytes", "Bytes"].into_iter().find_map(|key| trace.attr(key).i64(copy)).filter(|&bytes| bytes >= 0)
}

/// Candidate for copies of one kind (name); `None` if their share of the critical path is small.
fn candidate(context: &RuleContext<'_>, name: &str, copies: Vec<EventId>) -> Option<Candidate> {
    let on_path = context.on_path();
    let ns: i64 = copies.iter().filter_map(|event| on_path.get(event)).sum();
    if ns == 0 || context.percent(ns) < context.setting("share") {
        return None;
    }
    let (place, _) = context.by_place(&copies).into_iter().max_by_key(|(_, of)| context.total(of))?;
    let remove = context.edit(Action::Remove, format!("kernel:{name}"), &copies)?;
    let all = context.total(&copies);
    let mut facts = vec![
        Fact::count("copies", copies.len()),
        Fact::time(
            "time of copies on the critical path per step, including the gaps before the copies",
            context.per_step(ns),
        ),
        Fact::time("total time of the copies per step", context.per_step(all)),
    ];
    let sizes: Option<Vec<i64>> = copies.iter().map(|&copy| bytes(context, copy)).collect();
    let moved = sizes.map(|sizes| sizes.into_iter().fold(0_i64, i64::saturating_add));
    if let Some(moved) = moved {
        facts.push(Fact { name: "bandwidth in GB/s", value: moved as f64 / all.max(1) as f64, unit: Unit::None });
    }
    let each = context.words().per_step_suffix();
    let share = context.percent(ns);
    Some(Candidate {
        title: match moved.map(|moved| format::bytes(context.per_step(moved).unsigned_abs())) {
            Some(bytes) => format!("Copies of {bytes}{each} ({name}): {share:.0} % of the critical path"),
            None => format!("Copies ({name}): {share:.0} % of the critical path"),
        },
        place,
        facts,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Medium,
        gain_estimate: match context.edit(
            Action::Remove,
            "operators that only copy",
            &copying_operators(context, &copies),
        ) {
            Some(operators) => GainEstimate::speculative_range(vec![remove.clone()], vec![remove, operators]),
            None => GainEstimate::speculative(vec![remove]),
        },
        events: copies,
    })
}

/// Outermost operators that launched only these copies. Data that stays on the GPU does not need them.
fn copying_operators(context: &RuleContext<'_>, copies: &[EventId]) -> Vec<EventId> {
    let trace = context.trace();
    let operator = |call: EventId| trace.ancestors(call).filter(|&e| trace.kind(e) == EventKind::Operator).last();
    let copies: FxHashSet<EventId> = copies.iter().copied().collect();
    let mut only: BTreeMap<EventId, bool> = BTreeMap::new();
    for gpu in trace.gpu.ids().map(|gpu| gpu.index()) {
        if let Some(operator) = trace.gpu.launch[gpu].some().and_then(operator) {
            *only.entry(operator).or_insert(true) &= copies.contains(&trace.gpu.event[gpu]);
        }
    }
    only.into_iter().filter_map(|(operator, only)| only.then_some(operator)).collect()
}
