//! A small text form of memory traces, for tests and for people who want to write one by hand.
//!
//! One statement per line, or several separated by `;`. `#` begins a comment. Names are bare words or stand in double
//! quotes (with `\"` and `\\`). What a word means depends on the first one:
//!
//! | statement | meaning |
//! |---|---|
//! | `a NAME BYTES` | allocates an object; `NAME` stands for it until it is freed |
//! | `o NAME BYTES` | an object that is older than the trace |
//! | `f NAME` | frees it |
//! | `s NAME` | fills it (memset) |
//! | `h NAME` | copies to it from the host |
//! | `d NAME` | copies from it to the host |
//! | `c TO FROM` | copies on the device |
//! | `k KERNEL READS>WRITES` | a kernel; names on both sides are read and written |
//! | `e NAME` | records an event on the stream |
//! | `w NAME` | makes the stream wait for the event |
//! | `y` | the host waits for the stream, or for all of them without `@` |
//! | `device NAME` | what follows is on this device (first: `gpu:0`) |
//! | `end` | the program ended here: what is alive now is a leak |
//!
//! In lists, names are separated by commas. A third list, behind a second `>`, holds what a kernel touches in a direction that
//! is not known; sets and copies may have the same lists (`h >x,y`) in place of their names. `f` without a name frees
//! something that nobody knows. Behind a name, `[0:64]` says which bytes, `[0:64+128:256*3]` several ranges
//! and how often each of their bytes was touched, `[:]` all of them, `[some]` some that are not known. Without it, sets and copies touch everything; of
//! kernels it is not known how much they touch. `x:may-access` says of one name how its access is known, where that is not
//! as for the others of the call.
//!
//! Behind any statement: `@N` the stream, `t=NS` when, `dur=NS` how long, `sync` (the host waits for it),
//! `at=FILE:LINE:FUNCTION` a frame of the call path (outermost first, as often as needed); behind kernels `opaque` (they
//! may touch more than is said), `inferred` behind what no source recorded, `call=` the name of what is no kernel, `via=operator-level` or `via=may-access` (how the accesses are known); behind `a`
//! `within` (the operator that allocates uses the object first or frees it); behind objects `name=`, `on=DEVICE`, `address=`, `requested=`,
//! `pool=`, `dtype=`, `shape=`, `kind=`, `module=`, `operator=`.
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
