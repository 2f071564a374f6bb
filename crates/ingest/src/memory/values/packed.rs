//! Packed dicts: shared key sets are stored once, and values with as few bytes as they need.
//!
//! A snapshot has one dict per allocator event, millions of them, with the same few keys. A packed dict takes some 30
//! bytes instead of 130, half of its size in the file.

use super::{TAG, TEXT, Value};
use rustc_hash::FxHashMap;

/// Limit on the keys of a packed dict.
const MOST: usize = 64;

/// Limit on distinct key sets; the formats have some ten.
const MOST_SETS: usize = 4096;

/// Storage of packed dicts.
#[derive(Default, Debug)]
pub(super) struct Packed {
    /// Key sets, in file order.
    keys: Vec<Box<[Value]>>,
    known: FxHashMap<Box<[Value]>, u32>,
    /// Total number of keys in `keys`.
    key_count: usize,
    /// Key set of the last dict, which the next dict usually has, too.
    last: u32,
    bytes: Vec<u8>,
    /// Number of keys and values of all packed dicts.
    pub(super) items: usize,
    scratch: Vec<Value>,
}

impl Packed {
    /// Pack a dict from alternating keys and values, and return its key set and the start of its values. `None` if the
    /// dict is empty or large, has a key that is not a string or occurs twice, or if the table is full.
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

    /// Number of the key set of alternating keys and values, added if new; `None` for repeated or other keys than
    /// strings.
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

    /// Value of a key in the dict with key set number `keys` and values from byte `start` on; `None` if the key is
    /// missing.
    pub(super) fn get(&self, keys: u32, start: u32, searched_key: Value) -> Option<Value> {
        let at = self.keys.get(keys as usize)?.iter().position(|key| *key == searched_key)?;
        self.values(start).nth(at)
    }

    /// All entries of the dict with key set number `keys` and values from byte `start` on.
    pub(super) fn entries(&self, keys: u32, start: u32) -> Vec<(Value, Value)> {
        let keys = self.keys.get(keys as usize).map_or(&[][..], |keys| keys);
        keys.iter().copied().zip(self.values(start)).collect()
    }

    /// Decode the packed values from byte `start` on: those of this dict, then those of the following ones.
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

    /// Memory of the packed dicts, in bytes.
    pub(super) fn memory(&self) -> u64 {
        (self.bytes.len() + 16 * self.key_count + 64 * self.keys.len()) as u64
    }
}
