//! Frames from function, file and line, as in memory sources and tables.

use super::{Frame, FrameKind};
use crate::{StrId, StringTable};

impl Frame {
    /// Create a frame of unknown kind from function, file and line: Python if the file is a Python file, else native
    /// code.
    pub fn of_line(function: StrId, file: StrId, line: u32, strings: &StringTable) -> Self {
        let kind = if strings.get(file).ends_with(".py") { FrameKind::Python } else { FrameKind::Native };
        Self::with_line(kind, function, file, line)
    }

    /// Create a frame of a kind from function, file and line. Kinds that need more become native code.
    pub fn with_line(kind: FrameKind, function: StrId, file: StrId, line: u32) -> Self {
        match kind {
            FrameKind::Python => Self::Python { function, file, line, first_line: 0 },
            FrameKind::Operator => Self::operator(function),
            FrameKind::Backward => Self::backward(function),
            FrameKind::Span => Self::Span { name: function },
            FrameKind::Module => Self::Module { path: StrId::NONE, class: function },
            FrameKind::Runtime => Self::Runtime { name: function },
            FrameKind::Kernel => Self::Kernel { name: function },
            FrameKind::DeviceFunction => Self::DeviceFunction { function, file, line },
            FrameKind::HloOp => Self::HloOp { name: function, program: StrId::NONE },
            FrameKind::Native | FrameKind::Unmapped | FrameKind::Instruction | FrameKind::Overflow => {
                let (library, build_id) = (StrId::NONE, StrId::NONE);
                Self::Native { library, build_id, offset: 0, function, file, line, inlined: 0 }
            }
        }
    }

    /// Function, or other name of the frame: operator, span, class of a module; [`StrId::NONE`] without one.
    pub fn function(&self) -> StrId {
        match *self {
            Self::Python { function: name, .. }
            | Self::Operator { name, .. }
            | Self::Backward { name, .. }
            | Self::Span { name }
            | Self::Module { class: name, .. }
            | Self::Native { function: name, .. }
            | Self::Runtime { name }
            | Self::Kernel { name }
            | Self::DeviceFunction { function: name, .. }
            | Self::HloOp { name, .. } => name,
            Self::Unmapped { .. } | Self::Instruction { .. } | Self::Overflow => StrId::NONE,
        }
    }

    /// Text of the frame's function or other name ([`Self::function`]).
    pub fn function_text<'s>(&self, strings: &'s StringTable) -> &'s str {
        strings.get(self.function())
    }

    /// Text of the frame's file ([`Self::file`]), empty if there is none.
    pub fn file_text<'s>(&self, strings: &'s StringTable) -> &'s str {
        strings.get(self.file().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_files_make_python_frames() {
        let mut strings = StringTable::new();
        let [step, train, gemm] = ["step", "train.py", "gemm.cpp"].map(|text| strings.intern(text));
        let frame_at = |file, line| Frame::of_line(step, file, line, &strings);
        let python = Frame::Python { function: step, file: train, line: 3, first_line: 0 };
        assert_eq!(frame_at(train, 3), python);
        let kinds = [frame_at(train, 0), frame_at(gemm, 7), frame_at(StrId::NONE, 0)].map(|frame| frame.kind());
        assert_eq!(kinds, [FrameKind::Python, FrameKind::Native, FrameKind::Native]);
    }

    #[test]
    fn function_file_and_line_survive_a_round_trip() {
        let (function, file) = (StrId(0), StrId(1));
        for &kind in FrameKind::ALL {
            let frame = Frame::with_line(kind, function, file, 12);
            let again =
                Frame::with_line(frame.kind(), frame.function(), frame.file().into(), frame.line().unwrap_or(0));
            assert_eq!((again, frame.function()), (frame, function), "{kind:?}");
        }
        for kind in [FrameKind::Python, FrameKind::Native, FrameKind::DeviceFunction] {
            let frame = Frame::with_line(kind, function, file, 12);
            assert_eq!((frame.kind(), frame.file(), frame.line()), (kind, Some(file), Some(12)));
            assert_eq!(Frame::with_line(kind, function, StrId::NONE, 0).file(), None);
        }
    }
}
