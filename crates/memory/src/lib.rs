//! Memory analysis of a [`stackline_model::MemoryTrace`]: live bytes, peaks by owner, wasted memory, and savings of
//! changes.
//!
//! * [`curve`]: live bytes over time, peaks, and live objects at a peak;
//! * [`composition`]: composition of a peak by use;
//! * [`ObjectUsage`]: one pass over all calls and accesses, the input of patterns;
//! * [`patterns`]: patterns of wasted memory (one file each), by the rules in docs/reference/memory-patterns.md;
//! * [`drgpum`]: rules of DrGPUM's published artifact, for comparison;
//! * [`graph`]: happens-before order of calls;
//! * [`allocator`]: a model of PyTorch's caching allocator;
//! * [`suggest`]: suggested changes;
//! * [`replay`]: live bytes after suggestions are applied;
//! * [`MemoryAnalysis`]: patterns, peaks and suggestions of one trace, computed once;
//! * [`tables`]: tables of all results.
#![forbid(unsafe_code)]

pub mod allocator;
pub mod composition;
mod concurrent_uses;
pub mod curve;
pub mod drgpum;
pub mod graph;
mod iterations;
mod memory_analysis;
mod object_usage;
pub mod patterns;
pub mod replay;
mod rules;
mod source_location;
pub mod suggest;
pub mod tables;

pub use memory_analysis::MemoryAnalysis;
pub use object_usage::{DeadWrite, Gap, ObjectUsage, ObjectUse};
pub use patterns::frequency::{Bucket, MOST_BUCKETS, buckets, histogram_text};
pub use patterns::{Certainty, Measure, Origin, Pattern, PatternMatch};
pub use rules::Rules;
pub use source_location::{SourceLocation, frame_of, locate, path_text, place_text};
