//! Random inputs: valid documents in any spelling, damaged ones, ones that aim at long run times, and ones that aim at
//! the window's edges.

use crate::invariants;

mod documents;
mod hostile;
mod mutations;
mod windows;

/// One small training step; a snapshot of the forms shows its events.
const STEP: &str = include_str!("../common/step.json");
