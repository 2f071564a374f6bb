//! What to change, best first.

use crate::{Answer, Arguments, Opened, QueryError};
use serde_json::json;
use stackline_memory::tables::{combination_note, suggestions_table};
use stackline_model::Table;

/// Most rows, unless more or fewer are asked for; and in any case.
const ROWS: usize = 200;
const MOST: usize = 2000;
/// Objects of a suggestion that are named.
const OBJECTS: usize = 8;

pub(crate) fn answer(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let memory = super::memory(opened, arguments)?;
    let most = arguments.number("most")?.unwrap_or(ROWS).min(MOST);
    let shown = &memory.ranked[..memory.ranked.len().min(most)];
    let table = suggestions_table(&memory.trace, shown, &memory.peaks);
    let note = memory.combination.as_ref().and_then(combination_note);
    let combination: Vec<usize> = match (&memory.combination, &note) {
        (Some(combination), Some(_)) => combination.chosen.iter().map(|at| at + 1).collect(),
        _ => Vec::new(),
    };
    let objects = shown.iter().map(|(suggestion, _)| {
        suggestion.members().take(OBJECTS).map(|member| member.object.index()).collect::<Vec<_>>()
    });
    let page = json!({
        "all": memory.ranked.len(), "combination": combination, "objects": objects.collect::<Vec<_>>(),
    });
    super::printed(memory, &[note.into_iter().fold(table, Table::note)], page)
}
