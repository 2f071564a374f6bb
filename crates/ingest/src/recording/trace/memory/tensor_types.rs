//! Types and sizes of tensors, if input shapes were recorded (`record --shapes`).

use super::super::calls::Calls;
use stackline_model::{MemoryTrace, StrId};
use stackline_recording::FrameKey;
use stackline_recording::inputs::{Input, Tensor, parse};

/// Type and sizes of an argument's tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TensorDescription {
    /// Type by PyTorch's short name, such as `f32`.
    pub(super) dtype: StrId,
    /// Sizes, such as `[32, 64]`.
    pub(super) shape: StrId,
}

/// Types and sizes of the recorded operator inputs, by frame and argument; empty for frames without inputs.
pub(super) fn tensor_descriptions(calls: &Calls, trace: &mut MemoryTrace) -> Vec<Vec<TensorDescription>> {
    calls.frames.iter().map(|frame| of_frame(calls, frame, trace)).collect()
}

/// Type and sizes of each argument in an operator's frame; empty for frames without recorded inputs.
fn of_frame(calls: &Calls, frame: &FrameKey, trace: &mut MemoryTrace) -> Vec<TensorDescription> {
    let (FrameKey::ShapedOperator { inputs, .. } | FrameKey::ShapedBackward { inputs, .. }) = frame else {
        return Vec::new();
    };
    let Some((inputs, _)) = parse(calls.text(*inputs)) else { return Vec::new() };
    inputs.iter().map(|input| of_input(input, trace)).collect()
}

/// Type and sizes of one input. For a list, only the common type of its tensors, because the tensor in question is
/// unknown.
fn of_input(input: &Input<'_>, trace: &mut MemoryTrace) -> TensorDescription {
    let mut text = |text: String| if text.is_empty() { StrId::NONE } else { trace.strings.intern(&text) };
    let shape = |tensor: &Tensor<'_>| tensor.dims.as_ref().map_or_else(String::new, |dims| format!("{dims:?}"));
    match input {
        Input::Tensor(tensor) => TensorDescription { dtype: text(tensor.dtype.to_owned()), shape: text(shape(tensor)) },
        Input::Tensors(tensors) => {
            let all: Vec<&Tensor<'_>> = tensors.iter().flatten().collect();
            let same = all.windows(2).all(|pair| pair[0].dtype == pair[1].dtype);
            let dtype = all.first().filter(|_| same).map_or("", |tensor| tensor.dtype);
            TensorDescription { dtype: text(dtype.to_owned()), shape: StrId::NONE }
        }
        _ => TensorDescription::default(),
    }
}
