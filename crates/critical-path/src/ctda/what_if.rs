//! What-if of method `ctda`: replay of the nodes in dependency order with edited times, then a new search for the path.

use super::graph::{CtdaEdge, CtdaEdgeKind, CtdaGraph};
use super::{CtdaPath, path};
use crate::{Change, EdgeKind, Edit, Resource, Selector};
use stackline_model::vocabulary::matches;

impl CtdaPath {
    /// Dependency graph and critical path after some edits, applied in sequence. The end of the window shifts by the
    /// same time as the end of the last node.
    ///
    /// Edits of `cpu` and `gpu` change the time of events in all nodes. Edits of `launch` change the time from the end
    /// of a launch call to its work. Edits of `gap` change the time between nodes of one stream, and edits of `all`
    /// change all three. Other delays keep their observed length. Without edits every time stays.
    #[must_use]
    pub fn apply(&self, edits: &[Edit]) -> Self {
        let mut replay = Replay::new(self, edits);
        for node in dependency_order(&self.graph) {
            replay.replay_node(node);
        }
        let ends = |graph: &CtdaGraph| graph.nodes.iter().map(|n| n.end_ns).max();
        let mut result = self.clone();
        result.graph = replay.finish();
        let shift = ends(&result.graph).zip(ends(&self.graph)).map_or(0, |(new, old)| new - old);
        result.window_end_ns = result.window_end_ns.saturating_add(shift).max(result.window_start_ns);
        result.steps = path::search(&result.graph).0;
        result
    }

    /// For each event: true if a selector matches it, so that the edit changes its time.
    fn selected(&self, select: &Selector) -> Vec<bool> {
        let named: Option<Vec<bool>> =
            select.name.as_ref().map(|pattern| self.events.names.iter().map(|n| matches(pattern, n)).collect());
        let fits = |row: u32| {
            let name = self.events.name.get(row as usize).map_or(usize::MAX, |&n| n as usize);
            (select.kinds.is_empty() || select.kinds.contains(&EdgeKind::OperatorKernel))
                && select.resource.is_none_or(|r| self.events.is_gpu(row) == (r == Resource::Gpu))
                && named.as_ref().is_none_or(|n| n.get(name).copied().unwrap_or(false))
        };
        (0..self.events.len() as u32).map(fits).collect()
    }
}

/// Graph nodes in dependency order, so that prerequisites come first. If contradicting times make nodes wait for each
/// other in a cycle, the first by time is placed as if it did not wait.
fn dependency_order(graph: &CtdaGraph) -> Vec<u32> {
    let count = graph.nodes.len();
    let mut open: Vec<u32> = vec![0; count];
    let mut followers: Vec<Vec<u32>> = vec![Vec::new(); count];
    for edge in &graph.edges {
        open[edge.to as usize] += 1;
        followers[edge.from as usize].push(edge.to);
    }
    let mut by_time: Vec<u32> = (0..count as u32).collect();
    by_time.sort_by_key(|&n| (graph.nodes[n as usize].start_ns, n));
    let mut placed = vec![false; count];
    let mut order: Vec<u32> = Vec::with_capacity(count);
    let mut ready: Vec<u32> = by_time.iter().rev().copied().filter(|&n| open[n as usize] == 0).collect();
    let mut circles = by_time.iter().copied();
    loop {
        let next = ready.pop().or_else(|| circles.find(|&n| !placed[n as usize]));
        let Some(node) = next else { return order };
        if std::mem::replace(&mut placed[node as usize], true) {
            continue;
        }
        order.push(node);
        for &follower in &followers[node as usize] {
            open[follower as usize] = open[follower as usize].saturating_sub(1);
            if open[follower as usize] == 0 {
                ready.push(follower);
            }
        }
    }
}

/// Apply a what-if change to a duration or delay in ns.
fn changed(value: i64, change: Change) -> i64 {
    let new = match change {
        Change::Scale(factor) => value as f64 * factor,
        Change::Set(us) => us * 1e3,
    };
    if new.is_finite() { new.round().max(0.0) as i64 } else { value }
}

/// Recomputation of all node times after edits, in dependency order.
struct Replay<'a> {
    old: &'a CtdaGraph,
    new: CtdaGraph,
    edits: &'a [Edit],
    /// Per edit and event: true if selected.
    selected: Vec<Vec<bool>>,
    done: Vec<bool>,
}

impl<'a> Replay<'a> {
    /// Start a recomputation with the observed times, and find the events that each edit selects.
    fn new(path: &'a CtdaPath, edits: &'a [Edit]) -> Self {
        let selected = edits.iter().map(|e| path.selected(&e.select)).collect();
        Self { old: &path.graph, new: path.graph.clone(), edits, selected, done: vec![false; path.graph.nodes.len()] }
    }

    /// Compute a node's new start and end from the new times of its prerequisites.
    fn replay_node(&mut self, number: u32) {
        let node = &self.old.nodes[number as usize];
        let edges = self.old.edges_into(number);
        let waits = |e: &&CtdaEdge| e.kind == CtdaEdgeKind::Sync && !node.is_gpu;
        let order: Vec<&CtdaEdge> = edges.iter().filter(|e| !waits(e) && self.done[e.from as usize]).collect();
        // The binding prerequisite keeps its delay. The others must only not come later.
        let binding = order.iter().max_by_key(|e| (e.at_ns, std::cmp::Reverse((e.kind, e.from)))).copied();
        let mut start = match binding {
            Some(edge) => {
                let delay = self.delay(edge, node.start_ns.saturating_sub(edge.at_ns).max(0));
                self.new_edge_end(edge).saturating_add(delay)
            }
            None => node.start_ns,
        };
        start = order.iter().map(|e| self.new_edge_end(e)).fold(start, i64::max);
        let old_waits = edges.iter().filter(waits).map(|e| e.at_ns);
        let called = node.sync_ns.unwrap_or(i64::MAX);
        let old_base = old_waits.filter(|&at| at > called).fold(node.start_ns, i64::max).min(node.end_ns);
        let base = edges
            .iter()
            .filter(waits)
            .filter(|e| self.done[e.from as usize])
            .map(|e| self.new_edge_end(e))
            .fold(start, i64::max);
        self.move_node(number, (old_base, start, base));
        self.done[number as usize] = true;
    }

    /// Delay in ns of a node's start after its binding edge's end, after the edits. `observed` is the recorded delay.
    fn delay(&self, edge: &CtdaEdge, observed: i64) -> i64 {
        let on_gpu = self.old.nodes[edge.to as usize].is_gpu;
        let kind = match edge.kind {
            CtdaEdgeKind::Call => EdgeKind::KernelLaunchDelay,
            CtdaEdgeKind::Sequence if on_gpu => EdgeKind::KernelKernelDelay,
            _ => return observed,
        };
        let about = |e: &&Edit| {
            let (kinds, select) = (&e.select.kinds, &e.select);
            (kinds.is_empty() || kinds.contains(&kind)) && select.name.is_none() && select.resource.is_none()
        };
        self.edits.iter().filter(about).fold(observed, |delay, edit| changed(delay, edit.change))
    }

    /// Set the new times of a node and its pieces: move them by the distance from `old_base` to `base`, and apply the
    /// edits to their lengths. The node starts at `start`.
    fn move_node(&mut self, number: u32, (old_base, start, base): (i64, i64, i64)) {
        let node = &self.old.nodes[number as usize];
        let first = node.first_piece as usize;
        let mut shift = base - old_base;
        for at in first..first + node.pieces as usize {
            let piece = self.old.pieces[at];
            // Time before the base is a wait, whose length follows from the other times.
            let begin = piece.start_ns.max(old_base).min(piece.end_ns);
            let length = self.edited(piece.event, piece.end_ns - begin);
            let new = &mut self.new.pieces[at];
            new.end_ns = begin + shift + length;
            new.start_ns = if piece.start_ns < old_base { start.min(new.end_ns) } else { begin + shift };
            shift += length - (piece.end_ns - begin);
        }
        let new = &mut self.new.nodes[number as usize];
        new.sync_ns = node.sync_ns.map(|called| start.saturating_sub(node.start_ns.saturating_sub(called)));
        new.start_ns = start;
        new.end_ns = (node.end_ns + shift).max(start);
    }

    /// Length in ns of a piece of an event after all edits that select the event.
    fn edited(&self, event: u32, length: i64) -> i64 {
        let chosen =
            self.edits.iter().zip(&self.selected).filter(|(_, s)| s.get(event as usize).copied().unwrap_or(false));
        chosen.fold(length, |length, (edit, _)| changed(length, edit.change))
    }

    /// Time of an edge's effective end after the edits, in ns.
    fn new_edge_end(&self, edge: &CtdaEdge) -> i64 {
        let (old, new) = (&self.old.nodes[edge.from as usize], &self.new.nodes[edge.from as usize]);
        let (before, after) = (self.old.pieces_of(old), self.new.pieces_of(new));
        // The last piece that begins before the point moves it.
        let next = before.partition_point(|p| p.start_ns < edge.at_ns);
        let Some(at) = next.checked_sub(1) else { return edge.at_ns - old.start_ns + new.start_ns };
        if edge.at_ns > before[at].end_ns {
            return after[at].end_ns + (edge.at_ns - before[at].end_ns);
        }
        let left = before[at].end_ns - edge.at_ns;
        let (old_length, new_length) = (before[at].end_ns - before[at].start_ns, after[at].end_ns - after[at].start_ns);
        if left == 0 || old_length == 0 {
            return after[at].end_ns;
        }
        after[at].end_ns - (left as f64 * (new_length as f64 / old_length as f64)).round() as i64
    }

    /// Return the graph with the new times, after the edges got the new effective ends of their sources.
    fn finish(mut self) -> CtdaGraph {
        let moved: Vec<i64> = self.old.edges.iter().map(|e| self.new_edge_end(e)).collect();
        for (edge, at_ns) in self.new.edges.iter_mut().zip(moved) {
            edge.at_ns = at_ns;
        }
        self.new
    }
}
