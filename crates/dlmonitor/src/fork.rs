//! Fork handlers, which notify the observer in each forked child.

use std::sync::Once;

static WATCHED: Once = Once::new();

/// Install the fork handlers, so that the observer is notified in every forked child. No fork happens while a thread
/// reads the linker's list.
pub(crate) fn watch() {
    WATCHED.call_once(|| {
        // SAFETY: the handlers have the right signature and live as long as the process, which never unloads them.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
}

/// Before a fork: take the locks that the child needs in a consistent state.
unsafe extern "C" fn before() {
    crate::native::before_fork();
    crate::torch::begin_change();
}

/// After a fork, in the parent: release the locks.
unsafe extern "C" fn in_parent() {
    crate::torch::end_change();
    crate::native::after_fork();
}

/// After a fork, in the child: release the locks, reset the state of threads that do not exist, notify the observer.
unsafe extern "C" fn in_child() {
    crate::torch::end_change();
    // Before the child looks up any library.
    crate::native::forked();
    crate::quiet::forked();
    crate::clock::forked();
    crate::cost::reset();
    crate::thread::forked();
    crate::dispatch::forked();
}
