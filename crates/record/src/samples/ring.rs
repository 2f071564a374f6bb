//! Lock-free ring buffer of words from one signal handler to one reading thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// A ring of words. Physical memory is used only for written pages.
#[derive(Debug)]
pub(super) struct Ring {
    words: Box<[AtomicU64]>,
    /// Total numbers of words written and read.
    written: AtomicU64,
    read: AtomicU64,
}

impl Ring {
    /// Allocate a ring of samples with space for `words` words, rounded up to a power of two.
    pub(super) fn new(words: usize) -> Self {
        // Zeroed memory of this size is not yet backed by physical pages.
        let words = Box::into_raw(vec![0_u64; words.next_power_of_two()].into_boxed_slice());
        // SAFETY: atomic integers have the layout of plain ones, and the box has no other owner.
        let words = unsafe { Box::from_raw(words as *mut [AtomicU64]) };
        Self { words, written: AtomicU64::new(0), read: AtomicU64::new(0) }
    }

    /// Word at a position counted from the begin of all writes, modulo the size.
    fn at(&self, index: u64) -> &AtomicU64 {
        // The length is a power of two: the index is always within.
        &self.words[index as usize & (self.words.len() - 1)]
    }

    /// True if an entry of this many words fits now. Only the reader frees space, so the result stays valid for the
    /// writer.
    pub(super) fn has_room(&self, words: usize) -> bool {
        let used = self.written.load(Ordering::Relaxed).wrapping_sub(self.read.load(Ordering::Acquire));
        used as usize + words < self.words.len()
    }

    /// Write an entry, the concatenation of `parts`; `false` if it does not fit.
    pub(super) fn push(&self, parts: &[&[u64]]) -> bool {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if !self.has_room(length + 1) {
            return false;
        }
        let mut at = self.written.load(Ordering::Relaxed);
        for word in std::iter::once(&(length as u64)).chain(parts.iter().copied().flatten()) {
            self.at(at).store(*word, Ordering::Relaxed);
            at += 1;
        }
        self.written.store(at, Ordering::Release);
        true
    }

    /// Position after the last written entry, for [`Self::pop`].
    pub(super) fn end(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Skip entries before a position that [`Self::end`] returned.
    pub(super) fn skip(&self, to: u64) {
        if self.read.load(Ordering::Relaxed) < to {
            self.read.store(to, Ordering::Release);
        }
    }

    /// Move the next entry that was written before `end` to `into`; `false` if there is none.
    pub(super) fn pop(&self, end: u64, into: &mut Vec<u64>) -> bool {
        let read = self.read.load(Ordering::Relaxed);
        if read >= end {
            return false;
        }
        let length = self.at(read).load(Ordering::Relaxed);
        into.clear();
        into.extend((1..=length).map(|index| self.at(read + index).load(Ordering::Relaxed)));
        self.read.store(read + 1 + length, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Ring;

    #[test]
    fn oversized_entries_are_refused() {
        let ring = Ring::new(8);
        assert!(ring.push(&[&[1, 2], &[3]]));
        assert!(!ring.push(&[&[4, 5, 6]]));
        let mut entry = Vec::new();
        assert!(ring.pop(ring.end(), &mut entry));
        assert_eq!(entry, [1, 2, 3]);
        assert!(ring.push(&[&[4, 5, 6]]), "room was made");
        assert!(ring.pop(ring.end(), &mut entry) && !ring.pop(ring.end(), &mut entry));
        assert_eq!(entry, [4, 5, 6]);
    }

    #[test]
    fn skipped_entries_free_space() {
        let ring = Ring::new(8);
        assert!(ring.push(&[&[1, 2, 3, 4]]));
        let end = ring.end();
        ring.skip(end);
        assert!(ring.push(&[&[5, 6]]));
        let mut entry = Vec::new();
        ring.skip(end - 1);
        assert!(ring.pop(ring.end(), &mut entry) && !ring.pop(ring.end(), &mut entry));
        assert_eq!(entry, [5, 6]);
    }

    #[test]
    fn entries_arrive_complete_and_in_order() {
        let ring = Ring::new(256);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for value in 0..100_000_u64 {
                    while !ring.push(&[&[value], &vec![value; value as usize % 7]]) {
                        std::thread::yield_now();
                    }
                }
            });
            let (mut next, mut entry) = (0, Vec::new());
            while next < 100_000 {
                while ring.pop(ring.end(), &mut entry) {
                    assert_eq!(entry, vec![next; next as usize % 7 + 1]);
                    next += 1;
                }
            }
        });
    }
}
