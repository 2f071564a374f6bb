//! SL026: `torch.compile` that still compiles in later steps.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Rule, RuleContext, Support};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::format::duration;
use stackline_model::names::{is_compilation, is_recompilation};
use stackline_model::{EventId, Trace};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;

pub(crate) const RULE: Rule = Rule {
    code: "SL026",
    name: "recompilation-in-steady-state",
    area: Area::Host,
    about: "torch.compile compiles again in steps after the first",
    why: "A compilation takes as long as many steps. Compilation repeats for each new shape or value that the compiled \
         code does not support.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate removes compilation in steps after the first (what-if operation `remove`). If one \
         compilation span contains others, only the outer one counts. A trace with one marked step counts as a trace \
         without steps, because no step comes after the first. In such a trace, the estimate removes all compilations \
         of a function except its first, which is known from PyTorch's compile ids. A note reports the time of first \
         compilations and of compilations without an id.",
    advice: "Find the reason with TORCH_LOGS=recompiles. Use torch.compile(dynamic=True) or mark_dynamic for varying \
         sizes, or pad inputs to a few sizes. Avoid Python numbers that change in compiled code.",
    example: ("model = torch.compile(model)", "model = torch.compile(model, dynamic=True)"),
    cost: "the change takes one argument; code compiled for any size can be slightly slower than code compiled for \
         one size",
    false_positives: "The estimated gain is too high if the recording covers only the start of the program. Later \
                      steps may have no new input shapes, and so no recompilation.",
    source: "common practice",
    needs: &[],
    settings: &[],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Key of a compilation's id in annotations of PyTorch's compiler, such as `dynamo_data: compile_id=0/1`.
const COMPILE_ID: &str = "compile_id=";

/// Least share of first compilations in the critical path that a note reports, in percent.
const MIN_NOTED_PERCENT: f64 = 5.0;

/// Find compilations by torch.compile after the first step, one candidate per source location.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let (trace, compilations) = (context.trace(), context.compilations());
    let is_counted = |&event: &EventId| compilations.is_span(trace, event) && context.is_in_window(event);
    let mut spans: Vec<EventId> = trace.events.ids().filter(is_counted).collect();
    // One step alone may be the first: no step comes after it.
    if trace.steps.len() < 2 {
        return without_steps(context, &context.outermost(&spans));
    }
    let steps = context.later_steps();
    spans.retain(|&span| context.step_of(steps, span).is_some());
    let of_place = |(place, of): (SourceLocation, Vec<EventId>)| {
        let of_steps = context.steps_with(steps, of.iter().copied());
        let title = format!(
            "Recompilation: torch.compile compiles in {} of the {} steps after the first, {} each time",
            of_steps.len(),
            steps.len(),
            duration(context.total(&of) / of.len().max(1) as i64)
        );
        candidate(context, place, of, (title, Confidence::High))
    };
    context.by_place(&context.outermost(&spans)).into_iter().filter_map(of_place).collect()
}

/// Candidate for removing the compilations at one source location.
fn candidate(
    context: &RuleContext<'_>,
    mut place: SourceLocation,
    spans: Vec<EventId>,
    (title, confidence): (String, Confidence),
) -> Option<Candidate> {
    // Operators within a compilation do not name the compiled function.
    place.operator = None;
    let edit = context.edit(Action::Remove, format!("operator:{}", context.trace().name(spans[0])), &spans)?;
    Some(Candidate {
        title,
        place,
        facts: vec![
            Fact::count("compilations", spans.len()),
            Fact::time("compilation time per step", context.per_step(context.total(&spans))),
        ],
        events: spans,
        kind: None,
        support: Support::Exact,
        confidence,
        gain_estimate: GainEstimate::edits(vec![edit]),
    })
}

/// Title of repeated compilations whose steps are unknown, with their mean duration.
pub(crate) fn title_of_repeats(compilations: u64, each: &str) -> String {
    match compilations {
        1 => format!("Recompilation: torch.compile compiles again once, {each}"),
        times => format!("Recompilation: torch.compile compiles again {times} times, {each} each"),
    }
}

/// Candidates for repeated compilations of a function in a trace with fewer than two steps, and a note on all others.
fn without_steps(context: &RuleContext<'_>, spans: &[EventId]) -> Vec<Candidate> {
    let repeats = repeats(context.trace(), spans);
    let is_repeat = |span: &EventId| repeats.get(span).copied().unwrap_or(false);
    let (again, first): (Vec<EventId>, Vec<EventId>) = spans.iter().copied().partition(is_repeat);
    let of_place = |(place, of): (SourceLocation, Vec<EventId>)| {
        let each = duration(context.total(&of) / of.len().max(1) as i64);
        let title = title_of_repeats(of.len() as u64, &each);
        candidate(context, place, of, (title, Confidence::Medium))
    };
    let found = context.by_place(&again).into_iter().filter_map(of_place);
    let are_known = first.iter().all(|span| repeats.contains_key(span));
    found.chain(note(context, first, are_known)).collect()
}

/// Note for the report on the time of compilations; `None` if their share of the critical path is small. `are_first`:
/// they are known to be the first ones of their functions.
fn note(context: &RuleContext<'_>, spans: Vec<EventId>, are_first: bool) -> Option<Candidate> {
    let share = context.percent(context.path_inside(&spans).iter().sum());
    (share >= MIN_NOTED_PERCENT).then(|| Candidate {
        title: if are_first {
            format!("First compilations by torch.compile take {share:.0} % of the critical path")
        } else {
            format!("Compilation by torch.compile takes {share:.0} % of the critical path")
        },
        place: SourceLocation::default(),
        events: spans,
        facts: Vec::new(),
        kind: None,
        support: Support::Exact,
        confidence: Confidence::High,
        gain_estimate: GainEstimate::Insignificant(if context.trace().steps.is_empty() {
            "these compilations may belong to the start of the program. To exclude the start, mark steps, or start \
             the recording after the first iterations"
        } else {
            "these compilations may belong to the start of the program, because the only marked step may be its \
             first. Record at least two steps, or start the recording after the first iterations"
        }),
    })
}

/// Test, for each compilation with a known compile id, if its function was compiled before. The first id in the span
/// counts.
fn repeats(trace: &Trace, spans: &[EventId]) -> FxHashMap<EventId, bool> {
    let ids: Vec<Option<bool>> = trace.strings.iter().map(is_repeat).collect();
    let spans: FxHashSet<EventId> = spans.iter().copied().collect();
    let mut found: FxHashMap<EventId, (i64, bool)> = FxHashMap::default();
    for event in trace.events.ids() {
        let name = trace.events.name[event.index()];
        let Some(is_repeat) = ids.get(name.index()).copied().flatten() else { continue };
        let mut around = std::iter::once(event).chain(trace.ancestors(event));
        let Some(span) = around.find(|e| spans.contains(e)) else { continue };
        let seen = (trace.events.start[event.index()], is_repeat);
        found.entry(span).and_modify(|first| *first = seen.min(*first)).or_insert(seen);
    }
    found.into_iter().map(|(span, (_, is_repeat))| (span, is_repeat)).collect()
}

/// Check if a name has the compile id of a repeated compilation; none without an id. An id has the numbers of the
/// function and of its earlier compilations, with that of a graph of compiled autograd before them.
fn is_repeat(name: &str) -> Option<bool> {
    if is_compilation(name) {
        let is_known = name.split(':').next().is_some_and(|number| number.contains('/'));
        return is_known.then(|| is_recompilation(name));
    }
    let (_, id) = name.split_once(COMPILE_ID)?;
    let id = id.strip_prefix('!').map_or(Some(id), |rest| rest.split_once('/').map(|(_, id)| id))?;
    let (_, earlier) = id.split_once('/')?;
    let digits = earlier.split(|c: char| !c.is_ascii_digit()).next()?;
    Some(digits.parse::<u32>().is_ok_and(|earlier| earlier > 0))
}

#[cfg(test)]
mod tests {
    use super::is_repeat;

    #[test]
    fn compile_ids_number_the_compilations_of_a_function() {
        for name in [
            "dynamo_data: compile_id=0/1",
            "entire_frame_compile_data: fn_name=_compile.compile_inner, compile_id=12/3_1",
            "x_data: compile_id=!1/0/2",
            "Recompile 0/1: f (m.py:3)",
        ] {
            assert_eq!(is_repeat(name), Some(true), "{name}");
        }
        for name in ["dynamo_data: compile_id=3/0", "x_data: compile_id=!1/0/0", "Compile 0/0: f (m.py:3)"] {
            assert_eq!(is_repeat(name), Some(false), "{name}");
        }
        for name in ["entire_frame_compile", "Compile ?: f (m.py:3)", "x_data: compile_id=None", "compile_id"] {
            assert_eq!(is_repeat(name), None, "{name}");
        }
    }
}
