//! Cache from operator names to frames, looked up by address to avoid hashing the name each time.

use crate::folding::FOLDED;
use crate::prefetch::prefetch;
use rustc_hash::FxHashMap;
use std::ffi::CStr;
use std::sync::Arc;

const SLOTS: usize = 1024;

/// Operator name that is looked up by its address in memory.
pub(crate) trait Name {
    /// Address in memory of an operator name.
    fn address(&self) -> usize;
    /// True if the operator name equals the text before the first null byte of `name`.
    fn is(&self, name: &[u8]) -> bool;
    /// Full text of an operator name.
    fn text(&self) -> &CStr;
}

impl Name for dlmonitor::OperatorName<'_> {
    #[inline]
    fn address(&self) -> usize {
        (*self).address()
    }

    #[inline]
    fn is(&self, name: &[u8]) -> bool {
        (*self).is(name)
    }

    fn text(&self) -> &CStr {
        (*self).text()
    }
}

/// Limit of cached names. The cache is cleared when it is full.
const MAX_NAMES: usize = 1 << 16;

/// Cache of one thread from operator names to frames, looked up by the name's address first.
///
/// Most names live as long as the process, some only as long as the call: an entry is used only after a comparison of
/// its bytes.
#[derive(Debug)]
pub(crate) struct Names {
    by_address: Box<[Slot]>,
    /// By kind, of which there are few.
    by_name: Vec<FxHashMap<Arc<CStr>, u32>>,
}

/// Bytes of a name that fit into its slot, including the null byte.
const MAX_SHORT_NAME: usize = 35;

/// A name and its frame. Most names fit into the slot, so that a lookup touches one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Slot {
    address: usize,
    frame: u32,
    kind: u8,
    short: [u8; MAX_SHORT_NAME],
    /// The full text of a longer name, shared with the table by name, so that names that alternate at one address are
    /// not copied each time.
    long: Option<Arc<CStr>>,
}

impl Slot {
    const EMPTY: Self = Self { address: 0, frame: 0, kind: 0, short: [0; MAX_SHORT_NAME], long: None };

    /// Cache slot for an operator name at `address`.
    fn new(address: usize, kind: u8, name: &Arc<CStr>, frame: u32) -> Self {
        let bytes = name.to_bytes_with_nul();
        let mut short = [0; MAX_SHORT_NAME];
        let long = match short.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                None
            }
            None => Some(Arc::clone(name)),
        };
        Self { address, frame, kind, short, long }
    }

    /// True if this slot has the name: same address, kind and text.
    #[inline]
    fn is(&self, kind: u8, name: &(impl Name + ?Sized)) -> bool {
        self.address == name.address()
            && self.kind == kind
            && match &self.long {
                None => name.is(&self.short),
                Some(long) => name.is(long.to_bytes_with_nul()),
            }
    }
}

impl Default for Names {
    fn default() -> Self {
        Self { by_address: vec![Slot::EMPTY; SLOTS].into(), by_name: Vec::new() }
    }
}

/// Index of the first possible slot of a name, by its address; the other one is adjacent.
#[inline]
fn slot_of(name: &(impl Name + ?Sized)) -> usize {
    let address = name.address();
    (address >> 3 ^ address >> 13) % SLOTS
}

impl Names {
    /// Prefetch the most likely slot of a name.
    #[inline]
    pub(crate) fn prefetch(&self, name: &(impl Name + ?Sized)) {
        prefetch(&self.by_address[slot_of(name)]);
    }

    /// Frame id of a name of this kind, from the cache or, for a new name, from `intern`. A frame with [`FOLDED`] is
    /// not cached.
    #[inline]
    pub(crate) fn frame(&mut self, kind: u8, name: &(impl Name + ?Sized), intern: impl FnOnce(&CStr) -> u32) -> u32 {
        let at = slot_of(name);
        for at in [at, at ^ 1] {
            let slot = &self.by_address[at];
            if slot.is(kind, name) {
                return slot.frame;
            }
        }
        self.look_up(at, kind, name.text(), intern)
    }

    /// Frame id of a name that is not in its slots: from the table by text, or from `intern`. The name gets slot `at`.
    #[cold]
    fn look_up(&mut self, at: usize, kind: u8, name: &CStr, intern: impl FnOnce(&CStr) -> u32) -> u32 {
        let kinds = self.by_name.len().max(usize::from(kind) + 1);
        self.by_name.resize_with(kinds, FxHashMap::default);
        let by_name = &mut self.by_name[usize::from(kind)];
        let (known, frame) = match by_name.get_key_value(name) {
            Some((known, &frame)) => (Arc::clone(known), frame),
            None => {
                let frame = intern(name);
                // Names that share a frame are new each time, and would displace recurring names.
                if frame & FOLDED != 0 {
                    return frame;
                }
                if by_name.len() >= MAX_NAMES {
                    by_name.clear();
                }
                let known: Arc<CStr> = name.into();
                by_name.insert(Arc::clone(&known), frame);
                (known, frame)
            }
        };
        // The displaced name moves to its other slot.
        self.by_address[at ^ 1] =
            std::mem::replace(&mut self.by_address[at], Slot::new(name.as_ptr() as usize, kind, &known, frame));
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_SHORT_NAME, Name, Names};
    use std::ffi::{CStr, CString};

    impl Name for CStr {
        fn address(&self) -> usize {
            self.as_ptr() as usize
        }

        fn is(&self, name: &[u8]) -> bool {
            CStr::from_bytes_until_nul(name) == Ok(self)
        }

        fn text(&self) -> &CStr {
            self
        }
    }

    #[test]
    fn an_address_is_not_a_name() {
        let mut names = Names::default();
        let mut buffer = *b"first\0";
        let name = |buffer: &[u8]| CString::new(&buffer[..5]).unwrap();
        let frame_of = |names: &mut Names, buffer: &[u8], id: u32| {
            names.frame(0, CStr::from_bytes_with_nul(buffer).unwrap(), |_| id)
        };
        assert_eq!(frame_of(&mut names, &buffer, 1), 1);
        buffer.copy_from_slice(b"other\0");
        assert_eq!(frame_of(&mut names, &buffer, 2), 2, "the same address holds another name");
        assert_eq!(names.frame(0, &*name(b"first"), |_| 3), 1, "the same name at another address");
        assert_eq!(names.frame(1, &*name(b"first"), |_| 4), 4, "another kind");
    }

    #[test]
    fn long_names_differ_at_their_ends() {
        let mut names = Names::default();
        let mut text = [b'a'; 100];
        for length in [MAX_SHORT_NAME - 2, MAX_SHORT_NAME - 1, MAX_SHORT_NAME, 99] {
            for (end, frame) in [(b'x', 10), (b'y', 11)] {
                text[length - 1] = end;
                text[length] = 0;
                let name = CStr::from_bytes_until_nul(&text).unwrap();
                let id = length as u32 * 100 + frame;
                assert_eq!(names.frame(0, name, |_| id), id, "new at a known address");
                assert_eq!(names.frame(0, name, |_| 0), id, "known");
            }
            text[length - 1] = b'a';
            text[length] = b'a';
        }
    }
}
