//! Operators on padded batches, by the shapes of their inputs.

use super::batches::{Batch, RemainingShares};
use crate::RuleContext;
use rustc_hash::FxHashSet;
use serde_json::Value;
use stackline_critical_path::exact::what_if::{Action, Edit};
use stackline_model::EventId;
use stackline_timeline::vocabulary::{aten, autograd};
use std::collections::{BTreeMap, BTreeSet};

/// Shapes of padded batches by step. Batches outside of any step, such as those that workers of a data
/// loader pad, may belong to any step.
#[derive(Default)]
pub(super) struct BatchShapes(BTreeMap<Option<usize>, Shapes>);

impl BatchShapes {
    /// Add the shape of a batch that was padded in a step, or outside of any step.
    pub(super) fn add(&mut self, step: Option<usize>, batch: &Batch) {
        self.0.entry(step).or_default().add((batch.count() as i64, batch.longest()));
    }

    /// Check if batches have different padded lengths.
    pub(super) fn has_several_lengths(&self) -> bool {
        let lengths: BTreeSet<i64> = self.0.values().flat_map(|shapes| shapes.counts.keys().copied()).collect();
        lengths.len() > 1
    }

    /// Shapes of the batches of a step, and of those outside of any step.
    fn of_step(&self, step: Option<usize>) -> impl Iterator<Item = &Shapes> {
        let of_any = self.0.get(&None);
        step.and_then(|step| self.0.get(&Some(step))).into_iter().chain(of_any)
    }
}

/// Number of sequences of a batch, and padded length.
type Shape = (i64, i64);

/// Shapes of padded batches.
#[derive(Default)]
struct Shapes {
    batches: BTreeSet<Shape>,
    /// Number of elements of each batch.
    sizes: BTreeSet<i64>,
    /// Numbers of sequences by padded length.
    counts: BTreeMap<i64, BTreeSet<i64>>,
}

impl Shapes {
    /// Add a shape, with its number of elements and its padded length.
    fn add(&mut self, shape: Shape) {
        self.batches.insert(shape);
        self.sizes.insert(shape.0 * shape.1);
        self.counts.entry(shape.1).or_default().insert(shape.0);
    }

    /// Check if one of an operator's inputs begins as a padded batch: `[batch, length, …]` or `[length, batch, …]`, or
    /// both merged into one dimension. With attention heads, it begins as `[batch, heads, length, …]` or `[batch ×
    /// heads, length, …]`.
    fn matches_batch(&self, dims: &Value) -> bool {
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

/// Check if an operator's work is quadratic in the lengths of sequences, as for attention scores. One input has the
/// length in its last two dimensions, or two inputs of a product in one each.
fn is_square(shapes: &Shapes, operator: &str, dims: &Value) -> bool {
    if aten::is_attention(operator) {
        return true;
    }
    let sizes =
        |shape: &Value| -> Vec<i64> { shape.as_array().into_iter().flatten().filter_map(Value::as_i64).collect() };
    let inputs: Vec<Vec<i64>> = dims.as_array().into_iter().flatten().map(sizes).collect();
    let last_two = |input: &Vec<i64>| match input[..] {
        [_, .., b, c] => Some((b, c)),
        _ => None,
    };
    let pairs: Vec<(i64, i64)> = inputs.iter().filter_map(last_two).collect();
    let is_product = aten::is_batched_product(operator) && pairs.len() > 1;
    let is_length = |size: i64| shapes.counts.contains_key(&size);
    let is_of_scores = |input: &Vec<i64>| match input[..] {
        // May be `[batch, length, features]` with as many features as the length.
        [a, b, c] if b == c && shapes.batches.contains(&(a, b)) => is_product || aten::is_softmax(operator),
        [_, .., b, c] => is_length(b) && b == c,
        _ => false,
    };
    let is_of_keys = |&(b, c): &(i64, i64)| is_length(b) && b != c && pairs.contains(&(c, b));
    inputs.iter().any(is_of_scores) || is_product && pairs.iter().any(is_of_keys)
}

/// Outermost operators on padded batches, or the work that they launch.
#[derive(Default)]
pub(super) struct BatchOperators {
    linear: Vec<EventId>,
    square: Vec<EventId>,
}

impl BatchOperators {
    /// Find the outermost operators with a padded batch among their inputs, divided by linear and quadratic work. Nodes
    /// of autograd only have the shape of the gradient, so their operators determine their kind.
    pub(super) fn find(context: &RuleContext<'_>, shapes: &BatchShapes) -> Self {
        let trace = context.trace();
        let (mut all, mut square) = (Vec::new(), FxHashSet::default());
        for operator in context.operators() {
            let Some(dims) = context.json("Input Dims", operator) else { continue };
            let name = trace.name(operator);
            for shapes in shapes.of_step(context.step_of(&trace.steps, operator)) {
                if !shapes.matches_batch(&dims) {
                    continue;
                }
                if is_square(shapes, name, &dims) {
                    square.insert(operator);
                }
                if all.last() != Some(&operator) {
                    all.push(operator);
                }
            }
        }
        let around = square.iter().flat_map(|&operator| trace.ancestors(operator));
        let (nodes, mixed): (FxHashSet<EventId>, FxHashSet<EventId>) =
            around.partition(|&event| autograd::is_node(trace.name(event)));
        square.extend(nodes);
        all.retain(|operator| square.contains(operator) || !mixed.contains(operator));
        let (square, linear) = context.outermost(&all).into_iter().partition(|operator| square.contains(operator));
        Self { linear, square }
    }

    /// All operators, of linear and quadratic work.
    pub(super) fn all(&self) -> Vec<EventId> {
        [&self.linear[..], &self.square[..]].concat()
    }

    /// Work whose time depends on the sizes of batches: GPU work, or without a GPU the operators.
    pub(super) fn scalable(&self, context: &RuleContext<'_>) -> Self {
        let scalable = |operators: &[EventId]| match context.uses_gpu() {
            true => operators.iter().flat_map(|&operator| context.launched_in(operator)).collect(),
            false => operators.to_vec(),
        };
        Self { linear: scalable(&self.linear), square: scalable(&self.square) }
    }

    /// Edits that scale the work to the remaining shares; none without work.
    pub(super) fn edits(&self, context: &RuleContext<'_>, part: RemainingShares) -> Option<Vec<Edit>> {
        let scaled = |of: &[EventId], left: f64, text: &str| context.edit(Action::Scale(left), text, of);
        let edits = [
            scaled(&self.linear, part.linear, "work on padded batches"),
            scaled(&self.square, part.square, "attention on padded batches"),
        ];
        let edits: Vec<Edit> = edits.into_iter().flatten().collect();
        (!edits.is_empty()).then_some(edits)
    }
}

#[cfg(test)]
mod tests {
    use super::{Shapes, is_square};
    use serde_json::json;

    #[test]
    fn scores_grow_with_the_square() {
        let mut shapes = Shapes::default();
        shapes.add((8, 100));
        let is = |operator: &str, dims: serde_json::Value| is_square(&shapes, operator, &dims);
        assert!(is("aten::_softmax", json!([[8, 4, 100, 100], [], []])));
        assert!(is("aten::_softmax", json!([[8, 100, 100], [], []])), "of one head");
        assert!(is("aten::masked_fill", json!([[8, 4, 100, 100]])));
        assert!(is("aten::bmm", json!([[32, 100, 16], [32, 16, 100]])));
        assert!(is("aten::bmm", json!([[32, 100, 100], [32, 100, 16]])));
        assert!(is("aten::_scaled_dot_product_efficient_attention", json!([[8, 4, 100, 16]])));
        assert!(is("ScaledDotProductFlashAttentionForCpuBackward0", json!([[8, 4, 100, 16]])));
        assert!(!is("aten::addmm", json!([[64], [800, 64], [64, 64]])));
        assert!(!is("aten::add", json!([[8, 100, 64], [8, 100, 64]])));
        assert!(!is("aten::bmm", json!([[32, 64, 64], [32, 64, 16]])));
        assert!(!is("aten::gelu", json!([[8, 100, 100]])), "as wide as long");
        assert!(!is("aten::matmul", json!([[8, 100, 100], [100, 100]])), "a layer as wide as long");
        assert!(!is("aten::add", json!([[8, 100, 16], [8, 16, 100]])), "no product");
    }

    #[test]
    fn shapes_of_work_on_a_batch() {
        let mut shapes = Shapes::default();
        shapes.add((8, 100));
        let is = |dims: serde_json::Value| shapes.matches_batch(&dims);
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
