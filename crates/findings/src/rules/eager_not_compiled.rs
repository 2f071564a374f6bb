//! SL036: chains of elementwise kernels without compilation.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use rustc_hash::FxHashSet;
use stackline_critical_path::exact::what_if::Action;
use stackline_model::format::duration;
use stackline_model::{EventId, EventKind};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::autograd::is_accumulation;
use stackline_timeline::vocabulary::categories::NATIVE_NAMESPACE;
use stackline_timeline::vocabulary::python::OPTIMIZER;

pub(super) const RULE: Rule = Rule {
    code: "SL036",
    name: "eager-not-compiled",
    area: Area::Kernels,
    about: "sequences of elementwise kernels run one by one, although torch.compile could fuse each sequence into one \
         kernel",
    why: "Each kernel of a sequence reads the output of the previous kernel from memory. A compiled sequence is one \
        kernel that keeps these values in registers.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "Of each sequence of consecutive elementwise kernels, the estimate removes all kernels except the \
         longest (what-if operation `remove`). The estimate also removes the operators that launch only removed \
         kernels.",
    advice: "Call torch.compile on the function that runs these kernels. If the program already compiles its model, \
        fix the graph break that excludes the function (TORCH_LOGS=graph_breaks).",
    example: ("y = activate(x)", "activate = torch.compile(activate)\ny = activate(x)"),
    cost: "compilation takes longer; graph breaks may have to be fixed",
    false_positives: "Kernels cannot be fused if they process different tensors and only happen to follow each other. \
        The gain assumes that only the longest kernel of each sequence remains. The upper bound assumes that \
        reductions between such kernels are fused, too. Optimizer kernels are reported by SL015. In a program without \
        compiled code, only sequences of at least three kernels count.",
    source: "DeepContext paper, table 3 (kernel counts of eager and compiled programs)",
    needs: &[Requirement::GpuWork, Requirement::Operators],
    settings: &[
        Setting {
            name: "kernels",
            default: 20.0,
            range: (1.0, 1e6),
            about: "in a program with compiled code: report only if compilation would remove at least this many \
            kernels per step",
        },
        Setting {
            name: "compiled",
            default: 10.0,
            range: (1.0, 1e6),
            about: "smallest number of compiled kernels with which a program counts as partly compiled",
        },
        Setting {
            name: "share",
            default: 10.0,
            range: (0.0, 100.0),
            about: "in a program without compiled code: report only if the removable kernels take at least this \
                percentage of the critical path",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Name prefixes of Inductor's kernels.
const COMPILED: &[&str] = &["triton_poi_", "triton_red_", "triton_per_", "triton_tem_", "triton_for_", "triton__0d"];
/// Name parts of PyTorch's own elementwise kernels.
const ELEMENTWISE: &[&str] = &["elementwise_kernel"];
/// Name parts of PyTorch's reduction kernels, which a compiler fuses with preceding kernels.
const REDUCTIONS: &[&str] = &["reduce_kernel"];
/// Minimum length of a chain in a program without compiled code, as two kernels may follow each other by accident.
const MIN_CHAIN: usize = 3;

/// Find chains of elementwise kernels that torch.compile would fuse; at most one candidate.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let is_compiled = |name: &str| COMPILED.iter().any(|prefix| name.starts_with(prefix));
    let compiled = context.named(&[EventKind::Kernel], is_compiled).len();
    let compiles = compiled as f64 >= context.setting("compiled");
    let shortest = if compiles { 2 } else { MIN_CHAIN };
    let removable = fusable_kernels(context, ELEMENTWISE, shortest);
    let is_enough = if compiles {
        (removable.len() / context.steps()) as f64 >= context.setting("kernels")
    } else {
        let path = context.on_path();
        let on_path: i64 = removable.iter().filter_map(|kernel| path.get(kernel)).sum();
        on_path > 0 && context.percent(on_path) >= context.setting("share")
    };
    if !is_enough {
        return Vec::new();
    }
    let most = fusable_kernels(context, &[ELEMENTWISE, REDUCTIONS].concat(), shortest);
    candidate(context, removable, &most, compiles.then_some(compiled)).into_iter().collect()
}

/// Kernels that fusion would remove: all but the longest of each chain of consecutively launched kernels with matching
/// names.
fn fusable_kernels(context: &RuleContext<'_>, names: &[&str], shortest: usize) -> Vec<EventId> {
    let trace = context.trace();
    let is_eager = |name: &str| name.contains(NATIVE_NAMESPACE) && names.iter().any(|part| name.contains(part));
    // Accumulation in the autograd engine cannot be compiled; kernels of the optimizer belong to SL015.
    let is_covered = |&kernel: &EventId| {
        context.stack(kernel).any(|e| is_accumulation(trace.name(e)) || trace.name(e).starts_with(OPTIMIZER))
    };
    let eager = context.named(&[EventKind::Kernel], is_eager).into_iter();
    let eager: FxHashSet<EventId> = eager.filter(|kernel| !is_covered(kernel)).collect();
    let mut removable: Vec<EventId> = Vec::new();
    for order in context.launch_order() {
        let chains = order.chunk_by(|a, b| eager.contains(a) && eager.contains(b));
        for chain in chains.filter(|chain| chain.len() >= shortest) {
            let longest = chain.iter().copied().max_by_key(|&kernel| (context.dur(kernel), kernel));
            removable.extend(chain.iter().copied().filter(|&kernel| Some(kernel) != longest));
        }
    }
    removable.sort_unstable();
    removable
}

/// Candidate for fusing the `removable` kernels, or at most the kernels `most`. `compiled`: number of compiled kernels,
/// if the program compiles parts of its model.
fn candidate(
    context: &RuleContext<'_>,
    removable: Vec<EventId>,
    most: &[EventId],
    compiled: Option<usize>,
) -> Option<Candidate> {
    let per_step = removable.len() / context.steps();
    let (place, _) = context.by_code(&removable).into_iter().next()?;
    let operators = context.operators_launching_only(&removable);
    let edits = |kernels: &[EventId]| {
        let operators = context.operators_launching_only(kernels);
        let all: Vec<EventId> = operators.iter().chain(kernels).copied().collect();
        Some(vec![context.edit(Action::Remove, "elementwise kernels that are not compiled", &all)?])
    };
    let suffix = context.words().per_step_suffix();
    let time = duration(context.per_step(context.total(&removable)));
    Some(Candidate {
        title: match compiled {
            Some(_) => format!(
                "Not compiled: {per_step} elementwise kernels{suffix} ({time}) could be fused, as in the compiled \
                 part of the program"
            ),
            None => format!("Not compiled: {per_step} elementwise kernels{suffix} ({time}) could be fused"),
        },
        place,
        facts: vec![
            Fact::count("kernels", removable.len()),
            Fact::time("total time of the elementwise kernels per step", context.per_step(context.total(&removable))),
            Fact::time(
                "time of operators that launch only removable kernels per step",
                context.per_step(context.total(&operators)),
            ),
            Fact::count("compiled kernels", compiled.unwrap_or(0)),
        ],
        gain_estimate: GainEstimate::range(edits(&removable)?, vec![edits(most)?]),
        events: removable,
        kind: None,
        support: Support::Inferred,
        confidence: Confidence::Low,
    })
}
