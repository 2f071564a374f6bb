//! Operators that could write into their input.

use super::callers::{Callers, Names, OPERATOR};
use super::make::{NewSuggestion, suggestion};
use super::{Action, Suggestion};
use crate::{Certainty, Facts, Pattern};
use stackline_model::{
    AccessExtent, AccessMode, MemoryAccess, MemoryCallId, MemoryCallKind, MemoryObjectId, MemoryObjectKind, MemoryTrace,
};

/// Operators that have a form for this, element by element: `relu_`, `inplace=True`, `x += y`.
const HAVE_FORM: &[&str] = &[
    "abs",
    "add",
    "addcdiv",
    "addcmul",
    "ceil",
    "celu",
    "clamp",
    "clamp_max",
    "clamp_min",
    "cos",
    "div",
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
    "lerp",
    "log",
    "masked_fill",
    "mish",
    "mul",
    "neg",
    "pow",
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
    "sub",
    "tanh",
    "threshold",
    "tril",
    "triu",
];

/// Suggestions to let an operator's result take the memory of its first input: of the same size and type, a temporary object that
/// this operator alone reads, and that is not kept for backward.
pub(super) fn in_place(facts: &Facts<'_>) -> Vec<Suggestion> {
    let trace = facts.trace;
    let mut names = Names::new(trace, has_form);
    let callers = Callers::new(trace);
    let mut made = Vec::new();
    for call in trace.calls.ids() {
        let row = call.index();
        if trace.calls.kind[row] != MemoryCallKind::Kernel || !names.are(trace.calls.name[row]) {
            continue;
        }
        let stack = trace.calls.stack[row];
        if callers.in_library(stack) || !callers.operators(stack).all(|name| names.are(name)) {
            continue;
        }
        let Some((input, output)) = in_and_out(trace, call) else { continue };
        let made_in = trace.objects.stack[input.index()];
        if fits(facts, call, input, output) && !callers.share_operator(made_in, stack) {
            made.extend(suggest(facts, input, output));
        }
    }
    made
}

fn has_form(name: &str) -> bool {
    name.strip_prefix(OPERATOR).is_some_and(|name| HAVE_FORM.contains(&name))
}

/// The first object that a call reads, and the only one that it writes, if it touches both wholly.
fn in_and_out(trace: &MemoryTrace, call: MemoryCallId) -> Option<(MemoryObjectId, MemoryObjectId)> {
    let is = |access: &MemoryAccess, mode: AccessMode| access.mode == mode && access.extent == AccessExtent::Whole;
    let mut written = trace.accesses_of(call).filter(|access| access.mode.writes());
    let output = written.next().filter(|access| is(access, AccessMode::Write) && written.next().is_none())?;
    let input = trace.accesses_of(call).next().filter(|access| is(access, AccessMode::Read))?;
    Some((input.object, output.object))
}

fn fits(facts: &Facts<'_>, call: MemoryCallId, input: MemoryObjectId, output: MemoryObjectId) -> bool {
    let (objects, a, b) = (&facts.trace.objects, input.index(), output.index());
    let is_same = objects.bytes[a] == objects.bytes[b]
        && objects.requested[a] == objects.requested[b]
        && objects.device[a] == objects.device[b]
        && objects.dtype[a] == objects.dtype[b]
        && objects.dtype[a].is_some();
    let is_known = objects.kind[a] == MemoryObjectKind::Temporary && objects.allocated_by[b].is_some();
    let is_new = facts.uses[b].first_touch == call;
    is_same && is_known && is_new && is_read_once(facts, input, call) && !facts.opaque_in(facts.trace.life(input))
}

/// Whether a call is the only one that reads an object, and the last one that touches it.
fn is_read_once(facts: &Facts<'_>, object: MemoryObjectId, call: MemoryCallId) -> bool {
    let used = &facts.uses[object.index()];
    let only_writes = |first: MemoryCallId| {
        let mut mine = facts.trace.accesses_of(first).filter(|access| access.object == object);
        mine.all(|access| access.mode == AccessMode::Write)
    };
    let filled = used.uses == 1 && used.first_use == call && used.fills > 0;
    let made = used.uses == 2 && used.first_use != call && only_writes(used.first_use);
    used.last_touch == call && (filled || made)
}

fn suggest(facts: &Facts<'_>, input: MemoryObjectId, output: MemoryObjectId) -> Option<Suggestion> {
    let (a, b) = (facts.trace.life(input), facts.trace.life(output));
    let joint = a.start.min(b.start)..a.end.max(b.end);
    let certainty = Certainty::of(facts, input, joint.clone()).max(Certainty::of(facts, output, joint));
    let new = NewSuggestion {
        object: output,
        action: Action::InPlace { of: input },
        pattern: Pattern::RedundantAllocation,
        // Whether autograd allows it, the trace does not say for sure.
        certainty: certainty.max(Certainty::Partial),
        cost_ns: 0,
    };
    suggestion(facts, new)
}
