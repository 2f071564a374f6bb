//! Names and lines of Python code objects, copied from the interpreter's memory when a frame is first seen.

use super::layout::Layout;
use super::{PythonFrame, byte, half_word, lines, word};

/// Longest copied name, in bytes of the interpreter's representation.
const MAX_TEXT: usize = 4096;
/// Longest plausible line table, in bytes.
const MAX_LINES: usize = 1 << 22;

/// Function, file and line of a Python frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PythonLine {
    /// Qualified name of the function (in 3.10 its name).
    pub function: String,
    /// Source file, as the interpreter names it.
    pub file: String,
    /// Current line, 0 if the instruction has none.
    pub line: u32,
    /// First line of the function.
    pub first_line: u32,
}

/// Read the function, file and line of a live Python frame from the interpreter's memory.
pub(super) fn describe(layout: &Layout, frame: PythonFrame) -> PythonLine {
    let first_line = half_word(frame.code + layout.code_first_line);
    let table = word(frame.code + layout.code_lines);
    let offset = frame.instruction.wrapping_sub(frame.code + layout.code_instructions);
    // SAFETY: `co_linetable` is a bytes object that lives as long as its code object, which the frame keeps alive.
    let table = unsafe { bytes(layout, table) };
    PythonLine {
        function: text(layout, word(frame.code + layout.code_name)),
        file: text(layout, word(frame.code + layout.code_file)),
        line: lines::line(layout.line_table, table, first_line, offset).unwrap_or(0),
        first_line,
    }
}

/// Contents of the Python bytes object at an address; empty if it is null or too long.
///
/// # Safety
/// `object` is null or a bytes object that outlives `'a`.
unsafe fn bytes<'a>(layout: &Layout, object: usize) -> &'a [u8] {
    let length = if object == 0 { 0 } else { word(object + 16) };
    if length == 0 || length > MAX_LINES {
        return &[];
    }
    // SAFETY: by contract; `ob_size` is its length.
    unsafe { std::slice::from_raw_parts((object + layout.bytes_data) as *const u8, length) }
}

/// Contents of the Python `str` object at an address. Non-compact text objects, which the compiler never makes, give an
/// empty text.
fn text(layout: &Layout, object: usize) -> String {
    if object == 0 {
        return String::new();
    }
    let length = word(object + 16).min(MAX_TEXT);
    let state = half_word(object + layout.text_state) >> layout.text_kind;
    let (kind, compact, ascii) = (state & 7, state & 1 << 3 != 0, state & 1 << 4 != 0);
    let data = object + if ascii { layout.text_ascii } else { layout.text_compact };
    if !compact {
        return String::new();
    }
    let unit = |index: usize| match kind {
        1 => u32::from(byte(data + index)),
        2 => {
            let at = data + 2 * index;
            u32::from(u16::from_le_bytes([byte(at), byte(at + 1)]))
        }
        _ => half_word(data + 4 * index),
    };
    (0..length).map(|index| char::from_u32(unit(index)).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}
