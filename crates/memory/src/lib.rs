//! What a memory trace ([`stackline_model::MemoryTrace`]) says: who wastes memory, how much is in use when, and what
//! a change would save.
//!
//! * [`curve`]: live bytes over time, peaks, who is alive at them;
//! * [`composition`]: what a peak is made of;
//! * [`ObjectUsage`]: one pass over all calls and accesses, from which
//! * [`patterns`] finds waste (one file each), by the rules that docs/reference/memory-patterns.md explains;
//! * [`drgpum`] counts as DrGPUM's published artifact does, for comparison;
//! * [`graph`]: what happens before what;
//! * [`allocator`]: a model of PyTorch's caching allocator;
//! * [`suggest`]: what could be changed, each suggestion replayed on the trace.
//! * [`MemoryAnalysis`]: patterns, peaks and suggestions of one trace, worked out once;
//! * [`tables`]: all of it as tables.
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
