//! SL041: kernels that launch fewer blocks than the GPU has multiprocessors, though their blocks could be divided.

use super::block_size::{group_size, of_all, product};
use crate::critical_path::exact::what_if::Action;
use crate::findings::{Area, Confidence, Draft, Fact, Need, Rule, Setting, Subject, Support, Worth};
use crate::kernel_type::KernelType;
use serde_json::Value;
use stackline_model::EventId;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL041",
    name: "few-blocks",
    area: Area::Kernels,
    about: "a hot kernel launches fewer blocks than the GPU has multiprocessors, of more threads than it needs",
    why: "A block runs on one multiprocessor: where there are fewer blocks, the others have nothing to do. Numbers of threads that \
          suit one vendor's GPU make too few blocks on another's, which has more multiprocessors or larger groups of threads.",
    advice: "Launch smaller blocks, and more of them, on this GPU; for a reduction, divide it among blocks. In PyTorch, look for \
             another implementation of the operator, or report it with the numbers of the finding.",
    example: ("kernel<<<40, 512>>>(x)", "kernel<<<160, 128>>>(x)"),
    cost: "one number, and a measurement",
    wrong_when: "Other kernels run beside it and use the multiprocessors; threads of a block work together and cannot be divided; \
                 memory is the bound. The gain supposes that the same work takes as much less time as more multiprocessors share it, \
                 down to blocks of one group of threads.",
    source: "DeepContext 6.4 (instance norm of U-Net on MI250: fewer blocks than on A100 with the same threads)",
    needs: &[Need::GpuWork, Need::GpuModel],
    settings: &[
        Setting {
            name: "share",
            default: 5.0,
            range: (0.0, 100.0),
            about: "least part of the GPU's busy time that the kernel takes, in percent",
        },
        Setting {
            name: "filled",
            default: 50.0,
            range: (0.0, 100.0),
            about: "most multiprocessors that its blocks fill, in percent",
        },
        Setting {
            name: "mean_us",
            default: 20.0,
            range: (0.0, 1e6),
            about: "least mean of a launch, in µs: what is shorter is mostly its launch",
        },
    ],
    elsewhere: &[],
    check,
};

/// Blocks, and threads of each.
type Shape = (i64, i64);

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    let gpus = subject.gpus();
    let units = of_all(&gpus, |gpu: &Value| gpu["numSms"].as_i64().filter(|&units| units > 0));
    let Some((group, units)) = group_size(&gpus).zip(units) else { return Vec::new() };
    // Collectives take few multiprocessors on purpose: they wait for other ranks.
    let mut types = subject.kernel_types();
    let computes = |kernel: &EventId| types.of_event(*kernel) == KernelType::Computation;
    let kernels: Vec<EventId> = subject.kernels().into_iter().filter(computes).collect();
    let hot = subject.by_name(&kernels).into_iter();
    let hot = hot.filter(|(_, of)| subject.percent_of_gpu(subject.total(of)) >= subject.setting("share"));
    hot.flat_map(|(name, of)| {
        let mut by_shape: BTreeMap<Shape, Vec<EventId>> = BTreeMap::new();
        for kernel in of {
            let shape = product(subject, "grid", kernel).zip(product(subject, "block", kernel));
            let is_few = |(blocks, threads): &Shape| {
                let filled = 100.0 * *blocks as f64 / units as f64;
                *blocks > 0 && filled <= subject.setting("filled") && *threads >= 2 * group
            };
            if let Some(shape) = shape.filter(is_few) {
                by_shape.entry(shape).or_default().push(kernel);
            }
        }
        by_shape.into_iter().filter_map(move |(shape, of)| draft(subject, name, of, shape, (group, units)))
    })
    .collect()
}

fn draft(
    subject: &Subject<'_>,
    name: &str,
    kernels: Vec<EventId>,
    (blocks, threads): Shape,
    (group, units): (i64, i64),
) -> Option<Draft> {
    let ns = subject.total(&kernels);
    let mean = ns as f64 / kernels.len() as f64;
    if subject.percent_of_gpu(ns) < subject.setting("share") || mean < 1e3 * subject.setting("mean_us") {
        return None;
    }
    let left = (blocks as f64 / units as f64).max(group as f64 / threads as f64);
    let edit = subject.edit(Action::Scale(left.min(1.0)), format!("kernel:{name}"), &kernels)?;
    let (place, _) = subject.by_code(&kernels).into_iter().next()?;
    Some(Draft {
        title: format!(
            "{} launches {blocks} blocks of {threads} threads on a GPU with {units} multiprocessors; if all of them \
             shared its work",
            super::short(name)
        ),
        place,
        facts: vec![
            Fact::count("calls", kernels.len()),
            Fact::count("blocks", blocks as usize),
            Fact::count("threads of a block", threads as usize),
            Fact::count("multiprocessors", units as usize),
            Fact::time("together, a step", subject.per_step(ns)),
        ],
        events: kernels,
        support: Support::Exact,
        confidence: Confidence::Low,
        worth: Worth::Hope(vec![edit]),
    })
}
