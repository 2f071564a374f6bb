//! Random inputs: valid documents in any spelling, damaged ones, ones that aim at the reader's time and at the edges of
//! its window.

use crate::invariants;

mod documents;
mod hostile;
mod mutations;
mod windows;

/// One training step in small: see the forms' snapshot for what is read from it.
const STEP: &str = include_str!("../common/step.json");
