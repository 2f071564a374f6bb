//! SL025: Python's garbage collection interrupts steps again and again.

use crate::step_words::StepWords;
use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::format::duration;
use stackline_model::names::{COLLECTION, IMPORTS};
use stackline_model::{EventId, EventKind, Trace};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const RULE: Rule = Rule {
    code: "SL025",
    name: "garbage-collection",
    area: Area::Host,
    about: "Python's garbage collection runs during steps, automatically or through gc.collect()",
    why: "A collection visits all live objects, and no other Python code runs meanwhile. A model consists of many \
         objects.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate removes collections that recur (what-if operation `remove`). If one collection contains \
         another, only the outer one counts.",
    advice: "Call gc.collect() and gc.freeze() after setup, so that collections skip the objects that exist then. Call \
        gc.disable(), and run a collection every N steps. Remove gc.collect() from steps.",
    example: (
        "for x in loader:\n    step(x)",
        "gc.collect()\ngc.freeze()\ngc.disable()\nfor i, x in enumerate(loader):\n    step(x)\n    if i % 1000 == 0:\n        gc.collect()",
    ),
    cost: "a few lines; cyclic garbage stays in memory longer",
    false_positives: "Collections are needed if the program creates so much cyclic garbage that memory runs out \
        without them. Only recurring collections count: they occur in at least two steps after the first. In traces \
        without steps, they occur in at least three of four equal parts of the analyzed time. Recordings do not \
        distinguish gc.collect() from automatic collections. The finding names a line if nearly all collections \
        happen there. Only recordings of `stackline record`, and traces made with record_python_gc_info, contain \
        automatic collections.",
    source: "common practice",
    needs: &[],
    settings: &[Setting {
        name: "share",
        default: 0.5,
        range: (0.0, 100.0),
        about: "report garbage collection only if all collections together take at least this percentage of the \
            analyzed time",
    }],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Minimum share of collection time at one line that makes it the source location, in percent.
const MIN_DOMINANT_PERCENT: i64 = 90;

/// Test if a name is that of a garbage collection in torch.profiler or Python. (`gc` and `gc (dynamo_timed)` belong to
/// torch.compile.)
pub(crate) fn is_collection(name: &str) -> bool {
    matches!(name, COLLECTION | "gc.collect" | "<built-in function collect>")
        || name.starts_with("<built-in method collect of module object")
}

/// Find recurring garbage collections: one candidate for Python's own, and one per line that calls `gc.collect()`.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let kinds = [EventKind::PythonFunction, EventKind::Annotation, EventKind::Operator, EventKind::Other];
    let found = context.outermost(&context.named(&kinds, is_collection));
    let trace = context.trace();
    let (own, explicit): (Vec<EventId>, Vec<EventId>) =
        found.into_iter().partition(|&event| trace.name(event) == COLLECTION);
    let recurring = |of: Vec<EventId>| Some(recurring(context, of)).filter(|of| !of.is_empty());
    let own = recurring(own).map(|own| (line_of(context, &own), own));
    let explicit = context.by_place(&explicit).into_iter().filter_map(|(place, of)| Some((place, recurring(of)?)));
    let groups: Vec<(SourceLocation, Vec<EventId>)> = own.into_iter().chain(explicit).collect();
    let all_ns = groups.iter().map(|(_, of)| context.total(of)).sum();
    if context.percent(all_ns) < context.setting("share") {
        return Vec::new();
    }
    groups.into_iter().filter_map(|(place, of)| candidate(context, place, of)).collect()
}

/// Parts of the window of a trace without steps, and the minimum number of parts with a recurring collection.
const WINDOW_PARTS: i64 = 4;
const MIN_PARTS: usize = 3;

/// Select the collections that recur in steady state; empty if they do not recur. Setup collects once: in imports,
/// before `gc.freeze()`, in a first step.
fn recurring(context: &RuleContext<'_>, collections: Vec<EventId>) -> Vec<EventId> {
    let trace = context.trace();
    let imports = |event: EventId| trace.ancestors(event).any(|around| trace.name(around).starts_with(IMPORTS));
    let collections: Vec<EventId> = collections.into_iter().filter(|&event| !imports(event)).collect();
    if trace.steps.len() < 2 {
        let (from, to) = context.window();
        let part = |&event: &EventId| (trace.events.start[event.index()] - from) * WINDOW_PARTS / (to - from).max(1);
        let parts: BTreeSet<i64> = collections.iter().map(part).collect();
        return if parts.len() >= MIN_PARTS { collections } else { Vec::new() };
    }
    let (later, early): (Vec<EventId>, Vec<EventId>) =
        collections.into_iter().partition(|&event| step_begun(trace, event).is_some_and(|step| step > 0));
    let steps: BTreeSet<Option<usize>> = later.iter().map(|&event| step_begun(trace, event)).collect();
    // With two steps, the first must also collect: a collection in only one of them may be a single event.
    let recurs = steps.len() >= 2 || context.later_steps().len() == 1 && !early.is_empty() && !later.is_empty();
    if !recurs {
        return Vec::new();
    }
    let longest = later.iter().map(|&event| context.dur(event)).max().unwrap_or(0);
    let is_similar = |event: &EventId| context.dur(*event) <= 2 * longest;
    early.into_iter().filter(is_similar).chain(later).collect()
}

/// Index of the last step of the event's process that started before the event. Time after a step counts as that step.
/// Processes without steps use the steps of all.
fn step_begun(trace: &Trace, event: EventId) -> Option<usize> {
    let pid = |event: EventId| trace.tracks.pid(trace.events.track[event.index()]);
    let begun = &trace.steps[..trace.steps.partition_point(|step| step.start <= trace.events.start[event.index()])];
    begun.iter().rposition(|step| pid(step.event) == pid(event)).or(begun.len().checked_sub(1))
}

/// Line with nearly all time of the collections: the caller of `gc.collect()`, or the main source of garbage. Empty if
/// collections are spread.
fn line_of(context: &RuleContext<'_>, collections: &[EventId]) -> SourceLocation {
    let mut lines: BTreeMap<SourceLocation, i64> = BTreeMap::new();
    for (place, of) in context.by_place(collections) {
        *lines.entry(SourceLocation { module: None, operator: None, ..place }).or_default() += context.total(&of);
    }
    let most = lines.into_iter().max_by_key(|(_, ns)| *ns);
    let is_nearly_all = |ns: i64| 100 * ns >= MIN_DOMINANT_PERCENT * context.total(collections);
    most.filter(|(_, ns)| is_nearly_all(*ns)).map(|(place, _)| place).unwrap_or_default()
}

/// Title for garbage collection, with its time per step as text.
pub(crate) fn title(each: &str, words: StepWords) -> String {
    format!("Garbage collection: {each}{}", words.per_step_suffix())
}

/// Candidate for removing the collections at one source location.
fn candidate(context: &RuleContext<'_>, place: SourceLocation, events: Vec<EventId>) -> Option<Candidate> {
    let edit = context.edit(Action::Remove, format!("frame:{}", context.trace().name(events[0])), &events)?;
    let ns = context.total(&events);
    let longest = events.iter().map(|&event| context.dur(event)).max().unwrap_or(0);
    Some(Candidate {
        title: title(&duration(context.per_step(ns)), context.words()),
        place,
        facts: vec![Fact::count("collections", events.len()), Fact::time("longest", longest)],
        events,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::High,
        gain_estimate: GainEstimate::edits(vec![edit]),
    })
}
