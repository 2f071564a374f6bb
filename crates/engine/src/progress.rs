//! Progress and cancel flag of long work.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Progress and cancel flag, shared by a caller and its work. Clones share the state.
#[derive(Clone, Default)]
pub struct Progress {
    inner: Arc<Inner>,
}

/// Shared state: cancel flag, bytes read so far, and bytes to read.
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

    /// Cancel the work; it ends with [`crate::Error::Cancelled`] at its next check.
    pub fn cancel(&self) {
        self.inner.cancelled.store(true, Ordering::Relaxed);
    }

    /// True if the work was canceled.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancelled.load(Ordering::Relaxed)
    }

    /// Bytes read so far from files (compressed where the file is).
    pub fn bytes(&self) -> u64 {
        self.inner.bytes.load(Ordering::Relaxed)
    }

    /// Total bytes to read, 0 while unknown (standard input).
    pub fn total(&self) -> u64 {
        self.inner.total.load(Ordering::Relaxed)
    }

    /// Cancel flag, for lower layers that poll it.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.inner.cancelled)
    }

    /// Add to the number of bytes that were read so far.
    pub(crate) fn add(&self, bytes: u64) {
        self.inner.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Add to the number of bytes that will be read.
    pub(crate) fn expect(&self, bytes: u64) {
        self.inner.total.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({} of {} bytes, canceled: {})", self.bytes(), self.total(), self.is_cancelled())
    }
}
