//! What reading a file had to repair, skip or lose. Part of every output.

use serde::{Deserialize, Serialize};

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; nothing was changed.
    Note,
    /// The data was read in a way that the file did not literally say.
    Repaired,
    /// A record or a value was left out.
    Skipped,
    /// Data that the file once had is not there (truncation).
    Lost,
}

impl Severity {
    /// Stable text name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Repaired => "repaired",
            Self::Skipped => "skipped",
            Self::Lost => "lost",
        }
    }
}

/// One kind of problem met in a file, with how often and where first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// Stable code, such as `bare_quote`.
    pub code: String,
    /// How bad.
    pub severity: Severity,
    /// One sentence for people: what was met and what was done.
    pub message: String,
    /// How often.
    pub count: u64,
    /// Byte offsets (in the decompressed text) of the first few places; empty if the problem has no place in the file.
    pub offsets: Vec<u64>,
    /// The first example, shortened; empty if there is none.
    pub example: String,
}

/// The read report of one trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadReport {
    /// Bytes of (decompressed) text read.
    pub bytes: u64,
    /// Records met, of any phase.
    pub records: u64,
    /// Rows kept in the event table.
    pub events: u64,
    /// Problems, ordered by severity (worst first), then by code.
    pub problems: Vec<Problem>,
}

/// How many offsets a problem keeps.
pub const MAX_OFFSETS: usize = 5;

impl ReadReport {
    /// Counts one more occurrence. `offset` is a byte position, `example` is only used for the first occurrence.
    pub fn count(&mut self, code: &str, severity: Severity, message: &str, offset: Option<u64>, example: &str) {
        self.count_many(code, severity, message, 1, offset, example);
    }

    /// Counts `count` more occurrences at once (none if 0).
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
                let example = example.chars().take(120).collect();
                let (code, message) = (code.to_owned(), message.to_owned());
                self.problems.push(Problem { code, severity, message, count: 0, offsets: Vec::new(), example });
                let last = self.problems.len() - 1;
                &mut self.problems[last]
            }
        };
        problem.count += count;
        if problem.offsets.len() < MAX_OFFSETS {
            problem.offsets.extend(offset);
        }
    }

    /// Adds another report to this one.
    pub fn merge(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.records += other.records;
        self.events += other.events;
        for problem in other.problems {
            let Problem { code, severity, message, count, offsets, example } = problem;
            self.count_many(&code, severity, &message, count, offsets.first().copied(), &example);
        }
    }

    /// Puts the problems into their documented order.
    pub fn sort(&mut self) {
        self.problems.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.code.cmp(&b.code)));
    }

    /// How often a code occurred.
    pub fn count_of(&self, code: &str) -> u64 {
        self.problems.iter().find(|p| p.code == code).map_or(0, |p| p.count)
    }

    /// Whether anything was repaired, skipped or lost (notes do not count).
    pub fn is_clean(&self) -> bool {
        self.problems.iter().all(|p| p.severity == Severity::Note)
    }
}
