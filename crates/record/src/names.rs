//! From the name of an operator to its frame, without hashing the name each time.

use rustc_hash::FxHashMap;
use std::ffi::CStr;

const SLOTS: usize = 1024;

/// A name somewhere in memory.
pub(crate) trait Name {
    /// Where it stands.
    fn address(&self) -> usize;
    /// Whether it is this one.
    fn is(&self, name: &CStr) -> bool;
    /// All of it.
    fn text(&self) -> &CStr;
}

impl Name for dlmonitor::OperatorName<'_> {
    #[inline]
    fn address(&self) -> usize {
        (*self).address()
    }

    #[inline]
    fn is(&self, name: &CStr) -> bool {
        (*self).is(name)
    }

    fn text(&self) -> &CStr {
        (*self).text()
    }
}

/// Names that are remembered; beyond, all are forgotten and asked for again.
const MAX_NAMES: usize = 1 << 16;

/// Names that were seen on one thread, found by their address first.
///
/// Most names live as long as the process, some only as long as the call: an address is believed only after its bytes
/// were compared.
#[derive(Debug)]
pub(crate) struct Names {
    by_address: Box<[Slot]>,
    by_name: FxHashMap<(u8, Box<CStr>), u32>,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    address: usize,
    kind: u8,
    frame: u32,
    name: Box<CStr>,
}

impl Default for Names {
    fn default() -> Self {
        Self { by_address: vec![Slot::default(); SLOTS].into(), by_name: FxHashMap::default() }
    }
}

impl Names {
    /// The frame for a name of some kind; `intern` is asked when the name is new.
    #[inline]
    pub(crate) fn frame(&mut self, kind: u8, name: &(impl Name + ?Sized), intern: impl FnOnce(&CStr) -> u32) -> u32 {
        let address = name.address();
        let at = (address >> 3 ^ address >> 13) % SLOTS;
        let slot = &self.by_address[at];
        if slot.address == address && slot.kind == kind && name.is(&slot.name) {
            return slot.frame;
        }
        self.look_up(at, kind, name.text(), intern)
    }

    #[cold]
    fn look_up(&mut self, at: usize, kind: u8, name: &CStr, intern: impl FnOnce(&CStr) -> u32) -> u32 {
        // Spans may have a new name each time.
        if self.by_name.len() >= MAX_NAMES {
            self.by_name.clear();
        }
        let frame = *self.by_name.entry((kind, name.into())).or_insert_with(|| intern(name));
        self.by_address[at] = Slot { address: name.as_ptr() as usize, kind, frame, name: name.into() };
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::{Name, Names};
    use std::ffi::{CStr, CString};

    impl Name for CStr {
        fn address(&self) -> usize {
            self.as_ptr() as usize
        }

        fn is(&self, name: &CStr) -> bool {
            self == name
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
        let of = |names: &mut Names, buffer: &[u8], id: u32| {
            names.frame(0, CStr::from_bytes_with_nul(buffer).unwrap(), |_| id)
        };
        assert_eq!(of(&mut names, &buffer, 1), 1);
        buffer.copy_from_slice(b"other\0");
        assert_eq!(of(&mut names, &buffer, 2), 2, "the same address holds another name");
        assert_eq!(names.frame(0, &*name(b"first"), |_| 3), 1, "the same name at another address");
        assert_eq!(names.frame(1, &*name(b"first"), |_| 4), 4, "another kind");
    }
}
