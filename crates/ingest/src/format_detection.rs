//! Detection of a file's format from its first bytes.

use crate::input::{MAX_DEPTH, Packing, SNIFF, is_hidden};
use crate::sources::{self, Content, Reader, Source};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

/// Detected format of a file, plain or compressed with gzip or zstd, in agreement with the readers. An archive is a
/// memory input only if all of its known members are.
#[derive(Clone, Copy)]
pub(crate) enum Detected {
    /// A file of a known source.
    Source(&'static Source),
    /// An archive with this number of memory files.
    Memory(&'static Source, usize),
    /// A database, an archive with other or unreadable content, or a file that several sources match.
    Other,
    /// An unknown format.
    Unknown,
}

impl Detected {
    /// Known format of a file, or of the memory files in an archive; `None` for any other detection result.
    pub(crate) fn source(self) -> Option<&'static Source> {
        match self {
            Self::Source(source) | Self::Memory(source, _) => Some(source),
            Self::Other | Self::Unknown => None,
        }
    }
}

/// Detect the known format ([`Source`]) of a file by its content; `None` if there is none.
///
/// # Errors
/// Same as [`detect_format`].
pub(crate) fn source_of(path: &Path) -> io::Result<Option<&'static Source>> {
    detect_format(path).map(Detected::source)
}

/// Detect the format of a file by its content. Pipes are not read, because their first bytes would be lost.
///
/// # Errors
/// If the file cannot be opened, or its compression is damaged at the start.
pub(crate) fn detect_format(path: &Path) -> io::Result<Detected> {
    if !std::fs::metadata(path)?.is_file() {
        return Ok(Detected::Unknown);
    }
    detect_in_stream(Box::new(File::open(path)?), Some(path), 0)
}

/// Detect the format of a stream, decompressed if necessary. `file` is the path of a complete file, `depth` the number
/// of archives around it.
fn detect_in_stream<'s>(mut stream: Box<dyn Read + 's>, mut file: Option<&Path>, depth: usize) -> io::Result<Detected> {
    for _ in 0..=MAX_DEPTH {
        let mut head = Vec::new();
        // A truncated start still identifies the format.
        let _ = stream.by_ref().take(SNIFF as u64).read_to_end(&mut head);
        let packing = Packing::detect(&head);
        if packing == Packing::None {
            return Ok(detect_by_head(&head));
        }
        let whole = Cursor::new(head).chain(stream);
        stream = match packing {
            Packing::Gzip => Box::new(MultiGzDecoder::new(BufReader::new(whole))),
            Packing::Zstd => Box::new(zstd::Decoder::new(whole)?),
            Packing::Tar if depth < MAX_DEPTH => return Ok(detect_in_tar(whole, depth + 1)),
            Packing::Zip => return Ok(file.map_or(Detected::Other, detect_in_zip)),
            Packing::Tar | Packing::None => return Ok(Detected::Other),
        };
        file = None;
    }
    Ok(Detected::Other)
}

/// Detect the format of an uncompressed file by its first bytes.
fn detect_by_head(head: &[u8]) -> Detected {
    if head.starts_with(stackline_sqlite::MAGIC) {
        return Detected::Other;
    }
    match sources::detect(&Content::Bytes { head, stream: &mut io::empty() }) {
        Ok(Some(source)) => Detected::Source(source),
        Ok(None) => Detected::Unknown,
        Err(_) => Detected::Other,
    }
}

/// Detect if all known members of an archive are memory inputs, and count these; `Other` if a member is not.
fn detect_archive(members: impl Iterator<Item = Detected>) -> Detected {
    let mut found = Detected::Unknown;
    let mut count = 0;
    for member in members {
        let (source, more) = match member {
            Detected::Source(source) if matches!(source.read, Reader::Memory(_)) => (source, 1),
            Detected::Memory(source, more) => (source, more),
            Detected::Source(_) | Detected::Other => return Detected::Other,
            Detected::Unknown => continue,
        };
        count += more;
        found = Detected::Memory(source, count);
    }
    found
}

/// Detect the format of a member of an archive. Folders, hidden files and unreadable members are unknown.
fn detect_member(is_file: bool, stream: impl Read, depth: usize) -> Detected {
    if is_file {
        detect_in_stream(Box::new(stream), None, depth).unwrap_or(Detected::Unknown)
    } else {
        Detected::Unknown
    }
}

/// Detect the format of a tar archive by its members.
fn detect_in_tar(stream: impl Read, depth: usize) -> Detected {
    let mut archive = tar::Archive::new(stream);
    let Ok(entries) = archive.entries() else { return Detected::Unknown };
    detect_archive(entries.map_while(Result::ok).map(|entry| {
        let name = entry.path().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        let is_file = entry.header().entry_type().is_file() && !is_hidden(&name);
        detect_member(is_file, entry, depth)
    }))
}

/// Detect the format of a zip archive by its members. Its directory is at its end, so it is read from a file, not from
/// a stream.
fn detect_in_zip(path: &Path) -> Detected {
    let Some(mut archive) = File::open(path).ok().and_then(|file| zip::ZipArchive::new(BufReader::new(file)).ok())
    else {
        return Detected::Other;
    };
    detect_archive((0..archive.len()).map(|index| {
        let Ok(entry) = archive.by_index(index) else { return Detected::Unknown };
        let is_file = entry.is_file() && !is_hidden(entry.name());
        detect_member(is_file, entry, 1)
    }))
}
