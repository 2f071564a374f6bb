//! SL061: much of what batches hold is padding.

use crate::critical_path::exact::what_if::Action;
use crate::findings::{Area, Confidence, Draft, Fact, Need, Rule, Setting, Subject, Support, Worth};
use crate::vocabulary::aten;
use serde_json::Value;
use stackline_model::{EventId, EventKind, Unit};
use std::collections::{BTreeMap, BTreeSet};

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
    wrong_when: "Only pad_sequence tells the lengths: what a tokenizer pads is not seen. Work counts by the shapes of its inputs, which \
                 must begin with those of a padded batch: other tensors may have the same. How much less padding can be had depends on \
                 the data; the gain is that of half of it, and at most that of all.",
    source: "field practice",
    needs: &[Need::Operators, Need::Shapes],
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
    elsewhere: &[],
    check,
};

/// Sequences of a batch, and the length of the longest.
type Shape = (i64, i64);

/// In smaller batches other tensors have the same shapes by chance.
const LEAST_ELEMENTS: i64 = 64;

/// What batches of one shape hold, in elements of their sequences.
#[derive(Clone, Copy, Default)]
struct Batches {
    used: i64,
    all: i64,
}

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    let steps = &subject.trace().steps;
    let mut padded: Vec<EventId> = Vec::new();
    // Another batch, another shape: those of other steps say nothing of an operator.
    let mut by_step: BTreeMap<Option<usize>, Shapes> = BTreeMap::new();
    for call in subject.named(&[EventKind::Operator], |name| name == aten::PAD_SEQUENCE) {
        if let Some((shape, used)) = subject.json("Input Dims", call).and_then(|dims| batch(&dims)) {
            by_step.entry(subject.step_of(steps, call)).or_default().add(shape, used);
            padded.push(call);
        }
    }
    draft(subject, padded, &by_step).into_iter().collect()
}

/// The shape of a padded batch, and the lengths of its sequences together.
fn batch(dims: &Value) -> Option<(Shape, i64)> {
    let length = |shape: &Value| shape.get(0)?.as_i64().filter(|length| (0..1 << 31).contains(length));
    let lengths: Vec<i64> = dims.get(0)?.as_array()?.iter().map(length).collect::<Option<_>>()?;
    let (count, longest) = (i64::try_from(lengths.len()).ok()?, *lengths.iter().max()?);
    let all = count.checked_mul(longest)?;
    (count > 1 && all >= LEAST_ELEMENTS).then_some(((count, longest), lengths.iter().sum()))
}

/// Shapes of padded batches.
#[derive(Default)]
struct Shapes {
    batches: BTreeMap<Shape, Batches>,
    /// Elements of each.
    sizes: BTreeSet<i64>,
    /// Sequences of those with each length.
    counts: BTreeMap<i64, BTreeSet<i64>>,
}

impl Shapes {
    fn add(&mut self, shape: Shape, used: i64) {
        let all = shape.0 * shape.1;
        let batches = self.batches.entry(shape).or_default();
        batches.used = batches.used.saturating_add(used);
        batches.all = batches.all.saturating_add(all);
        self.sizes.insert(all);
        self.counts.entry(shape.1).or_default().insert(shape.0);
    }

    /// Whether one of an operator's inputs begins as a padded batch does: `[batch, length, …]`, `[length, batch, …]`, both as one
    /// dimension, or with heads of attention `[batch, heads, length, …]`, `[batch × heads, length, …]`.
    fn are_of(&self, dims: &Value) -> bool {
        let has = |shape: Shape| self.batches.contains_key(&shape);
        let has_heads = |all: i64, length: i64| {
            all > 0 && self.counts.get(&length).is_some_and(|counts| counts.iter().any(|count| all % count == 0))
        };
        let begins = |shape: &Value| {
            let sizes: Vec<i64> = shape.as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
            match sizes[..] {
                [a, b] => b > 1 && self.sizes.contains(&a),
                [a, b, c] => has((a, b)) || has((b, a)) || c > 1 && has_heads(a, b),
                [a, b, c, ..] => has((a, b)) || has((b, a)) || has((a, c)),
                _ => false,
            }
        };
        dims.as_array().is_some_and(|inputs| inputs.iter().any(begins))
    }
}

fn draft(subject: &Subject<'_>, calls: Vec<EventId>, by_step: &BTreeMap<Option<usize>, Shapes>) -> Option<Draft> {
    let batches = || by_step.values().flat_map(|shapes| shapes.batches.values());
    let sum = |of: fn(&Batches) -> i64| batches().map(of).fold(0, i64::saturating_add) as f64;
    let padding = 1.0 - sum(|batches| batches.used) / sum(|batches| batches.all).max(1.0);
    if calls.is_empty() || 100.0 * padding < subject.setting("padding") {
        return None;
    }
    let mut operators = subject.operators();
    operators.retain(|&operator| {
        let shapes = by_step.get(&subject.step_of(&subject.trace().steps, operator));
        shapes.is_some_and(|shapes| subject.json("Input Dims", operator).is_some_and(|dims| shapes.are_of(&dims)))
    });
    let operators = subject.outermost(&operators);
    let kernels: Vec<EventId> = operators.iter().flat_map(|&operator| subject.launched_in(operator)).collect();
    let path = subject.on_path();
    let on_gpu: i64 = kernels.iter().filter_map(|work| path.get(work)).sum();
    let on_host: i64 = subject.path_inside(&operators).iter().sum();
    // On a GPU the host's time does not depend on sizes.
    let (work, ns) = if subject.uses_gpu() { (kernels, on_gpu) } else { (operators.clone(), on_host) };
    let share = subject.percent(ns);
    if share < subject.setting("share") {
        return None;
    }
    let scaled = |left: f64| subject.edit(Action::Scale(left), "work on padded batches", &work);
    Some(Draft {
        title: format!(
            "{:.0} % of what pad_sequence makes is padding; work on such batches is {share:.0} % of the critical path",
            100.0 * padding
        ),
        place: subject.place(*calls.first()?),
        facts: vec![
            Fact::count("batches", calls.len()),
            Fact { name: "padding", value: 100.0 * padding, unit: Unit::Percent },
            Fact::count("operators on them", operators.len()),
            Fact::time("work on them, a step", subject.per_step(subject.total(&work))),
        ],
        worth: Worth::HopeTo(vec![scaled(1.0 - padding / 2.0)?], vec![scaled(1.0 - padding)?]),
        events: calls,
        support: Support::Inferred,
        confidence: Confidence::Medium,
    })
}

#[cfg(test)]
mod tests {
    use super::{Shapes, batch};
    use serde_json::json;

    #[test]
    fn lengths_are_those_of_the_sequences() {
        assert_eq!(batch(&json!([[[90, 16], [10, 16], [20, 16]], [], []])), Some(((3, 90), 120)));
        assert_eq!(batch(&json!([[[9], [1], [2]], [], []])), None, "small");
        assert_eq!(batch(&json!([[[900, 16]], [], []])), None, "one");
        assert_eq!(batch(&json!([[[90, 16], []], []])), None);
        assert_eq!(batch(&json!([[[90], [-1]]])), None);
    }

    #[test]
    fn shapes_of_work_on_a_batch() {
        let mut shapes = Shapes::default();
        shapes.add((8, 100), 400);
        let is = |dims: serde_json::Value| shapes.are_of(&dims);
        for dims in [
            json!([[8, 100, 64], [64, 64]]),
            json!([[100, 8, 64], [64, 64]]),
            json!([[64], [800, 64], [64, 256]]),
            json!([[32, 100, 16], [32, 16, 100]]),
            json!([[8, 4, 100, 16]]),
        ] {
            assert!(is(dims.clone()), "{dims}");
        }
        for dims in
            [json!([[64, 64]]), json!([[8, 99, 64]]), json!([[8, 100]]), json!([[801, 64]]), json!([]), json!(7)]
        {
            assert!(!is(dims.clone()), "{dims}");
        }
    }
}
