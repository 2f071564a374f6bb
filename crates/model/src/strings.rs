//! Interned strings: every name, category and text argument of a trace is stored once.

use crate::StrId;
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// Append-only set of strings in one arena. Equal strings have equal handles; handles count up from 0 in order of first
/// appearance, so that equal inputs give equal handles.
#[derive(Default, Clone)]
pub struct StringTable {
    bytes: String,
    ends: Vec<u32>,
    index: HashTable<u32>,
}

/// Hash of a text, for the index of interned strings.
fn hash(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}

impl StringTable {
    /// Create an empty table of interned strings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Handle of `text`, which is added if it is new. The arena has at most 4 GiB; text beyond that becomes the handle
    /// of the empty string (see [`Self::is_full`]).
    pub fn intern(&mut self, text: &str) -> StrId {
        let hash_value = hash(text);
        let Self { bytes, ends, index } = self;
        if let Some(&found) = index.find(hash_value, |&id| slice(bytes, ends, id) == text) {
            return StrId(found);
        }
        let Ok(end) = u32::try_from(bytes.len() + text.len()) else {
            return self.intern("");
        };
        let id = ends.len() as u32;
        bytes.push_str(text);
        ends.push(end);
        index.insert_unique(hash_value, id, |&other| hash(slice(bytes, ends, other)));
        StrId(id)
    }

    /// True if the table has no room for `more` further bytes of text.
    pub fn is_full(&self, more: usize) -> bool {
        u32::try_from(self.bytes.len() + more).is_err()
    }

    /// Handle of `text`, if it is in the table.
    pub fn find(&self, text: &str) -> Option<StrId> {
        self.index.find(hash(text), |&id| slice(&self.bytes, &self.ends, id) == text).map(|&id| StrId(id))
    }

    /// Text of `id`; the empty string for [`StrId::NONE`] and for handles of another table.
    pub fn get(&self, id: StrId) -> &str {
        if id.index() < self.ends.len() { slice(&self.bytes, &self.ends, id.0) } else { "" }
    }

    /// Number of interned strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are no interned strings.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All interned strings in the order of their handles.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.ends.len()).map(|id| slice(&self.bytes, &self.ends, id as u32))
    }
}

/// Text with the handle `id` in the arena `bytes`, where `ends` has the end of each text.
fn slice<'a>(bytes: &'a str, ends: &[u32], id: u32) -> &'a str {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] as usize };
    &bytes[start..ends[id] as usize]
}

impl<'a> FromIterator<&'a str> for StringTable {
    fn from_iter<I: IntoIterator<Item = &'a str>>(iter: I) -> Self {
        let mut table = Self::new();
        for text in iter {
            table.intern(text);
        }
        table
    }
}

impl std::fmt::Debug for StringTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StringTable({} strings, {} bytes)", self.len(), self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn interning_is_a_bijection(texts in proptest::collection::vec(".{0,12}", 0..60)) {
            let mut table = StringTable::new();
            let ids: Vec<StrId> = texts.iter().map(|t| table.intern(t)).collect();
            for (text, id) in texts.iter().zip(&ids) {
                prop_assert_eq!(table.get(*id), text.as_str());
                prop_assert_eq!(table.find(text), Some(*id));
            }
            let distinct: std::collections::BTreeSet<&String> = texts.iter().collect();
            prop_assert_eq!(distinct.len(), table.len());
        }
    }

    #[test]
    fn none_reads_as_empty() {
        assert_eq!(StringTable::new().get(StrId::NONE), "");
    }
}
