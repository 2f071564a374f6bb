//! SL025: Python collects garbage in the middle of the work.

use crate::critical_path::exact::what_if::Action;
use crate::findings::{Area, Confidence, Draft, Fact, Place, Rule, Setting, Subject, Support, Worth};
use stackline_model::names::COLLECTION;
use stackline_model::words::duration;
use stackline_model::{EventId, EventKind};
use std::collections::BTreeMap;

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
    wrong_when: "The program makes so much garbage in cycles that memory runs out without. Recordings do not tell whether gc.collect() was \
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
    if subject.percent(subject.total(&found)) < subject.setting("share") {
        return Vec::new();
    }
    let trace = subject.trace();
    let (own, asked): (Vec<EventId>, Vec<EventId>) =
        found.into_iter().partition(|&event| trace.name(event) == COLLECTION);
    let own = (!own.is_empty()).then(|| (line_of(subject, &own), own));
    let groups = own.into_iter().chain(subject.by_place(&asked));
    groups.filter_map(|(place, of)| draft(subject, place, of)).collect()
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

fn draft(subject: &Subject<'_>, place: Place, events: Vec<EventId>) -> Option<Draft> {
    let edit = subject.edit(Action::Remove, format!("frame:{}", subject.trace().name(events[0])), &events)?;
    let ns = subject.total(&events);
    let longest = events.iter().map(|&event| subject.dur(event)).max().unwrap_or(0);
    Some(Draft {
        title: format!("Python collects garbage for {} a step", duration(subject.per_step(ns))),
        place,
        facts: vec![Fact::count("collections", events.len()), Fact::time("longest", longest)],
        events,
        support: Support::Exact,
        confidence: Confidence::High,
        worth: Worth::Edits(vec![edit]),
    })
}
