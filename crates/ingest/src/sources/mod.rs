//! The registry of formats: one file or folder each, one line each in [`ALL`].

pub(crate) mod chrome;

use crate::{Error, ReadOptions};
use stackline_model::Trace;
use std::io::Read;

/// A format that can be read.
#[derive(Clone, Copy)]
pub struct Source {
    /// Stable name; its documentation is `docs/formats/<name>.md`.
    pub name: &'static str,
    /// Whether the first bytes (at most 64 KiB, decompressed) look like it.
    pub sniff: fn(&[u8]) -> bool,
    /// Reads a trace with this label.
    pub read: fn(&str, &mut dyn Read, &ReadOptions) -> Result<Trace, Error>,
}

/// Every format.
pub const ALL: &[Source] =
    &[Source { name: "chrome", sniff: chrome::sniff, read: |name, input, options| chrome::read(name, input, options) }];
