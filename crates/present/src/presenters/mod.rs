//! Presenters of results: one module per form of output, such as text, JSON, CSV and Markdown.

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
