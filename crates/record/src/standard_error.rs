//! The few lines that a recorder may say on standard error, never at the program's cost.

use crate::descriptors::{self, Identity};
use std::sync::OnceLock;

/// Which file standard error was when the recorder was loaded; `None` if it was closed.
static KNOWN: OnceLock<Option<Identity>> = OnceLock::new();

/// Notes which file standard error is, and has panics of this library say their line as [`say`] does.
pub(crate) fn take_over() {
    known();
    std::panic::set_hook(Box::new(|panic| say(&panic.to_string())));
}

/// If the program closes standard error, the next file that it opens has that number: no line of ours is to stand in it.
fn known() -> Option<Identity> {
    *KNOWN.get_or_init(|| descriptors::identity(libc::STDERR_FILENO).ok())
}

/// Says one line, if it can be written at once; otherwise it is lost. A full disk, a reader that is gone or one that does not
/// read harms nobody.
pub(crate) fn say(line: &str) {
    let now = descriptors::identity(libc::STDERR_FILENO).ok();
    if now.is_none() || now != known() || !takes_bytes() {
        return;
    }
    let mut bytes = format!("stackline: {}", line.replace('\n', " ")).into_bytes();
    // So many bytes fit into any pipe that takes bytes at all.
    bytes.truncate(libc::PIPE_BUF - 1);
    bytes.push(b'\n');
    // There is nobody to tell that nobody could be told.
    let _ = descriptors::write(libc::STDERR_FILENO, &bytes);
}

/// Whether a write would not wait.
fn takes_bytes() -> bool {
    let mut asked = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry, valid for reads and writes; a timeout of 0 does not wait.
    unsafe { libc::poll(&raw mut asked, 1, 0) == 1 && asked.revents & libc::POLLOUT != 0 }
}
