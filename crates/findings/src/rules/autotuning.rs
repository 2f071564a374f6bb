//! SL062: later steps still search for the fastest algorithm, as cuDNN's benchmark mode and autotuners do for each new
//! shape.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use rustc_hash::FxHashSet;
use stackline_critical_path::exact::what_if::{Action, Edit};
use stackline_model::{EventId, EventKind, Step, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::aten;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL062",
    name: "autotuning-in-step",
    area: Area::Kernels,
    about: "the program still searches for the fastest algorithm or configuration of a kernel after its first step",
    why: "A search runs each candidate kernel (twice with cuDNN) while the host waits for the result. The search runs \
          once per \
        new shape, so it never ends if shapes differ from step to step.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "In each convolution that searches, the estimate removes the runtime calls up to the end of the last \
         wait, and the kernels that these calls launched (what-if operation `remove`). In a Triton or FlashInfer \
         autotuner, it removes all work. Searches of the first step count only if all later steps search, too.",
    advice: "Set torch.backends.cudnn.benchmark = False if input sizes vary, or lower \
        torch.backends.cudnn.benchmark_limit. Pad or crop inputs to a few sizes. Use fewer keys or configurations in \
        @triton.autotune, and run all shapes once before training.",
    example: ("torch.backends.cudnn.benchmark = True  # images of any size", "torch.backends.cudnn.benchmark = False"),
    cost: "one line; the algorithm chosen without a search may be slower",
    false_positives: "The estimated gain is too high if the recording covers only the start of the program, where new \
                      input shapes still occur, and later steps do not search. Convolutions count as searches if they \
                      launch at least two kernels and wait for the GPU at least three times. Python frames of the \
                      autotuners of Triton and FlashInfer also count.",
    source: "common practice; time_sorted_plan of the cuDNN frontend, which implements such a search",
    needs: &[Requirement::GpuWork, Requirement::RuntimeCalls, Requirement::Steps],
    settings: &[Setting {
        name: "share",
        default: 3.0,
        range: (0.0, 100.0),
        about: "report only source locations whose searches take at least this percentage of the critical path",
    }],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Waits of a search per candidate: before it, after its first run, and after its timed run.
const MIN_WAITS: usize = 3;

/// Kernels of a search per candidate, which runs twice.
const MIN_KERNELS: usize = 2;

/// Minimum number of later steps that show that each of them searches.
const MIN_LATER_STEPS: usize = 2;

/// Functions in which an autotuner runs candidates.
const AUTOTUNERS: &[&[&str]] =
    &[&["triton/runtime/autotuner.py(", "): _bench"], &["flashinfer/autotuner.py(", "): _profile_single_kernel"]];

/// Test if a Python frame runs the candidates of an autotuner (Triton, FlashInfer).
fn is_autotuner(name: &str) -> bool {
    AUTOTUNERS.iter().any(|parts| super::matches_parts(name, parts))
}

/// One search for the fastest algorithm, with the work that vanishes without it.
struct Search {
    /// Convolution, or function of the autotuner.
    span: EventId,
    removable: Vec<EventId>,
    /// Time of the span after the end of the search, in ns; 0 if the span consists only of the search.
    remaining_ns: i64,
}

/// Find source locations at which later steps still search for the fastest kernel.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let mut groups = searches_by_location(context, convolution_searches(context));
    groups.extend(searches_by_location(context, autotuner_searches(context)));
    groups.into_iter().filter_map(|(place, searches)| candidate(context, place, &searches)).collect()
}

/// Calls and kernels of searches for convolution algorithms, except those of a warm-up. Other rules exclude them.
pub(super) fn events_of_searches(context: &RuleContext<'_>) -> FxHashSet<EventId> {
    let groups = searches_by_location(context, convolution_searches(context));
    groups.into_iter().flat_map(|(_, searches)| searches).flat_map(|search| search.removable).collect()
}

/// Group searches of later steps by source location. If each later step searches, and the first step does so no more
/// often, its searches count, too: they have the same reason.
fn searches_by_location(context: &RuleContext<'_>, searches: Vec<Search>) -> Vec<(SourceLocation, Vec<Search>)> {
    let (later, all) = (context.later_steps(), &context.trace().steps);
    let spans: Vec<EventId> = searches.iter().map(|search| search.span).collect();
    let mut by_span: BTreeMap<EventId, Search> = searches.into_iter().map(|search| (search.span, search)).collect();
    let counted = |(place, mut spans): (SourceLocation, Vec<EventId>)| {
        let mut searching: BTreeMap<usize, usize> = BTreeMap::new();
        for step in spans.iter().filter_map(|&span| context.step_of(later, span)) {
            *searching.entry(step).or_default() += 1;
        }
        let most = *searching.values().max()?;
        let is_of_first = |&&span: &&EventId| !is_late(context, span) && context.step_of(all, span).is_some();
        let is_steady = later.len() >= MIN_LATER_STEPS
            && searching.len() == later.len()
            && spans.iter().filter(is_of_first).count() <= most;
        spans.retain(|&span| context.step_of(if is_steady { all } else { later }, span).is_some());
        Some((place, spans.iter().filter_map(|span| by_span.remove(span)).collect()))
    };
    context.by_place(&spans).into_iter().filter_map(counted).collect()
}

/// Test if a search is in a step of the window after the trace's first step.
fn is_late(context: &RuleContext<'_>, span: EventId) -> bool {
    context.step_of(context.later_steps(), span).is_some()
}

/// Calls that wait for the GPU, by the outermost convolution around them.
fn waits_by_convolution(context: &RuleContext<'_>) -> BTreeMap<EventId, Vec<EventId>> {
    let trace = context.trace();
    let mut waits: BTreeMap<EventId, Vec<EventId>> = BTreeMap::new();
    if !trace.strings.iter().any(aten::is_gpu_convolution) {
        return waits;
    }
    let is_operator = |e: EventId| trace.kind(e) == EventKind::Operator && aten::is_gpu_convolution(trace.name(e));
    for &call in context.waiting_calls() {
        if let Some(convolution) = trace.ancestors(call).filter(|&e| is_operator(e)).last() {
            waits.entry(convolution).or_default().push(call);
        }
    }
    waits
}

/// Convolutions that try several kernels and wait for each; empty if only the first step does so.
fn convolution_searches(context: &RuleContext<'_>) -> Vec<Search> {
    let trace = context.trace();
    let waits = waits_by_convolution(context).into_iter().filter(|(_, waits)| waits.len() >= MIN_WAITS);
    // End of the last candidate; the rest of the span is the convolution itself.
    let ends: BTreeMap<EventId, i64> = waits
        .map(|(span, waits)| (span, waits.iter().map(|&e| trace.events.end(e)).max().unwrap_or_default()))
        .collect();
    // Usually only the first step searches.
    if !ends.keys().any(|&span| is_late(context, span)) {
        return Vec::new();
    }
    let mut removable: BTreeMap<EventId, Vec<EventId>> = ends.keys().map(|&span| (span, Vec::new())).collect();
    for call in trace.events.ids().filter(|&e| trace.kind(e).is_api_call()) {
        let Some(span) = trace.ancestors(call).filter(|e| ends.contains_key(e)).last() else { continue };
        if trace.events.end(call) <= ends[&span] {
            removable.entry(span).or_default().push(call);
        }
    }
    for (span, removable) in &mut removable {
        let launched = |work: &EventId| {
            let launch = trace.gpu.of_event(*work).and_then(|gpu| trace.gpu.launch[gpu.index()].some());
            launch.is_some_and(|launch| trace.events.end(launch) <= ends[span])
        };
        removable.extend(context.launched_in(*span).filter(launched));
    }
    // Waits alone may come from an allocator that frees memory.
    let kernels = |removable: &[EventId]| removable.iter().filter(|&&e| trace.kind(e) == EventKind::Kernel).count();
    let searches = removable.into_iter().filter(|(_, removable)| kernels(removable) >= MIN_KERNELS);
    let search =
        |(span, removable)| Search { span, removable, remaining_ns: (trace.events.end(span) - ends[&span]).max(0) };
    searches.map(search).collect()
}

/// Runs of an autotuner's candidates (Triton, FlashInfer) in the window, with all GPU work that they launched.
fn autotuner_searches(context: &RuleContext<'_>) -> Vec<Search> {
    let spans = context.outermost(&context.named(&[EventKind::PythonFunction], is_autotuner));
    let removable = |span: EventId| {
        let mut removable = context.with_waits(&[span]);
        removable.extend(context.launched_in(span));
        removable.sort_unstable();
        removable.dedup();
        removable
    };
    spans.into_iter().map(|span| Search { span, removable: removable(span), remaining_ns: 0 }).collect()
}

/// Candidate for the searches at one source location; `None` below the share of the critical path.
fn candidate(context: &RuleContext<'_>, place: SourceLocation, searches: &[Search]) -> Option<Candidate> {
    let trace = context.trace();
    let (later, all) = (context.later_steps(), &trace.steps);
    let events: Vec<EventId> = searches.iter().map(|search| search.span).collect();
    let late: Vec<&Search> = searches.iter().filter(|search| is_late(context, search.span)).collect();
    let searches: Vec<&Search> = searches.iter().collect();
    let removable = searches.iter().flat_map(|search| search.removable.iter().copied());
    let candidates: Vec<EventId> = removable.filter(|&e| trace.kind(e) == EventKind::Kernel).collect();
    let (path, inside) = (context.on_path(), context.path_inside(&events));
    let on_gpu: i64 = candidates.iter().filter_map(|kernel| path.get(kernel)).sum();
    let share = context.percent(inside.iter().sum::<i64>() + on_gpu);
    if share < context.setting("share") {
        return None;
    }
    let name = trace.name(*events.first()?);
    let what = if is_autotuner(name) { "an autotuner" } else { "cuDNN (or MIOpen)" };
    let title = match late.len() == searches.len() {
        true => format!(
            "Autotuning: {what} benchmarks kernels in {} of the {} steps after the first, {share:.0} % of the \
             critical path",
            steps_with(context, later, &late),
            later.len()
        ),
        false => format!(
            "Autotuning: {what} benchmarks kernels in all {} steps, {share:.0} % of the critical path",
            steps_with(context, all, &searches)
        ),
    };
    let edits = edits(context, name, &searches)?;
    // Searches of a first step may include other one-time work.
    let least = if late.len() < searches.len() { vec![self::edits(context, name, &late)?] } else { Vec::new() };
    Some(Candidate {
        title,
        place,
        facts: vec![
            Fact::count("searches", searches.len()),
            Fact::count("candidate kernels", candidates.len()),
            Fact { name: "share of the critical path in algorithm searches", value: share, unit: Unit::Percent },
            Fact::time("time of algorithm searches per step", context.per_step(context.total(&events))),
        ],
        gain_estimate: if least.is_empty() { GainEstimate::edits(edits) } else { GainEstimate::range(edits, least) },
        events,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::High,
    })
}

/// Number of the given steps with a search.
fn steps_with(context: &RuleContext<'_>, steps: &[Step], searches: &[&Search]) -> usize {
    context.steps_with(steps, searches.iter().map(|search| search.span)).len()
}

/// Edits that remove algorithm searches and the kernels that they launch.
fn edits(context: &RuleContext<'_>, name: &str, searches: &[&Search]) -> Option<Vec<Edit>> {
    let kind = if is_autotuner(name) { "frame" } else { "operator" };
    let removable: Vec<EventId> = searches.iter().flat_map(|search| search.removable.iter().copied()).collect();
    let spans: Vec<EventId> = searches.iter().map(|search| search.span).collect();
    let remove = context.edit(Action::Remove, format!("search in {kind}:{name}"), &removable)?;
    // Time of cuDNN between its calls goes, too.
    let left =
        searches.iter().map(|search| search.remaining_ns).sum::<i64>() as f64 / context.total(&spans).max(1) as f64;
    let rest = context.edit(Action::Scale(left.min(1.0)), format!("{kind}:{name} without its search"), &spans);
    Some(std::iter::once(remove).chain(rest.filter(|_| left > 0.0)).collect())
}

#[cfg(test)]
mod tests {
    use super::is_autotuner;

    #[test]
    fn names_of_autotuners() {
        assert!(is_autotuner("triton/runtime/autotuner.py(140): _bench"));
        assert!(!is_autotuner("triton/runtime/autotuner.py(200): run"));
    }
}
