//! Findings: performance issues with source location, fix and estimated gain.
//!
//! A [`Rule`] is one file in `rules/` with a constant, registered by one line in `rules/mod.rs`. It analyzes one trace
//! and proposes changes as edits of the dependency graph. Replay estimates the gain of each change and of all combined.
#![forbid(unsafe_code)]

mod call_tree;
mod collectives;
mod compilations;
mod constant_runs;
mod estimate;
mod exposed_collectives;
mod external_rules;
mod finding;
mod findings;
mod fix_location;
mod gain;
mod gain_estimate;
mod gain_method;
mod gpu_work_by_launcher;
mod host_gaps;
mod identity;
mod initialization;
mod large_group;
mod launches;
mod memory;
mod memory_findings;
mod missing_records;
mod nesting;
mod options;
mod page;
mod parse_settings;
mod path;
mod rank;
mod rank_effects;
mod rank_times;
mod ranks;
mod recorded_operators;
mod recording;
mod requirement;
mod rule;
mod rule_context;
mod rule_info;
pub mod rules;
mod sampled_waits;
mod sampled_work;
mod settings;
mod skipped_rules;
mod span_index;
mod span_queries;
mod standstill;
mod step_words;
mod tables;
mod uncovered;

pub use call_tree::{StepTime, find_in_calls, place_of_call, step_time, steps_of_calls};
pub use external_rules::{ExternalFact, ExternalFinding, ExternalRule, ExternalRules, Message};
pub use finding::{Candidate, CandidateKind, Fact, Finding, RankGain, Support};
pub use findings::Findings;
pub use gain_estimate::{GainBasis, GainEstimate};
pub use gain_method::GainMethod;
pub use identity::{Identity, Mark, fingerprints, pair};
pub use large_group::{ConcurrentGpuWork, LargeGroup, LargeKind, Uncovered};
pub use memory::{DevicePeak, MemoryGain};
pub use memory_findings::MemoryFindings;
pub use options::Options;
pub use parse_settings::SettingsError;
pub use path::{files_of, files_of_calls, path_of};
pub use rank::{find, find_with};
pub use rank_times::{RankTimes, Slowness};
pub use ranks::{merge, ranks_text};
pub use recorded_operators::{RemovedOperators, removed_operators};
pub use requirement::Requirement;
pub use rule::{AdviceVariant, ProgramCondition, Rule, RuleProperty};
pub use rule_context::RuleContext;
pub use rule_info::{Area, RuleInfo};
pub use settings::{Setting, Settings};
pub use skipped_rules::{Reason, SkippedRule};
pub use tables::{FINDINGS, UNCHECKED, evidence, findings_table, tables};
