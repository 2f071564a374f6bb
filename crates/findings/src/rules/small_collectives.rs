//! SL044: many small collectives that could be a few large ones.

use crate::collectives::Collective;
use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use rustc_hash::FxHashSet;
use stackline_critical_path::exact::what_if::{Action, Chosen, Edit};
use stackline_model::format::duration;
use stackline_model::{EventId, StrId, Unit};
use stackline_timeline::confidence::Confidence;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL044",
    name: "small-collectives",
    area: Area::Communication,
    about: "each step has many small collectives of one kind that could be combined into a few large ones",
    why: "A small collective takes at least its latency (launch, and a message to each rank), no matter how little \
         data it moves. One hundred small collectives take one hundred latencies.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate removes all collectives except one per bucket of 25 MB (float32 if the data type is not \
         recorded), with their operators, launches and the short gaps between them (what-if operation `remove`). The \
         remaining collectives carry all data: their time is the total time minus one latency for each removed \
         collective (`scale`). The latency is the time of the shortest collective. The lower bound removes half of the \
         latencies, the upper bound all time of the removed collectives.",
    advice: "Let DistributedDataParallel reduce gradients in buckets (bucket_cap_mb) instead of one parameter at a \
         time. For other collectives, combine the tensors with torch._utils._flatten_dense_tensors, \
         all_reduce_coalesced or a foreach copy into one buffer.",
    example: (
        "for p in model.parameters():\n    dist.all_reduce(p.grad)",
        "model = DistributedDataParallel(model)  # buckets of 25 MB, concurrent with the backward pass",
    ),
    cost: "the change takes a few lines, and memory for a buffer with the combined data",
    false_positives: "Collectives cannot be combined if each needs the result of the previous one, as in pipelines and \
         tensor parallelism. The estimate removes the launch and latency of each collective, except for one per 25 MB \
         bucket at the end of the step. The latency is the duration of the shortest collective. The lower bound \
         removes half of the latencies. The estimate leaves out the time of copies into one buffer.",
    source: "common practice; PyTorch Distributed (Li et al., VLDB 2020, section 3.2.2: gradient bucketing)",
    needs: &[Requirement::GpuWork, Requirement::Collectives],
    settings: &[
        Setting {
            name: "calls",
            default: 20.0,
            range: (2.0, 1e6),
            about: "report only if a step has at least this many collectives of one kind",
        },
        Setting {
            name: "elements",
            default: 262_144.0,
            range: (1.0, 1e12),
            about: "report only if the median collective has at most this many elements (the default is 1 MiB of \
                 float32)",
        },
        Setting {
            name: "share",
            default: 3.0,
            range: (0.0, 100.0),
            about: "report only if the latencies of the collectives, or their launches on the host, take at least \
                 this percentage of the analyzed time",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Bytes of a bucket, as in DistributedDataParallel.
const BUCKET: i64 = 25 * 1024 * 1024;
/// Assumed bytes of an element if the trace does not record the data type: float32.
const ELEMENT_BYTES: i64 = 4;

/// Families of collectives that can be combined.
const FAMILIES: &[&str] = &["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"];

/// Find families and process groups with many small collectives in each step, one candidate each.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    Small::all(context).iter().filter_map(|small| small.candidate(context)).collect()
}

/// Events of small collectives that this rule reports and whose latencies take at least half of their time. Smaller
/// collectives would increase their number.
pub(super) fn latency_bound(context: &RuleContext<'_>) -> FxHashSet<EventId> {
    let small = Small::all(context).into_iter();
    let bound = small.filter(|small| 2 * small.saved_ns() >= context.total(&small.events));
    bound.flat_map(|small| small.events).collect()
}

/// Median of the known sizes in elements; `None` if more than half are unknown, or if the median is not small.
pub(super) fn small_size(context: &RuleContext<'_>, sizes: impl ExactSizeIterator<Item = Option<i64>>) -> Option<i64> {
    let all = sizes.len();
    let mut sizes: Vec<i64> = sizes.flatten().collect();
    sizes.sort_unstable();
    // Without sizes, small collectives cannot be recognized.
    let middle = *sizes.get(sizes.len() / 2)?;
    (middle as f64 <= context.setting_of(&RULE, "elements") && 2 * sizes.len() >= all).then_some(middle)
}

/// Bytes of collectives. Those without a recorded size have the mean number of elements of the others, and those
/// without a data type have float32.
fn total_bytes(collectives: &[Collective]) -> i64 {
    let known: Vec<i64> = collectives.iter().filter_map(|c| c.elements).collect();
    let mean = known.iter().copied().fold(0, i64::saturating_add) / known.len().max(1) as i64;
    let bytes = |c: &Collective| c.elements.unwrap_or(mean).saturating_mul(c.element_bytes.unwrap_or(ELEMENT_BYTES));
    collectives.iter().map(bytes).fold(0, i64::saturating_add)
}

/// Many small collectives of one family and process group.
struct Small {
    family: &'static str,
    events: Vec<EventId>,
    per_step: f64,
    /// Median number of elements.
    middle: i64,
    /// Duration of the shortest collective, in ns.
    latency: i64,
    /// Number of buckets per step; unknown unless all sizes are recorded.
    buckets: Option<i64>,
    merged: Merged,
}

impl Small {
    /// Find the small collectives of the window, by family and process group.
    fn all(context: &RuleContext<'_>) -> Vec<Self> {
        let mut by_kind: BTreeMap<(&'static str, Option<StrId>), Vec<Collective>> = BTreeMap::new();
        for collective in context.collectives().into_iter().filter(|c| FAMILIES.contains(&c.family)) {
            by_kind.entry((collective.family, collective.group)).or_default().push(collective);
        }
        by_kind.into_iter().filter_map(|((family, _), of)| Self::new(context, family, &of)).collect()
    }

    /// Measure collectives of one family and process group; `None` unless they are small, frequent and take enough
    /// time.
    fn new(context: &RuleContext<'_>, family: &'static str, of: &[Collective]) -> Option<Self> {
        let steps = context.steps().max(1);
        let per_step = of.len() as f64 / steps as f64;
        let middle = small_size(context, of.iter().map(|c| c.elements))?;
        if per_step < context.setting_of(&RULE, "calls") {
            return None;
        }
        let events: Vec<EventId> = of.iter().map(|c| c.event).collect();
        let latency = *context.lengths(&events).first()?;
        let buckets = (total_bytes(of) / steps as i64).div_euclid(BUCKET) + 1;
        let are_sizes_known = of.iter().all(|c| c.elements.is_some() && c.element_bytes.is_some());
        let merged = Merged::new(context, &events, (buckets as usize, latency));
        let buckets = are_sizes_known.then_some(buckets);
        let small = Self { family, events, per_step, middle, latency, buckets, merged };
        let takes = small.saved_ns().max(context.total(&small.merged.operators));
        (context.percent(takes) >= context.setting_of(&RULE, "share")).then_some(small)
    }

    /// Total latency of the removed collectives, in ns.
    fn saved_ns(&self) -> i64 {
        self.merged.kernels.len() as i64 * self.latency
    }

    /// Candidate for combining the collectives into as few as the bucket size allows.
    fn candidate(&self, context: &RuleContext<'_>) -> Option<Candidate> {
        let Self { family, events, per_step, middle, buckets, merged, .. } = self;
        let (place, _) = context.by_code(events).into_iter().next()?;
        let buckets = buckets.map_or_else(|| "a few large ones".to_owned(), |buckets| buckets.to_string());
        Some(Candidate {
            title: format!(
                "Small collectives: {per_step:.0} {family} calls{} ({}) could be combined into {buckets}",
                context.words().per_step_suffix(),
                duration(context.per_step(context.total(events)))
            ),
            place,
            facts: vec![
                Fact::count("collectives", events.len()),
                Fact { name: MEDIAN_SIZE_FACT, value: *middle as f64, unit: Unit::None },
                Fact::time("total time of the collectives per step", context.per_step(context.total(events))),
                Fact::time("shortest collective", self.latency),
                Fact::time(
                    "host time of the removed operators per step",
                    context.per_step(context.total(&merged.operators)),
                ),
            ],
            gain_estimate: GainEstimate::range(
                merged.likely_edits(context)?,
                vec![shortening_edits(context, events, self.saved_ns() / 2)?, merged.upper_bound_edits(context)?],
            ),
            events: events.clone(),
            kind: None,
            support: Support::Partial,
            confidence: Confidence::Medium,
        })
    }
}

/// Name of the fact with the median size of collectives.
pub(super) const MEDIAN_SIZE_FACT: &str = "median size of a collective in elements";

/// Longest idle time of the host between two collectives of one loop, as a multiple of a launch.
const PAUSE: i64 = 3;

/// Work that vanishes if collectives are combined: all except the last ones of each step.
struct Merged {
    kernels: Vec<EventId>,
    /// Outermost operators that launch nothing else, and launches outside of operators.
    operators: Vec<EventId>,
    /// First and last of consecutive operators.
    runs: Vec<(EventId, EventId)>,
    kept: Vec<EventId>,
    /// Additional time of the kept collectives, in ns, for the data of the removed ones.
    moved_ns: i64,
}

impl Merged {
    /// Select the collectives to remove, all but the last `buckets` of each step, with their work on the host.
    fn new(context: &RuleContext<'_>, events: &[EventId], (buckets, latency): (usize, i64)) -> Self {
        let trace = context.trace();
        let mut by_step: BTreeMap<Option<usize>, Vec<EventId>> = BTreeMap::new();
        for &event in events {
            let launch = trace.gpu.of_event(event).and_then(|gpu| trace.gpu.launch[gpu.index()].some());
            by_step.entry(context.step_of(&trace.steps, launch.unwrap_or(event))).or_default().push(event);
        }
        let (mut kernels, mut kept) = (Vec::new(), Vec::new());
        for mut of in by_step.into_values() {
            of.sort_unstable_by_key(|&e| (trace.events.start[e.index()], e));
            kept.extend(of.split_off(of.len().saturating_sub(buckets)));
            kernels.extend(of);
        }
        let moved_ns = kernels.iter().map(|&e| context.dur(e) - latency).sum::<i64>().max(0);
        let operators = host_side(context, &kernels);
        let runs = runs(context, &operators);
        Self { kernels, operators, runs, kept, moved_ns }
    }

    /// Edits that remove collectives, their launches and the host's time between them, and scale the last collectives
    /// for all data.
    fn likely_edits(&self, context: &RuleContext<'_>) -> Option<Vec<Edit>> {
        let longer = 1.0 + self.moved_ns as f64 / context.total(&self.kept).max(1) as f64;
        let removable = self.removal_edit(context, &[])?;
        let grown = context.edit(Action::Scale(longer), "collective:combined collectives", &self.kept);
        Some(std::iter::once(removable).chain(grown.filter(|_| self.moved_ns > 0)).collect())
    }

    /// Edits of the upper bound, which also remove the last collective of each group.
    fn upper_bound_edits(&self, context: &RuleContext<'_>) -> Option<Vec<Edit>> {
        Some(vec![self.removal_edit(context, &self.kept)?])
    }

    /// Edit that removes the combined collectives, their work on the host, and the events `also`.
    fn removal_edit(&self, context: &RuleContext<'_>, also: &[EventId]) -> Option<Edit> {
        let events = self.kernels.iter().chain(&self.operators).chain(also).copied().collect();
        let chosen = Chosen { events, ranges: self.runs.clone(), ..Chosen::default() };
        context.edit_of(Action::Remove, "collective:small collectives to combine", chosen)
    }
}

/// Operators that launch only the given work, and launch calls outside of operators.
fn host_side(context: &RuleContext<'_>, work: &[EventId]) -> Vec<EventId> {
    let trace = context.trace();
    let mut found = context.operators_launching_only(work);
    let operators: FxHashSet<EventId> = found.iter().copied().collect();
    let launch = |&event: &EventId| trace.gpu.of_event(event).and_then(|gpu| trace.gpu.launch[gpu.index()].some());
    let is_alone = |launch: &EventId| !trace.ancestors(*launch).any(|e| operators.contains(&e));
    found.extend(work.iter().filter_map(launch).filter(is_alone));
    found.sort_unstable();
    found.dedup();
    found
}

/// Divide operators into runs of consecutive operators on one thread with short pauses; returns the first and last of
/// each.
fn runs(context: &RuleContext<'_>, operators: &[EventId]) -> Vec<(EventId, EventId)> {
    let events = &context.trace().events;
    let lengths = context.lengths(operators);
    let pause = PAUSE * lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    // Other operators, or a longer pause, end a run.
    let mut sorted = operators.to_vec();
    sorted.sort_unstable_by_key(|&e| (events.track[e.index()], events.start[e.index()], e));
    let at = |e: EventId| (events.track[e.index()], events.start[e.index()], e);
    let split = |(first, last): (EventId, EventId)| {
        let from = sorted.partition_point(|&e| at(e) < at(first));
        let to = sorted.partition_point(|&e| at(e) <= at(last));
        let is_adjacent = |a: &EventId, b: &EventId| events.start[b.index()] - events.end(*a) <= pause;
        sorted[from..to].chunk_by(is_adjacent).filter_map(|run| Some((*run.first()?, *run.last()?))).collect::<Vec<_>>()
    };
    context.consecutive_runs(operators).runs.into_iter().flat_map(split).collect()
}

/// Edits that shorten collectives by `saved_ns` in total.
fn shortening_edits(context: &RuleContext<'_>, events: &[EventId], saved_ns: i64) -> Option<Vec<Edit>> {
    let left = 1.0 - saved_ns as f64 / context.total(events).max(1) as f64;
    Some(vec![context.edit(Action::Scale(left.clamp(0.0, 1.0)), "collective:small collectives to combine", events)?])
}
