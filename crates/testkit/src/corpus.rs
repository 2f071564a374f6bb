//! The corpus of real traces, which lies outside of the repository, for tests.
//!
//! It is where `STACKLINE_CORPUS` says, else in `../shared/corpus` beside the repository. Where there is none a test is skipped,
//! with the reason printed; with `CI=true` that is a failure.

use std::path::{Path, PathBuf};

/// The root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The corpus; `None` where there is none.
///
/// # Panics
/// If there is none and `CI=true`.
#[must_use]
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
pub fn folder() -> Option<PathBuf> {
    let beside = || repository().join("../shared/corpus");
    let folder = std::env::var_os("STACKLINE_CORPUS").map_or_else(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    let missing = format!("no corpus at {} (set STACKLINE_CORPUS)", folder.display());
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{missing}");
    println!("skipped: {missing}");
    None
}

/// A file or folder of the corpus, such as `kineto/NAME.json.gz`; `None` where there is no corpus.
///
/// # Panics
/// If the corpus has no such file.
#[must_use]
pub fn file(name: &str) -> Option<PathBuf> {
    let path = folder()?.join(name);
    assert!(path.exists(), "{} is not in the corpus", path.display());
    Some(path)
}

/// The files of a folder of the corpus, such as `kineto`, sorted; none where there is no corpus.
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

/// Bytes of the largest file, as it is stored, of [`small_files`].
const SMALL: u64 = 800_000;

/// The files of a folder of the corpus for tests that take seconds on a larger one: those of at most 800 kB.
/// With `STACKLINE_ALL_FILES=1`, as `./dev test --long` has it, all files.
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

/// The bytes of a file, unpacked if it is gzip.
///
/// # Panics
/// If the file cannot be read.
#[must_use]
pub fn unpacked(path: &Path) -> Vec<u8> {
    crate::io::read(path).unwrap_or_else(|error| panic!("{error}"))
}
