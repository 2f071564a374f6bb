//! SL048: a program without a backward pass records autograd's graph.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use rustc_hash::FxHashMap;
use stackline_critical_path::exact::what_if::{Action, Chosen};
use stackline_model::{EventId, LinkKind, TrackId};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::aten;
use stackline_timeline::vocabulary::autograd::{ENGINE, is_node};
use stackline_timeline::vocabulary::python::OPTIMIZER;

pub(super) const RULE: Rule = Rule {
    code: "SL048",
    name: "autograd-in-inference",
    area: Area::Host,
    about: "autograd records a graph, although the program never runs a backward pass",
    why: "Each operator creates a graph node, saves its inputs for the backward pass, and frees node and inputs \
          later. Because of the saved inputs, the activations of all layers stay allocated.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate shortens outermost operators that create graph nodes by 2.4 µs per node (what-if \
         operation `scale`), a value between those measured in two programs. The bounds are 0.8 and 5 µs. The estimate \
         leaves kernels unchanged, so the gain is 0 if the GPU is the bottleneck.",
    advice: "Run the forward pass under torch.inference_mode(), or under torch.no_grad() if training uses its \
        outputs later.",
    example: ("def serve(x):\n    return model(x)", "@torch.inference_mode()\ndef serve(x):\n    return model(x)"),
    cost: "one line; outputs of inference_mode cannot take part in training",
    false_positives: "The finding is wrong if the trace is a part of training, and its backward pass was not recorded \
        or comes later. The rule reports traces without any backward node or optimizer step in which the sequence \
        numbers of operators grow. Only autograd increases these numbers, with each graph node. Subclasses of \
        torch.autograd.Function do not count, because they create a node in any mode. The gain is the host time of the \
        nodes, without effects of the saved memory.",
    source: "common practice; PyTorch's performance tuning guide",
    needs: &[Requirement::Operators],
    settings: &[Setting {
        name: "nodes",
        default: 10.0,
        range: (1.0, 1e9),
        about: "report only if a step creates at least this many graph nodes",
    }],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Host time of a graph node in ns: the operator creates and fills the node, and later code frees it. A value between
/// 1.7 and 3.3 µs, measured in two programs with PyTorch 2 on a CPU.
const NODE_NS: f64 = 2_400.0;
/// Bounds for faster and slower hosts.
const BOUNDS_NS: [f64; 2] = [800.0, 5_000.0];

/// Find operators that create autograd nodes in a program that never trains; at most one candidate.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    if is_training(context) {
        return Vec::new();
    }
    let (nodes, operators) = nodes(context);
    if (nodes as f64) < context.setting("nodes") * context.steps() as f64 {
        return Vec::new();
    }
    let total = context.total(&operators).max(1) as f64;
    // Scale time ranges instead of operators: the cost of recording them stays.
    let ranges = || operators.iter().map(|&operator| (operator, operator)).collect();
    let shorter = |node_ns: f64| {
        let factor = (1.0 - nodes as f64 * node_ns / total).max(0.0);
        let chosen = Chosen { ranges: ranges(), ..Chosen::default() };
        context
            .edit_of(Action::Scale(factor), "operators that create autograd graph nodes", chosen)
            .map(|edit| vec![edit])
    };
    let by_place = context.by_place(&operators).into_iter().max_by_key(|(_, of)| of.len());
    let bounds = BOUNDS_NS.map(shorter).into_iter().flatten().collect();
    let candidate = |likely| Candidate {
        title: format!(
            "Autograd in inference: {} graph nodes{} without a backward pass, about {}",
            nodes / context.steps().max(1) as i64,
            context.words().per_step_suffix(),
            context.words().time_per_step(context.per_step((nodes as f64 * NODE_NS) as i64))
        ),
        place: by_place.map(|(place, _)| place).unwrap_or_default(),
        facts: vec![
            Fact::count("nodes", nodes as usize),
            Fact::count("operators with a sequence number", operators.len()),
            Fact::time(
                "host time of operators with a sequence number per step",
                context.per_step(context.total(&operators)),
            ),
        ],
        events: operators.clone(),
        kind: None,
        support: Support::Inferred,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::range(likely, bounds),
    };
    shorter(NODE_NS).map(candidate).into_iter().collect()
}

/// Test if anything in the whole trace indicates training: backward links or nodes, or an optimizer.
fn is_training(context: &RuleContext<'_>) -> bool {
    let trace = context.trace();
    let is_of_training = |name: &str| {
        is_node(name)
            || name.starts_with(OPTIMIZER)
            || name.contains(ENGINE)
            || name.contains("run_backward")
            || name.contains("CompiledFunctionBackward")
            || aten::is_backward(name)
    };
    trace.links.has(LinkKind::Backward) || trace.strings.iter().any(is_of_training)
}

/// Number of nodes that operators of the window create in autograd's graph, and the outermost operators with a sequence
/// number.
fn nodes(context: &RuleContext<'_>) -> (i64, Vec<EventId>) {
    let trace = context.trace();
    let sequence = trace.attr("Sequence number");
    let mut numbers: FxHashMap<TrackId, Vec<(i64, i64)>> = FxHashMap::default();
    let mut numbered = Vec::new();
    // A subclass of torch.autograd.Function, without namespace, creates its node in any mode.
    for operator in context.operators().into_iter().filter(|&operator| trace.name(operator).contains("::")) {
        // Without autograd the number is -1 or missing.
        let Some(number) = sequence.i64(operator).filter(|&number| number >= 0) else { continue };
        let of_track = numbers.entry(trace.events.track[operator.index()]).or_default();
        of_track.push((trace.events.start[operator.index()], number));
        numbered.push(operator);
    }
    (numbers.into_values().map(growth).sum(), context.outermost(&numbered))
}

/// Number of autograd nodes that a thread's operators create, from pairs of start and sequence number.
///
/// An operator has the number of the node that it may create, so the next number is greater by one if it did.
/// Unrecorded operators in between may have created any number of nodes, so each pair counts at most one.
fn growth(mut numbers: Vec<(i64, i64)>) -> i64 {
    numbers.sort_unstable();
    numbers.windows(2).map(|pair| (pair[1].1 - pair[0].1).clamp(0, 1)).sum()
}
