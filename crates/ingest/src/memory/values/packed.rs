//! Dicts in little space: keys that many dicts have are stored once, values as numbers of as many bytes as they need.
//!
//! A snapshot has one dict per event of the allocator, millions of them, with the same few keys. Packed, one takes some 30 bytes in place
//! of 130, half of what it takes in the file.

use super::{TAG, TEXT, Value};
use rustc_hash::FxHashMap;

/// Dicts with more keys are not packed.
const MOST: usize = 64;

/// So many different sets of keys are kept; the formats have some ten.
const MOST_SETS: usize = 4096;

/// Packed dicts.
#[derive(Default, Debug)]
pub(super) struct Packed {
    /// Sets of keys, in the order of the file.
    keys: Vec<Box<[Value]>>,
    known: FxHashMap<Box<[Value]>, u32>,
    /// Keys in `keys`.
    key_count: usize,
    /// The set that was used last: the next dict most often has it, too.
    last: u32,
    bytes: Vec<u8>,
    /// Keys and values of all packed dicts.
    pub(super) items: usize,
    scratch: Vec<Value>,
}

impl Packed {
    /// Packs a dict of these keys and values in turn: its set of keys, and where its values begin. None if it has to be stored otherwise:
    /// it is empty or large, a key is no text or is there twice, or the table is full.
    pub(super) fn add(&mut self, items: &[Value]) -> Option<(u32, u32)> {
        if items.is_empty() || items.len() % 2 == 1 || items.len() > 2 * MOST {
            return None;
        }
        let start = u32::try_from(self.bytes.len()).ok()?;
        let keys = self.keys_of(items)?;
        for value in items.iter().skip(1).step_by(2) {
            let mut rest = value.0;
            while rest >= 0x80 {
                self.bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            self.bytes.push(rest as u8);
        }
        self.items += items.len();
        Some((keys, start))
    }

    fn keys_of(&mut self, items: &[Value]) -> Option<u32> {
        let keys = || items.iter().step_by(2);
        if self.keys.get(self.last as usize).is_some_and(|last| last.len() == items.len() / 2 && last.iter().eq(keys()))
        {
            return Some(self.last);
        }
        self.scratch.clear();
        self.scratch.extend(keys());
        if let Some(known) = self.known.get(&self.scratch[..]) {
            self.last = *known;
            return Some(*known);
        }
        let is_plain =
            self.scratch.iter().enumerate().all(|(at, key)| key.0 & TAG == TEXT && !self.scratch[..at].contains(key));
        if !is_plain || self.keys.len() >= MOST_SETS {
            return None;
        }
        let number = u32::try_from(self.keys.len()).ok()?;
        let set: Box<[Value]> = self.scratch.as_slice().into();
        self.key_count += set.len();
        self.keys.push(set.clone());
        self.known.insert(set, number);
        self.last = number;
        Some(number)
    }

    /// The value behind a key of the dict whose values begin at `start`.
    pub(super) fn get(&self, keys: u32, start: u32, wanted: Value) -> Option<Value> {
        let at = self.keys.get(keys as usize)?.iter().position(|key| *key == wanted)?;
        self.values(start).nth(at)
    }

    /// All entries of the dict whose values begin at `start`.
    pub(super) fn entries(&self, keys: u32, start: u32) -> Vec<(Value, Value)> {
        let keys = self.keys.get(keys as usize).map_or(&[][..], |keys| keys);
        keys.iter().copied().zip(self.values(start)).collect()
    }

    /// The values that begin at `start`, of this dict and those behind it.
    fn values(&self, start: u32) -> impl Iterator<Item = Value> + '_ {
        let mut bytes = self.bytes.get(start as usize..).unwrap_or_default().iter();
        std::iter::from_fn(move || {
            let (mut value, mut shift) = (0u64, 0u32);
            loop {
                let byte = *bytes.next()?;
                value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
                if byte < 0x80 {
                    return Some(Value(value));
                }
                shift += 7;
            }
        })
    }

    /// Bytes of memory that they take.
    pub(super) fn memory(&self) -> u64 {
        (self.bytes.len() + 16 * self.key_count + 64 * self.keys.len()) as u64
    }
}
