//! The text of a trace as a stream of JSON values, byte for byte.

use super::OverlayError;
use std::io::{BufRead, BufReader, Read};

/// Reads JSON text value by value.
pub(super) struct Input<R> {
    reader: BufReader<R>,
    offset: u64,
}

impl<R: Read> Input<R> {
    pub(super) fn new(text: R) -> Self {
        Self { reader: BufReader::with_capacity(1 << 16, text), offset: 0 }
    }

    /// Next byte of the input, not consumed; `None` at the end.
    pub(super) fn peek(&mut self) -> Result<Option<u8>, OverlayError> {
        Ok(self.reader.fill_buf().map_err(OverlayError::Source)?.first().copied())
    }

    pub(super) fn next(&mut self) -> Result<Option<u8>, OverlayError> {
        let byte = self.peek()?;
        if byte.is_some() {
            self.reader.consume(1);
            self.offset += 1;
        }
        Ok(byte)
    }

    /// Create an error for malformed JSON at the current byte.
    pub(super) fn malformed(&self, what: &'static str) -> OverlayError {
        OverlayError::Malformed { offset: self.offset, what }
    }

    /// Move white space of the JSON input to the end of `text`. Returns the byte after it, not consumed; `None` at the
    /// end.
    pub(super) fn blank(&mut self, text: &mut Vec<u8>) -> Result<Option<u8>, OverlayError> {
        while let Some(byte) = self.peek()? {
            if !byte.is_ascii_whitespace() {
                return Ok(Some(byte));
            }
            text.push(byte);
            self.next()?;
        }
        Ok(None)
    }

    /// Move one whole JSON value of the input to the end of `text`; `false` if the input ends within the value.
    pub(super) fn value(&mut self, text: &mut Vec<u8>) -> Result<bool, OverlayError> {
        let mut state = ValueState::default();
        let from = text.len();
        loop {
            let buffer = self.reader.fill_buf().map_err(OverlayError::Source)?;
            if buffer.is_empty() {
                return Ok(false);
            }
            let end = buffer.iter().position(|&byte| state.ends_before(byte));
            let taken = end.unwrap_or(buffer.len());
            text.extend_from_slice(&buffer[..taken]);
            self.reader.consume(taken);
            self.offset += taken as u64;
            if end.is_some() {
                return if text.len() > from { Ok(true) } else { Err(self.malformed("a JSON value is missing")) };
            }
        }
    }
}

/// Parser position within a JSON value.
#[derive(Default)]
struct ValueState {
    depth: usize,
    in_string: bool,
    escaped: bool,
    done: bool,
}

impl ValueState {
    /// Process the next byte of the JSON input; `true` if the value was complete before the byte.
    fn ends_before(&mut self, byte: u8) -> bool {
        if self.done {
            return true;
        }
        if self.in_string {
            self.in_string = self.escaped || byte != b'"';
            self.done = !self.in_string && self.depth == 0;
            self.escaped = !self.escaped && byte == b'\\';
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' | b',' if self.depth == 0 => return true,
            b'}' | b']' => {
                self.depth -= 1;
                self.done = self.depth == 0;
            }
            _ => {}
        }
        false
    }
}
