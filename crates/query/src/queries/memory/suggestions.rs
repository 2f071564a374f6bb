//! What to change, best first.

use crate::{Answer, Arguments, Opened, QueryError};
use serde_json::json;
use stackline_memory::tables::{combination_note, listed, suggestion_notes, suggestions_table};
use stackline_model::Table;

/// Most rows, unless more or fewer are asked for; and in any case.
const ROWS: usize = 200;
const MOST: usize = 2000;
/// Objects of a suggestion that are named.
const OBJECTS: usize = 8;

pub(crate) fn answer(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let memory = super::memory(opened, arguments)?;
    let most = arguments.number("most")?.unwrap_or(ROWS).min(MOST);
    let all = listed(&memory.ranked, memory.combination.as_ref());
    let shown = &all[..all.len().min(most)];
    let table = suggestions_table(&memory.trace, &memory.ranked, shown, &memory.peaks);
    let chosen = memory.combination.as_ref().filter(|combination| combination_note(combination).is_some());
    let combination: Vec<usize> = chosen.iter().flat_map(|chosen| &chosen.chosen).map(|at| at + 1).collect();
    let objects = shown.iter().map(|at| {
        let members = memory.ranked[*at].suggestion.members();
        members.take(OBJECTS).map(|member| member.object.index()).collect::<Vec<_>>()
    });
    let page = json!({
        "all": all.len(), "nothing": memory.ranked.len() - all.len(), "combination": combination,
        "objects": objects.collect::<Vec<_>>(),
    });
    let notes = suggestion_notes(&memory.trace, &memory.ranked, memory.combination.as_ref());
    super::printed(memory, &[notes.into_iter().fold(table, Table::note)], page)
}
