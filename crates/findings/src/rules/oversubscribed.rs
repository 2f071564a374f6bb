//! SL028: more OpenMP threads compute than processors are available.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Gain;
use stackline_model::{EventId, Key, OPENMP, SampleMetric, TrackId, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::recording::Recording;
use stackline_timeline::source_location::SourceLocation;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL028",
    name: "oversubscribed-threads",
    area: Area::Host,
    about: "more threads compute at once than the program has usable processors, so they wait for each other",
    why: "A parallel operator ends when its last thread ends. A thread without a processor delays all others, which \
         spin, or sleep and wake up again. Containers and CPU affinity often allow fewer processors than the machine \
         has.",
    gain_methods: &[GainMethod::Model],
    gain_text: "Samples show the CPU time of each thread, and how much of it is in the OpenMP library, where threads \
                wait for each other. The saved time is estimated twice. The first estimate assumes that the CPU time \
                outside of the OpenMP library is divided evenly among the processors. The second is the CPU time in \
                the OpenMP library divided by the number of processors. The gain is the smaller of the two \
                estimates. The lower bound is half of the gain, and the upper bound is the larger estimate.",
    advice: "Divide the number of usable processors in the finding by the number of processes that compute at once, \
         and use no more threads per process: torch.set_num_threads or OMP_NUM_THREADS. torchrun sets 1 thread, and so \
         does a DataLoader in its workers. Python's os.cpu_count and os.sched_getaffinity ignore the CPU limit of a \
         container.",
    example: ("torch.set_num_threads(16)", "torch.set_num_threads(2)  # \"usable processors\" of the finding"),
    cost: "the change takes one line, or an environment variable",
    false_positives: "Fewer threads do not help if other programs, which are not recorded, use the processors. The \
         rule analyzes each process separately. The rule misses several processes that share processors if each has as many \
         threads as there are processors. The gain comes from a model: it assumes that the time in the OpenMP library \
         vanishes, and that the other CPU time is divided evenly among the processors.",
    source: "common practice; DeepContext paper, section 6.2 (more DataLoader workers than processors, a similar \
         problem that this rule does not detect)",
    needs: &[Requirement::Processors],
    settings: &[
        Setting {
            name: "waiting",
            default: 10.0,
            range: (0.0, 100.0),
            about: "if the system counted more runnable threads than processors: report only if at least this \
                 percentage of the threads' CPU time is in the OpenMP library",
        },
        Setting {
            name: "waiting_uncounted",
            default: 25.0,
            range: (0.0, 100.0),
            about: "if the system did not count runnable threads: report only if at least this percentage of the \
                 threads' CPU time is in the OpenMP library",
        },
        Setting {
            name: "threads",
            default: 1.25,
            range: (1.0, 1000.0),
            about: "report only if at least this many threads compute per usable processor",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Description of the gain model.
const MODEL: &str = "model: the CPU time in the OpenMP library is removed, and all other CPU time is divided evenly \
     among the processors";

/// CPU time of a thread, from samples, in ns: computing, and in the OpenMP library.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    useful: f64,
    waiting: f64,
}

/// Find recorded processes with more computing OpenMP threads than processors.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let Some(recording) = context.recording() else { return Vec::new() };
    teams_by_process(context).into_iter().filter_map(|(pid, team)| candidate(context, recording, (pid, team))).collect()
}

/// Candidate for one process; `None` with enough processors, or if threads hardly wait for each other.
fn candidate(context: &RuleContext<'_>, recording: &Recording, (pid, team): (i64, Team)) -> Option<Candidate> {
    let processors = recording.usable_processors(pid)?;
    let computing: Vec<Times> = team.threads.into_values().filter(|times| times.waiting > 0.0).collect();
    let sum = |of: fn(&Times) -> f64| computing.iter().map(of).sum::<f64>();
    let (useful, waiting) = (sum(|times| times.useful), sum(|times| times.waiting));
    let share = 100.0 * waiting / (useful + waiting).max(1.0);
    let (from, to) = context.window();
    let runnable = recording.runnable_threads(pid, from, to);
    let least = processors * context.setting("threads");
    let waiting_least = context.setting(if runnable.is_some() { "waiting" } else { "waiting_uncounted" });
    // A single thread has no other to wait for.
    if computing.len() < 2
        || (computing.len() as f64) < least
        || share < waiting_least
        || runnable.is_some_and(|runnable| runnable < least)
    {
        return None;
    }
    let even = even_split_ns(&computing, processors);
    let (length, freed) = (context.steps_ns() as f64, waiting / processors);
    let (ns, most) = ((length - even).min(freed).max(0.0), (length - even).max(freed).clamp(0.0, length));
    let per_step = |ns: f64| context.per_step(ns as i64);
    let mut facts = vec![
        Fact::count("threads", computing.len()),
        Fact { name: "usable processors", value: processors, unit: Unit::None },
        Fact { name: "CPU time in the OpenMP library", value: share, unit: Unit::Percent },
        Fact::time("CPU time outside of the OpenMP library per step", per_step(useful)),
    ];
    let (threads, usable) = (computing.len(), format_processors(processors));
    facts.extend(runnable.map(|value| Fact { name: "mean number of runnable threads", value, unit: Unit::None }));
    Some(Candidate {
        title: if recording.own_processes().count() > 1 {
            format!(
                "Oversubscribed: {threads} threads of process {pid} compute on {usable} processors and spend \
                 {share:.0} % of their CPU time waiting for each other"
            )
        } else {
            format!(
                "Oversubscribed: {threads} threads compute on {usable} processors and spend {share:.0} % of their CPU \
                 time waiting for each other"
            )
        },
        place: SourceLocation::default(),
        events: team.samples,
        facts,
        kind: None,
        support: Support::Partial,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::Model(Gain::new(per_step(ns), per_step(ns / 2.0), per_step(most)), MODEL),
    })
}

/// Format a number of processors: `2`, `1.5`.
fn format_processors(processors: f64) -> String {
    let text = format!("{processors:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Threads of a process that computed in the window, and the samples in the OpenMP library.
#[derive(Debug, Default)]
struct Team {
    threads: BTreeMap<TrackId, Times>,
    samples: Vec<EventId>,
}

/// Threads with CPU samples in the window, as one team per process ID.
fn teams_by_process(context: &RuleContext<'_>) -> BTreeMap<i64, Team> {
    let trace = context.trace();
    let (from, to) = context.window();
    let mut teams: BTreeMap<i64, Team> = BTreeMap::new();
    let of_cpu = trace.sample_events().filter(|(series, _)| series.metric == Some(SampleMetric::CpuTime));
    for (series, rows) in of_cpu {
        let Key::Int(pid) = trace.tracks.pid(series.track) else { continue };
        for (event, sample) in rows.filter(|(_, sample)| (from..to).contains(&sample.time)) {
            let team = teams.entry(pid).or_default();
            let times = team.threads.entry(series.track).or_default();
            if trace.name(event) == OPENMP {
                times.waiting += sample.weight as f64;
                team.samples.push(event);
            } else {
                times.useful += sample.weight as f64;
            }
        }
    }
    teams
}

/// Length of the window, in ns, if computation were divided evenly among processors. Assumes an even division within
/// the team: computation of the first thread beyond the mean of the others is not divided.
fn even_split_ns(team: &[Times], processors: f64) -> f64 {
    let most = team.iter().map(|times| times.useful).fold(0.0, f64::max);
    let sum: f64 = team.iter().map(|times| times.useful).sum();
    let others = (sum - most) / (team.len().max(2) - 1) as f64;
    (most - others).max(0.0) + others.min(most) * team.len() as f64 / processors
}
