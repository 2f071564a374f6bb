//! What frames are known by.

use serde::{Deserialize, Serialize};

/// What makes two frames the same (`DeepContext` section 4.2).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FrameKey {
    /// A line of a Python function. All three are texts or a line.
    Python {
        /// Qualified name of the function.
        function: u32,
        /// File of its code.
        file: u32,
        /// Line within the file that was running, 0 if the code has none.
        line: u32,
        /// First line of the function.
        first_line: u32,
    },
    /// A framework operator, by name.
    Operator {
        /// Its name.
        name: u32,
    },
    /// A backward node of autograd, by name.
    Backward {
        /// Its name.
        name: u32,
    },
    /// A span that the user or a library named.
    Span {
        /// Its name.
        name: u32,
    },
    /// An instance of a module, by its dotted path.
    Module {
        /// Path, such as `layers.0.attention`.
        path: u32,
        /// Its class.
        class: u32,
    },
    /// An address in a library.
    Native {
        /// The library.
        library: u32,
        /// Address relative to its first byte in memory.
        offset: u64,
    },
    /// An address in no library (code made at run time).
    Unmapped {
        /// The address.
        address: u64,
    },
    /// Never written; it keeps the numbers of those that follow.
    Inputs {
        /// A text.
        inputs: u32,
    },
    /// What found no place in a full tree.
    Overflow,
    /// A framework operator, by name and by the shapes and types of its inputs.
    ShapedOperator {
        /// Its name.
        name: u32,
        /// A text as [`crate::inputs`] explains it.
        inputs: u32,
    },
    /// A backward node of autograd, by name and by the shapes and types of its inputs.
    ShapedBackward {
        /// Its name.
        name: u32,
        /// A text as [`crate::inputs`] explains it.
        inputs: u32,
    },
    /// Spans whose names differ in numbers only, once there were many of them.
    FoldedSpan {
        /// The name with [`NUMBER`] in the place of each number and [`IDENTIFIER`] in that of each identifier, or [`OTHER_NAMES`].
        name: u32,
    },
}

/// Placeholder of a number in the name of a [`FrameKey::FoldedSpan`].
pub const NUMBER: &str = "<n>";

/// Placeholder of a hexadecimal or other generated identifier in the name of a [`FrameKey::FoldedSpan`].
pub const IDENTIFIER: &str = "<id>";

/// Name of the [`FrameKey::FoldedSpan`] of all spans beyond the limit of distinct names.
pub const OTHER_NAMES: &str = "(other names)";
