//! Report of the critical path of method `hta` as one serializable value, for JSON output.

use super::HtaOptions;
use super::breakdown::Share;
use super::result::CriticalPath;
use crate::{PathPoint, ReportShare, Warning};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of names in [`CriticalPathReport::top`].
const TOP: usize = 20;

/// Document of `critical-path --format json`, without the read report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CriticalPathReport<'a> {
    /// Name of the method, such as `hta`.
    pub method: String,
    /// Version of the method's rules.
    pub rule_set: String,
    /// Settings of the analysis.
    pub options: HtaOptions,
    /// Length of the window in ns.
    pub window_ns: i64,
    /// Start of the window in ns since the trace's base.
    pub window_start_ns: i64,
    /// End of the window in ns since the trace's base.
    pub window_end_ns: i64,
    /// Number of events in the analysis, with or without nodes.
    pub rows: usize,
    /// Number of nodes with an edge.
    pub graph_nodes: usize,
    /// Number of edges of the graph by type.
    pub edges: BTreeMap<String, usize>,
    /// Number of nodes on the path.
    pub path_nodes: usize,
    /// Number of events with a node on the path.
    pub path_events: usize,
    /// Number of edges of the path by type.
    pub path_edges: BTreeMap<String, usize>,
    /// Weight of the path in µs.
    pub weight_us: f64,
    /// Percent of the path's time by cause. Dependencies and synchronization have weight 0 and are excluded.
    pub bound_by: BTreeMap<String, f64>,
    /// Time of the path by cause in µs.
    pub bound_by_us: BTreeMap<String, f64>,
    /// Names with the largest shares of the path.
    pub top: Vec<ReportShare>,
    /// Points of the path.
    pub path: Vec<PathPoint<'a>>,
    /// Warnings for readers.
    pub warnings: Vec<Warning>,
}

impl CriticalPath {
    /// Build the serializable report of a critical path, with all points of the path.
    pub fn report(&self) -> CriticalPathReport<'_> {
        CriticalPathReport { path: self.points().collect(), ..self.summary() }
    }

    /// Build the report without the points of the path, which are most of its size.
    pub fn summary(&self) -> CriticalPathReport<'static> {
        let mut bounds = self.breakdown().bound_by;
        // Dependencies and synchronization have weight 0.
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

    /// Iterate over the points of the path: starts and ends of events, in path order.
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

/// Convert a share of the breakdown into a share of the report.
fn report_share(share: Share) -> ReportShare {
    ReportShare { name: share.name, weight_us: share.weight_us, percent: share.percent, edges: share.edges }
}
