//! Reading and writing whole files, gzip or plain.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::error::{Error, Result};

/// Convert an I/O error to an error with the attempted action and the path.
fn at(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { action, path, source }
}

/// Read the bytes of a file, decompressed if they begin with the gzip magic.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let raw = std::fs::read(path).map_err(at("read", path))?;
    inflate(raw).map_err(at("inflate", path))
}

/// Decompress `raw` if it begins with the gzip magic.
pub fn inflate(raw: Vec<u8>) -> std::io::Result<Vec<u8>> {
    if !raw.starts_with(&[0x1f, 0x8b]) {
        return Ok(raw);
    }
    let mut text = Vec::with_capacity(raw.len() * 12);
    MultiGzDecoder::new(&raw[..]).read_to_end(&mut text)?;
    Ok(text)
}

/// Compress `text` as one gzip member without timestamp, so that equal texts give equal bytes.
#[must_use]
pub fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::read::GzEncoder::new(text, Compression::new(6));
    let mut packed = Vec::with_capacity(text.len() / 8);
    // Both ends are in memory, so the only failure is running out of memory, which aborts.
    let _ = encoder.read_to_end(&mut packed);
    packed
}

/// Create `path` and let `fill` write it, compressed by gzip if the name ends in `.gz` (at a fast level, because
/// these files are large).
pub fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let file = File::create(path).map_err(at("create", path))?;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    if path.extension().is_some_and(|e| e == "gz") {
        let mut encoder = GzEncoder::new(&mut file, Compression::fast());
        fill(&mut encoder)?;
        encoder.finish()?;
    } else {
        fill(&mut file)?;
    }
    file.flush().map_err(at("write", path))
}
