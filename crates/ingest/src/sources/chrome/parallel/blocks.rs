//! Blocks of text that end between two event records, as far as that can be seen without reading all of the text.

use crate::scan::{Cursor, is_space};
use memchr::memrchr;
use std::io::{self, Read};

/// A block that has no border is extended to this multiple of the usual size.
const MAX_SIZES: usize = 4;
/// Number of opening braces that are examined in search of a border.
const MAX_BRACES: usize = 64;
/// Limit on the text of a record that is examined, in bytes.
const LOOK_AHEAD: usize = 16 << 10;
/// Limit on white space between records, in bytes.
const MAX_SPACE: usize = 256;

/// A piece of the document's text, with its stream offset.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// Initialized once; valid up to `filled`.
    buffer: Vec<u8>,
    from: usize,
    filled: usize,
    /// Stream offset of `buffer[0]`.
    base: u64,
}

impl Block {
    /// Bytes of the block that are not consumed yet.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.from..self.filled]
    }

    /// Stream offset of the first byte that is not consumed yet, the first of [`Self::bytes`].
    pub(super) fn offset(&self) -> u64 {
        self.base + self.from as u64
    }

    /// Drop `n` bytes at the front.
    pub(super) fn consume(&mut self, n: usize) {
        self.from = (self.from + n).min(self.filled);
    }
}

/// Splitter of a stream into blocks that end between two event records.
pub(super) struct Blocks<'r> {
    stream: &'r mut dyn Read,
    /// Usual number of bytes of a block.
    size: usize,
    /// Text after the border of the last block.
    rest: Vec<u8>,
    /// Stream offset of the next block.
    base: u64,
    ended: bool,
    /// Error that ended the stream early, if any.
    pub(super) failure: Option<io::Error>,
}

impl<'r> Blocks<'r> {
    pub(super) fn new(stream: &'r mut dyn Read, size: usize) -> Self {
        Self { stream, size, rest: Vec::new(), base: 0, ended: false, failure: None }
    }

    /// True if there are no further blocks.
    pub(super) fn is_ended(&self) -> bool {
        self.ended && self.rest.is_empty()
    }

    /// Next block, in the memory of a used one; none at the end of the stream.
    pub(super) fn next(&mut self, used: Block) -> Option<Block> {
        let mut block = Block { base: self.base, from: 0, filled: self.rest.len(), ..used };
        if block.buffer.len() < block.filled {
            block.buffer.resize(block.filled, 0);
        }
        block.buffer[..block.filled].copy_from_slice(&self.rest);
        self.rest.clear();
        for _ in 0..MAX_SIZES {
            self.fill(&mut block);
            if self.ended {
                break;
            }
            if let Some(border) = split_position(block.bytes()) {
                self.rest.extend_from_slice(&block.buffer[border..block.filled]);
                block.filled = border;
                break;
            }
        }
        self.base += block.filled as u64;
        (block.filled > 0).then_some(block)
    }

    /// Append as many bytes from the stream as a block usually has.
    fn fill(&mut self, block: &mut Block) {
        let end = block.filled + self.size;
        if block.buffer.len() < end {
            block.buffer.resize(end, 0);
        }
        while block.filled < end && !self.ended {
            match self.stream.read(&mut block.buffer[block.filled..end]) {
                Ok(0) => self.ended = true,
                Ok(count) => block.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failure = Some(error);
                    self.ended = true;
                }
            }
        }
    }
}

/// Position at which a block is split: the start of its last record that visibly follows another one. The text may
/// mislead, for example by a list in an argument or by JSON in a text, so no reader may rely on it.
fn split_position(bytes: &[u8]) -> Option<usize> {
    let mut end = bytes.len();
    for _ in 0..MAX_BRACES {
        end = memrchr(b'{', &bytes[..end])?;
        if is_border(bytes, end) {
            return Some(end);
        }
    }
    None
}

/// Check if a brace follows the end of an object and a comma, and its object has the phase of a record.
fn is_border(bytes: &[u8], at: usize) -> bool {
    let before = |at: usize| {
        let from = at.saturating_sub(MAX_SPACE);
        bytes[from..at].iter().rposition(|&b| !is_space(b)).map(|found| from + found)
    };
    let comma = before(at).filter(|&comma| bytes[comma] == b',');
    if comma.and_then(before).is_none_or(|brace| bytes[brace] != b'}') {
        return false;
    }
    let mut cursor = Cursor { bytes: &bytes[..bytes.len().min(at + LOOK_AHEAD)], at: at + 1 };
    loop {
        match cursor.key() {
            Ok((key, false)) if key.raw == b"ph" => return true,
            Ok((_, false)) => {}
            _ => return false,
        }
        if cursor.value().is_err() || cursor.peek() != Ok(b',') {
            return false;
        }
        cursor.at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_are_between_records() {
        let place = |text: &str| split_position(text.as_bytes());
        assert_eq!(place(r#"[{"ph": "X"}, {"ph": "X", "args": {"a": 1}}, {"na"#), Some(14));
        assert_eq!(place(r#"[{"ph": "X"}, {"ph": "X", "args": [{"a": 1}, {"b": 2}]}"#), Some(14));
        assert_eq!(place(r#"[{"ph": "X", "args": {"a": {"b": 2}}}"#), None);
        assert_eq!(place("},\n  {\"name\": \"a\", \"ph\" : \"X\""), Some(5));
        assert_eq!(place(r#"{"a": "}, {\"ph\": 1"#), None);
    }

    #[test]
    fn blocks_hold_all_bytes() {
        let text = r#"[{"ph": "X", "name": "a"}, {"ph": "M"},{"ph": "C"} , {"ph": "X", "args": {"a": {"ph": 3}}}]"#;
        for size in 1..text.len() + 2 {
            let mut stream = text.as_bytes();
            let mut blocks = Blocks::new(&mut stream, size);
            let mut all = Vec::new();
            while let Some(block) = blocks.next(Block::default()) {
                assert_eq!(block.offset(), all.len() as u64);
                all.extend_from_slice(block.bytes());
            }
            assert!(blocks.is_ended());
            assert_eq!(String::from_utf8_lossy(&all), text);
        }
    }
}
