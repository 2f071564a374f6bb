//! SL015: the optimizer launches small kernels for each parameter.

use crate::{Area, Candidate, Fact, GainEstimate, Requirement, Rule, RuleContext, Setting, Support};
use rustc_hash::FxHashSet;
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, EventKind, Key, StrId};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::aten;
use stackline_timeline::vocabulary::python::OPTIMIZER_STEP;

pub(super) const RULE: Rule = Rule {
    code: "SL015",
    name: "unfused-optimizer",
    area: Area::Kernels,
    about: "the optimizer updates its parameters one by one, with several small kernels or operators each, or in many passes over all",
    why: "Each parameter costs several operators and, on a GPU, launches and short kernels, though all parameters are updated \
          alike. With foreach=True, the default on a GPU, each pass reads and writes all parameters or states once more, and the \
          host handles each of them between the passes.",
    advice: "Create the optimizer with fused=True, or with foreach=True where it has no fused version.",
    example: ("torch.optim.AdamW(params, foreach=False)", "torch.optim.AdamW(params, fused=True)"),
    cost: "one argument; foreach needs memory for intermediate lists",
    false_positives: "The optimizer is not one of PyTorch's and has no such version. On a GPU the gain keeps the Python \
                 code around the operators, and the time of all kernels in one: a fused optimizer that reads its memory once \
                 gains more. Where it makes many passes (foreach), kernels are left 0.4 of their time, between 0.25 and all of it \
                 (AdamW on an H100: 0.36, measured). On a CPU it supposes what fused AdamW was measured to take: 3 µs a parameter, and 35 % of what \
                 operators take beyond 2.5 µs each; the bounds hold 20 % to all of that, as large parameters are computed no faster.",
    source: "field practice; PyTorch's optimizers since 1.13 (foreach) and 2.0 (fused)",
    needs: &[Requirement::Operators],
    settings: &[
        Setting {
            name: "kernels",
            default: 30.0,
            range: (2.0, 1e6),
            about: "least kernels of one optimizer step that do not take several tensors; without GPU, operators",
        },
        Setting {
            name: "mean_us",
            default: 20.0,
            range: (0.0, 1000.0),
            about: "longest mean of kernels, or median of operators, that are small, in µs",
        },
    ],
    advice_variants: &[],
    check,
};

/// Parts of names of kernels that update many tensors at once.
pub(super) const OF_MANY_TENSORS: &[&str] =
    &["multi_tensor_apply", "foreach", "triton_", "FusedAdam", "multi_tensor", "_fused_"];

fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    // Traces of 2021 and before have them among the operators.
    let mut steps =
        context.named(&[EventKind::Annotation, EventKind::Operator], |name| name.starts_with(OPTIMIZER_STEP));
    without_closures(context, &mut steps);
    // One that is called so has its own fused kernels, whatever it does beside them.
    let by_name = context.by_name(&steps).into_iter().filter(|(name, _)| !name.contains("Fused"));
    if !context.uses_gpu() {
        return by_name.filter_map(|(name, spans)| on_cpu(context, name, &spans)).collect();
    }
    by_name
        .filter_map(|(name, spans)| {
            let is_small = |&e: &EventId| {
                trace.kind(e) == EventKind::Kernel && !OF_MANY_TENSORS.iter().any(|part| trace.name(e).contains(part))
            };
            let launched = || spans.iter().flat_map(|&span| context.launched_in(span));
            let one_by_one = on_gpu(context, name, &spans, launched().filter(is_small).collect());
            let is_kernel = |&e: &EventId| trace.kind(e) == EventKind::Kernel;
            one_by_one.or_else(|| in_passes(context, name, &spans, launched().filter(is_kernel).collect()))
        })
        .collect()
}

/// Leaves out steps that run a backward pass themselves, as `step(closure)` does, and so all of Lightning's: what in them is the optimizer's
/// is not told apart.
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
    // The backward pass of a step that is cut off is not in the trace.
    let with_closure: FxHashSet<StrId> =
        steps.iter().filter(|step| holds_one(step)).map(|step| trace.events.name[step.index()]).collect();
    steps.retain(|step| !with_closure.contains(&trace.events.name[step.index()]));
}

/// Optimizers that have a version which makes one pass.
const HAVE_FUSED: &[&str] = &["Adam.", "AdamW.", "SGD.", "Adagrad."];
/// Fewer passes are hardly more than the one.
const LEAST_PASSES: usize = 4;
/// What of the time of kernels one pass takes: likely, at least, and at most.
const ONE_PASS: [f64; 3] = [0.4, 0.25, 1.0];

/// An optimizer that goes over all parameters many times, with an operator for each pass (foreach).
fn in_passes(context: &RuleContext<'_>, name: &str, spans: &[EventId], kernels: Vec<EventId>) -> Option<Candidate> {
    let optimizer = name.strip_prefix(OPTIMIZER_STEP)?;
    let trace = context.trace();
    let inside = context.outermost(&context.operators_in(spans));
    let passes = inside.iter().filter(|&&e| trace.name(e).starts_with(aten::FOREACH)).count();
    if passes < LEAST_PASSES * spans.len() || !HAVE_FUSED.contains(&optimizer.trim_end_matches("step")) {
        return None;
    }
    // One operator of each step stays: that which launches the one kernel.
    let stay: FxHashSet<EventId> = spans.iter().filter_map(|&span| operators(context, span).first().copied()).collect();
    let others: Vec<EventId> = inside.into_iter().filter(|e| !stay.contains(e)).collect();
    let edits = |left: f64| {
        let fused = context.edit(Action::Fuse, format!("annotation:{name}"), spans)?;
        let gone = context.edit(Action::Remove, format!("operators of {name}"), &others)?;
        Some(vec![context.edit(Action::Scale(left), format!("kernels of {name}"), &kernels)?, gone, fused])
    };
    let [likely, least, most] = ONE_PASS.map(edits);
    let facts = vec![
        Fact::count("passes", passes / spans.len()),
        Fact::count("kernels", kernels.len()),
        Fact::time("kernels, a step", context.per_step(context.total(&kernels))),
        Fact::time("host, a step", context.per_step(context.total(spans))),
    ];
    let does = format!(
        "makes {} passes over all parameters, and launches {} kernels",
        passes / spans.len(),
        kernels.len() / spans.len()
    );
    let mean = context.total(&kernels) / kernels.len().max(1) as i64;
    let gain_estimate = GainEstimate::Range(likely?, vec![least?, most?]);
    let candidate = candidate(context, (name, spans), (does, mean, facts), (gain_estimate, kernels));
    Some(Candidate { confidence: Confidence::Medium, ..candidate })
}

/// What fused AdamW takes on a CPU: so much for each parameter, and this part of what operators take beyond so much each: likely, at
/// least, and at most. How much of that time is computing, and how much is memory or another thread's, is not known.
pub(super) const PARAMETER_NS: i64 = 3_000;
pub(super) const OPERATOR_NS: i64 = 2_500;
pub(super) const FUSED: [f64; 3] = [0.35, 0.2, 1.0];

fn on_cpu(context: &RuleContext<'_>, name: &str, spans: &[EventId]) -> Option<Candidate> {
    let operators = context.outermost(&context.operators_in(spans));
    let per_call = operators.len() as f64 / spans.len().max(1) as f64;
    let lengths = context.lengths(&operators);
    let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    let of_many = |&e: &EventId| OF_MANY_TENSORS.iter().any(|part| context.trace().name(e).contains(part));
    if per_call < context.setting("kernels")
        || median as f64 > context.setting("mean_us") * 1e3
        || operators.iter().any(of_many)
    {
        return None;
    }
    // Most operators of an optimizer are called once for each parameter.
    let mut counts: Vec<usize> = context.by_name(&operators).iter().map(|(_, of)| of.len()).collect();
    counts.sort_unstable();
    let parameters = counts[counts.len() / 2];
    let beyond: i64 = operators.iter().map(|&e| (context.dur(e) - OPERATOR_NS).max(0)).sum();
    let recorded = context.total(spans) - context.recording_ns(spans);
    let edit = |fused: f64| {
        let left = parameters as f64 * PARAMETER_NS as f64 + beyond as f64 * fused;
        let factor = (left / recorded.max(1) as f64).min(1.0);
        context.edit(Action::Scale(factor), format!("annotation:{name}"), spans)
    };
    let [likely, least, most] = FUSED.map(edit);
    let facts = vec![
        Fact::count("operators", operators.len()),
        Fact::count("parameters", parameters / spans.len().max(1)),
        Fact::time("median of an operator", median),
        Fact::time("all operators, a step", context.per_step(context.total(&operators))),
        Fact::time("in the optimizer, with Python between them, a step", context.per_step(context.total(spans))),
    ];
    let does = format!("calls {per_call:.0} operators");
    let mean = context.total(&operators) / operators.len().max(1) as i64;
    let gain_estimate = GainEstimate::Range(vec![likely?], vec![vec![least?], vec![most?]]);
    let candidate = candidate(context, (name, spans), (does, mean, facts), (gain_estimate, spans.to_vec()));
    Some(Candidate { support: Support::Inferred, confidence: Confidence::Medium, ..candidate })
}

/// What an optimizer does too often, how long each takes in the mean, in ns, and what mending it is worth.
fn candidate(
    context: &RuleContext<'_>,
    (name, spans): (&str, &[EventId]),
    (does, each, facts): (String, i64, Vec<Fact>),
    (gain_estimate, events): (GainEstimate, Vec<EventId>),
) -> Candidate {
    let optimizer = name.strip_prefix(OPTIMIZER_STEP).unwrap_or(name).trim_end_matches(".step");
    Candidate {
        title: format!(
            "{optimizer} {does}{} that take {:.1} µs each in the mean",
            context.words().a_step(),
            each as f64 / 1e3
        ),
        place: context.place(spans[0]),
        facts,
        events,
        support: Support::Exact,
        confidence: Confidence::High,
        gain_estimate,
    }
}

fn on_gpu(context: &RuleContext<'_>, name: &str, spans: &[EventId], kernels: Vec<EventId>) -> Option<Candidate> {
    let per_call = kernels.len() as f64 / spans.len().max(1) as f64;
    let mean = context.total(&kernels) / kernels.len().max(1) as i64;
    if per_call < context.setting("kernels") || mean as f64 > context.setting("mean_us") * 1e3 {
        return None;
    }
    let fused = context.edit(Action::Fuse, format!("annotation:{name}"), spans)?;
    // One operator of each step stays: that which launches the one kernel.
    let others: Vec<EventId> = spans.iter().flat_map(|&span| operators(context, span).into_iter().skip(1)).collect();
    let edits = std::iter::once(fused).chain(context.edit(Action::Remove, format!("operators of {name}"), &others));
    let facts = vec![
        Fact::count("kernels", kernels.len()),
        Fact::count("calls", spans.len()),
        Fact::time("kernels, a step", context.per_step(context.total(&kernels))),
        Fact::time("host, a step", context.per_step(context.total(spans))),
    ];
    let does = format!("launches {per_call:.0} kernels");
    Some(candidate(context, (name, spans), (does, mean, facts), (GainEstimate::Edits(edits.collect()), kernels)))
}

/// The outermost operators within a span that launch something.
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
