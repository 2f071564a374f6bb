//! Query of live memory at each peak by owner.

use crate::prefetch::{Stage, with};
use crate::{Answer, Arguments, OpenRun, QueryError};
use serde::Serialize;
use stackline_memory::tables::{By, at_peak_table};

/// Most rows.
const ROWS: usize = 400;

/// Additional JSON keys of the memory owners: the selectable groupings.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct HoldersPage {
    by: Vec<&'static str>,
}

/// Answer the query for the live memory at each peak, grouped by owner.
pub(crate) fn answer(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let memory = super::memory(opened, arguments)?;
    let choices = By::ALL.map(|by| (by.name(), by));
    let by = arguments.choice("by", &choices)?.unwrap_or(By::Place);
    let table = at_peak_table(&memory.trace, &memory.peaks, by);
    super::printed(
        memory,
        &[super::truncate_rows(table, ROWS)],
        &HoldersPage { by: choices.map(|(name, _)| name).into() },
    )
}

/// Selectable groupings of owners.
const CHOICES: [&str; 6] = ["place", "kind", "operator", "module", "phase", "size"];

/// Prefetched arguments of the query for live memory at each peak, by grouping, by part of the page.
pub(crate) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    if stage != Stage::Holders || opened.memory(None).is_err() {
        return Vec::new();
    }
    CHOICES.map(|by| with(&[("by", by)])).into()
}
