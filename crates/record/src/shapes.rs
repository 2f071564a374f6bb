//! Distinction of operators by the shapes and types of their inputs.
//!
//! Below one node, an operator with such inputs is found by a hash of them: repeated shapes neither allocate nor
//! lock. Only a new node formats them as text ([`stackline_recording::inputs`]).

use crate::process::Process;
use crate::tree::Key;
use dlmonitor::{Input, Inputs, Operator, Scope, Tensor};
use stackline_recording::FrameKey;
use std::fmt::Write as _;

/// Bits of keys of operators with inputs: this bit is set and the next lower one is not. Keys of Python frames lack
/// this bit, all others have both.
const SHAPED_KEY: u64 = 1 << 63;
/// Largest number of tensors of one call that are read; of longer lists only the length counts.
const MOST: usize = 512;

/// Key of an operator's call-tree node by shapes and types of its inputs; `frame` is its frame without inputs. `None`
/// if it has no inputs.
#[inline]
pub(crate) fn shape_key(operator: &Operator, frame: u32) -> Option<Key> {
    let inputs = operator.inputs().filter(|inputs| inputs.len() > 0)?;
    Some(Key(hash_inputs(inputs), SHAPED_KEY | u64::from(frame)))
}

/// Hash of the kinds, shapes and types of inputs, without their values. Equal hashes would merge two calls.
#[inline]
fn hash_inputs(inputs: Inputs<'_>) -> u64 {
    let mut hash = 0x243f_6a88_85a3_08d3;
    let mut left = MOST;
    for input in inputs {
        match input {
            Input::Tensor(tensor) => {
                hash = hash_tensor(hash, &tensor);
                left = left.saturating_sub(1);
            }
            Input::Tensors(tensors) => {
                hash = mix(hash, LIST | tensors.len() as u64);
                let taken = tensors.len().min(left);
                left -= taken;
                for tensor in tensors.take(taken) {
                    hash = tensor.map_or_else(|| mix(hash, OTHER), |tensor| hash_tensor(hash, &tensor));
                }
            }
            Input::Scalar => hash = mix(hash, SCALAR),
            Input::Scalars => hash = mix(hash, SCALARS),
            Input::Gaps(_) | Input::Other => hash = mix(hash, OTHER),
        }
    }
    hash
}

/// Hashed codes of other properties than sizes, distinct from any size.
const LIST: u64 = 1 << 32;
const SCALAR: u64 = 2 << 32;
const SCALARS: u64 = 3 << 32;
const OTHER: u64 = 4 << 32;
const UNKNOWN: u64 = 5 << 32;

/// Add a tensor's type and sizes to a hash.
#[inline]
fn hash_tensor(hash: u64, tensor: &Tensor<'_>) -> u64 {
    let dtype = u64::from(tensor.dtype().0);
    match tensor.dims() {
        Some(dims) => {
            dims.iter().fold(mix(hash, dtype << 16 | dims.len() as u64), |hash, &dim| mix(hash, dim.cast_unsigned()))
        }
        None => mix(hash, UNKNOWN | dtype),
    }
}

/// Add a word to a hash by a multiplication, so that all bits depend on it.
#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let mixed = u128::from(hash ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
    (mixed >> 64) as u64 ^ mixed as u64
}

/// Format the shapes and types of an operator's inputs as text, such as `f32[4,32], (f32[8]), scalar`.
fn format_inputs(inputs: Inputs<'_>) -> String {
    let mut text = String::new();
    let mut left = MOST;
    for input in inputs {
        separate(&mut text);
        match input {
            Input::Tensor(tensor) => {
                write_tensor(&mut text, &tensor);
                left = left.saturating_sub(1);
            }
            Input::Tensors(tensors) => {
                let (taken, more) = (tensors.len().min(left), tensors.len().saturating_sub(left));
                left -= taken;
                text.push('(');
                for tensor in tensors.take(taken) {
                    separate(&mut text);
                    match tensor {
                        Some(tensor) => write_tensor(&mut text, &tensor),
                        None => text.push('-'),
                    }
                }
                if more > 0 {
                    separate(&mut text);
                    let _ = write!(text, "+{more}");
                }
                text.push(')');
            }
            Input::Scalar => text.push_str("scalar"),
            Input::Scalars => text.push_str("scalars"),
            Input::Gaps(_) | Input::Other => text.push('-'),
        }
    }
    text
}

/// Append `, ` unless the text is empty or a list was just opened.
fn separate(text: &mut String) {
    if !text.is_empty() && !text.ends_with('(') {
        text.push_str(", ");
    }
}

/// Append a tensor's type and sizes, such as `f32[4,32]`; unknown sizes as `?`.
fn write_tensor(text: &mut String, tensor: &Tensor<'_>) {
    let _ = write!(text, "{}[", tensor.dtype());
    match tensor.dims() {
        None => text.push('?'),
        Some(dims) => {
            for (at, dim) in dims.iter().enumerate() {
                let _ = write!(text, "{}{dim}", if at > 0 { "," } else { "" });
            }
        }
    }
    text.push(']');
}

impl Process {
    /// Intern the frame of an operator that begins, by its name and the shapes and types of its inputs.
    #[cold]
    pub(crate) fn shaped_frame(&self, full: bool, operator: &Operator, scope: Scope) -> u32 {
        let text = operator.inputs().map(format_inputs).unwrap_or_default();
        self.intern(full, |frames| {
            let name = frames.text(&operator.name().text().to_string_lossy());
            let inputs = frames.inputs(&text);
            match scope {
                Scope::Backward => FrameKey::ShapedBackward { name, inputs },
                _ => FrameKey::ShapedOperator { name, inputs },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::mix;
    use dlmonitor::DType;
    use stackline_recording::inputs::{Input, parse, type_name};

    #[test]
    fn written_types_are_read_with_pytorch_names() {
        assert!(DType::named().count() > 30);
        for dtype in DType::named() {
            let text = format!("{dtype}[2,3]");
            let (inputs, _) = parse(&text).unwrap();
            let [Input::Tensor(tensor)] = &inputs[..] else { panic!("{text}: {inputs:?}") };
            assert!(type_name(tensor.dtype).is_some(), "{text}");
        }
    }

    #[test]
    fn hashes_depend_on_order_and_on_each_bit() {
        let hash_of = |words: &[u64]| words.iter().fold(7, |hash, &word| mix(hash, word));
        let base = [6 << 16 | 2, 4, 32];
        let mut all = vec![hash_of(&base), hash_of(&base[..2]), hash_of(&[base[0], 32, 4])];
        for at in 0..3 {
            for bit in 0..63 {
                let mut other = base;
                other[at] ^= 1 << bit;
                all.push(hash_of(&other));
            }
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
