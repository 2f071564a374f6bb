//! Parts of the page whose queries are answered in advance, and arguments that these queries share. Each query lists
//! its own arguments for each part ([`crate::Query`]).

use crate::{Arguments, OpenRun};
use stackline_model::MemoryDeviceId;

/// Part of the page for which queries are prefetched, in the order in which a report is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Data that the page waits for.
    Urgent,
    /// Data of the whole page and of its first view.
    Opening,
    /// The same for a run with only memory data.
    OpeningOfMemory,
    /// The list of findings of a run that is nothing but memory.
    FindingsOfMemory,
    /// Findings one by one.
    Findings,
    /// The flame graph, and the files of the source.
    Code,
    /// All of the timeline.
    Timeline,
    /// The comparison with another run.
    Comparison,
    /// Memory, of all devices.
    Memory,
    /// Memory of one device.
    MemoryOf(MemoryDeviceId),
    /// Holders of memory, and the allocator.
    Holders,
    /// Objects in memory one by one.
    Objects,
    /// Events that findings list.
    Evidence,
    /// Source around the frames that take most.
    Excerpts,
    /// Questions without a selection of steps.
    Unchosen,
    /// Choices of filters.
    Groups,
    /// Source files one by one.
    Files(Part),
    /// Details of frames, of a direction of the flame graph.
    Frames(&'static str),
    /// The flame graph, merged otherwise.
    Merged,
    /// The whole run, where it has steps.
    Whole,
    /// The flame graph of the whole run, where it has steps.
    WholeTree,
    /// One step: its number, its start and its end.
    Step(i64, i64, i64),
    /// The longest events.
    Events,
}

/// Time range of prefetched queries: the default steps, or the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Default selection of steps.
    Chosen,
    Whole,
}

impl Part {
    /// Query arguments that select this time range.
    pub(crate) fn arguments(self, opened: &OpenRun) -> Arguments {
        match self {
            Self::Chosen => chosen(opened),
            Self::Whole => with(&[("steps", "whole")]),
        }
    }
}

/// Empty list of prefetched arguments, for queries that are never prefetched.
pub(crate) fn none(_: &OpenRun, _: Stage) -> Vec<Arguments> {
    Vec::new()
}

/// List with one empty set of arguments, to prefetch a query without arguments.
pub(crate) fn one_empty_set() -> Vec<Arguments> {
    vec![Arguments::default()]
}

/// Create query arguments from pairs of name and text.
pub(crate) fn with(pairs: &[(&str, &str)]) -> Arguments {
    Arguments::new(pairs.iter().copied())
}

/// Query arguments that select the default steps of the first trace; none without steps.
pub(crate) fn chosen(opened: &OpenRun) -> Arguments {
    match opened.chosen(0) {
        Some((first, last)) => with(&[("steps", &format!("{first}..{last}"))]),
        None => Arguments::default(),
    }
}

/// Query arguments that select a single step by its number.
pub(crate) fn alone(step: i64) -> Arguments {
    with(&[("steps", &format!("{step}..{step}"))])
}

/// Prefetched arguments for the baseline run: those that `find` returns for it, with `run=before`. Empty without a
/// baseline.
pub(crate) fn for_baseline(opened: &OpenRun, find: impl Fn(&OpenRun) -> Vec<Arguments>) -> Vec<Arguments> {
    let all = opened.before().map_or_else(|_| Vec::new(), find);
    all.into_iter().map(|arguments| arguments.with("run", "before")).collect()
}
