//! Whole traces in the formats of other tools: one file per format.

pub mod chrome;
pub mod csv;
pub mod perfetto;
mod perfetto_proto;
mod perfetto_tracks;
mod redact;

pub use redact::redacted;
