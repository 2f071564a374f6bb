//! SL061: much of what batches hold is padding.

mod batches;
mod operators;

use crate::{Area, Candidate, Fact, GainEstimate, Requirement, Rule, RuleContext, Setting, Support};
use batches::{Batch, Remaining};
use operators::{BatchShapes, OnBatches};
use stackline_model::{EventId, EventKind, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::aten;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL061",
    name: "padding",
    area: Area::Kernels,
    about: "sequences of different lengths are padded to the longest of their batch, and much of the work is on padding",
    why: "Results of padding are thrown away: a batch takes as long as if all of its sequences were as long as the longest.",
    advice: "Put sequences of about one length into a batch (sort them within a few hundred batches, then shuffle the batches), or pack \
             them one behind the other: nested tensors, or attention that takes their lengths.",
    example: (
        "loader = DataLoader(dataset, batch_size=32, shuffle=True, collate_fn=pad)",
        "loader = DataLoader(dataset, batch_sampler=by_length(dataset, 32), collate_fn=pad)",
    ),
    cost: "a sampler; batches are a little less random",
    false_positives: "Only pad_sequence tells the lengths: what a tokenizer pads is not seen, nor, in traces of torch.profiler, batches of more \
                 than 30 sequences, of which it writes no shapes. Work counts by the shapes of its inputs, which must begin with those of a \
                 padded batch: other tensors may have the same. The gain is that of batches of the same sequences, sorted by length, each \
                 column of a batch by itself; where too few batches were recorded for that, or all are padded to one length, half of the padding, as a hope. Sequences that \
                 must stay in their order cannot be sorted, but packed.",
    source: "field practice",
    needs: &[Requirement::Operators, Requirement::Shapes],
    settings: &[
        Setting {
            name: "padding",
            default: 25.0,
            range: (0.0, 100.0),
            about: "least part of padding in the batches, in percent",
        },
        Setting {
            name: "share",
            default: 10.0,
            range: (0.0, 100.0),
            about: "least part of the critical path in work on them, in percent",
        },
    ],
    advice_variants: &[],
    check,
};

fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let padded = Padded::find(context);
    candidate(context, &padded).into_iter().collect()
}

/// Calls that pad.
#[derive(Default)]
struct Padded {
    calls: Vec<EventId>,
    /// Batches that could be made of each other's sequences: those that the same call makes in each step. Inputs and labels are padded
    /// by calls of their own.
    pools: Vec<Vec<Batch>>,
    shapes: BatchShapes,
}

impl Padded {
    fn find(context: &RuleContext<'_>) -> Self {
        let trace = context.trace();
        let mut padded = Self::default();
        let mut pools: BTreeMap<_, Vec<Batch>> = BTreeMap::new();
        // How many calls of a place there were within one span of a step.
        let mut calls_so_far: BTreeMap<_, usize> = BTreeMap::new();
        for call in context.named(&[EventKind::Operator], |name| name == aten::PAD_SEQUENCE) {
            let Some(batch) = context.json("Input Dims", call).and_then(|dims| Batch::from_inputs(&dims)) else {
                continue;
            };
            let (step, place) = (context.step_of(&trace.steps, call), context.places().key(call));
            let around = trace.events.parent[call.index()].some();
            // Of calls that nothing encloses it is not known which are of one batch.
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

fn candidate(context: &RuleContext<'_>, padded: &Padded) -> Option<Candidate> {
    let first = *padded.calls.first()?;
    let Remaining { sorted, unpadded } = Remaining::after(&padded.pools);
    let padding = 1.0 - unpadded.linear;
    if 100.0 * padding < context.setting("padding") {
        return None;
    }
    let operators = OnBatches::find(context, &padded.shapes);
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
    // Few batches hold few sequences of about one length. Where all are padded to the same length, so may be what was never padded.
    let gain_estimate = match sorted.linear <= half.linear && padded.shapes.has_several_lengths() {
        true => GainEstimate::Range(edits(sorted)?, vec![edits(half)?, edits(unpadded)?]),
        false => GainEstimate::SpeculativeRange(edits(half)?, edits(unpadded)?),
    };
    let percent = |name, part: f64| Fact { name, value: 100.0 * part, unit: Unit::Percent };
    Some(Candidate {
        title: format!(
            "{:.0} % of what pad_sequence makes is padding; work on such batches is {share:.0} % of the critical path",
            100.0 * padding
        ),
        place: context.place(first),
        facts: vec![
            Fact::count("batches", padded.calls.len()),
            percent("padding", padding),
            percent("padding, sorted by length", 1.0 - unpadded.linear / sorted.linear),
            Fact::count("operators on them", operators.all().len()),
            Fact::time("work on them, a step", context.per_step(context.total(&work.all()))),
        ],
        gain_estimate,
        events: padded.calls.clone(),
        support: Support::Inferred,
        confidence: Confidence::Medium,
    })
}
