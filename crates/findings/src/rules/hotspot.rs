//! SL001: one kernel takes a large share of GPU time.

use crate::{
    AdviceVariant, Area, Candidate, CandidateKind, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext,
    Setting, Support,
};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::Unit;
use stackline_timeline::confidence::Confidence;
use stackline_timeline::kernel_type::KernelType;

pub(super) const RULE: Rule = Rule {
    code: "SL001",
    name: "hotspot",
    area: Area::Kernels,
    about: "a kernel takes a large share of GPU time",
    why: "A change to the longest kernel can save the most time.",
    gain_methods: &[GainMethod::Speculative],
    gain_text: "The estimate halves the time of all runs of the kernel (what-if operation `scale 0.5`). The reported \
         share is the kernel's part of the time of kernels, copies and fills on the GPU.",
    advice: "Speed up the kernel: lower precision, a fused or tuned implementation, better shapes, or less work.",
    example: ("y = x.float() @ w.float()", "y = x @ w  # both bfloat16: tensor cores"),
    cost: "the effort depends on the kernel",
    false_positives: "The kernel cannot be improved if it is already as fast as the hardware allows. The gain assumes \
        half of the kernel's time, without knowing how to save it.",
    source: "DeepContext paper, section 4.3, hotspot identification",
    needs: &[Requirement::GpuWork],
    settings: &[Setting {
        name: "share",
        default: 20.0,
        range: (0.0, 100.0),
        about: "report only kernels that take at least this percentage of GPU busy time",
    }],
    advice_variants: &[AdviceVariant::for_all(
        "programs whose CUDA graphs were recorded as a whole",
        CandidateKind::WholeGraph,
        "Record the kernels of the graph, of which the trace has no times, and speed up the longest ones.",
        ("# nsys profile python train.py", "# nsys profile --cuda-graph-trace=node python train.py"),
    )],
    properties: &[],
    check,
};

/// Argument of operations that are launches of whole CUDA graphs, in exports of Nsight Systems.
const GRAPH_LAUNCH: &str = "graph exec id";

/// Find computation kernels that take a large share of GPU time, one candidate per kernel name.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let mut events = context.gpu_work();
    let mut types = context.kernel_types();
    events.retain(|&event| types.of_event(event) == KernelType::Computation);
    let share = |ns: i64| context.percent_of_gpu(ns);
    let hot =
        context.by_name(&events).into_iter().filter(|(_, of)| share(context.total(of)) >= context.setting("share"));
    let graphs = context.trace().attr(GRAPH_LAUNCH);
    let candidate = |(name, of): (&str, Vec<_>)| {
        let is_graph = of.iter().all(|&event| graphs.get(event).is_some());
        let share_name = match is_graph {
            true => "share of the CUDA graph in GPU time",
            false => "share of the kernel in GPU time",
        };
        let ns = context.total(&of);
        let edit = context.edit(Action::Scale(0.5), format!("kernel:{name}"), &of)?;
        let (place, _) = context.by_place(&of).into_iter().max_by_key(|(_, of)| context.total(of))?;
        Some(Candidate {
            title: format!(
                "Hotspot: {} takes {:.0} % of GPU time (gain assumes that half of it is saved)",
                super::shorten_name(name),
                share(ns)
            ),
            place,
            facts: vec![
                Fact::count("calls", of.len()),
                Fact { name: share_name, value: share(ns), unit: Unit::Percent },
                Fact::time("mean", ns / of.len().max(1) as i64),
            ],
            events: of,
            kind: is_graph.then_some(CandidateKind::WholeGraph),
            support: Support::Exact,
            confidence: Confidence::Low,
            gain_estimate: GainEstimate::speculative(vec![edit]),
        })
    };
    hot.filter_map(candidate).collect()
}
