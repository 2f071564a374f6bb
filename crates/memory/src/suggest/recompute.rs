//! Suggestions to recompute activations that wait for backward.

use super::callers::{Callers, Names};
use super::cost::Times;
use super::from_patterns::{NewSuggestion, suggestion};
use super::{Action, Suggestion};
use crate::{Certainty, Gap, ObjectUsage, Pattern};
use stackline_model::names::OPERATOR_PREFIX;
use stackline_model::{AccessMode, MemoryCallId, MemoryCallKind, MemoryObjectId, MemoryObjectKind, MemoryTrace};

/// Words in names of PyTorch operators (`aten::`) whose results may differ between runs: random numbers, and optional
/// dropout (attention, recurrent layers).
const RANDOM: [&str; 20] = [
    "bernoulli",
    "binomial",
    "cauchy",
    "dirichlet",
    "dropout",
    "efficient_attention",
    "exponential",
    "flash_attention",
    "geometric",
    "gru",
    "lstm",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "rnn",
    "rrelu",
    "scaled_dot_product",
    "standard_gamma",
    "uniform",
];

/// Suggestions to recompute activations in these gaps. Only the operator that computed an activation writes it, its
/// result depends only on its inputs, and these are live and unchanged at the recomputation. A freed input is
/// recomputed as well under the same conditions (one level). Operators without measured times give no suggestion.
pub(super) fn recomputations(usage: &ObjectUsage<'_>, gaps: &[&Gap]) -> Vec<Suggestion> {
    let trace = usage.trace;
    let callers = Callers::new(trace);
    let waits = |gap: &&&Gap| {
        let stack = |call: MemoryCallId| trace.calls.stack[call.index()];
        let is_activation = trace.objects.kind[gap.object.index()] == MemoryObjectKind::Activation;
        let ends_forward = callers.in_backward(stack(gap.until)) && !callers.in_backward_or_optimizer(stack(gap.after));
        is_activation && gap.content_needed && ends_forward
    };
    let waiting: Vec<&Gap> = gaps.iter().filter(waits).copied().collect();
    if waiting.is_empty() {
        return Vec::new();
    }
    let mut maker =
        Recomputer { usage, times: Times::new(trace), writes: writes(trace), names: Names::new(trace, is_repeatable) };
    waiting.into_iter().filter_map(|gap| maker.recompute_for_gap(gap)).collect()
}

/// True if an operator gives the same results for the same inputs.
fn is_repeatable(name: &str) -> bool {
    name.starts_with(OPERATOR_PREFIX) && !RANDOM.iter().any(|word| name.contains(word))
}

/// Write access of a call to an object.
#[derive(Clone, Copy)]
struct Write {
    object: MemoryObjectId,
    call: MemoryCallId,
    mode: AccessMode,
}

/// All writes to memory objects, by object and call.
fn writes(trace: &MemoryTrace) -> Vec<Write> {
    let mut writes = Vec::new();
    for call in trace.calls.ids() {
        let written = trace.accesses_of(call).filter(|access| access.mode.writes());
        writes.extend(written.map(|access| Write { object: access.object, call, mode: access.mode }));
    }
    writes.sort_by_key(|write| (write.object, write.call));
    writes
}

/// Call that computed the content of an object, and an earlier write that it builds on.
#[derive(Clone, Copy)]
struct Computation {
    by: MemoryCallId,
    /// Earlier write by the operator, which it then reads itself.
    filled: Option<MemoryCallId>,
}

/// Requirements to run calls again: objects to read, temporary bytes, and time in ns.
#[derive(Default)]
struct Rerun {
    reads: Vec<MemoryObjectId>,
    /// Bytes of temporary results.
    other_bytes: u64,
    time_ns: u64,
}

/// Search for the calls that can recompute an object.
struct Recomputer<'a> {
    usage: &'a ObjectUsage<'a>,
    times: Times<'a>,
    writes: Vec<Write>,
    names: Names<'a>,
}

impl Recomputer<'_> {
    /// Suggestion to free an activation in a gap and recompute it afterwards; `None` if the calls cannot run again with
    /// the same results.
    fn recompute_for_gap(&mut self, gap: &Gap) -> Option<Suggestion> {
        let (after, before) = (gap.after, gap.needed_again);
        let maker = self.maker(gap.object, before)?;
        let by = maker.by;
        let mut again = self.rerun_call(gap.object, maker, before)?;
        let (mut first, mut scratch, mut cost_ns) = (None, again.other_bytes, again.time_ns);
        let gone = again.reads.iter().position(|read| !self.is_live_with_content(*read, by, before));
        if let Some(gone) = gone {
            let gone = again.reads.swap_remove(gone);
            let maker = self.maker(gone, by)?;
            let (earlier, more) = (maker.by, self.rerun_call(gone, maker, before)?);
            // More than one freed input, or a freed input of a freed input, would need another level.
            let mine = again.reads.iter().all(|read| self.is_live_with_content(*read, by, before));
            if !mine || !more.reads.iter().all(|read| self.is_live_with_content(*read, earlier, before)) {
                return None;
            }
            again.reads.extend(more.reads);
            first = Some(earlier);
            scratch = scratch.saturating_add(self.bytes(gone)).saturating_add(more.other_bytes);
            cost_ns = cost_ns.saturating_add(more.time_ns);
        }
        again.reads.sort_unstable();
        again.reads.dedup();
        let in_order = if self.usage.is_used_in_order(gap.object) { Certainty::Exact } else { Certainty::Inferred };
        let idle = in_order.max(Certainty::determine(self.usage, gap.object, after.index() + 1..before.index()));
        let action = Action::Recompute { after, before, by, first, needs: again.reads, scratch };
        let new = NewSuggestion {
            object: gap.object,
            action,
            pattern: Pattern::TemporaryIdleness,
            // Effects of operators on memory are known by their names at best.
            certainty: idle.max(Certainty::Partial),
            cost_ns,
        };
        suggestion(self.usage, new)
    }

    /// Size of an object in bytes.
    fn bytes(&self, object: MemoryObjectId) -> u64 {
        self.usage.trace.objects.bytes[object.index()]
    }

    /// Writes to an object, in the order of calls.
    fn writes_of(&self, object: MemoryObjectId) -> &[Write] {
        let first = self.writes.partition_point(|write| write.object < object);
        let count = self.writes[first..].partition_point(|write| write.object == object);
        &self.writes[first..first + count]
    }

    /// Call that wrote the content of an object before another call; `None` unless it did so alone, or over its own
    /// earlier write (`addmm` begins with a copy of the bias).
    fn maker(&self, object: MemoryObjectId, before: MemoryCallId) -> Option<Computation> {
        let writes = self.writes_of(object);
        match writes[..writes.partition_point(|write| write.call < before)] {
            [Write { call, mode: AccessMode::Write, .. }] => Some(Computation { by: call, filled: None }),
            [Write { call: fill, mode: AccessMode::Write, .. }, Write { call, mode: AccessMode::Both, .. }]
                if self.is_within(fill, call) =>
            {
                Some(Computation { by: call, filled: Some(fill) })
            }
            _ => None,
        }
    }

    /// True if a call was made within the operator of another call.
    fn is_within(&self, call: MemoryCallId, operator: MemoryCallId) -> bool {
        let (calls, stacks) = (&self.usage.trace.calls, &self.usage.trace.stacks);
        let [own, outer] = [call, operator].map(|call| calls.stack[call.index()]);
        let mut callers = std::iter::successors(own.some(), |node| stacks.parent[node.index()].some()).skip(1);
        let begun = calls.start_ns[call.index()].saturating_sub(calls.start_ns[operator.index()]);
        let ran = u64::try_from(begun).is_ok_and(|begun| begun <= calls.duration_ns[operator.index()]);
        outer.is_some() && ran && callers.any(|node| node == outer)
    }

    /// Requirements to run a call again just before another one. None if the call changes its inputs, or if an input
    /// may have changed unrecorded.
    fn rerun_call(
        &mut self,
        made: MemoryObjectId,
        Computation { by, filled }: Computation,
        before: MemoryCallId,
    ) -> Option<Rerun> {
        let trace = self.usage.trace;
        let is_kernel = trace.calls.kind[by.index()] == MemoryCallKind::Kernel;
        if !is_kernel
            || ![Some(by), filled]
                .into_iter()
                .flatten()
                .all(|call| self.names.passes_test(trace.calls.name[call.index()]))
            || self.usage.opaque_in(by.index()..before.index())
        {
            return None;
        }
        let mut again = Rerun { time_ns: self.times.duration_of(by)?, ..Rerun::default() };
        for access in trace.accesses_of(by) {
            match access.mode {
                AccessMode::Read if access.object != made => again.reads.push(access.object),
                AccessMode::Write if access.object == made => {}
                AccessMode::Both if access.object == made && filled.is_some() => {}
                AccessMode::Write => again.other_bytes = again.other_bytes.saturating_add(self.bytes(access.object)),
                _ => return None,
            }
        }
        for access in filled.into_iter().flat_map(|fill| trace.accesses_of(fill)) {
            match access.mode {
                AccessMode::Read => again.reads.push(access.object),
                AccessMode::Write if access.object == made => {}
                _ => return None,
            }
        }
        Some(again)
    }

    /// True if an object is live just before a call, with the content that an earlier call read.
    fn is_live_with_content(&self, object: MemoryObjectId, read_by: MemoryCallId, before: MemoryCallId) -> bool {
        let is_alive = self.usage.trace.life(object).contains(&before.index());
        let writes = self.writes_of(object);
        let next = writes.partition_point(|write| write.call <= read_by);
        is_alive && writes.get(next).is_none_or(|write| write.call >= before)
    }
}
