//! Frames from the names and categories of timeline events.

use super::frame::OVERFLOW;
use super::{Frame, FrameKind};
use crate::names::{MODULE_PREFIX, python_frame};
use crate::{StrId, StringTable};

impl Frame {
    /// Create a frame from a name and category of a source. The category is the name of a kind, as in recordings and
    /// XPlane files, or the library or part of the program.
    pub fn named(name: &str, category: &str, strings: &mut StringTable) -> Self {
        if name == OVERFLOW {
            return Self::Overflow;
        }
        match FrameKind::ALL.iter().find(|kind| category.eq_ignore_ascii_case(kind.name())) {
            None => stated_by_name(name, strings).unwrap_or_else(|| {
                let library = if category.is_empty() { StrId::NONE } else { strings.intern(category) };
                native(name, library, strings)
            }),
            Some(FrameKind::Python | FrameKind::Module) => stated_by_name(name, strings)
                .unwrap_or_else(|| Self::with_line(FrameKind::Python, strings.intern(name), StrId::NONE, 0)),
            Some(FrameKind::Native) => native(name, StrId::NONE, strings),
            Some(&kind) => Self::with_line(kind, strings.intern(name), StrId::NONE, 0),
        }
    }
}

/// Create a Python or module frame from a name in PyTorch's notation; `None` for other names.
fn stated_by_name(name: &str, strings: &mut StringTable) -> Option<Frame> {
    if let Some(module) = name.strip_prefix(MODULE_PREFIX) {
        let (class, path) = module.trim_start().split_once(' ').unwrap_or((module.trim_start(), ""));
        let path = if path.is_empty() { StrId::NONE } else { strings.intern(path) };
        return Some(Frame::Module { path, class: strings.intern(class) });
    }
    let (file, line, function) = python_frame(name)?;
    Some(Frame::Python { function: strings.intern(function), file: strings.intern(file), line, first_line: 0 })
}

/// Create a native frame from a name: `libc.so.6+0x12` is an address in a library, any other name a function.
fn native(name: &str, library: StrId, strings: &mut StringTable) -> Frame {
    let address =
        name.rsplit_once("+0x").and_then(|(library, hex)| Some((library, u64::from_str_radix(hex, 16).ok()?)));
    match address {
        Some((library, offset)) => Frame::native(strings.intern(library), StrId::NONE, offset),
        None => {
            let (build_id, function, file) = (StrId::NONE, strings.intern(name), StrId::NONE);
            Frame::Native { library, build_id, offset: 0, function, file, line: 0, inlined: 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind, name, file and line of the frame for a name and a category.
    fn described(name: &str, category: &str) -> (FrameKind, String, String, u32) {
        let mut strings = StringTable::new();
        let frame = Frame::named(name, category, &mut strings);
        let file = frame.file_text(&strings).to_owned();
        (frame.kind(), frame.name(&strings), file, frame.line().unwrap_or(0))
    }

    #[test]
    fn names_and_categories_make_frames() {
        use FrameKind::{Backward, Module, Native, Operator, Overflow, Python, Span};
        for (name, category, kind, called, file, line) in [
            ("train.py(12): step", "python", Python, "step", "train.py", 12),
            ("train.py(12): step", "Python", Python, "step", "train.py", 12),
            ("$train.py:12 step", "", Python, "step", "train.py", 12),
            ("<built-in function len>", "python", Python, "<built-in function len>", "", 0),
            ("nn.Module: Linear layers.0", "module", Module, "layers.0 (Linear)", "", 0),
            ("nn.Module: Linear_0", "", Module, "Linear_0", "", 0),
            ("aten::mm", "operator", Operator, "aten::mm", "", 0),
            ("MmBackward0", "backward", Backward, "MmBackward0", "", 0),
            ("load(3): x", "span", Span, "load(3): x", "", 0),
            ("libc.so.6+0x1f", "native", Native, "libc.so.6+0x1f", "libc.so.6", 0),
            ("0x7f00", "native", Native, "0x7f00", "", 0),
            ("main", "libmain.so", Native, "main", "libmain.so", 0),
            ("main", "", Native, "main", "", 0),
            ("", "", Native, "", "", 0),
            (
                "(calls merged: the call tree was full)",
                "other",
                Overflow,
                "(calls merged: the call tree was full)",
                "",
                0,
            ),
        ] {
            let expected = (kind, called.to_owned(), file.to_owned(), line);
            assert_eq!(described(name, category), expected, "{name} {category}");
        }
    }
}
