//! SL022: gradient reductions in every backward pass of a step with gradient accumulation.

use crate::collectives::Collective;
use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, EventKind, StrId};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::autograd::is_accumulation;
use stackline_timeline::vocabulary::python::{DATA_PARALLEL_FORWARD, OPTIMIZER_STEP};

pub(super) const RULE: Rule = Rule {
    code: "SL022",
    name: "needless-gradient-sync",
    area: Area::Communication,
    about: "with gradient accumulation, each backward pass reduces gradients, although only the last one needs to",
    why: "DistributedDataParallel reduces all gradients in each backward pass. With gradient accumulation, only the \
         last pass before the optimizer step needs the reduction. The earlier communication is wasted.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "Between two optimizer steps, the estimate removes the AllReduces of all backward passes except the \
         last, and the operators that call them (what-if operation `remove`). The rule requires that all backward \
         passes between the two steps reduce the same tensors.",
    advice: "Run the forward and backward passes under model.no_sync(), except for the last one before the optimizer \
         step.",
    example: (
        "for batch in batches:\n    loss(model(batch)).backward()\noptimizer.step()",
        "*first, last = batches\nwith model.no_sync():\n    for batch in first:\n        loss(model(batch)).backward()\n\
         loss(model(last)).backward()\noptimizer.step()",
    ),
    cost: "the change takes a few lines; gradients differ between ranks until the last pass, so do not read them \
         earlier",
    false_positives: "The reduction is needed if the program reads gradients between the passes, such as their norm \
         for clipping. The finding is wrong if several models with equal shapes, such as two critics, all run backward \
         before the first optimizer step. Their passes look like several passes of one model.",
    source: "common practice; PyTorch's DistributedDataParallel.no_sync",
    needs: &[Requirement::GpuWork, Requirement::Collectives, Requirement::Operators],
    settings: &[],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Gradient reduction with its launch time in ns.
type Reduce = (i64, Collective);

/// Find gradient reductions in all accumulated backward passes before an optimizer step; at most one candidate.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    let start = |event: EventId| trace.events.start[event.index()];
    let starts = |named: fn(&str) -> bool| {
        let spans = context.named(&[EventKind::Annotation], named);
        let mut starts: Vec<i64> = context.outermost(&spans).into_iter().map(start).collect();
        starts.sort_unstable();
        starts
    };
    let passes = starts(|name| name == DATA_PARALLEL_FORWARD);
    let updates = starts(|name| name.starts_with(OPTIMIZER_STEP));
    if passes.len() < 2 || updates.is_empty() {
        return Vec::new();
    }
    let of_gradients =
        |c: &Collective| c.family == "all_reduce" && context.stack(c.event).any(|e| is_accumulation(trace.name(e)));
    let launched = |c: Collective| (context.stack(c.event).next().map_or(0, start), c);
    let mut reduces: Vec<Reduce> = context.collectives().into_iter().filter(of_gradients).map(launched).collect();
    reduces.sort_by_key(|&(at, reduce)| (at, reduce.event));
    let (mut rounds, mut needless) = (Vec::new(), Vec::new());
    let mut from = i64::MIN;
    for update in updates {
        let passes = between(&passes, from, update, |&at| at);
        if let Some(found) = needless_reductions(context, passes, between(&reduces, from, update, |&(at, _)| at)) {
            rounds.push(passes.len());
            needless.extend(found);
        }
        from = update;
    }
    candidate(context, &rounds, needless).into_iter().collect()
}

/// Entries of a time-ordered list from `from` to before `to`; `at` returns the time of an entry.
fn between<T>(list: &[T], from: i64, to: i64, at: impl Fn(&T) -> i64) -> &[T] {
    let first = list.partition_point(|one| at(one) < from);
    let last = list.partition_point(|one| at(one) < to);
    &list[first..last.max(first)]
}

/// Reductions of all passes but the last, if every pass reduces the same gradients; otherwise none.
fn needless_reductions(context: &RuleContext<'_>, passes: &[i64], reduces: &[Reduce]) -> Option<Vec<EventId>> {
    let (&last, before) = passes.split_last().filter(|(_, before)| !before.is_empty())?;
    let name = |c: &Collective| context.trace().events.name[c.event.index()];
    let what = |reduces: &[Reduce]| {
        let mut what: Vec<(StrId, Option<i64>)> = reduces.iter().map(|(_, c)| (name(c), c.elements)).collect();
        what.sort_unstable();
        what
    };
    let kept = what(between(reduces, last, i64::MAX, |&(at, _)| at));
    let of_pass = |(i, &from): (usize, &i64)| between(reduces, from, passes[i + 1], |&(at, _)| at);
    let each: Vec<&[Reduce]> = before.iter().enumerate().map(of_pass).collect();
    let is_same = !kept.is_empty() && each.iter().all(|of| what(of) == kept);
    is_same.then(|| each.into_iter().flatten().map(|(_, reduce)| reduce.event).collect())
}

/// Candidate for the needless reductions, with the number of passes of each optimizer step; `None` without any.
fn candidate(context: &RuleContext<'_>, rounds: &[usize], needless: Vec<EventId>) -> Option<Candidate> {
    let trace = context.trace();
    let is_request = |e: &EventId| trace.kind(*e) == EventKind::Operator && trace.name(*e).contains("allreduce");
    let requests = needless.iter().filter_map(|&event| context.stack(event).filter(is_request).last());
    let mut removable: Vec<EventId> = requests.chain(needless.iter().copied()).collect();
    removable.sort_unstable();
    removable.dedup();
    let edit =
        context.edit(Action::Remove, "collective:AllReduces of all backward passes except the last", &removable)?;
    let most = rounds.iter().max()?;
    let (place, _) = context.by_place(&needless).into_iter().max_by_key(|(_, of)| context.total(of))?;
    Some(Candidate {
        title: format!(
            "Gradient reduction in each of {most} accumulated backward passes, although only the last needs it: {}",
            context.words().time_per_step(context.per_step(context.total(&needless)))
        ),
        place,
        facts: vec![
            Fact::count("optimizer steps", rounds.len()),
            Fact::count("redundant AllReduces", needless.len()),
            Fact::time("time of redundant AllReduces per step", context.per_step(context.total(&needless))),
        ],
        events: needless,
        kind: None,
        support: Support::Inferred,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::edits(vec![edit]),
    })
}
