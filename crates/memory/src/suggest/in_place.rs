//! Suggestions to replace PyTorch operators by their in-place forms, which reuse the input's memory.

use super::callers::{Callers, Names};
use super::from_patterns::{NewSuggestion, suggestion};
use super::{Action, Suggestion};
use crate::{Certainty, ObjectUsage, Pattern};
use rustc_hash::FxHashMap;
use stackline_model::names::OPERATOR_PREFIX;
use stackline_model::{
    AccessExtent, AccessMode, MemoryAccess, MemoryCallId, MemoryCallKind, MemoryObjectId, MemoryObjectKind,
    MemoryStackId, MemoryStreamId, MemoryTrace, StrId,
};
use std::collections::BTreeSet;

/// Element-wise operators of one tensor with an in-place form: `relu_`, `inplace=True`.
const UNARY_OPERATORS: &[&str] = &[
    "abs",
    "ceil",
    "celu",
    "cos",
    "dropout",
    "elu",
    "erf",
    "exp",
    "floor",
    "gelu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log",
    "mish",
    "neg",
    "reciprocal",
    "relu",
    "relu6",
    "round",
    "rsqrt",
    "selu",
    "sigmoid",
    "silu",
    "sin",
    "sqrt",
    "tanh",
    "threshold",
    "tril",
    "triu",
];

/// Element-wise operators of two tensors that write the first one: `x += y`. Excluded are `pow`, whose first argument
/// may be a number, and operators of more than two tensors, whose accesses cannot be assigned.
const BINARY_OPERATORS: &[&str] = &["add", "div", "mul", "sub"];

/// Suggestions to let an operator's result reuse the memory of its first input. The input has the same size and type,
/// is temporary, is read by this operator only, and is not kept for backward.
pub(super) fn in_place(usage: &ObjectUsage<'_>) -> Vec<Suggestion> {
    let trace = usage.trace;
    let mut names = Names::new(trace, has_form);
    let callers = Callers::new(trace);
    let alone = alone_in_operator(trace, &callers);
    let mut made = Vec::new();
    for call in trace.calls.ids() {
        let row = call.index();
        let stack = trace.calls.stack[row];
        if trace.calls.kind[row] != MemoryCallKind::Kernel || callers.in_backward_or_optimizer(stack) {
            continue;
        }
        let own = trace.calls.name[row];
        let outermost = callers.outermost_operator(stack).filter(|_| alone[row]).map(|(_, name)| name);
        let all_have = names.passes_test(own) && callers.operators(stack).all(|name| names.passes_test(name));
        let Some(name) = outermost.filter(|name| names.passes_test(*name)).or(all_have.then_some(own)) else {
            continue;
        };
        let Some((input, output)) = input_and_output(trace, call, name) else { continue };
        let made_in = trace.objects.stack[input.index()];
        if can_overwrite(usage, call, input, output) && !callers.share_operator(made_in, stack) {
            made.extend(suggest(usage, input, output));
        }
    }
    made
}

/// True per call if it is the only call of the operator that the program called: `aten::relu` runs only
/// `aten::clamp_min`. Then this call's accesses are those of the outermost operator.
fn alone_in_operator(trace: &MemoryTrace, callers: &Callers<'_>) -> Vec<bool> {
    use MemoryCallKind::{Allocate, Free};
    let mut alone = vec![false; trace.calls.len()];
    let mut last: FxHashMap<MemoryStreamId, (MemoryStackId, usize)> = FxHashMap::default();
    for call in trace.calls.ids().map(MemoryCallId::index) {
        if matches!(trace.calls.kind[call], Allocate | Free) {
            continue;
        }
        let node = callers.outermost_operator(trace.calls.stack[call]).map_or(MemoryStackId::NONE, |(node, _)| node);
        alone[call] = node.is_some();
        // At one line without other calls in between, they may also be several calls of the operator; then there is no
        // suggestion.
        if let Some((_, before)) =
            last.insert(trace.calls.stream[call], (node, call)).filter(|(other, _)| *other == node)
        {
            (alone[before], alone[call]) = (false, false);
        }
    }
    alone
}

/// Name of the operator to run in place so that its output reuses its input: the program's outermost operator if that
/// has an in-place form, else the allocating one.
pub(super) fn operator_of(trace: &MemoryTrace, output: MemoryObjectId) -> StrId {
    let frames = trace.stacks.frames_of(trace.objects.stack[output.index()]);
    let operators =
        frames.map(|frame| frame.function()).filter(|name| trace.strings.get(*name).starts_with(OPERATOR_PREFIX));
    let outermost = operators.last().filter(|name| has_form(trace.strings.get(*name)));
    outermost.unwrap_or(trace.objects.operator[output.index()])
}

/// True if an operator has an in-place form.
fn has_form(name: &str) -> bool {
    in_place_arity(name).is_some()
}

/// Number of tensors that an operator with an in-place form takes (1 or 2); `None` for other operators.
fn in_place_arity(name: &str) -> Option<usize> {
    let name = name.strip_prefix(OPERATOR_PREFIX)?;
    UNARY_OPERATORS.contains(&name).then_some(1).or_else(|| BINARY_OPERATORS.contains(&name).then_some(2))
}

/// First input and only output of a call that could run in place. `None` unless it accesses both wholly and reads as
/// many objects as its operator takes tensors. With fewer, one object was passed twice (`s + s.t()`, which would read
/// overwritten values), or a nested operator read an argument, possibly the first.
fn input_and_output(trace: &MemoryTrace, call: MemoryCallId, name: StrId) -> Option<(MemoryObjectId, MemoryObjectId)> {
    let is = |access: &MemoryAccess, mode: AccessMode| access.mode == mode && access.extent == AccessExtent::Whole;
    let mut written = trace.accesses_of(call).filter(|access| access.mode.writes());
    let output = written.next().filter(|access| is(access, AccessMode::Write) && written.next().is_none())?;
    let read = trace.accesses_of(call).filter(|access| access.object != output.object);
    let objects: BTreeSet<MemoryObjectId> = read.map(|access| access.object).collect();
    let input = trace.accesses_of(call).next().filter(|access| is(access, AccessMode::Read))?;
    if in_place_arity(trace.strings.get(name))? != objects.len() {
        return None;
    }
    Some((input.object, output.object))
}

/// True if a call can write its output into the memory of its input.
fn can_overwrite(usage: &ObjectUsage<'_>, call: MemoryCallId, input: MemoryObjectId, output: MemoryObjectId) -> bool {
    let (objects, a, b) = (&usage.trace.objects, input.index(), output.index());
    let is_same = objects.bytes[a] == objects.bytes[b]
        && objects.requested[a] == objects.requested[b]
        && objects.device[a] == objects.device[b]
        && objects.dtype[a] == objects.dtype[b]
        && objects.dtype[a].is_some();
    let is_known = objects.kind[a] == MemoryObjectKind::Temporary && objects.allocated_by[b].is_some();
    // Objects that are live at the end of a truncated trace may be read later.
    let is_over = usage.trace.saw_end || objects.freed_by[a].is_some();
    let is_new = usage.uses[b].first_touch == call;
    is_same
        && is_known
        && is_over
        && is_new
        && is_read_once(usage, input, call)
        && !usage.opaque_in(usage.trace.life(input))
}

/// True if a call is the only reader of an object after the object's creation, and its last access.
fn is_read_once(usage: &ObjectUsage<'_>, object: MemoryObjectId, call: MemoryCallId) -> bool {
    let used = &usage.uses[object.index()];
    // An addition to the object is part of its creation: `addmm` to the copied bias.
    let makes = |first: MemoryCallId| {
        let mut mine = usage.trace.accesses_of(first).filter(|access| access.object == object);
        mine.all(|access| matches!(access.mode, AccessMode::Write | AccessMode::Both))
    };
    let filled = used.uses == 1 && used.first_use == call && used.fills > 0;
    let made = used.uses == 2 && used.first_use != call && makes(used.first_use);
    used.last_touch == call && (filled || made)
}

/// Suggestion that an operator writes its output into its input; `None` if that would change nothing.
fn suggest(usage: &ObjectUsage<'_>, input: MemoryObjectId, output: MemoryObjectId) -> Option<Suggestion> {
    let (a, b) = (usage.trace.life(input), usage.trace.life(output));
    let joint = a.start.min(b.start)..a.end.max(b.end);
    let certainty = Certainty::determine(usage, input, joint.clone()).max(Certainty::determine(usage, output, joint));
    let new = NewSuggestion {
        object: output,
        action: Action::InPlace { owner: input },
        pattern: Pattern::RedundantAllocation,
        // The trace does not show if autograd permits it.
        certainty: certainty.max(Certainty::Partial),
        cost_ns: 0,
    };
    suggestion(usage, new)
}
