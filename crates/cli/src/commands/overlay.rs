//! `critical-path --overlay`: the source's own text with the path drawn into it.

use crate::failure::wrong_use;
use crate::output::{say, to_file};
use anyhow::{Context, Result};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use stackline_analyze::critical_path::{Overlay, OverlayError, OverlaySummary, write_overlay};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// Writes the overlay of the one input to `file`, packed if its name ends in `.gz`.
pub(crate) fn write(overlay: &Overlay, inputs: &[PathBuf], file: &Path) -> Result<()> {
    let [input] = inputs else {
        return Err(wrong_use("an overlay is drawn into the text of one trace file: give exactly that file"));
    };
    if input == Path::new("-") || input.is_dir() {
        let message = format!(
            "{}: an overlay is drawn into the text of a trace file; give the file itself (stackline export --to chrome makes one of a run)",
            input.display()
        );
        return Err(wrong_use(message));
    }
    let mut summary = OverlaySummary::default();
    to_file(file, |out| {
        let text = open(input)?;
        summary = if file.extension().is_some_and(|e| e == "gz") {
            let mut packed = GzEncoder::new(out, Compression::default());
            let summary = write_overlay(text, &mut packed, overlay).map_err(to_io)?;
            packed.finish()?;
            summary
        } else {
            write_overlay(text, out, overlay).map_err(to_io)?
        };
        Ok(())
    })
    .with_context(|| format!("{}: no overlay", input.display()))?;
    say(&format!(
        "{}: {} events marked, {} arrow events added, {} events left out{}",
        file.display(),
        summary.marked,
        summary.flow_events,
        summary.left_out,
        if summary.truncated { "; the source breaks off early" } else { "" },
    ))
}

fn to_io(error: OverlayError) -> io::Error {
    match error {
        OverlayError::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// The file's text, unpacked if it is gzip or zstd by its first bytes.
fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file = File::open(path)?;
    let mut magic = Vec::new();
    file.by_ref().take(4).read_to_end(&mut magic)?;
    let whole = BufReader::new(io::Cursor::new(magic.clone()).chain(file));
    if magic.starts_with(&[0x1f, 0x8b]) {
        Ok(Box::new(MultiGzDecoder::new(whole)))
    } else if magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Ok(Box::new(zstd::Decoder::new(whole)?))
    } else if magic.starts_with(b"PK") {
        Err(io::Error::other("it is a zip archive; unpack it first"))
    } else {
        Ok(Box::new(whole))
    }
}
