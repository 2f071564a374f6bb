//! Comparison of two programs, or of a program before and after a change: steps, operators, kernels and call paths.
//! Values are per step (without steps per run, or per call) and are tested against the spread.
//!
//! A [`Profile`] has the times of each row in each step, for one rank of one run. [`compare`] aligns the profiles of
//! two sides and tests every difference (see [`statistics`]).
#![forbid(unsafe_code)]

mod align;
mod comparability;
mod functions;
mod inferred_steps;
mod kernel_families;
mod missing_records;
mod pair;
mod paths;
mod profile;
mod recording;
pub mod statistics;
mod tables;
mod trim_warmup;
mod units;

pub use align::{Change, Diff, Method, Options, Side, Table as ChangeTable, Verdict, compare};
pub use comparability::Per;
pub use missing_records::ImplausibleCount;
pub use profile::{Cell, MeanStep, Measure, Profile, Row, StepLength};
pub use tables::tables;
pub use trim_warmup::trim_warmup;
