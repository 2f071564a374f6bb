//! Interned frames: each is stored once and referred to by its row.

use super::Frame;
use crate::FrameId;
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// Interned frames. Rows count up from 0 in order of first appearance, so that equal inputs give equal handles.
#[derive(Clone, Default)]
pub struct FrameTable {
    rows: Vec<Frame>,
    /// Rows by the hash of their frame, for the first `indexed` ones. The others are added when a frame is interned.
    index: HashTable<u32>,
    indexed: usize,
}

/// Hash of a frame, for the index of interned frames.
fn hash(frame: &Frame) -> u64 {
    let mut hasher = FxHasher::default();
    frame.hash(&mut hasher);
    hasher.finish()
}

impl FrameTable {
    /// Create an empty table of interned frames.
    pub fn new() -> Self {
        Self::default()
    }

    /// Handle of a frame, which is added if it is new.
    pub fn intern(&mut self, frame: Frame) -> FrameId {
        for row in self.indexed..self.rows.len() {
            self.index_row(row);
        }
        let Self { rows, index, .. } = self;
        let found = index.find(hash(&frame), |&row| rows[row as usize] == frame).copied();
        let id = found.map_or_else(|| FrameId::new(self.rows.len()), FrameId);
        if found.is_none() {
            self.rows.push(frame);
            self.index_row(id.index());
        }
        id
    }

    /// Add a row without a search for an equal frame, for rows with fixed handles.
    pub fn push(&mut self, frame: Frame) -> FrameId {
        self.rows.push(frame);
        FrameId::new(self.rows.len() - 1)
    }

    /// Add a row to the hash index; of equal frames, the first row is found.
    fn index_row(&mut self, row: usize) {
        let Self { rows, index, indexed } = self;
        let value = hash(&rows[row]);
        if index.find(value, |&other| rows[other as usize] == rows[row]).is_none() {
            index.insert_unique(value, row as u32, |&other| hash(&rows[other as usize]));
        }
        *indexed = row + 1;
    }
}

/// Frames by row.
impl Deref for FrameTable {
    type Target = [Frame];

    fn deref(&self) -> &[Frame] {
        &self.rows
    }
}

/// Table with rows in this order, even if frames are equal.
impl From<Vec<Frame>> for FrameTable {
    fn from(rows: Vec<Frame>) -> Self {
        Self { rows, ..Self::default() }
    }
}

impl<'a> IntoIterator for &'a FrameTable {
    type Item = &'a Frame;
    type IntoIter = std::slice::Iter<'a, Frame>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}

impl PartialEq for FrameTable {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows
    }
}

impl std::fmt::Debug for FrameTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.rows).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StrId;

    fn operator(name: u32) -> Frame {
        Frame::operator(StrId(name))
    }

    #[test]
    fn equal_frames_have_one_row() {
        let mut table = FrameTable::new();
        let rows = [3, 1, 3, 2, 1].map(|name| table.intern(operator(name)).0);
        assert_eq!(rows, [0, 1, 0, 2, 1]);
        assert_eq!(table[..], [operator(3), operator(1), operator(2)]);
        assert_ne!(table.intern(Frame::backward(StrId(3))), FrameId(0));
    }

    #[test]
    fn explicit_rows_keep_their_handles() {
        let mut table = FrameTable::from(vec![operator(1), operator(1)]);
        assert_eq!(table.push(operator(2)), FrameId(2));
        let rows = [1, 2, 3, 1].map(|name| table.intern(operator(name)).0);
        assert_eq!(rows, [0, 2, 3, 0]);
        assert_eq!(table.len(), 4);
        assert_eq!(table, FrameTable::from(table.to_vec()));
    }

    #[test]
    fn a_row_takes_forty_bytes() {
        assert_eq!(size_of::<Frame>(), 40);
    }
}
