//! SL012: host that launches kernels more slowly than the GPU runs them.

use crate::{
    AdviceVariant, Area, Candidate, Fact, GainMethod, ProgramCondition, Requirement, Rule, RuleContext, Setting,
    Support,
};
use stackline_critical_path::exact::Category;
use stackline_model::gpu_calls::{CallKind, kind_of_name};
use stackline_model::{EventId, EventKind, Trace};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: Rule = Rule {
    code: "SL012",
    name: "launch-bound",
    area: Area::Host,
    about: "the GPU waits because the host takes longer to launch kernels than the GPU takes to run them",
    why: "An operator costs the host some microseconds in Python and the framework. A short kernel ends before the \
         next launch.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate shortens the outermost operators that launch kernels to `SL012.scale` of their time \
         (what-if operation `scale`), except those in which the host waits. This factor is an assumption about CUDA \
         graphs and compiled code, not a measurement of this program.",
    advice: "Launch fewer kernels: use torch.compile(mode=\"reduce-overhead\") or CUDA graphs, which replay all \
         launches with one call, or increase the batch size for longer kernels.",
    example: ("model = Model().cuda()", "model = torch.compile(Model().cuda(), mode=\"reduce-overhead\")"),
    cost: "one line and compilation; graphs require the same shapes in each step",
    false_positives: "Without the profiler, launching may not be the bottleneck: recording slows the host, most of all \
         with Python stacks. Compare the step time without the profiler. The estimate assumes that the setting `scale` \
         is the part of the operators' time that remains; the bounds are 0.7 and 1.2 times `scale`. The rule reports \
         nothing if CUDA graphs launch most kernels, or if operators take less than a third of the launch time. Host \
         work of more than 250 µs without a launch does not count as launching.",
    source: "common practice; DeepContext paper, section 6.3, kernel fusion analysis",
    needs: &[Requirement::GpuWork, Requirement::RuntimeCalls, Requirement::Operators, Requirement::GpuRecords],
    settings: &[
        Setting {
            name: "share",
            default: 30.0,
            range: (0.0, 100.0),
            about: "report only if launching takes at least this percentage of the critical path",
        },
        Setting {
            name: "idle",
            default: 30.0,
            range: (0.0, 100.0),
            about: "report only if the GPU is idle for at least this percentage of the time",
        },
        Setting {
            name: "launch_us",
            default: 500.0,
            range: (0.0, 1e6),
            about: "report only if the host takes at most this time per launched kernel, in µs; a longer time \
                    indicates other host work",
        },
        Setting {
            name: "kernels",
            default: 30.0,
            range: (1.0, 1e6),
            about: "report only steps with at least this many kernels",
        },
        Setting {
            name: "scale",
            default: 0.25,
            range: (0.0, 1.0),
            about: "assumed fraction of host time that remains after the change, for operators that launch kernels",
        },
    ],
    advice_variants: &[
        AdviceVariant::for_jax(
            "Launch fewer kernels: extend jax.jit to more of the step, ideally all of it, so that one call replaces \
                 many launches; use jax.lax.scan to run many steps in one call. Increase the batch size for longer \
                 kernels.",
            ("y = jnp.tanh(layer(x)) * 0.5 + 1.0", "y = jax.jit(lambda x: jnp.tanh(layer(x)) * 0.5 + 1.0)(x)"),
        ),
        AdviceVariant {
            programs: "programs that already use torch.compile",
            condition: ProgramCondition::Where(|context| is_compiled(context.trace())),
            kind: None,
            advice: "Replay the compiled code as CUDA graphs, which launch all kernels with one call: \
                 torch.compile(mode=\"reduce-overhead\"), or torch.cuda.make_graphed_callables around larger parts. \
                 Compile the remaining eager code (SL027, SL036). Increase the batch size for longer kernels.",
            example: ("model = torch.compile(model)", "model = torch.compile(model, mode=\"reduce-overhead\")"),
        },
    ],
    properties: &[],
    check,
};

/// Host time without a launch, in ns, above which it does not count as launching.
const LONGEST_NS: i64 = 250_000;
/// Bounds as multiples of `scale`. A graph launch costs almost nothing; some parts may not improve.
const MIN_SCALE: f64 = 0.7;
const MAX_SCALE: f64 = 1.2;
/// Operators must account for at least one part in this number of the launch time. Python around them accounts for the
/// rest.
const MIN_OPERATOR_FRACTION: f64 = 3.0;

/// Find out if the host launches kernels more slowly than the GPU runs them; at most one candidate.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let kernels = context.kernels();
    let mean_us = context.total(&kernels) as f64 / 1e3 / kernels.len().max(1) as f64;
    let per_step = kernels.len() / context.steps();
    if (per_step as f64) < context.setting("kernels") {
        return Vec::new();
    }
    // A program that replays graphs launches little, so its host is slow elsewhere.
    if 2 * kernels.iter().filter(|&&kernel| is_of_graph(context, kernel)).count() > kernels.len() {
        return Vec::new();
    }
    let waits = waiting_events(context);
    let operators: BTreeSet<EventId> = kernels.iter().filter_map(|&k| context.outermost_operator(k)).collect();
    let holds_no_wait = |e: &EventId| !waits.contains(e);
    let operators: Vec<EventId> = operators.into_iter().filter(holds_no_wait).collect();
    candidate(context, operators, (per_step, mean_us)).into_iter().collect()
}

/// Check if a graph launch started the kernel together with others.
fn is_of_graph(context: &RuleContext<'_>, kernel: EventId) -> bool {
    let trace = context.trace();
    let launch = trace.gpu.of_event(kernel).and_then(|gpu| trace.gpu.launch[gpu.index()].some());
    launch.is_some_and(|launch| kind_of_name(trace.name(launch)) == Some(CallKind::GraphLaunch))
}

/// Name patterns of code that torch.compile generated: PyTorch's spans and Inductor's kernels.
const COMPILED: &[&str] = &[
    "Torch-Compiled Region",
    "CompiledFunction",
    "## Call CompiledFxGraph",
    "triton_poi_",
    "triton_red_",
    "triton_per_",
];

/// Test if torch.compile compiled a part of the program, by the names of events.
fn is_compiled(trace: &Trace) -> bool {
    let is_it: Vec<bool> =
        trace.strings.iter().map(|name| COMPILED.iter().any(|prefix| name.starts_with(prefix))).collect();
    trace.events.name.iter().any(|name| is_it.get(name.index()).copied().unwrap_or(false))
}

/// Source location of most of the launching, or none if launching is spread over the program. A single operator
/// does not represent the location of all.
fn dominant_location(context: &RuleContext<'_>, operators: &[EventId]) -> SourceLocation {
    let mut by_code: BTreeMap<SourceLocation, i64> = BTreeMap::new();
    for (place, of) in context.by_code(operators) {
        *by_code.entry(SourceLocation { operator: None, ..place }).or_default() += context.total(&of);
    }
    let all = context.total(operators);
    by_code.into_iter().find(|(_, ns)| 2 * ns > all).map(|(place, _)| place).unwrap_or_default()
}

/// Calls in which the host waits for the GPU, and all events around them.
fn waiting_events(context: &RuleContext<'_>) -> BTreeSet<EventId> {
    let is_wait = |name: &str| kind_of_name(name).is_some_and(|kind| kind.is_wait() || kind == CallKind::Free);
    let calls = context.named(&[EventKind::Runtime, EventKind::Driver], is_wait);
    calls.into_iter().flat_map(|call| context.stack(call)).collect()
}

/// Candidate for all operators that launch kernels; `None` unless the GPU is idle and launching dominates the critical
/// path.
fn candidate(
    context: &RuleContext<'_>,
    operators: Vec<EventId>,
    (per_step, mean_us): (usize, f64),
) -> Option<Candidate> {
    use Category::{HostOperator, HostPython, HostRuntime, LaunchLatency};
    let is_launching = |category: Category| matches!(category, HostOperator | HostPython | HostRuntime | LaunchLatency);
    let segments =
        context.segments().filter(|segment| is_launching(segment.category)).map(|segment| segment.end - segment.start);
    let launching: i64 = segments.filter(|&ns| ns <= LONGEST_NS).sum();
    let share = context.percent(launching);
    let per_launch = context.per_step(launching) as f64 / 1e3 / per_step.max(1) as f64;
    let idle = 100.0 - context.percent(context.gpu_busy_ns());
    // Otherwise the host is busy with other work and launches little.
    let in_operators: i64 = context.path_inside(&operators).iter().sum();
    let is_launching = mean_us < per_launch
        && per_launch <= context.setting("launch_us")
        && context.percent(in_operators) * MIN_OPERATOR_FRACTION >= context.setting("share");
    if share < context.setting("share") || idle < context.setting("idle") || !is_launching {
        return None;
    }
    let scale = context.setting("scale");
    let gain_estimate =
        context.scaled([scale, scale * MIN_SCALE, scale * MAX_SCALE], "operators that launch kernels", &operators)?;
    let place = dominant_location(context, &operators);
    Some(Candidate {
        title: format!(
            "Launch-bound: GPU idle {idle:.0} % of the time, host launching on {share:.0} % of the critical path, \
                 {per_step} kernels{}, mean {mean_us:.1} µs",
            context.words().per_step_suffix()
        ),
        place,
        facts: vec![
            Fact::time("launch time on the critical path per step", context.per_step(launching)),
            Fact::time("time of the launching operators per step", context.per_step(context.total(&operators))),
            Fact::time("time of GPU work per step", context.per_step(context.gpu_ns())),
        ],
        events: operators,
        kind: None,
        support: Support::Inferred,
        confidence: Confidence::Medium,
        gain_estimate,
    })
}
