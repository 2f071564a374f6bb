//! Keys that identify frames of call paths in a recorder stream.

use serde::{Deserialize, Serialize};

/// Kind of a call-path frame, with the values that identify it (`DeepContext` section 4.2).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FrameKey {
    /// A line of a Python function. Fields are ids of texts, or lines.
    Python {
        /// Qualified name of the function.
        function: u32,
        /// File of its code.
        file: u32,
        /// Current line in the file, 0 if the code has none.
        line: u32,
        /// First line of the function.
        first_line: u32,
    },
    /// A framework operator, by name.
    Operator {
        /// Name of the operator.
        name: u32,
    },
    /// A backward node of autograd, by name.
    Backward {
        /// Name of the node.
        name: u32,
    },
    /// A span that the user or a library named.
    Span {
        /// Name of the span.
        name: u32,
    },
    /// An instance of a module, by its dotted path.
    Module {
        /// Path, such as `layers.0.attention`.
        path: u32,
        /// Class of the module.
        class: u32,
    },
    /// An address in a library.
    Native {
        /// The library.
        library: u32,
        /// Address relative to its first byte in memory.
        offset: u64,
    },
    /// An address outside of all libraries (code that was generated at run time).
    Unmapped {
        /// The address.
        address: u64,
    },
    /// Never written; it reserves its number.
    Inputs {
        /// A text.
        inputs: u32,
    },
    /// Calls that did not fit into a full tree.
    Overflow,
    /// A framework operator, by name and by the shapes and types of its inputs.
    ShapedOperator {
        /// Name of the operator.
        name: u32,
        /// A text in the format of [`crate::inputs`].
        inputs: u32,
    },
    /// A backward node of autograd, by name and by the shapes and types of its inputs.
    ShapedBackward {
        /// Name of the node.
        name: u32,
        /// A text in the format of [`crate::inputs`].
        inputs: u32,
    },
    /// Spans whose names differ only in numbers, after there were many of them.
    FoldedSpan {
        /// The name with [`NUMBER`] in place of each number and [`IDENTIFIER`] in place of each identifier, or
        /// [`OTHER_NAMES`].
        name: u32,
    },
}

/// Placeholder of a number in the name of a [`FrameKey::FoldedSpan`].
pub const NUMBER: &str = "<n>";

/// Placeholder of a hexadecimal or other generated identifier in the name of a [`FrameKey::FoldedSpan`].
pub const IDENTIFIER: &str = "<id>";

/// Name of the [`FrameKey::FoldedSpan`] of all spans beyond the limit of distinct names.
pub const OTHER_NAMES: &str = "(other names)";
