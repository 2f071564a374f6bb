//! Errors for unsupported formats: the recognized format, with advice.

use crate::Error;
use crate::sources::{self, Content, Reader, Source};
use crate::text::was_converted_as_text;
use std::io;

/// Check if a file with these first bytes has a known format.
fn is_known(head: &[u8]) -> bool {
    !matches!(sources::detect(&Content::Bytes { head, stream: &mut io::empty() }), Ok(None))
}

/// Check if a file with these first bytes can be a trace or profile; false for unknown formats and plain memory files.
pub(crate) fn could_be_read(head: &[u8]) -> bool {
    let source = sources::detect(&Content::Bytes { head, stream: &mut io::empty() });
    !matches!(source, Ok(None | Some(Source { read: Reader::Memory(_), .. })))
}

/// Advice with all supported formats.
pub(crate) const READS: &str = "give a trace of torch.profiler or another Chrome trace, a JAX or TensorFlow profile (`.xplane.pb`), \
    an Nsight Systems export (`nsys export --type sqlite`), or a recording of `stackline record`, rocprofv3 (JSON, CSV, rocpd) or rocmProfileData (`.rpd`). \
    Also supported: profiles (pprof, speedscope, collapsed stacks, Firefox Profiler) and PyTorch memory snapshots (`torch.cuda.memory._dump_snapshot()`)";

/// First bytes of Riegeli files.
const RIEGELI: &[u8] = &[0x83, 0xaf, 0x70, 0xd1, 0x0d, 0x88, 0x4a, 0x3f];

/// Error with advice for a recognized but unsupported format, by file name and first bytes; `None` for other files.
pub(crate) fn unsupported(label: &str, head: &[u8]) -> Option<Error> {
    let (found, advice) = if !is_known(head) && was_converted_as_text(head) {
        (
            "a binary file that a conversion to text has damaged (its bytes above 0x7f became U+FFFD)",
            "copy the original file again in binary mode",
        )
    } else if [".nsys-rep", ".qdrep"].iter().any(|end| label.ends_with(end)) {
        (
            "an Nsight Systems report in its proprietary format",
            "export the report with `nsys export --type sqlite FILE` and give the .sqlite file",
        )
    } else if head.starts_with(b"PAR1") {
        ("a Parquet table", "give the Stackline run directory that contains the table")
    } else if head.starts_with(RIEGELI) {
        ("a profile in Riegeli format", "record a plain .xplane.pb file, the default of jax.profiler and TensorFlow")
    } else if head.starts_with(b"\"Name\",\"Calls\",\"TotalDurationNs\"") {
        (
            "a rocprofv3 summary without start and end times",
            "give the …_trace.csv files of the same folder, or the folder",
        )
    } else if head.starts_with(b"\x7fELF") || head.starts_with(b"\x89PNG") || head.starts_with(b"%PDF") {
        ("a binary file, not a trace", READS)
    } else if (head.starts_with(b"<!") || head.starts_with(b"<html")) && !is_known(head) {
        ("a web page", "download the trace file itself and give that file")
    } else {
        return None;
    };
    Some(Error::Unsupported { path: label.into(), found: found.to_owned(), advice: advice.to_owned() })
}
