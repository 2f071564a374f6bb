//! Whole traces in the formats of other tools: one file per format; and a trace's own text with a path drawn into it.

pub mod calls;
pub mod chrome;
pub mod csv;
pub mod memory;
pub mod overlay;
pub mod perfetto;
mod perfetto_proto;
mod perfetto_tracks;
mod redact;

pub use redact::redacted;
