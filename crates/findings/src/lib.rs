//! Findings: performance issues with source location, fix and estimated gain.
//!
//! A [`Rule`] is one file in `rules/` with a constant, registered by one line in `rules/mod.rs`. It analyzes one trace
//! and proposes changes as edits of the dependency graph. Replay estimates the gain of each change and of all combined.
#![forbid(unsafe_code)]

mod collectives;
mod compilations;
mod constant_runs;
mod estimate;
mod external_rules;
mod finding;
mod fix_location;
mod gain;
mod gain_method;
mod gpu_work_by_launcher;
mod host_gaps;
mod identity;
mod initialization;
mod memory;
mod nesting;
mod options;
mod page;
mod path;
mod rank;
mod rank_effects;
mod ranks;
mod recording;
mod rule;
mod rule_context;
pub mod rules;
mod sampled_waits;
mod settings;
mod skipped_rules;
mod span_index;
mod standstill;
mod step_words;
mod tables;
mod uncovered;

pub use external_rules::{ExternalFact, ExternalFinding, ExternalRule, ExternalRules, Message};
pub use finding::{
    Candidate, CandidateKind, Fact, Finding, GainEstimate, REPLAY, RankGain, SPECULATIVE, STATED, Support,
};
pub use gain_method::GainMethod;
pub use identity::{Identity, Mark, fingerprints, pair};
pub use memory::{DevicePeak, MemoryFindings, MemoryGain};
pub use options::Options;
pub use path::{files_of, files_of_calls, path_of};
pub use rank::{Findings, find, find_with};
pub use ranks::{RankTimes, Slowness, merge, ranks_text};
pub use recording::{RemovedOperators, removed_operators};
pub use rule::{AdviceVariant, Area, ProgramCondition, Requirement, Rule, RuleInfo, Setting};
pub use rule_context::RuleContext;
pub use rules::call_tree::{StepTime, find_in_calls, place_of_call, step_time, steps_of_calls};
pub use settings::{Settings, SettingsError};
pub use skipped_rules::{Reason, SkippedRule};
pub use tables::{FINDINGS, UNCHECKED, evidence, findings_table, tables};
pub use uncovered::{LargeGroup, LargeKind, Uncovered};
