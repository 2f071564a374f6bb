//! What a file is by its first bytes.

use crate::input::{MAX_DEPTH, Packing, SNIFF, is_hidden};
use crate::sources::{self, Content, Reader, Source};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

/// The source of a file, plain or packed with gzip or zstd, as reading it finds it. Of an archive that of its members, if these are of
/// memory and nothing else. `None` of other archives and of databases, of what no source or several fit, and of pipes, whose first bytes
/// would be gone.
///
/// # Errors
/// If the file cannot be opened, or its packing is damaged at its begin.
pub(crate) fn source_of(path: &Path) -> io::Result<Option<&'static Source>> {
    if !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    source_in(Box::new(File::open(path)?), Some(path), 0)
}

/// The source of a stream, which is all of a file if a path is given, within so many archives.
fn source_in<'s>(
    mut stream: Box<dyn Read + 's>,
    mut file: Option<&Path>,
    depth: usize,
) -> io::Result<Option<&'static Source>> {
    for _ in 0..=MAX_DEPTH {
        let mut head = Vec::new();
        // Where it breaks off, the begin tells as well.
        let _ = stream.by_ref().take(SNIFF as u64).read_to_end(&mut head);
        let packing = Packing::of(&head);
        if packing == Packing::None {
            return Ok(sources::of(&Content::Bytes { head: &head, stream: &mut io::empty() }).unwrap_or(None));
        }
        let whole = Cursor::new(head).chain(stream);
        stream = match packing {
            Packing::Gzip => Box::new(MultiGzDecoder::new(BufReader::new(whole))),
            Packing::Zstd => Box::new(zstd::Decoder::new(whole)?),
            Packing::Tar if depth < MAX_DEPTH => return Ok(source_of_tar(whole, depth + 1)),
            Packing::Zip => return Ok(file.and_then(source_of_zip)),
            Packing::Tar | Packing::None => return Ok(None),
        };
        file = None;
    }
    Ok(None)
}

/// A member of an archive.
enum Member {
    Memory(&'static Source),
    /// A trace, a profile or a database.
    Other,
    /// Of no known kind, or a folder.
    Unknown,
}

impl Member {
    fn of(is_file: bool, mut stream: impl Read, depth: usize) -> Self {
        let mut head = Vec::new();
        let _ = stream.by_ref().take(stackline_sqlite::MAGIC.len() as u64).read_to_end(&mut head);
        if head == stackline_sqlite::MAGIC {
            return Self::Other;
        }
        match source_in(Box::new(Cursor::new(head).chain(stream)), None, depth) {
            Ok(Some(source)) if is_file && matches!(source.read, Reader::Memory(_)) => Self::Memory(source),
            Ok(Some(_)) if is_file => Self::Other,
            _ => Self::Unknown,
        }
    }
}

/// The source of members that are of memory; none as soon as one is anything else that is known.
fn source_of_members(members: impl Iterator<Item = Member>) -> Option<&'static Source> {
    let mut found = None;
    for member in members {
        match member {
            Member::Memory(source) => found = Some(source),
            Member::Other => return None,
            Member::Unknown => {}
        }
    }
    found
}

fn source_of_tar(stream: impl Read, depth: usize) -> Option<&'static Source> {
    let mut archive = tar::Archive::new(stream);
    let members = archive.entries().ok()?.map_while(Result::ok).map(|entry| {
        let name = entry.path().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        let is_file = entry.header().entry_type().is_file() && !is_hidden(&name);
        Member::of(is_file, entry, depth)
    });
    source_of_members(members)
}

/// The directory of a zip stands at its end: only one that is a file is looked into.
fn source_of_zip(path: &Path) -> Option<&'static Source> {
    let mut archive = zip::ZipArchive::new(BufReader::new(File::open(path).ok()?)).ok()?;
    let members = (0..archive.len()).map(|index| {
        let Ok(entry) = archive.by_index(index) else { return Member::Unknown };
        let is_file = entry.is_file() && !is_hidden(entry.name());
        Member::of(is_file, entry, 1)
    });
    source_of_members(members)
}
