//! Python code objects that a signal handler copied, with names and lines.

use super::layout::LineTable;
use super::{Interpreter, lines};

/// A code object copied by [`super::FrameSampler::copy_code`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledCode {
    /// Qualified name of the function (in 3.10 its name).
    pub function: String,
    /// Source file.
    pub file: String,
    /// First line of the function.
    pub first_line: u32,
    lines: Vec<u8>,
    format: LineTable,
}

impl SampledCode {
    /// Decode a code object from the words that the signal handler copied; `None` if they are invalid.
    #[must_use]
    pub fn unpack(interpreter: &Interpreter, words: &[u64]) -> Option<Self> {
        let [_, facts, names, lines, body @ ..] = words else { return None };
        let bytes: Vec<u8> = body.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (function, file, lines) = ((names & 0xffff_ffff) as usize, (names >> 32) as usize, *lines as usize);
        let unit = |shift: u32| (facts >> shift) as u8;
        Some(Self {
            function: decode(bytes.get(..function)?, unit(32)),
            file: decode(bytes.get(function..function + file)?, unit(40)),
            first_line: *facts as u32,
            lines: bytes.get(function + file..function + file + lines)?.to_vec(),
            format: interpreter.layout.line_table,
        })
    }

    /// Line number of the instruction at byte `offset` of the code (`u32::MAX`: the first one), 0 if it has none.
    #[must_use]
    pub fn line(&self, offset: u32) -> u32 {
        // A frame that did not run yet is before its first instruction.
        let offset = if offset == u32::MAX { 0 } else { offset as usize };
        lines::line(self.format, &self.lines, self.first_line, offset).unwrap_or(0)
    }
}

/// Decode characters of `unit` bytes (1, 2 or 4) as CPython stores them; invalid ones are replaced.
fn decode(bytes: &[u8], unit: u8) -> String {
    let unit = usize::from(unit.max(1));
    let code = |bytes: &[u8]| bytes.iter().rev().fold(0_u32, |code, &byte| code << 8 | u32::from(byte));
    bytes.chunks_exact(unit).map(|bytes| char::from_u32(code(bytes)).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn texts_of_all_widths() {
        assert_eq!(decode(b"abc", 1), "abc");
        assert_eq!(decode(&[0xe4, 0xb1, 0x03], 1), "\u{e4}\u{b1}\u{3}");
        assert_eq!(decode(&[0xb1, 0x03, 0x61, 0x00], 2), "\u{3b1}a");
        assert_eq!(decode(&[0x00, 0xf6, 0x01, 0x00], 4), "\u{1f600}");
    }
}
