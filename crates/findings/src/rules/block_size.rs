//! SL035: kernels whose block size is not a multiple of the warp size.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use serde_json::Value;
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{Device, EventId, Vendor};
use stackline_timeline::confidence::Confidence;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL035",
    name: "block-size",
    area: Area::Kernels,
    about: "a hot kernel has a block size that leaves GPU lanes idle",
    why: "GPUs run threads in groups: warps of 32 on NVIDIA, wavefronts of 64 on AMD data-center GPUs. A partly filled \
        group takes as long as a full group.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimated new time of a kernel is its time × threads per block / threads per block rounded up to \
                whole warps (what-if operation `scale`).",
    advice: "Choose a multiple of the warp size as the number of threads per block: num_warps of a Triton kernel, or \
        the block size of a CUDA or HIP kernel. If the kernel is part of a library, report it there.",
    example: ("kernel<<<n / 48, 48>>>(x)", "kernel<<<n / 64, 64>>>(x)"),
    cost: "one changed block size, and a measurement of the kernel with the new block size",
    false_positives: "Another block size does not help if the kernel is memory-bound or launches few blocks. The gain \
        assumes that idle lanes would do useful work.",
    source: "vendors' programming guides; DeepContext paper, table 3 (threads per block)",
    needs: &[Requirement::GpuWork, Requirement::GpuModel],
    settings: &[
        Setting {
            name: "share",
            default: 2.0,
            range: (0.0, 100.0),
            about: "report only kernels that take at least this percentage of GPU busy time",
        },
        Setting {
            name: "blocks",
            default: 64.0,
            range: (1.0, 1e9),
            about: "report only launches with at least this many blocks; fewer blocks do not fill the GPU at any block \
                 size",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Upper limit of plausible threads per block.
const MAX_THREADS: i64 = 1 << 16;

/// Find hot kernels whose number of threads per block is not a multiple of the warp size.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let Some(group) = warp_size(&context.devices()) else { return Vec::new() };
    let kernels = context.kernels();
    let hot = context.by_name(&kernels).into_iter();
    let hot = hot.filter(|(_, of)| context.percent_of_gpu(context.total(of)) >= context.setting("share"));
    hot.flat_map(|(name, of)| {
        let mut by_threads: BTreeMap<i64, Vec<EventId>> = BTreeMap::new();
        for kernel in of {
            let fills = launch_size(context, "grid", kernel).is_some_and(|n| n as f64 >= context.setting("blocks"));
            let threads =
                launch_size(context, "block", kernel).filter(|n| (1..=MAX_THREADS).contains(n) && n % group != 0);
            if let Some(threads) = threads.filter(|_| fills) {
                by_threads.entry(threads).or_default().push(kernel);
            }
        }
        by_threads.into_iter().filter_map(move |(threads, of)| candidate(context, name, of, (threads, group)))
    })
    .collect()
}

/// Property that all devices of the trace share; `None` if devices differ, or if unknown.
pub(super) fn common_property<T: PartialEq>(devices: &[Device], property: impl Fn(&Device) -> Option<T>) -> Option<T> {
    let mut all: Vec<Option<T>> = devices.iter().map(property).collect();
    all.dedup();
    if all.len() == 1 { all.pop()? } else { None }
}

/// Threads per warp or wavefront, common to all devices: recorded, or else by vendor or product; `None` if unknown.
pub(super) fn warp_size(devices: &[Device]) -> Option<i64> {
    common_property(devices, |device| match device.vendor {
        _ if device.warp_size.is_some() => device.warp_size,
        Some(Vendor::Nvidia) => Some(32),
        // AMD's Radeon GPUs have wavefronts of 32 or 64.
        _ if device.is_named(&["Instinct"]) => Some(64),
        _ => None,
    })
}

/// Product of the sizes of a kernel's `block` or `grid`: threads per block, or blocks per grid; `None` if not recorded.
pub(super) fn launch_size(context: &RuleContext<'_>, key: &str, kernel: EventId) -> Option<i64> {
    let sizes = context.json(key, kernel)?;
    sizes.as_array()?.iter().map(Value::as_i64).try_fold(1_i64, |product, n| product.checked_mul(n?))
}

/// Candidate for launches of one kernel with one block size; `None` below the share of GPU time.
fn candidate(
    context: &RuleContext<'_>,
    name: &str,
    kernels: Vec<EventId>,
    (threads, group): (i64, i64),
) -> Option<Candidate> {
    let ns = context.total(&kernels);
    let share = context.percent_of_gpu(ns);
    if share < context.setting("share") {
        return None;
    }
    let lanes = (threads + group - 1) / group * group;
    let edit = context.edit(Action::Scale(threads as f64 / lanes as f64), format!("kernel:{name}"), &kernels)?;
    let (place, _) = context.by_code(&kernels).into_iter().next()?;
    Some(Candidate {
        title: format!(
            "Block size: {} has {threads} threads per block, but the GPU runs {group} at a time, so {:.0} % of lanes \
             are idle",
            super::shorten_name(name),
            100.0 * (lanes - threads) as f64 / lanes as f64
        ),
        place,
        facts: vec![
            Fact::count("calls", kernels.len()),
            Fact::count("threads per block", threads as usize),
            Fact::time("time of the kernel per step", context.per_step(ns)),
        ],
        events: kernels,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Low,
        gain_estimate: GainEstimate::edits(vec![edit]),
    })
}
