//! The critical path as one serialisable value, for JSON output.

use super::hta::HtaOptions;
use super::{CriticalPath, Share, Warning};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// How many names [`CriticalPathReport::top`] lists.
const TOP: usize = 20;

/// A point of the path. Its fields stand in the order of documents, by the alphabet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathPoint<'a> {
    /// `start` or `end`.
    pub at: Cow<'a, str>,
    /// Position of the event in the source's event list: HTA's event index.
    pub event: u32,
    /// Name of the event.
    pub name: Cow<'a, str>,
    /// Time in ns since the start of the window.
    pub time_ns: i64,
    /// Where it happened.
    pub track: Cow<'a, str>,
}

/// A share of the path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportShare {
    /// Name of the events.
    pub name: String,
    /// Summed weight in µs.
    pub weight_us: f64,
    /// Of the sum over the path, in percent.
    pub percent: f64,
    /// Number of edges.
    pub edges: usize,
}

/// What `critical-path --format json` prints, except the read report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CriticalPathReport<'a> {
    /// How the path was found, such as `hta`.
    pub method: String,
    /// Version of the method's rules.
    pub rule_set: String,
    /// Settings.
    pub options: HtaOptions,
    /// Length of the window in ns.
    pub window_ns: i64,
    /// Start of the window in ns since the trace's base.
    pub window_start_ns: i64,
    /// End of the window in ns since the trace's base.
    pub window_end_ns: i64,
    /// Events that took part, with nodes or not.
    pub rows: usize,
    /// Nodes that have an edge.
    pub graph_nodes: usize,
    /// Edges of the graph by type.
    pub edges: BTreeMap<String, usize>,
    /// Nodes on the path.
    pub path_nodes: usize,
    /// Events with a node on the path.
    pub path_events: usize,
    /// Edges of the path by type.
    pub path_edges: BTreeMap<String, usize>,
    /// Weight of the path in µs.
    pub weight_us: f64,
    /// What the path's time is bound by, in percent. Dependencies and synchronisation weigh nothing and are left out.
    pub bound_by: BTreeMap<String, f64>,
    /// The same in µs.
    pub bound_by_us: BTreeMap<String, f64>,
    /// Names with the largest shares.
    pub top: Vec<ReportShare>,
    /// The path.
    pub path: Vec<PathPoint<'a>>,
    /// What the reader should know.
    pub warnings: Vec<Warning>,
}

impl CriticalPath {
    /// The path as one serialisable value.
    pub fn report(&self) -> CriticalPathReport<'_> {
        CriticalPathReport { path: self.points().collect(), ..self.summary() }
    }

    /// The report without the points of the path, which are most of it.
    pub fn summary(&self) -> CriticalPathReport<'static> {
        let mut bounds = self.breakdown().bound_by;
        // Dependencies and synchronisation weigh nothing.
        bounds.retain(|s| !s.name.is_empty());
        let mut path_edges = BTreeMap::new();
        for edge in self.path_edges() {
            *path_edges.entry(edge.kind.name().to_owned()).or_default() += 1;
        }
        let by = |value: fn(&Share) -> f64| bounds.iter().map(|s| (s.name.clone(), value(s))).collect();
        CriticalPathReport {
            method: self.method.clone(),
            rule_set: self.rule_set.clone(),
            options: self.options.clone(),
            window_ns: self.window_ns(),
            window_start_ns: self.window_start_ns,
            window_end_ns: self.window_end_ns,
            rows: self.rows,
            graph_nodes: self.graph.connected_nodes(),
            edges: self.edges_by_type().iter().map(|&(kind, n)| (kind.name().to_owned(), n)).collect(),
            path_nodes: self.path.nodes.len(),
            path_events: self.path_marks().into_iter().filter(|&m| m).count(),
            path_edges,
            weight_us: self.path.weight_us,
            bound_by: by(|s| s.percent),
            bound_by_us: by(|s| s.weight_us),
            top: self.top_names().into_iter().take(TOP).map(report_share).collect(),
            path: Vec::new(),
            warnings: self.warnings.clone(),
        }
    }

    /// The points of the path, made one at a time.
    pub fn points(&self) -> impl Iterator<Item = PathPoint<'_>> {
        let nodes = &self.graph.nodes;
        let point = |n: usize| {
            let event = nodes.event[n];
            PathPoint {
                at: if nodes.is_start[n] { "start" } else { "end" }.into(),
                event: self.events.index.get(event as usize).copied().unwrap_or(u32::MAX),
                name: self.events.name(event).into(),
                time_ns: nodes.time_ns[n].saturating_sub(self.window_start_ns),
                track: self.events.track_label(event).into(),
            }
        };
        self.path.nodes.iter().map(|&n| n as usize).filter(|&n| n < nodes.len()).map(point)
    }
}

fn report_share(share: Share) -> ReportShare {
    ReportShare { name: share.name, weight_us: share.weight_us, percent: share.percent, edges: share.edges }
}
