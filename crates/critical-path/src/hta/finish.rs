//! Conversion of a finished graph to a result that can be used without the trace.

use super::RULE_SET;
use super::build::Builder;
use super::graph::{Graph, NO_EVENT};
use super::longest_path::{LongestPath, longest_path};
use super::result::CriticalPath;
use super::roi::Roi;
use crate::events::EventsBuilder;
use crate::{CriticalPathError, Warning, WarningCode};

impl Builder<'_> {
    /// Find the longest path of the finished graph, and create the result.
    pub(super) fn finish(mut self, roi: &Roi) -> Result<CriticalPath, CriticalPathError> {
        if self.edges.is_empty() {
            let window_ns = roi.window.1.saturating_sub(roi.window.0).max(0);
            let whole_trace = self.options.annotation.is_empty();
            return Err(CriticalPathError::EmptyGraph { window_ns, rows: roi.kept.len(), whole_trace });
        }
        self.warn(WarningCode::MissingInstances, roi.missing_instances);
        let left_out = self.options.annotation.is_empty() && !self.options.include_last_profiler_step;
        self.warn(WarningCode::LastStepLeftOut, usize::from(left_out && self.view.steps_filtered));
        let has_kernels = self.kept.iter().any(|&row| self.view.stream[row as usize] != -1);
        self.warn(WarningCode::NoGpuWork, usize::from(!has_kernels));
        let mut warnings = std::mem::take(&mut self.warnings);
        let view = self.view;
        let mut events = EventsBuilder::new(self.trace, view.len());
        let mut row_of = |row: u32| events.row_for(row, view.event[row as usize], view.stream[row as usize]);
        let mut nodes = std::mem::take(&mut self.nodes);
        for event in &mut nodes.event {
            *event = row_of(*event);
        }
        let mut edges = std::mem::take(&mut self.edges);
        for edge in edges.iter_mut().filter(|e| e.attributed != NO_EVENT) {
            edge.attributed = row_of(edge.attributed);
        }
        let mut graph = Graph::from_insertions(nodes, edges);
        let negative = graph.edges.iter().filter(|e| e.weight_us < 0.0).count();
        Warning::add(&mut warnings, WarningCode::NegativeWeight, negative as u64);
        let path = search(&mut graph, &mut warnings);
        Ok(CriticalPath {
            method: "hta".to_owned(),
            rule_set: RULE_SET.to_owned(),
            options: self.options.clone(),
            window_start_ns: roi.window.0,
            window_end_ns: roi.window.1,
            rows: roi.kept.len(),
            events: events.finish(),
            graph,
            path,
            warnings,
        })
    }
}

/// Find the longest path. Cycles, on which HTA fails, are broken first, with a warning.
fn search(graph: &mut Graph, warnings: &mut Vec<Warning>) -> LongestPath {
    match longest_path(graph.nodes.len(), &graph.edges) {
        Ok(path) => path,
        Err(reached) => {
            let removed = graph.break_cycles(&reached);
            Warning::add(warnings, WarningCode::BrokenCycle, removed as u64);
            longest_path(graph.nodes.len(), &graph.edges).unwrap_or_default()
        }
    }
}
