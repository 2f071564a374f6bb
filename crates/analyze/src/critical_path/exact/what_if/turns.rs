//! Turns that threads take at locks and at the interpreter: an edit may change their order, which no trace tells.

use super::super::Exact;
use super::super::graph::{Dependency, NodeKind};
use super::super::names::bits;
use super::super::threads::ThreadRule;
use crate::critical_path::gpu_order::Reason;
use stackline_model::EventKind;

/// Who takes turns, and how long one may take.
pub(super) struct Turns {
    /// Per node whether a lock, the interpreter or a full queue released it.
    pub(super) is_turn: Vec<bool>,
    /// The longest turn in ns; 0 where nobody takes turns.
    pub(super) longest: i64,
    /// Per lane whether it takes turns with another one.
    takes_part: Vec<bool>,
}

impl Turns {
    pub(super) fn new(exact: &Exact<'_>) -> Self {
        let graph = &exact.graph;
        let lanes = exact.lanes.len();
        let mut turns = Self { is_turn: vec![false; graph.len()], longest: 0, takes_part: vec![false; lanes] };
        for node in 0..graph.len() as u32 {
            let Some(edge) = graph.release(node) else { continue };
            turns.is_turn[node as usize] = match edge.dependency {
                Dependency::Sync(Reason::BackPressure) | Dependency::Thread(ThreadRule::InterpreterLock, _) => true,
                Dependency::Thread(ThreadRule::Wakes, _) => is_lock(exact, node),
                _ => false,
            };
        }
        turns.add_locks(exact);
        turns.add_bursts(exact);
        turns
    }

    /// Whether a thread that takes turns moved.
    pub(super) fn moved(&self, exact: &Exact<'_>, shift: impl Fn(u32) -> i64) -> bool {
        self.longest > 0
            && (0..exact.lanes.len()).filter(|&lane| self.takes_part[lane]).any(|lane| {
                let (first, last) = exact.lane_nodes[lane];
                (first..last).any(|node| shift(node) != 0)
            })
    }

    /// From the end of each wait for a lock to the next release on its thread.
    fn add_locks(&mut self, exact: &Exact<'_>) {
        let known = |event| exact.names.of(exact.trace, event);
        for (number, lane) in exact.lanes.iter().enumerate() {
            let mut since = None;
            for (i, piece) in lane.pieces.iter().enumerate().filter(|(_, p)| p.event.is_some()) {
                let marks = known(piece.event);
                if marks & bits::LOCKS != 0 && marks & bits::RELEASES == 0 {
                    since = Some(lane.piece_end(i));
                } else if marks & bits::RELEASES != 0
                    && let Some(from) = since.take()
                {
                    self.takes_part[number] = true;
                    self.longest = self.longest.max(lane.piece_end(i) - from);
                }
            }
        }
        if self.takes_part.iter().filter(|takes| **takes).count() < 2 {
            self.takes_part.fill(false);
            self.longest = 0;
        }
    }

    /// Python between two pauses of its thread, while another thread of the process that pauses, too, is there.
    fn add_bursts(&mut self, exact: &Exact<'_>) {
        let pid = |lane: usize| exact.trace.tracks.pid(exact.lanes[lane].track);
        let pauses = |lane: &usize| exact.lanes[*lane].gaps.len() > 1 && exact.lanes[*lane].has.python > 0;
        let pausing: Vec<usize> = (0..exact.lanes.len()).filter(pauses).collect();
        for &lane in &pausing {
            let others = pausing.iter().filter(|&&other| other != lane && pid(other) == pid(lane));
            for &other in others {
                let burst = longest_burst(exact, lane, (exact.lanes[other].start(), exact.lanes[other].end()));
                if burst > 0 {
                    self.longest = self.longest.max(burst);
                    (self.takes_part[lane], self.takes_part[other]) = (true, true);
                }
            }
        }
    }
}

/// Whether a node follows a wait for a lock.
fn is_lock(exact: &Exact<'_>, node: u32) -> bool {
    let graph = &exact.graph;
    if graph.kind[node as usize] == NodeKind::Gpu {
        return false;
    }
    let lane = &exact.lanes[graph.place[node as usize] as usize];
    let event = lane.piece_before(graph.start[node as usize]).map(|p| lane.pieces[p].event);
    event.is_some_and(|e| e.is_some() && exact.names.of(exact.trace, e) & bits::LOCKS != 0)
}

/// The longest burst of Python of a lane that lies in a stretch of time.
fn longest_burst(exact: &Exact<'_>, lane: usize, (from, to): (i64, i64)) -> i64 {
    let lane = &exact.lanes[lane];
    let mut began = None;
    let mut longest = 0;
    for piece in &lane.pieces {
        if piece.event.is_none() {
            let start = began.take().unwrap_or(i64::MAX);
            if start >= from && piece.start <= to {
                longest = longest.max(piece.start - start);
            }
        } else if began.is_none() {
            let root = exact.trace.ancestors(piece.event).last().unwrap_or(piece.event);
            let is_python = exact.trace.kind(root) == EventKind::PythonFunction;
            began = Some(if is_python { piece.start } else { i64::MAX });
        }
    }
    longest
}
