//! SL032: kernel calls that take many times the median of calls with the same shapes.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, GpuOpId, StrId, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::kernel_type::KernelType;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL032",
    name: "kernel-outliers",
    area: Area::Kernels,
    about: "a few calls of a kernel take many times as long as other calls of the same size",
    why: "Equal work takes equal time. A call that takes much longer was disturbed, or had to load its data first.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate shortens kernels that take at least `SL032.times` times the median time of kernels with \
                the same name and size, to this median (what-if operation `set`). For the bounds, it shortens them to \
                the 5th and 95th percentiles of the other kernels.",
    advice: "Check which activities overlap with the slow calls: copies, other streams, other processes on the GPU, \
         page faults of managed memory, or a falling GPU clock.",
    example: ("y = f(x)", "y = f(x)  # without another process on the same GPU"),
    cost: "the effort depends on the cause of the slow calls",
    false_positives: "The finding is wrong if the kernel's work depends on values, not only on sizes.",
    source: "common practice",
    needs: &[Requirement::GpuWork],
    settings: &[
        Setting {
            name: "times",
            default: 4.0,
            range: (1.5, 1000.0),
            about: "a call of a kernel is an outlier if it takes at least this multiple of the median time of its \
                calls of the same size",
        },
        Setting {
            name: "runs",
            default: 20.0,
            range: (3.0, 1e6),
            about: "report only kernels with at least this many \
             calls of the same size",
        },
        Setting {
            name: "share",
            default: 5.0,
            range: (0.0, 50.0),
            about: "report nothing if more than this percentage of the kernel's calls are outliers, because the calls \
                    then probably differ in sizes that the trace does not record",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Key of calls with the same size: name, grid, block, and sizes of the operator's inputs.
type Size = (StrId, Option<StrId>, Option<StrId>, Option<StrId>);

/// Find kernels of which few calls take many times the median of calls with the same shapes.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    let [grid, block, dims] = ["grid", "block", "Input Dims"].map(|key| trace.attr(key));
    let mut types = context.kernel_types();
    let mut by_size: BTreeMap<Size, Vec<EventId>> = BTreeMap::new();
    for event in context.kernels() {
        // Collectives wait for other ranks.
        if types.of_event(event) == KernelType::Communication {
            continue;
        }
        let operator = trace.gpu.of_event(event).and_then(|gpu| trace.gpu.operator[gpu.index()].some());
        let dims = operator.and_then(|operator| dims.text(operator));
        let size = (trace.events.name[event.index()], grid.text(event), block.text(event), dims);
        by_size.entry(size).or_default().push(event);
    }
    // Without any recorded size, calls cannot be compared.
    let known = by_size.into_iter().filter(|((_, grid, _, dims), _)| grid.is_some() || dims.is_some());
    known.filter_map(|((name, ..), runs)| candidate(context, trace.strings.get(name), runs)).collect()
}

/// Candidate for the long calls among calls of one size; `None` without any, or if they recur in each step.
fn candidate(context: &RuleContext<'_>, name: &str, mut runs: Vec<EventId>) -> Option<Candidate> {
    let of = runs.len();
    runs.sort_unstable_by_key(|&run| (context.dur(run), run));
    let median = context.dur(runs[of / 2]).max(1);
    let is_long = |&run: &EventId| context.dur(run) as f64 >= median as f64 * context.setting("times");
    let usual: Vec<i64> = runs.iter().filter(|run| !is_long(run)).map(|&run| context.dur(run)).collect();
    let outliers: Vec<EventId> = runs.into_iter().filter(is_long).collect();
    let share = 100.0 * outliers.len() as f64 / of.max(1) as f64;
    let too_few = outliers.is_empty() || (of as f64) < context.setting("runs");
    if too_few || share > context.setting("share") || recurs_each_step(context, &outliers) {
        return None;
    }
    let longest = outliers.last().map_or(0, |&run| context.dur(run));
    let set = |ns: i64| context.edit(Action::SetNs(ns), format!("kernel:{name}"), &outliers);
    let others = super::spread(&usual).into_iter().filter_map(|ns| Some(vec![set(ns)?])).collect();
    let gain_estimate = GainEstimate::range(vec![set(median)?], others);
    Some(Candidate {
        title: format!(
            "Kernel outliers: {} of {of} calls of {} take up to {:.0} times the median",
            outliers.len(),
            super::shorten_name(name),
            longest as f64 / median as f64
        ),
        place: context.place(outliers[outliers.len() - 1]),
        facts: vec![
            Fact::count("runs", of),
            Fact::time("median", median),
            Fact::time("longest", longest),
            Fact { name: "outliers", value: share, unit: Unit::Percent },
        ],
        events: outliers,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Low,
        gain_estimate,
    })
}

/// Check if outliers occur in every step: these indicate a size that the trace does not record.
fn recurs_each_step(context: &RuleContext<'_>, outliers: &[EventId]) -> bool {
    let trace = context.trace();
    let step = |&event: &EventId| trace.gpu.of_event(event).map(|gpu: GpuOpId| trace.gpu.step[gpu.index()]);
    let mut steps: Vec<u32> = outliers.iter().filter_map(step).collect();
    steps.sort_unstable();
    steps.dedup();
    context.steps() >= 2 && steps.len() >= context.steps()
}
