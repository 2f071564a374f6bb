//! Text names of the types of event arguments, as stored in files.

use stackline_model::AttrType;

/// Stable text name of the type of an event argument.
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

/// Type of an event argument by its text name, the inverse of [`name`]; `None` for an unknown name.
pub(crate) fn from_name(text: &str) -> Option<AttrType> {
    (0..=6).filter_map(AttrType::from_u8).find(|t| name(*t) == text)
}
