//! SL009: the program waits for batches from its data loader.

use crate::{
    AdviceVariant, Area, Candidate, Fact, GainEstimate, GainMethod, ProgramCondition, Rule, RuleContext, RuleProperty,
    Setting, Support,
};
use stackline_critical_path::exact::Category;
use stackline_critical_path::exact::what_if::Edit;
use stackline_model::vocabulary::lightning;
use stackline_model::{EventId, EventKind, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::recording::Recording;
use stackline_timeline::vocabulary::python::{LOADER_WITH_WORKERS, LOADER_WITHOUT_WORKERS, TAKE_BATCH};

pub(crate) const RULE: Rule = Rule {
    code: "SL009",
    name: "dataloader-starved",
    area: Area::Data,
    about: "the program and its GPU wait for the DataLoader",
    why: "A batch that is not ready stops all work. Loading can run concurrently with computation.",
    gain_methods: &[GainMethod::Replay, GainMethod::Nothing],
    gain_text: "The reported share is the percentage of the critical path in data loading. The estimate adds as many \
                DataLoader workers as are needed to avoid the wait (what-if operation `more-workers`). If a recording \
                shows the number of free processors, the estimate adds at most that many workers. If the program loads \
                batches itself, the estimate replaces the loading time by the time to take a batch from a worker. This \
                time is at least the loading time divided by the number of workers. If a recording shows that the \
                added workers would keep all processors busy, the free processors limit the gain, and the lower bound \
                is 0. If all processors are busy already, more workers gain nothing.",
    advice: "Add workers to the DataLoader (num_workers), with pin_memory and persistent_workers. Reduce the cost of \
        loading (SL010).",
    example: (
        "loader = DataLoader(data, batch_size=64)",
        "loader = DataLoader(data, batch_size=64, num_workers=8,\n                    pin_memory=True, persistent_workers=True)",
    ),
    cost: "one line; each worker uses a processor and keeps a few batches in memory",
    false_positives: "More workers do not help if no processors are free, or if the disk is the bottleneck. A \
        recording counts the usable processors and the threads that need one. If all processors are busy, the finding \
        has no gain. Recordings also show the existing workers. For other traces, the rule assumes one existing \
        worker; multiply the reported number by the real number of workers. Only recordings show free processors, so \
        only findings of recordings have high confidence. Threads of other programs are not counted. The gain assumes \
        workers that load at the program's current speed, each on its own processor. The number of workers limits the \
        gain, and so does the number of processors in a recording. If the processors limit the gain, the lower bound \
        is 0, because other programs need processors, too. The estimate assumes that taking a batch from a worker \
        costs 0.1 ms; the upper bound assumes 0. The lower bound assumes 1.1 ms, as measured with all processors busy, \
        plus the time to assemble the batch (aten::stack, aten::cat), but at most half of the loading. Reading a batch \
        from a worker's memory can take that long.",
    source: "Yang et al., critical paths across threads (CTDA-CPA), section 5.4; DeepContext paper, section 6 (speedup of \
             U-Net: 1.15)",
    needs: &[],
    settings: &[Setting {
        name: "share",
        default: 3.0,
        range: (0.0, 100.0),
        about: "report only if loading and waiting for data take at least this percentage of the critical path",
    }],
    advice_variants: &[
        AdviceVariant {
            programs: "programs whose processors are all busy",
            condition: ProgramCondition::Where(|context| LoaderCapacity::new(context, &take_calls(context)).is_full()),
            kind: None,
            advice: "Make loading cheaper (SL010), or load once and keep the result; more workers would find no free \
                processor. Give the existing workers more processor time: torch.set_num_threads(1) in the workers, and \
                fewer threads in the program.",
            example: (
                "def __getitem__(self, i):\n    return resize(decode(self.paths[i]))",
                "def __getitem__(self, i):\n    return self.small[i]  # resized once, before the training",
            ),
        },
        AdviceVariant::without_gpu(
            "Add workers to the DataLoader (num_workers), with persistent_workers. Leave processors free for them with \
             torch.set_num_threads. Reduce the cost of loading (SL010).",
            (
                "loader = DataLoader(data, batch_size=64)",
                "loader = DataLoader(data, batch_size=64, num_workers=4, persistent_workers=True)",
            ),
        ),
    ],
    properties: &[RuleProperty::Constructor {
        frame: &["torch/utils/data/dataloader.py(", "): __init__"],
        library: "torch/utils/data/dataloader.py",
    }],
    check,
};

/// Maximum number of advised workers per existing worker.
const MAX_WORKERS: f64 = 16.0;
/// Minimum ratio of threads that fit on the processors to current threads; below it, more workers do not help.
const MIN_HEADROOM: f64 = 1.15;

/// Find out if loading data is on the critical path; at most one candidate, with the number of workers to add.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let on_path = context.path_ns_of(Category::HostDataLoading);
    let share = context.percent(on_path);
    let take_calls = take_calls(context);
    if share < context.setting("share") || take_calls.is_empty() {
        return Vec::new();
    }
    let loads_in_main_process = loads_in_main_process(context, &take_calls);
    let capacity = LoaderCapacity::new(context, &take_calls);
    let rest = (context.steps_ns() - on_path).max(1);
    // Number of workers that removes all waits for data.
    let workers = (capacity.workers.max(1) as f64 * on_path as f64 / rest as f64)
        .ceil()
        .clamp(1.0, capacity.max_added_workers()) as u32;
    let is_full = capacity.is_full();
    // Concurrent loading may keep all processors busy.
    let is_bounded = capacity.max_gain_ns(context).is_some_and(|most| most < context.total(&take_calls));
    let Ok(edit) = Edit::more_workers(workers) else { return Vec::new() };
    let gain_estimate = if is_full { GainEstimate::None } else { GainEstimate::edits(vec![edit]) };
    // Only recordings show free processors for workers.
    let is_sure = loads_in_main_process && capacity.headroom.is_some() && !is_full && !is_bounded;
    let confidence = if is_sure { Confidence::High } else { Confidence::Medium };
    let how = match () {
        () if loads_in_main_process => "batches are loaded in the main process",
        () => "DataLoader workers are too slow",
    };
    let waiting = format!("Waiting for data: {share:.0} % of the time, {how}");
    let title = match (workers, loads_in_main_process) {
        _ if is_full => format!("{waiting}, and all processors are busy: make loading cheaper"),
        _ if loads_in_main_process && is_bounded => format!("{waiting} (gain is limited by free processors)"),
        (1, true) => format!("{waiting} (gain assumes 1 worker with its own processor)"),
        (_, true) => format!("{waiting} (gain assumes {workers} workers, each with its own processor)"),
        _ => format!("{waiting} (gain assumes {workers} more workers, each with its own processor)"),
    };
    let place =
        context.by_place(&take_calls).into_iter().max_by_key(|(_, of)| context.total(of)).map(|(place, _)| place);
    let add = (!is_full).then(|| Fact::count("workers to add", workers as usize));
    vec![Candidate {
        title,
        place: place.unwrap_or_default(),
        facts: [
            Fact::count("batches", take_calls.len()),
            Fact { name: "share of the critical path in data loading", value: share, unit: Unit::Percent },
            Fact::time("time of data loading on the critical path per step", context.per_step(on_path)),
        ]
        .into_iter()
        .chain(add)
        .chain(capacity.facts())
        .collect(),
        events: take_calls,
        kind: None,
        support: Support::Exact,
        confidence,
        gain_estimate,
    }]
}

/// Outermost calls of the window in which the program takes a batch from its loader.
fn take_calls(context: &RuleContext<'_>) -> Vec<EventId> {
    let kinds = [EventKind::Annotation, EventKind::Operator, EventKind::PythonFunction];
    context.outermost(&context.named(&kinds, takes_batch))
}

/// Workers and processors available to the loader.
struct LoaderCapacity {
    /// Existing workers; 0 if the trace shows none.
    workers: usize,
    /// Usable processors, and the mean number of threads that need one; none if unknown.
    usable: Option<f64>,
    busy: Option<f64>,
    /// Ratio of threads that would find a processor to current threads.
    headroom: Option<f64>,
}

impl LoaderCapacity {
    /// Measure the median number of workers during the calls that take a batch, and the processors in the window.
    fn new(context: &RuleContext<'_>, take_calls: &[EventId]) -> Self {
        let (events, seen) = (&context.trace().events, context.loader_workers());
        let at = |&take: &EventId| seen.during(events.start[take.index()], events.end(take)).count();
        let mut crews: Vec<usize> = take_calls.iter().map(at).collect();
        crews.sort_unstable();
        let (from, to) = context.window();
        let recording = context.recording();
        Self {
            workers: crews.get(crews.len() / 2).copied().unwrap_or(0),
            usable: recording.and_then(Recording::max_usable_processors),
            busy: recording.and_then(|recording| recording.total_runnable_threads(from, to)),
            headroom: recording.and_then(|recording| recording.processor_headroom(from, to)),
        }
    }

    /// Test if all processors are busy, so that more workers do not help; false if unknown.
    fn is_full(&self) -> bool {
        self.headroom.is_some_and(|headroom| headroom < MIN_HEADROOM)
    }

    /// Upper bound of the gain if all computation is spread over the processors, in ns of the whole window; `None` if
    /// unknown.
    fn max_gain_ns(&self, context: &RuleContext<'_>) -> Option<i64> {
        self.headroom.map(|headroom| (context.steps_ns() as f64 * (1.0 - 1.0 / headroom)) as i64)
    }

    /// Maximum number of added workers, at least one: as many as find a processor if each works like the existing ones.
    fn max_added_workers(&self) -> f64 {
        let workers = self.workers.max(1) as f64;
        let spare = if self.workers > 0 {
            self.headroom.map(|headroom| (workers * (headroom - 1.0)).ceil())
        } else {
            self.usable
        };
        spare.unwrap_or(f64::INFINITY).clamp(1.0, MAX_WORKERS * workers)
    }

    /// Facts of the finding: existing workers, usable processors, and threads that need one, if known.
    fn facts(&self) -> impl Iterator<Item = Fact> {
        let number = |name, value: Option<f64>| value.map(|value| Fact { name, value, unit: Unit::None });
        let workers = (self.workers > 0).then(|| Fact::count("workers", self.workers));
        let busy = number("threads that need a processor", self.busy);
        [workers, number("usable processors", self.usable), busy].into_iter().flatten()
    }
}

/// True if the main process loads its batches itself, or most of them if it has several loaders.
fn loads_in_main_process(context: &RuleContext<'_>, take_calls: &[EventId]) -> bool {
    let with = |name: &str| -> Vec<EventId> {
        take_calls.iter().copied().filter(|&take| calls_inside(context, take, name)).collect()
    };
    // Workers may have started before the window.
    let has_workers = !context.loader_workers().is_empty()
        || context.trace().strings.iter().any(|name| name.contains(LOADER_WITH_WORKERS));
    let by_itself = context.total(&with(LOADER_WITHOUT_WORKERS));
    2 * by_itself > context.total(take_calls) || (!has_workers && with("_try_get_data").is_empty())
}

/// True for names of calls that take the next batch.
pub(crate) fn takes_batch(name: &str) -> bool {
    name.starts_with(TAKE_BATCH)
        || lightning::takes_batch(name)
        || super::matches_parts(name, &["dataloader.py(", "): __next__"])
}

/// True if taking a batch calls a function with this name.
fn calls_inside(context: &RuleContext<'_>, take: EventId, name: &str) -> bool {
    let trace = context.trace();
    let (from, to) = (trace.events.start[take.index()], trace.events.end(take));
    let on_track = trace.track_events(trace.events.track[take.index()]);
    let first = on_track.partition_point(|e| trace.events.start[e.index()] < from);
    let inside = on_track[first..].iter().take_while(|e| trace.events.start[e.index()] < to);
    inside.into_iter().any(|&e| trace.name(e).contains(name))
}
