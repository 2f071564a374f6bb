//! SL024: GPU memory that the driver still allocates in later steps.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, EventKind, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::allocations::is_allocation;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: Rule = Rule {
    code: "SL024",
    name: "allocations-in-steady-state",
    area: Area::Memory,
    about: "the driver allocates or frees GPU memory in steps after the first",
    why: "Driver allocations are slow, so frameworks cache memory. A free (cudaFree, hipFree) also waits until all \
          GPU work ends; this wait is not visible in the program's code. If all steps are alike, such calls indicate \
          that memory is \
         short or fragmented, or that the program empties the cache itself.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate removes driver calls that allocate memory, free it, or retry an allocation, and the waits \
         in these calls (what-if operation `remove`).",
    advice: "Remove torch.cuda.empty_cache() from steps; set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True for \
         varying sizes; reduce the batch size if memory runs short.",
    example: ("for x in loader:\n    step(x)\n    torch.cuda.empty_cache()", "for x in loader:\n    step(x)"),
    cost: "the change costs nothing, except that a smaller batch requires more steps",
    false_positives: "If input sizes still grow in the recorded steps, these allocations stop by themselves after the \
                      largest input. In a trace without steps, the rule cannot distinguish start-up from repeated \
                      work. In such a trace, it reports driver calls only if one source location repeats them until \
                      the end, and if these calls take much of the critical path.",
    source: "common practice",
    needs: &[Requirement::RuntimeCalls],
    settings: &[
        Setting {
            name: "steps",
            default: 50.0,
            range: (0.0, 100.0),
            about: "report only if at least this percentage of the steps after the first has driver calls that \
                allocate or free memory",
        },
        Setting {
            name: "share",
            default: 5.0,
            range: (0.0, 100.0),
            about: "in traces without steps: report only source locations whose driver calls that allocate or free \
                memory take at least this percentage of the critical path",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Least number of repeated calls in a trace without steps, and number of parts of the window that must contain some.
const MIN_REPEATS: usize = 20;
const WINDOW_PARTS: i64 = 4;

/// Candidates for allocation calls of one source location that recur throughout a trace without steps.
fn without_steps(context: &RuleContext<'_>, calls: &[EventId]) -> Vec<Candidate> {
    let (from, to) = context.window();
    let part =
        |&call: &EventId| (context.trace().events.start[call.index()] - from) * WINDOW_PARTS / (to - from).max(1);
    let by_place = context.by_place(calls).into_iter();
    by_place
        .filter_map(|(place, of)| {
            let share = context.percent(context.path_inside(&of).iter().sum());
            let parts: BTreeSet<i64> = of.iter().map(part).collect();
            // A program starts once, so start-up allocations do not occur in all parts.
            let is_steady = of.len() >= MIN_REPEATS && parts.len() as i64 >= WINDOW_PARTS;
            (is_steady && share >= context.setting("share")).then(|| candidate(context, place, of, None))?
        })
        .collect()
}

/// Find driver calls that allocate or free memory in steps after the first, one candidate per source location.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let steps = context.later_steps();
    let all = context.named(&[EventKind::Runtime, EventKind::Driver], is_allocation);
    if context.trace().steps.len() < 2 {
        return without_steps(context, &all);
    }
    let (calls, before): (Vec<EventId>, Vec<EventId>) =
        all.into_iter().partition(|&call| context.step_of(steps, call).is_some());
    let of_steps = context.steps_with(steps, calls.iter().copied());
    let share = 100.0 * of_steps.len() as f64 / steps.len().max(1) as f64;
    if of_steps.is_empty() || share < context.setting("steps") {
        return Vec::new();
    }
    let found_in = (of_steps.len(), steps.len());
    let runs_already = context.trace().steps.first().is_some_and(|step| step.number > 0);
    let early: BTreeMap<SourceLocation, Vec<EventId>> = context.by_place(&before).into_iter().collect();
    let by_place = context.by_place(&calls).into_iter();
    by_place
        .filter_map(|(place, mut of)| {
            let each = of.len().div_ceil(of_steps.len());
            // The first recorded step, if it is not the program's first, allocates for the same reason as the others.
            let first = early.get(&place).filter(|first| runs_already && first.len() <= each);
            of.extend(first.into_iter().flatten());
            of.sort_unstable();
            candidate(context, place, of, Some(found_in))
        })
        .collect()
}

/// Candidate for calls at one source location; `steps`: number of later steps with calls, and of all later steps.
fn candidate(
    context: &RuleContext<'_>,
    place: SourceLocation,
    calls: Vec<EventId>,
    steps: Option<(usize, usize)>,
) -> Option<Candidate> {
    let names = context.by_name(&calls);
    let edit = context.edit(Action::Remove, format!("call:{}", names.first()?.0), &calls)?;
    let counts: Vec<String> = names.iter().map(|(name, of)| format!("{} {name}", of.len())).collect();
    let counts = counts.join(", ");
    let time = context.words().time_per_step(context.per_step(context.total(&calls)));
    Some(Candidate {
        title: match steps {
            Some((with_calls, later)) => {
                format!("Driver allocations in {with_calls} of the {later} steps after the first: {counts}, {time}")
            }
            None => format!("Driver allocations throughout the trace: {counts}, {time}"),
        },
        place,
        facts: vec![
            Fact::count("calls", calls.len()),
            Fact::time(
                "time of driver calls that allocate or free memory per step",
                context.per_step(context.total(&calls)),
            ),
            Fact {
                name: "share of the critical path in allocation calls",
                value: context.percent(context.path_inside(&calls).iter().sum()),
                unit: Unit::Percent,
            },
        ],
        events: calls,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::edits(vec![edit]),
    })
}
