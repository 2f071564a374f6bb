//! Segments of native frames that were walked before, found again without walking.
//!
//! A segment lies on the stack as a few return addresses at certain distances from the stack pointer. If each of them is
//! where it was, at the same distances from the operator and from the bound, then it is the same segment: the size of a
//! function's frame at a call follows from the code, frame by frame. (Functions that take a varying amount of stack are
//! told by the distances.) To compare ten words takes a tenth of the time that it takes to walk ten frames.
//!
//! Where functions return to is only known to lie on the stack, right above a frame, on x86-64; elsewhere nothing is
//! remembered.

use rustc_hash::FxHashMap;

const SETS: usize = 1024;
/// Segments with the same hint and extent that are remembered: an operator may call another one from several places.
const WAYS: usize = 4;
/// Words that are compared for all segments together; beyond, everything is forgotten.
const MAX_WORDS: usize = 1 << 16;

/// A word of the stack: its distance from the stack pointer, and what it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Word {
    pub(super) distance: u32,
    pub(super) value: usize,
}

/// Where a segment begins and ends, as distances from the stack pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) from: u32,
    pub(super) bound: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    hint: u64,
    extent: Extent,
    /// Modules were these.
    generation: u32,
    first: u32,
    count: u32,
    value: u32,
}

#[derive(Debug)]
pub(super) struct Memo {
    sets: Box<[[Entry; WAYS]]>,
    words: Vec<Word>,
    /// Where the words of a segment begin, by their hash: many entries share them.
    known: FxHashMap<Box<[Word]>, u32>,
}

impl Memo {
    pub(super) fn new() -> Self {
        let sets = vec![[Entry::default(); WAYS]; SETS].into();
        Self { sets, words: Vec::new(), known: FxHashMap::default() }
    }

    #[inline]
    fn set(hint: u64, extent: Extent) -> usize {
        let mixed =
            (hint ^ u64::from(extent.from) << 32 ^ u64::from(extent.bound) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize % SETS
    }

    /// What was remembered of the segment that lies at `sp` now.
    ///
    /// # Safety
    /// The stack from `sp` to `sp + extent.bound` belongs to the calling thread.
    #[inline]
    pub(super) unsafe fn find(&mut self, generation: u32, hint: u64, sp: usize, extent: Extent) -> Option<u32> {
        let set = self.sets.get_mut(Self::set(hint, extent))?;
        for way in 0..WAYS {
            let entry = set[way];
            if entry.hint != hint || entry.extent != extent || entry.generation != generation || entry.count == 0 {
                continue;
            }
            let words = self.words.get(entry.first as usize..(entry.first + entry.count) as usize)?;
            let same = words.iter().all(|word| {
                // SAFETY: by contract; distances are below that of the bound, which `put` made sure of, and aligned.
                unsafe { ((sp + word.distance as usize) as *const usize).read() == word.value }
            });
            if same {
                if way > 0 {
                    set.swap(way - 1, way);
                }
                return Some(entry.value);
            }
        }
        None
    }

    pub(super) fn put(&mut self, generation: u32, hint: u64, extent: Extent, words: &[Word], value: u32) {
        if words.is_empty() || words.iter().any(|word| word.distance + 8 > extent.bound || word.distance % 8 != 0) {
            return;
        }
        if self.words.len() + words.len() > MAX_WORDS {
            self.sets.fill([Entry::default(); WAYS]);
            self.words.clear();
            self.known.clear();
        }
        let first = match self.known.get(words) {
            Some(&first) => first,
            None => {
                let first = self.words.len() as u32;
                self.words.extend_from_slice(words);
                self.known.insert(words.into(), first);
                first
            }
        };
        if let Some(set) = self.sets.get_mut(Self::set(hint, extent)) {
            set.rotate_right(1);
            set[0] = Entry { hint, extent, generation, first, count: words.len() as u32, value };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, Memo, Word};
    use std::cell::Cell;

    #[test]
    fn a_segment_is_found_as_long_as_its_words_are_there() {
        let stack = [10, 11, 12, 13].map(Cell::new);
        let sp = stack.as_ptr() as usize;
        let extent = Extent { from: 8, bound: 32 };
        let words = [Word { distance: 8, value: 11 }, Word { distance: 24, value: 13 }];
        let mut memo = Memo::new();
        memo.put(1, 7, extent, &words, 99);
        // SAFETY: the extent is that of the array.
        let find = |memo: &mut Memo, generation, hint, extent| unsafe { memo.find(generation, hint, sp, extent) };
        assert_eq!(find(&mut memo, 1, 7, extent), Some(99));
        assert_eq!(find(&mut memo, 2, 7, extent), None);
        assert_eq!(find(&mut memo, 1, 8, extent), None);
        assert_eq!(find(&mut memo, 1, 7, Extent { from: 16, bound: 32 }), None);
        stack[2].set(0_usize);
        assert_eq!(find(&mut memo, 1, 7, extent), Some(99), "not a word of the segment");
        stack[3].set(0);
        assert_eq!(find(&mut memo, 1, 7, extent), None);
        memo.put(1, 7, extent, &[words[0], Word { distance: 24, value: 0 }], 100);
        assert_eq!(find(&mut memo, 1, 7, extent), Some(100));
        stack[3].set(13);
        assert_eq!(find(&mut memo, 1, 7, extent), Some(99), "both are remembered");
    }

    #[test]
    fn words_beyond_the_bound_are_not_read() {
        let mut memo = Memo::new();
        let extent = Extent { from: 0, bound: 8 };
        memo.put(1, 7, extent, &[Word { distance: 8, value: 0 }], 99);
        let stack = [0_usize];
        // SAFETY: the extent is that of the array.
        assert_eq!(unsafe { memo.find(1, 7, stack.as_ptr() as usize, extent) }, None);
    }
}
