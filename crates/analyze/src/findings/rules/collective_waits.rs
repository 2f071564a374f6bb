//! SL023: collectives that take much longer than the quickest of their kind: they wait for other ranks.

use crate::critical_path::exact::what_if::Action;
use crate::findings::{Area, Confidence, Draft, Fact, Need, Rule, Setting, Subject, Support, Worth};
use crate::kernel_type::KernelType;
use stackline_model::{EventId, StrId};
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL023",
    name: "collective-waits",
    area: Area::Communication,
    about: "collectives of one size take very different times: they wait for ranks that come late",
    why: "A collective ends when the last rank has come. On a rank that came early, its kernel does nothing but wait.",
    advice: "Look at the ranks that come last (`stackline collectives` with all ranks): uneven data, a slow GPU, work of rank 0 \
             alone, garbage collection at different times.",
    example: ("if rank == 0:\n    save(model)  # in each step", "if rank == 0 and step % 1000 == 0:\n    save(model)"),
    cost: "depends on why ranks come late",
    wrong_when: "The network is shared, and slower at times. One trace does not tell which rank is late.",
    source: "field practice; HTA's and XProf's straggler analyses",
    needs: &[Need::GpuWork, Need::Collectives],
    settings: &[
        Setting {
            name: "times",
            default: 2.0,
            range: (1.1, 1000.0),
            about: "so many times the median of its kind and size is a wait",
        },
        Setting { name: "calls", default: 4.0, range: (2.0, 1e6), about: "least calls of a kind and size" },
    ],
    elsewhere: &[],
    check,
};

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    let trace = subject.trace();
    let mut types = subject.kernel_types();
    let sizes = trace.attr("In msg nelems");
    let mut groups: BTreeMap<(StrId, Option<i64>), Vec<EventId>> = BTreeMap::new();
    for event in subject.gpu_work() {
        // Without a size, collectives of all sizes would be compared.
        if let Some(size) = sizes.i64(event).filter(|_| types.of_event(event) == KernelType::Communication) {
            groups.entry((trace.events.name[event.index()], Some(size))).or_default().push(event);
        }
    }
    groups.into_iter().filter_map(|((name, _), of)| draft(subject, trace.strings.get(name), of)).collect()
}

fn draft(subject: &Subject<'_>, name: &str, of: Vec<EventId>) -> Option<Draft> {
    let lengths = subject.lengths(&of);
    let median = *lengths.get(lengths.len() / 2)?;
    let limit = median as f64 * subject.setting("times");
    let waits: Vec<EventId> = of.iter().copied().filter(|&e| subject.dur(e) as f64 > limit).collect();
    if (of.len() as f64) < subject.setting("calls") || waits.is_empty() {
        return None;
    }
    let set = |ns: i64| subject.edit(Action::SetNs(ns), format!("collective:{name}"), &waits);
    let usual = &lengths[..lengths.len() - waits.len()];
    let others = super::spread(usual).into_iter().filter_map(|ns| Some(vec![set(ns)?])).collect();
    let worth = Worth::Range(vec![set(median)?], others);
    let lost = subject.total(&waits) - median * waits.len() as i64;
    Some(Draft {
        title: format!("{} of {} calls of {} wait for other ranks", waits.len(), of.len(), super::short(name)),
        place: subject.place(waits[0]),
        facts: vec![
            Fact::time("median", median),
            Fact::time("longest", lengths.last().copied().unwrap_or(0)),
            Fact::time("waiting, a step", subject.per_step(lost)),
        ],
        events: waits,
        support: Support::Inferred,
        confidence: Confidence::Low,
        worth,
    })
}
