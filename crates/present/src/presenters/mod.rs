//! One file per form of output.

pub mod calls;
pub mod csv;
pub mod findings;
pub mod human;
pub mod json;
pub mod terminal;
