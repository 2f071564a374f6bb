//! What happens when the watched process forks.

use std::sync::Once;

static WATCHED: Once = Once::new();

/// Tells the observer of every forked child from now on.
pub(crate) fn watch() {
    WATCHED.call_once(|| {
        // SAFETY: the handler has the right signature and lives as long as the process, which never unloads it.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

unsafe extern "C" fn in_child() {
    crate::thread::forked();
    crate::dispatch::forked();
}
