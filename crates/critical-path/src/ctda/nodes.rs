//! CPU nodes (section 3.2.1 of the paper): sequences of work in one phase, with launches to one stream and without
//! synchronization inside.

use super::gpu::{Gpu, StreamId};
use super::marks::{Mark, MarkKind, SyncKind};
use super::timeline::Piece;
use super::waits::launch_streams;
use rustc_hash::FxHashSet;
use stackline_timeline::phase_rules::Phase;
use std::ops::Range;

/// Node number for events that belong to no node.
pub(super) const NO_NODE: u32 = u32::MAX;

/// Host node of the dependency graph: a sequence of work of one phase on a logical thread.
#[derive(Clone, Debug)]
pub(super) struct CpuNode {
    /// Position of the node's thread among those of the process.
    pub(super) thread: u32,
    pub(super) phase: Phase,
    pub(super) start: i64,
    pub(super) end: i64,
    /// Range of the node's pieces in [`Chain::pieces`].
    pub(super) pieces: Range<usize>,
    /// Mark of the synchronization with which the node begins, or that it follows.
    pub(super) sync: Option<usize>,
}

/// Graph nodes of one logical thread in time order.
#[derive(Debug, Default)]
pub(super) struct Chain {
    pub(super) nodes: Vec<CpuNode>,
    pub(super) pieces: Vec<Piece>,
    /// Node per mark.
    pub(super) node_of_mark: Vec<u32>,
}

/// Input of [`cut_into_nodes`]: time pieces and runtime calls of a logical thread.
pub(super) struct CutInput<'s> {
    /// Pieces of a logical thread.
    pub(super) pieces: &'s [Piece],
    /// Calls with a role on the thread, by start.
    pub(super) marks: &'s [Mark],
    /// Phase per event.
    pub(super) phase: &'s [Phase],
    pub(super) gpu: &'s Gpu,
    /// Marks of event records with a waiter.
    pub(super) waited_records: &'s FxHashSet<usize>,
    /// Launches that get a node of their own, because their stream had no work.
    pub(super) starved: &'s FxHashSet<usize>,
}

/// Divide a logical thread into the nodes of the dependency graph.
pub(super) fn cut_into_nodes(source: &CutInput<'_>) -> Chain {
    let phases = smooth_phases(source);
    let mut cutter = Cutter {
        source,
        chain: Chain { node_of_mark: vec![NO_NODE; source.marks.len()], ..Chain::default() },
        open: None,
        stream: None,
        pending: None,
        next_mark: 0,
    };
    for (piece, phase) in source.pieces.iter().zip(phases) {
        cutter.add_marks_before(piece.start);
        cutter.piece(*piece, phase);
    }
    cutter.add_marks_before(i64::MAX);
    cutter.close();
    cutter.chain
}

/// Phase of each time piece of a logical thread. Pieces of unknown phase between two pieces of one phase get that
/// phase, so that they cause no cut.
fn smooth_phases(source: &CutInput<'_>) -> Vec<Phase> {
    let mut phases: Vec<Phase> = source.pieces.iter().map(|p| source.phase[p.event.index()]).collect();
    let mut known: Option<usize> = None;
    for at in 0..phases.len() {
        if phases[at] == Phase::Other {
            continue;
        }
        if let Some(before) = known.filter(|&b| phases[b] == phases[at]) {
            let phase = phases[at];
            phases[before + 1..at].fill(phase);
        }
        known = Some(at);
    }
    phases
}

/// State of the division of a logical thread into graph nodes: finished nodes, open node, and next cut.
struct Cutter<'s> {
    source: &'s CutInput<'s>,
    chain: Chain,
    open: Option<CpuNode>,
    /// Stream of the open node's launches.
    stream: Option<StreamId>,
    /// Time of the next cut, and the synchronization that the node after the cut follows.
    pending: Option<(i64, Option<usize>)>,
    next_mark: usize,
}

impl Cutter<'_> {
    /// Add a time piece to the open node, and begin new nodes at the calls and scheduled cuts inside the piece.
    fn piece(&mut self, piece: Piece, phase: Phase) {
        self.cut_pending(piece.start);
        self.open_node(piece.thread, phase, piece.start);
        let mut from = piece.start;
        loop {
            let pending = self.pending.map(|(at, _)| at).filter(|&at| at < piece.end);
            let mark = self.source.marks.get(self.next_mark).map(|m| m.start).filter(|&at| at < piece.end);
            match (pending, mark) {
                (Some(at), mark) if mark.is_none_or(|m| at <= m) => {
                    self.push(&piece, from, at);
                    from = from.max(at);
                    self.cut_pending(at);
                }
                (_, Some(at)) => {
                    if self.requires_cut(self.next_mark) {
                        self.push(&piece, from, at);
                        from = from.max(at);
                        self.close();
                    }
                    self.open_node(piece.thread, phase, at);
                    self.add_next_mark();
                }
                _ => break,
            }
            self.open_node(piece.thread, phase, from);
        }
        self.push(&piece, from, piece.end);
    }

    /// Add the calls (marks) that start before a time and lie in no piece to nodes.
    fn add_marks_before(&mut self, at: i64) {
        while let Some(mark) = self.source.marks.get(self.next_mark).filter(|m| m.start < at) {
            self.cut_pending(mark.start);
            if self.requires_cut(self.next_mark) {
                self.close();
            }
            let phase = self.open.as_ref().filter(|o| o.thread == mark.thread).map(|o| o.phase);
            let phase = phase.unwrap_or(self.source.phase[mark.event.index()]);
            self.open_node(mark.thread, phase, mark.start);
            self.add_next_mark();
        }
    }

    /// Open a node that starts at a time, unless one is open for this thread and phase.
    fn open_node(&mut self, thread: u32, phase: Phase, at: i64) {
        if self.open.as_ref().is_some_and(|o| o.thread == thread && o.phase == phase) {
            return;
        }
        // A synchronization that cut here remains the reason for the following node, on any thread.
        let sync = self.open.as_ref().filter(|o| self.is_blank(o)).and_then(|o| o.sync);
        self.close();
        let first = self.chain.pieces.len();
        self.open = Some(CpuNode { thread, phase, start: at, end: at, pieces: first..first, sync });
    }

    /// True if an open node has no time piece and no call yet.
    fn is_blank(&self, open: &CpuNode) -> bool {
        let number = self.chain.nodes.len() as u32;
        open.pieces.start == self.chain.pieces.len()
            && !self.chain.node_of_mark[..self.next_mark]
                .iter()
                .rev()
                .take_while(|&&n| n >= number)
                .any(|&n| n == number)
    }

    /// True if a new node must begin at the call with this position in the marks: a launch to another stream, or a
    /// synchronization. Changes of phase are handled before.
    fn requires_cut(&self, mark: usize) -> bool {
        let call = &self.source.marks[mark];
        let mut own = Vec::new();
        let streams = launch_streams(call, self.source.gpu, &mut own);
        let changes = streams.len() > 1 || streams.first().is_some_and(|s| self.stream.is_some_and(|o| o != *s));
        match &call.kind {
            MarkKind::Launch(_) | MarkKind::Sync(SyncKind::OwnCopy) => changes || self.source.starved.contains(&mark),
            MarkKind::Sync(_) | MarkKind::StreamWait => true,
            MarkKind::Record => false,
        }
    }

    /// Add the next call (mark) to the open node, and schedule the cut that must follow the call.
    fn add_next_mark(&mut self) {
        let at = self.next_mark;
        self.next_mark += 1;
        let (mark, gpu) = (&self.source.marks[at], self.source.gpu);
        self.chain.node_of_mark[at] = self.chain.nodes.len() as u32;
        if let Some(open) = &mut self.open {
            open.end = open.end.max(mark.start);
        }
        let mut own = Vec::new();
        if let Some(&stream) = launch_streams(mark, gpu, &mut own).first() {
            self.stream = Some(stream);
        }
        match &mark.kind {
            MarkKind::Launch(streams) if streams.len() > 1 => self.pending = Some((mark.end, None)),
            MarkKind::Record if self.source.waited_records.contains(&at) => self.pending = Some((mark.end, None)),
            MarkKind::Sync(SyncKind::OwnCopy) => {
                // The call returns some time after the copy. That time belongs to the following work.
                let copied = gpu.launched_by(mark.event).iter().map(|&op| gpu.ops[op as usize].end).max();
                let until = copied.map_or(mark.end, |end| end.clamp(mark.start, mark.end));
                self.pending = Some((until, Some(at)));
            }
            MarkKind::Sync(_) => {
                if let Some(open) = &mut self.open {
                    open.sync = Some(at);
                }
            }
            MarkKind::Launch(_) | MarkKind::Record | MarkKind::StreamWait => {}
        }
    }

    /// Append the part of a piece between two times to the open node; nothing if that part is empty.
    fn push(&mut self, piece: &Piece, from: i64, to: i64) {
        let (from, to) = (from.max(piece.start), to.min(piece.end));
        if to <= from {
            return;
        }
        self.chain.pieces.push(Piece { start: from, end: to, ..*piece });
        if let Some(open) = &mut self.open {
            open.pieces.end = self.chain.pieces.len();
            open.end = open.end.max(to);
        }
    }

    /// Begin a new node at the scheduled cut if the cut is due by the time `at`.
    fn cut_pending(&mut self, at: i64) {
        let Some((time, sync)) = self.pending.filter(|(time, _)| *time <= at) else { return };
        self.pending = None;
        let Some(last) = self.open.as_ref().map(|o| (o.thread, o.phase)) else { return };
        self.close();
        let first = self.chain.pieces.len();
        let start = time.max(self.chain.nodes.last().map_or(time, |n| n.end));
        self.open = Some(CpuNode { thread: last.0, phase: last.1, start, end: start, pieces: first..first, sync });
    }

    /// Append the open node to the finished nodes, or discard it if it is empty.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        if self.is_blank(&open) {
            return;
        }
        self.stream = None;
        self.chain.nodes.push(open);
    }
}
