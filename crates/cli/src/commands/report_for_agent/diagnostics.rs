//! Lines of the report for AI agents on diagnostics of reading.

use super::{TITLE, more, short};
use stackline_model::Problem;
use std::fmt::Write as _;

/// Number of listed kinds of diagnostics.
const LISTED: usize = 4;
/// Codes of diagnostics that change all times of a device. They come first, with the amount.
const SHIFTS: [&str; 2] = ["device_clock_shifted", "device_clock_unknown"];

/// Append a line for each of the first kinds of diagnostics, and the number of further kinds. The same kind of several
/// traces is listed once, with the first example.
pub(super) fn write<'p>(problems: impl Iterator<Item = &'p Problem>, input: &str, out: &mut String) {
    let mut kinds: Vec<(&Problem, u64)> = Vec::new();
    for problem in problems {
        match kinds.iter_mut().find(|(kind, _)| kind.code == problem.code) {
            Some((_, count)) => *count = count.saturating_add(problem.count),
            None => kinds.push((problem, problem.count)),
        }
    }
    let is_shift = |problem: &Problem| SHIFTS.contains(&problem.code.as_str());
    kinds.sort_by_key(|(problem, _)| !is_shift(problem));
    for (problem, count) in kinds.iter().take(LISTED) {
        let amount = match is_shift(problem) && !problem.example.is_empty() {
            true => format!(" ({})", short(&problem.example, 2 * TITLE)),
            false => String::new(),
        };
        let _ = writeln!(out, "Diagnostic of reading {input}: {}, count {count}{amount}", problem.code);
    }
    more(kinds.len(), LISTED, &format!("kinds of diagnostics of reading {input}"), out);
}
