//! ATen operators that create constants, and operators applied to them; names without prefix.

/// Operators that create a tensor whose size is the first argument.
pub const FILLED: &[&str] = &["ones", "full", "eye"];
/// Operators that create a tensor which is usually overwritten; the first argument is the size.
pub const BLANK: &[&str] = &["zeros"];
/// Operators that create a view of a part of a tensor.
pub const PARTS: &[&str] = &["select", "slice"];
/// Operators that write to a part of a tensor.
pub const WRITES: &[&str] = &["copy_", "fill_"];
/// Operators that compute position tables. Other results are rarely copied into parts of tensors.
pub const WAVES: &[&str] = &["sin", "cos"];
/// Operators that create a vector.
pub const VECTORS: &[&str] = &["arange", "linspace", "logspace"];
/// Operators that keep the number of elements and their values.
pub const RESHAPED: &[&str] = &["view", "reshape", "unsqueeze", "squeeze", "transpose", "permute", "t", "flatten"];
/// Operators that keep the values, with another type or location.
pub const COPIED: &[&str] = &["to", "_to_copy", "copy_", "detach", "clone", "contiguous", "expand"];
/// Elementwise operators, whose results are candidates for caching.
pub const COMPUTED: &[&str] = &[
    "mul",
    "div",
    "add",
    "sub",
    "rsub",
    "neg",
    "pow",
    "exp",
    "log",
    "sin",
    "cos",
    "reciprocal",
    "abs",
    "tril",
    "triu",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "logical_not",
    "bitwise_not",
    "masked_fill",
    "masked_fill_",
    "where",
    "cumsum",
];

/// Operators that create tensors from sizes and Python values only.
pub const FACTORIES: &[&[&str]] = &[FILLED, VECTORS, &["tril_indices", "triu_indices", "lift_fresh"]];

/// Operators applied to constants that [`FACTORIES`] create.
pub const DERIVED: &[&[&str]] = &[
    RESHAPED,
    COPIED,
    COMPUTED,
    BLANK,
    PARTS,
    &[
        "cat",
        "detach_",
        "empty",
        "fill_",
        "ger",
        "meshgrid",
        "outer",
        "polar",
        "repeat",
        "resolve_conj",
        "resolve_neg",
        "stack",
    ],
];

/// Operators that create a tensor from a Python list: the last operator of `torch.tensor`.
pub const LISTS: &[&[&str]] = &[&["lift_fresh"]];

/// Operators that only copy a tensor to the GPU, which rule SL030 covers.
pub const UPLOADS: &[&[&str]] = &[&["lift_fresh", "to", "_to_copy", "copy_", "detach", "detach_", "empty"]];
