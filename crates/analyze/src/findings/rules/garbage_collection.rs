//! SL025: Python collects garbage in the middle of the work.

use crate::critical_path::exact::what_if::Action;
use crate::findings::step_words::StepWords;
use crate::findings::{Area, Confidence, Draft, Fact, Place, Rule, Setting, Subject, Support, Worth};
use stackline_model::names::{COLLECTION, IMPORTS};
use stackline_model::words::duration;
use stackline_model::{EventId, EventKind, Trace};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: Rule = Rule {
    code: "SL025",
    name: "garbage-collection",
    area: Area::Host,
    about: "Python collects garbage within the work: by itself, or told to by gc.collect()",
    why: "A collection looks at all objects that live, and nothing else of Python runs meanwhile; models are many objects.",
    advice: "gc.collect(); gc.freeze() after the set-up, so that it need not be looked at again; gc.disable() and a \
             collection every so many steps; no gc.collect() in steps.",
    example: (
        "for x in loader:\n    step(x)",
        "gc.collect()\ngc.freeze()\ngc.disable()\nfor i, x in enumerate(loader):\n    step(x)\n    if i % 1000 == 0:\n        gc.collect()",
    ),
    cost: "a few lines; garbage in cycles lives longer",
    wrong_when: "The program makes so much garbage in cycles that memory runs out without. Only collections that recur are counted: in two \
                 or more steps after the first of the trace, or, in traces without steps, in three of four parts of the window. Recordings do not tell whether gc.collect() was \
                 called or Python collected by itself: a line is named where nearly all collections come at that line. Collections that Python begins by \
                 itself are only in recordings, and in traces made with record_python_gc_info.",
    source: "field practice",
    needs: &[],
    settings: &[Setting {
        name: "share",
        default: 0.5,
        range: (0.0, 100.0),
        about: "least part of the time of the threads' collections that is reported, in percent of the window",
    }],
    elsewhere: &[],
    check,
};

/// A line at which this part of the time is spent, in percent, is where collections come from.
const NEARLY_ALL: i64 = 90;

/// Names of torch.profiler and of Python for collections. (`gc` and `gc (dynamo_timed)` are torch.compile's.)
pub(super) fn is_collection(name: &str) -> bool {
    matches!(name, COLLECTION | "gc.collect" | "<built-in function collect>")
        || name.starts_with("<built-in method collect of module object")
}

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    let kinds = [EventKind::PythonFunction, EventKind::Annotation, EventKind::Operator, EventKind::Other];
    let found = subject.outermost(&subject.named(&kinds, is_collection));
    let trace = subject.trace();
    let (own, asked): (Vec<EventId>, Vec<EventId>) =
        found.into_iter().partition(|&event| trace.name(event) == COLLECTION);
    let recurring = |of: Vec<EventId>| Some(recurring(subject, of)).filter(|of| !of.is_empty());
    let own = recurring(own).map(|own| (line_of(subject, &own), own));
    let asked = subject.by_place(&asked).into_iter().filter_map(|(place, of)| Some((place, recurring(of)?)));
    let groups: Vec<(Place, Vec<EventId>)> = own.into_iter().chain(asked).collect();
    let all_ns = groups.iter().map(|(_, of)| subject.total(of)).sum();
    if subject.percent(all_ns) < subject.setting("share") {
        return Vec::new();
    }
    groups.into_iter().filter_map(|(place, of)| draft(subject, place, of)).collect()
}

/// Parts of the window of a trace without steps, and how many of them have some of what recurs.
const PARTS: i64 = 4;
const LEAST_PARTS: usize = 3;

/// Those of some collections that recur in steady state. The set-up collects once: in imports, before `gc.freeze()`, in a first step.
fn recurring(subject: &Subject<'_>, collections: Vec<EventId>) -> Vec<EventId> {
    let trace = subject.trace();
    let imports = |event: EventId| trace.ancestors(event).any(|around| trace.name(around).starts_with(IMPORTS));
    let collections: Vec<EventId> = collections.into_iter().filter(|&event| !imports(event)).collect();
    if trace.steps.len() < 2 {
        let (from, to) = subject.window();
        let part = |&event: &EventId| (trace.events.start[event.index()] - from) * PARTS / (to - from).max(1);
        let parts: BTreeSet<i64> = collections.iter().map(part).collect();
        return if parts.len() >= LEAST_PARTS { collections } else { Vec::new() };
    }
    let (later, early): (Vec<EventId>, Vec<EventId>) =
        collections.into_iter().partition(|&event| step_begun(trace, event).is_some_and(|step| step > 0));
    let steps: BTreeSet<Option<usize>> = later.iter().map(|&event| step_begun(trace, event)).collect();
    // Of two steps the first one has to show that what the other one has is not done once.
    let recurs = steps.len() >= 2 || subject.later_steps().len() == 1 && !early.is_empty() && !later.is_empty();
    if !recurs {
        return Vec::new();
    }
    let longest = later.iter().map(|&event| subject.dur(event)).max().unwrap_or(0);
    let is_alike = |event: &EventId| subject.dur(*event) <= 2 * longest;
    early.into_iter().filter(is_alike).chain(later).collect()
}

/// The step of its process, as its place in the trace's list, that was the last to begin before an event did: what lies behind a step
/// counts as that step's. Of processes without steps those of all.
fn step_begun(trace: &Trace, event: EventId) -> Option<usize> {
    let pid = |event: EventId| trace.tracks.pid(trace.events.track[event.index()]);
    let begun = &trace.steps[..trace.steps.partition_point(|step| step.start <= trace.events.start[event.index()])];
    begun.iter().rposition(|step| pid(step.event) == pid(event)).or(begun.len().checked_sub(1))
}

/// The line at which nearly all collections come that Python told of: gc.collect() is called there, or most garbage made. None
/// where they come wherever they come.
fn line_of(subject: &Subject<'_>, collections: &[EventId]) -> Place {
    let mut lines: BTreeMap<Place, i64> = BTreeMap::new();
    for (place, of) in subject.by_place(collections) {
        *lines.entry(Place { module: None, operator: None, ..place }).or_default() += subject.total(&of);
    }
    let most = lines.into_iter().max_by_key(|(_, ns)| *ns);
    let is_nearly_all = |ns: i64| 100 * ns >= NEARLY_ALL * subject.total(collections);
    most.filter(|(_, ns)| is_nearly_all(*ns)).map(|(place, _)| place).unwrap_or_default()
}

/// The title of collections that take so long.
pub(super) fn title(each: &str, words: StepWords) -> String {
    format!("Python collects garbage for {each}{}", words.a_step())
}

fn draft(subject: &Subject<'_>, place: Place, events: Vec<EventId>) -> Option<Draft> {
    let edit = subject.edit(Action::Remove, format!("frame:{}", subject.trace().name(events[0])), &events)?;
    let ns = subject.total(&events);
    let longest = events.iter().map(|&event| subject.dur(event)).max().unwrap_or(0);
    Some(Draft {
        title: title(&duration(subject.per_step(ns)), subject.words()),
        place,
        facts: vec![Fact::count("collections", events.len()), Fact::time("longest", longest)],
        events,
        support: Support::Exact,
        confidence: Confidence::High,
        worth: Worth::Edits(vec![edit]),
    })
}
