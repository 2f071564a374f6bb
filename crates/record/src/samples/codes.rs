//! Numbers of sampled code objects. A handler that sees a code object for the first time copies its names; later
//! samples contain only the number.
//!
//! A lock-free table of fixed size, in which signal handlers of all threads look up and add entries.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Largest number of distinct code objects.
const SLOTS: usize = 1 << 15;
/// Number of probed slots before a code object counts as absent.
const PROBES: usize = 24;

/// Number that identifies all code objects that did not fit into the table.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// Slot of the table: a sampled code object, whose number is the slot's index.
#[derive(Debug)]
struct Slot {
    /// Address of the code, 0 if the slot is free.
    code: AtomicU64,
    fingerprint: AtomicU64,
    /// True once the names were passed on.
    ready: AtomicU32,
}

/// Table of the numbers of sampled code objects, by address and fingerprint.
#[derive(Debug)]
pub(super) struct Codes {
    slots: Box<[Slot]>,
    /// Number of code objects that did not fit since the table was cleared.
    pub(super) refused: AtomicU32,
}

impl Codes {
    /// Create an empty table.
    pub(super) fn new() -> Self {
        let free = |_| Slot { code: AtomicU64::new(0), fingerprint: AtomicU64::new(0), ready: AtomicU32::new(0) };
        Self { slots: (0..SLOTS).map(free).collect(), refused: AtomicU32::new(0) }
    }

    /// Slots in which a code object can be, with their numbers, in the order of the search.
    fn probe(&self, code: u64) -> impl Iterator<Item = (u32, &Slot)> {
        let start = (code >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        (0..PROBES).filter_map(move |step| {
            let at = (start as usize + step) % SLOTS;
            self.slots.get(at).map(|slot| (at as u32, slot))
        })
    }

    /// Number of a code object in the table; `None` if it is new or its names were not passed on to the reader yet.
    pub(super) fn find(&self, code: u64, fingerprint: u64) -> Option<u32> {
        for (number, slot) in self.probe(code) {
            match slot.code.load(Ordering::Acquire) {
                0 => return None,
                found
                    if found == code
                        && slot.ready.load(Ordering::Acquire) != 0
                        && slot.fingerprint.load(Ordering::Relaxed) == fingerprint =>
                {
                    return Some(number);
                }
                _ => {}
            }
        }
        None
    }

    /// Reserve a number for a new code object; `None` if the table is full. Call [`Self::publish`] after its names were
    /// passed on. Two threads at the same time may reserve two numbers for one code object, without effect on results.
    pub(super) fn reserve(&self, code: u64, fingerprint: u64) -> Option<u32> {
        for (number, slot) in self.probe(code) {
            if slot.code.compare_exchange(0, code, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                slot.fingerprint.store(fingerprint, Ordering::Relaxed);
                return Some(number);
            }
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Mark a reserved number as usable, because the names of its code object were passed on.
    pub(super) fn publish(&self, number: u32) {
        if let Some(slot) = self.slots.get(number as usize) {
            slot.ready.store(1, Ordering::Release);
        }
    }

    /// Remove all code objects from the table. No handler may run meanwhile.
    pub(super) fn clear(&self) {
        for slot in &self.slots {
            slot.ready.store(0, Ordering::Relaxed);
            slot.code.store(0, Ordering::Release);
        }
        self.refused.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{Codes, PROBES};

    #[test]
    fn code_objects_are_found_once_their_names_are_known() {
        let codes = Codes::new();
        let number = codes.reserve(64, 5).unwrap();
        assert_eq!(codes.find(64, 5), None);
        codes.publish(number);
        assert_eq!(codes.find(64, 5), Some(number));
        assert_eq!(codes.find(64, 6), None, "another code at the same address");
        let other = codes.reserve(64, 6).unwrap();
        codes.publish(other);
        assert_eq!((codes.find(64, 5), codes.find(64, 6)), (Some(number), Some(other)));
    }

    #[test]
    fn full_tables_refuse_until_cleared() {
        let codes = Codes::new();
        for fingerprint in 0..PROBES as u64 {
            codes.publish(codes.reserve(64, fingerprint).unwrap());
        }
        assert_eq!(codes.reserve(64, 99), None);
        assert_eq!(codes.refused.load(std::sync::atomic::Ordering::Relaxed), 1);
        codes.clear();
        assert_eq!(codes.find(64, 0), None);
        assert!(codes.reserve(64, 99).is_some());
    }
}
