//! What the other modules find, as tables: for the command line, the page and Python.

mod alive;
mod allocator;
mod objects;
mod out_of_memory;
mod peaks;
mod place;
mod waste;

pub use alive::{By, alive_table, at_peak_table};
pub use allocator::{allocator_table, reserved_at};
pub use objects::{curve_table, objects_table};
pub use out_of_memory::out_of_memory_table;
pub use peaks::{NamedPeak, named_peaks, peaks_table};
pub use place::{path_text, place_text};
pub use waste::{apply, combination_note, ranked_suggestions, suggestions_table, waste_table};

/// A size or a count as tables hold it.
fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// `part` of `all` in percent.
fn percent(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { 100.0 * part as f64 / all as f64 }
}
