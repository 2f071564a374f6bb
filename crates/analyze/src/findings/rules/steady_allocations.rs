//! SL024: memory of the GPU is still allocated from the driver in later steps.

use crate::critical_path::exact::what_if::Action;
use crate::findings::{Area, Confidence, Draft, Fact, Need, Place, Rule, Setting, Subject, Support, Worth};
use stackline_model::{EventId, EventKind, Unit};
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
    wrong_when: "The inputs still grow, and the calls end once the largest was seen. In traces without steps nobody knows what is done \
                 once: there calls count that one place makes again and again, until the end, and that take much of the critical path.",
    source: "field practice",
    needs: &[Need::RuntimeCalls],
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
    elsewhere: &[],
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
fn without_steps(subject: &Subject<'_>, calls: &[EventId]) -> Vec<Draft> {
    let (from, to) = subject.window();
    let part = |&call: &EventId| (subject.trace().events.start[call.index()] - from) * PARTS / (to - from).max(1);
    let by_place = subject.by_place(calls).into_iter();
    by_place
        .filter_map(|(place, of)| {
            let share = subject.percent(subject.path_inside(&of).iter().sum());
            let parts: BTreeSet<i64> = of.iter().map(part).collect();
            // A program begins once: what it asks for then is not asked for in all parts.
            let is_steady = of.len() >= AGAIN && parts.len() as i64 >= PARTS;
            (is_steady && share >= subject.setting("share")).then(|| draft(subject, place, of, "again and again"))?
        })
        .collect()
}

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    let is_call = |name: &str| CALLS.contains(&name.strip_suffix("_v2").unwrap_or(name));
    let steps = subject.later_steps();
    let all = subject.named(&[EventKind::Runtime, EventKind::Driver], is_call);
    if subject.trace().steps.len() < 2 {
        return without_steps(subject, &all);
    }
    let (calls, before): (Vec<EventId>, Vec<EventId>) =
        all.into_iter().partition(|&call| subject.step_of(steps, call).is_some());
    let of_steps = subject.steps_with(steps, calls.iter().copied());
    let share = 100.0 * of_steps.len() as f64 / steps.len().max(1) as f64;
    if of_steps.is_empty() || share < subject.setting("steps") {
        return Vec::new();
    }
    let found = format!("in {} of the {} steps after the first", of_steps.len(), steps.len());
    let runs_already = subject.trace().steps.first().is_some_and(|step| step.number > 0);
    let early: BTreeMap<Place, Vec<EventId>> = subject.by_place(&before).into_iter().collect();
    let by_place = subject.by_place(&calls).into_iter();
    by_place
        .filter_map(|(place, mut of)| {
            let each = of.len().div_ceil(of_steps.len());
            // The first step of the trace, if it is not the first of the program, allocates for the same reason as the others.
            let first = early.get(&place).filter(|first| runs_already && first.len() <= each);
            of.extend(first.into_iter().flatten());
            of.sort_unstable();
            draft(subject, place, of, &found)
        })
        .collect()
}

fn draft(subject: &Subject<'_>, place: Place, calls: Vec<EventId>, found: &str) -> Option<Draft> {
    let names = subject.by_name(&calls);
    let edit = subject.edit(Action::Remove, format!("call:{}", names.first()?.0), &calls)?;
    let what: Vec<String> = names.iter().map(|(name, of)| format!("{} {name}", of.len())).collect();
    Some(Draft {
        title: format!("memory is asked of the driver {found}: {}", what.join(", ")),
        place,
        facts: vec![
            Fact::count("calls", calls.len()),
            Fact::time("in them, a step", subject.per_step(subject.total(&calls))),
            Fact {
                name: "part of the critical path",
                value: subject.percent(subject.path_inside(&calls).iter().sum()),
                unit: Unit::Percent,
            },
        ],
        events: calls,
        support: Support::Exact,
        confidence: Confidence::Medium,
        worth: Worth::Edits(vec![edit]),
    })
}
