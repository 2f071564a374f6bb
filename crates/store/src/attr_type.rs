//! Text names of argument types.

use stackline_model::AttrType;

/// Stable text name of a type.
pub(crate) fn name(kind: AttrType) -> &'static str {
    match kind {
        AttrType::Null => "null",
        AttrType::Bool => "bool",
        AttrType::Int => "int",
        AttrType::Uint => "uint",
        AttrType::Float => "float",
        AttrType::Str => "str",
        AttrType::Json => "json",
    }
}

/// Inverse of [`name`].
pub(crate) fn from_name(text: &str) -> Option<AttrType> {
    (0..=6).filter_map(AttrType::from_u8).find(|t| name(*t) == text)
}
