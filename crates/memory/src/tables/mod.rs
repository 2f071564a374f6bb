//! What the other modules find, as tables: for the command line, the page and Python.

mod alive;
mod allocator;
mod objects;
mod out_of_memory;
mod peaks;
mod rules;
mod suggestions;
mod waste;

use crate::place::{frame_of, place_text};
use stackline_model::{MemoryFrame, MemoryObjectId, MemoryStackId, MemoryTrace, Table, Unit};

pub use alive::{By, alive_table, at_peak_table};
pub use allocator::{Reserved, allocator_table, reserved_curve, segments_table};
pub use objects::{curve_table, objects_table};
pub use out_of_memory::{failed_requests_table, out_of_memory_table};
pub use peaks::{NamedPeak, named_peaks, peaks_table};
pub use rules::rules_table;
pub use suggestions::{
    Ranked, apply, combination_note, listed, ranked_suggestions, suggestion_notes, suggestions_table,
};
pub use waste::waste_table;

/// Where in the program: one column for people, and its parts for programs.
fn places(table: Table, trace: &MemoryTrace, stacks: &[MemoryStackId]) -> Table {
    let frames: Vec<Option<MemoryFrame>> = stacks.iter().map(|stack| frame_of(trace, *stack)).collect();
    let text = |id| Some(trace.strings.get(id).to_owned()).filter(|text| !text.is_empty() && text != "??");
    let file = |frame: &Option<MemoryFrame>| frame.and_then(|frame| text(frame.file));
    let line = |frame: &Option<MemoryFrame>| frame.filter(|frame| frame.line > 0).map(|frame| i64::from(frame.line));
    table
        .text("place", stacks.iter().map(|stack| Some(place_text(trace, *stack)).filter(|text| !text.is_empty())))
        .text("file", frames.iter().map(file))
        .i64("line", Unit::None, frames.iter().map(line))
        .text("function", frames.iter().map(|frame| frame.and_then(|frame| text(frame.function))))
}

/// The modules that objects belong to.
fn modules(table: Table, trace: &MemoryTrace, objects: &[MemoryObjectId]) -> Table {
    let name = |object: &MemoryObjectId| trace.strings.get(trace.objects.module[object.index()]).to_owned();
    table.text("module", objects.iter().map(|object| Some(name(object)).filter(|name| !name.is_empty())))
}

/// A size or a count as tables hold it.
fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// `part` of `all` in percent. Sums of a damaged trace, which stop at the largest number, may be less than their parts.
fn percent(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { (100.0 * part as f64 / all as f64).min(100.0) }
}
