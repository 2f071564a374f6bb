//! Source location of a call path: the most informative frame, and its name.

use stackline_model::library_workspaces::workspace_library;
use stackline_model::names::OPERATOR_PREFIX;
use stackline_model::native_names::{
    autograd_node, is_allocation_plumbing, is_autocast_copy, is_native_autograd_engine, operator, qualified,
};
use stackline_model::vocabulary::{is_generated_code, is_own_code};
use stackline_model::{Frame, FrameKind, MemoryStackId, MemoryTrace, StrId};

/// Suffix of a line that called generated code of `torch.compile`.
const GENERATED_SUFFIX: &str = " (generated code)";

/// Suffix of a line for which autocast made a copy in a lower precision.
const AUTOCAST_SUFFIX: &str = " (autocast copy)";

/// Source location of a call path: file, line, function, and their text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// File, if known.
    pub file: Option<String>,
    /// Line, 0 if unknown.
    pub line: u32,
    /// Function; for the backward pass in C++, the autograd node and the operator (`MeanBackward0 / aten::div`).
    pub function: Option<String>,
    /// Text of the location: `train.py:88 step`.
    pub text: String,
}

/// Most informative frame of a call path.
enum BestFrame {
    /// Line of the program or of a library, function of a trace, or C++ function.
    Frame(Frame),
    /// Generated code without a calling line of the program.
    Generated,
    /// Frame of an autograd node, or of the engine around it.
    Autograd(Frame),
    /// Outermost operator.
    Operator(Frame),
}

/// True if a frame's file is a Python file.
fn is_python(trace: &MemoryTrace, frame: &Frame) -> bool {
    frame.file_text(&trace.strings).ends_with(".py")
}

/// Text of a frame, with the recorded path of its file: `/w/train.py:88 step`, or only its function without a file.
fn frame_text(trace: &MemoryTrace, frame: &Frame) -> String {
    let (function, file) = (frame.function_text(&trace.strings), frame.file_text(&trace.strings));
    match (file, frame.line().unwrap_or(0)) {
        ("" | "??", _) => function.to_owned(),
        (file, 0) => format!("{file} {function}").trim().to_owned(),
        (file, line) => format!("{file}:{line} {function}").trim().to_owned(),
    }
}

/// Most informative frame of a call path (innermost frame first). Order of preference: the innermost line of the
/// program's own Python code, generated code, any Python code, the autograd node, the outermost operator, the innermost
/// frame outside of the allocator.
fn best(trace: &MemoryTrace, frames: &[Frame]) -> Option<BestFrame> {
    let text = |frame: &Frame| frame.function_text(&trace.strings);
    let is_made = |frame: &&Frame| is_generated_code(frame.file_text(&trace.strings));
    let own = frames.iter().find(|frame| is_python(trace, frame) && is_own_code(frame.file_text(&trace.strings)));
    if let Some(own) = own {
        return Some(BestFrame::Frame(*own));
    }
    if frames.iter().any(|frame| is_made(&frame)) {
        return Some(BestFrame::Generated);
    }
    if let Some(python) = frames.iter().find(|frame| is_python(trace, frame)) {
        return Some(BestFrame::Frame(*python));
    }
    let node = frames.iter().find(|frame| autograd_node(text(frame)).is_some());
    let engine = || frames.iter().find(|frame| is_native_autograd_engine(text(frame)));
    if let Some(node) = node.or_else(engine) {
        return Some(BestFrame::Autograd(*node));
    }
    if let Some(outermost) = frames.iter().rfind(|frame| operator(text(frame)).is_some()) {
        return Some(BestFrame::Operator(*outermost));
    }
    frames.iter().find(|frame| !is_allocation_plumbing(text(frame))).or(frames.first()).copied().map(BestFrame::Frame)
}

/// Most informative frame of a call path, as a key for grouping; `None` if the path is unknown. Paths with the same
/// name by [`locate`] have the same frame.
pub fn frame_of(trace: &MemoryTrace, stack: MemoryStackId) -> Option<Frame> {
    let frames: Vec<Frame> = trace.stacks.frames_of(stack).collect();
    Some(match best(trace, &frames)? {
        BestFrame::Frame(frame) | BestFrame::Autograd(frame) | BestFrame::Operator(frame) => frame,
        BestFrame::Generated => Frame::with_line(FrameKind::Python, StrId::NONE, StrId::NONE, 0),
    })
}

/// Source location of a call path: its most informative frame as file, line, function and text. `None` if the path is
/// unknown.
pub fn locate(trace: &MemoryTrace, stack: MemoryStackId) -> Option<SourceLocation> {
    let frames: Vec<Frame> = trace.stacks.frames_of(stack).collect();
    let mut location = locate_frames(trace, &frames)?;
    if let Some(library) = frames.iter().find_map(|frame| workspace_library(frame.function_text(&trace.strings))) {
        location.text += &format!(" ({} workspace)", library.name);
    }
    Some(location)
}

/// Source location of a call path's most informative frame; `None` without frames.
fn locate_frames(trace: &MemoryTrace, frames: &[Frame]) -> Option<SourceLocation> {
    let unnamed =
        |function: String| SourceLocation { file: None, line: 0, text: function.clone(), function: Some(function) };
    Some(match best(trace, frames)? {
        BestFrame::Frame(frame) if is_python(trace, &frame) => python_location(trace, frames, &frame),
        BestFrame::Frame(frame) => {
            let known =
                |id: StrId| Some(trace.strings.get(id).to_owned()).filter(|text| !text.is_empty() && text != "??");
            let function = known(frame.function()).map(|function| match function.contains("::") {
                true => qualified(&function).to_owned(),
                false => function,
            });
            let text = match (&function, known(frame.file().into())) {
                (Some(function), None) => function.clone(),
                _ => frame_text(trace, &frame),
            };
            SourceLocation { file: known(frame.file().into()), line: frame.line().unwrap_or(0), function, text }
        }
        BestFrame::Generated => unnamed("generated code (torch.compile)".to_owned()),
        BestFrame::Autograd(frame) => unnamed(backward_name(trace, frames, &frame)),
        BestFrame::Operator(frame) => unnamed(operator_name(trace, &frame).unwrap_or_default()),
    })
}

/// Source location of a Python frame, with a suffix if it called generated code or autocast.
fn python_location(trace: &MemoryTrace, frames: &[Frame], frame: &Frame) -> SourceLocation {
    let within = || frames.iter().take_while(|inner| *inner != frame);
    let suffix = if within().any(|inner| is_generated_code(inner.file_text(&trace.strings))) {
        GENERATED_SUFFIX
    } else if within().any(|inner| is_autocast_copy(inner.function_text(&trace.strings))) {
        AUTOCAST_SUFFIX
    } else {
        ""
    };
    SourceLocation {
        file: Some(frame.file_text(&trace.strings).to_owned()),
        line: frame.line().unwrap_or(0),
        function: Some(frame.function_text(&trace.strings).to_owned()).filter(|function| !function.is_empty()),
        text: frame_text(trace, frame) + suffix,
    }
}

/// Name of a backward operator with its autograd node: `MeanBackward0 / aten::div`.
fn backward_name(trace: &MemoryTrace, frames: &[Frame], node: &Frame) -> String {
    let name = autograd_node(node.function_text(&trace.strings)).unwrap_or("autograd engine");
    let within = frames.iter().take_while(|frame| *frame != node);
    match within.filter_map(|frame| operator_name(trace, frame)).last() {
        Some(operator) => format!("{name} / {operator}"),
        None => name.to_owned(),
    }
}

/// Name of the operator that a C++ frame dispatches, as PyTorch's profiler writes it: `aten::div`. `None` for other
/// frames.
fn operator_name(trace: &MemoryTrace, frame: &Frame) -> Option<String> {
    operator(frame.function_text(&trace.strings)).map(|name| format!("{OPERATOR_PREFIX}{name}"))
}

/// Source location as text: `train.py:88 step`. Empty if the path is unknown.
pub fn place_text(trace: &MemoryTrace, stack: MemoryStackId) -> String {
    locate(trace, stack).map_or_else(String::new, |location| location.text)
}

/// Call path as text, outermost frame first. With Python frames, native frames are left out. For C++ only, autograd
/// nodes and operators are shown, if there are any.
pub fn path_text(trace: &MemoryTrace, stack: MemoryStackId) -> String {
    let frames: Vec<Frame> = trace.stacks.frames_of(stack).collect();
    let function = |frame: &Frame| frame.function_text(&trace.strings);
    let python = frames.iter().any(|frame| is_python(trace, frame));
    let named =
        |frame: &Frame| autograd_node(function(frame)).map(str::to_owned).or_else(|| operator_name(trace, frame));
    let is_named = !python && frames.iter().any(|frame| named(frame).is_some());
    let text = |frame: &Frame| match (python, is_named) {
        (true, _) => is_python(trace, frame).then(|| frame_text(trace, frame)),
        (false, true) => named(frame),
        (false, false) => (!is_allocation_plumbing(function(frame))).then(|| frame_text(trace, frame)),
    };
    let mut shown: Vec<String> = frames.iter().rev().filter_map(text).collect();
    if is_named {
        // An operator's `call` and `redispatch` are two frames.
        shown.dedup();
    }
    shown.join(" > ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trace with one call path, innermost frame first as in snapshots.
    fn path(frames: &[(&str, u32, &str)]) -> (MemoryTrace, MemoryStackId) {
        let mut trace = MemoryTrace::default();
        let mut made = Vec::new();
        for (file, line, function) in frames.iter().rev() {
            let (function, file) = (trace.strings.intern(function), trace.strings.intern(file));
            made.push(Frame::of_line(function, file, *line, &trace.strings));
        }
        let stack = trace.stacks.intern_path(made);
        (trace, stack)
    }

    const MALLOC: (&str, u32, &str) = (
        "CUDACachingAllocator.cpp",
        0,
        "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(signed char)",
    );
    const ENGINE: (&str, u32, &str) =
        ("??", 0, "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)");

    #[test]
    fn the_backward_pass_is_named_by_node_and_operator() {
        let node = ("??", 0, "torch::autograd::generated::MeanBackward0::apply(std::vector<at::Tensor>&&)");
        let inner = ("??", 0, "at::_ops::div_Tensor::call(at::Tensor const&, at::Tensor const&)");
        let outer = ("??", 0, "at::_ops::div_Scalar::call(at::Tensor const&, c10::Scalar const&)");
        let (trace, stack) = path(&[MALLOC, inner, outer, node, ENGINE]);
        assert_eq!(place_text(&trace, stack), "MeanBackward0 / aten::div");
        assert_eq!(path_text(&trace, stack), "MeanBackward0 > aten::div");
        assert_eq!(locate(&trace, stack).unwrap().file, None);
        let (trace, stack) = path(&[MALLOC, ("??", 0, "at::_ops::sum_dim_IntList::call(at::Tensor const&)"), ENGINE]);
        assert_eq!(place_text(&trace, stack), "autograd engine / aten::sum");
        let (trace, stack) = path(&[MALLOC, node, ENGINE]);
        assert_eq!(place_text(&trace, stack), "MeanBackward0");
        let (trace, stack) = path(&[MALLOC, inner]);
        assert_eq!(place_text(&trace, stack), "aten::div");
        let (trace, stack) = path(&[MALLOC, ("??", 0, "at::cuda::getNewWorkspace(unsigned long)")]);
        assert_eq!(place_text(&trace, stack), "at::cuda::getNewWorkspace (cuBLAS workspace)");
        // The program's own line takes precedence, also in a custom backward.
        let (trace, stack) = path(&[MALLOC, inner, ("/w/model.py", 7, "backward"), node, ENGINE]);
        assert_eq!(place_text(&trace, stack), "/w/model.py:7 backward");
    }

    #[test]
    fn generated_code_is_attributed_to_its_caller() {
        let hash = "abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrs";
        let cached = format!("/cache/inductor/ab/c{hash}.py");
        for file in ["/cache/torchinductor_me/l4/cl4abcdef.py", &cached] {
            let library = ("/env/lib/python3.11/site-packages/torch/_inductor/utils.py", 2200, "run");
            let (trace, stack) = path(&[(file, 3000, "call"), library, ("/w/train.py", 42, "step")]);
            assert_eq!(place_text(&trace, stack), "/w/train.py:42 step (generated code)");
            assert_eq!(locate(&trace, stack).unwrap().line, 42);
            let (trace, stack) = path(&[(file, 3000, "call"), library]);
            assert_eq!(place_text(&trace, stack), "generated code (torch.compile)");
        }
    }

    #[test]
    fn folders_named_like_libraries_may_contain_user_code() {
        let library = ("/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", 114, "forward");
        for own in ["/workspace/pytorch/train.py", "/data/me/learn-torch/train.py", "/data/me/python3.12/train.py"] {
            let (trace, stack) = path(&[library, (own, 42, "step"), (own, 77, "main")]);
            assert_eq!(place_text(&trace, stack), format!("{own}:42 step"));
        }
    }

    #[test]
    fn copies_of_autocast_are_named() {
        let cast = ("??", 0, "at::autocast::cached_cast(c10::ScalarType, at::Tensor const&, c10::DeviceType)");
        let (trace, stack) = path(&[MALLOC, cast, ("/w/linear.py", 15, "forward")]);
        assert_eq!(place_text(&trace, stack), "/w/linear.py:15 forward (autocast copy)");
    }
}
