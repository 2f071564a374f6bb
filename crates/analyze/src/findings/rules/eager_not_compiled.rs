//! SL036: chains of eager elementwise kernels in a program that compiles other parts.

use crate::critical_path::exact::what_if::Action;
use crate::findings::{Area, Confidence, Draft, Fact, Need, Rule, Setting, Subject, Support, Worth};
use rustc_hash::FxHashSet;
use stackline_model::{EventId, EventKind};

pub(super) const RULE: Rule = Rule {
    code: "SL036",
    name: "eager-not-compiled",
    area: Area::Kernels,
    about: "a program that compiles parts of its model runs chains of elementwise kernels elsewhere",
    why: "Each kernel of such a chain reads what the one before wrote; compiled, the chain is one kernel.",
    advice: "Extend torch.compile to the function that runs them, or mend the graph break that leaves it out (TORCH_LOGS=graph_breaks).",
    example: ("model.blocks = torch.compile(model.blocks)", "model = torch.compile(model)"),
    cost: "longer compilation; graph breaks to mend",
    wrong_when: "The chain handles different tensors, which happen to follow each other. The gain supposes that of each chain its \
                 longest kernel stays.",
    source: "DeepContext table 3 (kernel counts of eager and compiled programs)",
    needs: &[Need::GpuWork, Need::Operators],
    settings: &[
        Setting { name: "kernels", default: 20.0, range: (1.0, 1e6), about: "least kernels a step that would vanish" },
        Setting { name: "compiled", default: 10.0, range: (1.0, 1e6), about: "least compiled kernels of the trace" },
    ],
    elsewhere: &[],
    check,
};

/// What Inductor calls its kernels.
const COMPILED: &[&str] = &["triton_poi_", "triton_red_", "triton_per_", "triton_tem_", "triton_for_", "triton__0d"];

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    let is_compiled = |name: &str| COMPILED.iter().any(|prefix| name.starts_with(prefix));
    let compiled = subject.named(&[EventKind::Kernel], is_compiled).len();
    if (compiled as f64) < subject.setting("compiled") {
        return Vec::new();
    }
    let is_eager = |name: &str| name.contains("at::native::") && name.contains("elementwise_kernel");
    // Sums of gradients are the autograd engine's own, which nobody compiles.
    let is_sum = |&kernel: &EventId| subject.stack(kernel).any(|e| subject.trace().name(e).contains("AccumulateGrad"));
    let eager = subject.named(&[EventKind::Kernel], is_eager).into_iter();
    let eager: FxHashSet<EventId> = eager.filter(|kernel| !is_sum(kernel)).collect();
    let mut gone: Vec<EventId> = Vec::new();
    for order in subject.launch_order() {
        for chain in order.chunk_by(|a, b| eager.contains(a) && eager.contains(b)).filter(|chain| chain.len() > 1) {
            let longest = chain.iter().copied().max_by_key(|&kernel| (subject.dur(kernel), kernel));
            gone.extend(chain.iter().copied().filter(|&kernel| Some(kernel) != longest));
        }
    }
    gone.sort_unstable();
    draft(subject, gone, compiled).into_iter().collect()
}

fn draft(subject: &Subject<'_>, gone: Vec<EventId>, compiled: usize) -> Option<Draft> {
    let per_step = gone.len() / subject.steps();
    if (per_step as f64) < subject.setting("kernels") {
        return None;
    }
    let (place, _) = subject.by_code(&gone).into_iter().next()?;
    // They go with their kernels, so that the gain can be more than the time of those.
    let operators = subject.operators_of_nothing_else(&gone);
    let all: Vec<EventId> = operators.iter().chain(&gone).copied().collect();
    let edit = subject.edit(Action::Remove, "elementwise kernels that are not compiled", &all)?;
    Some(Draft {
        title: format!(
            "{per_step} elementwise kernels a step could be part of others, were they compiled like the rest"
        ),
        place,
        facts: vec![
            Fact::count("kernels", gone.len()),
            Fact::time("together, a step", subject.per_step(subject.total(&gone))),
            Fact::time("operators that launch nothing else, a step", subject.per_step(subject.total(&operators))),
            Fact::count("compiled kernels", compiled),
        ],
        events: gone,
        support: Support::Inferred,
        confidence: Confidence::Low,
        worth: Worth::Edits(vec![edit]),
    })
}
