//! Critical paths: the sequence of host and GPU work that determines the length of a window.
//!
//! Three methods find them, independent of each other: [`hta`], [`ctda`] and [`exact`]. The other modules are
//! shared by several methods or callers.
#![forbid(unsafe_code)]

mod call_kind_cache;
mod commands;
pub mod ctda;
mod edge_kind;
mod edit;
mod error;
mod events;
pub mod exact;
mod gpu_dependency;
pub mod gpu_order;
pub mod hta;
mod inferred_sync;
mod instances;
mod launch_queue;
mod missing_records;
mod nearest;
mod overlay;
mod report;
mod stream_simulation;
mod streams;
mod sync_records;
pub mod value_reads;
mod warning;

pub use edge_kind::EdgeKind;
pub use edit::{Change, Edit, Resource, Selector};
pub use error::CriticalPathError;
pub use events::{PathEvents, PathTrack, TrackKey};
pub use instances::Instances;
pub use overlay::{FlowEnd, FlowPair, Mark, Overlay};
pub use report::{PathPoint, ReportShare};
pub use stackline_model::vocabulary::matches;
pub use warning::{Warning, WarningCode};
