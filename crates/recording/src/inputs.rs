//! Shapes and types of an operator's inputs as text, such as `f32[4,32], (f32[8], bf16[?]), scalar, -`.
//!
//! Inputs are in the order of the arguments, separated by `, `:
//! - a tensor as its type and its sizes, unknown sizes as `?`;
//! - a list of tensors in parentheses;
//! - `scalar` for a number, `scalars` for a list of numbers;
//! - `-` for a value without shape (None, an undefined tensor, a text, a device …).
//!
//! The number of inputs beyond the limit follows at the end: `+12`.

/// Types by their name in Stackline, with PyTorch's name (`c10::ScalarType`'s C++ type, as its profiler writes it).
const TYPES: &[(&str, &str)] = &[
    ("u8", "unsigned char"),
    ("i8", "signed char"),
    ("i16", "short int"),
    ("i32", "int"),
    ("i64", "long int"),
    ("f16", "c10::Half"),
    ("f32", "float"),
    ("f64", "double"),
    ("c32", "c10::complex<c10::Half>"),
    ("c64", "c10::complex<float>"),
    ("c128", "c10::complex<double>"),
    ("bool", "bool"),
    ("qi8", "c10::qint8"),
    ("qu8", "c10::quint8"),
    ("qi32", "c10::qint32"),
    ("bf16", "c10::BFloat16"),
    ("qu4x2", "c10::quint4x2"),
    ("qu2x4", "c10::quint2x4"),
    ("bits1x8", "c10::bits1x8"),
    ("bits2x4", "c10::bits2x4"),
    ("bits4x2", "c10::bits4x2"),
    ("bits8", "c10::bits8"),
    ("bits16", "c10::bits16"),
    ("f8_e5m2", "c10::Float8_e5m2"),
    ("f8_e4m3fn", "c10::Float8_e4m3fn"),
    ("f8_e5m2fnuz", "c10::Float8_e5m2fnuz"),
    ("f8_e4m3fnuz", "c10::Float8_e4m3fnuz"),
    ("u16", "short unsigned int"),
    ("u32", "unsigned int"),
    ("u64", "long unsigned int"),
    ("f8_e8m0fnu", "c10::Float8_e8m0fnu"),
    ("f4_e2m1fn_x2", "c10::Float4_e2m1fn_x2"),
];

/// One input of an operator: a tensor, a list of tensors, a number or numbers, or another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// A tensor.
    Tensor(Tensor<'a>),
    /// A list of tensors, some of which may be undefined.
    Tensors(Vec<Option<Tensor<'a>>>),
    /// A number.
    Scalar,
    /// A list of numbers.
    Scalars,
    /// A value without shape.
    Other,
}

/// Type and sizes of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor<'a> {
    /// Type, such as `f32`.
    pub dtype: &'a str,
    /// Sizes, `None` if they are unknown.
    pub dims: Option<Vec<i64>>,
}

/// Parse the text of an operator's inputs to the inputs and the number of omitted ones; `None` for invalid texts.
#[must_use]
pub fn parse(text: &str) -> Option<(Vec<Input<'_>>, usize)> {
    let mut inputs = Vec::new();
    let mut left_out = 0;
    for part in parts(text) {
        match part.strip_prefix('+') {
            Some(more) => left_out += more.parse::<usize>().ok()?,
            None => inputs.push(input(part, &mut left_out)?),
        }
    }
    Some((inputs, left_out))
}

/// PyTorch's name (`long int`) of the element type with the name `short` in Stackline (`i64`).
#[must_use]
pub fn type_name(short: &str) -> Option<&'static str> {
    TYPES.iter().find(|(ours, _)| *ours == short).map(|&(_, theirs)| theirs)
}

/// Split the text of an operator's inputs at each `, ` outside of parentheses.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let list = rest.starts_with('(').then(|| rest.find(')')).flatten().unwrap_or(0);
        let end = rest[list..].find(", ").map(|end| end + list);
        let (part, after) = end.map_or((rest, ""), |end| (&rest[..end], &rest[end + 2..]));
        rest = after;
        Some(part)
    })
}

/// Parse one input, and add the number of tensors that a list omits to `left_out`; `None` for invalid text.
fn input<'a>(part: &'a str, left_out: &mut usize) -> Option<Input<'a>> {
    Some(match part {
        "scalar" => Input::Scalar,
        "scalars" => Input::Scalars,
        "-" => Input::Other,
        _ => match part.strip_prefix('(') {
            None => Input::Tensor(tensor(part)?),
            Some(list) => {
                let mut tensors = Vec::new();
                for part in parts(list.strip_suffix(')')?) {
                    match (part, part.strip_prefix('+')) {
                        ("-", _) => tensors.push(None),
                        (_, Some(more)) => *left_out += more.parse::<usize>().ok()?,
                        _ => tensors.push(Some(tensor(part)?)),
                    }
                }
                Input::Tensors(tensors)
            }
        },
    })
}

/// Parse a tensor such as `f32[4,32]` or `bf16[?]`; `None` for invalid text.
fn tensor(part: &str) -> Option<Tensor<'_>> {
    let (dtype, dims) = part.strip_suffix(']')?.split_once('[')?;
    let dims = match dims {
        "?" => None,
        "" => Some(Vec::new()),
        dims => Some(dims.split(',').map(str::parse).collect::<Result<_, _>>().ok()?),
    };
    (!dtype.is_empty()).then_some(Tensor { dtype, dims })
}

#[cfg(test)]
mod tests {
    use super::{Input, Tensor, parse, type_name};
    use proptest::prelude::*;

    fn tensor_of(dtype: &'static str, dims: &[i64]) -> Tensor<'static> {
        Tensor { dtype, dims: Some(dims.to_vec()) }
    }

    #[test]
    fn every_kind_of_input_is_read() {
        let text = "f32[4,32], bool[], (f32[8], -, bf16[?], +3), scalar, scalars, -, (), +2";
        let (inputs, left_out) = parse(text).unwrap();
        let unknown = Tensor { dtype: "bf16", dims: None };
        let expected = [
            Input::Tensor(tensor_of("f32", &[4, 32])),
            Input::Tensor(tensor_of("bool", &[])),
            Input::Tensors(vec![Some(tensor_of("f32", &[8])), None, Some(unknown)]),
            Input::Scalar,
            Input::Scalars,
            Input::Other,
            Input::Tensors(vec![]),
        ];
        assert_eq!((&inputs[..], left_out), (&expected[..], 5));
        assert_eq!(parse(""), Some((vec![], 0)));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["f32", "f32[", "f32[a]", "[4]", "(f32[4]", "scalar,", "f32[4,]", "+x", "f32[4], ), -"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn types_have_pytorch_names() {
        assert_eq!((type_name("f32"), type_name("i64")), (Some("float"), Some("long int")));
        assert_eq!(type_name("dtype99"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[f32\\[\\](), +?\\-0-9a-zé]{0,40}") {
            let _ = parse(&text);
        }
    }
}
