//! What cannot be read: what it seems to be, and what to do.

use crate::Error;
use crate::sources::{self, Content, Reader, Source};
use crate::text::went_through_text;
use std::io;

/// Whether a format fits.
fn is_known(head: &[u8]) -> bool {
    !matches!(sources::detect(&Content::Bytes { head, stream: &mut io::empty() }), Ok(None))
}

/// Whether a file that begins like this may be a trace or a profile. Files of memory in a folder of traces are none, but for packed ones, which are
/// refused later.
pub(crate) fn could_be_read(head: &[u8]) -> bool {
    let source = sources::detect(&Content::Bytes { head, stream: &mut io::empty() });
    !matches!(source, Ok(None | Some(Source { read: Reader::Memory(_), .. })))
}

/// What can be opened.
pub(crate) const READS: &str = "this version reads traces of torch.profiler and other Chrome traces, profiles of JAX and TensorFlow \
    (`.xplane.pb`), exports of Nsight Systems (`nsys export --type sqlite`), recordings of rocprofv3 (JSON, CSV, rocpd) and rocmProfileData (`.rpd`), profiles (pprof, speedscope, collapsed stacks, the Firefox Profiler's), recordings of `stackline record`, and memory snapshots of PyTorch (`torch.cuda.memory._dump_snapshot()`)";

/// What files of Riegeli's records begin with.
const RIEGELI: &[u8] = &[0x83, 0xaf, 0x70, 0xd1, 0x0d, 0x88, 0x4a, 0x3f];

/// Formats that we recognise and do not read (yet).
pub(crate) fn unsupported(label: &str, head: &[u8]) -> Option<Error> {
    let (found, advice) = if !is_known(head) && went_through_text(head) {
        (
            "a binary file that a program took for text (its bytes above 0x7f became U+FFFD): nothing in it is left",
            "copy the original again in binary mode",
        )
    } else if [".nsys-rep", ".qdrep"].iter().any(|end| label.ends_with(end)) {
        (
            "a report of Nsight Systems, which only its own programs read",
            "export it: nsys export --type sqlite FILE; this version reads the .sqlite file that this makes",
        )
    } else if head.starts_with(b"PAR1") {
        ("a Parquet table", "give the run directory that holds it")
    } else if head.starts_with(RIEGELI) {
        (
            "a profile in records of Riegeli",
            "record it as a plain .xplane.pb, as jax.profiler and TensorFlow do by default",
        )
    } else if head.starts_with(b"\"Name\",\"Calls\",\"TotalDurationNs\"") {
        (
            "a summary of rocprofv3, which has no times",
            "give the files that lie beside it (…_trace.csv), or their folder",
        )
    } else if head.starts_with(b"\x7fELF") || head.starts_with(b"\x89PNG") || head.starts_with(b"%PDF") {
        ("a binary file that is no trace", READS)
    } else if (head.starts_with(b"<!") || head.starts_with(b"<html")) && !is_known(head) {
        ("a web page", "was the download complete? Give the trace itself")
    } else {
        return None;
    };
    Some(Error::Unsupported { path: label.into(), found: found.to_owned(), advice: advice.to_owned() })
}
