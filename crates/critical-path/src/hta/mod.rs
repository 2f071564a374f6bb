//! Method "hta": the rules of HTA 0.6.1 (section 2 of the specification), reproduced node by node.
//!
//! If HTA's result depends on an unstable sort, the order here is (time, launch before kernel, event index). If HTA aborts,
//! the analysis continues with a [`Warning`](super::Warning).
//!
//! The result is a [`CriticalPath`]: a graph, its longest path, and the data to present both. It is independent of the
//! trace, so breakdown, what-if, overlay and saving work on a restored result as well.

mod breakdown;
mod build;
mod finish;
mod graph;
mod kernels;
mod locks;
mod longest_path;
mod names;
mod overlay;
mod queue;
mod report;
mod result;
mod roi;
mod save;
mod sort;
mod stacks;
mod waits;
mod what_if;

pub use breakdown::{Breakdown, Share, Step};
pub use graph::{Edge, Graph, NO_EVENT, NodeTable};
pub use longest_path::LongestPath;
pub use overlay::OverlayMode;
pub use report::CriticalPathReport;
pub use result::CriticalPath;

use super::{CriticalPathError, Instances};
use serde::{Deserialize, Serialize};
use stackline_model::Trace;
use stackline_timeline::hta_view::HtaView;

/// Version of HTA whose rules are reproduced.
pub(crate) const RULE_SET: &str = "0.6.1";

/// Settings of method `hta`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HtaOptions {
    /// Text in the name of the events whose window is analyzed; empty for the whole trace.
    pub annotation: String,
    /// Selected instances of these events; default: the first.
    pub instance: Option<Instances>,
    /// True to add an edge of weight 0 from each launch to its kernel without launch delay, so that what-if edits
    /// cannot move a kernel's start before its launch.
    pub zero_weight_launch_edges: bool,
    /// Texts in the names of events that get nodes. The same texts, as regular expressions, classify time on the path
    /// as data loading.
    pub data_load_events: Vec<String>,
    /// True to keep the last of several profiler steps, which HTA drops.
    pub include_last_profiler_step: bool,
}

/// Find the critical path of a trace by method `hta`.
///
/// ```
/// use stackline_critical_path::{CriticalPathError, hta};
/// let empty = stackline_model::Trace::default();
/// let result = hta::analyze(&empty, &hta::HtaOptions::default());
/// assert_eq!(result.err(), Some(CriticalPathError::NoTimedEvents));
/// ```
pub fn analyze(trace: &Trace, options: &HtaOptions) -> Result<CriticalPath, CriticalPathError> {
    breakdown::data_load_patterns(&options.data_load_events)?;
    let view = HtaView::load(trace, options.include_last_profiler_step);
    if view.is_empty() {
        return Err(CriticalPathError::NoTimedEvents);
    }
    let mut names = names::Names::new(trace, options);
    let roi = roi::select(trace, &view, &mut names, options)?;
    let mut builder = build::Builder::new(trace, &view, names, &roi.kept, options);
    builder.lock_edges();
    builder.stack_edges();
    let queue = builder.queue_lengths();
    let waits = builder.find_waits();
    builder.kernel_edges(&queue, &waits);
    builder.finish(&roi)
}
