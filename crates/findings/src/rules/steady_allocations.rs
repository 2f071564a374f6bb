//! SL024: memory of the GPU is still allocated from the driver in later steps.

use crate::{Area, Candidate, Fact, GainEstimate, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, EventKind, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: Rule = Rule {
    code: "SL024",
    name: "allocations-in-steady-state",
    area: Area::Memory,
    about: "the driver is asked for memory of the GPU, or gets it back, in steps after the first",
    why: "Frameworks keep memory for reuse; asking the driver takes long, and giving back (cudaFree, hipFree) waits until all work of the \
          GPU is done: a synchronization that no line of the program shows. In steps that are all alike it means that memory is short, \
          or in pieces, or given back by hand.",
    advice: "No torch.cuda.empty_cache() in steps; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True for sizes that change; \
             a smaller batch if memory runs short.",
    example: ("for x in loader:\n    step(x)\n    torch.cuda.empty_cache()", "for x in loader:\n    step(x)"),
    cost: "none; with a smaller batch, more steps",
    false_positives: "The inputs still grow, and the calls end once the largest was seen. In traces without steps nobody knows what is done \
                 once: there calls count that one place makes again and again, until the end, and that take much of the critical path.",
    source: "field practice",
    needs: &[Requirement::RuntimeCalls],
    settings: &[
        Setting {
            name: "steps",
            default: 50.0,
            range: (0.0, 100.0),
            about: "least part of the steps after the first that ask for memory, in percent",
        },
        Setting {
            name: "share",
            default: 5.0,
            range: (0.0, 100.0),
            about: "least part of the critical path that calls of one place take in a trace without steps, in percent",
        },
    ],
    advice_variants: &[],
    check,
};

/// Calls that allocate and give back.
const CALLS: &[&str] = &[
    "cudaMalloc",
    "cudaFree",
    "cudaMallocHost",
    "cudaHostAlloc",
    "cudaFreeHost",
    "cudaMallocManaged",
    "cuMemAlloc",
    "cuMemFree",
    "cuMemCreate",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemRelease",
    "hipMalloc",
    "hipFree",
    "hipHostMalloc",
    "hipHostFree",
    "hipExtMallocWithFlags",
];

/// Calls of one place that are made again and again, in a trace without steps: so many, and so many parts of the window have some.
const AGAIN: usize = 20;
const PARTS: i64 = 4;

/// What one place asks for all the time.
fn without_steps(context: &RuleContext<'_>, calls: &[EventId]) -> Vec<Candidate> {
    let (from, to) = context.window();
    let part = |&call: &EventId| (context.trace().events.start[call.index()] - from) * PARTS / (to - from).max(1);
    let by_place = context.by_place(calls).into_iter();
    by_place
        .filter_map(|(place, of)| {
            let share = context.percent(context.path_inside(&of).iter().sum());
            let parts: BTreeSet<i64> = of.iter().map(part).collect();
            // A program begins once: what it asks for then is not asked for in all parts.
            let is_steady = of.len() >= AGAIN && parts.len() as i64 >= PARTS;
            (is_steady && share >= context.setting("share"))
                .then(|| candidate(context, place, of, "again and again"))?
        })
        .collect()
}

fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let is_call = |name: &str| CALLS.contains(&name.strip_suffix("_v2").unwrap_or(name));
    let steps = context.later_steps();
    let all = context.named(&[EventKind::Runtime, EventKind::Driver], is_call);
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
    let found = format!("in {} of the {} steps after the first", of_steps.len(), steps.len());
    let runs_already = context.trace().steps.first().is_some_and(|step| step.number > 0);
    let early: BTreeMap<SourceLocation, Vec<EventId>> = context.by_place(&before).into_iter().collect();
    let by_place = context.by_place(&calls).into_iter();
    by_place
        .filter_map(|(place, mut of)| {
            let each = of.len().div_ceil(of_steps.len());
            // The first step of the trace, if it is not the first of the program, allocates for the same reason as the others.
            let first = early.get(&place).filter(|first| runs_already && first.len() <= each);
            of.extend(first.into_iter().flatten());
            of.sort_unstable();
            candidate(context, place, of, &found)
        })
        .collect()
}

fn candidate(context: &RuleContext<'_>, place: SourceLocation, calls: Vec<EventId>, found: &str) -> Option<Candidate> {
    let names = context.by_name(&calls);
    let edit = context.edit(Action::Remove, format!("call:{}", names.first()?.0), &calls)?;
    let what: Vec<String> = names.iter().map(|(name, of)| format!("{} {name}", of.len())).collect();
    Some(Candidate {
        title: format!("memory is asked of the driver {found}: {}", what.join(", ")),
        place,
        facts: vec![
            Fact::count("calls", calls.len()),
            Fact::time("in them, a step", context.per_step(context.total(&calls))),
            Fact {
                name: "part of the critical path",
                value: context.percent(context.path_inside(&calls).iter().sum()),
                unit: Unit::Percent,
            },
        ],
        events: calls,
        support: Support::Exact,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::Edits(vec![edit]),
    })
}
