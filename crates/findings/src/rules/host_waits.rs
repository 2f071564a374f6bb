//! SL039: steps wait for a thread, a process, a lock or the network.

use super::dataloader_starved::takes_batch;
use super::logging_frames::kind_of as kind_of_logging;
use super::rebuilt_constants::LOADER;
use crate::host_gaps::Spans;
use crate::sampled_work::SampledWork;
use crate::{
    AdviceVariant, Area, Candidate, CandidateKind, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext,
    Setting, Support,
};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, EventKind, StrId, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::host_collectives::host_collectives;
use stackline_timeline::intervals;
use stackline_timeline::source_location::SourceLocation;
use std::collections::BTreeMap;

pub(crate) const RULE: Rule = Rule {
    code: "SL039",
    name: "host-waits",
    area: Area::Host,
    about: "steps wait for a thread, a process, a lock, a file or the network",
    why: "During the wait, the program computes nothing and launches nothing.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate removes calls of functions that are known to wait (what-if operation `remove`). If no \
         such function is on the stack, the estimate shortens the time between two operators by the part in which \
         samples show no computation (`scale`). In this case, the bounds of the gain cover the sampling error.",
    advice: "Let the other thread or process run concurrently with the program, and read its result later: keep the \
        future and wait for the previous one. Use a bounded queue instead of join().",
    example: (
        "writer.submit(save, values).result()",
        "pending.append(writer.submit(save, values))\nif len(pending) > 8:\n    pending.popleft().result()",
    ),
    cost: "some lines; the program notices errors of the other thread or process later",
    false_positives: "If the other thread or process takes longer than a step, waiting later does not help; that \
                      thread or process must become faster. Work of the other thread during the wait counts as waiting \
                      if it is on the critical path and not in an operator. The estimated gain assumes that the wait \
                      disappears. Recordings sample waiting threads 99 times per second (`record --wait-hz`), so the \
                      times of rare waits are imprecise. Before the first operator of a thread and after its last one, \
                      only sampled waits count. Waits with a timeout, waits for sockets and waits for files are not \
                      sampled. The rule infers these waits, and waits in recordings without such samples, from the \
                      time between two operators. From this time, the rule subtracts the time with CPU samples and the \
                      time in which threads waited for a processor. The source location of an inferred wait is the \
                      last common caller of the two operators; between two steps it is only the file. SL029 reports \
                      time between operators that is mostly logging or saving. SL026 reports waits of torch.compile \
                      for its compilers.",
    source: "common practice",
    needs: &[Requirement::PythonFrames],
    settings: &[Setting {
        name: "share",
        default: 2.0,
        range: (0.0, 100.0),
        about: "report only source locations whose waits take at least this percentage of the critical path",
    }],
    advice_variants: &[
        AdviceVariant::for_all(
            "programs that wait for a thread to start",
            CandidateKind::ThreadStart,
            "Start threads once before the loop, and pass work to them over a queue, or use a pool. If the machine \
             has fewer processors than running threads, a new thread waits for a processor: run fewer threads \
             concurrently.",
            (
                "thread = threading.Thread(target=work, args=(batch,))\nthread.start()",
                "pool.submit(work, batch)  # ThreadPoolExecutor, made before the loop",
            ),
        ),
        AdviceVariant::for_all(
            "programs that wait for a lock",
            CandidateKind::Lock,
            "Shorten the time under the lock: compute outside of it, and only store the result under it. Give each \
             thread its own data and merge the data once per step. Do not wait for anything else while the lock is \
             held.",
            (
                "with lock:\n    stats.update(measure(batch))",
                "fresh = measure(batch)\nwith lock:\n    stats.update(fresh)",
            ),
        ),
        AdviceVariant::for_all(
            "programs that wait for an event or a condition",
            CandidateKind::Condition,
            "Start the other thread one step earlier, and wait for its result of the previous step. Signal as soon \
             as the needed data is ready, not when all work is done.",
            ("start.set()\nready.wait()", "ready.wait()  # started in the step before\nstart.set()"),
        ),
        AdviceVariant::for_all(
            "programs that wait for a queue",
            CandidateKind::Queue,
            "If the step waits in get(): start the producer before the loop, with a queue of several items, or use \
             more producers. If it waits in put(), the consumer is slower than the step: take more items at once, use \
             several consumers, or drop items that are not needed.",
            ("requests.put(i)\nbatch = results.get()", "requests.put(i + 2)  # two ahead\nbatch = results.get()"),
        ),
        AdviceVariant::for_all(
            "programs that wait for the network",
            CandidateKind::Network,
            "Send requests one or more steps ahead, in a thread. Keep one connection open, and combine many requests \
             into one. Copy repeatedly read data to a local disk before training.",
            ("data = fetch(url)", "data = pending.result()\npending = pool.submit(fetch, next_url)"),
        ),
        AdviceVariant::for_all(
            "distributed programs in which a rank waits for a slower rank",
            CandidateKind::OtherRanks,
            "Inspect the rank that arrives last: pass the folder with the traces of all ranks. The findings then name \
             that rank (SL040), or the cause of its delay. The waiting rank itself needs no fix.",
            ("stackline findings rank0.json", "stackline findings traces/"),
        ),
        AdviceVariant::for_all(
            "programs that sleep",
            CandidateKind::Sleep,
            "Remove the sleep. If it is part of a polling loop, wait for an event, a queue or a future instead, which \
            wakes the thread at once.",
            (
                "while not done():\n    time.sleep(0.01)",
                "finished.wait()  # a threading.Event that the other thread sets",
            ),
        ),
    ],
    properties: &[],
    check,
};

const START: &str = "a thread to start";
const LOCK: &str = "a lock";
const CONDITION: &str = "a lock or another thread";
const QUEUE: &str = "a queue";
const QUEUE_OF_PROCESS: &str = "a queue of another process";
const NETWORK: &str = "the network";
const FILE: &str = "a file or a pipe";
const SLEEP: &str = "time.sleep";
/// The process runs collectives meanwhile: other ranks arrive late.
const OTHER_RANKS: &str = "other ranks";

/// Kinds of candidates by wait target; the advice of the rule itself is for all other targets.
const KINDS: &[(&str, CandidateKind)] = &[
    (START, CandidateKind::ThreadStart),
    (LOCK, CandidateKind::Lock),
    (CONDITION, CandidateKind::Condition),
    (QUEUE, CandidateKind::Queue),
    (QUEUE_OF_PROCESS, CandidateKind::Queue),
    (NETWORK, CandidateKind::Network),
    (OTHER_RANKS, CandidateKind::OtherRanks),
    (SLEEP, CandidateKind::Sleep),
];

/// Wait targets, and name parts of the frames that wait for them.
const FRAMES: &[(&str, &[&str])] = &[
    ("the result of another thread", &["concurrent/futures/_base.py(", "): result"]),
    ("the results of other threads", &["concurrent/futures/_base.py(", "): wait"]),
    ("a thread", &["threading.py(", "): join"]),
    // `start` waits until the new thread has started.
    (START, &["threading.py(", "): start"]),
    (CONDITION, &["threading.py(", "): wait"]),
    // Built-in functions have no file: `with lock` calls `__enter__`.
    (LOCK, &["<built-in method acquire of _thread."]),
    (LOCK, &["<built-in method __enter__ of _thread."]),
    (LOCK, &["<method 'acquire' of '_thread."]),
    (LOCK, &["<method '__enter__' of '_thread."]),
    (QUEUE, &["queue.py(", "): get"]),
    (QUEUE, &["queue.py(", "): put"]),
    (QUEUE_OF_PROCESS, &["multiprocessing/queues.py(", "): get"]),
    ("another process", &["multiprocessing/connection.py(", "): recv"]),
    ("another process", &["multiprocessing/connection.py(", "): wait"]),
    ("another process", &["multiprocessing/process.py(", "): join"]),
    ("another process", &["subprocess.py(", "): wait"]),
    ("another process", &["subprocess.py(", "): communicate"]),
    ("another process", &["<built-in function waitpid>"]),
    (FILE, &["<built-in function read>"]),
    (NETWORK, &["<method 'recv' of '_socket."]),
    (NETWORK, &["<built-in method recv of _socket."]),
    (NETWORK, &["socket.py(", "): readinto"]),
    (NETWORK, &["ssl.py(", "): read"]),
    (NETWORK, &["urllib/request.py(", "): urlopen"]),
    (NETWORK, &["requests/sessions.py(", "): request"]),
    (SLEEP, &["<built-in function sleep>"]),
];

/// Target of the waits in a frame with this name, such as a lock or the network; `None` for other frames.
pub(crate) fn kind_of(name: &str) -> Option<&'static str> {
    super::kind_in(FRAMES, name)
}

/// Kind of candidates for waits for a target such as `a lock`; `None` if the rule's own advice applies.
pub(crate) fn candidate_kind(target: &str) -> Option<CandidateKind> {
    KINDS.iter().find(|(of, _)| *of == target).map(|&(_, kind)| kind)
}

/// Outermost calls of functions that wait, except those that samples describe better. SL009 covers waits for data, and
/// those of a data loader's own threads; SL026 covers waits of torch.compile for its compilers.
pub(super) fn calls(context: &RuleContext<'_>) -> Vec<EventId> {
    let trace = context.trace();
    let frames = context.named(&[EventKind::PythonFunction], |name| kind_of(name).is_some());
    let mut frames = context.outermost(&frames);
    if context.host_gaps().has_wait_samples() {
        frames = context.not_covered_by_gaps(frames);
    }
    let compilations = context.compilations();
    let is_other = |event: EventId| {
        let name = trace.name(event);
        takes_batch(name) || name.contains(LOADER) || compilations.contains(trace.events.name[event.index()])
    };
    frames.retain(|&frame| !trace.ancestors(frame).any(is_other));
    frames
}

/// Find waits for threads, processes, locks, files or the network: calls by source location, then sampled waits.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let frames = calls(context);
    let on_path = context.path_during(&frames);
    let by_place = context.sums_by_place(frames.iter().copied().zip(on_path).collect());
    let named = by_place.into_iter().filter_map(|(place, ns, of)| candidate(context, place, (ns, of)));
    let is_logging = |name: &str| kind_of_logging(name).is_some();
    let (trace, compilations) = (context.trace(), context.compilations());
    let is_other = |name: StrId| takes_batch(trace.strings.get(name)) || compilations.contains(name);
    let unnamed = context.waits_between(&frames, is_other, is_logging).into_iter();
    named.chain(unnamed.filter_map(|(place, seen)| sampled_candidate(context, place, &seen))).collect()
}

/// Candidate for sampled waits between operators at one source location, whose calls were not recorded; `None` if the
/// share is small.
fn sampled_candidate(context: &RuleContext<'_>, place: SourceLocation, seen: &SampledWork) -> Option<Candidate> {
    // Threads wait concurrently: the gain is at most the wait of one thread.
    let share = context.percent(seen.max_thread_ns() as i64);
    if share < context.setting("share") {
        return None;
    }
    let mut facts =
        vec![Fact { name: "share of the analyzed time in the reported waits", value: share, unit: Unit::Percent }];
    facts.extend(seen.facts(context));
    let begin_and_end = |&(before, after): &(EventId, EventId)| {
        (context.trace().events.end(before), context.trace().events.start[after.index()])
    };
    let kind = match in_collectives(context, seen.occurrences.iter().map(begin_and_end)) {
        true => Some(OTHER_RANKS),
        false => kind_of_samples(context, &seen.samples),
    };
    let title = match kind {
        Some(kind) => title(share, kind),
        None => format!(
            "Waiting outside of operators: {share:.0} % of the time (for a file, the network, a lock, or in \
             time.sleep)"
        ),
    };
    Some(Candidate {
        title,
        facts,
        events: seen.samples.clone(),
        kind: kind.and_then(candidate_kind),
        support: Support::Inferred,
        confidence: seen.confidence(),
        gain_estimate: seen.gain_estimate(context, &place, &[])?,
        place,
    })
}

/// Minimum share of the wait in CPU collectives that makes other ranks the target.
const IN_COLLECTIVES: f64 = 0.7;

/// True if CPU collectives of the process run during most of the waits.
fn in_collectives(context: &RuleContext<'_>, waits: impl Iterator<Item = (i64, i64)>) -> bool {
    let trace = context.trace();
    let span = |(event, _): (EventId, _)| (trace.events.start[event.index()], trace.events.end(event));
    let collectives = intervals::union(host_collectives(trace).into_iter().map(span));
    let waits = intervals::union(waits.filter(|(from, to)| from < to));
    let all = intervals::total(&waits);
    let uncovered = intervals::total(&intervals::subtract(&waits, &collectives));
    !collectives.is_empty() && (all - uncovered) as f64 >= IN_COLLECTIVES * all.max(1) as f64
}

/// Title for waits for a target, with their share of the time in percent.
pub(crate) fn title(share: f64, kind: &str) -> String {
    format!("Waiting for {kind}: {share:.0} % of the time")
}

/// Source location with the waiting line, if samples within the calls show it in the same function. Calls alone have
/// only the first line of the function.
fn waiting_line(context: &RuleContext<'_>, place: SourceLocation, calls: &[EventId]) -> SourceLocation {
    let trace = context.trace();
    let calls = Spans::from_trace(trace, calls);
    let all = trace.sample_events().flat_map(|(_, rows)| rows.map(|(sample, _)| sample));
    let samples: Vec<EventId> = all.filter(|&sample| calls.contains(trace, sample)).collect();
    match context.most_sampled_line(&samples) {
        Some(line) if (&line.file, &line.function) == (&place.file, &place.function) => {
            SourceLocation { line: line.line, ..place }
        }
        _ => place,
    }
}

/// Wait target in most samples: the outermost library function with a known name below the user's function; `None` if
/// unknown.
fn kind_of_samples(context: &RuleContext<'_>, samples: &[EventId]) -> Option<&'static str> {
    let mut kinds: BTreeMap<Option<&'static str>, usize> = BTreeMap::new();
    for &sample in samples {
        let of_libraries = context.frames_of_sample(sample).take_while(|&name| !context.is_own_name(name));
        let kind = of_libraries.filter_map(|name| kind_of(context.trace().strings.get(name))).last();
        *kinds.entry(kind).or_default() += 1;
    }
    kinds.into_iter().max_by_key(|&(_, count)| count)?.0
}

/// Candidate for waiting calls at one source location; `None` if their share of the critical path is small.
fn candidate(
    context: &RuleContext<'_>,
    place: SourceLocation,
    (on_path, frames): (i64, Vec<EventId>),
) -> Option<Candidate> {
    let share = context.percent(on_path);
    if share < context.setting("share") {
        return None;
    }
    let (name, _) = *context.by_name(&frames).first()?;
    let spans = frames.iter().map(|&e| (context.trace().events.start[e.index()], context.trace().events.end(e)));
    let kind = if in_collectives(context, spans) { OTHER_RANKS } else { kind_of(name)? };
    let place = waiting_line(context, place, &frames);
    let edit = context.edit(Action::Remove, format!("frame:{name}"), &frames)?;
    Some(Candidate {
        title: title(share, kind),
        place,
        facts: vec![
            Fact::count("waits", frames.len()),
            Fact { name: "share of the critical path in the reported waits", value: share, unit: Unit::Percent },
            Fact::time("time of the reported waits on the critical path per step", context.per_step(on_path)),
        ],
        events: frames,
        kind: candidate_kind(kind),
        support: Support::Exact,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::edits(vec![edit]),
    })
}

#[cfg(test)]
mod tests {
    use super::{candidate_kind, kind_of};
    use crate::CandidateKind;

    #[test]
    fn kind_of_a_candidate_follows_from_the_frame_that_waits() {
        for (frame, kind) in [
            ("threading.py(938): start", Some(CandidateKind::ThreadStart)),
            ("threading.py(1115): join", None),
            ("threading.py(604): wait", Some(CandidateKind::Condition)),
            ("<built-in method acquire of _thread.lock object at 0x7f>", Some(CandidateKind::Lock)),
            ("queue.py(154): get", Some(CandidateKind::Queue)),
            ("multiprocessing/queues.py(103): get", Some(CandidateKind::Queue)),
            ("<built-in function read>", None),
            ("ssl.py(1099): read", Some(CandidateKind::Network)),
            ("<built-in function sleep>", Some(CandidateKind::Sleep)),
        ] {
            let target = kind_of(frame).unwrap();
            assert_eq!(candidate_kind(target), kind, "{frame}: {target}");
        }
    }
}
