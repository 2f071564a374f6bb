//! Critical path after an edit: backward pass over the binding dependencies of the replayed times.

use super::super::Exact;
use super::super::category::{Categories, Category, lag_category};
use super::super::graph::{Dependency, NONE, NodeKind};
use super::super::sampled_waits::HostPart;
use super::apply::Applied;
use super::lags::Mode;
use super::replay::Plan;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, StrId};

/// Critical path after the edits: time by cause, and names with the most time.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPath {
    /// Time per category in ns, in the order of [`Category::ALL`], including zeros.
    pub by_category: [(Category, i64); 14],
    /// Names with most time: name, category, ns; largest first.
    pub top: Vec<(String, Category, i64)>,
}

/// Critical-path segment after an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewSegment {
    /// End after the edit, in ns since the start of the window.
    pub end_ns: i64,
    /// Cause.
    pub category: Category,
    /// Name of the event; none for time without event.
    pub name: StrId,
}

impl NewPath {
    /// Cause with the most time on the critical path after the edits; `None` for an empty path.
    pub fn bound_by(&self) -> Option<Category> {
        let most = self.by_category.iter().filter(|(_, ns)| *ns > 0).max_by_key(|(c, ns)| (*ns, std::cmp::Reverse(*c)));
        most.map(|(category, _)| *category)
    }
}

/// Maximum number of names in [`NewPath::top`].
const TOP: usize = 20;

/// End of a critical path after the edits. Given are the node, the observed time in ns at which the window ends, and
/// the length of the window after the edits.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub(super) node: u32,
    pub(super) at: i64,
    pub(super) length: i64,
}

/// State of the backward pass after the edits: remaining length, and time by cause and name so far.
struct Walk<'e, 'a> {
    exact: &'e Exact<'a>,
    plan: &'e Plan,
    applied: &'e Applied,
    shifts: &'e [i64],
    categories: Categories<'e>,
    left: i64,
    by_category: [(Category, i64); 14],
    by_name: FxHashMap<(Category, StrId), i64>,
    /// Segments, latest first, if requested.
    segments: Option<&'e mut Vec<NewSegment>>,
}

/// Find the critical path after the edits that leads to an end, by replayed times. `segments` receives the path's
/// segments, if requested.
pub(super) fn path(
    exact: &Exact<'_>,
    plan: &Plan,
    (applied, shifts): (&Applied, &[i64]),
    end: End,
    segments: Option<&mut Vec<NewSegment>>,
) -> NewPath {
    let mut walk = Walk {
        exact,
        plan,
        applied,
        shifts,
        categories: Categories::new(exact),
        left: end.length,
        by_category: Category::ALL.map(|c| (c, 0)),
        by_name: FxHashMap::default(),
        segments,
    };
    walk.run(end);
    walk.charge(Category::Unknown, EventId::NONE, i64::MAX);
    let mut top: Vec<(String, Category, i64)> = walk
        .by_name
        .iter()
        .map(|(&(category, name), &ns)| (display_name(exact.trace.strings.get(name)).to_owned(), category, ns))
        .collect();
    top.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| (a.1, &a.0).cmp(&(b.1, &b.0))));
    top.truncate(TOP);
    if let Some(segments) = walk.segments {
        segments.reverse();
    }
    NewPath { by_category: walk.by_category, top }
}

impl Walk<'_, '_> {
    /// End time of a node after the edits, in ns.
    fn new_end(&self, node: u32) -> i64 {
        self.exact.graph.end[node as usize] + self.shift(node)
    }

    /// Shift of a node's end by the edits, in ns.
    fn shift(&self, node: u32) -> i64 {
        self.shifts[self.plan.position[node as usize] as usize]
    }

    /// Start time of a node after the edits, in ns.
    fn new_start(&self, node: u32) -> i64 {
        let shift = self.plan.start_shift(&self.applied.changes, self.plan.position[node as usize], self.shifts);
        self.exact.graph.start[node as usize] + shift
    }

    /// Walk backward from the end of the path by the binding dependencies, and assign all time to causes and names.
    fn run(&mut self, end: End) {
        let mut node = end.node;
        if node == NONE {
            return;
        }
        let past = end.at - self.exact.graph.end[node as usize];
        self.charge(Category::Unknown, EventId::NONE, past.max(0));
        // Time after the edits by which the node's end lies beyond the path.
        let mut skip = match past {
            0.. => 0,
            _ => self.skipped(node, end.at),
        };
        for _ in 0..self.plan.len() {
            self.inside(node, skip);
            if self.left <= 0 {
                return;
            }
            let Some((from, dependency)) = self.binding_dependency(node) else { return };
            let start = self.new_start(node);
            let lag = start - self.new_end(from);
            if lag > 0 {
                let event = self.event_of(node);
                self.charge(lag_category(dependency, lag), event, lag);
            }
            skip = (-lag).max(0).min(self.new_end(from) - self.new_start(from));
            node = from;
        }
    }

    /// Length in ns, after the edits, of the part of the last node that lies after the end of the path.
    fn skipped(&self, node: u32, at: i64) -> i64 {
        let graph = &self.exact.graph;
        let end = graph.end[node as usize];
        match graph.kind[node as usize] {
            NodeKind::Host => end - at + self.applied.host.change(graph.place[node as usize], at, end),
            _ => end - at,
        }
    }

    /// Binding dependency of a node in the replayed times, with the node that it depends on; `None` without dependency.
    fn binding_dependency(&self, node: u32) -> Option<(u32, Dependency)> {
        let graph = &self.exact.graph;
        let at = self.plan.position[node as usize];
        let binding = graph.binding[node as usize];
        let mut best: Option<((i64, bool), u32, Dependency)> = None;
        for i in self.plan.range(at) {
            let edge = self.plan.edge(i);
            let Some(dependency) = graph.edges.get(edge.edge as usize).map(|e| e.dependency) else { continue };
            let Some((term, _)) = self.plan.term(&self.applied.changes, Mode::Usual, (at, i), self.shifts) else {
                continue;
            };
            let key = (term, edge.edge == binding);
            if best.as_ref().is_none_or(|(k, ..)| key > *k) {
                best = Some((key, self.plan.node[edge.from as usize], dependency));
            }
        }
        for &(from, slack) in self.applied.changes.extra.get(&at).into_iter().flatten() {
            if from == NONE {
                continue;
            }
            let key = (self.shifts[from as usize] - slack, false);
            if best.as_ref().is_none_or(|(k, ..)| key > *k) {
                let from = self.plan.node[from as usize];
                let launches = graph.kind[from as usize] != NodeKind::Gpu && graph.kind[node as usize] == NodeKind::Gpu;
                best = Some((key, from, if launches { Dependency::Launch } else { Dependency::Stream }));
            }
        }
        best.map(|(_, from, dependency)| (from, dependency))
    }

    /// Event of a node: the GPU operation, or the call that waited; none for other host work.
    fn event_of(&self, node: u32) -> EventId {
        let graph = &self.exact.graph;
        match graph.kind[node as usize] {
            NodeKind::Gpu => self.exact.trace.gpu.event[graph.place[node as usize] as usize],
            _ => graph.call[node as usize],
        }
    }

    /// Assign the time of a node after the edits, without its last `skip` ns, to causes and names.
    fn inside(&mut self, node: u32, skip: i64) {
        let graph = &self.exact.graph;
        let kind = graph.kind[node as usize];
        let time = self.new_end(node) - self.new_start(node) - skip;
        let event = self.event_of(node);
        match kind {
            NodeKind::Host => self.host(node, skip),
            NodeKind::Gpu => {
                let category = self.categories.gpu_category(event);
                self.charge(category, event, time);
            }
            NodeKind::SyncReturn | NodeKind::Resume => self.charge(Categories::return_category(kind), event, time),
        }
    }

    /// Assign the time of a host node after the edits, without its last `skip` ns, to its innermost spans.
    fn host(&mut self, node: u32, mut skip: i64) {
        let exact = self.exact;
        let number = exact.graph.place[node as usize];
        let (start, mut end) = (exact.graph.start[node as usize], exact.graph.end[node as usize]);
        let lane = &exact.lanes[number as usize];
        let Some(mut piece) = lane.piece_before(end) else { return };
        loop {
            let from = lane.pieces[piece].start.max(start);
            let event = lane.pieces[piece].event;
            let (category, evidence) = self.categories.host_category(number as usize, event);
            let whole = HostPart { start: from, end, category, evidence, rule: "" };
            for part in exact.host_parts(number as usize, whole).rev() {
                let time = part.end - part.start + self.applied.host.change(number, part.start, part.end);
                let skipped = skip.min(time);
                skip -= skipped;
                self.charge(part.category, event, time - skipped);
            }
            end = from;
            if from <= start || piece == 0 || self.left <= 0 {
                break;
            }
            piece -= 1;
        }
    }

    /// Add time to a cause and to the name of an event, at most the remaining length of the path.
    fn charge(&mut self, category: Category, event: EventId, ns: i64) {
        let ns = ns.min(self.left);
        if ns <= 0 {
            return;
        }
        let name = if event.is_some() { self.exact.trace.events.name[event.index()] } else { StrId::NONE };
        if let Some(segments) = &mut self.segments
            && segments.last().is_none_or(|later| (later.category, later.name) != (category, name))
        {
            segments.push(NewSegment { end_ns: self.left, category, name });
        }
        self.left -= ns;
        self.by_category[category as usize].1 += ns;
        *self.by_name.entry((category, name)).or_default() += ns;
    }
}

/// Name of time without event.
const NAMELESS: &str = "(between spans)";

/// Name to display for time on the path; a placeholder for time without event.
pub(super) fn display_name(name: &str) -> &str {
    if name.is_empty() { NAMELESS } else { name }
}
