//! Copy of a stream to a temporary file, limited by the free space of the temporary folder.

use crate::Error;
use stackline_model::format::bytes;
use std::io::{self, Read, Write};
use std::path::Path;

/// Size in bytes up to which a copy is made without a check of the free space, and may be kept in memory.
pub(crate) const UNCHECKED: usize = 1 << 20;

/// Number of bytes between two checks of the free space.
const CHECK_EVERY: u64 = 64 << 20;

/// Copy a stream to a temporary file. If the stream ends with an error, that error is returned, and the bytes before it
/// are kept.
///
/// # Errors
/// If the file cannot be written, or the temporary folder is almost full.
pub(crate) fn copy(label: &str, stream: impl Read, file: impl Write) -> Result<Option<io::Error>, Error> {
    let folder = tempfile::env::temp_dir();
    copy_while_space(stream, file, || usable_space(&folder)).map_err(|reason| failure(label, reason))
}

/// Create the error that an input cannot be copied to the temporary folder.
pub(crate) fn failure(label: &str, reason: String) -> Error {
    Error::TemporaryCopy { path: label.into(), folder: tempfile::env::temp_dir(), reason }
}

/// Copy a stream while enough bytes are usable. The inner error is that of the stream, the outer one the reason why the
/// copy is incomplete.
fn copy_while_space(
    mut stream: impl Read,
    mut file: impl Write,
    usable: impl Fn() -> u64,
) -> Result<Option<io::Error>, String> {
    let failed = |copied: u64, error: &io::Error| format!("writing failed after {}: {error}", bytes(copied));
    let mut buffer = vec![0; 256 << 10];
    let (mut copied, mut allowed) = (0_u64, UNCHECKED as u64);
    loop {
        let (count, end) = match stream.read(&mut buffer) {
            Ok(count) => (count, None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => (0, Some(error)),
        };
        if count == 0 {
            return file.flush().map(|()| end).map_err(|error| failed(copied, &error));
        }
        let size = copied + count as u64;
        if size > allowed {
            let left = usable();
            if left < count as u64 {
                return Err(format!("stopped after {}, because the folder is almost full", bytes(copied)));
            }
            allowed = copied.saturating_add(left.min(CHECK_EVERY));
        }
        file.write_all(&buffer[..count]).map_err(|error| failed(copied, &error))?;
        copied = size;
    }
}

/// Space of a folder's file system that copies may use, in bytes; unlimited if unknown.
#[cfg(unix)]
fn usable_space(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(u64::MAX, |space| {
        let size = |blocks: u64| blocks.saturating_mul(space.f_frsize);
        without_reserve(size(space.f_bavail), size(space.f_blocks))
    })
}

#[cfg(not(unix))]
fn usable_space(_: &Path) -> u64 {
    u64::MAX
}

/// Free space without the reserve that copies leave: 1 GiB, or a tenth of a file system below 10 GiB. Unlimited for
/// file systems without a size.
#[cfg(any(unix, test))]
fn without_reserve(free: u64, total: u64) -> u64 {
    if total == 0 { u64::MAX } else { free.saturating_sub((total / 10).min(1 << 30)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// File that counts its bytes and fails beyond a limit.
    struct Limited<'c> {
        written: &'c Cell<u64>,
        limit: u64,
    }

    impl Write for Limited<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let size = self.written.get() + bytes.len() as u64;
            if size > self.limit {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            self.written.set(size);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Reader that fails at once.
    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("bad checksum"))
        }
    }

    #[test]
    fn endless_streams_leave_free_space() {
        let (written, usable) = (Cell::new(0), 70 << 20);
        let file = Limited { written: &written, limit: u64::MAX };
        let stopped = copy_while_space(io::repeat(b' '), file, || usable - written.get()).unwrap_err();
        assert!(stopped.starts_with("stopped after 70"), "{stopped}");
        assert_eq!(written.get(), usable);
        // Small copies are not refused, because they may stay in memory.
        let small = copy_while_space(io::repeat(1).take(UNCHECKED as u64), io::sink(), || 0).unwrap();
        assert!(small.is_none());
    }

    #[test]
    fn a_full_disk_is_named_with_its_folder() {
        let written = Cell::new(0);
        let file = Limited { written: &written, limit: 600 << 10 };
        let error = copy("big.sqlite.gz", io::repeat(b' ').take(900 << 10), file).unwrap_err().to_string();
        let folder = tempfile::env::temp_dir().display().to_string();
        let reason = io::Error::from(io::ErrorKind::StorageFull).to_string();
        let parts = ["big.sqlite.gz: ", folder.as_str(), reason.as_str(), "512", "TMPDIR"];
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }

    #[test]
    fn broken_streams_keep_their_bytes_and_their_error() {
        let mut file: Vec<u8> = Vec::new();
        let broken = copy("t.csv.gz", Read::chain(&b"abc"[..], Broken), &mut file).unwrap();
        assert_eq!((broken.map(|error| error.to_string()).as_deref(), &file[..]), (Some("bad checksum"), &b"abc"[..]));
    }

    #[test]
    fn reserve_follows_from_the_size_of_the_file_system() {
        const GIB: u64 = 1 << 30;
        assert_eq!(without_reserve(70 * GIB, 252 * GIB), 69 * GIB);
        assert_eq!(without_reserve(GIB / 2, 252 * GIB), 0);
        assert_eq!(without_reserve(GIB, 2 * GIB), GIB - 2 * GIB / 10);
        assert_eq!(without_reserve(0, 0), u64::MAX);
    }
}
