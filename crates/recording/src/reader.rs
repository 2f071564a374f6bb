//! Reader of a stream: whole chunks, and resynchronization behind damaged ones.

use crate::chunk::PREFIX;
use crate::{HEADER, NotARecording, Record};

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
    /// Unread rest of the current chunk.
    chunk: &'a [u8],
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
        match file.get(magic) {
            Some(&version) if version == HEADER[magic] => {}
            found => {
                return Err(NotARecording::Version { found: found.copied().unwrap_or(0), known: HEADER[magic] });
            }
        }
        let (damages, budget) = (Vec::new(), MAX_CHECKED);
        Ok(Self { file, chunk: &[], next_chunk: HEADER.len(), damages, skipped: 0, budget })
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

    /// Begin of the next whole chunk from a byte on: a length that fits, a checksum that holds, and a record in it.
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
            if checksums.is(begin, length, crc) && postcard::take_from_bytes::<Record>(records).is_ok() {
                return Some(at);
            }
        }
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
            while self.chunk.is_empty() {
                self.open_chunk()?;
            }
            match postcard::take_from_bytes(self.chunk) {
                Ok((record, rest)) => {
                    self.chunk = rest;
                    return Some(record);
                }
                // The checksum holds: a newer recorder wrote it. Chunks are independent in their framing.
                Err(_) => {
                    let bytes = self.chunk.len();
                    self.note(self.next_chunk - bytes, bytes);
                    self.chunk = &[];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Damage, Reader};
    use crate::{ChunkWriter, HEADER, Record};
    use proptest::prelude::*;

    fn text(id: u32) -> Record {
        Record::Text { id, text: format!("name {id}") }
    }

    /// A chunk with records of these ids.
    fn chunk(ids: impl IntoIterator<Item = u32>) -> Vec<u8> {
        let mut writer = ChunkWriter::new();
        for id in ids {
            writer.push(&text(id)).unwrap();
        }
        writer.finish().to_vec()
    }

    fn read(file: &[u8]) -> (Vec<Record>, Vec<Damage>) {
        let mut reader = Reader::new(file).unwrap();
        let records = reader.by_ref().collect();
        assert_eq!(reader.skipped(), reader.damages().iter().map(|damage| damage.bytes).sum::<usize>());
        (records, reader.damages().to_vec())
    }

    #[test]
    fn a_torn_chunk_in_the_middle_hides_nothing_behind_it() {
        let (first, torn, last) = (chunk(0..3), chunk(3..200), chunk(200..203));
        for kept in [1, 4, 8, 9, 500, torn.len() - 1] {
            let file = [HEADER.as_slice(), &first, &torn[..kept], &last].concat();
            let (records, damages) = read(&file);
            let expected: Vec<Record> = (0..3).chain(200..203).map(text).collect();
            assert_eq!(records, expected, "{kept} bytes of the torn chunk");
            assert_eq!(damages, [Damage { at: HEADER.len() + first.len(), bytes: kept }]);
        }
    }

    #[test]
    fn holes_of_zeros_are_skipped_in_no_time() {
        let hole = vec![0_u8; 32 << 20];
        let file = [HEADER.as_slice(), &chunk(0..3), &hole, &chunk(3..5)].concat();
        let (records, damages) = read(&file);
        assert_eq!((records.len(), damages.len()), (5, 1));
    }

    /// Each of these bytes looks like the begin of a long chunk: the search gives up before it takes for ever.
    #[test]
    fn a_hostile_file_is_given_up() {
        let file: Vec<u8> =
            HEADER.iter().copied().chain([0xff, 0xff, 0x3f, 0x00].into_iter().cycle().take(16 << 20)).collect();
        let since = std::time::Instant::now();
        let (records, damages) = read(&file);
        assert_eq!((records.len(), damages.len()), (0, 1));
        assert!(since.elapsed().as_secs() < 60, "{:?}", since.elapsed());
    }

    /// Bytes that mostly look like lengths do not hide the next chunk.
    #[test]
    fn long_records_of_small_numbers_are_searched() {
        let mut writer = ChunkWriter::new();
        while writer.len() < 1 << 18 {
            let id = writer.len() as u32;
            writer.push(&Record::Node { thread: 0, id, parent: 0, frame: id % 3 }).unwrap();
        }
        let mut damaged = writer.finish().to_vec();
        damaged[1 << 17] ^= 1;
        let files = [HEADER.as_slice(), &damaged, &damaged, &chunk(0..3), &damaged, &chunk(3..5)];
        let since = std::time::Instant::now();
        let (records, damages) = read(&files.concat());
        assert_eq!((records.len(), damages.len()), (5, 2));
        assert!(since.elapsed().as_secs() < 20, "{:?}", since.elapsed());
    }

    proptest! {
        /// Cuts, flips and insertions: no record is returned that was not written, in another order or twice, and chunks that no
        /// damage touched are all there.
        #[test]
        fn only_what_was_written_is_read(
            sizes in proptest::collection::vec(1_u32..40, 1..8),
            damages in proptest::collection::vec((any::<prop::sample::Index>(), 0_usize..64, any::<u8>(), 0_u8..3), 0..6),
        ) {
            let mut file = HEADER.to_vec();
            let (mut chunks, mut id) = (Vec::new(), 0);
            for size in sizes {
                let bytes = chunk(id..id + size);
                chunks.push((bytes.clone(), id..id + size));
                file.extend(bytes);
                id += size;
            }
            for (at, length, byte, kind) in damages {
                let at = HEADER.len() + at.index(file.len() - HEADER.len() + 1);
                let end = (at + length).min(file.len());
                match kind {
                    0 => drop(file.drain(at..end)),
                    1 => file[at..end].iter_mut().for_each(|old| *old ^= byte),
                    _ => drop(file.splice(at..at, std::iter::repeat_n(byte, length))),
                }
            }
            let (records, _) = read(&file);
            let ids: Vec<u32> = records.iter().filter_map(|record| match record {
                Record::Text { id, text } if *text == format!("name {id}") => Some(*id),
                _ => None,
            }).collect();
            prop_assert_eq!(ids.len(), records.len(), "a record that nobody wrote");
            prop_assert!(ids.is_sorted_by(|a, b| a < b) && ids.iter().all(|&read| read < id), "{:?}", ids);
            for (bytes, range) in chunks {
                if file.windows(bytes.len()).any(|window| window == bytes) {
                    prop_assert!(range.clone().all(|id| ids.binary_search(&id).is_ok()), "{range:?} of {ids:?}");
                }
            }
        }
    }
}
