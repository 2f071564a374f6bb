//! Where in the program: one frame of a call path for people.

use stackline_model::{MemoryFrame, MemoryStackId, MemoryTrace};

/// Frames that every path has and that say nothing.
const NOISE: [&str; 4] = ["CapturedTraceback", "unwind::unwind", "gather_with_cpp", "__libc_start"];

fn is_python(trace: &MemoryTrace, frame: &MemoryFrame) -> bool {
    trace.strings.get(frame.file).ends_with(".py")
}

fn is_library(trace: &MemoryTrace, frame: &MemoryFrame) -> bool {
    let file = trace.strings.get(frame.file);
    ["site-packages/", "dist-packages/", "torch/", "/lib/python", "python3."].iter().any(|part| file.contains(part))
        || file.starts_with('<')
}

fn is_noise(trace: &MemoryTrace, frame: &MemoryFrame) -> bool {
    NOISE.iter().any(|name| trace.strings.get(frame.function).contains(name))
}

fn frame_text(trace: &MemoryTrace, frame: &MemoryFrame) -> String {
    let (function, file) = (trace.strings.get(frame.function), trace.strings.get(frame.file));
    match (file, frame.line) {
        ("" | "??", _) => function.to_owned(),
        (file, 0) => format!("{file} {function}").trim().to_owned(),
        (file, line) => format!("{file}:{line} {function}").trim().to_owned(),
    }
}

/// The frame of a call path that says most: the innermost one of the program's own Python code; if there is none, of
/// any Python code; if there is none, the innermost. None if the path is not known.
pub fn frame_of(trace: &MemoryTrace, stack: MemoryStackId) -> Option<MemoryFrame> {
    let frames: Vec<MemoryFrame> = trace.stacks.frames_of(stack).collect();
    let own = frames.iter().find(|frame| is_python(trace, frame) && !is_library(trace, frame));
    let python = || frames.iter().find(|frame| is_python(trace, frame));
    let any = || frames.iter().find(|frame| !is_noise(trace, frame));
    own.or_else(python).or_else(any).or(frames.first()).copied()
}

/// The same as text: `train.py:88 step`. Empty if the path is not known.
pub fn place_text(trace: &MemoryTrace, stack: MemoryStackId) -> String {
    frame_of(trace, stack).map_or_else(String::new, |frame| frame_text(trace, &frame))
}

/// A call path from the outermost frame on; of native frames only those that no Python frame stands beside are shown.
pub fn path_text(trace: &MemoryTrace, stack: MemoryStackId) -> String {
    let frames: Vec<MemoryFrame> = trace.stacks.frames_of(stack).collect();
    let python = frames.iter().any(|frame| is_python(trace, frame));
    let shown = frames.iter().rev().filter(|frame| is_python(trace, frame) || (!python && !is_noise(trace, frame)));
    shown.map(|frame| frame_text(trace, frame)).collect::<Vec<_>>().join(" > ")
}
