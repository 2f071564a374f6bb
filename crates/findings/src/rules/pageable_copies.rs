//! SL011: copies to the GPU from pageable memory.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::{Action, Edit};
use stackline_model::{EventId, EventKind};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;

// Without steps, one-time copies such as a model's weights cannot be distinguished from repeated ones.
pub(super) const RULE: Rule = Rule {
    code: "SL011",
    name: "pageable-copies",
    area: Area::Copies,
    about: "copies to the GPU come from pageable (not pinned) memory",
    why: "Such a copy goes through a buffer of the driver, which is slower, and the host waits until the copy ends.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate shortens the copies to the time that their bytes need from pinned memory (what-if \
         operation `scale`). The estimate also removes the waits of the host in the calls that copy (`remove`). The \
         assumed bandwidth is measured on copies from pinned memory in the same trace. Without such copies, it is \
         the usual bandwidth of the GPU model. For an unknown model, it is the setting `SL011.gb_per_s`. The bounds \
         of the gain assume copies that take 0.8 and 1.25 times the estimated time.",
    advice: "Pin the memory and copy asynchronously: pin_memory=True for the DataLoader, or tensor.pin_memory(), and \
         .to(device, non_blocking=True).",
    example: (
        "loader = DataLoader(data, batch_size=64)\nx = x.to(\"cuda\")",
        "loader = DataLoader(data, batch_size=64, pin_memory=True)\nx = x.to(\"cuda\", non_blocking=True)",
    ),
    cost: "the change takes one argument per call; pinned memory cannot be swapped out",
    false_positives: "Pinning does not help if the host writes new data into pageable memory each time. The program \
                      must then first copy these data into pinned memory. The bandwidth of pinned memory is \
                      estimated from other copies of the trace, otherwise from the GPU model or a setting. The \
                      bounds of the gain assume copies that take 0.8 and 1.25 times the estimated time.",
    source: "common practice",
    needs: &[Requirement::GpuWork, Requirement::RuntimeCalls, Requirement::Step],
    settings: &[
        Setting {
            name: "kib",
            default: 64.0,
            range: (0.0, 1e9),
            about: "report only copies of at least this size, in KiB; smaller copies take as long as the call itself",
        },
        Setting {
            name: "gb_per_s",
            default: 12.0,
            range: (0.1, 1000.0),
            about: "assumed bandwidth of copies from pinned memory, in GB/s, if neither other copies in the trace \
                 nor the GPU model determine it; the default is for PCIe 3",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Name parts of GPUs, and the bandwidth of pinned memory in GB/s: about 0.8 of their PCI Express.
const PINNED_BANDWIDTH_BY_NAME: &[(&str, f64)] = &[
    ("H100", 50.0),
    ("H200", 50.0),
    ("B200", 50.0),
    ("MI300", 50.0),
    ("MI325", 50.0),
    ("MI355", 50.0),
    ("A100", 25.0),
    ("A40", 25.0),
    ("A10", 25.0),
    ("L40", 25.0),
    ("L4", 25.0),
    ("MI210", 25.0),
    ("MI250", 25.0),
];

/// Least size of a copy for measuring bandwidth, in bytes.
const MIN_BANDWIDTH_BYTES: i64 = 1 << 20;

/// Find copies to the GPU from pageable memory, one candidate per source location.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let least = (context.setting("kib") * 1024.0) as i64;
    let is_pageable = |name: &str| name.contains("Pageable -> Device");
    let mut copies = context.named(&[EventKind::Memcpy], is_pageable);
    copies.retain(|&copy| bytes(context, copy) >= least.max(1));
    if copies.is_empty() {
        return Vec::new();
    }
    let pinned = pinned_bandwidth(context);
    let by_place = context.by_place(&copies).into_iter();
    by_place.filter_map(|(place, of)| candidate(context, place, of, pinned)).collect()
}

/// Recorded size of a copy in bytes; 0 if not recorded.
fn bytes(context: &RuleContext<'_>, copy: EventId) -> i64 {
    let trace = context.trace();
    ["bytes", "Bytes"].into_iter().find_map(|key| trace.attr(key).i64(copy)).unwrap_or(0)
}

/// Bandwidth of copies in bytes per ns, which is GB/s.
fn bandwidth(context: &RuleContext<'_>, copies: &[EventId]) -> f64 {
    let all: i64 = copies.iter().map(|&copy| bytes(context, copy)).sum();
    all as f64 / context.total(copies).max(1) as f64
}

/// Bandwidth of pinned memory in GB/s: measured in the trace, else by the GPU's name, else by the setting.
fn pinned_bandwidth(context: &RuleContext<'_>) -> f64 {
    let mut pinned = context.named(&[EventKind::Memcpy], |name| name.contains("Pinned -> Device"));
    pinned.retain(|&copy| bytes(context, copy) >= MIN_BANDWIDTH_BYTES);
    if !pinned.is_empty() {
        return bandwidth(context, &pinned);
    }
    let devices = context.devices();
    let known = PINNED_BANDWIDTH_BY_NAME.iter().find(|(name, _)| devices.iter().any(|device| device.is_named(&[name])));
    known.map_or_else(|| context.setting("gb_per_s"), |&(_, gb_per_s)| gb_per_s)
}

/// Bounds of the bandwidth, as multiples of the expected one.
const BANDWIDTH_BOUNDS: &[f64] = &[0.8, 1.25];

/// Candidate for copies at one source location, with the bandwidth of pinned memory in GB/s.
fn candidate(context: &RuleContext<'_>, place: SourceLocation, copies: Vec<EventId>, pinned: f64) -> Option<Candidate> {
    let is = bandwidth(context, &copies);
    let all: i64 = copies.iter().map(|&copy| bytes(context, copy)).sum();
    let others = BANDWIDTH_BOUNDS.iter().filter_map(|apart| edits(context, &copies, is / pinned * apart)).collect();
    Some(Candidate {
        title: format!(
            "Pageable copies: {:.1} MB{} to the GPU from memory that is not pinned",
            context.per_step(all) as f64 / 1e6,
            context.words().per_step_suffix()
        ),
        place,
        facts: vec![
            Fact::count("copies", copies.len()),
            Fact {
                name: "bandwidth of copies from pageable memory in GB/s",
                value: is,
                unit: stackline_model::Unit::None,
            },
            Fact {
                name: "bandwidth of copies from pinned memory in GB/s",
                value: pinned,
                unit: stackline_model::Unit::None,
            },
            Fact::time("time of copies from pageable memory per step", context.per_step(context.total(&copies))),
        ],
        gain_estimate: GainEstimate::range(edits(context, &copies, is / pinned)?, others),
        events: copies,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Medium,
    })
}

/// Edits that scale the copies to the speed of pinned memory, and remove the host's waits in their calls.
fn edits(context: &RuleContext<'_>, copies: &[EventId], factor: f64) -> Option<Vec<Edit>> {
    let trace = context.trace();
    let launch = |&copy: &EventId| trace.gpu.of_event(copy).and_then(|gpu| trace.gpu.launch[gpu.index()].some());
    let calls: Vec<EventId> = copies.iter().filter_map(launch).collect();
    let scale = context.edit(Action::Scale(factor.min(1.0)), "kernel:Memcpy HtoD (Pageable -> Device)", copies)?;
    let waits = context.edit(Action::Remove, "wait:cudaMemcpyAsync", &calls);
    Some(std::iter::once(scale).chain(waits).collect())
}
