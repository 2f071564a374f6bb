//! Memory mapping of files for reading.

use memmap2::Mmap;
use std::fs::File;
use std::path::Path;

/// Bytes of a file.
pub(crate) type Mapped = Mmap;

/// Map a file; `None` if it is not a regular file or not readable.
pub(crate) fn map(path: &Path) -> Option<Mapped> {
    // Opening a pipe would block.
    if !path.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    // SAFETY: the bytes are only read, without assumptions about their content. Truncating a library while it is read
    // would end this process, as it would end all processes that run it: package managers replace files instead.
    unsafe { Mmap::map(&file) }.ok()
}
