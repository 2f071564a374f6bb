//! List of a thread's operators with their inputs, and search for the operators that access an input themselves. An
//! operator that only calls others leaves the access to them.

use super::super::calls::{Calls, ThreadCalls};
use super::operator_effects::{Effect, effect};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_recording::{FrameKey, TouchKind};
use std::cmp::Reverse;

/// A call of an operator with memory as input, or with allocations.
#[derive(Clone, Debug)]
pub(super) struct Operator {
    pub(super) node: u32,
    /// Start, in `CLOCK_MONOTONIC` ns like all times here.
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) effect: Effect,
    pub(super) inputs: Vec<Input>,
    /// End of the outermost enclosing call: objects freed before it were temporary.
    pub(super) outermost_end: i64,
}

/// An input tensor of an operator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input {
    pub(super) address: u64,
    pub(super) argument: u8,
    /// Bytes of the tensor's elements; 0 if unknown.
    pub(super) bytes: u64,
    /// True if an inner operator takes the tensor, too.
    pub(super) is_passed_on: bool,
}

/// Operator calls of a thread sorted by start, callers before callees. `owners` has the operator to which each
/// allocation belongs, by the index of the allocation among all accesses.
#[derive(Debug, Default)]
pub(super) struct Operators {
    pub(super) list: Vec<Operator>,
    pub(super) owners: FxHashMap<usize, usize>,
}

/// An operator call that has begun but not ended.
struct Open {
    operator: usize,
    /// End, at most that of the caller, so that calls are nested even if clocks disagree.
    end: i64,
    /// Input addresses of inner operators.
    handed_on: FxHashSet<u64>,
}

impl Open {
    /// Open call that ends no later than its caller.
    fn new(operator: usize, end: i64, callers: &[Self]) -> Self {
        let end = callers.last().map_or(end, |caller| end.min(caller.end));
        Self { operator, end, handed_on: FxHashSet::default() }
    }
}

/// Tolerance in ns between the times of a call and of its inputs: older recorders converted them with clock rates from
/// different times.
const SAME_NS: i64 = 5_000;

impl Operators {
    /// List the operator calls of a thread with their inputs, and find the owner of each allocation.
    pub(super) fn new(calls: &Calls, thread: &ThreadCalls) -> Self {
        let effects: Vec<Option<Effect>> = calls.frames.iter().map(|frame| effect_of(calls, frame)).collect();
        let effect_at = |node: u32| effects.get(thread.nodes.get(node as usize)?.1 as usize).copied().flatten();
        let mut list: Vec<Operator> = Vec::new();
        for call in &thread.calls {
            if let Some(effect) = effect_at(call.node) {
                let (start, end) = (call.start, call.end);
                list.push(Operator { node: call.node, start, end, effect, inputs: Vec::new(), outermost_end: end });
            }
        }
        // A call ends before its caller and was written first: of equal spans the last one is the outermost.
        list.reverse();
        let mut operators = Self { list, owners: FxHashMap::default() };
        operators.sort();
        operators.assign_inputs(thread);
        operators.sort();
        operators.mark_forwarded();
        operators.assign_owners(thread);
        operators
    }

    /// Sort the calls by start, the longest first among equal starts.
    fn sort(&mut self) {
        self.list.sort_by_key(|operator| (operator.start, Reverse(operator.end)));
    }

    /// Assign recorded inputs to their operator calls; a call that never ended has none here. Allocations, frees and
    /// inputs of a thread are in its order even if clock values disagree, so a call began when its inputs were
    /// recorded.
    fn assign_inputs(&mut self, thread: &ThreadCalls) {
        let mut began: Vec<Option<i64>> = vec![None; self.list.len()];
        let mut to = None;
        let mut last = None;
        for touch in &thread.touches {
            let TouchKind::Input(argument) = touch.kind else { continue };
            if last != Some((touch.node, touch.at)) || argument == 0 {
                to = self.call_at(touch.node, touch.at);
                last = Some((touch.node, touch.at));
            }
            if let Some(operator) = to {
                began[operator].get_or_insert(touch.at);
                let (address, bytes) = (touch.address, touch.bytes);
                self.list[operator].inputs.push(Input { address, argument, bytes, is_passed_on: false });
            }
        }
        for (call, at) in self.list.iter_mut().zip(began) {
            let Some(at) = at else { continue };
            let late = at - std::mem::replace(&mut call.start, at);
            (call.end, call.outermost_end) = (call.end + late, call.outermost_end + late);
        }
    }

    /// Index of the operator call at a call-tree node that began nearest to this time; `None` if none is within the
    /// tolerance.
    fn call_at(&self, node: u32, at: i64) -> Option<usize> {
        let first = self.list.partition_point(|operator| operator.start < at - SAME_NS);
        let near = self.list[first..].iter().take_while(|operator| operator.start <= at + SAME_NS);
        let found = near.enumerate().filter(|(_, operator)| operator.node == node);
        found.min_by_key(|(_, operator)| operator.start.abs_diff(at)).map(|(position, _)| first + position)
    }

    /// Mark inputs that operators only pass on, and find the end of the outermost call around each operator.
    fn mark_forwarded(&mut self) {
        let mut open: Vec<Open> = Vec::new();
        for at in 0..self.list.len() {
            let (start, end, effect) = (self.list[at].start, self.list[at].end, self.list[at].effect);
            while open.last().is_some_and(|last| last.end <= start) {
                self.close(&mut open);
            }
            if let Some(outermost) = open.first() {
                self.list[at].outermost_end = self.list[outermost.operator].end;
            }
            if let Some(caller) = open.last_mut().filter(|_| effect != Effect::Nothing) {
                caller.handed_on.extend(self.list[at].inputs.iter().map(|input| input.address));
            }
            open.push(Open::new(at, end, &open));
        }
        while !open.is_empty() {
            self.close(&mut open);
        }
    }

    /// End the innermost open call, and mark its inputs that inner operators take. Inputs of its inner operators are
    /// also those of its caller's inner operators. The smaller of both sets moves into the larger, so lists of
    /// thousands of tensors cost little more than their length.
    fn close(&mut self, open: &mut Vec<Open>) {
        let Some(Open { operator, handed_on, .. }) = open.pop() else { return };
        let inputs = self.list[operator].inputs.iter_mut();
        inputs.for_each(|input| input.is_passed_on = handed_on.contains(&input.address));
        if let Some(caller) = open.last_mut() {
            let (mut more, mut fewer) = (std::mem::take(&mut caller.handed_on), handed_on);
            if more.len() < fewer.len() {
                std::mem::swap(&mut more, &mut fewer);
            }
            more.extend(fewer);
            caller.handed_on = more;
        }
    }

    /// Find the owner of each allocation: the innermost operator around it that does more than allocate.
    fn assign_owners(&mut self, thread: &ThreadCalls) {
        let mut open: Vec<Open> = Vec::new();
        let mut next = 0;
        for (position, touch) in thread.touches.iter().enumerate() {
            if touch.kind != TouchKind::Allocated {
                continue;
            }
            while let Some(operator) = self.list.get(next).filter(|operator| operator.start <= touch.at) {
                while open.last().is_some_and(|last| last.end <= operator.start) {
                    open.pop();
                }
                open.push(Open::new(next, operator.end, &open));
                next += 1;
            }
            while open.last().is_some_and(|last| last.end < touch.at) {
                open.pop();
            }
            let does = |open: &&Open| self.list[open.operator].effect != Effect::Nothing;
            if let Some(owner) = open.iter().rev().find(does) {
                self.owners.insert(position, owner.operator);
            }
        }
    }
}

/// Highest argument number of an operator's inputs, the result in variants with `out=`; `None` if 0.
pub(super) fn last_argument(operator: &Operator) -> Option<u8> {
    operator.inputs.iter().map(|input| input.argument).max().filter(|&argument| argument > 0)
}

/// Effect of an operator; `None` for other frames.
fn effect_of(calls: &Calls, frame: &FrameKey) -> Option<Effect> {
    match *frame {
        FrameKey::Operator { name } | FrameKey::ShapedOperator { name, .. } => Some(effect(calls.text(name))),
        _ => None,
    }
}
