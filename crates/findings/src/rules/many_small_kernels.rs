//! SL002: many kernels that are about as short as their launch.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use rustc_hash::FxHashSet;
use stackline_critical_path::exact::what_if::Action;
use stackline_model::names::module_class;
use stackline_model::{EventId, StrId};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::python::OPTIMIZER;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: Rule = Rule {
    code: "SL002",
    name: "many-small-kernels",
    area: Area::Kernels,
    about: "a module or operator launches many short kernels that could be fused into one",
    why: "Each launch costs the host some microseconds, and each kernel takes some time to start and end. In short \
         kernels, most of the time is such overhead.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate replaces the kernels of each call by one kernel with their total time (what-if operation \
         `fuse`). The estimate removes all operators that launched these kernels except the first (`remove`); the \
         lower bound keeps these operators. Calls longer than ten times the median, such as a first call, stay \
         unchanged.",
    advice: "Fuse the kernels: torch.compile the module, or use a fused implementation.",
    example: ("self.norm = RMSNorm(dim)", "self.norm = torch.compile(RMSNorm(dim))"),
    cost: "compilation takes time at the first call and for each new shape",
    false_positives: "The kernels cannot be fused if some are not elementwise (a matrix product, a sort), or if the \
         module does other work between the launches.",
    source: "DeepContext paper, sections 4.3 and 6.3, kernel fusion analysis",
    needs: &[Requirement::GpuWork, Requirement::Operators],
    settings: &[
        Setting {
            name: "mean_us",
            default: 10.0,
            range: (0.0, 1000.0),
            about: "report only calls whose kernels have at most this mean duration, in µs",
        },
        Setting {
            name: "kernels",
            default: 4.0,
            range: (2.0, 10_000.0),
            about: "report only calls that launch at \
             least this many kernels",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Largest number of kernels of a usual call, as a multiple of the median.
const MAX_USUAL_RATIO: i64 = 10;

/// Kernels and spans of one module class or operator.
#[derive(Default)]
struct Launched {
    kernels: Vec<EventId>,
    spans: Vec<EventId>,
}

/// Find modules and operators that launch many kernels about as short as a launch, one candidate per module class.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    let mut by_span: BTreeMap<EventId, Vec<EventId>> = BTreeMap::new();
    for kernel in context.kernels() {
        let module = trace.gpu.of_event(kernel).and_then(|gpu| trace.gpu.module[gpu.index()].some());
        let span = module.or_else(|| context.outermost_operator(kernel));
        // SL015 and SL042 report optimizers.
        if let Some(span) = span.filter(|&span| !trace.name(span).starts_with(OPTIMIZER)) {
            by_span.entry(span).or_default().push(kernel);
        }
    }
    // Fusing a span that also launches through nested spans would fuse their kernels, too.
    let outer: FxHashSet<EventId> = by_span.keys().flat_map(|&span| trace.ancestors(span)).collect();
    // Calls that benchmark algorithms launch as many kernels as they try (SL062).
    let of_searches = super::autotuning::events_of_searches(context);
    by_span.retain(|_, kernels| !kernels.iter().any(|kernel| of_searches.contains(kernel)));
    // Repeated instances of a module are one line of the program.
    let mut by_code: BTreeMap<&str, Launched> = BTreeMap::new();
    for (span, kernels) in by_span.into_iter().filter(|(span, _)| !outer.contains(span)) {
        let name = trace.name(span);
        let group = by_code.entry(module_class(name).unwrap_or(name)).or_default();
        group.kernels.extend(kernels);
        group.spans.push(span);
    }
    by_code.into_values().filter_map(|of| candidate(context, of)).collect()
}

/// Candidate for one module class or operator; `None` for few or long kernels.
fn candidate(context: &RuleContext<'_>, Launched { mut kernels, mut spans }: Launched) -> Option<Candidate> {
    let (trace, first) = (context.trace(), *spans.first()?);
    let names: BTreeSet<StrId> = spans.iter().map(|span| trace.events.name[span.index()]).collect();
    let (kind, name) = match module_class(trace.name(first)) {
        Some(class) if names.len() > 1 => ("modules", class),
        Some(_) => ("module", trace.name(first)),
        None => ("operator", trace.name(first)),
    };
    kernels.sort_unstable();
    // Fusing would not save the one-time work of a first call.
    let lengths = context.lengths(&spans);
    let most = lengths[lengths.len() / 2].saturating_mul(MAX_USUAL_RATIO);
    spans.retain(|&span| context.dur(span) <= most);
    let per_call = kernels.len() as f64 / lengths.len().max(1) as f64;
    let mean = context.total(&kernels) / kernels.len().max(1) as i64;
    if per_call < context.setting("kernels") || mean as f64 > context.setting("mean_us") * 1e3 {
        return None;
    }
    let fuse = context.edit(Action::Fuse, format!("{kind}:{name}"), &spans)?;
    // One operator of each call stays, to launch the fused kernel.
    let inside = |&span: &EventId| super::unfused_optimizer::operators(context, span).into_iter().skip(1);
    let others: Vec<EventId> = spans.iter().flat_map(inside).collect();
    let remove = context.edit(Action::Remove, format!("operators of {name}"), &others);
    // At the lower bound, all operators stay, without effect.
    let least = if remove.is_some() { vec![vec![fuse.clone()]] } else { Vec::new() };
    let gain_estimate = GainEstimate::range(std::iter::once(fuse).chain(remove).collect(), least);
    let (short, mean_us) = (super::shorten_name(name), mean as f64 / 1e3);
    Some(Candidate {
        title: match names.len() {
            0 | 1 => format!(
                "Many small kernels: {short} launches {per_call:.0} kernels per call, {mean_us:.1} µs each on average"
            ),
            modules => format!(
                "Many small kernels: {short} ({modules} modules) launches {per_call:.0} kernels per call, \
                 {mean_us:.1} µs each on average"
            ),
        },
        place: context.place(spans[0]),
        facts: vec![
            Fact::count("kernels", kernels.len()),
            Fact::count("calls", spans.len()),
            Fact::time("mean kernel duration", mean),
        ],
        events: kernels,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Medium,
        gain_estimate,
    })
}
