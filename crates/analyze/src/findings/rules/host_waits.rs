//! SL039: the program waits for a thread, a process, a lock or the network in its steps.

use super::dataloader_starved::is_next;
use crate::critical_path::exact::what_if::Action;
use crate::findings::interludes::Seen;
use crate::findings::{Area, Confidence, Draft, Fact, Need, Place, Rule, Setting, Subject, Support, Worth};
use stackline_model::{EventId, EventKind, Unit};

pub(super) const RULE: Rule = Rule {
    code: "SL039",
    name: "host-waits",
    area: Area::Host,
    about: "steps wait for a thread, a process, a lock, a file or the network",
    why: "Nothing is computed and nothing launched until the other one is ready.",
    advice: "Let the other one work beside the next steps, and ask for its result later: keep the future and wait for the one before; \
             a queue with a bound instead of join(); no network in steps.",
    example: (
        "writer.submit(save, values).result()",
        "pending.append(writer.submit(save, values))\nif len(pending) > 8:\n    pending.popleft().result()",
    ),
    cost: "some lines; errors of the other one are seen later",
    wrong_when: "The other one takes longer than a step: then it is what has to become faster. The gain is that of no wait at all. \
                 Recordings tell of a wait whose function they do not know by what samples of CPU time leave of the time between two \
                 operators, less what threads of the process waited for a processor: another program may have had that, too. \
                 Without samples of wall-clock time (`record --real-hz`) they name what the lines of the two operators have in common, \
                 and between two steps the file alone.",
    source: "field practice",
    needs: &[Need::PythonFrames],
    settings: &[Setting {
        name: "share",
        default: 2.0,
        range: (0.0, 100.0),
        about: "least part of the critical path that one place waits, in percent",
    }],
    elsewhere: &[],
    check,
};

/// What is waited for, and parts of names of frames that do: see `fits`.
const FRAMES: &[(&str, &[&str])] = &[
    ("the result of another thread", &["concurrent/futures/_base.py(", "): result"]),
    ("the results of other threads", &["concurrent/futures/_base.py(", "): wait"]),
    ("a thread", &["threading.py(", "): join"]),
    ("a lock or another thread", &["threading.py(", "): wait"]),
    ("a queue", &["queue.py(", "): get"]),
    ("a queue", &["queue.py(", "): put"]),
    ("a queue of another process", &["multiprocessing/queues.py(", "): get"]),
    ("another process", &["multiprocessing/connection.py(", "): recv"]),
    ("another process", &["multiprocessing/connection.py(", "): wait"]),
    ("another process", &["multiprocessing/process.py(", "): join"]),
    ("another process", &["subprocess.py(", "): wait"]),
    ("another process", &["subprocess.py(", "): communicate"]),
    ("the network", &["socket.py(", "): readinto"]),
    ("the network", &["ssl.py(", "): read"]),
    ("the network", &["urllib/request.py(", "): urlopen"]),
    ("the network", &["requests/sessions.py(", "): request"]),
    ("time.sleep", &["<built-in function sleep>"]),
];

pub(super) fn kind_of(name: &str) -> Option<&'static str> {
    super::kind_in(FRAMES, name)
}

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    let trace = subject.trace();
    let frames = subject.named(&[EventKind::PythonFunction], |name| kind_of(name).is_some());
    let mut frames = subject.outermost(&frames);
    // Waits for data are SL009's.
    frames.retain(|&frame| !trace.ancestors(frame).any(|e| is_next(trace.name(e))));
    let on_path = subject.path_inside(&frames);
    let by_place = subject.sums_by_place(frames.iter().copied().zip(on_path).collect());
    let named = by_place.into_iter().filter_map(|(place, ns, of)| draft(subject, place, (ns, of)));
    let unnamed = subject.waits_between(&frames, is_next).into_iter();
    named.chain(unnamed.filter_map(|(place, seen)| of_samples(subject, place, &seen))).collect()
}

/// Waits for nobody knows what: a thread does not compute between two operators for longer than samples of its CPU time explain.
fn of_samples(subject: &Subject<'_>, place: Place, seen: &Seen) -> Option<Draft> {
    let share = subject.percent(seen.time.ns as i64);
    if share < subject.setting("share") {
        return None;
    }
    let mut facts = vec![Fact { name: "part of the time", value: share, unit: Unit::Percent }];
    facts.extend(seen.facts(subject));
    Some(Draft {
        title: format!(
            "steps wait {share:.0} % of the time between operators: for a file, the network, a lock or sleep"
        ),
        facts,
        events: seen.samples.clone(),
        support: Support::Inferred,
        confidence: seen.confidence(),
        worth: seen.worth(subject, &place, &[])?,
        place,
    })
}

fn draft(subject: &Subject<'_>, place: Place, (on_path, frames): (i64, Vec<EventId>)) -> Option<Draft> {
    let share = subject.percent(on_path);
    if share < subject.setting("share") {
        return None;
    }
    let (name, _) = *subject.by_name(&frames).first()?;
    let edit = subject.edit(Action::Remove, format!("frame:{name}"), &frames)?;
    Some(Draft {
        title: format!("steps wait {share:.0} % of the time for {}", kind_of(name)?),
        place,
        facts: vec![
            Fact::count("waits", frames.len()),
            Fact { name: "part of the critical path", value: share, unit: Unit::Percent },
            Fact::time("waiting, a step", subject.per_step(on_path)),
        ],
        events: frames,
        support: Support::Exact,
        confidence: Confidence::Medium,
        worth: Worth::Edits(vec![edit]),
    })
}
