//! Traces of the tests: of text, of files, of the corpus.

use serde_json::Value;
use stackline_model::Trace;
use stackline_testkit::corpus;
use stackline_testkit::mini::{self, MiniTrace};
use std::path::{Path, PathBuf};

/// A trace of its JSON.
pub(crate) fn read(json: impl AsRef<[u8]>) -> Trace {
    stackline_ingest::read_bytes("test.json", json.as_ref(), &Default::default()).unwrap()
}

/// A trace of lines of `stackline_testkit::mini`.
pub(crate) fn read_mini(lines: &str) -> Trace {
    read(mini::trace(lines))
}

/// The trace of a file.
pub(crate) fn read_file(path: &Path) -> Trace {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let name = path.file_name().unwrap().to_string_lossy();
    stackline_ingest::read_bytes(&name, &bytes, &Default::default())
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The document in a file, which may be packed.
pub(crate) fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&corpus::unpacked(path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A mini trace of process 10 whose events count from 1: the first record names the process, since HTA cannot link to the event at
/// index 0.
pub(crate) fn mini(text: &str) -> MiniTrace {
    let mut trace = MiniTrace::new("process 10 name=python");
    trace.add(text);
    trace
}

/// Calls `test` with the name of each Kineto trace of the corpus, and the trace.
pub(crate) fn for_each_trace(test: impl FnMut(&str, &Trace)) {
    for_each(&corpus::files("kineto"), test);
}

/// The same of those that [`corpus::small_files`] has, for tests that take seconds on the others.
pub(crate) fn for_each_small_trace(test: impl FnMut(&str, &Trace)) {
    for_each(&corpus::small_files("kineto"), test);
}

fn for_each(files: &[PathBuf], mut test: impl FnMut(&str, &Trace)) {
    for file in files {
        test(&file.file_name().unwrap().to_string_lossy(), &read_file(file));
    }
}
