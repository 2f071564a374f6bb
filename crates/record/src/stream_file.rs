//! Stream file with a descriptor that the program may close and reuse at any time.
//!
//! Before each write and truncation, the system is asked if the number still refers to this file. If not, the number
//! is left alone, and the file is opened again by its path.

use crate::descriptors::{self, Identity, identity};
use crate::output::Target;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that is open for appending.
#[derive(Debug)]
pub(crate) struct StreamFile {
    path: PathBuf,
    /// -1 after it was lost.
    descriptor: RawFd,
    identity: Identity,
    /// Bytes that were written and not cut off.
    length: u64,
}

impl StreamFile {
    /// Create the file of a recorder stream, which must not exist.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        let identity = identity(file.as_raw_fd())?;
        Ok(Self { path: path.to_owned(), descriptor: raise_descriptor(file, identity), identity, length: 0 })
    }

    /// Descriptor of the file, which is opened again by its path if the program closed or reused the last one.
    fn descriptor(&mut self) -> io::Result<RawFd> {
        if self.is_open() {
            return Ok(self.descriptor);
        }
        // The number now belongs to the program, and must not be closed.
        self.descriptor = -1;
        // Never created again, because records refer to earlier ones. Its replacement may be a pipe, for which this
        // must not block.
        let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
        let file = OpenOptions::new().append(true).custom_flags(flags).open(&self.path)?;
        // After its deletion, another file may have its inode.
        if identity(file.as_raw_fd())? != self.identity || file.metadata()?.len() != self.length {
            return Err(io::Error::from_raw_os_error(libc::ESTALE));
        }
        self.descriptor = raise_descriptor(file, self.identity);
        Ok(self.descriptor)
    }

    /// True if the descriptor still belongs to this file: the program may have closed or reused it.
    fn is_open(&self) -> bool {
        identity(self.descriptor).is_ok_and(|now| now == self.identity)
    }
}

/// Move the file to a high descriptor number, or keep its number if none is free; returns the number.
fn raise_descriptor(file: File, known: Identity) -> RawFd {
    let low = file.into_raw_fd();
    let Ok(high) = descriptors::duplicate_to_high(low) else { return low };
    if identity(low).is_ok_and(|now| now == known) {
        descriptors::close(low);
    }
    high
}

impl Target for StreamFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = descriptors::write(self.descriptor()?, bytes)?;
        self.length += written as u64;
        Ok(written)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        let end = libc::off_t::try_from(length).map_err(io::Error::other)?;
        // SAFETY: takes no pointer; a bad number is an error.
        if unsafe { libc::ftruncate(self.descriptor()?, end) } != 0 {
            return Err(io::Error::last_os_error());
        }
        self.length = length;
        Ok(())
    }

    fn moved(&mut self, to: &Path) {
        to.clone_into(&mut self.path);
    }
}

impl Drop for StreamFile {
    fn drop(&mut self) {
        if self.is_open() {
            descriptors::close(self.descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StreamFile;
    use crate::descriptors;
    use crate::output::{Output, Target};
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsRawFd, RawFd};
    use std::path::Path;

    /// Data that the program writes, much longer than the stream.
    const PROGRAM: [u8; 10_000] = [7; 10_000];

    /// Let a number refer to a file of the program.
    fn take(descriptor: RawFd, path: &Path) {
        std::fs::write(path, PROGRAM).unwrap();
        let file = File::options().read(true).write(true).open(path).unwrap();
        // SAFETY: takes no pointer.
        assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), descriptor) }, descriptor);
    }

    fn is_of_program(descriptor: RawFd, path: &Path) {
        let there = File::open(path).unwrap();
        let same = descriptors::identity(descriptor).unwrap() == descriptors::identity(there.as_raw_fd()).unwrap();
        assert!(same && std::fs::read(path).unwrap() == PROGRAM);
    }

    #[test]
    fn descriptors_reused_by_the_program_are_not_closed_and_the_stream_continues() {
        let folder = tempfile::tempdir().unwrap();
        let [stream, moved, program] = ["stream", "moved", "program"].map(|name| folder.path().join(name));
        let mut file = StreamFile::create(&stream).unwrap();
        assert_eq!(file.append(b"first ").unwrap(), 6);
        let number = file.descriptor;
        take(number, &program);
        assert_eq!(file.append(b"torn").unwrap(), 4);
        is_of_program(number, &program);
        // Also truncation, and under the current name of the file.
        std::fs::rename(&stream, &moved).unwrap();
        file.moved(&moved);
        let next = file.descriptor;
        take(next, &program);
        file.cut(6).unwrap();
        is_of_program(next, &program);
        // A number that is not open.
        descriptors::close(file.descriptor);
        assert_eq!(file.append(b"second").unwrap(), 6);
        assert_eq!(std::fs::read(&moved).unwrap(), b"first second");
        // The end does not close it, either.
        let last = file.descriptor;
        take(last, &program);
        drop(file);
        is_of_program(last, &program);
    }

    #[test]
    fn deleted_files_are_not_recreated() {
        let folder = tempfile::tempdir().unwrap();
        let [stream, program] = ["stream", "program"].map(|name| folder.path().join(name));
        let file = StreamFile::create(&stream).unwrap();
        let number = file.descriptor;
        let mut output = Output::new(Box::new(file));
        output.put(b"first", 1);
        std::fs::remove_file(&stream).unwrap();
        take(number, &program);
        output.put(b"second", 1);
        let error = |error: io::Error| error.raw_os_error();
        assert_eq!(output.flush().map_err(error), Err(Some(libc::ENOENT)));
        assert!(!stream.exists());
        // Another file of that name is not ours.
        std::fs::write(&stream, b"another").unwrap();
        assert_eq!(output.flush().map_err(error), Err(Some(libc::ESTALE)));
        assert_eq!(std::fs::read(&stream).unwrap(), b"another");
        assert_eq!(output.give_up().map(|outage| outage.dropped), Some(1));
        drop(output);
        is_of_program(number, &program);
    }

    #[test]
    fn descriptor_is_far_above_those_of_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let file = StreamFile::create(&folder.path().join("stream")).unwrap();
        assert!(file.descriptor >= 64, "{}", file.descriptor);
        // SAFETY: takes no pointer.
        let flags = unsafe { libc::fcntl(file.descriptor, libc::F_GETFD) };
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    }
}
