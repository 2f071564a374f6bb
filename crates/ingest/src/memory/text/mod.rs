//! Reader and writer of memory text, a small text format of memory traces for tests and hand-written examples.
//!
//! Each line has one statement, or several separated by `;`. The grammar is in docs/formats/memory-text.md.
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

/// Default device of a text.
const FIRST_DEVICE: &str = "gpu:0";

/// Words after a statement that set a flag of the call.
const FLAGS: [(&str, u8); 4] = [
    ("opaque", call_flags::OPAQUE),
    ("sync", call_flags::SYNCHRONOUS),
    ("within", call_flags::WITHIN_OPERATOR),
    ("inferred", call_flags::INFERRED),
];

/// Error in memory text with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct TextError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The fault, and the expected token.
    pub what: String,
}

/// Describe an invalid range of an object's bytes, or a range with 0 accesses.
fn range_error(begin: u64, end: u64, size: u64, times: u32) -> String {
    if times == 0 {
        return "the number of memory accesses must be at least 1".to_owned();
    }
    format!(
        "the accessed range {begin}:{end} must not be empty, must lie inside the {size} bytes of the memory object, and must not overlap or \
         precede the previous range"
    )
}
