//! Cache of native call path segments, so that an unchanged stack is not walked again; keyed by words on the stack.
//!
//! A segment is identified by a few return addresses at certain distances from the stack pointer. If each of them is
//! unchanged, at the same distances from the operator and from the bound, then the segment is unchanged, because the
//! size of a function's frame at a call follows from the code. (Functions with frames of variable size differ in the
//! distances.) Comparing ten words takes a tenth of the time of walking ten frames.
//!
//! Only on x86-64 are return addresses known to be on the stack, directly above a frame. On other processors the
//! cache is disabled.

use rustc_hash::FxHashMap;

/// Number of sets, powers of two. A table grows when the number of displaced entries reaches its number of sets.
const SETS: usize = 128;
const MAX_SETS: usize = 2048;
/// Entries per set, with the same hint and extent: an operator may call another one from several source locations.
const WAYS: usize = 8;
/// Limit of the words of all segments. The cache is cleared when it is full.
const MAX_WORDS: usize = 1 << 16;

/// A word of the stack: its distance from the stack pointer, and its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Word {
    pub(super) distance: u32,
    pub(super) value: usize,
}

/// Begin and end of a stack segment, as distances from the stack pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) from: u32,
    pub(super) bound: u32,
}

/// A cached value, with the segment's key and the position of its words.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    hint: u64,
    extent: Extent,
    /// Generation of the module list.
    generation: u32,
    first: u32,
    count: u32,
    value: u32,
}

/// Cache from native stack segments to values, in sets of [`WAYS`] entries.
#[derive(Debug)]
pub(super) struct Memo {
    sets: Vec<[Entry; WAYS]>,
    /// Number of displaced entries.
    displaced: usize,
    words: Vec<Word>,
    /// Position of the words of a segment, by their hash, because many entries share them.
    known: FxHashMap<Box<[Word]>, u32>,
}

impl Memo {
    /// Create an empty cache.
    pub(super) fn new() -> Self {
        let sets = vec![[Entry::default(); WAYS]; SETS];
        Self { sets, displaced: 0, words: Vec::new(), known: FxHashMap::default() }
    }

    /// Index of the set for segments with this hint and extent.
    #[inline]
    fn set(&self, hint: u64, extent: Extent) -> usize {
        let mixed =
            (hint ^ u64::from(extent.from) << 32 ^ u64::from(extent.bound) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize & (self.sets.len() - 1)
    }

    /// Look up the cached value of the stack segment from `sp`; `None` unless the stack still has the words with which
    /// a value was stored.
    ///
    /// # Safety
    /// The stack from `sp` to `sp + extent.bound` belongs to the calling thread.
    #[inline]
    pub(super) unsafe fn find(&mut self, generation: u32, hint: u64, sp: usize, extent: Extent) -> Option<u32> {
        let at = self.set(hint, extent);
        let set = self.sets.get_mut(at)?;
        for way in 0..WAYS {
            let entry = set[way];
            if entry.hint != hint || entry.extent != extent || entry.generation != generation || entry.count == 0 {
                continue;
            }
            let words = self.words.get(entry.first as usize..(entry.first + entry.count) as usize)?;
            let same = words.iter().all(|word| {
                // SAFETY: by contract; distances are aligned and below that of the bound, as `put` ensured.
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

    /// Store a value for a stack segment, which is recognized by its extent, `generation`, `hint` and `words`.
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
        self.insert(Entry { hint, extent, generation, first, count: words.len() as u32, value });
        if self.displaced > self.sets.len() && self.sets.len() < MAX_SETS {
            self.grow();
        }
    }
}

impl Memo {
    /// Put an entry first into its set, whose least recently used entry is displaced.
    fn insert(&mut self, entry: Entry) {
        let at = self.set(entry.hint, entry.extent);
        if let Some(set) = self.sets.get_mut(at) {
            set.rotate_right(1);
            let last = std::mem::replace(&mut set[0], entry);
            self.displaced += usize::from(last.count != 0 && last.generation == entry.generation);
        }
    }

    /// Double the number of sets, and distribute the entries again.
    #[cold]
    fn grow(&mut self) {
        let sets = self.sets.len() * 2;
        let before = std::mem::replace(&mut self.sets, vec![[Entry::default(); WAYS]; sets]);
        // The first entry of a set is the most recently used one.
        for entry in before.into_iter().flat_map(|set| set.into_iter().rev()).filter(|entry| entry.count != 0) {
            self.insert(entry);
        }
        self.displaced = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, MAX_SETS, Memo, WAYS, Word};
    use std::cell::Cell;

    #[test]
    fn segments_are_found_while_their_words_are_unchanged() {
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
    fn tables_grow_with_their_use() {
        let stack = [10_usize].map(Cell::new);
        let sp = stack.as_ptr() as usize;
        let (extent, words) = (Extent { from: 0, bound: 8 }, [Word { distance: 0, value: 10 }]);
        let mut memo = Memo::new();
        // As many as fit into a table of half its size.
        let hints = (MAX_SETS * WAYS / 2) as u64;
        let mut missed = 0;
        for round in 0..8 {
            missed = 0;
            for hint in 1..=hints {
                // SAFETY: the extent is that of the array.
                match unsafe { memo.find(1, hint, sp, extent) } {
                    Some(value) => assert_eq!(u64::from(value), hint),
                    None => {
                        missed += 1;
                        memo.put(1, hint, extent, &words, hint as u32);
                    }
                }
            }
            assert!(round > 0 || missed == hints);
        }
        assert!(missed * 20 < hints, "{missed} of {hints}");
        assert!(memo.sets.len() <= MAX_SETS);
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
