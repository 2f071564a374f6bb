//! Blocks: consecutive records of one kind, which readers that don't know the kind can skip.

use crate::Record;
use postcard::Deserializer;
use postcard::de_flavors::Flavor;
use serde::Deserialize;

/// Numbers of kinds fit into one byte as postcard writes them.
const MAX_KINDS: u32 = 128;
const _: () = assert!(Record::KINDS <= MAX_KINDS, "the number of a record kind must fit into one byte");

/// Largest size of the numbers before a block: kind, number of records and number of bytes.
const MAX_HEAD: usize = 1 + 2 * 5;

/// Writer of blocks: collects records of one kind, and appends them to a chunk as a block before a record of another
/// kind.
#[derive(Debug, Default)]
pub(crate) struct BlockWriter {
    kind: u8,
    count: u32,
    records: Vec<u8>,
    /// A record that is being encoded.
    encoded: Vec<u8>,
}

impl BlockWriter {
    /// Add a record to the open block; an open block of another kind is appended to `chunk` before.
    ///
    /// # Errors
    /// If the record cannot be encoded.
    pub(crate) fn push(&mut self, record: &Record, chunk: &mut Vec<u8>) -> Result<(), postcard::Error> {
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.clear();
        let encoded = postcard::to_extend(record, encoded)?;
        if let Some((&kind, fields)) = encoded.split_first() {
            // Records without fields have a block each, so that their number is bounded by the bytes of a chunk.
            if self.kind != kind || fields.is_empty() {
                self.close(chunk);
            }
            self.kind = kind;
            self.count += 1;
            self.records.extend_from_slice(fields);
        }
        self.encoded = encoded;
        Ok(())
    }

    /// Upper bound of the size of the open block in bytes, 0 if none is open.
    pub(crate) fn len(&self) -> usize {
        if self.count == 0 { 0 } else { MAX_HEAD + self.records.len() }
    }

    /// Append the open block of records to the chunk, if there is one.
    pub(crate) fn close(&mut self, chunk: &mut Vec<u8>) {
        if self.count > 0 {
            let mut head = [0; MAX_HEAD];
            let numbers = (u32::from(self.kind), self.count, u32::try_from(self.records.len()).unwrap_or(u32::MAX));
            // Three numbers always fit.
            if let Ok(head) = postcard::to_slice(&numbers, &mut head) {
                chunk.extend_from_slice(head);
                chunk.extend_from_slice(&self.records);
            }
            self.clear();
        }
    }

    /// Discard the records of the open block without writing them.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
        self.records.clear();
    }
}

/// A block of records while it is read, from its first record on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Block<'a> {
    /// Number of the kind of its records.
    pub(crate) kind: u32,
    /// Number of unread records.
    pub(crate) left: u32,
    /// Bytes of the unread records.
    pub(crate) records: &'a [u8],
}

impl<'a> Block<'a> {
    /// Parse the head of a chunk's first block, and return the block and the bytes after it; `None` if it is invalid.
    pub(crate) fn open(chunk: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let ((kind, left, bytes), rest) = postcard::take_from_bytes::<(u32, u32, u32)>(chunk).ok()?;
        let (records, rest) = rest.split_at_checked(bytes as usize)?;
        // Any other record has at least one byte: a larger number would cause an endless loop in readers.
        let is_possible = left > 0 && left <= bytes.max(1);
        is_possible.then_some((Self { kind, left, records }, rest))
    }

    /// True if this crate can read records of the block's kind.
    pub(crate) fn is_known(&self) -> bool {
        self.kind < Record::KINDS
    }

    /// Read the next record of the block. `None` after the last one, or if the rest is invalid ([`Self::records`] is
    /// then not empty, or [`Self::left`] not 0).
    pub(crate) fn next(&mut self) -> Option<Record> {
        self.left.checked_sub(1)?;
        let mut deserializer = Deserializer::from_flavor(Fields { kind: Some(self.kind as u8), rest: self.records });
        let record = Record::deserialize(&mut deserializer).ok()?;
        self.records = deserializer.finalize().ok()?;
        self.left -= 1;
        Some(record)
    }
}

/// Postcard input for one record: the number of its kind, which a block stores once, and then the record's fields.
struct Fields<'a> {
    /// The number of the kind, until it was read.
    kind: Option<u8>,
    rest: &'a [u8],
}

impl<'a> Flavor<'a> for Fields<'a> {
    type Remainder = &'a [u8];
    type Source = &'a [u8];

    #[inline]
    fn pop(&mut self) -> postcard::Result<u8> {
        if let Some(kind) = self.kind.take() {
            return Ok(kind);
        }
        let (&byte, rest) = self.rest.split_first().ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        self.rest = rest;
        Ok(byte)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }

    #[inline]
    fn try_take_n(&mut self, bytes: usize) -> postcard::Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        self.rest = rest;
        Ok(taken)
    }

    fn finalize(self) -> postcard::Result<&'a [u8]> {
        Ok(self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::Block;
    use crate::{CompiledProgram, Record};

    /// A new kind of records that `KINDS` does not include would be skipped by its own reader.
    #[test]
    fn all_kinds_are_counted() {
        let last = Record::Compiled(CompiledProgram::default());
        assert_eq!(u32::from(postcard::to_allocvec(&last).unwrap()[0]), Record::KINDS - 1);
        let mut next = [0; 64];
        next[0] = Record::KINDS as u8;
        assert!(postcard::take_from_bytes::<Record>(&next).is_err(), "a kind that `KINDS` does not count");
    }

    #[test]
    fn impossible_record_numbers_are_damage() {
        let block = |numbers: (u32, u32, u32)| postcard::to_allocvec(&numbers).unwrap();
        assert!(Block::open(&block((24, 1, 0))).is_some());
        for numbers in [(24, u32::MAX, 0), (24, 0, 0), (24, 2, 0), (24, 1, 5)] {
            assert!(Block::open(&block(numbers)).is_none(), "{numbers:?}");
        }
    }
}
