//! Method "exact": a backward pass from the end of a window that assigns one cause to every nanosecond.
//!
//! Threads are cut where other work depends on them, and GPU work is ordered ([`super::gpu_order`]). Each start of an
//! activity depends on the prerequisite that ended last. The length of the path equals that of the window, to the ns.
//! Named rules infer dependencies without a record; unexplained time is `unknown`.

mod backward_pass;
mod build;
mod category;
mod enclosing;
mod gil_holders;
mod graph;
pub mod large_calls;
mod merged_segments;
mod names;
mod other_streams;
mod overlay;
mod path;
mod reliability;
mod report;
mod sampled_waits;
mod segment_list;
mod slack;
mod steps;
mod summary;
mod tables;
mod thread_timelines;
mod wakeups;
mod warning;
pub mod what_if;
mod window;
mod work_ends;
mod workers;
mod xla_pool;

pub use category::Category;
pub use graph::{ActivityGraph, Dependency, InEdge, NONE, NodeKind};
pub use merged_segments::{MergedSegment, SegmentReport, SegmentReports};
pub use path::ExactPath;
pub use report::ExactReport;
pub use segment_list::{PathSegment, PathSegments};
pub use slack::{EventSlack, FalseHotspot};
pub use stackline_timeline::window_choice::WindowChoice;
pub use steps::{StepPath, StepSpread, spread};
pub use summary::SummaryLine;
pub use tables::{
    ON_DEMAND, SEGMENTS, SEGMENTS_TITLE, SLACK, TABLES, segment_tables, segments_table, slack_table, tables,
    without_empty_optional,
};
pub use wakeups::ThreadRule;
pub use warning::{ExactWarning, reasons_in_words};
pub use window::Window;
pub use workers::{LoaderWorker, LoaderWorkers};

use super::CriticalPathError;
use super::call_kind_cache::CallKindCache;
use super::gpu_dependency::ROUNDING_NS;
use super::gpu_order::GpuOrder;
use super::inferred_sync::PollingLoops;
use category::Categories;
use enclosing::Enclosing;
use names::Names;
use reliability::Reliability;
use rustc_hash::FxHashSet;
use sampled_waits::SampledWaits;
pub use sampled_waits::UNRECORDED_RULE;
use stackline_model::{DeviceClock, EventId, GpuOpId, Key, Trace};
use stackline_timeline::recording::Recording;
use std::collections::BTreeSet;
use std::sync::OnceLock;
use thread_timelines::ThreadTimeline;

/// Maximum difference of clocks in ns (1,000 s). A larger one is a wrong record.
const MAX_CLOCK_OFFSET_NS: i64 = 1_000_000_000_000;

/// Minimum remaining difference in ns between the clocks of a device and of the host, after the shift that reading
/// applied; 0 if the clocks may agree.
fn clock_offset_ns(clock: &DeviceClock) -> i64 {
    let clock = clock.after_shift();
    clock.least_ns.unwrap_or(0).max(clock.most_ns.map_or(0, i64::saturating_neg)).max(0)
}

/// Trace with its dependency graph, ready for paths, slack and what-if.
pub struct Exact<'a> {
    trace: &'a Trace,
    names: Names,
    lanes: Vec<ThreadTimeline>,
    /// Kind of gaps per lane.
    gaps: Vec<wakeups::Gap>,
    /// First node and end of the nodes per lane.
    lane_nodes: Vec<(u32, u32)>,
    graph: ActivityGraph,
    corrections: build::Corrections,
    unexplained_waits: u64,
    /// Calls with a possible wait that no record states.
    uncertain: FxHashSet<EventId>,
    /// Calls with a possible wait for work without record.
    near_missing_records: Vec<EventId>,
    loops: PollingLoops,
    /// Processes whose clock disagrees with that of a GPU.
    clocks_disagree: BTreeSet<Key>,
    /// Operations with doubtful ends.
    overlong: FxHashSet<GpuOpId>,
    left_out: u64,
    reliability: Reliability,
    kinds: CallKindCache,
    enclosing: OnceLock<Enclosing>,
    loader_workers: OnceLock<LoaderWorkers>,
    recording: OnceLock<Option<Recording>>,
    sampled_waits: OnceLock<SampledWaits>,
}

impl<'a> Exact<'a> {
    /// Build the dependency graph of a trace, in linear time except for sorting.
    pub fn new(trace: &'a Trace) -> Self {
        let names = Names::new(trace);
        let lanes = ThreadTimeline::all(trace);
        let threads = wakeups::find_handovers(trace, &lanes, &names);
        let kinds = CallKindCache::new(trace);
        let order = GpuOrder::new(trace, &kinds);
        let built = build::Builder::build(trace, &order, &lanes, &threads);
        let build::BuiltGraph { mut graph, edges, lane_nodes, corrections } = built;
        // Drop the inputs of the graph before the edges get their positions, which needs the most memory.
        let GpuOrder {
            unexplained_waits,
            uncertain,
            loops,
            near_missing_records,
            clocks_disagree,
            overlong,
            left_out,
            ..
        } = { order };
        let wakeups::HandoversAndGaps { gaps, .. } = { threads };
        graph.connect(edges);
        let reliability = Reliability::new(trace, &lanes);
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
            loops,
            near_missing_records,
            clocks_disagree,
            overlong,
            left_out,
            reliability,
            kinds,
            enclosing: OnceLock::new(),
            loader_workers: OnceLock::new(),
            recording: OnceLock::new(),
            sampled_waits: OnceLock::new(),
        }
    }

    /// Enclosing operators, frames and annotations of each event.
    fn enclosing(&self) -> &Enclosing {
        self.enclosing.get_or_init(|| Enclosing::new(self.trace, &self.names))
    }

    /// Worker processes of data loaders that the trace shows.
    pub fn loader_workers(&self) -> &LoaderWorkers {
        self.loader_workers.get_or_init(|| LoaderWorkers::from_trace(self.trace, &self.names, &self.lanes))
    }

    /// Recording metadata of the trace; `None` for traces without it.
    pub fn recording(&self) -> Option<&Recording> {
        self.recording.get_or_init(|| Recording::from_trace(self.trace)).as_ref()
    }

    /// True if the clocks of host and GPU disagree, by the order of the work or by the reader's measurement.
    pub fn clocks_disagree(&self) -> bool {
        !self.clocks_disagree.is_empty()
            || self.trace.meta.clocks.iter().any(|clock| clock_offset_ns(clock) > ROUNDING_NS)
    }

    /// Maximum remaining clock difference between the host and any device in ns ([`clock_offset_ns`]). Implausibly
    /// large differences are ignored.
    fn clocks_differ_ns(&self) -> i64 {
        self.trace.meta.clocks.iter().map(clock_offset_ns).filter(|&ns| ns < MAX_CLOCK_OFFSET_NS).max().unwrap_or(0)
    }

    /// Trace whose critical paths this analysis computes.
    pub fn trace(&self) -> &'a Trace {
        self.trace
    }

    /// Dependency graph of the trace's activities.
    pub fn graph(&self) -> &ActivityGraph {
        &self.graph
    }

    /// Compute the critical path through a window of the trace.
    ///
    /// # Errors
    /// Returns an error if the window does not exist: see [`Self::window`].
    pub fn path(&self, choice: &WindowChoice) -> Result<ExactPath, CriticalPathError> {
        Ok(self.path_of(self.window(choice)?))
    }

    /// Compute the critical path through a window that [`Self::window`] returned.
    pub fn path_of(&self, window: Window) -> ExactPath {
        // Each node contributes its pieces, and the time before the node. Waits divide pieces.
        let pieces = self.lanes.iter().map(|lane| lane.pieces.len()).sum::<usize>();
        let most = pieces + self.most_wait_segments() + 3 * self.graph.len() + 2;
        let mut segments = PathSegments::new(window.end, most);
        backward_pass::walk(self, &mut Categories::new(self), window, |segment| segments.push_front(&segment));
        ExactPath { window, segments }
    }
}
