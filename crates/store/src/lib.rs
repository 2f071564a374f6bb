//! Run directories: a trace set as Parquet tables that DuckDB, Polars and pandas open directly, with a manifest. This
//! is the only crate that uses Arrow and Parquet. The format is described in `docs/formats/run-directory.md`.
//!
//! ```
//! use stackline_model::{Trace, TraceSet};
//! use stackline_store::{ReadSelection, WriteOptions, read_run, write_run};
//! let set = TraceSet { traces: vec![Trace::default()] };
//! let folder = tempfile::tempdir()?;
//! let run = folder.path().join("mine.stackline");
//! write_run(&set, &[], &run, &WriteOptions::default())?;
//! assert_eq!(read_run(&run, &ReadSelection::all())?.traces.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod arrow;
mod attr_type;
mod check;
mod columns;
mod commit;
mod error;
mod event_columns;
mod export;
mod manifest;
mod plan;
mod read;
mod track_labels;
mod upgrade;
mod wide;
mod write;

pub use error::Error;
pub use manifest::{
    CallsEntry, FORMAT_VERSION, Manifest, MemoryEntry, TableEntry, TraceEntry, is_complete, is_run, read_manifest,
};
pub use read::{Attributes, ReadSelection, read_calls, read_memory, read_memory_at, read_run, thread_count};
pub use write::{WriteOptions, write_calls, write_profile, write_run};

/// Writer in manifests and Parquet files.
const WRITER: &str = concat!("stackline ", env!("CARGO_PKG_VERSION"));
