//! SL061: batches that consist largely of padding.

mod batches;
mod operators;

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use batches::{Batch, Remaining};
use operators::{BatchOperators, BatchShapes};
use stackline_model::{EventId, EventKind, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::aten;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL061",
    name: "padding",
    area: Area::Kernels,
    about: "sequences are padded to the longest of their batch, and much of the work is on padding",
    why: "The program discards the results for padding. A batch takes as long as if all of its sequences were as long \
         as the longest.",
    gain_methods: &[GainMethod::Replay, GainMethod::Speculative],
    gain_text: "The inputs of `pad_sequence` show the lengths of the sequences, and so the share of padding in their \
         batches. The rule computes the padding that would remain if the sequences of all recorded steps were sorted \
         by length. The estimate shortens operators (on a GPU, their kernels) on the padded batches accordingly \
         (what-if operation `scale`). The time of attention is assumed to grow with the square of the length. The \
         lower bound assumes that half of the padding is removed, the upper bound that all of it is removed. If \
         sorting leaves more than half of the padding, or all batches are padded to one length, the gain is \
         speculative: it assumes that half of the padding is removed.",
    advice: "Batch sequences of similar length (sort within a few hundred batches, then shuffle the batches), or pack \
         sequences without padding: nested tensors, or attention with sequence lengths.",
    example: (
        "loader = DataLoader(dataset, batch_size=32, shuffle=True, collate_fn=pad)",
        "loader = DataLoader(dataset, batch_sampler=by_length(dataset, 32), collate_fn=pad)",
    ),
    cost: "the change takes a batch sampler, and batches are slightly less random",
    false_positives: "The rule only reports padding by pad_sequence, which records the lengths, not padding by a \
         tokenizer. Traces of torch.profiler have no shapes for batches of more than 30 sequences. Operators count \
         as work on padded batches if the shapes of their inputs begin with the shape of such a batch. Other tensors \
         may have the same shapes by chance. The estimate sorts the same sequences by length and forms batches from \
         them. It does so separately for each call of pad_sequence in a step, such as for inputs and for labels. If \
         too few batches were recorded for sorting, or all are padded to one length, the estimate is speculative: it \
         assumes that half of the padding is removed. Sequences that must keep their order can be packed, but not \
         sorted.",
    source: "common practice",
    needs: &[Requirement::Operators, Requirement::Shapes],
    settings: &[
        Setting {
            name: "padding",
            default: 25.0,
            range: (0.0, 100.0),
            about: "report only if at least this percentage of the batches is padding",
        },
        Setting {
            name: "share",
            default: 10.0,
            range: (0.0, 100.0),
            about: "report only if operators on padded batches take at least this percentage of the critical path",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Find out if batches made by `pad_sequence` consist largely of padding; at most one candidate.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let padded = Padded::find(context);
    candidate(context, &padded).into_iter().collect()
}

/// Calls of `pad_sequence` in the window, with their batches.
#[derive(Default)]
struct Padded {
    calls: Vec<EventId>,
    /// Batches of sequences that can be exchanged: those that the same call makes in each step. Separate calls pad
    /// inputs and labels.
    pools: Vec<Vec<Batch>>,
    shapes: BatchShapes,
}

impl Padded {
    /// Find the calls of `pad_sequence` in the window, and group their batches into pools of exchangeable sequences.
    fn find(context: &RuleContext<'_>) -> Self {
        let trace = context.trace();
        let mut padded = Self::default();
        let mut pools: BTreeMap<_, Vec<Batch>> = BTreeMap::new();
        // Number of calls of a source location within one step span.
        let mut calls_so_far: BTreeMap<_, usize> = BTreeMap::new();
        for call in context.named(&[EventKind::Operator], |name| name == aten::PAD_SEQUENCE) {
            let Some(batch) = context.json("Input Dims", call).and_then(|dims| Batch::from_inputs(&dims)) else {
                continue;
            };
            let (step, place) = (context.step_of(&trace.steps, call), context.places().key(call));
            let around = trace.events.parent[call.index()].some();
            // For calls outside of any span, the calls of one batch are unknown.
            let alone = (step.is_none() && around.is_none()).then_some(call);
            let so_far = calls_so_far.entry((place, step, around, alone)).or_default();
            pools.entry((place, *so_far, alone)).or_default().push(batch.clone());
            *so_far += 1;
            padded.shapes.add(step, &batch);
            padded.calls.push(call);
        }
        padded.pools = pools.into_values().collect();
        padded
    }
}

/// Candidate for all padded batches; `None` without any, or if padding or its work is small.
fn candidate(context: &RuleContext<'_>, padded: &Padded) -> Option<Candidate> {
    let first = *padded.calls.first()?;
    let Remaining { sorted, unpadded } = Remaining::after(&padded.pools);
    let padding = 1.0 - unpadded.linear;
    if 100.0 * padding < context.setting("padding") {
        return None;
    }
    let operators = BatchOperators::find(context, &padded.shapes);
    let work = operators.scalable(context);
    let ns: i64 = match context.uses_gpu() {
        true => work.all().iter().filter_map(|work| context.on_path().get(work)).sum(),
        false => context.path_inside(&work.all()).iter().sum(),
    };
    let share = context.percent(ns);
    if share < context.setting("share") {
        return None;
    }
    let half = unpadded.half_way();
    let edits = |part| work.edits(context, part);
    // Few batches hold few sequences of similar length. Batches that are all of one length may never have been padded.
    let gain_estimate = match sorted.linear <= half.linear && padded.shapes.has_several_lengths() {
        true => GainEstimate::range(edits(sorted)?, vec![edits(half)?, edits(unpadded)?]),
        false => GainEstimate::speculative_range(edits(half)?, edits(unpadded)?),
    };
    let percent = |name, part: f64| Fact { name, value: 100.0 * part, unit: Unit::Percent };
    Some(Candidate {
        title: format!(
            "Padding: {:.0} % of pad_sequence's output; work on this output is {share:.0} % of the critical path",
            100.0 * padding
        ),
        place: context.place(first),
        facts: vec![
            Fact::count("batches", padded.calls.len()),
            percent("padding", padding),
            percent("padding that remains if sequences are sorted by length", 1.0 - unpadded.linear / sorted.linear),
            Fact::count("operators on padded batches", operators.all().len()),
            Fact::time("time of operators on padded batches per step", context.per_step(context.total(&work.all()))),
        ],
        gain_estimate,
        events: padded.calls.clone(),
        kind: None,
        support: Support::Inferred,
        confidence: Confidence::Medium,
    })
}
