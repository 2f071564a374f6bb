//! What a memory trace ([`stackline_model::MemoryTrace`]) says: who wastes memory, how much is in use when, and what
//! a change would save.
//!
//! * [`curve`]: live bytes over time, peaks, who is alive at them;
//! * [`composition`]: what a peak is made of;
//! * [`Facts`]: one pass over all calls and accesses, from which
//! * [`patterns`] finds waste (one file each), by the rules that docs/reference/memory-patterns.md explains;
//! * [`drgpum`] counts as DrGPUM's published artifact does, for comparison;
//! * [`graph`]: what happens before what;
//! * [`allocator`]: a model of PyTorch's caching allocator;
//! * [`suggest`]: what could be changed, each suggestion replayed on the trace.
//! * [`Study`]: patterns, peaks and suggestions of one trace, worked out once;
//! * [`tables`]: all of it as tables.
#![forbid(unsafe_code)]

pub mod allocator;
mod beside;
pub mod composition;
pub mod curve;
pub mod drgpum;
mod facts;
pub mod graph;
pub mod patterns;
pub mod replay;
mod rounds;
mod rules;
mod source_location;
mod study;
pub mod suggest;
pub mod tables;

pub use facts::{DeadWrite, Facts, Gap, ObjectUse};
pub use patterns::frequency::{Bucket, MOST_BUCKETS, buckets, histogram_text};
pub use patterns::{Certainty, Measure, Origin, Pattern, PatternMatch};
pub use rules::Rules;
pub use source_location::{SourceLocation, frame_of, locate, path_text, place_text};
pub use study::Study;
