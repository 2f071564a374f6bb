//! Where the corpus is, and how to read from it.

use stackline_model::{AttrValue, EventId, StrId, Trace};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The corpus' folder; `None` (with the reason printed) where there is none, a failure under `CI=true`.
pub(crate) fn corpus() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let path = std::env::var_os("STACKLINE_CORPUS").map_or(default, PathBuf::from);
    if path.is_dir() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "no corpus at {} (set STACKLINE_CORPUS)", path.display());
    println!("skipped: no corpus at {} (set STACKLINE_CORPUS)", path.display());
    None
}

/// The Kineto traces of the corpus, by name.
pub(crate) fn kineto() -> Vec<PathBuf> {
    let Some(corpus) = corpus() else { return Vec::new() };
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(corpus.join("kineto")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

/// A file's decompressed text.
pub(crate) fn text(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return bytes;
    }
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut text).unwrap();
    text
}

/// The arguments of an event: ` key=value` each, in order.
pub(crate) fn arguments(trace: &Trace, event: EventId) -> String {
    let argument = |(key, value): (StrId, AttrValue)| {
        let key = trace.strings.get(key);
        match value {
            AttrValue::Str(text) | AttrValue::Json(text) => format!(" {key}={}", trace.strings.get(text)),
            other => format!(" {key}={other:?}"),
        }
    };
    trace.attrs.of(event).map(argument).collect()
}
