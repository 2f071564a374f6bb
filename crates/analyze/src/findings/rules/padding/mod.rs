//! SL061: much of what batches hold is padding.

use crate::critical_path::exact::what_if::{Action, Edit};
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
                 must begin with those of a padded batch: other tensors may have the same. The gain is that of batches of the same sequences, \
                 sorted by length; where too few batches were recorded for that, half of the padding, as a hope. Sequences that must \
                 stay in their order cannot be sorted, but packed.",
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

/// A padded batch: how many elements each of its sequences has.
struct Batch {
    lengths: Vec<i64>,
}

impl Batch {
    /// From the inputs of `pad_sequence`.
    fn of(dims: &Value) -> Option<Self> {
        let length = |shape: &Value| shape.get(0)?.as_i64().filter(|length| (0..1 << 31).contains(length));
        let lengths: Vec<i64> = dims.get(0)?.as_array()?.iter().map(length).collect::<Option<_>>()?;
        let (count, longest) = (i64::try_from(lengths.len()).ok()?, *lengths.iter().max()?);
        let all = count.checked_mul(longest)?;
        (count > 1 && all >= LEAST_ELEMENTS).then_some(Self { lengths })
    }

    fn shape(&self) -> Shape {
        (self.lengths.len() as i64, self.lengths.iter().max().copied().unwrap_or(0))
    }
}

/// Which part of the work on batches is left, of what grows with their lengths and of what grows with their squares.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Left {
    linear: f64,
    square: f64,
}

/// Work on batches, in elements and in pairs of elements of one sequence.
#[derive(Clone, Copy, Default)]
struct Work {
    elements: f64,
    pairs: f64,
}

impl Work {
    /// On so many sequences that are padded to the length of the longest.
    fn add(&mut self, count: usize, longest: i64) {
        let longest = longest as f64;
        self.elements += count as f64 * longest;
        self.pairs += count as f64 * longest * longest;
    }

    fn of(all: Self) -> impl Fn(Self) -> Left {
        move |rest| Left { linear: rest.elements / all.elements, square: rest.pairs / all.pairs }
    }
}

/// How much of the work on batches is left if the same sequences are put together by length, and if nothing is padded.
fn left(batches: &[Batch]) -> (Left, Left) {
    let (mut all, mut used, mut sorted) = (Work::default(), Work::default(), Work::default());
    let mut lengths: Vec<i64> = batches.iter().flat_map(|batch| batch.lengths.iter().copied()).collect();
    lengths.sort_unstable();
    lengths.iter().for_each(|&length| used.add(1, length));
    let mut rest = &lengths[..];
    for batch in batches {
        let (count, longest) = (batch.lengths.len(), batch.shape().1);
        all.add(count, longest);
        let (next, behind) = rest.split_at(count);
        sorted.add(count, next.last().copied().unwrap_or(0));
        rest = behind;
    }
    let part = Work::of(all);
    (part(sorted), part(used))
}

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    let steps = &subject.trace().steps;
    let mut padded: Vec<(EventId, Batch)> = Vec::new();
    // Another batch, another shape: those of other steps say nothing of an operator.
    let mut by_step: BTreeMap<Option<usize>, Shapes> = BTreeMap::new();
    for call in subject.named(&[EventKind::Operator], |name| name == aten::PAD_SEQUENCE) {
        if let Some(batch) = subject.json("Input Dims", call).and_then(|dims| Batch::of(&dims)) {
            by_step.entry(subject.step_of(steps, call)).or_default().add(batch.shape());
            padded.push((call, batch));
        }
    }
    let (calls, batches): (Vec<EventId>, Vec<Batch>) = padded.into_iter().unzip();
    draft(subject, calls, &batches, &by_step).into_iter().collect()
}

/// Shapes of padded batches.
#[derive(Default)]
struct Shapes {
    batches: BTreeSet<Shape>,
    /// Elements of each.
    sizes: BTreeSet<i64>,
    /// Sequences of those with each length.
    counts: BTreeMap<i64, BTreeSet<i64>>,
}

impl Shapes {
    fn add(&mut self, shape: Shape) {
        self.batches.insert(shape);
        self.sizes.insert(shape.0 * shape.1);
        self.counts.entry(shape.1).or_default().insert(shape.0);
    }

    /// Whether one of an operator's inputs begins as a padded batch does: `[batch, length, …]`, `[length, batch, …]`, both as one
    /// dimension, or with heads of attention `[batch, heads, length, …]`, `[batch × heads, length, …]`.
    fn are_of(&self, dims: &Value) -> bool {
        let has = |shape: Shape| self.batches.contains(&shape);
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

/// Whether work on a padded batch grows with the square of its length, as scores of attention do: one of its inputs has the length in
/// both of its last dimensions, or two of them have it in the one and in the other.
fn is_square(shapes: &Shapes, operator: &str, dims: &Value) -> bool {
    let last_two = |shape: &Value| match shape.as_array().map(Vec::as_slice) {
        Some([_, .., rows, columns]) => Some((rows.as_i64()?, columns.as_i64()?)),
        _ => None,
    };
    let inputs: Vec<(i64, i64)> = dims.as_array().into_iter().flatten().filter_map(last_two).collect();
    let is_length = |size: i64| shapes.counts.contains_key(&size);
    aten::is_attention(operator)
        || inputs
            .iter()
            .any(|&(rows, columns)| is_length(rows) && (rows == columns || inputs.contains(&(columns, rows))))
}

/// Work on padded batches: of which operators, and the edits' events.
#[derive(Default)]
struct OnBatches {
    linear: Vec<EventId>,
    square: Vec<EventId>,
}

impl OnBatches {
    fn of(subject: &Subject<'_>, by_step: &BTreeMap<Option<usize>, Shapes>) -> Self {
        let trace = subject.trace();
        let mut squares: BTreeSet<EventId> = BTreeSet::new();
        let mut operators = subject.operators();
        operators.retain(|&operator| {
            let shapes = by_step.get(&subject.step_of(&trace.steps, operator));
            let Some((shapes, dims)) = shapes.zip(subject.json("Input Dims", operator)) else { return false };
            if is_square(shapes, trace.name(operator), &dims) {
                squares.insert(operator);
            }
            shapes.are_of(&dims)
        });
        let (square, linear) =
            subject.outermost(&operators).into_iter().partition(|operator| squares.contains(operator));
        Self { linear, square }
    }

    fn all(&self) -> Vec<EventId> {
        [&self.linear[..], &self.square[..]].concat()
    }

    /// What is shorter with shorter batches: on a GPU the host's time does not depend on sizes.
    fn work(&self, subject: &Subject<'_>) -> Self {
        let work = |operators: &[EventId]| match subject.uses_gpu() {
            true => operators.iter().flat_map(|&operator| subject.launched_in(operator)).collect(),
            false => operators.to_vec(),
        };
        Self { linear: work(&self.linear), square: work(&self.square) }
    }

    fn edits(&self, subject: &Subject<'_>, left: Left) -> Option<Vec<Edit>> {
        let scaled = |of: &[EventId], left: f64, text: &str| subject.edit(Action::Scale(left), text, of);
        let edits = [
            scaled(&self.linear, left.linear, "work on padded batches"),
            scaled(&self.square, left.square, "attention on padded batches"),
        ];
        let edits: Vec<Edit> = edits.into_iter().flatten().collect();
        (!edits.is_empty()).then_some(edits)
    }
}

fn draft(
    subject: &Subject<'_>,
    calls: Vec<EventId>,
    batches: &[Batch],
    by_step: &BTreeMap<Option<usize>, Shapes>,
) -> Option<Draft> {
    let first = *calls.first()?;
    let (sorted, used) = left(batches);
    let padding = 1.0 - used.linear;
    if 100.0 * padding < subject.setting("padding") {
        return None;
    }
    let operators = OnBatches::of(subject, by_step);
    let work = operators.work(subject);
    let ns: i64 = match subject.uses_gpu() {
        true => work.all().iter().filter_map(|work| subject.on_path().get(work)).sum(),
        false => subject.path_inside(&work.all()).iter().sum(),
    };
    let share = subject.percent(ns);
    if share < subject.setting("share") {
        return None;
    }
    let half = Left { linear: 1.0 - padding / 2.0, square: (1.0 + used.square) / 2.0 };
    let edits = |left: Left| work.edits(subject, left);
    // Few batches hold few sequences of about one length.
    let worth = match sorted.linear <= half.linear {
        true => Worth::Range(edits(sorted)?, vec![edits(half)?, edits(used)?]),
        false => Worth::HopeTo(edits(half)?, edits(used)?),
    };
    Some(Draft {
        title: format!(
            "{:.0} % of what pad_sequence makes is padding; work on such batches is {share:.0} % of the critical path",
            100.0 * padding
        ),
        place: subject.place(first),
        facts: vec![
            Fact::count("batches", calls.len()),
            Fact { name: "padding", value: 100.0 * padding, unit: Unit::Percent },
            Fact {
                name: "padding, sorted by length",
                value: 100.0 * (1.0 - used.linear / sorted.linear),
                unit: Unit::Percent,
            },
            Fact::count("operators on them", operators.all().len()),
            Fact::time("work on them, a step", subject.per_step(subject.total(&work.all()))),
        ],
        worth,
        events: calls,
        support: Support::Inferred,
        confidence: Confidence::Medium,
    })
}

#[cfg(test)]
mod tests {
    use super::{Batch, Left, Shapes, is_square, left};
    use serde_json::json;

    #[test]
    fn lengths_are_those_of_the_sequences() {
        let shape = |dims: serde_json::Value| Batch::of(&dims).map(|batch| (batch.shape(), batch.lengths.iter().sum()));
        assert_eq!(shape(json!([[[90, 16], [10, 16], [20, 16]], [], []])), Some(((3, 90), 120)));
        assert_eq!(shape(json!([[[9], [1], [2]], [], []])), None, "small");
        assert_eq!(shape(json!([[[900, 16]], [], []])), None, "one");
        assert_eq!(shape(json!([[[90, 16], []], []])), None);
        assert_eq!(shape(json!([[[90], [-1]]])), None);
    }

    #[test]
    fn what_is_left_if_sequences_are_sorted() {
        let batch = |lengths: &[i64]| Batch { lengths: lengths.to_vec() };
        let (sorted, used) = left(&[batch(&[10, 100]), batch(&[100, 10])]);
        // 20 + 200 of 400 elements, 200 + 20,000 of 40,000 pairs: nothing is padded then.
        assert_eq!(sorted, Left { linear: 0.55, square: 0.505 });
        assert_eq!(used, sorted);
        let (sorted, used) = left(&[batch(&[10, 100, 100])]);
        assert_eq!((sorted.linear, used.linear), (1.0, 0.7), "one batch is as it is");
        // Batches of other sizes keep them.
        let (sorted, _) = left(&[batch(&[10, 40, 40]), batch(&[10, 40])]);
        assert_eq!(sorted.linear, 1.0);
    }

    #[test]
    fn scores_grow_with_the_square() {
        let mut shapes = Shapes::default();
        shapes.add((8, 100));
        let is = |operator: &str, dims: serde_json::Value| is_square(&shapes, operator, &dims);
        assert!(is("aten::_softmax", json!([[8, 4, 100, 100], [], []])));
        assert!(is("aten::bmm", json!([[32, 100, 16], [32, 16, 100]])));
        assert!(is("aten::bmm", json!([[32, 100, 100], [32, 100, 16]])));
        assert!(is("aten::_scaled_dot_product_efficient_attention", json!([[8, 4, 100, 16]])));
        assert!(!is("aten::addmm", json!([[64], [800, 64], [64, 64]])));
        assert!(!is("aten::add", json!([[8, 100, 64], [8, 100, 64]])));
        assert!(!is("aten::bmm", json!([[32, 64, 64], [32, 64, 16]])));
    }

    #[test]
    fn shapes_of_work_on_a_batch() {
        let mut shapes = Shapes::default();
        shapes.add((8, 100));
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
