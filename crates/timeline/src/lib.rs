//! Base of timeline analyses: steps, windows, vocabulary, kernel types, launches, source locations, operator trees.
//!
//! All crates of analyses depend on this one; it depends on `stackline-model` only.
#![forbid(unsafe_code)]

pub mod after_steps;
pub mod classify;
pub mod confidence;
pub mod frame_functions;
pub mod frame_names;
pub mod gpu_view;
pub mod host_collectives;
pub mod hta_view;
pub mod import_frames;
mod imports;
pub mod inferred_steps;
pub mod intervals;
pub mod kernel_type;
pub mod launch_handover;
pub mod launch_pattern;
pub mod name_pattern;
mod odd_steps;
pub mod op_tree;
pub mod operator_costs;
pub mod phase_rules;
pub mod recording;
pub mod sampling_error;
pub mod scope;
pub mod source_location;
pub mod stats;
pub mod step_cycles;
pub mod step_marks;
pub mod steps;
pub mod vocabulary;
pub mod window_choice;

pub use odd_steps::is_unfinished;
pub use scope::{DefaultWindow, Scope};
pub use step_cycles::{AmbiguousCycle, ambiguous_cycles, keep_cycle};
