//! The real traces.

use stackline_model::Trace;
use std::path::PathBuf;

/// Calls `test` with the name of each Kineto trace of the corpus, and the trace.
pub(crate) fn for_each_trace(mut test: impl FnMut(&str, &Trace)) {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let corpus = std::env::var_os("STACKLINE_CORPUS").map_or(beside, PathBuf::from);
    if !corpus.is_dir() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "the corpus is missing at {}", corpus.display());
        println!("skipped: no corpus at {} (set STACKLINE_CORPUS)", corpus.display());
        return;
    }
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(corpus.join("kineto")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(&file).unwrap();
        test(&name, &stackline_ingest::read_bytes(&name, &bytes, &Default::default()).unwrap());
    }
}
