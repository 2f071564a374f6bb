//! Profiles, each a file by itself: which files are some, and what is in them.

use crate::found::{Found, Wanted};
use crate::head::source_of;
use crate::input;
use crate::sources::{Reader, Source};
use crate::{Error, ReadOptions};
use stackline_model::CallingContextTree;
use std::path::Path;

/// Whether a file is a profile by its first bytes, plain or packed: stacks with sums of what was measured in them.
#[must_use]
pub fn is_profile(path: &Path) -> bool {
    matches!(source_of(path), Ok(Some(Source { read: Reader::Calls(_), .. })))
}

/// The calls of a profile (pprof, speedscope, collapsed stacks, the Firefox Profiler's), plain or packed.
///
/// # Errors
/// If the file cannot be read, or is no profile.
pub fn read_profile(path: &Path, options: &ReadOptions) -> Result<CallingContextTree, Error> {
    let label = path.file_name().map_or_else(|| path.to_string_lossy(), |n| n.to_string_lossy()).into_owned();
    let mut found = Found::new(Wanted::CALLS);
    input::read_into(path, &label, options, &mut found).map_err(|error| error.located(&label, path))?;
    one_profile(path, found.calls)
}

/// The profile that was found in an input.
fn one_profile(path: &Path, mut trees: Vec<CallingContextTree>) -> Result<CallingContextTree, Error> {
    match (trees.pop(), trees.len()) {
        (Some(tree), 0) => Ok(tree),
        (Some(_), others) => {
            let reason = format!("the input contains {} profiles; give one of them", others + 1);
            Err(Error::Malformed { path: path.to_owned(), reason, offset: 0 })
        }
        (None, _) => Err(Error::NoTrace { path: path.to_owned() }),
    }
}

/// The calls of a profile from bytes in memory. `name` is its label.
///
/// # Errors
/// If the bytes are no profile.
pub fn read_profile_bytes(name: &str, bytes: &[u8], options: &ReadOptions) -> Result<CallingContextTree, Error> {
    let mut found = Found::new(Wanted::CALLS);
    input::read_stream(Path::new(name), name, Box::new(bytes), 0, options, &mut found)?;
    one_profile(Path::new(name), found.calls)
}
