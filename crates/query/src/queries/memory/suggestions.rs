//! Query that lists suggestions to save memory, the best first.

use crate::memory::Memory;
use crate::prefetch::{Stage, one_empty_set};
use crate::{Answer, Arguments, OpenRun, QueryError};
use serde::Serialize;
use stackline_memory::tables::{combination_note, listed, suggestion_notes, suggestions_table};
use stackline_model::Table;

/// Most rows, unless more or fewer are asked for; and in any case.
const ROWS: usize = 200;
const MOST: usize = 2000;
/// Objects of a suggestion that are named.
const OBJECTS: usize = 8;

/// Additional JSON keys of the list of memory suggestions; the suggestions are rows of the table.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct SuggestionsPage {
    /// Number of suggestions to show.
    all: usize,
    /// Suggestions that save nothing.
    nothing: usize,
    /// Numbers of those that together lower the peak most.
    combination: Vec<usize>,
    /// Objects of each row.
    objects: Vec<Vec<usize>>,
}

/// Answer the query for the list of suggestions to save memory.
pub(crate) fn answer(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let memory = super::memory(opened, arguments)?;
    let most = arguments.number("most")?.unwrap_or(ROWS).min(MOST);
    let all = listed(&memory.ranked, memory.combination.as_ref());
    let shown = &all[..all.len().min(most)];
    let table = suggestions_table(&memory.trace, &memory.ranked, shown, &memory.peaks);
    let objects = shown.iter().map(|at| {
        let members = memory.ranked[*at].suggestion.members();
        members.take(OBJECTS).map(|member| member.object.index()).collect::<Vec<_>>()
    });
    let page = SuggestionsPage {
        all: all.len(),
        nothing: memory.ranked.len() - all.len(),
        combination: combination(memory),
        objects: objects.collect(),
    };
    let notes = suggestion_notes(&memory.trace, &memory.ranked, memory.combination.as_ref());
    super::printed(memory, &[notes.into_iter().fold(table, Table::note)], &page)
}

/// Prefetched arguments of the query for the list of memory suggestions, by part of the page.
pub(crate) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    if stage == Stage::Memory && opened.memory(None).is_ok() { one_empty_set() } else { Vec::new() }
}

/// Numbers (from 1) of the suggestions that together lower the peak most; empty if none lowers the peak.
pub(super) fn combination(memory: &Memory) -> Vec<usize> {
    let chosen = memory.combination.as_ref().filter(|combination| combination_note(combination).is_some());
    chosen.iter().flat_map(|chosen| &chosen.chosen).map(|at| at + 1).collect()
}

/// Number of memory suggestions that the list shows by default.
pub(super) fn count(memory: &Memory) -> usize {
    listed(&memory.ranked, memory.combination.as_ref()).len().min(ROWS)
}
