//! Operator inputs in the form of `PyTorch`'s profiler.

use super::calls::Calls;
use serde_json::{Value, json};
use stackline_model::{AttrValue, StrId, StringTable};
use stackline_recording::FrameKey;
use stackline_recording::inputs::{Input, Tensor, parse, type_name};

/// Attributes `Input Dims` and `Input type` of an operator, as JSON text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs {
    dims: StrId,
    types: StrId,
}

impl Inputs {
    /// Create the input attributes of an operator's frame; `None` if no inputs are recorded.
    pub(super) fn new(calls: &Calls, frame: u32, strings: &mut StringTable) -> Option<Self> {
        let (FrameKey::ShapedOperator { inputs, .. } | FrameKey::ShapedBackward { inputs, .. }) =
            calls.frames.get(frame as usize)?
        else {
            return None;
        };
        let (inputs, _) = parse(calls.text(*inputs))?;
        let (dims, types): (Vec<Value>, Vec<Value>) = inputs.iter().map(argument).unzip();
        let mut text = |list: Vec<Value>| strings.intern(&Value::from(list).to_string());
        Some(Self { dims: text(dims), types: text(types) })
    }

    /// Event attributes `Input Dims` and `Input type` of an operator's inputs.
    pub(super) fn attrs(self) -> [(&'static str, AttrValue); 2] {
        [("Input Dims", AttrValue::Json(self.dims)), ("Input type", AttrValue::Json(self.types))]
    }
}

/// `Input Dims` and `Input type` of one argument, as JSON values. As in the profiler, undefined tensors, tensors
/// without sizes of their own, and lists with such tensors have an empty type.
fn argument(input: &Input<'_>) -> (Value, Value) {
    let nothing = || (json!([]), json!(""));
    match input {
        Input::Tensor(Tensor { dtype, dims: Some(dims) }) => (json!(dims), json!(type_name(dtype).unwrap_or(dtype))),
        Input::Tensors(tensors) => {
            let dims = |tensor: &Option<Tensor<'_>>| Some(json!(tensor.as_ref()?.dims.as_ref()?));
            match tensors.iter().map(dims).collect::<Option<Vec<Value>>>() {
                Some(dims) => (Value::from(dims), json!("TensorList")),
                None => nothing(),
            }
        }
        Input::Scalar => (json!([]), json!("Scalar")),
        Input::Scalars => (json!([]), json!("ScalarList")),
        Input::Tensor(_) | Input::Other => nothing(),
    }
}
