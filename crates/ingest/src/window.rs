//! Sliding window over a byte stream: the scanner sees one slice, and the file may have any size.

use std::io::Read;

/// Limit on the window in bytes: no event or metadata entry is that long.
pub(crate) const MAX_WINDOW: usize = 512 << 20;
const FIRST_WINDOW: usize = 1 << 20;

/// Text of a document, of which the scanner sees one slice at a time.
pub(crate) trait Text {
    /// Next bytes that the scanner has not consumed.
    fn bytes(&self) -> &[u8];
    /// Stream offset of the first byte of [`Self::bytes`].
    fn offset(&self) -> u64;
    /// Drop `n` bytes at the front of [`Self::bytes`].
    fn consume(&mut self, n: usize);
    /// True if no bytes follow [`Self::bytes`].
    fn is_final(&self) -> bool;
    /// Make more bytes available, after the existing ones.
    fn refill(&mut self) -> Refill;
    /// Error that ended the stream early, if any.
    fn take_failure(&mut self) -> Option<std::io::Error>;
}

/// Result of a refill.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refill {
    /// More bytes are available.
    More,
    /// The stream has ended; the window contains all remaining bytes.
    End,
    /// One element exceeds the limit.
    TooLarge,
}

/// The unconsumed bytes of a stream, with their stream offset.
pub(crate) struct Window<R> {
    reader: R,
    /// Initialized once; valid up to `filled`.
    buffer: Vec<u8>,
    filled: usize,
    /// Consumed bytes at the front of `buffer`.
    from: usize,
    /// Stream offset of `buffer[0]`.
    base: u64,
    ended: bool,
    failure: Option<std::io::Error>,
}

impl<R: Read> Window<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), filled: 0, from: 0, base: 0, ended: false, failure: None }
    }

    /// Move the unconsumed bytes to the front of the buffer.
    fn slide(&mut self) {
        self.buffer.copy_within(self.from..self.filled, 0);
        self.filled -= self.from;
        self.base += self.from as u64;
        self.from = 0;
    }

    /// Append text that does not come from the reader, and return the number of bytes that fit.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> usize {
        self.slide();
        let fitting = bytes.len().min(MAX_WINDOW.saturating_sub(self.filled));
        self.buffer.truncate(self.filled);
        self.buffer.extend_from_slice(&bytes[..fitting]);
        self.filled += fitting;
        fitting
    }

    /// Advance the stream offset of an empty window by `n` bytes of text that does not come from the reader.
    pub(crate) fn skip(&mut self, n: usize) {
        debug_assert_eq!(self.from, self.filled, "only an empty window can be moved");
        self.base += n as u64;
    }

    /// Mark the stream as ended after the bytes of the window, with the error that ended it, if any.
    pub(crate) fn mark_ended(&mut self, failure: Option<std::io::Error>) {
        self.ended = true;
        self.failure = failure;
    }
}

impl<R: Read> Text for Window<R> {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.from..self.filled]
    }

    fn offset(&self) -> u64 {
        self.base + self.from as u64
    }

    fn consume(&mut self, n: usize) {
        self.from = (self.from + n).min(self.filled);
    }

    fn is_final(&self) -> bool {
        self.ended
    }

    fn refill(&mut self) -> Refill {
        if self.ended {
            return Refill::End;
        }
        self.slide();
        let have = self.filled;
        if have >= MAX_WINDOW {
            return Refill::TooLarge;
        }
        // Doubling keeps the work linear if one element is larger than the window.
        let target_len = MAX_WINDOW.min(have + FIRST_WINDOW.max(have));
        if self.buffer.len() < target_len {
            self.buffer.resize(target_len, 0);
        }
        while self.filled < target_len && !self.ended {
            match self.reader.read(&mut self.buffer[self.filled..target_len]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failure = Some(error);
                    self.ended = true;
                }
            }
        }
        if self.filled > have { Refill::More } else { Refill::End }
    }

    fn take_failure(&mut self) -> Option<std::io::Error> {
        self.failure.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_slides_over_the_stream() {
        let data: Vec<u8> = (0..3_000_000u32).map(|i| i as u8).collect();
        let mut window = Window::new(&data[..]);
        let mut seen = Vec::new();
        while window.refill() == Refill::More {
            assert_eq!(window.offset() as usize, seen.len());
            let take = window.bytes().len() - window.bytes().len() % 7;
            seen.extend_from_slice(&window.bytes()[..take]);
            window.consume(take);
        }
        seen.extend_from_slice(window.bytes());
        assert_eq!(seen, data);
        assert!(window.is_final());
    }
}
