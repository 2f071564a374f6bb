//! Parser of operators that PyTorch writes as NVTX or roctx ranges (`torch.autograd.profiler.emit_nvtx`).

use super::row::Value;
use stackline_model::EventKind;

/// Formats with such operators, which lack the thread of the forward operator.
pub(crate) const FORMATS: &[&str] = &[super::nsys::FORMAT, super::rocprofv3::FORMAT, super::rpd::FORMAT];

/// Parts after the name in a range text.
const SEQUENCE: &str = ", seq = ";
const OPERATOR: &str = ", op_id = ";
const SIZES: &str = ", sizes = ";

/// A parsed range text. PyTorch writes `aten::mm, seq = 12, op_id = 40, sizes = [[2, 3], [3, 4]]`, without unknown
/// parts.
#[derive(Debug, PartialEq)]
pub(crate) struct Range<'t> {
    pub(crate) name: &'t str,
    is_operator: bool,
    sequence: Option<i64>,
    operator: Option<i64>,
    sizes: Option<&'t str>,
}

impl<'t> Range<'t> {
    /// Parse the text of an NVTX or roctx range.
    pub(crate) fn parse(text: &'t str) -> Self {
        let plain = Self { name: text, is_operator: false, sequence: None, operator: None, sizes: None };
        let is_key = |at: &usize| [SEQUENCE, OPERATOR, SIZES].iter().any(|key| text[*at..].starts_with(key));
        let Some(at) = commas(text).find(is_key) else { return plain };
        let (name, rest) = text.split_at(at);
        let number = |key: &str| {
            let value = after(rest, key)?;
            value[..value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len())].parse().ok()
        };
        let sizes = after(rest, SIZES).map(|sizes| if sizes.contains("]], ") { list(sizes) } else { sizes });
        Self {
            name,
            is_operator: has_namespace(name) || is_autograd_node(name),
            sequence: number(SEQUENCE),
            operator: number(OPERATOR),
            sizes: sizes.filter(|sizes| serde_json::from_str::<serde::de::IgnoredAny>(sizes).is_ok()),
        }
    }

    /// Category and event kind that torch.profiler would give this NVTX or roctx range.
    pub(crate) fn kind(&self) -> (&'static str, EventKind) {
        match self.is_operator {
            true => ("cpu_op", EventKind::Operator),
            false => ("user_annotation", EventKind::Annotation),
        }
    }

    /// Event arguments of the range: sequence number, operator ID and input sizes.
    pub(crate) fn arguments(&self) -> [(&'static str, Value<'t>); 3] {
        [
            ("Sequence number", Value::Int(self.sequence)),
            ("Record function id", Value::Int(self.operator)),
            ("Input Dims", self.sizes.map_or(Value::Int(None), Value::Json)),
        ]
    }
}

/// Offsets of the commas in a text.
fn commas(text: &str) -> impl Iterator<Item = usize> {
    memchr::memchr_iter(b',', text.as_bytes())
}

/// Text after the first occurrence of a key that begins with a comma, such as `, seq = `; `None` without the key.
fn after<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    commas(text).find_map(|at| text[at..].strip_prefix(key))
}

/// Check if a name contains `::`, as names of operators do.
fn has_namespace(name: &str) -> bool {
    let bytes = name.as_bytes();
    memchr::memchr_iter(b':', bytes).any(|at| bytes.get(at + 1) == Some(&b':'))
}

/// Nested list at the start of a text: the text up to the first `]]`.
fn list(text: &str) -> &str {
    text.find("]]").map_or(text, |end| &text[..end + 2])
}

/// Check if a name is that of an autograd node such as `MmBackward0`, or of the engine's range around it.
pub(crate) fn is_autograd_node(name: &str) -> bool {
    let name = name.strip_prefix("autograd::engine::evaluate_function: ").unwrap_or(name);
    name.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with("Backward")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_of_pytorch_are_distinguished_from_user_ranges() {
        let range = Range::parse("aten::view, op_id = 314290");
        assert_eq!((range.name, range.kind().1, range.operator), ("aten::view", EventKind::Operator, Some(314_290)));
        let range = Range::parse("aten::mm, seq = 12, op_id = 40, sizes = [[2, 3], [3, 4]], input_op_ids = [(3,0)]");
        assert_eq!((range.sequence, range.operator, range.sizes), (Some(12), Some(40), Some("[[2, 3], [3, 4]]")));
        assert_eq!(Range::parse("aten::add, seq = 1, sizes = [[], [2]]").sizes, Some("[[], [2]]"));
        assert_eq!(Range::parse("MmBackward0, seq = 3").kind().1, EventKind::Operator);
        let step = Range::parse("ProfilerStep#3, op_id = 5");
        assert_eq!((step.name, step.is_operator), ("ProfilerStep#3", false));
        assert_eq!(
            Range::parse("iteration 17"),
            Range { name: "iteration 17", is_operator: false, sequence: None, operator: None, sizes: None }
        );
        assert!(!Range::parse("std::vector work").is_operator, "no range of PyTorch's");
    }
}
