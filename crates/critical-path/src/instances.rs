//! Instances of an annotation whose window is analyzed.

use serde::{Deserialize, Serialize};

/// Instances of an annotation, counted from 0. Method `hta` counts in HTA's row order, `ctda` in the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Instances {
    /// One instance.
    One(usize),
    /// Range of instances, both ends included.
    Range(usize, usize),
}
