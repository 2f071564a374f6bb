//! Presenters: tables and read reports for people ([`terminal`]), for programs ([`json`], [`csv`]), and exports of whole
//! traces to the formats of other tools ([`exports`]).
//!
//! A presenter knows the generic [`Table`](stackline_model::Table) and nothing of the analysis that made it, so a new
//! analysis shows up in every form without a line here. Nothing in this crate prints: it gives text or writes to a
//! writer that the caller passes in.
#![forbid(unsafe_code)]

mod cells;
pub mod exports;
mod presenters;
mod read_report;
mod trace_info;

pub use presenters::{calls, csv, diff, findings, human, json, terminal};
pub use read_report::{read_report_text, truncation_warnings};
pub use trace_info::{Gpu, TraceInfo, TraceNote};
