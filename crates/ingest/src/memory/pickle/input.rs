//! Buffered reader that tracks its file offset.

use std::io::{self, Read};

const BUFFER: usize = 128 << 10;

/// A buffered reader with its file offset.
pub(super) struct Input<R> {
    reader: R,
    buffer: Box<[u8]>,
    at: usize,
    filled: usize,
    /// File offset of the first byte of `buffer`.
    base: u64,
    text_bytes: u64,
}

impl<R: Read> Input<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; BUFFER].into(), at: 0, filled: 0, base: 0, text_bytes: 0 }
    }

    /// File offset of the next unread byte of the pickle.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Total bytes of the strings read so far, an upper bound of their memory.
    pub(super) fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// Read one byte.
    pub(super) fn byte(&mut self) -> io::Result<u8> {
        if self.at == self.filled {
            self.refill()?;
        }
        self.at += 1;
        Ok(self.buffer[self.at - 1])
    }

    /// Read the next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut array = [0; N];
        if let Some(bytes) = self.buffer[self.at..self.filled].first_chunk::<N>() {
            array = *bytes;
            self.at += N;
        } else {
            for byte in &mut array {
                *byte = self.byte()?;
            }
        }
        Ok(array)
    }

    /// Read `length` bytes into `out`, replacing its content. Memory is allocated only for bytes that arrive.
    pub(super) fn bytes(&mut self, length: u64, out: &mut Vec<u8>) -> io::Result<()> {
        out.clear();
        let mut left = length;
        while left > 0 {
            if self.at == self.filled {
                self.refill()?;
            }
            let here = usize::try_from(left).unwrap_or(usize::MAX).min(self.filled - self.at);
            out.extend_from_slice(&self.buffer[self.at..self.at + here]);
            self.at += here;
            left -= here as u64;
        }
        self.text_bytes += length;
        Ok(())
    }

    /// Read the next text lines, and return up to 200 bytes of them, joined by dots, for an error message.
    pub(super) fn lines(&mut self, count: usize) -> String {
        let mut text = Vec::new();
        let mut lines = 0;
        while let Ok(byte) = self.byte() {
            lines += usize::from(byte == b'\n');
            if lines == count || text.len() >= 200 {
                break;
            }
            text.push(if byte == b'\n' { b'.' } else { byte });
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Replace the used buffer with the next bytes of the reader; the end of the file is an error.
    fn refill(&mut self) -> io::Result<()> {
        self.base += self.filled as u64;
        (self.at, self.filled) = (0, 0);
        loop {
            match self.reader.read(&mut self.buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.filled = count;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
