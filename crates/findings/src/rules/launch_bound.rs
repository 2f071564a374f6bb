//! SL012: the host launches more slowly than the GPU computes.

use crate::{AdviceVariant, Area, Candidate, Fact, Programs, Requirement, Rule, RuleContext, Setting, Support};
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
    about: "the GPU waits because the host takes longer to launch its kernels than it takes to run them",
    why: "An operator costs the host some microseconds in Python and the framework; a short kernel is done before the next comes.",
    advice: "Launch less: torch.compile(mode=\"reduce-overhead\") or CUDA graphs replay all launches at once; larger batches make \
             kernels longer.",
    example: ("model = Model().cuda()", "model = torch.compile(Model().cuda(), mode=\"reduce-overhead\")"),
    cost: "one line and compilation; graphs need the same shapes in each step",
    false_positives: "Recording makes the host slow, above all with Python stacks: compare the step's length without it. The gain supposes \
                 that `scale` of the time of operators is left; the bounds are 0.7 and 1.2 times that. Where graphs launch most kernels \
                 already, nothing is said. What keeps the host for more than 250 µs at a stretch is no \
                 launching, and operators must take a third of the launching themselves.",
    source: "field practice; DeepContext 6.3, kernel fusion analysis",
    needs: &[Requirement::GpuWork, Requirement::RuntimeCalls, Requirement::Operators, Requirement::GpuRecords],
    settings: &[
        Setting {
            name: "share",
            default: 30.0,
            range: (0.0, 100.0),
            about: "least part of the critical path that is the host's launching, in percent",
        },
        Setting {
            name: "idle",
            default: 30.0,
            range: (0.0, 100.0),
            about: "least part of the time in which the GPU does nothing, in percent",
        },
        Setting {
            name: "launch_us",
            default: 500.0,
            range: (0.0, 1e6),
            about: "longest host time per kernel, in µs: above, it is other work of the host",
        },
        Setting { name: "kernels", default: 30.0, range: (1.0, 1e6), about: "least kernels of a step" },
        Setting {
            name: "scale",
            default: 0.25,
            range: (0.0, 1.0),
            about: "what is left of the host's time of operators that launch",
        },
    ],
    advice_variants: &[
        AdviceVariant::of_jax(
            "Launch less: put jax.jit around more of the step, best around all of it, so that one call launches what many launch now; \
             jax.lax.scan runs many steps in one call; larger batches make kernels longer.",
            ("y = jnp.tanh(layer(x)) * 0.5 + 1.0", "y = jax.jit(lambda x: jnp.tanh(layer(x)) * 0.5 + 1.0)(x)"),
        ),
        AdviceVariant {
            programs: "that torch.compile compiles already",
            which: Programs::Where(|context| is_compiled(context.trace())),
            fits: |_| true,
            advice: "Replay what is compiled as CUDA graphs, which launch all of their kernels at once: torch.compile(mode=\"reduce-overhead\"), or \
                 torch.cuda.make_graphed_callables around more; compile what is left outside (SL027, SL036); larger batches make kernels \
                 longer.",
            example: ("model = torch.compile(model)", "model = torch.compile(model, mode=\"reduce-overhead\")"),
        },
    ],
    check,
};

/// What takes the host longer than this without a break is no launching, in ns.
const LONGEST_NS: i64 = 250_000;
/// What of `scale` may be left, and what more than it: one launch of a graph is next to nothing, and parts may stay as they are.
const LEAST: f64 = 0.7;
const MOST: f64 = 1.2;
/// The least part of the launching that operators take themselves is one in so many: Python around them takes the rest.
const PART: f64 = 3.0;

fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let kernels = context.kernels();
    let mean_us = context.total(&kernels) as f64 / 1e3 / kernels.len().max(1) as f64;
    let per_step = kernels.len() / context.steps();
    if (per_step as f64) < context.setting("kernels") {
        return Vec::new();
    }
    // What replays graphs launches little: the host is slow elsewhere.
    if 2 * kernels.iter().filter(|&&kernel| is_of_graph(context, kernel)).count() > kernels.len() {
        return Vec::new();
    }
    let waits = waits(context);
    let operators: BTreeSet<EventId> = kernels.iter().filter_map(|&k| context.outermost_operator(k)).collect();
    let holds_no_wait = |e: &EventId| !waits.contains(e);
    let operators: Vec<EventId> = operators.into_iter().filter(holds_no_wait).collect();
    candidate(context, operators, (per_step, mean_us)).into_iter().collect()
}

/// Whether a launch of a graph launched a kernel, with others.
fn is_of_graph(context: &RuleContext<'_>, kernel: EventId) -> bool {
    let trace = context.trace();
    let launch = trace.gpu.of_event(kernel).and_then(|gpu| trace.gpu.launch[gpu.index()].some());
    launch.is_some_and(|launch| kind_of_name(trace.name(launch)) == Some(CallKind::GraphLaunch))
}

/// Names of what torch.compile runs in place of a function: spans of PyTorch's, and kernels that Inductor made.
const COMPILED: &[&str] = &[
    "Torch-Compiled Region",
    "CompiledFunction",
    "## Call CompiledFxGraph",
    "triton_poi_",
    "triton_red_",
    "triton_per_",
];

fn is_compiled(trace: &Trace) -> bool {
    let is_it: Vec<bool> =
        trace.strings.iter().map(|name| COMPILED.iter().any(|prefix| name.starts_with(prefix))).collect();
    trace.events.name.iter().any(|name| is_it.get(name.index()).copied().unwrap_or(false))
}

/// The code that most of the launching comes from; nowhere if none has most: launching is spread over the program. One operator
/// is no place of what all of them do.
fn place_of(context: &RuleContext<'_>, operators: &[EventId]) -> SourceLocation {
    let mut by_code: BTreeMap<SourceLocation, i64> = BTreeMap::new();
    for (place, of) in context.by_code(operators) {
        *by_code.entry(SourceLocation { operator: None, ..place }).or_default() += context.total(&of);
    }
    let all = context.total(operators);
    by_code.into_iter().find(|(_, ns)| 2 * ns > all).map(|(place, _)| place).unwrap_or_default()
}

/// Operators in which the host waits for the GPU.
fn waits(context: &RuleContext<'_>) -> BTreeSet<EventId> {
    let is_wait = |name: &str| kind_of_name(name).is_some_and(|kind| kind.is_wait() || kind == CallKind::Free);
    let calls = context.named(&[EventKind::Runtime, EventKind::Driver], is_wait);
    calls.into_iter().flat_map(|call| context.stack(call)).collect()
}

fn candidate(
    context: &RuleContext<'_>,
    operators: Vec<EventId>,
    (per_step, mean_us): (usize, f64),
) -> Option<Candidate> {
    use Category::{HostOperator, HostPython, HostRuntime, LaunchLatency};
    let is_launching = |category: Category| matches!(category, HostOperator | HostPython | HostRuntime | LaunchLatency);
    let hops = context.hops().filter(|hop| is_launching(hop.category)).map(|hop| hop.end - hop.start);
    let launching: i64 = hops.filter(|&ns| ns <= LONGEST_NS).sum();
    let share = context.percent(launching);
    let per_launch = context.per_step(launching) as f64 / 1e3 / per_step.max(1) as f64;
    let idle = 100.0 - context.percent(context.gpu_busy_ns());
    // Else the host is busy with other things, while it launches little.
    let in_operators: i64 = context.path_inside(&operators).iter().sum();
    let is_launching = mean_us < per_launch
        && per_launch <= context.setting("launch_us")
        && context.percent(in_operators) * PART >= context.setting("share");
    if share < context.setting("share") || idle < context.setting("idle") || !is_launching {
        return None;
    }
    let scale = context.setting("scale");
    let gain_estimate = context.scaled([scale, scale * LEAST, scale * MOST], "operators that launch", &operators)?;
    let place = place_of(context, &operators);
    Some(Candidate {
        title: format!(
            "the host's launching is {share:.0} % of the critical path, and the GPU is idle {idle:.0} % of the time: {per_step} kernels\
             {} of {mean_us:.1} µs",
            context.words().a_step()
        ),
        place,
        facts: vec![
            Fact::time("host on the critical path, a step", context.per_step(launching)),
            Fact::time("operators that launch, a step", context.per_step(context.total(&operators))),
            Fact::time("GPU work, a step", context.per_step(context.gpu_ns())),
        ],
        events: operators,
        support: Support::Inferred,
        confidence: Confidence::Medium,
        gain_estimate,
    })
}
