//! Tables of all results, for the command line, the page and Python.

mod allocator;
mod compare;
mod composition;
mod live_objects;
mod multiple_files;
mod objects;
mod out_of_memory;
mod peaks;
mod rank_names;
mod rules;
mod suggestions;
mod waste;

use crate::source_location::{SourceLocation, locate};
use rustc_hash::FxHashMap;
use stackline_model::{MemoryObjectId, MemoryStackId, MemoryTrace, Table, Unit};

pub use allocator::{Reserved, SEGMENTS_NOTE, allocator_table, reserved_curve, segments_table};
pub use compare::{comparison_table, peaks_comparison_table};
pub use composition::{composition_table, is_unknown};
pub use live_objects::{By, alive_table, at_peak_table};
pub use multiple_files::{Arrangement, MemorySource, MemorySummary, SeveralMemories};
pub use objects::{curve_table, objects_table};
pub use out_of_memory::{failed_requests_table, out_of_memory_table};
pub use peaks::{NamedPeak, PeakScope, named_peaks, peaks_table};
pub use rank_names::unique_ranks;
pub use rules::rules_table;
pub use suggestions::{
    Ranked, apply, combination_note, listed, ranked_suggestions, suggestion_notes, suggestions_table,
};
pub use waste::waste_table;

/// Names of the tables of one memory trace, or of several memory traces shown together.
pub const NAMES: [&str; 16] = [
    "memory_peaks",
    "memory_composition",
    "memory_at_peak",
    "memory_alive",
    "memory_allocator",
    "memory_out_of_memory",
    "memory_waste",
    "memory_suggestions",
    "memory_applied",
    "memory_objects",
    "memory_rules",
    "memory_curve",
    "memory_ranks",
    "memory_rank_difference",
    "memory_series",
    "memory_growth",
];

/// Names of the tables that compare two memory traces.
pub const NAMES_OF_COMPARISON: [&str; 2] = ["memory_diff_peaks", "memory_diff"];

/// Add the columns of source locations to a table: one column for people, and its parts for programs.
fn add_place_columns(table: Table, trace: &MemoryTrace, stacks: &[MemoryStackId]) -> Table {
    let mut known = FxHashMap::default();
    for stack in stacks {
        known.entry(*stack).or_insert_with(|| locate(trace, *stack));
    }
    let locations = || stacks.iter().map(|stack| known.get(stack).and_then(Option::as_ref));
    let line = |location: &SourceLocation| (location.line > 0).then(|| i64::from(location.line));
    table
        .text("place", locations().map(|location| location.map(|l| l.text.clone()).filter(|text| !text.is_empty())))
        .text("file", locations().map(|location| location.and_then(|l| l.file.clone())))
        .i64("line", Unit::None, locations().map(|location| location.and_then(line)))
        .text("function", locations().map(|location| location.and_then(|l| l.function.clone())))
}

/// Add a column with the modules (`nn.Module`) of memory objects.
fn add_module_column(table: Table, trace: &MemoryTrace, objects: &[MemoryObjectId]) -> Table {
    let name = |object: &MemoryObjectId| trace.strings.get(trace.objects.module[object.index()]).to_owned();
    table.text("module", objects.iter().map(|object| Some(name(object)).filter(|name| !name.is_empty())))
}

/// Convert a size or count to a signed table value, with `i64::MAX` as the upper limit.
fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Share of `part` in `all` in percent. Saturated sums of a damaged trace may be less than their parts.
fn percent(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { (100.0 * part as f64 / all as f64).min(100.0) }
}

#[cfg(test)]
mod tests {
    use super::{NAMES, NAMES_OF_COMPARISON};
    use std::collections::BTreeSet;

    /// The tables depend on the input; this source has all of them.
    #[test]
    fn table_names_are_complete() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/tables")).unwrap();
        let texts: Vec<String> = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
        let opening = concat!("Table::", "new(");
        let made = texts.iter().flat_map(|text| text.split(opening).skip(1));
        let made = made.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
        let known = NAMES.into_iter().chain(NAMES_OF_COMPARISON);
        assert_eq!(known.collect::<BTreeSet<&str>>(), made.collect());
    }
}
