//! What a file is by its first bytes.

use crate::input::{MAX_DEPTH, Packing, SNIFF, is_hidden};
use crate::sources::{self, Content, Reader, Source};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

/// What a file is, plain or packed with gzip or zstd, as reading it finds it. An archive is of memory if its members are, and nothing else.
#[derive(Clone, Copy)]
pub(crate) enum Known {
    /// Of a source.
    Source(&'static Source),
    /// So many files of memory in one archive.
    Memory(&'static Source, usize),
    /// A database, an archive that holds anything else or cannot be looked into, or what several sources fit.
    Other,
    /// Of no known kind.
    Unknown,
}

impl Known {
    /// The source, of an archive that of its members.
    pub(crate) fn source(self) -> Option<&'static Source> {
        match self {
            Self::Source(source) | Self::Memory(source, _) => Some(source),
            Self::Other | Self::Unknown => None,
        }
    }
}

/// The source of a file; none of what has no source by [`known`].
///
/// # Errors
/// As [`known`].
pub(crate) fn source_of(path: &Path) -> io::Result<Option<&'static Source>> {
    known(path).map(Known::source)
}

/// What a file is. Pipes are not looked into: their first bytes would be gone.
///
/// # Errors
/// If the file cannot be opened, or its packing is damaged at its begin.
pub(crate) fn known(path: &Path) -> io::Result<Known> {
    if !std::fs::metadata(path)?.is_file() {
        return Ok(Known::Unknown);
    }
    known_in(Box::new(File::open(path)?), Some(path), 0)
}

/// What a stream is, which is all of a file if a path is given, within so many archives.
fn known_in<'s>(mut stream: Box<dyn Read + 's>, mut file: Option<&Path>, depth: usize) -> io::Result<Known> {
    for _ in 0..=MAX_DEPTH {
        let mut head = Vec::new();
        // Where it breaks off, the begin tells as well.
        let _ = stream.by_ref().take(SNIFF as u64).read_to_end(&mut head);
        let packing = Packing::detect(&head);
        if packing == Packing::None {
            return Ok(known_by(&head));
        }
        let whole = Cursor::new(head).chain(stream);
        stream = match packing {
            Packing::Gzip => Box::new(MultiGzDecoder::new(BufReader::new(whole))),
            Packing::Zstd => Box::new(zstd::Decoder::new(whole)?),
            Packing::Tar if depth < MAX_DEPTH => return Ok(known_in_tar(whole, depth + 1)),
            Packing::Zip => return Ok(file.map_or(Known::Other, known_in_zip)),
            Packing::Tar | Packing::None => return Ok(Known::Other),
        };
        file = None;
    }
    Ok(Known::Other)
}

/// What an unpacked file is by its first bytes.
fn known_by(head: &[u8]) -> Known {
    if head.starts_with(stackline_sqlite::MAGIC) {
        return Known::Other;
    }
    match sources::detect(&Content::Bytes { head, stream: &mut io::empty() }) {
        Ok(Some(source)) => Known::Source(source),
        Ok(None) => Known::Unknown,
        Err(_) => Known::Other,
    }
}

/// What an archive is by its members: anything but memory is found at the first of them that is.
fn known_by_members(members: impl Iterator<Item = Known>) -> Known {
    let mut found = Known::Unknown;
    let mut count = 0;
    for member in members {
        let (source, more) = match member {
            Known::Source(source) if matches!(source.read, Reader::Memory(_)) => (source, 1),
            Known::Memory(source, more) => (source, more),
            Known::Source(_) | Known::Other => return Known::Other,
            Known::Unknown => continue,
        };
        count += more;
        found = Known::Memory(source, count);
    }
    found
}

/// What a member of an archive is. Folders and hidden files are nothing, and what cannot be read of it is not known.
fn known_member(is_file: bool, stream: impl Read, depth: usize) -> Known {
    if is_file { known_in(Box::new(stream), None, depth).unwrap_or(Known::Unknown) } else { Known::Unknown }
}

fn known_in_tar(stream: impl Read, depth: usize) -> Known {
    let mut archive = tar::Archive::new(stream);
    let Ok(entries) = archive.entries() else { return Known::Unknown };
    known_by_members(entries.map_while(Result::ok).map(|entry| {
        let name = entry.path().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        let is_file = entry.header().entry_type().is_file() && !is_hidden(&name);
        known_member(is_file, entry, depth)
    }))
}

/// The directory of a zip stands at its end: only one that is a file is looked into.
fn known_in_zip(path: &Path) -> Known {
    let Some(mut archive) = File::open(path).ok().and_then(|file| zip::ZipArchive::new(BufReader::new(file)).ok())
    else {
        return Known::Other;
    };
    known_by_members((0..archive.len()).map(|index| {
        let Ok(entry) = archive.by_index(index) else { return Known::Unknown };
        let is_file = entry.is_file() && !is_hidden(entry.name());
        known_member(is_file, entry, 1)
    }))
}
