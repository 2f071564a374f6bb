//! One file per form of output.

pub mod calls;
pub mod csv;
pub mod diff;
pub mod findings;
pub mod human;
pub mod json;
mod markdown;
mod paragraph;
mod spread;
pub mod terminal;
