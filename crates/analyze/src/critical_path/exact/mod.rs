//! The exact critical path: walking back from the end of a window, every nanosecond has one cause.
//!
//! Threads are cut where something else depends on them, GPU work is put in order ([`super::gpu_order`]), and every
//! activity's start is tied to what ended last among its prerequisites. The path's length is the window's, to the ns;
//! what no record says is inferred by a named rule or is `unknown`.

mod build;
mod bursts;
mod category;
mod enclosing;
mod graph;
mod hops;
mod lanes;
mod names;
mod overlay;
mod report;
mod slack;
mod steps;
mod story;
mod tables;
mod threads;
mod walk;
pub mod what_if;
mod window;

pub use category::Category;
pub use graph::{ActivityGraph, Dependency, InEdge, NONE, NodeKind};
pub use hops::{HopReport, Stretch};
pub use report::{ExactReport, ExactWarning};
pub use slack::Harmless;
pub use steps::{StepPath, StepSpread, spread};
pub use story::Chapter;
pub use tables::{HOPS, hops_table, tables};
pub use threads::ThreadRule;
pub use walk::{ExactPath, Hop};
pub use window::{Window, WindowChoice};

use super::CriticalPathError;
use super::gpu_order::{GpuOrder, ROUNDING_NS};
use enclosing::Enclosing;
use lanes::Lane;
use names::Names;
use rustc_hash::FxHashSet;
use stackline_model::{EventId, Trace};
use std::sync::OnceLock;

/// A trace with its dependency graph, ready for paths, slack and what-if.
pub struct Exact<'a> {
    trace: &'a Trace,
    names: Names,
    lanes: Vec<Lane>,
    /// Per lane what its gaps are.
    gaps: Vec<threads::Gap>,
    /// Per lane its nodes: from, to.
    lane_nodes: Vec<(u32, u32)>,
    graph: ActivityGraph,
    corrections: build::Corrections,
    unexplained_waits: u64,
    /// Calls that may have waited, though no record says so.
    uncertain: FxHashSet<EventId>,
    /// Calls that may have waited for work that has no record.
    amid_loss: Vec<EventId>,
    clocks_disagree: bool,
    enclosing: OnceLock<Enclosing>,
}

impl<'a> Exact<'a> {
    /// Builds the dependency graph of a trace. Linear in its events, but for sorting.
    pub fn new(trace: &'a Trace) -> Self {
        let names = Names::new(trace);
        let lanes = Lane::all(trace);
        let threads = threads::find(trace, &lanes, &names);
        let order = GpuOrder::new(trace);
        let (graph, lane_nodes, corrections) = build::Builder::build(trace, &order, &lanes, &threads);
        let GpuOrder { unexplained_waits, uncertain, amid_loss, clocks_disagree, .. } = order;
        let gaps = threads.gaps;
        Self {
            trace,
            names,
            lanes,
            gaps,
            lane_nodes,
            graph,
            corrections,
            unexplained_waits,
            uncertain,
            amid_loss,
            clocks_disagree,
            enclosing: OnceLock::new(),
        }
    }

    /// What encloses each event.
    fn enclosing(&self) -> &Enclosing {
        self.enclosing.get_or_init(|| Enclosing::new(self.trace, &self.names))
    }

    /// Whether the clocks of host and GPU visibly disagree: in the order of the work, or by what reading saw.
    pub fn clocks_disagree(&self) -> bool {
        let is_off = |c: &stackline_model::DeviceClock| c.shift_ns().is_none_or(|shift| shift.abs() > ROUNDING_NS);
        let bounded = self.trace.meta.clocks.iter().filter(|c| c.least_ns.is_some() || c.most_ns.is_some());
        self.clocks_disagree || bounded.into_iter().any(is_off)
    }

    /// The graph.
    pub fn graph(&self) -> &ActivityGraph {
        &self.graph
    }

    /// The critical path through a window.
    ///
    /// # Errors
    /// If there is no such window: see [`Self::window`].
    pub fn path(&self, choice: &WindowChoice) -> Result<ExactPath, CriticalPathError> {
        Ok(self.path_of(self.window(choice)?))
    }

    /// The critical path through a window that was resolved.
    pub fn path_of(&self, window: Window) -> ExactPath {
        walk::walk(self, window)
    }
}
