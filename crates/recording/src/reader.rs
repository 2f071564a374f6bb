//! Reader of a stream: whole chunks, and resynchronization behind damaged ones.

use crate::block::Block;
use crate::chunk::{OLDEST, PREFIX};
use crate::v1_calls::V1Calls;
use crate::{HEADER, NotARecording, Record};
use std::collections::BTreeMap;
use std::io::Read;

/// Bytes of a stream that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// First byte that was not read.
    pub at: usize,
    /// Bytes that were skipped, up to the next whole chunk or the end of the file.
    pub bytes: usize,
}

/// Ranges of damage that are kept one by one; all of them are counted.
const MAX_DAMAGES: usize = 1000;

/// Bytes of records that the search for the next whole chunk expects at most. The recorder ends a chunk at 256 KiB.
const MAX_CHUNK: usize = 4 << 20;

/// Places that the search checks at most. Only a file made for it has more that look like a chunk.
const MAX_CHECKED: usize = 1 << 22;

/// Reads the records of a stream. A damaged chunk is skipped: reading goes on at the next chunk whose checksum holds.
#[derive(Debug)]
pub struct Reader<'a> {
    file: &'a [u8],
    /// Version of the format.
    version: u8,
    /// Unread rest of the current chunk, behind the current block.
    chunk: &'a [u8],
    block: Block<'a>,
    v1_calls: V1Calls,
    unknown: BTreeMap<u32, u64>,
    next_chunk: usize,
    damages: Vec<Damage>,
    skipped: usize,
    /// Places that the search for whole chunks may still check.
    budget: usize,
}

impl<'a> Reader<'a> {
    /// Opens a stream held in memory.
    ///
    /// # Errors
    /// [`NotARecording`] if the header is missing or of another version.
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

    /// How many records of kinds that this reader does not know were skipped so far, by the number of their kind: a newer
    /// recorder wrote them.
    pub fn unknown(&self) -> impl Iterator<Item = (u32, u64)> {
        self.unknown.iter().map(|(&kind, &count)| (kind, count))
    }

    /// Whether a stream holds records that are written one by one in `trace` mode (calls, samples, touches of memory), by the heads
    /// of its blocks, up to the first of them. `None` if that cannot be told so: the stream is of format 1, damaged, of a newer recorder, or says
    /// that something was not written.
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
            // Empty chunks are never written: eight zeros are damage.
            if length == 0 || length > MAX_CHUNK {
                return None;
            }
            chunk.resize(length, 0);
            stream.read_exact(&mut chunk).ok()?;
            let crc = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]);
            let mut rest = Some(&chunk[..]).filter(|chunk| crc32fast::hash(chunk) == crc)?;
            while !rest.is_empty() {
                let (block, behind) = Block::open(rest)?;
                if Record::SINGLE.contains(&block.kind) {
                    return Some(true);
                }
                if Record::MISSING.contains(&block.kind) || !block.is_known() {
                    return None;
                }
                rest = behind;
            }
        }
    }

    /// The first range of bytes that could not be read; complete after [`Iterator::next`] returned `None`.
    #[must_use]
    pub fn damage(&self) -> Option<Damage> {
        self.damages.first().copied()
    }

    /// All ranges of bytes that could not be read so far (the first 1000), in the order of the file.
    #[must_use]
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    /// Bytes skipped so far. A record that [`Iterator::next`] returns after this number grew may refer to records that
    /// were lost.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// The records of the chunk that begins at a byte, if it is whole.
    fn chunk_at(&self, at: usize) -> Option<&'a [u8]> {
        let (length, crc, records) = self.prefix(at)?;
        // Empty chunks are never written: eight zeros are damage.
        let records = records.get(..length).filter(|_| length > 0)?;
        (crc32fast::hash(records) == crc).then_some(records)
    }

    /// Length and checksum that a chunk at this byte would have, and all bytes behind them.
    fn prefix(&self, at: usize) -> Option<(usize, u32, &'a [u8])> {
        let rest = self.file.get(at..)?;
        let prefix = rest.first_chunk::<PREFIX>()?;
        let length = u32::from_le_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]) as usize;
        let crc = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]);
        Some((length, crc, rest.get(PREFIX..)?))
    }

    /// Moves to the next chunk whose checksum holds.
    fn open_chunk(&mut self) -> Option<()> {
        let at = self.next_chunk;
        if at >= self.file.len() {
            return None;
        }
        self.v1_calls.forget();
        if let Some(records) = self.chunk_at(at) {
            self.next_chunk = at + PREFIX + records.len();
            self.chunk = records;
            return Some(());
        }
        let next = self.find_chunk(at + 1).unwrap_or(self.file.len());
        self.note(at, next - at);
        self.next_chunk = next;
        Some(())
    }

    /// Begin of the next whole chunk from a byte on: a length that fits, a checksum that holds, and a block or record in it.
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
            if checksums.is(begin, length, crc) && self.begins(records) {
                return Some(at);
            }
        }
        None
    }

    /// Whether these bytes begin as a chunk does.
    fn begins(&self, records: &[u8]) -> bool {
        match self.version {
            1 => postcard::take_from_bytes::<Record>(records).is_ok(),
            _ => Block::open(records).is_some(),
        }
    }

    /// The next record of the current chunk, as it stands there; `None` at its end.
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
                Err(_) => self.give_up(),
            };
        }
        loop {
            if let Some(record) = self.block.next() {
                return Some(record);
            }
            // Where a record makes no sense, or more bytes than records were announced, the blocks behind are still sound.
            if self.block.left > 0 || !self.block.records.is_empty() {
                // Where records are announced that have no bytes, the one before them stands for the damage.
                let bytes = std::mem::take(&mut self.block).records.len().max(1);
                self.note(self.next_chunk - self.chunk.len() - bytes, bytes);
            }
            if self.chunk.is_empty() {
                return None;
            }
            let Some((block, rest)) = Block::open(self.chunk) else { return self.give_up() };
            self.chunk = rest;
            if block.is_known() {
                self.block = block;
            } else {
                *self.unknown.entry(block.kind).or_default() += u64::from(block.left);
            }
        }
    }

    /// Leaves out the rest of the current chunk, which makes no sense although its checksum holds.
    fn give_up(&mut self) -> Option<Record> {
        let bytes = std::mem::take(&mut self.chunk).len();
        self.note(self.next_chunk - bytes, bytes);
        None
    }

    fn note(&mut self, at: usize, bytes: usize) {
        self.skipped += bytes;
        if self.damages.len() < MAX_DAMAGES {
            self.damages.push(Damage { at, bytes });
        }
    }
}

/// Checksums of any range of bytes, from those of all prefixes: places that look like a chunk overlap, and many are long.
struct Checksums<'a> {
    bytes: &'a [u8],
    /// Of the first n bytes, as far as they were asked for.
    prefixes: Vec<u32>,
    hasher: crc32fast::Hasher,
}

impl<'a> Checksums<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, prefixes: vec![0], hasher: crc32fast::Hasher::new() }
    }

    /// The checksum of the first bytes.
    fn prefix(&mut self, length: usize) -> Option<u32> {
        for byte in self.bytes.get(self.prefixes.len() - 1..length).unwrap_or_default() {
            self.hasher.update(std::slice::from_ref(byte));
            self.prefixes.push(self.hasher.clone().finalize());
        }
        self.prefixes.get(length).copied()
    }

    /// Whether a range has this checksum: then that of the bytes before it goes on to that of both.
    fn is(&mut self, begin: usize, length: usize, crc: u32) -> bool {
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
                    if let Some(record) = self.v1_calls.complete(record) {
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
