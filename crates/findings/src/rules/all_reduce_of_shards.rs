//! SL020: gradients are all-reduced, although each rank keeps only a shard.

use crate::collectives::Collective;
use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::{Action, Edit};
use stackline_model::vocabulary::deepspeed::SHARDED_GRADIENTS;
use stackline_model::{EventId, StrId};
use stackline_timeline::confidence::Confidence;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL020",
    name: "all-reduce-of-shards",
    area: Area::Communication,
    about: "gradients are reduced with AllReduce, although each rank needs only its shard of the sum",
    why: "In a ring, AllReduce moves every element twice and ReduceScatter once. With a sharded optimizer, each rank \
        updates only its part of the parameters, which are gathered or broadcast afterwards. The rank does not need \
        the other parts of the summed gradients.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate halves the time of each AllReduce, excluding its waits for other ranks (what-if \
         operation `scale`). Time beyond the median of all AllReduces of the same size counts as waiting for other \
         ranks, and is not shortened. For the lower bound, each AllReduce gets shorter by 0.4 times the time of the \
         shortest AllReduce of the same size. The upper bound halves all of the time, including waits.",
    advice: "Use ReduceScatter for gradients: FSDP (fully_shard) instead of DDP with a sharded optimizer, \
        \"reduce_scatter\": true in DeepSpeed's zero_optimization, or dist.reduce_scatter_tensor.",
    example: (
        "dist.all_reduce(grads)\npart = grads.chunk(world)[rank]\nstep(part)\ndist.all_gather_into_tensor(params, part)",
        "part = grads.new_empty(grads.numel() // world)\ndist.reduce_scatter_tensor(part, grads)\nstep(part)\n\
         dist.all_gather_into_tensor(params, part)",
    ),
    cost: "a few lines, and gradients padded to a multiple of the number of ranks; code that needs the norm of all \
        gradients needs one more small AllReduce",
    false_positives: "AllReduce is needed if other code uses the whole sum on each rank. The rule infers a sharded \
                      optimizer from sizes: as many elements are gathered as reduced, so the gathered elements are \
                      probably the parameters. The estimated gain assumes the ring algorithm, in which ReduceScatter \
                      takes half the time of AllReduce. Waits for other ranks (time beyond the median of calls of the \
                      same size) are not shortened. The lower bound assumes that AllReduce gets 40 % faster; 44 % was \
                      measured on eight GPUs (Yang et al.). Collectives that network switches compute (NVLS, SHARP) \
                      are not reported.",
    source: "Yang et al., critical paths across threads (CTDA-CPA), section 4.4: DeepSpeed ZeRO-2 on eight GPUs",
    needs: &[Requirement::GpuWork, Requirement::Collectives],
    settings: &[
        Setting {
            name: "match",
            default: 10.0,
            range: (0.0, 50.0),
            about: "report only if the numbers of gathered and reduced elements differ by at most this percentage",
        },
        Setting {
            name: "elements",
            default: 65536.0,
            range: (1.0, 1e12),
            about: "check only collectives with at least this many elements",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Remaining share of a ring's AllReduce time with ReduceScatter: by the model, and at most.
const REMAINING: f64 = 0.5;
const MAX_REMAINING: f64 = 0.6;

/// Find process groups whose ranks all-reduce gradients, although each rank keeps only a shard.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let mut by_group: BTreeMap<Option<StrId>, Vec<Collective>> = BTreeMap::new();
    for collective in context.collectives() {
        if collective.elements.is_some_and(|count| count as f64 >= context.setting("elements")) {
            by_group.entry(collective.group).or_default().push(collective);
        }
    }
    by_group.into_values().filter_map(|of| group_candidate(context, &of)).collect()
}

/// Candidate for one process group: all AllReduces if as many elements are gathered, else those of sharded gradients.
fn group_candidate(context: &RuleContext<'_>, of: &[Collective]) -> Option<Candidate> {
    let elements = |of: &[Collective]| of.iter().filter_map(|c| c.elements).fold(0, i64::saturating_add);
    let is_gather = |c: &&Collective| matches!(c.family, "all_gather" | "broadcast");
    let gathers: Vec<Collective> = of.iter().filter(is_gather).copied().collect();
    let is_ring = |c: &&Collective| {
        let name = context.trace().name(c.event);
        c.family == "all_reduce" && !["NVLS", "COLLNET"].iter().any(|algorithm| name.contains(algorithm))
    };
    let reduces: Vec<Collective> = of.iter().filter(is_ring).copied().collect();
    let (reduced, gathered) = (elements(&reduces), elements(&gathers));
    let is_same = (reduced - gathered).abs() as f64 <= reduced as f64 * context.setting("match") / 100.0;
    if reduced > 0 && is_same {
        return candidate(context, &reduces, gathered, Support::Inferred);
    }
    let of_shards: Vec<Collective> = reduces.into_iter().filter(|c| keeps_only_a_shard(context, c.event)).collect();
    candidate(context, &of_shards, gathered, Support::Exact)
}

/// True if a caller of the collective, by its name, keeps only a shard of the summed gradients.
fn keeps_only_a_shard(context: &RuleContext<'_>, event: EventId) -> bool {
    let trace = context.trace();
    let is_sharded = |name: &str| SHARDED_GRADIENTS.iter().any(|part| name.contains(part));
    context.stack(event).any(|e| {
        is_sharded(trace.name(e)) || context.stack_frames(e).iter().any(|&frame| is_sharded(trace.strings.get(frame)))
    })
}

/// Candidate for AllReduces that ReduceScatter could replace; `None` if there are none.
fn candidate(context: &RuleContext<'_>, reduces: &[Collective], gathered: i64, support: Support) -> Option<Candidate> {
    let mut by_size: BTreeMap<i64, Vec<EventId>> = BTreeMap::new();
    for reduce in reduces {
        by_size.entry(reduce.elements?).or_default().push(reduce.event);
    }
    // Time beyond the usual for its size is a wait for other ranks, which ReduceScatter would also have.
    let median = |lengths: &[i64]| lengths[lengths.len() / 2];
    let likely = edits(context, &by_size, (REMAINING, median))?;
    let least = edits(context, &by_size, (MAX_REMAINING, |lengths| lengths[0]))?;
    let most = edits(context, &by_size, (REMAINING, |lengths| lengths[lengths.len() - 1]))?;
    let events: Vec<EventId> = reduces.iter().map(|reduce| reduce.event).collect();
    let elements = reduces.iter().filter_map(|c| c.elements).fold(0, i64::saturating_add);
    let (place, _) = context.by_place(&events).into_iter().max_by_key(|(_, of)| context.total(of))?;
    let calls = events.len().div_ceil(context.steps().max(1));
    Some(Candidate {
        title: format!(
            "AllReduce of sharded gradients: {calls} calls{}, {}; ReduceScatter would move half as much data",
            context.words().per_step_suffix(),
            context.words().time_per_step(context.per_step(context.total(&events)))
        ),
        place,
        facts: vec![
            Fact::count("AllReduces", events.len()),
            Fact::count("elements reduced by AllReduce per step", context.per_step(elements) as usize),
            Fact::count("elements gathered by AllGather per step", context.per_step(gathered) as usize),
            Fact::time("AllReduce time per step", context.per_step(context.total(&events))),
        ],
        events,
        kind: None,
        support,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::range(likely, vec![least, most]),
    })
}

/// Remaining share of an AllReduce's time without waits, and the usual time without waits in ns. The function takes the
/// sorted lengths of all AllReduces of one size.
type Model = (f64, fn(&[i64]) -> i64);

/// Edits that scale the AllReduces of each size to the time that remains by a model of their cost; none without
/// AllReduces.
fn edits(context: &RuleContext<'_>, by_size: &BTreeMap<i64, Vec<EventId>>, (left, usual): Model) -> Option<Vec<Edit>> {
    let edit = |(size, of): (&i64, &Vec<EventId>)| {
        let lengths = context.lengths(of);
        let usual = usual(&lengths);
        let without_waits: i64 = lengths.iter().map(|&ns| ns.min(usual)).sum();
        let factor = 1.0 - (1.0 - left) * without_waits as f64 / context.total(of).max(1) as f64;
        let text = format!("collective:AllReduce of {size} elements");
        context.edit(Action::Scale((factor * 1e3).round() / 1e3), text, of)
    };
    let edits: Option<Vec<Edit>> = by_size.iter().map(edit).collect();
    edits.filter(|edits| !edits.is_empty())
}
