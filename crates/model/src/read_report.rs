//! Read report: repairs, skipped records and lost data of reading a file. Part of every output.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Information; nothing was changed.
    Note,
    /// The data were read in a way that the file did not literally state.
    Repaired,
    /// A record or a value was left out.
    Skipped,
    /// Data that the file once had are missing (truncation).
    Lost,
}

impl Severity {
    /// Stable text name of a diagnostic's severity.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Repaired => "repaired",
            Self::Skipped => "skipped",
            Self::Lost => "lost",
        }
    }
}

/// Diagnostic: one kind of problem in a file, with its count and first positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// Stable code, such as `bare_quote`.
    pub code: String,
    /// Severity.
    pub severity: Severity,
    /// One sentence for people: the problem, and its handling.
    pub message: String,
    /// Number of occurrences.
    pub count: u64,
    /// Byte offsets (in the decompressed text) of the first occurrences; empty without a position in the file.
    pub offsets: Vec<u64>,
    /// The first example, shortened; empty if there is none.
    pub example: String,
    /// Further examples, if each one matters: at most 31.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<String>,
}

impl Problem {
    /// Add the occurrences of the same diagnostic in another read report.
    fn merge(&mut self, other: Self) {
        other.examples().for_each(|example| self.note_example(example));
        self.count += other.count;
        if self.offsets.len() < MAX_OFFSETS {
            self.offsets.extend(other.offsets.first());
        }
    }

    /// Keep the example of the next occurrence, if it is the first one, or if each one matters.
    fn note_example(&mut self, example: &str) {
        let each = self.each_matters();
        let cut = || example.chars().take(if each { MAX_EACH_LENGTH } else { MAX_EXAMPLE_LENGTH }).collect();
        if self.count == 0 {
            self.example = cut();
        } else if each && self.more.len() < MAX_EXAMPLES && !example.is_empty() {
            self.more.push(cut());
        }
    }

    /// True if each occurrence of the diagnostic has its own information, so that all examples are kept and shown
    /// whole.
    pub fn each_matters(&self) -> bool {
        CODES_WITH_ALL_EXAMPLES.contains(&self.code.as_str())
    }

    /// All stored examples of a diagnostic.
    pub fn examples(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.example.as_str())
            .filter(|text| !text.is_empty())
            .chain(self.more.iter().map(String::as_str))
    }
}

/// The read report of one trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadReport {
    /// Bytes of (decompressed) text that were read.
    pub bytes: u64,
    /// Number of records of any phase.
    pub records: u64,
    /// Number of rows in the event table.
    pub events: u64,
    /// Diagnostics, ordered by severity (worst first), then by code.
    pub problems: Vec<Problem>,
}

/// Maximum number of offsets per diagnostic.
pub const MAX_OFFSETS: usize = 5;
/// Maximum number of further examples, if each matters.
const MAX_EXAMPLES: usize = 31;
/// Maximum number of characters of an example, and of an example that matters by itself.
const MAX_EXAMPLE_LENGTH: usize = 120;
const MAX_EACH_LENGTH: usize = 400;
/// Codes of diagnostics whose occurrences each matter: positions of threads, ends of processes, damaged tables.
const CODES_WITH_ALL_EXAMPLES: [&str; 5] =
    ["in_flight", "last_seen", "process_killed", "ended_by_parent", "damaged_table"];

/// Top-level entry of an exported Chrome trace with [`ReadReport::lost_counts`] of the input, so that the exported file
/// does not pass for a complete one.
pub const LOST_DATA: &str = "stacklineLostData";

/// Codes of diagnostics after which the rest of an input was not read.
const TRUNCATION_CODES: [&str; 5] =
    ["truncated", "damaged_compression", "too_damaged", "oversized_entry", "cut_stream"];

impl ReadReport {
    /// Diagnostic of the damage after which the rest of the input was not read; `None` if reading reached the end.
    pub fn breaks_off(&self) -> Option<&Problem> {
        self.problems.iter().find(|problem| TRUNCATION_CODES.contains(&problem.code.as_str()))
    }

    /// Count one more occurrence of a diagnostic, which is added if its code is new. `offset` is a byte position;
    /// `example` is only kept the first time.
    pub fn count(&mut self, code: &str, severity: Severity, message: &str, offset: Option<u64>, example: &str) {
        self.count_many(code, severity, message, 1, offset, example);
    }

    /// Count `count` more occurrences of a diagnostic at once (none if 0).
    pub fn count_many(
        &mut self,
        code: &str,
        severity: Severity,
        message: &str,
        count: u64,
        offset: Option<u64>,
        example: &str,
    ) {
        if count == 0 {
            return;
        }
        let found = self.problems.iter_mut().find(|p| p.code == code);
        let problem = match found {
            Some(problem) => problem,
            None => {
                let (code, message, offsets) = (code.to_owned(), message.to_owned(), Vec::new());
                let (example, more) = (String::new(), Vec::new());
                self.add(Problem { code, severity, message, count: 0, offsets, example, more })
            }
        };
        problem.note_example(example);
        problem.count += count;
        if problem.offsets.len() < MAX_OFFSETS {
            problem.offsets.extend(offset);
        }
    }

    /// Append a new diagnostic, and return it for changes.
    fn add(&mut self, problem: Problem) -> &mut Problem {
        self.problems.push(problem);
        let last = self.problems.len() - 1;
        &mut self.problems[last]
    }

    /// Add the sizes and diagnostics of another read report to this one; occurrences of the same code are summed.
    pub fn merge(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.records += other.records;
        self.events += other.events;
        for problem in other.problems {
            match self.problems.iter_mut().find(|p| p.code == problem.code) {
                Some(known) => known.merge(problem),
                None => {
                    self.add(problem).offsets.truncate(1);
                }
            }
        }
    }

    /// Sort the diagnostics by severity (worst first), then by code.
    pub fn sort(&mut self) {
        self.problems.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.code.cmp(&b.code)));
    }

    /// Number of occurrences of the diagnostic with this code; 0 if there is none.
    pub fn count_of(&self, code: &str) -> u64 {
        self.problems.iter().find(|p| p.code == code).map_or(0, |p| p.count)
    }

    /// Number of occurrences of each diagnostic with severity [`Severity::Lost`], by code.
    pub fn lost_counts(&self) -> BTreeMap<&str, u64> {
        let lost = self.problems.iter().filter(|problem| problem.severity == Severity::Lost);
        lost.map(|problem| (problem.code.as_str(), problem.count)).collect()
    }

    /// True if nothing was repaired, skipped or lost (notes do not count).
    pub fn is_clean(&self) -> bool {
        self.problems.iter().all(|p| p.severity == Severity::Note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_important_codes_are_all_kept() {
        let report_of = |code: &str, examples: &[&str]| {
            let mut report = ReadReport::default();
            examples.iter().for_each(|example| report.count(code, Severity::Note, "", None, example));
            report
        };
        let mut report = report_of("in_flight", &["a", "b"]);
        report.merge(report_of("in_flight", &["c", "d"]));
        assert_eq!(report.problems[0].examples().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(report.count_of("in_flight"), 4);
        let mut report = report_of("bare_quote", &["a", "b"]);
        report.merge(report_of("bare_quote", &["c"]));
        assert_eq!(report.problems[0].examples().collect::<Vec<_>>(), ["a"]);
        assert_eq!(report_of("in_flight", &["x"; 100]).problems[0].examples().count(), 1 + MAX_EXAMPLES);
    }
}
