//! Critical path by method `hta` with its graph; can be used without the trace.

use super::HtaOptions;
use super::graph::{Edge, Graph, NO_EVENT};
use super::longest_path::LongestPath;
use crate::{EdgeKind, PathEvents, Warning};

/// Critical path of method `hta` with its dependency graph, and the data to present both.
#[derive(Clone, Debug, PartialEq)]
pub struct CriticalPath {
    /// Name of the method, such as `hta`.
    pub method: String,
    /// Version of the method's rules.
    pub rule_set: String,
    /// Settings of the analysis.
    pub options: HtaOptions,
    /// Start of the window in ns since the trace's base.
    pub window_start_ns: i64,
    /// End of the window in ns since the trace's base.
    pub window_end_ns: i64,
    /// Number of events in the analysis, with or without nodes.
    pub rows: usize,
    /// Events of the graph.
    pub events: PathEvents,
    /// Dependency graph.
    pub graph: Graph,
    /// Longest path of the graph.
    pub path: LongestPath,
    /// Warnings for readers.
    pub warnings: Vec<Warning>,
}

impl CriticalPath {
    /// Number of edges of each kind in the whole dependency graph, in the order of [`EdgeKind::ALL`].
    pub fn edges_by_type(&self) -> [(EdgeKind, usize); 5] {
        let mut counts = [0; 5];
        for edge in &self.graph.edges {
            counts[edge.kind as usize] += 1;
        }
        EdgeKind::ALL.map(|kind| (kind, counts[kind as usize]))
    }

    /// Rows of [`Self::events`] that are on the critical path, ascending by event index.
    pub fn path_events(&self) -> Vec<u32> {
        let marks = self.path_marks();
        let mut rows: Vec<u32> = (0..self.events.len() as u32).filter(|&r| marks[r as usize]).collect();
        rows.sort_unstable_by_key(|&r| self.events.index[r as usize]);
        rows
    }

    /// Per row of [`Self::events`]: true if the event has a node on the critical path.
    pub(super) fn path_marks(&self) -> Vec<bool> {
        let mut marks = vec![false; self.events.len()];
        for &node in &self.path.nodes {
            let event = self.graph.nodes.event.get(node as usize).copied().unwrap_or(NO_EVENT);
            if let Some(mark) = marks.get_mut(event as usize) {
                *mark = true;
            }
        }
        marks
    }

    /// Dependency graph edges on the critical path.
    pub fn path_edges(&self) -> impl Iterator<Item = &Edge> + '_ {
        self.path.edges.iter().filter_map(|&e| self.graph.edges.get(e as usize))
    }

    /// Length of the window in ns.
    pub fn window_ns(&self) -> i64 {
        self.window_end_ns.saturating_sub(self.window_start_ns)
    }
}
