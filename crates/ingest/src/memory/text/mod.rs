//! A small text form of memory traces, for tests and for people who want to write one by hand.
//!
//! One statement per line, or several separated by `;`; docs/formats/memory-text.md has the whole grammar.
//!
//! ```
//! let text = "a x 256; h x; k scale x>x\nd x; f x; end";
//! let trace = stackline_ingest::memory::text::read("demo", text)?;
//! assert_eq!((trace.objects.len(), trace.calls.len()), (1, 5));
//! let again = stackline_ingest::memory::text::write(&trace);
//! assert_eq!(again, "a x 256\nh x\nk scale x>x\nd x\nf x\nend\n");
//! # Ok::<(), stackline_ingest::memory::text::TextError>(())
//! ```

mod lex;
mod read;
mod write;

pub use read::read;
pub use write::{write, write_counted};

use stackline_model::call_flags;

/// The device of texts that name none.
const FIRST_DEVICE: &str = "gpu:0";

/// Words behind a statement that stand for a flag of the call.
const FLAGS: [(&str, u8); 4] = [
    ("opaque", call_flags::OPAQUE),
    ("sync", call_flags::SYNCHRONOUS),
    ("within", call_flags::WITHIN_OPERATOR),
    ("inferred", call_flags::INFERRED),
];

/// Why a text is no memory trace, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct TextError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, and what is expected.
    pub what: String,
}
