//! Profiles with sums per call path: detection and reading.

use crate::content_kinds::{ContentKinds, Found};
use crate::format_detection::source_of;
use crate::input;
use crate::sources::{Reader, Source};
use crate::{Error, ReadOptions};
use stackline_model::CallingContextTree;
use std::path::Path;

/// Check if a file, plain or compressed, begins like a profile with sums per stack.
#[must_use]
pub fn is_profile(path: &Path) -> bool {
    matches!(source_of(path), Ok(Some(Source { read: Reader::Calls(_), .. })))
}

/// Calling context tree of a profile (pprof, speedscope, collapsed stacks, Firefox Profiler), plain or compressed.
///
/// # Errors
/// If the file cannot be read, or is not a profile.
pub fn read_profile(path: &Path, options: &ReadOptions) -> Result<CallingContextTree, Error> {
    let label = path.file_name().map_or_else(|| path.to_string_lossy(), |n| n.to_string_lossy()).into_owned();
    let mut found = Found::new(ContentKinds::CALLS);
    input::read_into(path, &label, options, &mut found).map_err(|error| error.located(&label, path))?;
    one_profile(path, found.calls)
}

/// Take the only profile (call tree) of an input; an error for none or several.
fn one_profile(path: &Path, mut trees: Vec<CallingContextTree>) -> Result<CallingContextTree, Error> {
    match (trees.pop(), trees.len()) {
        (Some(tree), 0) => Ok(tree),
        (Some(_), others) => {
            let reason = format!("the input contains {} profiles; give a file with only one profile", others + 1);
            Err(Error::Malformed { path: path.to_owned(), reason, offset: 0 })
        }
        (None, _) => Err(Error::NoTrace { path: path.to_owned() }),
    }
}

/// Calling context tree of a profile in memory. `name` is its label.
///
/// # Errors
/// If the bytes are not a profile.
pub fn read_profile_bytes(name: &str, bytes: &[u8], options: &ReadOptions) -> Result<CallingContextTree, Error> {
    let mut found = Found::new(ContentKinds::CALLS);
    input::read_stream(Path::new(name), name, Box::new(bytes), 0, options, &mut found)?;
    one_profile(Path::new(name), found.calls)
}
