//! Report of the critical path as one serializable value, for JSON output, and as tables. Keys that also occur in HTA's
//! report have the same meaning.

use super::hotspots::percent;
use super::{CtdaOptions, CtdaPath, Hotspot};
use crate::Warning;
use serde::{Deserialize, Serialize};
use stackline_model::{Table, Unit};
use stackline_timeline::phase_rules::Phase;
use std::collections::BTreeMap;

/// Node of the critical path in the report. Fields are in alphabetical order, as in the JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportNode {
    /// End of the part that counts, in ns since the start of the window.
    pub end_ns: i64,
    /// Time in which events of the node ran, in ns.
    pub executed_ns: i64,
    /// Name of the event with the most time in the node.
    pub mostly: String,
    /// Number of the node in the graph.
    pub node: u32,
    /// Phase of the node.
    pub phase: Phase,
    /// `cpu` or `gpu`.
    pub resource: String,
    /// Start of the part that counts, in ns since the start of the window.
    pub start_ns: i64,
    /// Track of the node.
    pub track: String,
    /// Kind of the edge from the previous node; `None` for the first.
    pub via: Option<String>,
}

/// Hotspot of the critical path in the report. Fields are in alphabetical order, as in the JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportHotspot {
    /// Category as in the source.
    pub category: String,
    /// Effective time on the path in ns.
    pub duration_ns: i64,
    /// Name.
    pub name: String,
    /// Percent of the window.
    pub prop_in_total: f64,
    /// Percent of the path's executed time.
    pub proportion: f64,
}

/// Document of `critical-path --method ctda --format json`, without the read report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CtdaReport {
    /// Name of the method: `ctda`.
    pub method: String,
    /// Version of the method's rules.
    pub rule_set: String,
    /// Settings of the analysis.
    pub options: CtdaOptions,
    /// Length of the window in ns.
    pub window_ns: i64,
    /// Start of the window in ns since the trace's base.
    pub window_start_ns: i64,
    /// End of the window in ns since the trace's base.
    pub window_end_ns: i64,
    /// Number of events in the analysis.
    pub rows: usize,
    /// Number of nodes of the graph.
    pub graph_nodes: usize,
    /// Number of edges of the graph by kind.
    pub edges: BTreeMap<String, usize>,
    /// Number of nodes on the path.
    pub path_nodes: usize,
    /// Number of events with time on the path.
    pub path_events: usize,
    /// Number of edges of the path by kind.
    pub path_edges: BTreeMap<String, usize>,
    /// Executed time of the path in µs.
    pub weight_us: f64,
    /// Executed time of the path divided by the length of the window.
    pub cpcr: f64,
    /// Percent of the path's executed time by cause.
    pub bound_by: BTreeMap<String, f64>,
    /// Executed time by cause in µs.
    pub bound_by_us: BTreeMap<String, f64>,
    /// Executed time of the path in µs by phase of its nodes.
    pub phases_us: BTreeMap<String, f64>,
    /// Hotspots, largest first.
    pub hotspots: Vec<ReportHotspot>,
    /// Nodes of the path.
    pub path: Vec<ReportNode>,
    /// Warnings for readers.
    pub warnings: Vec<Warning>,
}

/// Convert ns to µs.
fn us(ns: i64) -> f64 {
    ns as f64 / 1e3
}

impl CtdaPath {
    /// Build the serializable report of a critical path of method `ctda`.
    pub fn report(&self) -> CtdaReport {
        let executed = self.executed_ns();
        let bounds = self.bound_by_ns();
        let mut path_edges = BTreeMap::new();
        for kind in self.steps.iter().filter_map(|s| s.via) {
            *path_edges.entry(kind.name().to_owned()).or_default() += 1;
        }
        let mut on_path: Vec<u32> = self.path_pieces().map(|(_, p)| p.event).collect();
        on_path.sort_unstable();
        on_path.dedup();
        let hotspot = |h: Hotspot| ReportHotspot {
            name: h.name,
            category: h.category,
            duration_ns: h.duration_ns,
            proportion: h.proportion,
            prop_in_total: h.prop_in_total,
        };
        CtdaReport {
            method: Self::METHOD.to_owned(),
            rule_set: self.rule_set().to_owned(),
            options: self.options.clone(),
            window_ns: self.window_ns(),
            window_start_ns: self.window_start_ns,
            window_end_ns: self.window_end_ns,
            rows: self.rows,
            graph_nodes: self.graph.nodes.len(),
            edges: self.graph.edges_by_kind().iter().map(|&(kind, n)| (kind.name().to_owned(), n)).collect(),
            path_nodes: self.steps.len(),
            path_events: on_path.len(),
            path_edges,
            weight_us: us(executed),
            cpcr: self.cpcr(),
            bound_by: bounds.iter().map(|&(name, ns)| (name.to_owned(), percent(ns, executed))).collect(),
            bound_by_us: bounds.iter().map(|&(name, ns)| (name.to_owned(), us(ns))).collect(),
            phases_us: self.phases().iter().map(|&(phase, ns)| (phase.name().to_owned(), us(ns))).collect(),
            hotspots: self.hotspots().into_iter().map(hotspot).collect(),
            path: self.path_nodes(),
            warnings: self.warnings.clone(),
        }
    }

    /// Nodes of the critical path for the report, in path order, with executed time and most frequent event name.
    fn path_nodes(&self) -> Vec<ReportNode> {
        let mut pieces = self.path_pieces().peekable();
        let mut rows = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let Some(node) = self.graph.nodes.get(step.node as usize) else { continue };
            let mut sums: Vec<(u32, i64)> = Vec::new();
            while let Some((_, piece)) = pieces.next_if(|(of, _)| of.node == step.node) {
                let name = self.events.name.get(piece.event as usize).copied().unwrap_or(u32::MAX);
                sums.push((name, piece.end_ns - piece.start_ns));
            }
            let executed_ns = sums.iter().map(|s| s.1).sum();
            rows.push(ReportNode {
                node: step.node,
                resource: if node.is_gpu { "gpu" } else { "cpu" }.to_owned(),
                phase: node.phase,
                track: self.events.tracks.get(node.track as usize).map(|t| t.label.clone()).unwrap_or_default(),
                start_ns: step.from_ns.saturating_sub(self.window_start_ns),
                end_ns: step.to_ns.saturating_sub(self.window_start_ns),
                executed_ns,
                via: step.via.map(|kind| kind.name().to_owned()),
                mostly: self.largest_name(sums),
            });
        }
        rows
    }

    /// Name with the largest total time in a list of (row of the name, time in ns). Ties go to the alphabetically first
    /// name.
    fn largest_name(&self, mut sums: Vec<(u32, i64)>) -> String {
        sums.sort_unstable();
        sums.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0 };
            same
        });
        let named = sums.iter().filter_map(|&(name, ns)| self.events.names.get(name as usize).map(|n| (ns, n)));
        named.max_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.cmp(a.1))).map(|(_, n)| n.clone()).unwrap_or_default()
    }
}

impl CtdaReport {
    /// Report as tables: hotspots, phases, edges and nodes of the path.
    pub fn tables(&self) -> Vec<Table> {
        let spots = &self.hotspots;
        let executed: f64 = self.weight_us;
        let share = |us: f64| if executed > 0.0 { us / executed * 100.0 } else { 0.0 };
        let phases: Vec<(&str, f64)> =
            Phase::ALL.iter().map(|p| (p.name(), self.phases_us.get(p.name()).copied().unwrap_or(0.0))).collect();
        let path = &self.path;
        vec![
            Table::new("hotspots", "Hotspots of the critical path")
                .text("name", spots.iter().map(|h| h.name.clone()))
                .text("category", spots.iter().map(|h| h.category.clone()))
                .i64("duration", Unit::Ns, spots.iter().map(|h| h.duration_ns))
                .f64("proportion", Unit::Percent, spots.iter().map(|h| h.proportion))
                .f64("prop_in_total", Unit::Percent, spots.iter().map(|h| h.prop_in_total)),
            Table::new("phases", "Execution time on the critical path, by phase")
                .text("phase", phases.iter().map(|p| p.0.to_owned()))
                .f64("percent", Unit::Percent, phases.iter().map(|p| share(p.1)))
                .f64("weight_us", Unit::Us, phases.iter().map(|p| p.1)),
            Table::new("edges", "Dependency edges by type, in the graph and on the critical path")
                .text("type", self.edges.keys().cloned())
                .i64("edges", Unit::None, self.edges.values().map(|&n| n as i64))
                .i64("on_path", Unit::None, self.edges.keys().map(|k| self.path_edges.get(k).map_or(0, |&n| n as i64))),
            Table::new("critical_path", "Nodes of the critical path in time order")
                .text("resource", path.iter().map(|n| n.resource.clone()))
                .text("phase", path.iter().map(|n| n.phase.name().to_owned()))
                .text("track", path.iter().map(|n| n.track.clone()))
                .i64("start_ns", Unit::Ns, path.iter().map(|n| n.start_ns))
                .i64("end_ns", Unit::Ns, path.iter().map(|n| n.end_ns))
                .i64("executed_ns", Unit::Ns, path.iter().map(|n| n.executed_ns))
                .text("via", path.iter().map(|n| n.via.clone().unwrap_or_default()))
                .text("mostly", path.iter().map(|n| n.mostly.clone())),
        ]
    }
}
