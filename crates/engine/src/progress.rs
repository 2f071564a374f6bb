//! Progress and cancellation of long work.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Progress and cancellation, shared between a caller and the work it started. Clones share their state.
#[derive(Clone, Default)]
pub struct Progress {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    cancelled: Arc<AtomicBool>,
    bytes: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Progress of work that has not started.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the work to stop; it ends with [`crate::Error::Cancelled`] at its next check.
    pub fn cancel(&self) {
        self.inner.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the work was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancelled.load(Ordering::Relaxed)
    }

    /// Bytes read so far from files (compressed where the file is).
    pub fn bytes(&self) -> u64 {
        self.inner.bytes.load(Ordering::Relaxed)
    }

    /// Bytes to read in all, 0 while unknown (standard input).
    pub fn total(&self) -> u64 {
        self.inner.total.load(Ordering::Relaxed)
    }

    /// The flag itself, for layers below that poll it.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.inner.cancelled)
    }

    /// Counts bytes that were read.
    pub(crate) fn add(&self, bytes: u64) {
        self.inner.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Announces bytes that will be read.
    pub(crate) fn expect(&self, bytes: u64) {
        self.inner.total.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({} of {} bytes, canceled: {})", self.bytes(), self.total(), self.is_cancelled())
    }
}
