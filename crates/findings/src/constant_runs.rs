//! Runs of operators that compute a tensor only from sizes and Python values, such as a mask inside a module's
//! `forward`.
//!
//! A trace records shapes of inputs, not their tensors. An operator belongs to a run if the run already produced all
//! shapes of its inputs; the first other operator ends the run.

use super::rule_context::RuleContext;
use serde_json::Value;
use stackline_model::{EventId, EventKind};
use stackline_timeline::vocabulary::aten;
use stackline_timeline::vocabulary::aten::constants::{COMPUTED, COPIED, FILLED, RESHAPED, VECTORS};
use std::collections::BTreeMap;

/// Name prefix of Python's call of `torch.tensor`, which reads its values one by one.
const TENSOR_OF_VALUES: &str = "<built-in method tensor of ";

/// Sizes of a tensor's dimensions.
type Shape = Vec<i64>;

/// Shapes of the tensors that a run of operators has produced so far, with the number of tensors of each shape.
#[derive(Debug, Default)]
struct ProducedTensors {
    /// Number of tensors by shape.
    shapes: BTreeMap<Shape, usize>,
    /// True after a vector of unknown length.
    has_vector: bool,
    /// True after an operator that computes, not only fills or reshapes.
    computes: bool,
}

impl ProducedTensors {
    /// Count another tensor of this shape; nothing for an unknown shape.
    fn add(&mut self, shape: Option<Shape>) {
        shape.into_iter().for_each(|shape| *self.shapes.entry(shape).or_default() += 1);
    }

    /// Check if the run produced at least `count` tensors with as many elements as `shape`, which may be views of each
    /// other.
    fn has_tensors(&self, shape: &Shape, count: usize) -> bool {
        let of_equal_size = self.shapes.iter().filter(|(known, _)| elements(known) == elements(shape));
        (self.has_vector && shape.len() == 1 && count == 1)
            || of_equal_size.map(|(_, count)| count).sum::<usize>() >= count
    }

    /// Check if the run produced all inputs of an operator. Two inputs of one shape are two tensors.
    fn has_inputs(&self, inputs: &[Shape]) -> bool {
        inputs.iter().all(|shape| {
            self.has_tensors(shape, inputs.iter().filter(|other| elements(other) == elements(shape)).count())
        })
    }

    /// Check if an operator can begin a run, because it fills a tensor or makes a vector. If so, add its result.
    fn begins_run(&mut self, context: &RuleContext<'_>, operator: EventId) -> bool {
        let name = short_name(context, operator);
        if VECTORS.contains(&name) {
            self.has_vector = true;
            return true;
        }
        if FILLED.contains(&name) {
            let sizes = sizes(context, operator, 0);
            self.add(sizes.map(|sizes| if name == "eye" { vec![sizes[0]; 2] } else { sizes }));
            return true;
        }
        false
    }

    /// Check if an operator can extend the run: it begins a run itself, or has only produced inputs. If so, add its
    /// result.
    fn continues_run(&mut self, context: &RuleContext<'_>, operator: EventId) -> bool {
        if self.begins_run(context, operator) {
            return true;
        }
        let name = short_name(context, operator);
        let (computes, copies) = (COMPUTED.contains(&name), COPIED.contains(&name) || RESHAPED.contains(&name));
        let inputs = input_shapes(context, operator);
        if !(computes || copies) || inputs.is_empty() || !self.has_inputs(&inputs) {
            return false;
        }
        self.computes |= computes;
        self.has_vector = false;
        self.add(inputs.into_iter().reduce(broadcast));
        if name == "expand" {
            self.add(sizes(context, operator, 1));
        }
        true
    }
}

/// Call of `torch.tensor` inside the innermost user function around an operator; `None` if no such call was recorded.
pub(super) fn tensor_call(context: &RuleContext<'_>, operator: EventId) -> Option<EventId> {
    let trace = context.trace();
    let mut around = trace.ancestors(operator).take_while(|&e| !context.is_own_frame(e));
    around.find(|&e| trace.kind(e) == EventKind::PythonFunction && trace.name(e).starts_with(TENSOR_OF_VALUES))
}

/// Runs of operators that compute constants, or create them from Python values, among the operators of one thread in
/// time order. A run whose result is written to afterwards is excluded.
pub(super) fn constant_runs(context: &RuleContext<'_>, operators: &[EventId]) -> Vec<Vec<EventId>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < operators.len() {
        if let Some(call) = tensor_call(context, operators[at]) {
            let inside = operators[at..].iter().take_while(|&&e| tensor_call(context, e) == Some(call)).count();
            found.push(operators[at..at + inside].to_vec());
            at += inside;
            continue;
        }
        let mut produced = ProducedTensors::default();
        if !produced.begins_run(context, operators[at]) {
            at += 1;
            continue;
        }
        let more =
            operators[at + 1..].iter().take_while(|&&operator| produced.continues_run(context, operator)).count();
        let end = at + 1 + more;
        let is_written = operators.get(end).is_some_and(|&next| writes_to(context, next, &produced));
        if produced.computes && !is_written {
            found.push(operators[at..end].to_vec());
        }
        at = end;
    }
    found
}

/// Check if an operator writes in place to a tensor of the run: its name ends with `_`, as PyTorch's in-place
/// operators.
fn writes_to(context: &RuleContext<'_>, operator: EventId, produced: &ProducedTensors) -> bool {
    let first = input_shapes(context, operator).into_iter().next();
    context.trace().name(operator).ends_with('_') && first.is_some_and(|shape| produced.has_tensors(&shape, 1))
}

/// Name of an ATen operator without prefix; empty for other operators.
fn short_name<'a>(context: &RuleContext<'a>, operator: EventId) -> &'a str {
    aten::short_name(context.trace().name(operator)).unwrap_or_default()
}

/// Shapes of an operator's input tensors. Numbers have none; lists of tensors are lists of shapes.
fn input_shapes(context: &RuleContext<'_>, operator: EventId) -> Vec<Shape> {
    let inputs = context.json("Input Dims", operator);
    let shape = |value: &Value| -> Option<Shape> { value.as_array()?.iter().map(Value::as_i64).collect() };
    let all = inputs.as_ref().and_then(Value::as_array).into_iter().flatten();
    all.filter_map(shape).filter(|shape| !shape.is_empty()).collect()
}

/// Parse the sizes in an argument of an operator, given by its position: `[64, 64]` or `64`. `None` if not recorded.
fn sizes(context: &RuleContext<'_>, operator: EventId, argument: usize) -> Option<Shape> {
    let arguments = context.json("Concrete Inputs", operator)?;
    let sizes: Value = serde_json::from_str(arguments.get(argument)?.as_str()?).ok()?;
    let all = sizes.as_array().cloned().unwrap_or_else(|| vec![sizes]);
    all.iter().map(Value::as_i64).collect::<Option<Shape>>().filter(|sizes| !sizes.is_empty())
}

/// Number of elements of a tensor of this shape; none on overflow.
fn elements(shape: &Shape) -> Option<i64> {
    shape.iter().try_fold(1_i64, |product, &size| product.checked_mul(size))
}

/// Shape of the result of an element-by-element operation on tensors of two shapes, by broadcasting.
fn broadcast(a: Shape, b: Shape) -> Shape {
    let (mut longer, shorter) = if a.len() < b.len() { (b, a) } else { (a, b) };
    let first = longer.len() - shorter.len();
    longer[first..].iter_mut().zip(shorter).for_each(|(size, other)| *size = (*size).max(other));
    longer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_two_tensors() {
        assert_eq!(broadcast(vec![4, 1], vec![1, 8]), [4, 8]);
        assert_eq!(broadcast(vec![8], vec![2, 4, 1]), [2, 4, 8]);
    }
}
