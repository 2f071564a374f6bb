//! SL028: more threads of OpenMP than processors.

use crate::{Area, Candidate, Fact, GainEstimate, Recording, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Gain;
use stackline_model::{EventId, Key, OPENMP, SampleMetric, TrackId, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL028",
    name: "oversubscribed-threads",
    area: Area::Host,
    about: "more threads compute at once than the program may use processors, and much of what they do is waiting for each other",
    why: "Each parallel operator ends when its last thread is done, and a thread that has no processor keeps all others waiting, \
          which spin or go to sleep and wake up meanwhile. Containers, and processes that are bound to processors, often may \
          use fewer than the machine has.",
    advice: "Use no more threads than the processors that the finding says are usable, divided by the processes that compute at \
             once: torch.set_num_threads, OMP_NUM_THREADS; torchrun sets 1, a DataLoader sets 1 in its workers. Python's own \
             numbers (os.cpu_count, os.sched_getaffinity) do not see the limit of a container.",
    example: ("torch.set_num_threads(16)", "torch.set_num_threads(2)  # \"usable processors\" of the finding"),
    cost: "one line, or a variable of the environment",
    false_positives: "Other programs take the processors: their threads are not seen here. Each process is looked at alone: that several \
                 of them, each with as many threads as it may use, share their processors is not seen. The gain is a model: the time of samples \
                 in OpenMP's library would be gone, and what threads compute would be divided evenly among processors.",
    source: "field practice; DeepContext 6.2 has the like case of more DataLoader workers than processors, which is not seen here",
    needs: &[Requirement::Processors],
    settings: &[
        Setting {
            name: "waiting",
            default: 10.0,
            range: (0.0, 100.0),
            about: "least part of the threads' CPU time that is spent in OpenMP's library, in percent, where the system counted that \
                    more threads than processors were ready to run at once",
        },
        Setting {
            name: "waiting_uncounted",
            default: 25.0,
            range: (0.0, 100.0),
            about: "the same where the system did not count: many threads may have been there that mostly slept",
        },
        Setting {
            name: "threads",
            default: 1.25,
            range: (1.0, 1000.0),
            about: "least number of threads for each usable processor",
        },
    ],
    advice_variants: &[],
    check,
};

const MODEL: &str = "model: CPU time in OpenMP's library is gone, the rest of it runs on all processors";

/// CPU time that samples stand for, in ns: computing, and in the library of OpenMP.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    useful: f64,
    waiting: f64,
}

fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let Some(recording) = context.recording() else { return Vec::new() };
    sampled(context).into_iter().filter_map(|(pid, team)| candidate(context, recording, (pid, team))).collect()
}

fn candidate(context: &RuleContext<'_>, recording: &Recording, (pid, team): (i64, Team)) -> Option<Candidate> {
    let processors = recording.usable(pid)?;
    let computing: Vec<Times> = team.threads.into_values().filter(|times| times.waiting > 0.0).collect();
    let sum = |of: fn(&Times) -> f64| computing.iter().map(of).sum::<f64>();
    let (useful, waiting) = (sum(|times| times.useful), sum(|times| times.waiting));
    let share = 100.0 * waiting / (useful + waiting).max(1.0);
    let (from, to) = context.window();
    let runnable = recording.runnable(pid, from, to);
    let least = processors * context.setting("threads");
    let waiting_least = context.setting(if runnable.is_some() { "waiting" } else { "waiting_uncounted" });
    // One thread has nobody to wait for.
    if computing.len() < 2
        || (computing.len() as f64) < least
        || share < waiting_least
        || runnable.is_some_and(|runnable| runnable < least)
    {
        return None;
    }
    let even = even(&computing, processors);
    let (length, freed) = (context.steps_ns() as f64, waiting / processors);
    let (ns, most) = ((length - even).min(freed).max(0.0), (length - even).max(freed).clamp(0.0, length));
    let per_step = |ns: f64| context.per_step(ns as i64);
    let mut facts = vec![
        Fact::count("threads", computing.len()),
        Fact { name: "usable processors", value: processors, unit: Unit::None },
        Fact { name: "of their CPU time in OpenMP's library", value: share, unit: Unit::Percent },
        Fact::time("CPU time of computing, a step", per_step(useful)),
    ];
    let of = if recording.own().count() > 1 { format!(" of process {pid}") } else { String::new() };
    facts.extend(runnable.map(|value| Fact { name: "threads ready to run at once, mean", value, unit: Unit::None }));
    Some(Candidate {
        title: format!(
            "{} threads{of} compute on {} processors, and spend {share:.0} % of their CPU time waiting for each other",
            computing.len(),
            rounded(processors)
        ),
        place: SourceLocation::default(),
        events: team.samples,
        facts,
        support: Support::Partial,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::Model {
            gain: Gain { ns: per_step(ns), low_ns: per_step(ns / 2.0), high_ns: per_step(most) },
            model: MODEL,
        },
    })
}

/// `2`, `1.5`.
fn rounded(processors: f64) -> String {
    let text = format!("{processors:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The threads of a process that computed in the window, and the samples that lie in OpenMP's library.
#[derive(Debug, Default)]
struct Team {
    threads: BTreeMap<TrackId, Times>,
    samples: Vec<EventId>,
}

/// The teams by the number of their process.
fn sampled(context: &RuleContext<'_>) -> BTreeMap<i64, Team> {
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

/// How long the window would be if what threads compute were divided evenly among processors, in ns. The team is taken to
/// divide its work evenly: what its first thread computes beyond what the others do in the mean is not divided.
fn even(team: &[Times], processors: f64) -> f64 {
    let most = team.iter().map(|times| times.useful).fold(0.0, f64::max);
    let sum: f64 = team.iter().map(|times| times.useful).sum();
    let others = (sum - most) / (team.len().max(2) - 1) as f64;
    (most - others).max(0.0) + others.min(most) * team.len() as f64 / processors
}
