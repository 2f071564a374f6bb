//! Output file of a stream, to which whole chunks are appended. After a write error, partial chunks are cut off and
//! chunks wait in memory.

use dlmonitor::clock;
use stackline_recording::Record;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::path::Path;

/// Destination of chunks: a file, or a test target with injected failures.
pub(crate) trait Target: Debug + Send {
    /// Append some of the bytes, and return their number.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Truncate the stream file to this length.
    fn cut(&mut self, length: u64) -> io::Result<()>;
    /// Set the path of the stream file after it was renamed.
    fn moved(&mut self, to: &Path);
}

/// A chunk that waits to be written.
#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    records: u64,
}

/// A period in which no write of the stream succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    /// First failure, `CLOCK_MONOTONIC`.
    pub(crate) from_ns: i64,
    /// Time of the next successful write, or of giving up.
    pub(crate) to_ns: i64,
    /// `errno` of the first failure.
    pub(crate) error: i32,
    /// Number of dropped records.
    pub(crate) dropped: u64,
}

impl From<Outage> for Record {
    fn from(Outage { from_ns, to_ns, error, dropped }: Outage) -> Self {
        Self::Outage { from_ns, to_ns, error, dropped }
    }
}

/// Saved state of an [`Output`], to which [`Output::undo_since`] returns.
#[derive(Debug)]
pub(crate) struct Mark {
    end: u64,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    failed: Option<(i64, i32)>,
}

impl Mark {
    /// The current outage, as if all waiting chunks were lost.
    pub(crate) fn outage(&self) -> Option<Outage> {
        let (from_ns, error) = self.failed?;
        let dropped = self.waiting.iter().map(|waiting| waiting.records).sum();
        Some(Outage { from_ns, to_ns: clock::monotonic_ns(), error, dropped })
    }
}

/// Output file of a stream, which ends with a whole chunk except during a write, and chunks that wait in memory.
#[derive(Debug)]
pub(crate) struct Output {
    target: Box<dyn Target>,
    /// End of the last whole chunk.
    end: u64,
    /// True if the file may have a partial chunk after its end.
    torn: bool,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// Begin and first error of the current outage.
    failed: Option<(i64, i32)>,
}

impl Output {
    /// Create the output of a new stream, whose file is empty.
    pub(crate) fn new(target: Box<dyn Target>) -> Self {
        Self { target, end: 0, torn: false, waiting: VecDeque::new(), waiting_bytes: 0, failed: None }
    }

    /// Write a chunk of `records` records, or keep it in memory if earlier chunks wait or the write fails.
    pub(crate) fn put(&mut self, bytes: &[u8], records: u64) {
        if !self.waiting.is_empty() || self.write(bytes).is_err() {
            self.waiting_bytes += bytes.len();
            self.waiting.push_back(Waiting { bytes: bytes.to_vec(), records });
        }
    }

    /// Try once to write the waiting chunks to the stream file, in order.
    ///
    /// # Errors
    /// If chunks are still waiting.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while let Some(first) = self.waiting.pop_front() {
            if let Err(error) = self.write(&first.bytes) {
                self.waiting.push_front(first);
                return Err(error);
            }
            self.waiting_bytes -= first.bytes.len();
        }
        Ok(())
    }

    /// The outage of writing, once, after all waiting chunks were written; `None` without an outage or during it.
    pub(crate) fn recovered(&mut self) -> Option<Outage> {
        let (from_ns, error) = self.failed.filter(|_| self.waiting.is_empty())?;
        self.failed = None;
        Some(Outage { from_ns, to_ns: clock::monotonic_ns(), error, dropped: 0 })
    }

    /// Drop the waiting chunks, so that a small one can be written instead, and return the current outage. The first
    /// chunk is never dropped, because a stream without it cannot be read.
    pub(crate) fn give_up(&mut self) -> Option<Outage> {
        let kept = usize::from(!self.has_first_chunk()).min(self.waiting.len());
        let dropped = self.waiting.drain(kept..).map(|waiting| waiting.records).sum();
        self.waiting_bytes = self.waiting.iter().map(|waiting| waiting.bytes.len()).sum();
        let (from_ns, error) = self.failed.take()?;
        Some(Outage { from_ns, to_ns: clock::monotonic_ns(), error, dropped })
    }

    /// Set the path of the stream file after it was renamed.
    pub(crate) fn moved(&mut self, to: &Path) {
        self.target.moved(to);
    }

    /// Set the waiting chunks aside, so that a small one can be written instead, until [`Self::undo_since`].
    pub(crate) fn mark(&mut self) -> Mark {
        Mark {
            end: self.end,
            waiting: std::mem::take(&mut self.waiting),
            waiting_bytes: std::mem::take(&mut self.waiting_bytes),
            failed: self.failed.take(),
        }
    }

    /// Undo the writes since the mark, and restore the waiting chunks.
    pub(crate) fn undo_since(&mut self, mark: Mark) {
        let Mark { end, waiting, waiting_bytes, failed } = mark;
        // Data after the end are cut off now or, if that fails, before the next chunk.
        self.torn |= self.end > end;
        (self.end, self.waiting, self.waiting_bytes) = (end, waiting, waiting_bytes);
        self.failed = failed.or(self.failed);
        let _ = self.cut_partial_chunk();
    }

    /// True if the first chunk was written, without which no other can be read.
    pub(crate) fn has_first_chunk(&self) -> bool {
        self.end > 0
    }

    /// True if chunks wait in memory after a write error of the stream file.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Size of the waiting chunks in bytes.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Size of all chunks in bytes, written or waiting.
    pub(crate) fn len(&self) -> u64 {
        self.end + self.waiting_bytes as u64
    }

    /// Append a whole chunk to the file. A failure begins an outage, and partial bytes are cut off.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.cut_partial_chunk().and_then(|()| self.write_all(bytes));
        match &written {
            Ok(()) => self.end += bytes.len() as u64,
            Err(error) => {
                let error = error.raw_os_error().unwrap_or(0);
                self.failed.get_or_insert_with(|| (clock::monotonic_ns(), error));
                // If this fails, it is retried before the next chunk.
                let _ = self.cut_partial_chunk();
            }
        }
        written
    }

    /// Cut off the partial chunk that a failed write left at the end of the stream file.
    fn cut_partial_chunk(&mut self) -> io::Result<()> {
        if self.torn {
            self.target.cut(self.end)?;
            self.torn = false;
        }
        Ok(())
    }

    /// Append all bytes by as many writes as needed; the file stays marked as torn after a failure.
    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.torn = true;
            match self.target.append(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.torn = false;
        Ok(())
    }
}
