//! Two programs, or one before and after a change, compared: steps, operators, kernels and call paths, per step (without steps
//! as wholes, or per call), with what is beyond the spread told from noise.
//!
//! A [`Profile`] is what stays of one rank of one run: for each thing its time in each step. [`compare`] puts the
//! profiles of two sides beside each other and tests every difference (see [`statistics`]).

mod align;
mod comparability;
mod functions;
mod inferred_steps;
mod kernel_families;
mod lost;
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
pub use kernel_families::kernel_family;
pub use lost::Lost;
pub use profile::{Cell, MeanStep, Measure, Profile, Row, StepLength};
pub use tables::tables;
pub use trim_warmup::trim_warmup;
