//! Queries of the web page to answer in advance, in order: the content of a one-file report. Each query lists its own
//! arguments and order ([`crate::Query`]); this module has only the parts of the page.

use crate::memory::Memory;
use crate::queries::ALL;
use crate::{Arguments, OpenRun, prefetch_later};
use serde_json::Value;
use stackline_model::MemoryDeviceId;

pub(crate) type Question = (&'static str, Arguments);

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

/// Parts of the page that are seen before the memory of a run.
const OPENING: [Stage; 5] = [Stage::Opening, Stage::Findings, Stage::Code, Stage::Timeline, Stage::Comparison];
/// Later parts.
const DETAILS: [Stage; 4] = [Stage::Evidence, Stage::Excerpts, Stage::Unchosen, Stage::Groups];

/// Prefetched queries of all parts of the page with their arguments, the most important first.
pub(crate) fn questions(opened: &OpenRun) -> Vec<Question> {
    if opened.is_memory_alone() {
        let findings = [Stage::FindingsOfMemory, Stage::Findings].map(|stage| stage_questions(opened, stage)).concat();
        return [stage_questions(opened, Stage::OpeningOfMemory), memory(opened), findings].concat();
    }
    let mut all: Vec<Question> = OPENING.into_iter().flat_map(|stage| stage_questions(opened, stage)).collect();
    if opened.has_memory() {
        all.extend(memory(opened));
    }
    all.extend(DETAILS.into_iter().flat_map(|stage| stage_questions(opened, stage)));
    all.extend(prefetch_later::questions(opened));
    all
}

/// Queries that the page asks first, to compute their answers before it asks.
pub(crate) fn urgent(opened: &OpenRun) -> Vec<Question> {
    stage_questions(opened, Stage::Urgent)
}

/// Prefetched queries of the Memory page, for each device with memory.
fn memory(opened: &OpenRun) -> Vec<Question> {
    let mut all = stage_questions(opened, Stage::Memory);
    for device in opened.memory(None).map_or_else(|_| Vec::new(), Memory::devices) {
        all.extend(stage_questions(opened, Stage::MemoryOf(device)));
    }
    all.extend(stage_questions(opened, Stage::Holders));
    all.extend(stage_questions(opened, Stage::Objects));
    all
}

/// Prefetched queries of a part of the page, as listed by the queries, in their order.
pub(crate) fn stage_questions(opened: &OpenRun, stage: Stage) -> Vec<Question> {
    let mut queries: Vec<&crate::Query> = ALL.iter().collect();
    queries.sort_by_key(|query| query.order);
    let of_query = |query: &crate::Query| {
        let name = query.name;
        (query.first)(opened, stage).into_iter().map(move |arguments| (name, arguments))
    };
    queries.into_iter().flat_map(of_query).collect()
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

/// Answer a query and parse its JSON document; `None` if the query fails.
pub(crate) fn document(opened: &OpenRun, name: &str, arguments: &Arguments) -> Option<Value> {
    serde_json::from_str(&crate::run_query(opened, name, arguments).ok()?.json).ok()
}
