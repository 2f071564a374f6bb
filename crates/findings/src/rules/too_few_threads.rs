//! SL049: large operators that compute on one thread while processors are idle.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::{Action, Edit};
use stackline_model::{EventId, EventKind, Key, SampleMetric, TrackId, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::recording::Recording;
use stackline_timeline::vocabulary::aten;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL049",
    name: "too-few-threads",
    area: Area::Host,
    about: "large CPU operators run on one thread while other processors are idle",
    why: "PyTorch divides such operators among the threads of its pool. With one thread, one processor does all of \
         the work.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The reported share is the part of the critical path in operators whose calls take at least \
         `SL049.mean_us` on average. CPU samples of all threads show how many processors the process uses during \
         these operators. Available processors are those that the process may use and that no other thread keeps \
         busy. They are divided evenly among the recorded processes that compute. With n threads, the estimate \
         shortens the operators to 1 / (1 + 0.6 (n - 1)) of their time (what-if operation `scale`). The lower bound \
         is half of that saving; the upper bound shortens them to 1 / n.",
    advice: "Set the number of threads to the value of \"threads available\" in the finding: torch.set_num_threads, or \
         OMP_NUM_THREADS, which torchrun sets to 1 for several processes by default.",
    example: (
        "# torchrun sets OMP_NUM_THREADS=1\ntrain(model)",
        "torch.set_num_threads(4)  # \"threads available\" of the finding\ntrain(model)",
    ),
    cost: "the change takes one line, or an environment variable; sums in another order change the last digits of \
         results",
    false_positives: "More threads do not help if unrecorded programs need the idle processors later. One thread may \
         also be intended, because results can depend on the number of threads. The rule reports nothing if the \
         process waits for a processor for over 5 % of the time. The rule only checks operators that PyTorch always \
         divides among threads: matrix products, convolutions, attention, norms and softmax. A recording does not \
         show if operators run on a GPU. The rule therefore reports nothing for programs that call operators of CUDA \
         or ROCm libraries. The estimate assumes that each thread after the first adds 60 % of the first thread's \
         throughput. Memory-bound operators gain less.",
    source: "common practice; PyTorch's documentation of CPU threading",
    needs: &[Requirement::Operators, Requirement::Processors],
    settings: &[
        Setting {
            name: "mean_us",
            default: 300.0,
            range: (1.0, 1e6),
            about: "check only operators with at least this mean duration, in µs",
        },
        Setting {
            name: "share",
            default: 15.0,
            range: (0.0, 100.0),
            about: "report only if operators that use one CPU thread and last at least `mean_us` take at least this \
                percentage of the critical path",
        },
        Setting {
            name: "used",
            default: 1.2,
            range: (1.0, 1000.0),
            about: "report only if the process uses at most this many processors on average while the slow operators \
                 run (from CPU samples)",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Throughput of each further thread, as a share of the first thread's.
const THREAD_EFFICIENCY: f64 = 0.6;
/// Least number of used processors. A lower value means that other programs use the processors, so none is free.
const MIN_USED: f64 = 0.7;
/// Largest share of time that threads wait for a processor. A larger value indicates programs that are not recorded.
const MAX_DELAYED: f64 = 0.05;
/// Least number of samples in the operators, to estimate the number of used processors.
const MIN_SAMPLES: usize = 10;

/// Large operators of a process.
struct Large<'a> {
    pid: i64,
    by_name: Vec<(&'a str, Vec<EventId>)>,
    /// All operators, by start.
    all: Vec<EventId>,
}

/// Find processes without a GPU that run large operators on one thread while processors are idle.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    let is_of_gpus = |name: &str| aten::GPU_ONLY.iter().any(|part| name.starts_with(part));
    if context.uses_gpu() || !context.named(&[EventKind::Operator], is_of_gpus).is_empty() {
        return Vec::new();
    }
    let (from, to) = context.window();
    let is_worker = |pid: Key| context.loader_workers().during(from, to).any(|worker| worker.pid == pid);
    let mut by_process: BTreeMap<i64, Vec<EventId>> = BTreeMap::new();
    for operator in context.outermost(&context.named(&[EventKind::Operator], |name| aten::THREADED.contains(&name))) {
        let key = trace.tracks.pid(trace.events.track[operator.index()]);
        let Key::Int(pid) = key else { continue };
        if !is_worker(key) {
            by_process.entry(pid).or_default().push(operator);
        }
    }
    by_process.into_iter().filter_map(|(pid, operators)| candidate(context, &large(context, pid, &operators))).collect()
}

/// Select the operators of a process whose mean duration, by name, is long.
fn large<'a>(context: &RuleContext<'a>, pid: i64, operators: &[EventId]) -> Large<'a> {
    let mut by_name = context.by_name(operators);
    let least = context.setting("mean_us") * 1e3;
    by_name.retain(|(_, of)| context.total(of) as f64 >= least * of.len() as f64);
    let mut all: Vec<EventId> = by_name.iter().flat_map(|(_, of)| of.iter().copied()).collect();
    all.sort_unstable_by_key(|&operator| (context.trace().events.start[operator.index()], operator));
    Large { pid, by_name, all }
}

/// Candidate for the large operators of a process; `None` unless processors are idle and the time is long enough.
fn candidate(context: &RuleContext<'_>, large: &Large<'_>) -> Option<Candidate> {
    let recording = context.recording()?;
    let (from, to) = context.window();
    let share = context.percent(context.path_inside(&large.all).iter().sum());
    let used = used_processors(context, large)?;
    let threads = available_threads(recording, large.pid, (from, to))?;
    let delayed = recording.processor_wait_ns(large.pid, from, to) / context.steps_ns() as f64;
    if delayed > MAX_DELAYED {
        return None;
    }
    if share < context.setting("share") || !(MIN_USED..=context.setting("used")).contains(&used) || threads < 2.0 {
        return None;
    }
    let scaled = |left: f64| -> Option<Vec<Edit>> {
        let edit =
            |(name, of): &(&str, Vec<EventId>)| context.edit(Action::Scale(left), format!("operator:{name}"), of);
        large.by_name.iter().map(edit).collect()
    };
    let most = 1.0 / threads;
    let likely = 1.0 / (1.0 + THREAD_EFFICIENCY * (threads - 1.0));
    let longest =
        large.all.iter().copied().max_by_key(|&operator| (context.dur(operator), std::cmp::Reverse(operator)))?;
    let mut names: Vec<&str> = large.by_name.iter().map(|(name, _)| *name).take(MAX_NAMES).collect();
    names.extend((large.by_name.len() > MAX_NAMES).then_some("…"));
    let (names, pid) = (names.join(", "), large.pid);
    Some(Candidate {
        title: if recording.own_processes().count() > 1 {
            format!(
                "Too few threads: {names} of process {pid} on one thread, {share:.0} % of the critical path; \
                 {threads:.0} processors available"
            )
        } else {
            format!(
                "Too few threads: {names} on one thread, {share:.0} % of the critical path; {threads:.0} processors \
                 available"
            )
        },
        place: context.place(longest),
        facts: vec![
            Fact::count("operators", large.all.len()),
            Fact { name: "share of the critical path in the reported operators", value: share, unit: Unit::Percent },
            Fact {
                name: "mean number of processors used while the reported operators run",
                value: used,
                unit: Unit::None,
            },
            Fact { name: "threads available", value: threads, unit: Unit::None },
        ],
        gain_estimate: GainEstimate::range(scaled(likely)?, vec![scaled((1.0 + likely) / 2.0)?, scaled(most)?]),
        events: large.all.clone(),
        kind: None,
        support: Support::Inferred,
        confidence: Confidence::Medium,
    })
}

/// Number of operator names in a title.
const MAX_NAMES: usize = 3;

/// Number of threads of a process that could each have a free processor; `None` if unknown. Idle processors are divided
/// evenly among all recorded processes that compute.
fn available_threads(recording: &Recording, pid: i64, (from, to): (i64, i64)) -> Option<f64> {
    let computing = recording.computing_processes(from, to).max(1) as f64;
    let others = (recording.total_runnable_threads(from, to)? - computing).max(0.0);
    // A processor that is idle most of the time counts.
    Some(((recording.usable_processors(pid)? - others) / computing + 0.25).floor())
}

/// Mean number of processors that a process uses while its large operators run, by CPU time samples of all threads.
/// None with too few samples.
fn used_processors(context: &RuleContext<'_>, large: &Large<'_>) -> Option<f64> {
    let trace = context.trace();
    let events = &trace.events;
    let starts: Vec<i64> = large.all.iter().map(|operator| events.start[operator.index()]).collect();
    let is_inside = |at: i64| {
        let operator = starts.partition_point(|&start| start <= at).checked_sub(1).map(|last| large.all[last]);
        operator.is_some_and(|operator| at < events.end(operator))
    };
    let is_own = |track: TrackId| trace.tracks.pid(track) == Key::Int(large.pid);
    let own = trace.samples().of_metric(SampleMetric::CpuTime).filter(|(track, _)| is_own(*track));
    let inside = own.flat_map(|(_, samples)| samples).filter(|sample| is_inside(sample.time));
    let cpu: Vec<i64> = inside.map(|sample| sample.weight).collect();
    let length = context.total(&large.all);
    (cpu.len() >= MIN_SAMPLES && length > 0).then(|| cpu.iter().sum::<i64>() as f64 / length as f64)
}
