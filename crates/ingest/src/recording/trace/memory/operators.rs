//! The operators of a thread with what they were handed, and which of them truly touch it: an operator that only calls
//! others leaves the touching to those.

use super::super::calls::{Calls, ThreadCalls};
use super::names::{Effect, effect};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_recording::{FrameKey, TouchKind};
use std::cmp::Reverse;

/// A call of an operator that was handed memory, or allocated some.
#[derive(Clone, Debug)]
pub(super) struct Operator {
    pub(super) node: u32,
    /// `CLOCK_MONOTONIC`, as all times here.
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) effect: Effect,
    pub(super) inputs: Vec<Input>,
    /// The call in which it ran that none encloses: what dies before its end was temporary.
    pub(super) outermost_end: i64,
}

/// A tensor that an operator was handed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input {
    pub(super) address: u64,
    pub(super) argument: u8,
    /// Of its elements, 0 if not known.
    pub(super) bytes: u64,
    /// Whether an operator was handed it, too, that this one called.
    pub(super) is_passed_on: bool,
}

/// The operators of a thread by their begin, callers before callees, and for each of its allocations (by position among
/// all touches) the operator that it is a result of, unless that is freed before.
#[derive(Debug, Default)]
pub(super) struct Operators {
    pub(super) list: Vec<Operator>,
    pub(super) owners: FxHashMap<usize, usize>,
}

/// A call that has begun.
struct Open {
    operator: usize,
    /// Not after that of its caller, so that calls end in turn even where clocks disagree.
    end: i64,
    /// Addresses that operators within it were handed.
    handed_on: FxHashSet<u64>,
}

impl Open {
    fn new(operator: usize, end: i64, callers: &[Self]) -> Self {
        let end = callers.last().map_or(end, |caller| end.min(caller.end));
        Self { operator, end, handed_on: FxHashSet::default() }
    }
}

/// How far the times of a call and of what was handed to it may differ: older recorders wrote them by rates of their clock that
/// were measured at different times.
const SAME_NS: i64 = 5_000;

impl Operators {
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
        // A call ends before the one that made it, and was written first: of equal spans the last is the outermost.
        list.reverse();
        let mut operators = Self { list, owners: FxHashMap::default() };
        operators.sort();
        operators.hand_over(thread);
        operators.sort();
        operators.pass_on();
        operators.own(thread);
        operators
    }

    fn sort(&mut self) {
        self.list.sort_by_key(|operator| (operator.start, Reverse(operator.end)));
    }

    /// Puts inputs to the calls that they are of. A call that never ended has none here. What a thread allocates, frees and hands
    /// to operators stands in its order, whatever the clock says: so a call began when it was handed its inputs.
    fn hand_over(&mut self, thread: &ThreadCalls) {
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

    /// The call of this node that began at this time.
    fn call_at(&self, node: u32, at: i64) -> Option<usize> {
        let first = self.list.partition_point(|operator| operator.start < at - SAME_NS);
        let near = self.list[first..].iter().take_while(|operator| operator.start <= at + SAME_NS);
        let found = near.enumerate().filter(|(_, operator)| operator.node == node);
        found.min_by_key(|(_, operator)| operator.start.abs_diff(at)).map(|(position, _)| first + position)
    }

    /// Marks what operators only pass on, and finds the outermost call of each.
    fn pass_on(&mut self) {
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

    /// Ends the innermost open call. What was handed on below it was so below its caller, too: the smaller of both sets moves into
    /// the larger, so that lists of thousands of tensors cost little more than their length.
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

    /// Finds for each allocation the innermost operator that ran and does more than to allocate.
    fn own(&mut self, thread: &ThreadCalls) {
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

/// What an operator does; nothing for other frames.
fn effect_of(calls: &Calls, frame: &FrameKey) -> Option<Effect> {
    match *frame {
        FrameKey::Operator { name } | FrameKey::ShapedOperator { name, .. } => Some(effect(calls.text(name))),
        _ => None,
    }
}
