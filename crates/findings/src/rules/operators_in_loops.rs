//! SL038: Python loops that call small operators again and again.

use crate::gpu_work_by_launcher::Loops;
use crate::{Area, Candidate, Fact, GainEstimate, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::{Action, Chosen};
use stackline_model::{EventId, EventKind, StrId};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::aten;
use stackline_timeline::vocabulary::autograd::ENGINE;
use stackline_timeline::vocabulary::python::OPTIMIZER;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: Rule = Rule {
    code: "SL038",
    name: "small-operators-in-a-loop",
    area: Area::Host,
    about: "a Python loop calls small operators one after the other that could be one operator on a larger tensor",
    why: "Each call costs some microseconds of Python and of the framework, whatever little it computes.",
    advice: "Write it as operators on whole tensors (a dimension more instead of a loop; a layer such as nn.LSTM in place of its cell), \
             torch.vmap, or torch.compile.",
    example: (
        "rows = [(row - row.mean()) / row.std() for row in x]",
        "rows = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)",
    ),
    cost: "some thought; more memory at once",
    false_positives: "Each turn needs the result of the one before. The gain supposes that of all calls of one operator one is left, \
                 and what calls take beyond the shorter half of them. At most, all that is done between the turns goes, and what \
                 gathers their results. Without steps only loops are seen of which four turns or more follow each other with nothing \
                 but such small operators between them.",
    source: "field practice",
    needs: &[Requirement::Operators, Requirement::PythonFrames],
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
            about: "longest median of such calls, in µs; 25 times that of cells of recurrent layers",
        },
        Setting {
            name: "share",
            default: 5.0,
            range: (0.0, 100.0),
            about: "least part of the time that the loops of one place take, in percent",
        },
    ],
    advice_variants: &[],
    check,
};

/// A cell of a recurrent layer may take so many times as long as other operators: what takes its place does all of them at once.
const CELL: f64 = 25.0;

/// From where an operator is called: the stack if it is known, else the frames around it; and its name.
type Caller = (Vec<StrId>, StrId);

fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    let mut operators = context.outermost(&context.operators());
    let is_other = |name: &str| name.starts_with(OPTIMIZER) || name.starts_with(ENGINE);
    operators.retain(|&e| !std::iter::once(e).chain(trace.ancestors(e)).any(|around| is_other(trace.name(around))));
    let mut by_caller: BTreeMap<Caller, Vec<EventId>> = BTreeMap::new();
    for &operator in &operators {
        by_caller.entry(caller(context, operator)).or_default().push(operator);
    }
    let is_loop = |of: &Vec<EventId>| {
        let is_many = of.len() as f64 >= context.setting("calls") * context.steps() as f64;
        let is_cell = of.first().is_some_and(|&e| aten::is_recurrent_cell(trace.name(e)));
        let longest_us = context.setting("median_us") * if is_cell { CELL } else { 1.0 };
        is_many && context.lengths(of)[of.len() / 2] as f64 <= longest_us * 1e3
    };
    let repeated: Vec<Vec<EventId>> = by_caller.into_values().filter(is_loop).collect();
    let repeated = if trace.steps.is_empty() { densely(context, repeated) } else { repeated };
    let mut by_place: BTreeMap<SourceLocation, Vec<Vec<EventId>>> = BTreeMap::new();
    for calls in repeated {
        let place = SourceLocation { operator: None, ..context.place(calls[0]) };
        by_place.entry(place).or_default().push(calls);
    }
    loops(context, by_place).into_iter().filter_map(|found| candidate(context, found)).collect()
}

/// So many turns of a loop follow each other at least, in the mean, where steps are not known.
const TURNS: usize = 4;

/// Those of some calls of each line that are repeated with nothing but such calls between them. Without steps all that a program
/// does again and again looks like a loop: its layers, token by token, do; but between their small operators there are large ones.
fn densely(context: &RuleContext<'_>, calls: Vec<Vec<EventId>>) -> Vec<Vec<EventId>> {
    let events = &context.trace().events;
    let moment = |e: EventId| (events.track[e.index()], events.start[e.index()], e);
    let runs = context.runs_of(&calls.concat()).runs;
    let is_dense = |of: &Vec<EventId>| {
        let run = |&call: &EventId| runs.partition_point(|&(first, _)| moment(first) <= moment(call));
        of.len() >= TURNS * of.iter().map(run).collect::<BTreeSet<usize>>().len()
    };
    calls.into_iter().filter(is_dense).collect()
}

/// A loop: its lines with the calls of each operator from there.
type Loop = Vec<(SourceLocation, Vec<Vec<EventId>>)>;

/// Lines of one function that take turns are one loop.
fn loops(context: &RuleContext<'_>, by_place: BTreeMap<SourceLocation, Vec<Vec<EventId>>>) -> Vec<Loop> {
    let mut found: Vec<Loop> = Vec::new();
    let mut of_functions: BTreeMap<(String, Option<String>), Vec<usize>> = BTreeMap::new();
    for (place, calls) in by_place {
        let of =
            |line: &(SourceLocation, Vec<Vec<EventId>>)| line.1.iter().flatten().copied().collect::<Vec<EventId>>();
        let function = place.file.clone().map(|file| (file, place.function.clone()));
        let line = (place, calls);
        let Some(function) = function else {
            found.push(vec![line]);
            continue;
        };
        let (known, own) = (of_functions.entry(function).or_default(), of(&line));
        let takes_turns = |at: &&usize| found[**at].iter().any(|other| turns(context, &of(other), &own));
        match known.iter().find(takes_turns) {
            Some(&at) => found[at].push(line),
            None => {
                known.push(found.len());
                found.push(vec![line]);
            }
        }
    }
    found
}

/// Whether calls of two lines take turns, rather than that one line is done before the other begins.
fn turns(context: &RuleContext<'_>, these: &[EventId], those: &[EventId]) -> bool {
    let events = &context.trace().events;
    let moment = |is_other: bool| move |&e: &EventId| (events.track[e.index()], events.start[e.index()], e, is_other);
    let mut all: Vec<_> = these.iter().map(moment(false)).chain(those.iter().map(moment(true))).collect();
    all.sort_unstable();
    let changes = all.windows(2).filter(|pair| pair[0].3 != pair[1].3).count();
    2 * changes >= these.len().min(those.len())
}

fn caller(context: &RuleContext<'_>, operator: EventId) -> Caller {
    let trace = context.trace();
    let around = trace.ancestors(operator).filter(|&e| trace.kind(e) == EventKind::PythonFunction);
    let mut frames = context.stack_frames(operator);
    if frames.is_empty() {
        frames = around.map(|e| trace.events.name[e.index()]).collect();
    }
    (frames, trace.events.name[operator.index()])
}

/// What is left of calls of one operator, in ns: one of them, and what they compute beyond what a call costs.
fn left(context: &RuleContext<'_>, calls: &[EventId]) -> i64 {
    let lengths = context.lengths(calls);
    let usual = lengths[lengths.len() / 4].max(1);
    let beyond: i64 = lengths[..lengths.len() / 2].iter().map(|&ns| (ns - usual).max(0)).sum();
    (usual * context.steps() as i64 + beyond).min(context.total(calls))
}

/// The line that takes most, and in words which others there are.
fn place_of(context: &RuleContext<'_>, lines: &Loop) -> (SourceLocation, String) {
    let ns = |calls: &[Vec<EventId>]| calls.iter().map(|calls| context.total(calls)).sum::<i64>();
    let most = lines.iter().max_by_key(|(place, calls)| (ns(calls), std::cmp::Reverse(place.line)));
    let numbers = || lines.iter().filter_map(|(place, _)| place.line);
    let told = match (numbers().min(), numbers().max()) {
        (Some(first), Some(last)) if first < last => format!(" (lines {first} to {last})"),
        _ => String::new(),
    };
    (most.map(|(place, _)| place.clone()).unwrap_or_default(), told)
}

/// All that may go with a loop: what Python does between its turns, however long; what leads to the first one and away from the last;
/// the operators that gather what the turns made, with their backward; the time in which what autograd kept of them is freed.
fn all_around(
    context: &RuleContext<'_>,
    calls: &[EventId],
    (gone, runs): (&[EventId], &[(EventId, EventId)]),
) -> Chosen {
    let trace = context.trace();
    let gathers = |e: &EventId| aten::GATHERS.contains(&trace.name(*e));
    let forward = context.runs_of(calls);
    let gathering: Vec<EventId> = forward.neighbours.iter().filter_map(|&(_, behind)| behind).filter(gathers).collect();
    let mut backward = context.backward_of(calls);
    backward.extend(context.backward_of(&gathering));
    let backward = context.runs_of(&context.outermost(&backward));
    let mut all = Chosen { events: gone.to_vec(), stretches: runs.to_vec(), ..Chosen::default() };
    all.events.extend(gathering);
    let firsts: Vec<EventId> = backward.runs.iter().map(|&(first, _)| first).collect();
    all.between.extend(context.ends_of_backward(&firsts));
    for runs in [forward, backward] {
        for ((before, behind), (first, last)) in runs.neighbours.into_iter().zip(&runs.runs) {
            all.between.extend(before.map(|before| (before, *first)));
            all.between.extend(behind.map(|behind| (*last, behind)));
        }
        all.stretches.extend(runs.runs);
    }
    all
}

fn candidate(context: &RuleContext<'_>, lines: Loop) -> Option<Candidate> {
    let (place, which) = place_of(context, &lines);
    let calls: Vec<Vec<EventId>> = lines.into_iter().flat_map(|(_, calls)| calls).collect();
    let mut events: Vec<EventId> = calls.iter().flatten().copied().collect();
    events.sort_unstable();
    let Loops { mut gone, mut runs, mut ns } = context.loops_of(&events, (context.setting("median_us") * 1e3) as i64);
    // Their backward goes with them, and what autograd does between it: it adds up gradients there.
    let backward = context.outermost(&context.backward_of(&events));
    let of_backward = context.runs_of(&backward);
    ns += of_backward.ns;
    gone.extend(&backward);
    runs.extend(&of_backward.runs);
    let share = context.percent(ns);
    if share < context.setting("share") {
        return None;
    }
    let per_step = events.len() / context.steps().max(1);
    let left: i64 = calls.iter().map(|calls| left(context, calls)).sum();
    let factor = left as f64 / context.total(&events).max(1) as f64;
    let text = format!("operators of {}", place.text());
    let most = context.edit_of(Action::Scale(0.0), text.clone(), all_around(context, &events, (&gone, &runs)))?;
    let chosen = Chosen { events: gone, stretches: runs, ..Chosen::default() };
    let likely = context.edit_of(Action::Scale(factor), text, chosen)?;
    Some(Candidate {
        title: format!(
            "a loop{which} calls {per_step} small operators{}, {:.1} µs each",
            context.words().a_step(),
            context.total(&events) as f64 / 1e3 / events.len().max(1) as f64
        ),
        facts: vec![
            Fact::count("operators", events.len()),
            Fact::count("of their backward", backward.len()),
            Fact::time("with what is done between them, a step", context.per_step(ns)),
        ],
        place,
        events,
        support: Support::Inferred,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::Range(vec![likely], vec![vec![most]]),
    })
}
