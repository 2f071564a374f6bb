//! What a rule found.

use super::memory::MemoryGain;
use super::rule::RuleInfo;
use super::source_location::SourceLocation;
use crate::critical_path::exact::what_if::{Edit, Gain};
use stackline_model::{EventId, Unit};
use std::sync::Arc;

/// How sure it is that the trace shows what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Support {
    /// Records say so.
    Exact,
    /// Records say so of a part.
    Partial,
    /// It follows from a rule.
    Inferred,
}

impl Support {
    /// All of them, the surest first.
    pub const ALL: [Self; 3] = [Self::Exact, Self::Partial, Self::Inferred];

    /// Stable text name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Partial => "partial",
            Self::Inferred => "inferred",
        }
    }
}

/// How sure it is that the change helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// It nearly always does.
    High,
    /// It mostly does.
    Medium,
    /// It is worth a look.
    Low,
}

impl Confidence {
    /// One less.
    pub(super) fn lower(self) -> Self {
        if self == Self::High { Self::Medium } else { Self::Low }
    }

    /// All of them, the surest first.
    pub const ALL: [Self; 3] = [Self::High, Self::Medium, Self::Low];

    /// Stable text name.
    pub fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

/// What a finding rests on: a number, with its unit. Rules that are built in name it by what they hold themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact<N = &'static str> {
    /// What was measured, in words.
    pub name: N,
    /// Its value.
    pub value: f64,
    /// Unit of the value.
    pub unit: Unit,
}

impl Fact {
    /// How many.
    pub fn count(name: &'static str, count: usize) -> Self {
        Self { name, value: count as f64, unit: Unit::None }
    }

    /// A time given in ns, in µs.
    pub fn time(name: &'static str, ns: i64) -> Self {
        Self { name, value: ns as f64 / 1e3, unit: Unit::Us }
    }
}

/// Estimated gain of a change, as its rule states it.
#[derive(Clone, Debug)]
pub enum GainEstimate {
    /// These edits, made together: their gain is computed by replay.
    Edits(Vec<Edit>),
    /// The same where it is not certain what a repair leaves: the gain is that of the first list, and its bounds hold those of
    /// the others, too.
    Range(Vec<Edit>, Vec<Vec<Edit>>),
    /// The same of work that samples saw, with the error that counting them has: the gain is that of the first list, at least that of
    /// the second and at most that of the third.
    Sampled {
        /// As it likely is.
        likely: Vec<Edit>,
        /// If it is as little as it may be.
        least: Vec<Edit>,
        /// If it is as much as it may be.
        most: Vec<Edit>,
    },
    /// As `Edits` for a speculative change, such as half the time: its lower bound is 0, and it is no part of what all
    /// findings gain together.
    Speculative(Vec<Edit>),
    /// The same where all of it may go: the gain is that of the first list, and at most that of the second.
    SpeculativeRange(Vec<Edit>, Vec<Edit>),
    /// Replay cannot express the change: per step, in ns, by the model that is named.
    Model {
        /// Least, likely and most.
        gain: Gain,
        /// How it was estimated, in a sentence.
        model: &'static str,
    },
    /// Insignificant, for this reason: reported in a note, not as a finding.
    Insignificant(&'static str),
    /// It is about the measurement itself: nothing is gained by a repair but better numbers.
    None,
}

/// Candidate finding of a rule.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What is wrong, in one line, with its numbers.
    pub title: String,
    /// Where.
    pub place: SourceLocation,
    /// The events that show it.
    pub events: Vec<EventId>,
    /// What it rests on.
    pub facts: Vec<Fact>,
    /// Whether records say so.
    pub support: Support,
    /// Whether the change helps.
    pub confidence: Confidence,
    /// What it is worth.
    pub gain_estimate: GainEstimate,
}

/// What to change, where, and what it gains.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The rule that found it.
    pub rule: Arc<RuleInfo>,
    /// What is wrong, in one line, with its numbers.
    pub title: String,
    /// Where it is seen: the innermost function of the user's own that shows it.
    pub place: SourceLocation,
    /// Where the edit belongs, if that is known to be elsewhere ([`Finding::change_place`]).
    pub change: Option<SourceLocation>,
    /// The events that show it, ascending.
    pub events: Vec<EventId>,
    /// What it rests on.
    pub facts: Vec<Fact<String>>,
    /// Whether records say so.
    pub support: Support,
    /// Whether the change helps.
    pub confidence: Confidence,
    /// What the change alone gains per step, in ns; none where nothing is gained by it.
    pub gain: Option<Gain>,
    /// What the change alone saves of a device's memory; none where that is not what is gained by it.
    pub memory: Option<MemoryGain>,
    /// The part of the time which is left once all findings above it are mended, per step, in ns.
    pub on_top_ns: Option<i64>,
    /// How the gain was found: `replay`, `rule` where a rule of the user's own states it, or the model in a sentence.
    pub method: &'static str,
    /// The edits whose replay it is, with the cases that its bounds hold, as text from which `what-if` computes the same gain and bounds.
    pub edits: Vec<String>,
    /// The edits without cases in words, for people and for the comparison of runs: they name code, not events.
    pub edit_labels: Vec<String>,
    /// Of several ranks those that have it, ascending, each with its gain; empty where one trace was looked at. All else is that of
    /// the rank that gains most by it.
    pub ranks: Vec<OfRank>,
}

/// A finding on one of several ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfRank {
    /// The rank.
    pub rank: i64,
    /// What the change alone gains there per step, in ns; none where nothing is gained by it.
    pub gain_ns: Option<i64>,
}

/// The method of gains that are replayed,
pub const REPLAY: &str = "replay";
/// of those that a rule of the user's own states,
pub const STATED: &str = "rule";
/// and of those that are replayed of a hope.
pub const SPECULATIVE: &str = "speculative replay";

impl Finding {
    /// The predicted gain, in ns per step; 0 where there is none.
    pub fn gain_ns(&self) -> i64 {
        self.gain.map_or(0, |gain| gain.ns)
    }

    /// Of several ranks the one that it is told of: where it gains most.
    pub fn told_of(&self) -> Option<i64> {
        self.ranks.iter().max_by_key(|of| (of.gain_ns, std::cmp::Reverse(of.rank))).map(|of| of.rank)
    }

    /// Whether it may well be nothing: it is only worth a look, and perhaps nothing, or nothing at all, is gained by it.
    pub fn is_unsure(&self) -> bool {
        let perhaps_nothing = match &self.memory {
            Some(memory) => memory.low_bytes == 0,
            None => self.gain.is_none_or(|gain| gain.low_ns <= 0),
        };
        self.confidence == Confidence::Low && perhaps_nothing
    }

    /// Whether there is a repair whose gain it is, rather than a hope.
    pub fn is_repair(&self) -> bool {
        self.method != SPECULATIVE
    }
}
