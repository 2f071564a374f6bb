//! Files as slices.

use memmap2::Mmap;
use std::fs::File;
use std::path::Path;

/// A file's bytes.
pub(crate) type Mapped = Mmap;

/// Maps a file; `None` if it is none, or cannot be read.
pub(crate) fn map(path: &Path) -> Option<Mapped> {
    // A pipe would be waited for.
    if !path.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    // SAFETY: the bytes are only ever read, as bytes, and nothing is assumed of them. Whoever cuts off a library while it
    // is read would end this process, as he would end all that run it: package managers replace files instead.
    unsafe { Mmap::map(&file) }.ok()
}
