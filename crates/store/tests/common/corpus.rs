//! The corpus of real traces, which lies outside of the repository.

use std::path::{Path, PathBuf};

/// Trace files of the corpus, sorted. `None`, with the reason printed, if there is no corpus; with `CI=true` that is a
/// failure.
pub(crate) fn traces() -> Option<Vec<PathBuf>> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let root = std::env::var_os("STACKLINE_CORPUS").map_or(default, PathBuf::from).join("kineto");
    let Ok(entries) = std::fs::read_dir(&root) else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "no corpus at {}", root.display());
        println!("skipped: no corpus at {} (set STACKLINE_CORPUS)", root.display());
        return None;
    };
    let mut files: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).filter(|p| p.is_file()).collect();
    files.sort();
    Some(files)
}
