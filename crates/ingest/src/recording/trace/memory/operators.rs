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

/// Times of calls and of what was handed to them come from the same clock, whose rate may have been measured anew in
/// between.
const SAME_NS: i64 = 5_000;

impl Operators {
    pub(super) fn of(calls: &Calls, thread: &ThreadCalls) -> Self {
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
        list.sort_by_key(|operator| (operator.start, Reverse(operator.end)));
        let mut operators = Self { list, owners: FxHashMap::default() };
        operators.hand_over(thread);
        operators.pass_on();
        operators.own(thread);
        operators
    }

    /// Puts inputs to the calls that they are of. A call that never ended has none here.
    fn hand_over(&mut self, thread: &ThreadCalls) {
        let mut to = None;
        let mut last = None;
        for touch in &thread.touches {
            let TouchKind::Input(argument) = touch.kind else { continue };
            if last != Some((touch.node, touch.at)) || argument == 0 {
                to = self.call_at(touch.node, touch.at);
                last = Some((touch.node, touch.at));
            }
            if let Some(operator) = to {
                let (address, bytes) = (touch.address, touch.bytes);
                self.list[operator].inputs.push(Input { address, argument, bytes, is_passed_on: false });
            }
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
        let mut open: Vec<usize> = Vec::new();
        for at in 0..self.list.len() {
            let (start, effect) = (self.list[at].start, self.list[at].effect);
            open.retain(|&caller| self.list[caller].end > start);
            if let Some(&outermost) = open.first() {
                self.list[at].outermost_end = self.list[outermost].end;
            }
            if effect != Effect::Nothing {
                let addresses: FxHashSet<u64> = self.list[at].inputs.iter().map(|input| input.address).collect();
                for &caller in &open {
                    let passed = |input: &&mut Input| addresses.contains(&input.address);
                    self.list[caller].inputs.iter_mut().filter(passed).for_each(|input| input.is_passed_on = true);
                }
            }
            open.push(at);
        }
    }

    /// Finds for each allocation the innermost operator that ran and does more than to allocate.
    fn own(&mut self, thread: &ThreadCalls) {
        let mut open: Vec<usize> = Vec::new();
        let mut next = 0;
        for (position, touch) in thread.touches.iter().enumerate() {
            if touch.kind != TouchKind::Allocated {
                continue;
            }
            while self.list.get(next).is_some_and(|operator| operator.start <= touch.at) {
                open.retain(|&caller| self.list[caller].end > self.list[next].start);
                open.push(next);
                next += 1;
            }
            open.retain(|&caller| self.list[caller].end >= touch.at);
            let owner = open.iter().rev().find(|&&caller| self.list[caller].effect != Effect::Nothing);
            if let Some(&owner) = owner {
                self.owners.insert(position, owner);
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
