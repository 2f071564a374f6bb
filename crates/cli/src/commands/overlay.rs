//! Option `critical-path --overlay`: a copy of the trace file in which the critical path is marked.

use crate::failure::{unreadable, wrong_use};
use crate::output::{print_message, to_file};
use anyhow::{Error, Result, anyhow};
use flate2::Compression;
use flate2::write::GzEncoder;
use stackline_critical_path::Overlay;
use stackline_present::exports::overlay::{OverlayError, OverlaySummary, write_overlay};
use std::io;
use std::path::{Path, PathBuf};

/// Write a copy of the one input, with the critical path marked, to `file`. The copy is compressed if the name ends in
/// `.gz`.
pub(crate) fn write(overlay: &Overlay, inputs: &[PathBuf], file: &Path) -> Result<()> {
    let [input] = inputs else {
        return Err(wrong_use("--overlay writes a marked copy of one trace file: give exactly one file"));
    };
    if input == Path::new("-") || input.is_dir() {
        let message = format!(
            "{}: not a trace file. An overlay can be added only to a trace file; `stackline export --to chrome` \
             creates one from a run",
            input.display()
        );
        return Err(wrong_use(message));
    }
    // Report faults of the input before the output file is mentioned.
    let text = stackline_ingest::open_text(input).map_err(stackline_engine::Error::from)?;
    let (mut summary, mut refused) = (OverlaySummary::default(), None);
    let written = to_file(file, |out| {
        let written = if file.extension().is_some_and(|e| e == "gz") {
            let mut packed = GzEncoder::new(out, Compression::default());
            write_overlay(text, &mut packed, overlay).and_then(|done| Ok(packed.finish().map(|_| done)?))
        } else {
            write_overlay(text, out, overlay)
        };
        summary = written.map_err(|e| match e {
            OverlayError::Io(error) => error,
            other => io::Error::other(refused.insert(other).to_string()),
        })?;
        Ok(())
    });
    if let Some(error) = refused {
        return Err(refusal(&error, input));
    }
    written?;
    print_message(&format!(
        "{}: marked {} events as critical, added {} flow events as arrows, omitted {} events{}",
        file.display(),
        summary.marked,
        summary.flow_events,
        summary.left_out,
        if summary.truncated { "; the source trace is truncated" } else { "" },
    ))
}

/// Convert an overlay error to one of unreadable input, or to a plain failure if the critical path is from another
/// trace.
fn refusal(error: &OverlayError, input: &Path) -> Error {
    let message = format!("{}: cannot add an overlay: {error}", input.display());
    if matches!(error, OverlayError::OtherTrace { .. }) { anyhow!(message) } else { unreadable(message) }
}
