//! Edges along the call stack of each host thread (section 2.5 B).
//!
//! HTA builds a tree by a push at each begin and a pop at each end, independent of the ended event, and traverses it
//! depth first. Begins then come in depth-first order, and each end pops the top of the stack. So one pass over begins
//! and ends with a stack gives the same result without tree and recursion.

use super::build::{Builder, NO_NODE};
use super::graph::NO_EVENT;
use super::names::{AUTOGRAD, FORWARD};
use super::sort::by_time;
use crate::EdgeKind;
use stackline_model::{EventKind, Key, StrId};

impl Builder<'_> {
    /// Add the edges along the call stack of every host thread, by ascending process and thread number.
    pub(super) fn stack_edges(&mut self) {
        for rows in self.rows_by_thread() {
            let is_host = rows.iter().all(|&row| self.view.stream[row as usize] < 0);
            if is_host {
                self.add_thread_edges(&rows);
            }
        }
    }

    /// Rows of HTA's view, grouped by process and thread. Rows of the backward thread count for the forward thread.
    fn rows_by_thread(&mut self) -> Vec<Vec<u32>> {
        let tracks = &self.trace.tracks;
        let merged = self.forward_and_backward();
        let mut keys: Vec<(Key, Key)> = tracks.ids().map(|t| (tracks.pid(t), tracks.get(t).tid)).collect();
        if let Some((forward, backward)) = merged {
            for key in keys.iter_mut().filter(|k| k.1 == backward) {
                key.1 = forward;
            }
        }
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let group: Vec<usize> = keys.iter().map(|k| sorted.binary_search(k).unwrap_or(0)).collect();
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); sorted.len()];
        for &row in self.kept {
            let track = self.trace.events.track[self.view.event[row as usize].index()];
            rows[group[track.index()]].push(row);
        }
        rows
    }

    /// The unique thread number with "forward" operators or annotations, and the unique one with "autograd" ones, if
    /// both exist and differ.
    fn forward_and_backward(&mut self) -> Option<(Key, Key)> {
        let categories = ["cpu_op", "user_annotation"].map(|c| self.trace.strings.find(c).unwrap_or(StrId::NONE));
        let (mut forward, mut backward) = (DistinctCount::None, DistinctCount::None);
        for &row in self.kept {
            let event = self.view.event[row as usize];
            let kind = self.trace.kind(event);
            let counts = categories.contains(&self.trace.events.category[event.index()]) || kind == EventKind::Operator;
            let bits = if counts { self.bits(row as usize) } else { 0 };
            if bits & (FORWARD | AUTOGRAD) == 0 {
                continue;
            }
            let tid = self.trace.tracks.get(self.trace.events.track[event.index()]).tid;
            if bits & FORWARD != 0 {
                forward.add_value(tid);
            }
            if bits & AUTOGRAD != 0 {
                backward.add_value(tid);
            }
        }
        match (forward, backward) {
            (DistinctCount::One(forward), DistinctCount::One(backward)) if forward != backward => {
                Some((forward, backward))
            }
            _ => None,
        }
    }

    /// Add the call stack edges of one thread: visit the starts and ends of its events in HTA's order.
    fn add_thread_edges(&mut self, rows: &[u32]) {
        // Rows without duration begin and end at once, so they have no nodes and no children.
        let rows: Vec<u32> = rows.iter().copied().filter(|&r| self.view.dur(r as usize) > 0).collect();
        let begins = self.rows_by_start(&rows);
        let ends = self.rows_by_end(&rows);
        let mut walk = StackWalk { stack: Vec::new(), last: NO_NODE, last_parent: NO_EVENT, depth: 0 };
        let mut next_begin = begins.iter().copied().peekable();
        for end in ends {
            // At equal times, ends come before begins.
            while let Some(row) = next_begin.next_if(|&b| self.view.start[b as usize] < self.view.end[end as usize]) {
                self.enter(&mut walk, row);
            }
            self.leave(&mut walk);
        }
    }

    /// Sort a thread's rows by start. Ties: longer first, then file order.
    fn rows_by_start(&self, rows: &[u32]) -> Vec<u32> {
        let (start, end) = (&self.view.start, &self.view.end);
        let mut order = rows_by_time(rows, start);
        for run in order.chunk_by_mut(|&a, &b| start[a as usize] == start[b as usize]) {
            run.sort_unstable_by_key(|&r| (std::cmp::Reverse(end[r as usize]), r));
        }
        order
    }

    /// Sort a thread's rows by end. Ties: shorter first, then reverse file order.
    fn rows_by_end(&self, rows: &[u32]) -> Vec<u32> {
        let (start, end) = (&self.view.start, &self.view.end);
        let mut order = rows_by_time(rows, end);
        for run in order.chunk_by_mut(|&a, &b| end[a as usize] == end[b as usize]) {
            run.sort_unstable_by_key(|&r| (std::cmp::Reverse(start[r as usize]), std::cmp::Reverse(r)));
        }
        order
    }

    /// Visit the start of an event: add the edge from the last visited node, and push the event on the stack.
    fn enter(&mut self, walk: &mut StackWalk, row: u32) {
        let start = self.start_node[row as usize];
        if start != NO_NODE {
            if walk.last != NO_NODE && !self.is_lock_covered(walk.last, start) {
                if walk.depth == 0 {
                    self.free_edge(walk.last, start, EdgeKind::Dependency);
                } else {
                    self.span_edge(walk.last, start, walk.last_parent, false);
                }
            }
            walk.last = start;
            walk.last_parent = walk.top();
            walk.depth += 1;
        }
        walk.stack.push(row);
    }

    /// Visit the end of the innermost open event: add the edge from the last visited node, and pop the event.
    fn leave(&mut self, walk: &mut StackWalk) {
        let Some(row) = walk.stack.pop() else { return };
        let end = self.end_node[row as usize];
        if end == NO_NODE {
            return;
        }
        if walk.last != NO_NODE && !self.is_lock_covered(walk.last, end) {
            let free = self.is_blocking(row as usize);
            self.span_edge(walk.last, end, walk.last_parent, free);
        }
        walk.last = end;
        walk.last_parent = walk.top();
        walk.depth = walk.depth.saturating_sub(1);
    }

    /// Add the edge of the host time between two adjacent nodes, attributed to the innermost event around it. With
    /// `free`, the weight is 0.
    fn span_edge(&mut self, from: u32, to: u32, last_parent: u32, free: bool) {
        let (from_start, to_start) = (self.nodes.is_start[from as usize], self.nodes.is_start[to as usize]);
        let attributed = match (from_start, to_start) {
            (true, _) => self.nodes.event[from as usize],
            (false, false) => self.nodes.event[to as usize],
            (false, true) => last_parent,
        };
        self.timed_edge(from, to, EdgeKind::OperatorKernel, attributed);
        if let Some(edge) = self.edges.last_mut().filter(|_| free) {
            edge.weight_us = 0.0;
        }
    }

    /// True if the lock pass already ordered the two nodes.
    fn is_lock_covered(&mut self, from: u32, to: u32) -> bool {
        let gap = !self.nodes.is_start[from as usize] && self.nodes.is_start[to as usize];
        !gap && self.is_lock(from) && self.is_lock(to)
    }
}

/// State of the pass over the call stack of one thread.
struct StackWalk {
    /// Open events, with or without nodes.
    stack: Vec<u32>,
    /// Last visited node.
    last: u32,
    /// Parent of the event of `last`.
    last_parent: u32,
    /// Number of open events with nodes.
    depth: usize,
}

impl StackWalk {
    /// Row of the innermost open event; [`NO_EVENT`] without one.
    fn top(&self) -> u32 {
        self.stack.last().copied().unwrap_or(NO_EVENT)
    }
}

/// Distinct values so far: none, one or several.
enum DistinctCount {
    None,
    One(Key),
    Several,
}

impl DistinctCount {
    /// Register a value: the first one, the same one again, or a different one.
    fn add_value(&mut self, key: Key) {
        match self {
            Self::None => *self = Self::One(key),
            Self::One(known) if *known != key => *self = Self::Several,
            _ => {}
        }
    }
}

/// Sort rows by their time in the column `time`; ties stay in the given order.
fn rows_by_time(rows: &[u32], time: &[i64]) -> Vec<u32> {
    by_time(rows.iter().map(|&row| time[row as usize])).into_iter().map(|i| rows[i as usize]).collect()
}
