//! Findings: what to change, where, and what it gains.
//!
//! A [`Rule`] is one file in `rules/` with a constant, registered by one line in `rules/mod.rs`. It looks at one trace
//! and proposes changes as edits of the dependency graph; replay says what each gains, and what all gain together.

mod change_place;
mod collectives;
mod constant_runs;
mod estimate;
mod finding;
mod identity;
mod interludes;
mod measured;
mod memory;
mod nesting;
mod options;
mod others;
mod page;
mod path;
mod place;
mod price;
mod rank;
mod rank_effects;
mod ranks;
mod recording;
mod rule;
pub mod rules;
mod settings;
mod standstill;
mod startup;
mod step_words;
mod subject;
mod tables;
mod unchecked;
mod uncovered;
mod waits;
mod within;
mod work;

pub use crate::recording::{OperatorCost, RecordedProcess, Recording};
pub(crate) use estimate::counted;
pub use finding::{Confidence, Draft, Fact, Finding, HOPE, OfRank, REPLAY, STATED, Support, Worth};
pub use identity::{Identity, Mark, fingerprints, pair};
pub use measured::Measured;
pub use memory::{DevicePeak, MemoryFindings, MemoryGain};
pub use options::Options;
pub use others::{Message, OtherFact, OtherFinding, OtherRule, Others};
pub use path::{files_of, files_of_calls, path_of};
pub use place::{Place, place_of};
pub(crate) use place::{PlaceKey, Places, launch_of};
pub use rank::{Findings, find, find_kept, find_with};
pub use ranks::{RankTimes, merge, ranges};
pub use recording::{Gone, recorded_in};
pub(crate) use rule::STALL_REASON;
pub use rule::{Area, Elsewhere, Need, Programs, Rule, RuleInfo, Setting};
pub use rules::of_calls::{NoCalls, StepTime, find_in_calls, place_of_call, step_time, steps_of_calls};
pub use settings::{Settings, SettingsError};
pub use subject::Subject;
pub use tables::{FINDINGS, UNCHECKED, evidence, findings_table, tables};
pub use unchecked::{Reason, Unchecked};
pub use uncovered::{LargeGroup, LargeKind, Uncovered};
