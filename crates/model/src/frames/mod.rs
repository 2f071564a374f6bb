//! Frames of call paths: one type and one interned table for the call tree, the stacks of a timeline and those of
//! memory.
//!
//! Frames are equal as in `DeepContext` (section 4.2): Python by file, function and line, native code by library and
//! offset, operators by name. A frame's texts are handles of its container's string table.

mod frame;
mod kind;
mod named;
mod source_line;
mod table;

pub use frame::{CONTENT, Frame};
pub use kind::FrameKind;
pub use table::FrameTable;
