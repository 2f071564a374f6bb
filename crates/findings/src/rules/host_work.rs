//! SL005: code on the critical path with much more host time than GPU time.

use crate::{
    AdviceVariant, Area, Candidate, CandidateKind, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext,
    RuleProperty, Setting, Support,
};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_critical_path::exact::Category;
use stackline_critical_path::exact::what_if::Action;
use stackline_model::names::{MODULE_PREFIX, STEP_PREFIX, TAKE_BATCH, is_compilation};
use stackline_model::vocabulary::lightning;
use stackline_model::{EventId, EventKind, StrId};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::python::OPTIMIZER;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL005",
    name: "cpu-much-longer-than-gpu",
    area: Area::Host,
    about: "a function, module or annotated range keeps the host busy, launches little GPU work, and delays all other work",
    why: "While the host does other work, it launches no kernels.",
    gain_methods: &[GainMethod::Speculative],
    gain_text: "The reported share is the percentage of the critical path that is host time of this function, module \
                or range, without callees that have a finding of their own. The estimate halves the host time of all \
                calls of the function, module or range (what-if operation `scale 0.5`).",
    advice: "Move the work into a DataLoader worker, another thread or the GPU, run it less often, or run it once \
        before the loop.",
    example: (
        "def step(batch):\n    mask = build_mask(batch)  # Python loop",
        "mask = batch.mask  # built by the loader's workers",
    ),
    cost: "the effort depends on the host code",
    false_positives: "Recording Python frames slows Python code down, so the reported time may be too long. The gain \
                      assumes that half of this time can be saved.",
    source: "DeepContext paper, section 4.3, CPU latency analysis",
    needs: &[Requirement::GpuWork, Requirement::RuntimeCalls, Requirement::GpuRecords],
    settings: &[
        Setting {
            name: "share",
            default: 10.0,
            range: (0.0, 100.0),
            about: "report only code that takes at least this percentage of the critical path",
        },
        Setting {
            name: "times",
            default: 10.0,
            range: (1.0, 1e6),
            about: "report only code whose host time is at least this multiple of the time of the GPU work that it \
                 launches",
        },
        Setting {
            name: "launch_us",
            default: 200.0,
            range: (0.0, 1e6),
            about: "report only code with at least this host time per call and per kernel launch, in µs; with less \
                    time, launching itself is the bottleneck",
        },
    ],
    advice_variants: &[AdviceVariant::for_all(
        "programs with this host code in the forward pass of the model",
        CandidateKind::InModel,
        "Shorten the host work of the model: compile it (torch.compile), and move code that does not depend on the \
         batch, such as masks and positions, from forward to __init__.",
        (
            "def forward(self, x):\n    mask = build_mask(self.length)  # Python loop\n    return self.layers(x, mask)",
            "def __init__(self, length):\n    ...\n    self.register_buffer(\"mask\", build_mask(length))",
        ),
    )],
    properties: &[RuleProperty::SlowFunctions],
    check,
};

/// Minimum ratio of the first call to the mean of the others at which it is excluded.
const FIRST_CALL_RATIO: i64 = 4;
/// Prefixes of spans that other rules cover.
const SPANS_OF_OTHER_RULES: &[&str] = &[STEP_PREFIX, OPTIMIZER, TAKE_BATCH, "PyTorch Profiler"];

/// Functions that other rules cover: SL025, SL029 and SL039.
const FUNCTIONS_OF_OTHER_RULES: &[&str] =
    &["<built-in function collect>", "torch/serialization.py(", "<built-in function sleep>"];

/// Suffixes of spans of a model's forward pass: `DistributedDataParallel.forward`, `model.py(3): forward`.
const FORWARD: [&str; 2] = [".forward", ": forward"];

/// Spans of one name, with the time of each on the critical path in ns.
type Group = Vec<(EventId, i64)>;

/// Find functions, modules and annotated ranges on the critical path with much more host time than GPU time, one
/// candidate per name.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    // Some recordings have GPU calls but no GPU times.
    if context.gpu_ns() == 0 {
        return Vec::new();
    }
    let mut by_span: FxHashMap<EventId, i64> = FxHashMap::default();
    let operators = context.operators();
    let around = |operator: &EventId| trace.ancestors(*operator).filter(|&e| context.is_own_frame(e));
    // User functions that run operators or launch GPU work.
    let mut working: FxHashSet<EventId> = operators.iter().flat_map(around).collect();
    working
        .extend(context.gpu_work().iter().flat_map(|&work| context.stack(work).filter(|&e| context.is_own_frame(e))));
    let is_of_other_rule: Vec<bool> =
        trace.strings.iter().map(|name| FUNCTIONS_OF_OTHER_RULES.iter().any(|part| name.contains(part))).collect();
    let is_of_other_rule = |event: EventId| {
        context
            .stack(event)
            .any(|e| is_of_other_rule.get(trace.events.name[e.index()].index()).copied().unwrap_or(false))
    };
    for segment in context.segments().filter(|segment| segment.event.is_some()) {
        if matches!(segment.category, Category::HostOperator | Category::HostPython | Category::HostRuntime)
            && !is_of_other_rule(segment.event)
            && let Some(span) = span_of(context, segment.event, &working)
        {
            *by_span.entry(span).or_default() += segment.end - segment.start;
        }
    }
    let mut spans: Vec<(EventId, i64)> = by_span.into_iter().collect();
    spans.sort_unstable();
    let mut groups: BTreeMap<StrId, Group> = BTreeMap::new();
    for (span, ns) in spans {
        groups.entry(trace.events.name[span.index()]).or_default().push((span, ns));
    }
    groups.into_iter().filter_map(|(name, group)| candidate(context, trace.strings.get(name), group)).collect()
}

/// Code range to which an event's time is attributed: the innermost one; `None` outside of code ranges. For functions
/// that are not `working`, it is the outermost such function, so that the time of a generator counts for its caller.
fn span_of(context: &RuleContext<'_>, event: EventId, working: &FxHashSet<EventId>) -> Option<EventId> {
    let first = context.stack(event).find(|&e| is_span(context, e))?;
    let functions = context.stack(first).filter(|&e| context.is_own_frame(e));
    let outermost = functions.take_while(|function| !working.contains(function)).last();
    Some(outermost.unwrap_or(first))
}

/// Test if an event is a code range that a user recognizes: an annotation, a module, or a user function.
fn is_span(context: &RuleContext<'_>, event: EventId) -> bool {
    let trace = context.trace();
    match trace.kind(event) {
        // On other threads the time may be a wait for threads that were not recorded.
        EventKind::Annotation => context.is_on_launching_thread(event),
        EventKind::PythonFunction => trace.name(event).starts_with(MODULE_PREFIX) || context.is_own_frame(event),
        _ => false,
    }
}

/// Test if a span is a call of a model's module or forward pass, or lies within one.
fn is_of_model(context: &RuleContext<'_>, span: EventId) -> bool {
    let is_call = |name: &str| name.starts_with(MODULE_PREFIX) || FORWARD.iter().any(|end| name.ends_with(end));
    context.stack(span).any(|event| is_call(context.trace().name(event)))
}

/// Exclude a first call that takes far longer than the others: libraries load and tune their kernels.
fn without_first_call(context: &RuleContext<'_>, group: &mut Group) {
    let [first, others @ ..] = &group[..] else { return };
    let mean = others.iter().map(|(span, _)| context.dur(*span)).sum::<i64>() / others.len().max(1) as i64;
    if !others.is_empty() && context.dur(first.0) > FIRST_CALL_RATIO.saturating_mul(mean) {
        group.remove(0);
    }
}

/// Candidate for the spans of one name; `None` if their share is small, or if another rule covers them.
fn candidate(context: &RuleContext<'_>, name: &str, mut group: Group) -> Option<Candidate> {
    let is_once = group.len() < 2;
    without_first_call(context, &mut group);
    let on_path_ns: i64 = group.iter().map(|(_, ns)| ns).sum();
    let spans: Vec<EventId> = group.into_iter().map(|(span, _)| span).collect();
    let share = context.percent(on_path_ns);
    let work: Vec<EventId> = spans.iter().flat_map(|&span| context.launched_in(span)).collect();
    let gpu_ns = context.total(&work);
    let is_other = SPANS_OF_OTHER_RULES.iter().any(|prefix| name.starts_with(prefix))
        || is_compilation(name)
        || lightning::takes_batch(name);
    // A span that mostly calls others does not take the time itself.
    let is_own = context.total(&spans) <= 2 * on_path_ns;
    let per_launch = on_path_ns as f64 / 1e3 / work.len().max(spans.len()) as f64;
    // Work that occurs once in a trace without steps is the start of the program.
    let is_start = is_once && context.trace().steps.is_empty();
    let is_slow = on_path_ns as f64 >= context.setting("times") * gpu_ns as f64;
    if is_start
        || is_other
        || !is_own
        || !is_slow
        || share < context.setting("share")
        || per_launch < context.setting("launch_us")
    {
        return None;
    }
    let edit = context.edit(Action::Scale(0.5), format!("host work of {name}"), &spans)?;
    // Other threads cannot do the work of a model.
    let in_model = is_of_model(context, spans[0]);
    Some(Candidate {
        title: format!(
            "Slow host code: {} is {share:.0} % of the critical path (gain assumes that half of it is saved)",
            super::shorten_name(name)
        ),
        place: context.place(spans[0]),
        facts: vec![
            Fact::count(
                if in_model { "calls of the function inside of the model's forward pass" } else { "calls" },
                spans.len(),
            ),
            Fact::time("host time of the code on the critical path per step", context.per_step(on_path_ns)),
            Fact::time("time of the launched GPU work per step", context.per_step(gpu_ns)),
        ],
        events: spans,
        kind: in_model.then_some(CandidateKind::InModel),
        support: Support::Inferred,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::speculative(vec![edit]),
    })
}
