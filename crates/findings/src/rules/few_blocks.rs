//! SL041: kernels with fewer blocks than the GPU has multiprocessors, although their blocks could be divided.

use super::block_size::{common_property, launch_size, warp_size};
use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::EventId;
use stackline_timeline::confidence::Confidence;
use stackline_timeline::kernel_type::KernelType;
use stackline_timeline::vocabulary::kernels::has_fixed_grid;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: Rule = Rule {
    code: "SL041",
    name: "few-blocks",
    area: Area::Kernels,
    about: "a hot kernel launches fewer blocks than the GPU has multiprocessors, although its blocks could be smaller",
    why: "A block runs on one multiprocessor. With fewer blocks than multiprocessors, some multiprocessors are idle. \
          Block sizes that suit one vendor's GPU give too few blocks on another GPU with more multiprocessors or \
          larger warps.",
    gain_methods: &[GainMethod::Speculative],
    gain_text: "The estimate assumes that all multiprocessors can be used. It multiplies the time of the kernels by \
         the number of blocks divided by the number of multiprocessors, but not by less than the warp size divided \
         by the threads per block (what-if operation `scale`).",
    advice: "Launch more and smaller blocks on this GPU, or divide a reduction among blocks. In PyTorch, use another \
        implementation of the operator, or report the operator to PyTorch with the numbers of this finding.",
    example: ("kernel<<<40, 512>>>(x)", "kernel<<<160, 128>>>(x)"),
    cost: "one changed block size, and a measurement of the kernel with the new block size",
    false_positives: "Smaller blocks do not help if other kernels already use the idle multiprocessors, if the threads \
        of a block must cooperate, or if the kernel is memory-bound. Kernels that limit their blocks by design are not \
        reported: communication, cooperative, persistent and attention kernels (recognized by their names), and those \
        with one grid for all input sizes. The estimated gain assumes that twice as many \
        multiprocessors in use halve the time, and that a block has at least one warp.",
    source: "DeepContext paper, section 6.4 (instance norm of U-Net on MI250: fewer blocks than on A100 with the same number of \
             threads)",
    needs: &[Requirement::GpuWork, Requirement::GpuModel],
    settings: &[
        Setting {
            name: "share",
            default: 5.0,
            range: (0.0, 100.0),
            about: "report only kernels that take at least this percentage of GPU busy time",
        },
        Setting {
            name: "filled",
            default: 50.0,
            range: (0.0, 100.0),
            about: "report only kernels whose blocks use at most this percentage of the multiprocessors",
        },
        Setting {
            name: "mean_us",
            default: 20.0,
            range: (0.0, 1e6),
            about: "report only kernels with at least this mean duration, in µs; shorter kernels consist mostly of \
                 launch overhead",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Number of blocks, and threads per block.
type Shape = (i64, i64);

/// Test if a kernel's number of blocks was chosen for the GPU instead of the work, as for persistent kernels.
fn has_intended_grid(context: &RuleContext<'_>, name: &str, kernels: &[EventId], units: i64) -> bool {
    let trace = context.trace();
    let is_cooperative = |&kernel: &EventId| {
        let launch = trace.gpu.of_event(kernel).and_then(|gpu| trace.gpu.launch[gpu.index()].some());
        launch.is_some_and(|launch| trace.name(launch).contains("Cooperative"))
    };
    // Kernels that are known as communication are excluded before.
    has_fixed_grid(name) || kernels.iter().any(is_cooperative) || is_one_grid_for_all(context, kernels, units)
}

/// Test if all launches have one number of blocks, although inputs differ in size. Also true for a multiple of `units`,
/// the number of multiprocessors.
fn is_one_grid_for_all(context: &RuleContext<'_>, kernels: &[EventId], units: i64) -> bool {
    let trace = context.trace();
    let blocks: BTreeSet<i64> = kernels.iter().filter_map(|&kernel| launch_size(context, "grid", kernel)).collect();
    let [blocks] = blocks.into_iter().collect::<Vec<_>>()[..] else { return false };
    let dims = trace.attr("Input Dims");
    let shapes = kernels.iter().filter_map(|&kernel| {
        let operator = context.stack(kernel).find(|&e| context.is_operator(e))?;
        dims.get(operator)?.as_str(&trace.strings)
    });
    blocks % units == 0 || shapes.collect::<BTreeSet<&str>>().len() > 1
}

/// Find hot kernels with fewer blocks than multiprocessors, whose blocks could be divided into smaller ones.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let devices = context.devices();
    let units = common_property(&devices, |device| device.multiprocessors);
    let Some((group, units)) = warp_size(&devices).zip(units) else { return Vec::new() };
    // Collectives use few multiprocessors by design, as they wait for other ranks.
    let mut types = context.kernel_types();
    let computes = |kernel: &EventId| types.of_event(*kernel) == KernelType::Computation;
    let kernels: Vec<EventId> = context.kernels().into_iter().filter(computes).collect();
    let hot = context.by_name(&kernels).into_iter();
    let hot = hot.filter(|(_, of)| context.percent_of_gpu(context.total(of)) >= context.setting("share"));
    let hot = hot.filter(|(name, of)| !has_intended_grid(context, name, of, units));
    hot.flat_map(|(name, of)| {
        let mut by_shape: BTreeMap<Shape, Vec<EventId>> = BTreeMap::new();
        for kernel in of {
            let shape = launch_size(context, "grid", kernel).zip(launch_size(context, "block", kernel));
            let is_few = |(blocks, threads): &Shape| {
                let filled = 100.0 * *blocks as f64 / units as f64;
                *blocks > 0 && filled <= context.setting("filled") && *threads >= 2 * group
            };
            if let Some(shape) = shape.filter(is_few) {
                by_shape.entry(shape).or_default().push(kernel);
            }
        }
        by_shape.into_iter().filter_map(move |(shape, of)| candidate(context, name, of, shape, (group, units)))
    })
    .collect()
}

/// Candidate for launches of one kernel with one shape; `None` if the kernels are short or their share is small.
fn candidate(
    context: &RuleContext<'_>,
    name: &str,
    kernels: Vec<EventId>,
    (blocks, threads): Shape,
    (group, units): (i64, i64),
) -> Option<Candidate> {
    let ns = context.total(&kernels);
    let mean = ns as f64 / kernels.len() as f64;
    if context.percent_of_gpu(ns) < context.setting("share") || mean < 1e3 * context.setting("mean_us") {
        return None;
    }
    let left = (blocks as f64 / units as f64).max(group as f64 / threads as f64);
    let edit = context.edit(Action::Scale(left.min(1.0)), format!("kernel:{name}"), &kernels)?;
    let (place, _) = context.by_code(&kernels).into_iter().next()?;
    Some(Candidate {
        title: format!(
            "Too few blocks: {} launches {blocks} blocks of {threads} threads on {units} multiprocessors, {} (gain \
             assumes that all multiprocessors are used)",
            super::shorten_name(name),
            context.words().time_per_step(context.per_step(ns))
        ),
        place,
        facts: vec![
            Fact::count("calls", kernels.len()),
            Fact::count("blocks", blocks as usize),
            Fact::count("threads per block", threads as usize),
            Fact::count("multiprocessors", units as usize),
            Fact::time("total time of the kernel per step", context.per_step(ns)),
        ],
        events: kernels,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Low,
        gain_estimate: GainEstimate::speculative(vec![edit]),
    })
}
