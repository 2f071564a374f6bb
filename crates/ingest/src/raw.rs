//! Unchanged text of a trace file, for writers that add to it.

use crate::Error;
use crate::input::Packing;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Open the text of a trace file, decompressed if its content is gzip or zstd.
///
/// # Errors
/// If the file cannot be opened, or is an archive, in which the intended member is ambiguous.
pub fn open_text(path: &Path) -> Result<Box<dyn Read + Send>, Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let mut file = BufReader::with_capacity(256 << 10, File::open(path).map_err(io)?);
    let mut head = [0u8; 512];
    let mut filled = 0;
    while filled < head.len() {
        match file.read(&mut head[filled..]).map_err(io)? {
            0 => break,
            n => filled += n,
        }
    }
    let head = head[..filled].to_vec();
    let packed = Packing::detect(&head);
    let stream = std::io::Cursor::new(head).chain(file);
    match packed {
        Packing::None => Ok(Box::new(stream)),
        Packing::Gzip => Ok(Box::new(MultiGzDecoder::new(stream))),
        Packing::Zstd => Ok(Box::new(zstd::Decoder::new(stream).map_err(io)?)),
        Packing::Zip | Packing::Tar => Err(Error::Unsupported {
            path: path.to_owned(),
            found: "an archive".to_owned(),
            advice: "unpack the archive and give the trace file".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn text_is_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let (plain, packed) = (dir.path().join("a.json"), dir.path().join("b"));
        std::fs::write(&plain, "[1, 2]").unwrap();
        let mut gzip = flate2::write::GzEncoder::new(File::create(&packed).unwrap(), flate2::Compression::fast());
        gzip.write_all(b"[1, 2]").unwrap();
        gzip.finish().unwrap();
        for path in [&plain, &packed] {
            let mut text = String::new();
            open_text(path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "[1, 2]");
        }
        let zip = dir.path().join("c.json");
        std::fs::write(&zip, b"PK\x03\x04").unwrap();
        assert!(matches!(open_text(&zip), Err(Error::Unsupported { .. })));
    }
}
