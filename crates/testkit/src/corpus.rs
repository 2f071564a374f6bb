//! Access to the corpus of real traces, which is outside of the repository, for tests.
//!
//! The folder is `STACKLINE_CORPUS`, otherwise `../shared/corpus` next to the repository. Without a corpus, tests are
//! skipped with a message; with `CI=true` they fail.

use std::path::{Path, PathBuf};

/// Root folder of Stackline's repository.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Folder of the corpus of real traces; `None` without one.
///
/// # Panics
/// Without a corpus if `CI=true`.
#[must_use]
#[expect(clippy::print_stdout, reason = "a skipped test prints the reason")]
pub fn folder() -> Option<PathBuf> {
    let shared_corpus = || repository().join("../shared/corpus");
    let folder = std::env::var_os("STACKLINE_CORPUS").map_or_else(shared_corpus, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    let missing = format!("no corpus at {} (set STACKLINE_CORPUS)", folder.display());
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{missing}");
    println!("skipped: {missing}");
    None
}

/// Path of a file or folder of the corpus, such as `kineto/NAME.json.gz`; `None` without a corpus.
///
/// # Panics
/// If the corpus has no such file.
#[must_use]
pub fn file(name: &str) -> Option<PathBuf> {
    let path = folder()?.join(name);
    assert!(path.exists(), "{} is not in the corpus", path.display());
    Some(path)
}

/// Sorted paths of the files in a folder of the corpus, such as `kineto`; empty without a corpus.
///
/// # Panics
/// If the corpus has no such folder.
#[must_use]
pub fn files(name: &str) -> Vec<PathBuf> {
    let Some(folder) = folder().map(|folder| folder.join(name)) else { return Vec::new() };
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// Largest stored size in bytes of a file in [`small_files`].
const SMALL: u64 = 800_000;

/// Paths of files of at most 800 kB in a folder of the corpus, for tests that take seconds on larger ones. With
/// `STACKLINE_ALL_FILES=1`, which `./dev test --long` sets, all files.
///
/// # Panics
/// If the corpus has no such folder.
#[must_use]
pub fn small_files(name: &str) -> Vec<PathBuf> {
    let mut files = files(name);
    if std::env::var("STACKLINE_ALL_FILES").as_deref() != Ok("1") {
        files.retain(|file| file.metadata().is_ok_and(|metadata| metadata.len() <= SMALL));
    }
    files
}

/// Read a file, decompressed if it is gzip.
///
/// # Panics
/// If the file cannot be read.
#[must_use]
pub fn unpacked(path: &Path) -> Vec<u8> {
    crate::io::read(path).unwrap_or_else(|error| panic!("{error}"))
}
