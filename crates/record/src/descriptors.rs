//! File descriptors and writes in a foreign process. The program may close any descriptor (daemons do) and reuse its
//! number for its own files, and a write must never kill the program.

use std::io;
use std::os::fd::RawFd;

/// Identity of an open file, which differs from that of a later file with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: libc::dev_t,
    inode: libc::ino_t,
}

/// Device and inode of the open file with this descriptor.
///
/// # Errors
/// `EBADF` if no file has it.
pub(crate) fn identity(descriptor: RawFd) -> io::Result<Identity> {
    // SAFETY: the structure is plain numbers, and valid for writes; a bad number is an error.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        if libc::fstat(descriptor, &raw mut status) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Identity { device: status.st_dev, inode: status.st_ino })
    }
}

/// Soft limit of the number of open files of the process (`RLIMIT_NOFILE`).
pub(crate) fn files_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writes.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur
}

/// Duplicate a descriptor to a number far above those that the program uses, and return it. The low one stays open.
///
/// # Errors
/// If the process may not use such a number.
pub(crate) fn duplicate_to_high(descriptor: RawFd) -> io::Result<RawFd> {
    let least = (files_limit() / 2).clamp(64, 4096) as libc::c_int;
    // SAFETY: takes no pointer; a bad number is an error.
    let high = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, least) };
    if high < 0 { Err(io::Error::last_os_error()) } else { Ok(high) }
}

/// Close a descriptor that the caller opened and still owns.
pub(crate) fn close(descriptor: RawFd) {
    // SAFETY: takes no pointer; nothing else of this crate uses a number that was given to this function.
    unsafe { libc::close(descriptor) };
}

/// Write some of the bytes and return their number, or an error instead of a signal that would kill the program:
/// `SIGXFSZ` of a file that grows beyond `RLIMIT_FSIZE`, and `SIGPIPE` of a pipe without reader.
///
/// # Errors
/// The error of the system.
pub(crate) fn write(descriptor: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the sets are initialized by the calls before they are read, and `bytes` is valid for reads of its length; all
    // calls about signals change the calling thread alone.
    unsafe {
        let (mut signals, mut before, mut pending) = (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&raw mut signals);
        libc::sigemptyset(&raw mut pending);
        libc::sigaddset(&raw mut signals, libc::SIGXFSZ);
        libc::sigaddset(&raw mut signals, libc::SIGPIPE);
        libc::sigpending(&raw mut pending);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, &raw mut before);
        let written = libc::write(descriptor, bytes.as_ptr().cast(), bytes.len());
        let written = usize::try_from(written).map_err(|_| io::Error::last_os_error());
        if written.is_err() {
            // The signal of this write is pending for this thread: consume it. Signals that were pending before are
            // the program's.
            for signal in [libc::SIGXFSZ, libc::SIGPIPE] {
                if libc::sigismember(&raw const pending, signal) == 1 {
                    libc::sigdelset(&raw mut signals, signal);
                }
            }
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(&raw const signals, std::ptr::null_mut(), &raw const now);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        written
    }
}
