//! SL023: collectives that take much longer than others of the same kind, because they wait for other ranks.

use crate::{
    Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, RuleProperty, Setting, Support,
};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, StrId};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::kernel_type::KernelType;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL023",
    name: "collective-waits",
    area: Area::Communication,
    about: "collectives of the same size take very different times, because they wait for late ranks",
    why: "A collective cannot end before the last rank arrives. On ranks that arrive early, the kernel of the \
          collective only waits.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate shortens collectives that take longer than `SL023.times` times the median time of \
                collectives with the same name and size, to this median (what-if operation `set`). For the bounds, it \
                shortens them to the 5th and 95th percentiles of the other collectives.",
    advice: "Find the ranks that arrive last (`stackline collectives` with the traces of all ranks). Fix the cause \
        there: uneven data, a slow GPU, work that only rank 0 does, or garbage collection at different times.",
    example: ("if rank == 0:\n    save(model)  # in each step", "if rank == 0 and step % 1000 == 0:\n    save(model)"),
    cost: "the effort depends on the reason why ranks arrive late",
    false_positives: "The finding is wrong if some calls take longer because the network is shared, not because other \
                      ranks are late. The trace of one rank does not show which rank is late.",
    source: "common practice; HTA's and XProf's straggler analyses",
    needs: &[Requirement::GpuWork, Requirement::Collectives],
    settings: &[
        Setting {
            name: "times",
            default: 2.0,
            range: (1.1, 1000.0),
            about: "report only collectives that take longer than this multiple of the median time of collectives of \
                the same kind and size",
        },
        Setting {
            name: "calls",
            default: 4.0,
            range: (2.0, 1e6),
            about: "check only collectives with at least this many calls of the same kind and size",
        },
    ],
    advice_variants: &[],
    properties: &[RuleProperty::WaitsForRanks],
    check,
};

/// Find collectives of equal name and size of which some take much longer than the median.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    let mut types = context.kernel_types();
    let sizes = trace.attr("In msg nelems");
    let mut groups: BTreeMap<(StrId, Option<i64>), Vec<EventId>> = BTreeMap::new();
    for event in context.gpu_work() {
        // Collectives without a recorded size are not comparable.
        if let Some(size) = sizes.i64(event).filter(|_| types.of_event(event) == KernelType::Communication) {
            groups.entry((trace.events.name[event.index()], Some(size))).or_default().push(event);
        }
    }
    groups.into_iter().filter_map(|((name, _), of)| candidate(context, trace.strings.get(name), of)).collect()
}

/// Candidate for the long calls among collectives of equal name and size; `None` for few calls, or without long ones.
fn candidate(context: &RuleContext<'_>, name: &str, of: Vec<EventId>) -> Option<Candidate> {
    let lengths = context.lengths(&of);
    let median = *lengths.get(lengths.len() / 2)?;
    let limit = median as f64 * context.setting("times");
    let waits: Vec<EventId> = of.iter().copied().filter(|&e| context.dur(e) as f64 > limit).collect();
    if (of.len() as f64) < context.setting("calls") || waits.is_empty() {
        return None;
    }
    let set = |ns: i64| context.edit(Action::SetNs(ns), format!("collective:{name}"), &waits);
    let usual = &lengths[..lengths.len() - waits.len()];
    let others = super::spread(usual).into_iter().filter_map(|ns| Some(vec![set(ns)?])).collect();
    let gain_estimate = GainEstimate::range(vec![set(median)?], others);
    let lost = context.total(&waits) - median * waits.len() as i64;
    Some(Candidate {
        title: format!(
            "Waiting for other ranks: {} of {} calls of {} take much longer than the median, {} in total",
            waits.len(),
            of.len(),
            super::shorten_name(name),
            context.words().time_per_step(context.per_step(lost))
        ),
        place: context.place(waits[0]),
        facts: vec![
            Fact::time("median", median),
            Fact::time("longest", lengths.last().copied().unwrap_or(0)),
            Fact::time("time of waits for other ranks per step", context.per_step(lost)),
        ],
        events: waits,
        kind: None,
        support: Support::Inferred,
        confidence: Confidence::Low,
        gain_estimate,
    })
}
