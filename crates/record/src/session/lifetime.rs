//! How long a session lives: threads of the program, signal handlers and its writer may use it at any time without a lock, so it is
//! freed after it was replaced and all have left who may know it.

use super::Session;
use dlmonitor::{Gate, Inside, callbacks_ended};
use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The session of this process, null if there is none.
static CURRENT: AtomicPtr<Session> = AtomicPtr::new(null_mut());
/// Those who use it elsewhere than in callbacks of operators.
static USERS: Gate = Gate::new();
/// Sessions that were replaced and not freed yet, linked by [`Lifetime::next`]. A list without a lock: it stays whole in a forked child.
static REPLACED: AtomicPtr<Session> = AtomicPtr::new(null_mut());
/// Writers that have left.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// What a session knows of those who use it.
#[derive(Debug, Default)]
pub(super) struct Lifetime {
    /// Writers that use it, of which there is one at most.
    writers: AtomicUsize,
    /// The session that was replaced before it.
    next: AtomicPtr<Session>,
}

/// The session of this process, in use.
#[derive(Debug)]
pub(crate) struct Held {
    session: &'static Session,
    _inside: Inside<'static>,
}

impl Deref for Held {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session
    }
}

impl Held {
    /// The session is not this process's any more.
    pub(super) fn replace(&self) {
        let session = std::ptr::from_ref(self.session).cast_mut();
        if CURRENT.compare_exchange(session, null_mut(), Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            Session::retire(self.session);
        }
    }
}

/// A session's use by its writer, on the thread that has this.
#[derive(Debug)]
pub(super) struct Writer(&'static Session);

impl Writer {
    pub(super) fn session(&self) -> &Session {
        self.0
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.lifetime.writers.fetch_sub(1, Ordering::SeqCst);
        // The session may be gone from here on.
        LEFT.fetch_add(1, Ordering::SeqCst);
        Session::reclaim();
    }
}

/// In a forked child, where those who used the parent's session do not exist.
pub(super) fn forked() {
    USERS.forked();
}

impl Session {
    /// The session of this process, for callbacks of operators: no more than a load.
    ///
    /// # Safety
    /// Only a callback that [`callbacks_ended`] tells of may call it, and keep the reference until it returns.
    #[inline]
    pub(crate) unsafe fn current() -> Option<&'static Self> {
        // SAFETY: the pointer is null or came from `new`, and is freed after the callback at the earliest.
        unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
    }

    /// The session of this process, which stays as long as the guard. For signal handlers, too.
    pub(crate) fn hold() -> Option<Held> {
        let inside = USERS.enter();
        // SAFETY: the pointer is null or came from `new`, and is freed after the guard has gone at the earliest.
        let session = unsafe { CURRENT.load(Ordering::SeqCst).as_ref() }?;
        Some(Held { session, _inside: inside })
    }

    /// For the thread that writes it. The caller is one who may use the session.
    pub(super) fn writer(&self) -> Writer {
        self.lifetime.writers.fetch_add(1, Ordering::SeqCst);
        // SAFETY: sessions come from `new`, and are not freed while they have a writer.
        Writer(unsafe { &*std::ptr::from_ref(self) })
    }

    /// Whether it is the session of this process: it is not once it ended, or another one took its place.
    pub(super) fn is_current(&self) -> bool {
        std::ptr::eq(CURRENT.load(Ordering::SeqCst), self)
    }

    pub(super) fn make_current(&'static self) {
        let before = CURRENT.swap(std::ptr::from_ref(self).cast_mut(), Ordering::SeqCst);
        // SAFETY: null, or from `new`; it is freed after `retire` at the earliest.
        if let Some(before) = unsafe { before.as_ref() } {
            Self::retire(before);
        }
    }

    /// Keeps a session that is not current any more, until it can be freed. The caller has just replaced it, or taken it out of the list.
    fn retire(session: &'static Self) {
        // What a forked child has of its parent may be half changed by threads that do not exist here: it stays as it is.
        if session.pid != std::process::id() {
            return;
        }
        let address = std::ptr::from_ref(session).cast_mut();
        let _ = REPLACED.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |first| {
            session.lifetime.next.store(first, Ordering::Relaxed);
            Some(address)
        });
    }

    /// Frees sessions that were replaced. Those that somebody may still use wait for the next time: a writer that leaves comes here,
    /// too, and so does the end and the beginning of each recording.
    pub(super) fn reclaim() {
        loop {
            let left = LEFT.load(Ordering::SeqCst);
            let mut next = REPLACED.swap(null_mut(), Ordering::SeqCst);
            // SAFETY: null, or a session that was not freed: who takes the list has it alone.
            while let Some(session) = unsafe { next.as_ref() } {
                next = session.lifetime.next.load(Ordering::Relaxed);
                if session.pid == std::process::id() && session.is_left() {
                    // SAFETY: it came from `new`, nobody uses it, and nobody can come to it any more.
                    unsafe { Self::free(session) };
                } else {
                    Self::retire(session);
                }
            }
            // A writer that left meanwhile did not find its session in the list.
            if LEFT.load(Ordering::SeqCst) == left {
                return;
            }
        }
    }

    /// Whether nobody uses this session, which was replaced. The writer last: users and callbacks may have started it.
    fn is_left(&self) -> bool {
        USERS.is_left() && callbacks_ended() && self.lifetime.writers.load(Ordering::SeqCst) == 0
    }

    /// # Safety
    /// The session came from [`Session::new`] and is nobody else's.
    unsafe fn free(session: *const Self) {
        // SAFETY: by contract.
        let session = unsafe { Box::from_raw(session.cast_mut()) };
        crate::samples::forget(&session.process);
    }
}

#[cfg(test)]
mod tests {
    use super::{CURRENT, REPLACED, Session};
    use crate::options::Options;
    use crate::overhead::Change;
    use stackline_recording::Role;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    /// A session that is current, and what tells whether its trees are still there.
    fn begin() -> (&'static Session, std::sync::Weak<crate::tree::Shared>) {
        let options = Options::from(|name| (name == "STACKLINE_RECORD").then(|| "nowhere".to_owned())).unwrap();
        let session = Session::new(options, Role::Main, Vec::new());
        session.started.call_once(|| ());
        session.make_current();
        let tree = session.process.add_tree(7, "thread".into());
        (session, Arc::downgrade(&tree.shared))
    }

    #[test]
    fn a_session_goes_when_its_last_user_does() {
        let (session, tree) = begin();
        let (user, writer) = (Session::hold().unwrap(), session.writer());
        Session::end();
        assert!(CURRENT.load(Ordering::SeqCst).is_null() && Session::hold().is_none());
        assert!(tree.strong_count() > 0, "a user and the writer are there");
        drop(user);
        Session::reclaim();
        assert!(tree.strong_count() > 0, "the writer is there");
        drop(writer);
        assert_eq!(tree.strong_count(), 0, "the writer left last");
        assert!(REPLACED.load(Ordering::SeqCst).is_null());
    }

    #[test]
    fn sessions_that_nobody_uses_go_at_once() {
        for _ in 0..3 {
            let (_, tree) = begin();
            let writer = Session::hold().unwrap().writer();
            drop(writer);
            assert!(tree.strong_count() > 0, "it is current");
            Session::end();
            assert_eq!(tree.strong_count(), 0);
        }
        let (session, first) = begin();
        assert!(session.is_current());
        // As one who is late has it.
        let user = session.writer();
        let (_, second) = begin();
        assert!(!user.session().is_current());
        assert!(!user.session().report_operators(Change::Pause), "it changes nothing of the next recording");
        assert!(Session::hold().unwrap().report_operators(Change::Pause));
        drop(user);
        Session::reclaim();
        assert_eq!((first.strong_count(), second.strong_count() > 0), (0, true), "the second one took its place");
        Session::end();
    }
}
