//! Framing of chunks: length, checksum, blocks of records.

use crate::Record;
use crate::block::BlockWriter;

/// First bytes of a stream: magic, and the oldest version of the format that is compatible with the file.
pub const HEADER: [u8; 8] = *b"SLREC\0\0\x02";

/// Oldest readable version of the stream format.
pub(crate) const OLDEST: u8 = 1;

/// Size of length and checksum in bytes.
pub(crate) const PREFIX: usize = 8;

/// Writer of a chunk: collects records that are appended to the stream with one `write`.
#[derive(Debug)]
pub struct ChunkWriter {
    /// Space for the prefix, then closed blocks.
    bytes: Vec<u8>,
    open: BlockWriter,
}

impl Default for ChunkWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl ChunkWriter {
    /// Create a writer of one chunk of the recorder stream, without records.
    #[must_use]
    pub fn new() -> Self {
        Self { bytes: vec![0; PREFIX], open: BlockWriter::default() }
    }

    /// Append one record to the chunk.
    ///
    /// # Errors
    /// If the record cannot be encoded, which is impossible for records of this crate; nothing is appended then.
    pub fn push(&mut self, record: &Record) -> Result<(), postcard::Error> {
        self.open.push(record, &mut self.bytes)
    }

    /// Size of the chunk so far in bytes, prefix included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.open.len()
    }

    /// True if no record was pushed to the chunk.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() <= PREFIX
    }

    /// Close the chunk and return its bytes for the file: length, checksum and blocks. Call [`Self::clear`] before the
    /// next chunk.
    pub fn finish(&mut self) -> &[u8] {
        self.open.close(&mut self.bytes);
        let length = u32::try_from(self.bytes.len() - PREFIX).unwrap_or(u32::MAX);
        let crc = crc32fast::hash(&self.bytes[PREFIX..]);
        self.bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.bytes[4..PREFIX].copy_from_slice(&crc.to_le_bytes());
        &self.bytes
    }

    /// Drop the records of the chunk and keep the allocated memory.
    pub fn clear(&mut self) {
        self.bytes.truncate(PREFIX);
        self.open.clear();
    }
}

/// Error for a file that is not a recorder's stream, or has a newer version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotARecording {
    /// The file begins with other bytes.
    #[error("the file is not a Stackline recording: it does not begin with SLREC")]
    Magic,
    /// The file has another version of the format.
    #[error(
        "the recording has format version {found}, but this program reads only versions 1 to {known}; open it with the \
         stackline version that recorded it"
    )]
    Version {
        /// Version of the file.
        found: u8,
        /// Newest version that this crate reads.
        known: u8,
    },
}

#[cfg(test)]
mod tests {
    use super::{ChunkWriter, HEADER, NotARecording};
    use crate::{Reader, Record};
    use proptest::prelude::*;

    fn text(id: u32) -> Record {
        Record::Text { id, text: format!("name {id}") }
    }

    fn file(chunks: &[Vec<Record>]) -> Vec<u8> {
        let mut bytes = HEADER.to_vec();
        let mut writer = ChunkWriter::new();
        for records in chunks {
            for record in records {
                writer.push(record).unwrap();
            }
            bytes.extend_from_slice(writer.finish());
            writer.clear();
        }
        bytes
    }

    #[test]
    fn other_files_are_refused() {
        assert_eq!(Reader::new(b"{\"traceEvents\"").unwrap_err(), NotARecording::Magic);
        assert_eq!(Reader::new(b"").unwrap_err(), NotARecording::Magic);
        let newer = Reader::new(b"SLREC\0\0\x09").unwrap_err();
        assert_eq!(newer, NotARecording::Version { found: 9, known: 2 });
    }

    proptest! {
        #[test]
        fn truncated_streams_keep_chunks(sizes in proptest::collection::vec(1_usize..5, 1..6), cut in 0_usize..200) {
            let chunks: Vec<Vec<Record>> = sizes.iter().map(|&size| (0..size as u32).map(text).collect()).collect();
            let whole = file(&chunks);
            let cut = whole.len().saturating_sub(cut).max(HEADER.len());
            let mut kept = Vec::new();
            for count in 0..=chunks.len() {
                if file(&chunks[..count]).len() <= cut {
                    kept = chunks[..count].concat();
                }
            }
            let mut reader = Reader::new(&whole[..cut]).unwrap();
            let read: Vec<Record> = reader.by_ref().collect();
            prop_assert_eq!(read, kept.clone());
            let clean = file(&chunks).len() == cut || (0..chunks.len()).any(|count| file(&chunks[..count]).len() == cut);
            prop_assert_eq!(reader.damage().is_none(), clean);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let file = [HEADER.as_slice(), &bytes].concat();
            Reader::new(&file).unwrap().for_each(drop);
        }
    }
}
