//! Method "ctda": the cross-thread dependency-aware critical path of Yang et al. (CTDA-CPA, sections 3.2 to 3.4 and
//! algorithm 1).
//!
//! The threads of a process form one logical thread, because the GIL lets only one of them run at a time. The thread's
//! time is cut into nodes by training phase, stream and synchronization. Work that a node launches becomes a GPU node.
//! The search goes back from the end of the window to the prerequisite of each node that ended last.
//!
//! `docs/explanation/critical-path-ctda.md` lists the deviations from the paper: open questions, and rules that give a
//! wrong path.

mod build;
mod edges;
mod gil;
mod gpu;
mod graph;
mod hotspots;
mod marks;
mod nodes;
mod path;
mod python;
mod report;
mod result;
mod stacks;
mod timeline;
mod waits;
mod what_if;
mod window;

pub use graph::{CtdaEdge, CtdaEdgeKind, CtdaGraph, CtdaNode, CtdaPiece};
pub use hotspots::Hotspot;
pub use path::CtdaStep;
pub use report::{CtdaReport, ReportHotspot, ReportNode};
pub use result::{Categories, CtdaPath};
pub use stackline_timeline::phase_rules::{
    BUILT_IN as BUILT_IN_RULES, LinkSide, Phase, PhaseRule, PhaseRules, RuleKind,
};

use super::{CriticalPathError, Instances, Warning, WarningCode};
use gil::has_gil;
use gpu::Gpu;
use serde::{Deserialize, Serialize};
use stackline_model::Trace;
use stackline_timeline::phase_rules::PhaseRuleCache;
use waits::Waits;

/// Version of the rules: the year of the paper, and the local revision.
pub(crate) const RULE_SET: &str = "2026.1";

/// Settings of method `ctda`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CtdaOptions {
    /// Text in the name of the host event whose window is analyzed; empty for the whole trace.
    pub annotation: String,
    /// Instance of that event in the order of the file, from 0; default: the first.
    pub instance: Option<Instances>,
    /// Range of step numbers to analyze, both ends included.
    pub steps: Option<(i64, i64)>,
    /// Phase rules that replace the built-in ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase_rules: Option<PhaseRules>,
}

/// Find the critical path of a trace by method `ctda`.
///
/// ```
/// use stackline_critical_path::{CriticalPathError, ctda};
/// let empty = stackline_model::Trace::default();
/// let result = ctda::analyze(&empty, &ctda::CtdaOptions::default());
/// assert_eq!(result.err(), Some(CriticalPathError::NoTimedEvents));
/// ```
///
/// # Errors
/// Returns an error if the window does not exist or contains no events.
pub fn analyze(trace: &Trace, options: &CtdaOptions) -> Result<CtdaPath, CriticalPathError> {
    let (window, missing) = window::select_window(trace, options)?;
    let built_in;
    let rules = match &options.phase_rules {
        Some(rules) => rules,
        None => {
            built_in = PhaseRules::default();
            &built_in
        }
    };
    let mut host = stacks::build_host(trace, &mut PhaseRuleCache::new(trace, rules), window);
    let gpu = Gpu::collect(trace, window);
    let mut waits = Waits::new(trace, &gpu);
    let shares_gil = has_gil(trace);
    let nodes = build::build_nodes(trace, &mut host, &gpu, &waits, shares_gil);
    let rows = host.rows + gpu.ops.len();
    if nodes.host == 0 && nodes.gpu.is_empty() {
        let (window_ns, whole_trace) = (window.end - window.start, window::is_whole(options));
        return Err(CriticalPathError::EmptyGraph { window_ns, rows, whole_trace });
    }
    let edges = edges::build_edges(trace, &nodes, &gpu, &mut waits);
    let (graph, events, categories) = result::pack(trace, &nodes, &gpu, edges);
    let mut warnings = Vec::new();
    let mut warn = |code, count: u64| Warning::add(&mut warnings, code, count);
    warn(WarningCode::MissingInstances, missing as u64);
    warn(WarningCode::NoGpuWork, u64::from(gpu.ops.is_empty()));
    warn(WarningCode::InferredWait, waits.inferred);
    warn(WarningCode::UnknownWait, waits.unknown);
    warn(WarningCode::NoInterpreterLock, u64::from(!shares_gil));
    let (steps, broken) = path::search(&graph);
    warn(WarningCode::BrokenCycle, u64::from(broken));
    Ok(CtdaPath {
        options: options.clone(),
        window_start_ns: window.start,
        window_end_ns: window.end,
        rows,
        events,
        categories,
        graph,
        steps,
        warnings,
    })
}
