//! Operators of ATen that make constants, and what is computed of them; names without their prefix.

/// What makes a tensor whose size its first argument is.
pub(crate) const FILLED: &[&str] = &["ones", "full", "eye"];
/// The same, mostly to be written to.
pub(crate) const BLANK: &[&str] = &["zeros"];
/// What sees a part of a tensor.
pub(crate) const PARTS: &[&str] = &["select", "slice"];
/// What writes to a part of a tensor.
pub(crate) const WRITES: &[&str] = &["copy_", "fill_"];
/// What tables of positions are computed with, and hardly anything else that is copied into parts of tensors.
pub(crate) const WAVES: &[&str] = &["sin", "cos"];
/// What makes a vector.
pub(crate) const VECTORS: &[&str] = &["arange", "linspace", "logspace"];
/// What keeps the number of elements, and their values.
pub(crate) const RESHAPED: &[&str] =
    &["view", "reshape", "unsqueeze", "squeeze", "transpose", "permute", "t", "flatten"];
/// What keeps the values, of another type or elsewhere.
pub(crate) const COPIED: &[&str] = &["to", "_to_copy", "copy_", "detach", "clone", "contiguous", "expand"];
/// What computes element by element: what a constant is worth keeping for.
pub(crate) const COMPUTED: &[&str] = &[
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

/// Operators that make tensors of nothing but sizes and Python values.
pub(crate) const FACTORIES: &[&[&str]] = &[FILLED, VECTORS, &["tril_indices", "triu_indices", "lift_fresh"]];

/// What is computed of them.
pub(crate) const DERIVED: &[&[&str]] = &[
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

/// What makes a tensor of a list of Python's: the last operator of `torch.tensor`.
pub(crate) const LISTS: &[&[&str]] = &[&["lift_fresh"]];

/// What only copies a tensor to the GPU is SL030's.
pub(crate) const UPLOADS: &[&[&str]] = &[&["lift_fresh", "to", "_to_copy", "copy_", "detach", "detach_", "empty"]];
