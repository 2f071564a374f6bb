//! What tests of sources share.

use std::path::{Path, PathBuf};

/// A file of the corpus; `None` where there is no corpus, but not in CI.
pub(crate) fn corpus(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("STACKLINE_CORPUS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"), PathBuf::from);
    if !folder.is_dir() {
        assert!(std::env::var_os("CI").is_none(), "the corpus is missing: set STACKLINE_CORPUS");
        println!("skipped: no corpus; set STACKLINE_CORPUS");
        return None;
    }
    Some(folder.join(name))
}
