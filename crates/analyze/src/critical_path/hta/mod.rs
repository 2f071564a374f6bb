//! Method "hta": the rules of HTA 0.6.1 (section 2 of our specification), kept to the node.
//!
//! Where HTA's own result depends on an unstable sort, this uses the order (time, launch before kernel, event index);
//! where HTA aborts, this goes on and says so in a [`Warning`](super::Warning).

mod build;
mod finish;
mod kernels;
mod locks;
mod names;
mod queue;
mod roi;
mod sort;
mod stacks;
mod waits;

use super::{CriticalPath, CriticalPathError};
use crate::hta_view::HtaView;
use serde::{Deserialize, Serialize};
use stackline_model::Trace;

/// Version of HTA whose rules these are.
pub const RULE_SET: &str = "0.6.1";

/// Which instances of an annotation to analyse, counted from 0 in HTA's row order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Instances {
    /// One instance.
    One(usize),
    /// Several, both ends included.
    Range(usize, usize),
}

/// Settings of method "hta".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HtaOptions {
    /// Analyse the window of events whose name contains this text; empty for the whole trace.
    pub annotation: String,
    /// Which of those events; the first if not given.
    pub instance: Option<Instances>,
    /// Add an edge of weight 0 from each launch to its kernel where no launch delay applies, so that what-if edits
    /// cannot let a kernel start before its launch.
    pub zero_weight_launch_edges: bool,
    /// Events whose name contains one of these texts become nodes; used as regular expressions, the same texts class
    /// time on the path as data loading.
    pub data_load_events: Vec<String>,
    /// With several profiler steps HTA drops the last one; this keeps it.
    pub include_last_profiler_step: bool,
}

/// Finds the critical path of one trace.
///
/// ```
/// use stackline_analyze::critical_path::{CriticalPathError, hta};
/// let empty = stackline_model::Trace::default();
/// let result = hta::analyze(&empty, &hta::HtaOptions::default());
/// assert_eq!(result.err(), Some(CriticalPathError::NoTimedEvents));
/// ```
pub fn analyze(trace: &Trace, options: &HtaOptions) -> Result<CriticalPath, CriticalPathError> {
    super::breakdown::data_load_patterns(&options.data_load_events)?;
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
