//! SL019: collectives on the critical path that no computation overlaps.

use super::small_collectives::{MEDIAN_SIZE_FACT, latency_bound, small_size};
use crate::{
    AdviceVariant, Area, Candidate, CandidateKind, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext,
    RuleProperty, Setting, Support,
};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::kernel_type::KernelType;
use stackline_timeline::vocabulary::{is_of_engine, xla};

pub(super) const RULE: Rule = Rule {
    code: "SL019",
    name: "collective-not-overlapped",
    area: Area::Communication,
    about: "computation waits for collectives that could run concurrently with it",
    why: "While only a collective runs, the GPU computes nothing.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The reported share is the percentage of the critical path in the collective. The estimate assumes \
                that no other \
         GPU work waits for the collective (what-if operation `overlap`); the host still waits for it. Traces do not \
         show which work needs the result of the collective, so the gain is an upper limit, and the lower bound is 0.",
    advice: "Start collectives earlier and overlap them with computation: smaller buckets (bucket_cap_mb), \
        async_op=True with wait() before the first use, prefetching in FSDP.",
    example: ("dist.all_reduce(grad)\nwork()", "handle = dist.all_reduce(grad, async_op=True)\nwork()\nhandle.wait()"),
    cost: "some memory for outstanding collectives",
    false_positives: "The collective cannot overlap if the next computation needs its result at once. The estimated \
                      gain assumes that no other GPU work waits for the collective, only the host. Many small \
                      collectives, whose time is mostly latency, are reported by SL044.",
    source: "Yang et al., critical paths across threads (CTDA-CPA): communication on the critical path; common practice",
    needs: &[Requirement::GpuWork, Requirement::Collectives],
    settings: &[Setting {
        name: "share",
        default: 1.0,
        range: (0.0, 100.0),
        about: "report only collectives that take at least this percentage of the critical path",
    }],
    advice_variants: &[
        AdviceVariant::for_all(
            "programs that XLA compiled",
            CandidateKind::CompilerCollectives,
            "XLA inserts and schedules this collective. Enable its latency-hiding scheduler and asynchronous \
             collectives (flags in XLA_FLAGS or LIBTPU_INIT_ARGS), or change the sharding so that less is exchanged.",
            (
                "import jax",
                "# On a GPU, before JAX starts:\n\
                 os.environ[\"XLA_FLAGS\"] = \"--xla_gpu_enable_latency_hiding_scheduler=true\"\nimport jax",
            ),
        ),
        AdviceVariant::for_all(
            "programs with collective kernels of inference engines",
            CandidateKind::EngineCollectives,
            "The next layer usually needs the result at once, so only independent work can overlap it: run two \
             micro-batches alternately, if the engine can. Else use fewer tensor-parallel ranks, or the engine's \
             fusion of the collective with the following normalization.",
            (
                "llm = LLM(model, tensor_parallel_size=8)",
                "llm = LLM(model, tensor_parallel_size=4)  # and a second engine on the other 4 GPUs",
            ),
        ),
        AdviceVariant::for_all(
            "programs with small collectives",
            CandidateKind::SmallCollectives,
            "Start collectives earlier and overlap them with computation: async_op=True with wait() before the first \
             use. Merge the independent collectives of a step; smaller buckets would only add collectives.",
            ("dist.all_reduce(loss)\nwork()", "handle = dist.all_reduce(loss, async_op=True)\nwork()\nhandle.wait()"),
        ),
        AdviceVariant::for_all(
            "programs with sends and receives",
            CandidateKind::Messages,
            "Start sends and receives earlier: isend, irecv or batch_isend_irecv, with wait() before the first use. \
             A receive lasts until the other rank sends. If the other rank is late, find the cause in its trace.",
            ("dist.recv(x, src)\nwork()", "handle = dist.irecv(x, src)\nwork()\nhandle.wait()"),
        ),
    ],
    properties: &[RuleProperty::Collectives],
    check,
};

/// Find collectives on the critical path that no computation overlaps, one candidate per kernel name.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let mut types = context.kernel_types();
    let mut collectives = context.gpu_work();
    collectives.retain(|&event| types.of_event(event) == KernelType::Communication);
    // Many small collectives are bound by latency and belong to SL044.
    let of_other_rule = latency_bound(context);
    collectives.retain(|event| !of_other_rule.contains(event));
    let sizes: FxHashMap<EventId, i64> =
        context.collectives().into_iter().filter_map(|c| Some((c.event, c.elements?))).collect();
    let messages: FxHashSet<EventId> = context.messages().into_iter().collect();
    let on_path = context.on_path();
    let candidate = |(name, of): (&str, Vec<_>)| {
        // Waits before a collective belong to it on the path. Where records are missing, they are long.
        let ran_on_path = |event: &EventId| Some((*on_path.get(event)?).min(context.dur(*event)));
        let ns: i64 = of.iter().filter_map(ran_on_path).sum();
        if ns == 0 || context.percent(ns) < context.setting("share") {
            return None;
        }
        let edit = context.edit(Action::Overlap, format!("collective:{name}"), &of)?;
        let (place, _) = context.by_place(&of).into_iter().max_by_key(|(_, of)| context.total(of))?;
        let middle = small_size(context, of.iter().map(|event| sizes.get(event).copied()));
        let size = middle.map(|middle| Fact { name: MEDIAN_SIZE_FACT, value: middle as f64, unit: Unit::None });
        let is_of_messages = of.iter().all(|event| messages.contains(event));
        let kind = kind_of(context, name, &of)
            .or_else(|| is_of_messages.then_some(CandidateKind::Messages))
            .or_else(|| middle.map(|_| CandidateKind::SmallCollectives));
        let facts = [
            Fact::count("calls", of.len()),
            Fact::time("time of the collective on the critical path per step", context.per_step(ns)),
            Fact::time("total time of the collective per step", context.per_step(context.total(&of))),
        ];
        Some(Candidate {
            title: format!(
                "Collective not overlapped: {} takes {:.0} % of the critical path",
                super::shorten_name(name),
                context.percent(ns)
            ),
            place,
            facts: facts.into_iter().chain(size).collect(),
            kind,
            events: of,
            support: Support::Exact,
            confidence: Confidence::Medium,
            // The other work may need the result at once.
            gain_estimate: GainEstimate::range(vec![edit], vec![Vec::new()]),
        })
    };
    context.by_name(&collectives).into_iter().filter_map(candidate).collect()
}

/// Kind of collectives to which advice on PyTorch's collectives does not apply; `None` for others.
fn kind_of(context: &RuleContext<'_>, name: &str, of: &[EventId]) -> Option<CandidateKind> {
    let categories = context.trace().attr(xla::CATEGORY);
    let has_category = || of.iter().any(|&event| categories.get(event).is_some());
    match xla::is_collective(name) || has_category() || context.uses_jax() {
        true => Some(CandidateKind::CompilerCollectives),
        false => is_of_engine(name).then_some(CandidateKind::EngineCollectives),
    }
}
