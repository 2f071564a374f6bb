//! Random inputs: valid documents in any spelling, damaged ones, ones that aim at the reader's time and at the edges of
//! its window.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "helpers of tests")]

mod documents;
mod hostile;
#[path = "../common/invariants.rs"]
mod invariants;
mod mutations;
#[path = "../common/oracle.rs"]
#[allow(dead_code, reason = "the fuzz targets use the rest")]
mod oracle;
mod windows;

/// One training step in small: see the forms' snapshot for what is read from it.
const STEP: &str = include_str!("../common/step.json");
