//! Registry of all queries that the page can ask about a run, each with its arguments and answer function.

mod calls;
mod compare;
mod counters;
mod events;
mod findings;
#[cfg(test)]
mod foreign;
mod memory;
mod meta;
mod overview;
mod path;
#[cfg(test)]
mod samples;
mod search;
mod source;
mod tiles;
#[cfg(test)]
mod typescript;

use crate::prefetch::{Stage, none};
use crate::{Answer, Arguments, OpenRun, QueryError};
use serde::Serialize;
use serde_json::{Value, to_value};
use stackline_present::json::{Document, Extra, write};
use std::fmt;
#[cfg(test)]
use typescript::Declarations;

/// Registry entry of a query: name, arguments, answer function and prefetched arguments.
#[derive(Clone, Copy)]
pub struct Query {
    /// Name of the query.
    pub name: &'static str,
    /// Description for the reference.
    pub about: &'static str,
    /// Names of its arguments, in addition to `run`, which all queries have.
    pub arguments: &'static [&'static str],
    /// Names of its columns, in order; a trailing `?` marks optional ones.
    pub columns: &'static [&'static str],
    /// Prefetched questions of the page, by its part.
    pub(crate) first: fn(&OpenRun, Stage) -> Vec<Arguments>,
    /// Position of these questions among those of other queries for the same part, ascending.
    pub(crate) order: u8,
    /// Function that computes the answer.
    pub answer: fn(&OpenRun, &Arguments) -> Result<Answer, QueryError>,
    /// Adds the type of its document to the TypeScript declarations.
    #[cfg(test)]
    typescript: fn(&mut Declarations, &'static str),
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Arguments of a call tree view.
const VIEW: &[&str] = &[
    "rank",
    "steps",
    "metric",
    "shape",
    "by",
    "focus",
    "hide",
    "of",
    "merge",
    "recursion",
    "thread",
    "phase",
    "module",
    "baseline",
    "least",
    "root",
];
/// Arguments of queries by tile.
const TILES: &[&str] = &["level", "first", "last", "rank"];
/// Of any query: which of two runs is asked.
const RUN: &str = "run";
const RANK: &[&str] = &["rank"];

/// All queries, by name.
pub const ALL: &[Query] = &[
    Query {
        name: "calls",
        about: "Nodes of a call tree view that are wide enough to draw.",
        arguments: VIEW,
        columns: calls::COLUMNS,
        first: calls::first,
        order: 11,
        answer: calls::answer,
        #[cfg(test)]
        typescript: Declarations::add::<calls::Calls<'static>>,
    },
    Query {
        name: "compare",
        about: "Comparison of the run with its baseline, as in `stackline diff --format json`.",
        arguments: &[],
        columns: &[],
        first: compare::first,
        order: 1,
        answer: compare::answer,
        #[cfg(test)]
        typescript: Declarations::add::<foreign::Comparison<'static>>,
    },
    Query {
        name: "compare-memory",
        about: "Peak memory of each device in the run and in its baseline.",
        arguments: &[],
        columns: &[],
        first: compare::first,
        order: 2,
        answer: compare::memory,
        #[cfg(test)]
        typescript: Declarations::add::<compare::MemoryPeaks<'static>>,
    },
    Query {
        name: "counters",
        about: "Counters and allocated bytes over time.",
        arguments: TILES,
        columns: counters::COLUMNS,
        first: tiles::first,
        order: 10,
        answer: counters::answer,
        #[cfg(test)]
        typescript: Declarations::add::<counters::CounterDocument>,
    },
    Query {
        name: "event",
        about: "Details of one event.",
        arguments: &["event", "rank"],
        columns: &[],
        first: events::first,
        order: 0,
        answer: events::answer,
        #[cfg(test)]
        typescript: Declarations::add::<events::EventDetail<'static>>,
    },
    Query {
        name: "excerpt",
        about: "Source lines around one line.",
        arguments: &["file", "line"],
        columns: &[],
        first: source::first_excerpts,
        order: 0,
        answer: source::excerpt,
        #[cfg(test)]
        typescript: Declarations::add::<crate::excerpt::Excerpt<'static>>,
    },
    Query {
        name: "finding",
        about: "One finding with its evidence and source code.",
        arguments: &["at", "rank"],
        columns: &[],
        first: findings::first,
        order: 0,
        answer: findings::one,
        #[cfg(test)]
        typescript: Declarations::add::<findings::FindingDetail<'static>>,
    },
    Query {
        name: "findings",
        about: "Findings, as in `stackline findings --format json`.",
        arguments: RANK,
        columns: &[],
        first: findings::first_list,
        order: 6,
        answer: findings::all,
        #[cfg(test)]
        typescript: Declarations::add::<foreign::Findings<'static>>,
    },
    Query {
        name: "frame",
        about: "All metrics of one node of a call tree view.",
        arguments: VIEW,
        columns: &[],
        first: calls::frame::first,
        order: 0,
        answer: calls::frame,
        #[cfg(test)]
        typescript: Declarations::add::<calls::frame::FrameDetail<'static>>,
    },
    Query {
        name: "lanes",
        about: "Tracks of the timeline.",
        arguments: &["rank", "imports"],
        columns: &[],
        first: tiles::first_lanes,
        order: 8,
        answer: tiles::lanes,
        #[cfg(test)]
        typescript: Declarations::add::<tiles::Lanes>,
    },
    Query {
        name: "memory",
        about: "Memory devices, their peaks and their wasted memory.",
        arguments: RANK,
        columns: &[],
        first: memory::overview::first,
        order: 1,
        answer: memory::overview,
        #[cfg(test)]
        typescript: Declarations::add::<foreign::memory::MemoryOverview<'static>>,
    },
    Query {
        name: "memory-allocator",
        about: "Segments and blocks of the caching allocator.",
        arguments: RANK,
        columns: memory::allocator::COLUMNS,
        first: memory::allocator::first,
        order: 2,
        answer: memory::allocator,
        #[cfg(test)]
        typescript: Declarations::add::<foreign::memory::AllocatorDocument<'static>>,
    },
    Query {
        name: "memory-apply",
        about: "Predicted memory with suggestions applied.",
        arguments: &["level", "first", "last", "rank", "device", "apply"],
        columns: memory::curve::COLUMNS,
        first: memory::apply::first,
        order: 3,
        answer: memory::apply,
        #[cfg(test)]
        typescript: Declarations::add::<foreign::memory::AppliedDocument<'static>>,
    },
    Query {
        name: "memory-call",
        about: "One memory call (allocation, free, copy, fill or kernel) with its accesses.",
        arguments: &["call", "rank"],
        columns: &[],
        first: none,
        order: 0,
        answer: memory::call,
        #[cfg(test)]
        typescript: Declarations::add::<memory::calls::CallDetail>,
    },
    Query {
        name: "memory-calls",
        about: "Memory calls per stream; calls too narrow to draw are merged.",
        arguments: TILES,
        columns: memory::calls::COLUMNS,
        first: memory::calls::first,
        order: 3,
        answer: memory::calls,
        #[cfg(test)]
        typescript: Declarations::add::<memory::calls::CallsDocument>,
    },
    Query {
        name: "memory-curve",
        about: "Live and reserved bytes at each memory call.",
        arguments: &["level", "first", "last", "rank", "device"],
        columns: memory::curve::COLUMNS,
        first: memory::curve::first,
        order: 1,
        answer: memory::curve,
        #[cfg(test)]
        typescript: Declarations::add::<memory::curve::CurveDocument>,
    },
    Query {
        name: "memory-holders",
        about: "Live memory at each peak, grouped by owner.",
        arguments: &["by", "rank"],
        columns: &[],
        first: memory::holders::first,
        order: 1,
        answer: memory::holders,
        #[cfg(test)]
        typescript: Declarations::add::<foreign::memory::HoldersDocument<'static>>,
    },
    Query {
        name: "memory-object",
        about: "One memory object with its inefficiency patterns and suggestions.",
        arguments: &["object", "rank"],
        columns: &[],
        first: memory::object::first,
        order: 0,
        answer: memory::object,
        #[cfg(test)]
        typescript: Declarations::add::<memory::object::ObjectDetail<'static>>,
    },
    Query {
        name: "memory-objects",
        about: "Lifetimes of memory objects; small objects are grouped by size.",
        arguments: &["level", "first", "last", "rank", "device", "order", "alive", "most"],
        columns: memory::objects::COLUMNS,
        first: memory::objects::first,
        order: 2,
        answer: memory::objects,
        #[cfg(test)]
        typescript: Declarations::add::<memory::objects::ObjectsDocument>,
    },
    Query {
        name: "memory-suggestions",
        about: "Suggested changes with the memory that each saves.",
        arguments: &["most", "rank"],
        columns: &[],
        first: memory::suggestions::first,
        order: 2,
        answer: memory::suggestions,
        #[cfg(test)]
        typescript: Declarations::add::<foreign::memory::SuggestionsDocument<'static>>,
    },
    Query {
        name: "meta",
        about: "Metadata and missing records of the run.",
        arguments: &[],
        columns: &[],
        first: meta::first,
        order: 3,
        answer: meta::answer,
        #[cfg(test)]
        typescript: Declarations::add::<meta::Meta<'static>>,
    },
    Query {
        name: "overview",
        about: "Summary of the run, as in `stackline report --format json`.",
        arguments: &["steps", "only"],
        columns: &[],
        first: overview::first,
        order: 5,
        answer: overview::answer,
        #[cfg(test)]
        typescript: Declarations::add::<foreign::Overview<'static>>,
    },
    Query {
        name: "path",
        about: "Critical path by segment.",
        arguments: &["rank", "steps"],
        columns: path::COLUMNS,
        first: path::first,
        order: 7,
        answer: path::answer,
        #[cfg(test)]
        typescript: Declarations::add::<path::PathDocument>,
    },
    Query {
        name: "range",
        about: "Summary of a time range.",
        arguments: &["from", "to", "rank"],
        columns: &[],
        first: events::first_ranges,
        order: 4,
        answer: events::range,
        #[cfg(test)]
        typescript: Declarations::add::<events::Range>,
    },
    Query {
        name: "rule",
        about: "Documentation page of a rule.",
        arguments: &["code"],
        columns: &[],
        first: none,
        order: 0,
        answer: findings::rule,
        #[cfg(test)]
        typescript: Declarations::add::<findings::RulePage>,
    },
    Query {
        name: "search",
        about: "Events, frames and files whose name contains the search text.",
        arguments: &["text", "rank", "steps"],
        columns: &[],
        first: none,
        order: 0,
        answer: search::answer,
        #[cfg(test)]
        typescript: Declarations::add::<search::SearchAnswer<'static>>,
    },
    Query {
        name: "source",
        about: "A source file with the costs of its lines.",
        arguments: &["file", "rank", "steps"],
        columns: &[],
        first: source::first,
        order: 12,
        answer: source::answer,
        #[cfg(test)]
        typescript: Declarations::add::<source::Source<'static>>,
    },
    Query {
        name: "tiles",
        about: "Slices of timeline lanes; slices too narrow to draw are merged.",
        arguments: &["level", "first", "last", "rank", "most", "tracks", "imports"],
        columns: tiles::COLUMNS,
        first: tiles::first,
        order: 9,
        answer: tiles::tiles,
        #[cfg(test)]
        typescript: Declarations::add::<tiles::TileDocument>,
    },
];

/// Queries that read source files or check them for changes, so that answers may differ over time.
pub const READ_FILES: [&str; 3] = ["excerpt", "finding", "source"];

/// Answer a query, by its name, about an opened run.
///
/// # Errors
/// If there is no such query or argument, an argument is wrong, or the run cannot answer it.
pub fn run_query(opened: &OpenRun, name: &str, arguments: &Arguments) -> Result<Answer, QueryError> {
    let query = ALL.iter().find(|query| query.name == name);
    let query = query.ok_or_else(|| QueryError::NoQuery { name: name.to_owned() })?;
    // A name that is mistyped must not be answered as if it had not been there.
    if let Some(unknown) = arguments.names().find(|name| *name != RUN && !query.arguments.contains(name)) {
        return Err(QueryError::NoArgument { query: query.name, name: shortened(unknown), known: query.arguments });
    }
    match arguments.text(RUN)? {
        None => (query.answer)(opened, arguments),
        Some("before") => (query.answer)(opened.before()?, &arguments.without(&[RUN])),
        Some(other) => Err(QueryError::Argument {
            name: RUN,
            why: format!("the run {other:?} is unknown; only `before` (the baseline) is valid"),
        }),
    }
}

/// Answer with a JSON document as the command line prints it, plus the keys of its command and additional keys for the
/// page.
pub(crate) fn printed(
    document: Document<'_>,
    of_command: Vec<(&'static str, Value)>,
    of_page: &impl Serialize,
) -> Result<Answer, QueryError> {
    let (names, values): (Vec<String>, Vec<Value>) = match to_value(of_page).map_err(QueryError::unavailable)? {
        Value::Object(keys) => keys.into_iter().unzip(),
        _ => Default::default(),
    };
    let of_page = names.iter().map(String::as_str).zip(values);
    let extra: Vec<(&str, Extra<'_>)> =
        of_command.into_iter().chain(of_page).map(|(key, value)| (key, value.into())).collect();
    let mut json = Vec::new();
    write(&Document { extra: &extra, ..document }, &mut json).map_err(QueryError::unavailable)?;
    Ok(Answer { json: String::from_utf8(json).map_err(QueryError::unavailable)?, columns: Vec::new() })
}

/// Threshold that keeps at most `most` of the largest items: only sizes above the threshold are kept. `None` if all
/// items fit.
pub(crate) fn size_threshold<T: Ord + Copy>(sizes: impl Iterator<Item = T>, most: usize) -> Option<T> {
    let mut sizes: Vec<T> = sizes.collect();
    (sizes.len() > most).then(|| *sizes.select_nth_unstable_by(most - 1, |a, b| b.cmp(a)).1)
}

/// List of distinct texts, to which a column of an answer refers by index.
#[derive(Debug, Default)]
pub(crate) struct Texts<'a> {
    index: rustc_hash::FxHashMap<&'a str, u32>,
    list: Vec<&'a str>,
}

impl<'a> Texts<'a> {
    /// Index of a text in the list of deduplicated texts, added if it is new.
    pub(crate) fn index(&mut self, text: &'a str) -> u32 {
        let Self { index, list } = self;
        *index.entry(text).or_insert_with(|| {
            list.push(text);
            (list.len() - 1) as u32
        })
    }

    /// Distinct texts by index. Very long ones are shortened.
    pub(crate) fn list(&self) -> Vec<String> {
        self.list.iter().map(|text| shortened(text)).collect()
    }
}

/// Longest name that is sent, in characters: all of C++ templates that people may want to read.
const LONGEST: usize = 2000;

/// Shorten a text to at most [`LONGEST`] characters, with an ellipsis.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
