//! SL038: Python loops that call small operators again and again.

use crate::critical_path::exact::what_if::Action;
use crate::findings::{Area, Confidence, Draft, Fact, Need, Place, Rule, Setting, Subject, Support, Worth};
use stackline_model::{EventId, EventKind, StrId};
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL038",
    name: "small-operators-in-a-loop",
    area: Area::Host,
    about: "a Python loop calls small operators one after the other that could be one operator on a larger tensor",
    why: "Each call costs some microseconds of Python and of the framework, whatever little it computes.",
    advice: "Write it as operators on whole tensors (a dimension more instead of a loop), torch.vmap, or torch.compile.",
    example: (
        "rows = [(row - row.mean()) / row.std() for row in x]",
        "rows = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)",
    ),
    cost: "some thought; more memory at once",
    wrong_when: "Each turn needs the result of the one before. The gain supposes that of all calls of one operator one is left, \
                 and what calls take beyond the shorter half of them.",
    source: "field practice",
    needs: &[Need::Operators, Need::PythonFrames],
    settings: &[
        Setting {
            name: "calls",
            default: 50.0,
            range: (2.0, 1e6),
            about: "least calls of one operator from one line, a step",
        },
        Setting {
            name: "median_us",
            default: 20.0,
            range: (0.0, 1000.0),
            about: "longest median of such calls, in µs",
        },
        Setting {
            name: "share",
            default: 5.0,
            range: (0.0, 100.0),
            about: "least part of the time that the loops of one place take, in percent",
        },
    ],
    check,
};

/// From where an operator is called: the stack if it is known, else the frames around it; and its name.
type Caller = (Vec<StrId>, StrId);

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    let trace = subject.trace();
    let mut operators = subject.outermost(&subject.operators());
    let is_other = |name: &str| name.starts_with("Optimizer.") || name.starts_with("autograd::engine");
    operators.retain(|&e| !std::iter::once(e).chain(trace.ancestors(e)).any(|around| is_other(trace.name(around))));
    let mut by_caller: BTreeMap<Caller, Vec<EventId>> = BTreeMap::new();
    for &operator in &operators {
        by_caller.entry(caller(subject, operator)).or_default().push(operator);
    }
    let is_loop = |of: &Vec<EventId>| {
        let is_many = of.len() as f64 >= subject.setting("calls") * subject.steps() as f64;
        is_many && subject.lengths(of)[of.len() / 2] as f64 <= subject.setting("median_us") * 1e3
    };
    let mut by_place: BTreeMap<Place, Vec<Vec<EventId>>> = BTreeMap::new();
    for calls in by_caller.into_values().filter(is_loop) {
        let place = Place { operator: None, ..subject.place(calls[0]) };
        by_place.entry(place).or_default().push(calls);
    }
    by_place.into_iter().filter_map(|(place, loops)| draft(subject, place, &loops)).collect()
}

fn caller(subject: &Subject<'_>, operator: EventId) -> Caller {
    let trace = subject.trace();
    let around = trace.ancestors(operator).filter(|&e| trace.kind(e) == EventKind::PythonFunction);
    let mut frames = subject.stack_frames(operator);
    if frames.is_empty() {
        frames = around.map(|e| trace.events.name[e.index()]).collect();
    }
    (frames, trace.events.name[operator.index()])
}

/// What is left of calls of one operator, in ns: one of them, and what they compute beyond what a call costs.
fn left(subject: &Subject<'_>, calls: &[EventId]) -> i64 {
    let lengths = subject.lengths(calls);
    let usual = lengths[lengths.len() / 4].max(1);
    let beyond: i64 = lengths[..lengths.len() / 2].iter().map(|&ns| (ns - usual).max(0)).sum();
    (usual * subject.steps() as i64 + beyond).min(subject.total(calls))
}

fn draft(subject: &Subject<'_>, place: Place, loops: &[Vec<EventId>]) -> Option<Draft> {
    let mut events: Vec<EventId> = loops.iter().flatten().copied().collect();
    events.sort_unstable();
    let (mut gone, mut ns) = subject.loops_of(&events);
    // Their backward goes with them.
    let backward = subject.outermost(&subject.backward_of(&events));
    ns += subject.total(&backward);
    gone.extend(&backward);
    let share = subject.percent(ns);
    if share < subject.setting("share") {
        return None;
    }
    let per_step = events.len() / subject.steps().max(1);
    let left: i64 = loops.iter().map(|calls| left(subject, calls)).sum();
    let factor = left as f64 / subject.total(&events).max(1) as f64;
    let edit = subject.edit(Action::Scale(factor), format!("operators of {}", place.text()), &gone)?;
    Some(Draft {
        title: format!(
            "a loop calls {per_step} small operators a step, {:.1} µs each",
            subject.total(&events) as f64 / 1e3 / events.len().max(1) as f64
        ),
        facts: vec![
            Fact::count("operators", events.len()),
            Fact::count("of their backward", backward.len()),
            Fact::time("with Python between them, a step", subject.per_step(ns)),
        ],
        place,
        events,
        support: Support::Inferred,
        confidence: Confidence::Medium,
        worth: Worth::Edits(vec![edit]),
    })
}
