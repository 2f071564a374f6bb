//! Cached results of a trace (findings, call trees, layouts …) that several queries use.

use crate::counter_tracks::Counters;
use crate::launch_links::LaunchLinks;
use crate::memory::Memory;
use crate::names::Names;
use crate::slices::CoarseSlices;
use crate::track_layout::TrackLayout;
use stackline_calls::{CallView, TimeRange, TraceCallTree};
use stackline_critical_path::exact::{Exact, ExactPath};
use stackline_findings::Findings;
use stackline_model::{CallNodeId, CallThreadId, CallingContextTree, Trace};
use stackline_timeline::import_frames::ImportFrames;
use stackline_timeline::steps::StepSelection;
use std::sync::{Arc, Mutex, OnceLock};

/// Cached view of a call tree, or the computation that is about to fill it.
pub(crate) type PendingView = Arc<OnceLock<Arc<CallView>>>;

/// Critical path of a time window, with the window's description and notes.
#[derive(Clone, Debug)]
pub(crate) struct PathOfWindow {
    pub(crate) path: ExactPath,
    /// The window in words.
    pub(crate) window: String,
    /// Notes on excluded parts of the window and on inferred steps.
    pub(crate) notes: Vec<String>,
}

impl PathOfWindow {
    /// Compute the critical path in the window of the selected steps.
    pub(crate) fn from_trace(trace: &Trace, looked: StepSelection) -> Result<Self, String> {
        let StepSelection { choice, notes, .. } = looked;
        let path = Exact::new(trace).path(&choice).map_err(|error| error.to_string())?;
        Ok(Self { path, window: choice.in_words(), notes })
    }
}

/// Results that are computed from one trace on first use, then kept for later queries.
#[derive(Debug, Default)]
pub(crate) struct CachedResults {
    /// Findings without memory.
    pub(crate) findings: OnceLock<Result<Findings, String>>,
    /// With those of its memory.
    pub(crate) with_memory: OnceLock<Result<Findings, String>>,
    pub(crate) path: OnceLock<Result<PathOfWindow, String>>,
    pub(crate) calls: Mutex<Vec<(TimeRange, Arc<TraceCallTree>)>>,
    pub(crate) imports: OnceLock<Option<ImportFrames>>,
    /// By [`ImportView`](crate::track_layout::ImportView), as the slices.
    pub(crate) rows: [OnceLock<TrackLayout>; 2],
    pub(crate) coarse: [OnceLock<Option<CoarseSlices>>; 2],
    pub(crate) chosen: OnceLock<Option<(i64, i64)>>,
    pub(crate) names: OnceLock<Names>,
    pub(crate) counters: OnceLock<Counters>,
    pub(crate) launched: LaunchLinks,
    pub(crate) origin: OnceLock<i64>,
    pub(crate) memory: OnceLock<Result<Memory, String>>,
}

/// Call tree of a run: recorded, or computed from a trace.
#[derive(Debug)]
pub enum Source<'a> {
    /// Call tree of a recording.
    Recording(&'a CallingContextTree),
    /// Call tree computed from the events of a trace.
    Trace(Arc<TraceCallTree>),
}

impl Source<'_> {
    /// Calling context tree of the run's calls, without the data that only trees of traces have.
    pub fn tree(&self) -> &CallingContextTree {
        match self {
            Self::Recording(tree) => tree,
            Self::Trace(calls) => &calls.tree,
        }
    }

    /// Number of calls, by tree node and thread, to subtract from a node: these count at another line of the same
    /// function, or are inferred.
    pub(crate) fn uncounted_calls(&self) -> &[(CallNodeId, CallThreadId, u64)] {
        match self {
            Self::Recording(_) => &[],
            Self::Trace(calls) => &calls.uncounted_calls,
        }
    }

    /// Number of steps that the call tree covers; 0 for a recording, or for a trace without selected steps.
    pub(crate) fn steps(&self) -> usize {
        match self {
            Self::Recording(_) => 0,
            Self::Trace(calls) => calls.steps,
        }
    }

    /// Check if self time of functions was split between their lines by estimate, since no stack contains its line.
    pub(crate) fn guesses_lines(&self) -> bool {
        !self.uncounted_calls().is_empty()
    }
}
