//! Report of the critical path of method "exact" as one serializable value.

use super::category::Category;
use super::path::ExactPath;
use super::reliability::contradicted_clocks;
use super::summary::{SummaryLine, summarize};
use super::warning::ExactWarning;
use super::{Exact, NodeKind, Window};
use crate::ReportShare;
use rustc_hash::FxHashMap;
use serde::Serialize;
use stackline_model::StrId;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Maximum number of names in [`ExactReport::top`].
const TOP: usize = 20;

/// Document of `critical-path --method exact --format json`, without the read report and the full path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExactReport {
    /// Name of the method: `exact`.
    pub method: &'static str,
    /// Length of the window in ns.
    pub window_ns: i64,
    /// Start of the window in ns since the trace's base.
    pub window_start_ns: i64,
    /// End of the window in ns since the trace's base.
    pub window_end_ns: i64,
    /// Length of the path in ns, equal to that of the window.
    pub path_ns: i64,
    /// Length of the path in µs, under HTA's name.
    pub weight_us: f64,
    /// Number of nodes of the dependency graph.
    pub graph_nodes: usize,
    /// Number of edges of the graph by rule.
    pub edges: BTreeMap<&'static str, usize>,
    /// Number of segments of the path.
    pub path_nodes: usize,
    /// Number of events on the path.
    pub path_events: usize,
    /// Percent of the window per cause, without causes of length 0.
    pub bound_by: BTreeMap<&'static str, f64>,
    /// Time per cause in ns.
    pub bound_by_ns: BTreeMap<&'static str, i64>,
    /// Time with an inferred instead of a recorded cause in ns, including time of unknown cause.
    pub inferred_ns: i64,
    /// Inferred time by rule in ns, without time of unknown cause. `gap` and `innermost_span` are host time with a
    /// possible wait; `wait_samples` are waits that samples of blocked threads show.
    pub inferred_by_rule_ns: BTreeMap<&'static str, i64>,
    /// Names with the most time on the path. Time without event is under its cause, such as `(no event: host_python)`.
    pub top: Vec<ReportShare>,
    /// Summary of the path in at most 20 lines.
    pub summary: Vec<SummaryLine>,
    /// Warnings for readers.
    pub warnings: Vec<ExactWarning>,
}

impl ExactReport {
    /// Warnings because of which the causes of the path are unreliable; outputs without the other warnings show these.
    pub fn unreliable(&self) -> impl Iterator<Item = &ExactWarning> {
        self.warnings.iter().filter(|warning| warning.is_unreliable)
    }
}

impl Exact<'_> {
    /// Build the serializable report of a critical path of method "exact".
    pub fn report(&self, path: &ExactPath) -> ExactReport {
        let (summary, path_nodes) = summarize(self, path);
        let Window { start, end, .. } = path.window;
        let spent: Vec<(&str, i64)> =
            path.by_category().iter().filter(|(_, ns)| *ns > 0).map(|(c, ns)| (c.name(), *ns)).collect();
        let percent = |ns: i64| 100.0 * ns as f64 / (end - start).max(1) as f64;
        let mut edges = BTreeMap::new();
        for edge in &self.graph.edges {
            *edges.entry(edge.dependency.rule()).or_default() += 1;
        }
        ExactReport {
            method: "exact",
            window_ns: end - start,
            window_start_ns: start,
            window_end_ns: end,
            path_ns: path.length_ns(),
            weight_us: path.length_ns() as f64 / 1e3,
            graph_nodes: self.graph.len(),
            edges,
            path_nodes,
            path_events: self.events_on(path),
            bound_by: spent.iter().map(|&(c, ns)| (c, percent(ns))).collect(),
            bound_by_ns: spent.iter().copied().collect(),
            inferred_ns: path.inferred_ns(),
            inferred_by_rule_ns: path.inferred_by_rule(),
            top: self.top_names(path),
            summary,
            warnings: self.warnings_of(path),
        }
    }

    /// Number of distinct events on a critical path.
    fn events_on(&self, path: &ExactPath) -> usize {
        let mut seen = vec![0u64; self.trace.events.len() / 64 + 1];
        for event in path.segments.iter().filter_map(|h| h.event.some()) {
            seen[event.index() / 64] |= 1 << (event.index() % 64);
        }
        seen.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// Event names with the most time on the path, with their shares. Time without event is listed by its cause.
    fn top_names(&self, path: &ExactPath) -> Vec<ReportShare> {
        let mut named: FxHashMap<StrId, (i64, usize)> = FxHashMap::default();
        let mut nameless = Category::ALL.map(|category| (category, (0, 0)));
        for segment in path.segments.iter() {
            // The event of time with unknown cause is only the next one.
            let event = segment.event.some().filter(|_| segment.category != Category::Unknown);
            let slot: &mut (i64, usize) = match event {
                Some(event) => named.entry(self.trace.events.name[event.index()]).or_default(),
                None => &mut nameless[segment.category as usize].1,
            };
            *slot = (slot.0 + segment.end - segment.start, slot.1 + 1);
        }
        let named = named.into_iter().map(|(name, sum)| (Cow::Borrowed(self.trace.strings.get(name)), sum));
        // Time without event has no name.
        let gaps =
            nameless.into_iter().map(|(category, sum)| (Cow::Owned(format!("(no event: {})", category.name())), sum));
        let mut sums: Vec<(Cow<'_, str>, (i64, usize))> = named.chain(gaps).filter(|(_, sum)| sum.0 > 0).collect();
        sums.sort_by(|a, b| b.1.0.cmp(&a.1.0).then_with(|| a.0.cmp(&b.0)));
        let total = path.window.length_ns().max(1) as f64;
        let share = |(name, (ns, edges)): (Cow<'_, str>, (i64, usize))| ReportShare {
            name: name.into_owned(),
            weight_us: ns as f64 / 1e3,
            percent: 100.0 * ns as f64 / total,
            edges,
        };
        sums.into_iter().take(TOP).map(share).collect()
    }

    /// Warnings about the whole graph, and about the window of this path.
    fn warnings_of(&self, path: &ExactPath) -> Vec<ExactWarning> {
        let mut warnings: Vec<ExactWarning> = contradicted_clocks(self.trace, path.window).into_iter().collect();
        warnings.extend(self.warnings());
        warnings.extend(self.slack_is_unknown(path.window).then_some(ExactWarning {
            code: "slack_unknown",
            count: 1,
            message: "the clocks of host and GPU differ too much, so the slack between host and GPU events is unknown, \
                      and false hotspots are not reported",
            is_unreliable: false,
        }));
        warnings
    }

    /// Warnings about corrected times and unexplained waits of the whole graph, independent of the window.
    pub fn warnings(&self) -> Vec<ExactWarning> {
        let operations = self.graph.kind.iter().filter(|k| **k == NodeKind::Gpu).count();
        let all = [
            (
                "early_kernels",
                self.corrections.early_kernels,
                "GPU operations start before their launch call; the host and GPU clocks disagree",
            ),
            (
                "contradictions",
                self.corrections.contradictions,
                "waits end before the end of the work that they wait for; the host and GPU clocks disagree, or records \
                 are missing",
            ),
            (
                "clocks_disagree",
                self.clocks_disagree.len() as u64,
                "the clocks of host and GPU disagree, so dependencies between host and GPU are inferred, and their \
                 times may be wrong by the difference of the clocks. `stackline doctor` shows the difference; `stackline \
                 what-if` corrects the clocks by a likely offset",
            ),
            (
                "overlong_operations",
                self.overlong.len() as u64,
                "GPU operations end long after the next operation on their stream starts, so their end times are \
                 doubtful; --clip-overlaps ends them at the start of the next operation",
            ),
            (
                "broken_cycles",
                self.graph.broken_cycles,
                "dependencies were removed from the dependency graph, because they formed a cycle",
            ),
            (
                "unexplained_waits",
                self.unexplained_waits,
                "waits of GPU streams have no record of the work that they waited for, so that work is unknown",
            ),
            (
                "awaited_operations_left_out",
                self.left_out,
                "GPU operations that a call waited for are missing from the dependency graph, because each wait \
                 depends only on the 256 operations that ended last",
            ),
            (
                "no_gpu_work",
                u64::from(operations == 0),
                "the window has no GPU work, so the critical path contains host work only",
            ),
        ];
        let warn = |(code, count, message)| ExactWarning { code, count, message, is_unreliable: false };
        let others = all.into_iter().filter(|(_, count, _)| *count > 0).map(warn);
        self.reliability.warnings().chain(others).collect()
    }
}
