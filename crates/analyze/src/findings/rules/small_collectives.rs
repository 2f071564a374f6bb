//! SL044: many small collectives that could be a few large ones.

use crate::critical_path::exact::what_if::{Action, Edit};
use crate::findings::collectives::Collective;
use crate::findings::{Area, Confidence, Draft, Fact, Need, Rule, Setting, Subject, Support, Worth};
use stackline_model::{EventId, StrId, Unit};
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL044",
    name: "small-collectives",
    area: Area::Communication,
    about: "each step has many small collectives of one kind, which could be put together into a few large ones",
    why: "A small collective takes its latency (launch, and a message to each rank), whatever little it moves: a hundred of them take a \
          hundred latencies.",
    advice: "Let DistributedDataParallel reduce gradients in buckets (bucket_cap_mb) rather than one parameter after another; \
             torch._utils._flatten_dense_tensors, all_reduce_coalesced or a foreach copy into one buffer elsewhere.",
    example: (
        "for p in model.parameters():\n    dist.all_reduce(p.grad)",
        "model = DistributedDataParallel(model)  # buckets of 25 MB, beside the backward",
    ),
    cost: "some lines; a buffer for what is put together",
    wrong_when: "Each one needs the result of the one before, as in pipelines and tensor parallelism. The gain supposes that of each \
                 collective its latency goes, which is taken to be the length of the shortest one, but for one latency a bucket of 25 MB; \
                 at least half of that.",
    source: "field practice; PyTorch Distributed (Li et al., VLDB 2020, section 3.2.2: gradient bucketing)",
    needs: &[Need::GpuWork, Need::Collectives],
    settings: &[
        Setting { name: "calls", default: 20.0, range: (2.0, 1e6), about: "least collectives of a kind, a step" },
        Setting {
            name: "elements",
            default: 262_144.0,
            range: (1.0, 1e12),
            about: "most elements of the middle one of them (a MiB of float32)",
        },
        Setting {
            name: "share",
            default: 3.0,
            range: (0.0, 100.0),
            about: "least part of the time that their latencies take, in percent",
        },
    ],
    elsewhere: &[],
    check,
};

/// Elements of a bucket: 25 MB of float32, as DistributedDataParallel's.
const BUCKET: i64 = 25 * 1024 * 1024 / 4;

/// Families that can be put together.
const FAMILIES: &[&str] = &["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"];

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    let mut by_kind: BTreeMap<(&str, Option<StrId>), Vec<Collective>> = BTreeMap::new();
    for collective in subject.collectives().into_iter().filter(|c| FAMILIES.contains(&c.family)) {
        by_kind.entry((collective.family, collective.group)).or_default().push(collective);
    }
    by_kind.into_iter().filter_map(|((family, _), of)| draft(subject, family, &of)).collect()
}

fn draft(subject: &Subject<'_>, family: &str, of: &[Collective]) -> Option<Draft> {
    let steps = subject.steps().max(1);
    let per_step = of.len() as f64 / steps as f64;
    let mut sizes: Vec<i64> = of.iter().filter_map(|c| c.elements).collect();
    sizes.sort_unstable();
    // Without sizes nobody knows whether they are small.
    let middle = *sizes.get(sizes.len() / 2)?;
    if per_step < subject.setting("calls") || middle as f64 > subject.setting("elements") || 2 * sizes.len() < of.len()
    {
        return None;
    }
    let events: Vec<EventId> = of.iter().map(|c| c.event).collect();
    let latency = *subject.lengths(&events).first()?;
    let elements: i64 = sizes.iter().fold(0, |sum, size| sum.saturating_add(*size));
    let buckets = (elements / steps as i64).div_euclid(BUCKET) + 1;
    let spared = (events.len() as i64 - buckets * steps as i64).max(0) * latency;
    if subject.percent(spared) < subject.setting("share") {
        return None;
    }
    let (place, _) = subject.by_code(&events).into_iter().next()?;
    Some(Draft {
        title: format!("{per_step:.0} small {family} collectives a step could be {buckets}"),
        place,
        facts: vec![
            Fact::count("collectives", events.len()),
            Fact { name: "elements of the middle one", value: middle as f64, unit: Unit::None },
            Fact::time("together, a step", subject.per_step(subject.total(&events))),
            Fact::time("the shortest", latency),
        ],
        worth: Worth::Range(edits(subject, &events, spared)?, vec![edits(subject, &events, spared / 2)?]),
        events,
        support: Support::Partial,
        confidence: Confidence::Medium,
    })
}

/// As if so much less time were spent in collectives, in ns.
fn edits(subject: &Subject<'_>, events: &[EventId], spared: i64) -> Option<Vec<Edit>> {
    let left = 1.0 - spared as f64 / subject.total(events).max(1) as f64;
    Some(vec![subject.edit(Action::Scale(left.clamp(0.0, 1.0)), "collective:small ones put together", events)?])
}
