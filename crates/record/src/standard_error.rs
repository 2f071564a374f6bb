//! Messages of the recorder on standard error, written without blocking or disturbing the program.

use crate::descriptors::{self, Identity};
use std::sync::OnceLock;

/// Identity of standard error when the recorder was loaded; `None` if it was closed.
static ORIGINAL: OnceLock<Option<Identity>> = OnceLock::new();

/// Store the identity of standard error, and print panics of this library by [`print_message`].
pub(crate) fn take_over() {
    original_identity();
    std::panic::set_hook(Box::new(|panic| print_message(&panic.to_string())));
}

/// Identity of the original standard error. If the program closes it, its next opened file has that number, and must
/// not receive our messages.
fn original_identity() -> Option<Identity> {
    *ORIGINAL.get_or_init(|| descriptors::identity(libc::STDERR_FILENO).ok())
}

/// Print one line, if it can be written at once; otherwise it is dropped. A full disk, a closed reader or one that
/// does not read has no effect on the program.
pub(crate) fn print_message(line: &str) {
    let now = descriptors::identity(libc::STDERR_FILENO).ok();
    if now.is_none() || now != original_identity() || !takes_bytes() {
        return;
    }
    let mut bytes = format!("stackline: {}", line.replace('\n', " ")).into_bytes();
    // This many bytes fit into any pipe that accepts data at all.
    bytes.truncate(libc::PIPE_BUF - 1);
    bytes.push(b'\n');
    // An error here cannot be reported.
    let _ = descriptors::write(libc::STDERR_FILENO, &bytes);
}

/// True if a write to standard error would not block.
fn takes_bytes() -> bool {
    let mut poll_request = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry, valid for reads and writes; with timeout 0 the call returns at once.
    unsafe { libc::poll(&raw mut poll_request, 1, 0) == 1 && poll_request.revents & libc::POLLOUT != 0 }
}
