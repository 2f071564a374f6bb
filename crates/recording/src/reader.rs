//! Reader of a stream: intact chunks, and resynchronization after damaged ones.

use crate::block::Block;
use crate::chunk::{OLDEST, PREFIX};
use crate::v1_calls::V1Calls;
use crate::{HEADER, NotARecording, Record};
use std::collections::{BTreeMap, VecDeque};
use std::io::Read;

/// Bytes of a stream that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// First byte that was not read.
    pub at: usize,
    /// Number of skipped bytes, up to the next intact chunk or the end of the file.
    pub bytes: usize,
}

/// Largest number of stored ranges of damage; all of them are counted.
const MAX_DAMAGES: usize = 1000;

/// Largest chunk that the search for the next intact chunk expects, in bytes of records. The recorder ends a chunk at
/// 256 KiB.
const MAX_CHUNK: usize = 4 << 20;

/// Largest number of positions that the search checks. Only a crafted file has more that look like a chunk.
const MAX_CHECKED: usize = 1 << 22;

/// Reader of the records of a stream. A damaged chunk is skipped, and reading continues at the next chunk with a
/// valid checksum.
#[derive(Debug)]
pub struct Reader<'a> {
    file: &'a [u8],
    /// Version of the format.
    version: u8,
    /// Unread rest of the current chunk, after the current block.
    chunk: &'a [u8],
    block: Block<'a>,
    v1_calls: V1Calls,
    unknown: BTreeMap<u32, u64>,
    next_chunk: usize,
    damages: Vec<Damage>,
    skipped: usize,
    /// Remaining number of positions that the search for intact chunks may check.
    budget: usize,
}

impl<'a> Reader<'a> {
    /// Open a recorder stream whose bytes are in memory.
    ///
    /// # Errors
    /// [`NotARecording`] if the header is missing or has another version.
    pub fn new(file: &'a [u8]) -> Result<Self, NotARecording> {
        let magic = HEADER.len() - 1;
        if file.get(..magic) != Some(&HEADER[..magic]) {
            return Err(NotARecording::Magic);
        }
        let (version, known) = (file.get(magic).copied().unwrap_or(0), HEADER[magic]);
        if !(OLDEST..=known).contains(&version) {
            return Err(NotARecording::Version { found: version, known });
        }
        Ok(Self {
            file,
            version,
            chunk: &[],
            block: Block::default(),
            v1_calls: V1Calls::default(),
            unknown: BTreeMap::new(),
            next_chunk: HEADER.len(),
            damages: Vec::new(),
            skipped: 0,
            budget: MAX_CHECKED,
        })
    }

    /// Skipped records of unknown kinds so far, as pairs of the kind and the number of records. A newer recorder wrote
    /// them.
    pub fn unknown(&self) -> impl Iterator<Item = (u32, u64)> {
        self.unknown.iter().map(|(&kind, &count)| (kind, count))
    }

    /// True if a stream contains single records of `trace` mode: calls, samples, memory events, launches or operations
    /// of devices. Only the heads of blocks are read, up to the first such record. `None` if this is undecidable: the
    /// stream has format 1, is damaged, comes from a newer recorder, or reports missing records.
    pub fn has_single_records(stream: &mut impl Read) -> Option<bool> {
        let mut header = [0; HEADER.len()];
        stream.read_exact(&mut header).ok().filter(|()| header == HEADER)?;
        let (mut prefix, mut chunk) = ([0; PREFIX], Vec::new());
        loop {
            match stream.read(&mut prefix[..1]).ok()? {
                0 => return Some(false),
                _ => stream.read_exact(&mut prefix[1..]).ok()?,
            }
            let length = u32::from_le_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]) as usize;
            // Empty chunks are never written: eight zero bytes are damage.
            if length == 0 || length > MAX_CHUNK {
                return None;
            }
            chunk.resize(length, 0);
            stream.read_exact(&mut chunk).ok()?;
            let crc = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]);
            let mut rest = Some(&chunk[..]).filter(|chunk| crc32fast::hash(chunk) == crc)?;
            while !rest.is_empty() {
                let (block, after) = Block::open(rest)?;
                if Record::SINGLE.contains(&block.kind) {
                    return Some(true);
                }
                if Record::MISSING.contains(&block.kind) || !block.is_known() {
                    return None;
                }
                rest = after;
            }
        }
    }

    /// First range of unreadable bytes; final after [`Iterator::next`] returned `None`.
    #[must_use]
    pub fn damage(&self) -> Option<Damage> {
        self.damages.first().copied()
    }

    /// All ranges of unreadable bytes so far (the first 1000), in the order of the file.
    #[must_use]
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    /// Number of skipped bytes so far. A record that [`Iterator::next`] returns after this number grew may refer to
    /// lost records.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Bytes of the records in the chunk at offset `at` of the file; `None` if the chunk is incomplete, empty or has a
    /// wrong checksum.
    fn chunk_at(&self, at: usize) -> Option<&'a [u8]> {
        let (length, crc, records) = self.prefix(at)?;
        // Empty chunks are never written: eight zero bytes are damage.
        let records = records.get(..length).filter(|_| length > 0)?;
        (crc32fast::hash(records) == crc).then_some(records)
    }

    /// Length and checksum of a chunk as stored at offset `at` of the file, unchecked, and all later bytes of the file.
    fn prefix(&self, at: usize) -> Option<(usize, u32, &'a [u8])> {
        let rest = self.file.get(at..)?;
        let prefix = rest.first_chunk::<PREFIX>()?;
        let length = u32::from_le_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]) as usize;
        let crc = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]);
        Some((length, crc, rest.get(PREFIX..)?))
    }

    /// Move to the next chunk, or note it as damage and skip to the next intact one; `None` at the end of the file.
    fn open_chunk(&mut self) -> Option<()> {
        let at = self.next_chunk;
        if at >= self.file.len() {
            return None;
        }
        self.v1_calls.drop_details();
        if let Some(records) = self.chunk_at(at) {
            self.next_chunk = at + PREFIX + records.len();
            self.chunk = records;
            return Some(());
        }
        let next = self.find_chunk(at + 1).unwrap_or(self.file.len());
        self.note_damage(at, next - at);
        self.next_chunk = next;
        Some(())
    }

    /// Offset of the first intact chunk at or after `from`: valid length, checksum and first block or record. `None` if
    /// there is none, or the budget of checked positions is exhausted.
    fn find_chunk(&mut self, from: usize) -> Option<usize> {
        let mut checksums = Checksums::new(self.file.get(from..)?);
        for at in from..self.file.len() {
            let (length, crc, rest) = self.prefix(at)?;
            if length == 0 || length > MAX_CHUNK {
                continue;
            }
            let Some(records) = rest.get(..length) else { continue };
            self.budget = self.budget.checked_sub(1)?;
            let begin = at + PREFIX - from;
            if checksums.has_checksum(begin, length, crc) && self.begins_like_chunk(records) {
                return Some(at);
            }
        }
        None
    }

    /// True if these bytes begin with a valid block, or in format 1 with a valid record.
    fn begins_like_chunk(&self, records: &[u8]) -> bool {
        match self.version {
            1 => postcard::take_from_bytes::<Record>(records).is_ok(),
            _ => Block::open(records).is_some(),
        }
    }

    /// Read the next record of the current chunk; `None` at its end. Skip invalid and unknown blocks, and count them.
    fn next_in_chunk(&mut self) -> Option<Record> {
        if self.version == 1 {
            if self.chunk.is_empty() {
                return None;
            }
            return match postcard::take_from_bytes(self.chunk) {
                Ok((record, rest)) => {
                    self.chunk = rest;
                    Some(record)
                }
                Err(_) => self.skip_invalid_chunk(),
            };
        }
        loop {
            if let Some(record) = self.block.next() {
                return Some(record);
            }
            // If a record is invalid, or the block has more bytes than records, the following blocks are still
            // intact.
            if self.block.left > 0 || !self.block.records.is_empty() {
                // If records without bytes were announced, the preceding byte counts as damaged.
                let bytes = std::mem::take(&mut self.block).records.len().max(1);
                self.note_damage(self.next_chunk - self.chunk.len() - bytes, bytes);
            }
            if self.chunk.is_empty() {
                return None;
            }
            let Some((block, rest)) = Block::open(self.chunk) else { return self.skip_invalid_chunk() };
            self.chunk = rest;
            if block.is_known() {
                self.block = block;
            } else {
                *self.unknown.entry(block.kind).or_default() += u64::from(block.left);
            }
        }
    }

    /// Skip the rest of the current chunk as damaged, because it is invalid although its checksum is right; returns
    /// `None`.
    fn skip_invalid_chunk(&mut self) -> Option<Record> {
        let bytes = std::mem::take(&mut self.chunk).len();
        self.note_damage(self.next_chunk - bytes, bytes);
        None
    }

    /// Add a range of damage to the skipped bytes, and store it unless [`MAX_DAMAGES`] are stored.
    fn note_damage(&mut self, at: usize, bytes: usize) {
        self.skipped += bytes;
        if self.damages.len() < MAX_DAMAGES {
            self.damages.push(Damage { at, bytes });
        }
    }
}

/// Checksums of ranges, computed from those of prefixes: positions that look like a chunk overlap, and many are long.
/// Ranges are requested in the order of their begins, so only checksums from the last begin on are stored: no more than
/// the longest range has bytes.
struct Checksums<'a> {
    bytes: &'a [u8],
    /// Length of the first stored prefix.
    first: usize,
    /// Checksums of the first `first`, `first + 1`, … bytes, as far as they were requested; never empty.
    prefixes: VecDeque<u32>,
    hasher: crc32fast::Hasher,
}

impl<'a> Checksums<'a> {
    /// Checksums of ranges of `bytes`, none of which is computed yet.
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, first: 0, prefixes: VecDeque::from([0]), hasher: crc32fast::Hasher::new() }
    }

    /// Length of the last stored prefix.
    fn last(&self) -> usize {
        self.first + self.prefixes.len() - 1
    }

    /// Drop the checksums of prefixes shorter than `length`, which are not requested again.
    fn skip_to(&mut self, length: usize) {
        let last = self.last();
        if length <= last {
            self.prefixes.drain(..length.saturating_sub(self.first));
            self.first = self.first.max(length);
        } else if let Some(skipped) = self.bytes.get(last..length) {
            self.hasher.update(skipped);
            self.prefixes.clear();
            self.prefixes.push_back(self.hasher.clone().finalize());
            self.first = length;
        }
    }

    /// CRC-32 of the first `length` bytes, computed once and stored; `None` beyond the end.
    fn prefix(&mut self, length: usize) -> Option<u32> {
        for byte in self.bytes.get(self.last()..length).unwrap_or_default() {
            self.hasher.update(std::slice::from_ref(byte));
            self.prefixes.push_back(self.hasher.clone().finalize());
        }
        self.prefixes.get(length.checked_sub(self.first)?).copied()
    }

    /// True if the `length` bytes from `begin` on have this CRC-32, derived from those of two prefixes. `begin` is not
    /// less than in earlier calls.
    fn has_checksum(&mut self, begin: usize, length: usize, crc: u32) -> bool {
        self.skip_to(begin);
        let (Some(before), Some(both)) = (self.prefix(begin), self.prefix(begin + length)) else { return false };
        let mut combined = crc32fast::Hasher::new_with_initial_len(before, begin as u64);
        combined.combine(&crc32fast::Hasher::new_with_initial_len(crc, length as u64));
        combined.finalize() == both
    }
}

impl Iterator for Reader<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        loop {
            match self.next_in_chunk() {
                Some(record) if self.version > 1 => return Some(record),
                Some(record) => {
                    if let Some(record) = self.v1_calls.convert(record) {
                        return Some(record);
                    }
                }
                None => self.open_chunk()?,
            }
        }
    }
}

#[cfg(test)]
mod tests;
