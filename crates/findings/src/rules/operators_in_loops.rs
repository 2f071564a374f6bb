//! SL038: Python loops that call many small operators.

use crate::gpu_work_by_launcher::LoopWork;
use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::{Action, Chosen};
use stackline_model::{EventId, EventKind, StrId};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::aten;
use stackline_timeline::vocabulary::autograd::ENGINE;
use stackline_timeline::vocabulary::python::OPTIMIZER;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const RULE: Rule = Rule {
    code: "SL038",
    name: "small-operators-in-a-loop",
    area: Area::Host,
    about: "a Python loop calls many small operators that could be one operator on a larger tensor",
    why: "Each call costs some microseconds in Python and the framework, however small its computation.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate shortens the calls of the loop, the Python time between them, and their backward pass \
         (what-if operation `scale`). One call of each operator per step remains. Of the other calls, only the time \
         beyond the usual cost of a call remains. The upper bound removes all calls with the work between them, and \
         the operators that gather their results. It also removes the code just before and after the loop.",
    advice: "Replace the loop with operators on whole tensors (add a dimension, or use a layer such as nn.LSTM \
         instead of its cell), torch.vmap, or torch.compile.",
    example: (
        "rows = [(row - row.mean()) / row.std() for row in x]",
        "rows = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)",
    ),
    cost: "the loop must be rewritten, and memory use is higher",
    false_positives: "The loop is needed if each iteration uses the result of the previous one. The estimate assumes \
                      that one call of each operator remains. Of the other calls, only the time beyond the usual \
                      cost of a call remains. The upper bound also removes all work between the iterations and the \
                      operators that gather their results. In a trace without steps, the rule only reports loops of \
                      at least four consecutive iterations that contain only small operators.",
    source: "common practice",
    needs: &[Requirement::Operators, Requirement::PythonFrames],
    settings: &[
        Setting {
            name: "calls",
            default: 50.0,
            range: (2.0, 1e6),
            about: "report only operators that one line calls at least this often per step",
        },
        Setting {
            name: "median_us",
            default: 20.0,
            range: (0.0, 1000.0),
            about: "report only operators with at most this median duration, in µs (25 times this duration for cells \
                    of recurrent layers)",
        },
        Setting {
            name: "share",
            default: 5.0,
            range: (0.0, 100.0),
            about: "report only loops that take at least this percentage of the analyzed time",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Longest recurrent cell, as a multiple of other operators: its replacement computes all iterations at once.
const MAX_CELL_RATIO: f64 = 25.0;

/// Call site (the recorded stack, otherwise the frames around the operator) and operator name.
type Caller = (Vec<StrId>, StrId);

/// Find Python loops that call many small operators in each step, one candidate per loop.
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
        let longest_us = context.setting("median_us") * if is_cell { MAX_CELL_RATIO } else { 1.0 };
        is_many && context.lengths(of)[of.len() / 2] as f64 <= longest_us * 1e3
    };
    let repeated: Vec<Vec<EventId>> = by_caller.into_values().filter(is_loop).collect();
    let repeated = if trace.steps.is_empty() { dense_runs(context, repeated) } else { repeated };
    let mut by_place: BTreeMap<SourceLocation, Vec<Vec<EventId>>> = BTreeMap::new();
    for calls in repeated {
        let place = SourceLocation { operator: None, ..context.place(calls[0]) };
        by_place.entry(place).or_default().push(calls);
    }
    loops(context, by_place).into_iter().filter_map(|found| candidate(context, found)).collect()
}

/// Least mean number of consecutive loop iterations, if steps are unknown.
const MIN_ITERATIONS: usize = 4;

/// Select the calls that repeat in dense loops: several times in a row, with nothing but such calls in between.
///
/// Without steps, any repeated work looks like a loop, such as the layers of each token, but large operators separate
/// their small ones.
fn dense_runs(context: &RuleContext<'_>, calls: Vec<Vec<EventId>>) -> Vec<Vec<EventId>> {
    let events = &context.trace().events;
    let moment = |e: EventId| (events.track[e.index()], events.start[e.index()], e);
    let runs = context.consecutive_runs(&calls.concat()).runs;
    let is_dense = |of: &Vec<EventId>| {
        let run = |&call: &EventId| runs.partition_point(|&(first, _)| moment(first) <= moment(call));
        of.len() >= MIN_ITERATIONS * of.iter().map(run).collect::<BTreeSet<usize>>().len()
    };
    calls.into_iter().filter(is_dense).collect()
}

/// Loop: its lines with the calls of each operator.
type Loop = Vec<(SourceLocation, Vec<Vec<EventId>>)>;

/// Merge lines of one function with alternating calls into one loop.
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
        let alternates = |at: &&usize| found[**at].iter().any(|other| alternate(context, &of(other), &own));
        match known.iter().find(alternates) {
            Some(&at) => found[at].push(line),
            None => {
                known.push(found.len());
                found.push(vec![line]);
            }
        }
    }
    found
}

/// Check if calls of two lines alternate, rather than one line ending before the other begins.
fn alternate(context: &RuleContext<'_>, first_calls: &[EventId], second_calls: &[EventId]) -> bool {
    let events = &context.trace().events;
    let moment = |is_other: bool| move |&e: &EventId| (events.track[e.index()], events.start[e.index()], e, is_other);
    let mut all: Vec<_> = first_calls.iter().map(moment(false)).chain(second_calls.iter().map(moment(true))).collect();
    all.sort_unstable();
    let changes = all.windows(2).filter(|pair| pair[0].3 != pair[1].3).count();
    2 * changes >= first_calls.len().min(second_calls.len())
}

/// Key that equal calls of an operator share: recorded stack, or else frames, and name.
fn caller(context: &RuleContext<'_>, operator: EventId) -> Caller {
    let trace = context.trace();
    let around = trace.ancestors(operator).filter(|&e| trace.kind(e) == EventKind::PythonFunction);
    let mut frames = context.stack_frames(operator);
    if frames.is_empty() {
        frames = around.map(|e| trace.events.name[e.index()]).collect();
    }
    (frames, trace.events.name[operator.index()])
}

/// Time of one operator's calls that remains without the loop, in ns: one call per step, and the computation beyond the
/// cost of calls.
fn remaining_ns(context: &RuleContext<'_>, calls: &[EventId]) -> i64 {
    let lengths = context.lengths(calls);
    let usual = lengths[lengths.len() / 4].max(1);
    let beyond: i64 = lengths[..lengths.len() / 2].iter().map(|&ns| (ns - usual).max(0)).sum();
    (usual * context.steps() as i64 + beyond).min(context.total(calls))
}

/// Source location of a loop's most expensive line, and text with the range of its lines.
fn place_of(context: &RuleContext<'_>, lines: &Loop) -> (SourceLocation, String) {
    let ns = |calls: &[Vec<EventId>]| calls.iter().map(|calls| context.total(calls)).sum::<i64>();
    let most = lines.iter().max_by_key(|(place, calls)| (ns(calls), std::cmp::Reverse(place.line)));
    let numbers = || lines.iter().filter_map(|(place, _)| place.line);
    let description = match (numbers().min(), numbers().max()) {
        (Some(first), Some(last)) if first < last => format!(" (lines {first} to {last})"),
        _ => String::new(),
    };
    (most.map(|(place, _)| place.clone()).unwrap_or_default(), description)
}

/// All work that may vanish with a loop: Python between its iterations, before the first and after the last one.
/// Includes operators that gather the results, with their backward, and the release of tensors that autograd kept.
fn enclosing_work(
    context: &RuleContext<'_>,
    calls: &[EventId],
    (removable, runs): (&[EventId], &[(EventId, EventId)]),
) -> Chosen {
    let trace = context.trace();
    let gathers = |e: &EventId| aten::GATHERS.contains(&trace.name(*e));
    let forward = context.consecutive_runs(calls);
    let gathering: Vec<EventId> = forward.neighbors.iter().filter_map(|&(_, after)| after).filter(gathers).collect();
    let mut backward = context.backward_of(calls);
    backward.extend(context.backward_of(&gathering));
    let backward = context.consecutive_runs(&context.outermost(&backward));
    let mut all = Chosen { events: removable.to_vec(), ranges: runs.to_vec(), ..Chosen::default() };
    all.events.extend(gathering);
    let firsts: Vec<EventId> = backward.runs.iter().map(|&(first, _)| first).collect();
    all.between.extend(context.gaps_after_backward(&firsts));
    for runs in [forward, backward] {
        for ((before, after), (first, last)) in runs.neighbors.into_iter().zip(&runs.runs) {
            all.between.extend(before.map(|before| (before, *first)));
            all.between.extend(after.map(|after| (*last, after)));
        }
        all.ranges.extend(runs.runs);
    }
    all
}

/// Candidate for one loop, with its backward; `None` if the share of the time is small.
fn candidate(context: &RuleContext<'_>, lines: Loop) -> Option<Candidate> {
    let (place, which) = place_of(context, &lines);
    let calls: Vec<Vec<EventId>> = lines.into_iter().flat_map(|(_, calls)| calls).collect();
    let mut events: Vec<EventId> = calls.iter().flatten().copied().collect();
    events.sort_unstable();
    let LoopWork { mut removable, mut runs, mut ns } =
        context.work_of_loops(&events, (context.setting("median_us") * 1e3) as i64);
    // Backward operators of the loop vanish too, with the gradient sums between them.
    let backward = context.outermost(&context.backward_of(&events));
    let of_backward = context.consecutive_runs(&backward);
    ns += of_backward.ns;
    removable.extend(&backward);
    runs.extend(&of_backward.runs);
    let share = context.percent(ns);
    if share < context.setting("share") {
        return None;
    }
    let per_step = events.len() / context.steps().max(1);
    let left: i64 = calls.iter().map(|calls| remaining_ns(context, calls)).sum();
    let factor = left as f64 / context.total(&events).max(1) as f64;
    let text = format!("operators of {}", place.text());
    let most =
        context.edit_of(Action::Scale(0.0), text.clone(), enclosing_work(context, &events, (&removable, &runs)))?;
    let chosen = Chosen { events: removable, ranges: runs, ..Chosen::default() };
    let likely = context.edit_of(Action::Scale(factor), text, chosen)?;
    Some(Candidate {
        title: format!(
            "Python loop{which}: {per_step} small operators{}, {:.1} µs each",
            context.words().per_step_suffix(),
            context.total(&events) as f64 / 1e3 / events.len().max(1) as f64
        ),
        facts: vec![
            Fact::count("operators", events.len()),
            Fact::count("backward operators", backward.len()),
            Fact::time("time of the loop's small operators and of work between them per step", context.per_step(ns)),
        ],
        place,
        events,
        kind: None,
        support: Support::Inferred,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::range(vec![likely], vec![vec![most]]),
    })
}
