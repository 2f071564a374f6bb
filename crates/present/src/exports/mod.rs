//! Exports of whole traces to the formats of other tools, and copies of trace files with a critical path marked.

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
