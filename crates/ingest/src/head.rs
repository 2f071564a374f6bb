//! What a file is by its first bytes.

use crate::input::{MAX_DEPTH, Packing, SNIFF};
use crate::sources::{self, Content, Source};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

/// The source of a file, plain or packed with gzip or zstd, as reading it finds it. `None` of archives and databases, of what no
/// source or several fit, and of pipes, whose first bytes would be gone.
///
/// # Errors
/// If the file cannot be opened, or its packing is damaged at its begin.
pub(crate) fn source_of(path: &Path) -> io::Result<Option<&'static Source>> {
    if !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut stream: Box<dyn Read> = Box::new(File::open(path)?);
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
            _ => return Ok(None),
        };
    }
    Ok(None)
}
