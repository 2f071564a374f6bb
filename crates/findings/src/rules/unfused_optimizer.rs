//! SL015: optimizer that launches small kernels for each parameter.

use crate::{
    Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, RuleProperty, Setting, Support,
};
use rustc_hash::FxHashSet;
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, EventKind, Key, StrId};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::aten;
use stackline_timeline::vocabulary::kernels::is_multi_tensor;
use stackline_timeline::vocabulary::python::OPTIMIZER_STEP;

pub(crate) const RULE: Rule = Rule {
    code: "SL015",
    name: "unfused-optimizer",
    area: Area::Kernels,
    about: "the optimizer updates each parameter with several small kernels or operators, or makes many passes over \
         all parameters",
    why: "For each parameter, the host runs several operators and, on a GPU, launches short kernels, although all \
         updates are alike. With foreach=True, the default on a GPU, each pass reads and writes all parameters or \
         optimizer states again. Between the passes, the host handles each tensor.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "On a GPU, the estimate replaces the kernels of an optimizer step by one kernel with their total time \
         (what-if operation `fuse`). The estimate removes all operators that launch kernels except one (`remove`). \
         If the optimizer makes many passes, the estimate also shortens the kernels to 0.4 (bounds: 0.25 and 1) of \
         their time (`scale`). On a CPU, 3 µs per parameter remain. Of each operator's time beyond 2.5 µs, a \
         fraction of 0.35 (bounds: 0.2 and 1) remains, too (`scale`).",
    advice: "Create the optimizer with fused=True, or with foreach=True where it has no fused version.",
    example: ("torch.optim.AdamW(params, foreach=False)", "torch.optim.AdamW(params, fused=True)"),
    cost: "the change takes one argument; foreach needs memory for intermediate lists",
    false_positives: "The optimizer cannot be replaced if it is not part of PyTorch and has no fused or foreach \
         version. On a GPU, the estimate keeps the Python code around the operators and the total time of all \
         kernels. A fused optimizer that reads its memory only once gains more. For many passes (foreach), the \
         estimate keeps 0.4 of the kernel time, with bounds at 0.25 and 1 (measured for AdamW on an H100: 0.36). On \
         a CPU, the estimate uses measurements of fused AdamW: 3 µs per parameter, and 35 % of each operator's time \
         beyond 2.5 µs. The bounds assume 20 % and 100 % instead of 35 %, because fusion does not make the computation \
         on large parameters faster.",
    source: "common practice; PyTorch's foreach (since 1.13) and fused (since 2.0) optimizers",
    needs: &[Requirement::Operators],
    settings: &[
        Setting {
            name: "kernels",
            default: 30.0,
            range: (2.0, 1e6),
            about: "report only optimizer steps with at least this many kernels (without a GPU: operators) that \
                    update single tensors",
        },
        Setting {
            name: "mean_us",
            default: 20.0,
            range: (0.0, 1000.0),
            about: "report only if the mean kernel (on a CPU: the median operator) takes at most this long, in µs",
        },
    ],
    advice_variants: &[],
    properties: &[RuleProperty::Constructor { frame: &["torch/optim/", "): __init__"], library: "torch/optim/" }],
    check,
};

/// Find optimizers whose step launches kernels or calls operators for each parameter, one candidate per optimizer.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    // Traces of 2021 and before record optimizer steps as operators.
    let mut steps =
        context.named(&[EventKind::Annotation, EventKind::Operator], |name| name.starts_with(OPTIMIZER_STEP));
    without_closures(context, &mut steps);
    // An optimizer with such a name has its own fused kernels, in addition to other work.
    let by_name = context.by_name(&steps).into_iter().filter(|(name, _)| !name.contains("Fused"));
    if !context.uses_gpu() {
        return by_name.filter_map(|(name, spans)| on_cpu(context, name, &spans)).collect();
    }
    by_name
        .filter_map(|(name, spans)| {
            let is_small = |&e: &EventId| trace.kind(e) == EventKind::Kernel && !is_multi_tensor(trace.name(e));
            let launched = || spans.iter().flat_map(|&span| context.launched_in(span));
            let one_by_one = on_gpu(context, name, &spans, launched().filter(is_small).collect());
            let is_kernel = |&e: &EventId| trace.kind(e) == EventKind::Kernel;
            one_by_one.or_else(|| in_passes(context, name, &spans, launched().filter(is_kernel).collect()))
        })
        .collect()
}

/// Remove steps that run a backward pass themselves, such as `step(closure)` and all of Lightning's. The optimizer's
/// work in them cannot be separated.
fn without_closures(context: &RuleContext<'_>, steps: &mut Vec<EventId>) {
    let trace = context.trace();
    let process = |e: EventId| trace.tracks.pid(trace.events.track[e.index()]);
    let nodes = context.named(&[EventKind::Operator], stackline_timeline::vocabulary::autograd::is_node);
    let mut begins: Vec<(Key, i64)> = nodes.into_iter().map(|e| (process(e), trace.events.start[e.index()])).collect();
    begins.sort_unstable();
    let holds_one = |step: &EventId| {
        let (of, from) = (process(*step), trace.events.start[step.index()]);
        let next = begins.get(begins.partition_point(|&begin| begin < (of, from)));
        next.is_some_and(|&(process, at)| process == of && at < trace.events.end(*step))
    };
    // The backward pass of a step that is cut off is missing from the trace.
    let with_closure: FxHashSet<StrId> =
        steps.iter().filter(|step| holds_one(step)).map(|step| trace.events.name[step.index()]).collect();
    steps.retain(|step| !with_closure.contains(&trace.events.name[step.index()]));
}

/// Optimizers with a single-pass version.
const OPTIMIZERS_WITH_FUSED: &[&str] = &["Adam.", "AdamW.", "SGD.", "Adagrad."];
/// Least number of passes that one pass would improve.
const MIN_PASSES: usize = 4;
/// Remaining share of the kernel time with one pass: likely, least, most.
const ONE_PASS: [f64; 3] = [0.4, 0.25, 1.0];

/// Candidate for an optimizer that makes many passes over all parameters, with one operator per pass (foreach); `None`
/// otherwise.
fn in_passes(context: &RuleContext<'_>, name: &str, spans: &[EventId], kernels: Vec<EventId>) -> Option<Candidate> {
    let optimizer = name.strip_prefix(OPTIMIZER_STEP)?;
    let trace = context.trace();
    let inside = context.outermost(&context.operators_in(spans));
    let passes = inside.iter().filter(|&&e| trace.name(e).starts_with(aten::FOREACH)).count();
    if passes < MIN_PASSES * spans.len() || !OPTIMIZERS_WITH_FUSED.contains(&optimizer.trim_end_matches("step")) {
        return None;
    }
    // One operator of each step stays, to launch the fused kernel.
    let stay: FxHashSet<EventId> = spans.iter().filter_map(|&span| operators(context, span).first().copied()).collect();
    let others: Vec<EventId> = inside.into_iter().filter(|e| !stay.contains(e)).collect();
    let edits = |left: f64| {
        let fused = context.edit(Action::Fuse, format!("annotation:{name}"), spans)?;
        let removable = context.edit(Action::Remove, format!("operators of {name}"), &others)?;
        Some(vec![context.edit(Action::Scale(left), format!("kernels of {name}"), &kernels)?, removable, fused])
    };
    let [likely, least, most] = ONE_PASS.map(edits);
    let facts = vec![
        Fact::count("passes", passes / spans.len()),
        Fact::count("kernels", kernels.len()),
        Fact::time("time of the optimizer's kernels per step", context.per_step(context.total(&kernels))),
        Fact::time("host time of the optimizer per step", context.per_step(context.total(spans))),
    ];
    let title = format!(
        "Unfused optimizer: {} makes {} passes over all parameters and launches {} kernels{}, mean {:.1} µs each",
        short_name(name),
        passes / spans.len(),
        kernels.len() / spans.len(),
        context.words().per_step_suffix(),
        mean_us(context, &kernels)
    );
    let gain_estimate = GainEstimate::range(likely?, vec![least?, most?]);
    let candidate = candidate(context, spans, (title, facts), (gain_estimate, kernels));
    Some(Candidate { confidence: Confidence::Medium, ..candidate })
}

/// Cost of fused AdamW on a CPU: time per parameter, and remaining share (likely, least, most) of each operator's time
/// beyond a fixed cost. The split of that time into computation, memory access and other threads is unknown.
pub(crate) const PARAMETER_NS: i64 = 3_000;
pub(crate) const OPERATOR_NS: i64 = 2_500;
pub(crate) const FUSED: [f64; 3] = [0.35, 0.2, 1.0];

/// Candidate for an optimizer without a GPU; `None` for few or long operators, or if it is fused.
fn on_cpu(context: &RuleContext<'_>, name: &str, spans: &[EventId]) -> Option<Candidate> {
    let operators = context.outermost(&context.operators_in(spans));
    let per_call = operators.len() as f64 / spans.len().max(1) as f64;
    let lengths = context.lengths(&operators);
    let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    let of_many = |&e: &EventId| is_multi_tensor(context.trace().name(e));
    if per_call < context.setting("kernels")
        || median as f64 > context.setting("mean_us") * 1e3
        || operators.iter().any(of_many)
    {
        return None;
    }
    // The most frequent operators of an optimizer run once per parameter.
    let mut counts: Vec<usize> = context.by_name(&operators).iter().map(|(_, of)| of.len()).collect();
    counts.sort_unstable();
    let parameters = counts[counts.len() / 2];
    let beyond: i64 = operators.iter().map(|&e| (context.dur(e) - OPERATOR_NS).max(0)).sum();
    let recorded = context.total(spans) - context.recording_overhead_ns(spans);
    let edit = |fused: f64| {
        let left = parameters as f64 * PARAMETER_NS as f64 + beyond as f64 * fused;
        let factor = (left / recorded.max(1) as f64).min(1.0);
        context.edit(Action::Scale(factor), format!("annotation:{name}"), spans)
    };
    let [likely, least, most] = FUSED.map(edit);
    let facts = vec![
        Fact::count("operators", operators.len()),
        Fact::count("parameters", parameters / spans.len().max(1)),
        Fact::time("median operator duration", median),
        Fact::time("time of the optimizer's operators per step", context.per_step(context.total(&operators))),
        Fact::time("optimizer time including Python per step", context.per_step(context.total(spans))),
    ];
    let title = format!(
        "Unfused optimizer: {} calls {per_call:.0} operators{}, mean {:.1} µs each",
        short_name(name),
        context.words().per_step_suffix(),
        mean_us(context, &operators)
    );
    let gain_estimate = GainEstimate::range(vec![likely?], vec![vec![least?], vec![most?]]);
    let candidate = candidate(context, spans, (title, facts), (gain_estimate, spans.to_vec()));
    Some(Candidate { support: Support::Inferred, confidence: Confidence::Medium, ..candidate })
}

/// Name of the optimizer in the name of its step: `AdamW`.
fn short_name(name: &str) -> &str {
    name.strip_prefix(OPTIMIZER_STEP).unwrap_or(name).trim_end_matches(".step")
}

/// Mean duration of events, in whole ns, converted to µs.
fn mean_us(context: &RuleContext<'_>, events: &[EventId]) -> f64 {
    (context.total(events) / events.len().max(1) as i64) as f64 / 1e3
}

/// Candidate from the steps of an optimizer, its title and facts, the estimated gain and the repeated work.
fn candidate(
    context: &RuleContext<'_>,
    spans: &[EventId],
    (title, facts): (String, Vec<Fact>),
    (gain_estimate, events): (GainEstimate, Vec<EventId>),
) -> Candidate {
    Candidate {
        title,
        place: context.place(spans[0]),
        facts,
        events,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::High,
        gain_estimate,
    }
}

/// Candidate for an optimizer with many small kernels per step; `None` for few or long kernels.
fn on_gpu(context: &RuleContext<'_>, name: &str, spans: &[EventId], kernels: Vec<EventId>) -> Option<Candidate> {
    let per_call = kernels.len() as f64 / spans.len().max(1) as f64;
    let mean = context.total(&kernels) / kernels.len().max(1) as i64;
    if per_call < context.setting("kernels") || mean as f64 > context.setting("mean_us") * 1e3 {
        return None;
    }
    let fused = context.edit(Action::Fuse, format!("annotation:{name}"), spans)?;
    // One operator of each step stays, to launch the fused kernel.
    let others: Vec<EventId> = spans.iter().flat_map(|&span| operators(context, span).into_iter().skip(1)).collect();
    let edits = std::iter::once(fused).chain(context.edit(Action::Remove, format!("operators of {name}"), &others));
    let facts = vec![
        Fact::count("kernels", kernels.len()),
        Fact::count("calls", spans.len()),
        Fact::time("time of the optimizer's kernels per step", context.per_step(context.total(&kernels))),
        Fact::time("host time of the optimizer per step", context.per_step(context.total(spans))),
    ];
    let title = format!(
        "Unfused optimizer: {} launches {per_call:.0} kernels{}, mean {:.1} µs each",
        short_name(name),
        context.words().per_step_suffix(),
        mean as f64 / 1e3
    );
    Some(candidate(context, spans, (title, facts), (GainEstimate::edits(edits.collect()), kernels)))
}

/// Outermost operators within a span that launch GPU work, in launch order.
pub(super) fn operators(context: &RuleContext<'_>, span: EventId) -> Vec<EventId> {
    let trace = context.trace();
    let outermost = |work: EventId| {
        let inside = context.stack(work).take_while(|&e| e != span);
        inside.filter(|&e| trace.kind(e) == EventKind::Operator).last()
    };
    let mut found: Vec<EventId> = context.launched_in(span).filter_map(outermost).collect();
    found.dedup();
    found
}
