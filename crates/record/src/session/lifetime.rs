//! Lifetime of a session. Threads of the program, signal handlers and its writer may use it at any time without a
//! lock, so it is freed after it was replaced and all possible users have left.

use super::Session;
use dlmonitor::{Gate, Inside, callbacks_ended};
use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The session of this process, null without one.
static CURRENT: AtomicPtr<Session> = AtomicPtr::new(null_mut());
/// Users outside of callbacks of operators.
static OTHER_USERS: Gate = Gate::new();
/// Replaced sessions that are not freed yet, linked by [`Lifetime::next`]. The list needs no lock, so it is
/// consistent in a forked child.
static REPLACED: AtomicPtr<Session> = AtomicPtr::new(null_mut());
/// Number of writers that have left.
static ENDED_WRITERS: AtomicUsize = AtomicUsize::new(0);

/// Number of writers of a session, which must have none when it is freed, and link in the list of replaced sessions.
#[derive(Debug, Default)]
pub(super) struct Lifetime {
    /// Writers that use it, at most one.
    writers: AtomicUsize,
    /// The session that was replaced before it.
    next: AtomicPtr<Session>,
}

/// The session of this process, with a guard that keeps it alive.
#[derive(Debug)]
pub(crate) struct HeldSession {
    session: &'static Session,
    _inside: Inside<'static>,
}

impl Deref for HeldSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session
    }
}

impl HeldSession {
    /// Detach this session from the process if it is the current one, and keep it until it can be freed.
    pub(super) fn replace(&self) {
        let session = std::ptr::from_ref(self.session).cast_mut();
        if CURRENT.compare_exchange(session, null_mut(), Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            Session::keep_replaced(self.session);
        }
    }
}

/// Guard of the writer thread: its session is not freed before the guard is dropped.
#[derive(Debug)]
pub(super) struct Writer(&'static Session);

impl Writer {
    /// The session that this guard keeps alive.
    pub(super) fn session(&self) -> &Session {
        self.0
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.lifetime.writers.fetch_sub(1, Ordering::SeqCst);
        // The session may be freed from here on.
        ENDED_WRITERS.fetch_add(1, Ordering::SeqCst);
        Session::free_replaced();
    }
}

/// Reset the count of users in a forked child, in which users of the parent's session do not exist.
pub(super) fn forked() {
    OTHER_USERS.forked();
}

impl Session {
    /// Recording session of this process, without a guard, for callbacks of operators only; `None` without recording.
    ///
    /// # Safety
    /// Only a callback that [`callbacks_ended`] covers may call it, and keep the reference until it returns.
    #[inline]
    pub(crate) unsafe fn current() -> Option<&'static Self> {
        // SAFETY: the pointer is null or came from `new`, and is freed after the callback at the earliest.
        unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
    }

    /// Recording session of this process, kept alive by the returned guard; `None` if nothing is recorded. Signal-safe.
    pub(crate) fn hold() -> Option<HeldSession> {
        let inside = OTHER_USERS.enter();
        // SAFETY: the pointer is null or came from `new`, and is freed at the earliest after the guard was dropped.
        let session = unsafe { CURRENT.load(Ordering::SeqCst).as_ref() }?;
        Some(HeldSession { session, _inside: inside })
    }

    /// True if samples are recorded now, into the session of this process. Signal-safe, and never panics.
    pub(super) fn records_samples_now() -> bool {
        Self::hold().is_some_and(|session| session.window.is_sampled())
    }

    /// Create the guard for the writer thread. The caller must be a valid user of the session.
    pub(super) fn writer(&self) -> Writer {
        self.lifetime.writers.fetch_add(1, Ordering::SeqCst);
        // SAFETY: sessions come from `new`, and are not freed while they have a writer.
        Writer(unsafe { &*std::ptr::from_ref(self) })
    }

    /// True for the session of this process: false once it has ended or was replaced.
    pub(super) fn is_current(&self) -> bool {
        std::ptr::eq(CURRENT.load(Ordering::SeqCst), self)
    }

    /// Make this the session of the process, and keep the previous one until it can be freed.
    pub(super) fn make_current(&'static self) {
        let before = CURRENT.swap(std::ptr::from_ref(self).cast_mut(), Ordering::SeqCst);
        // SAFETY: null, or from `new`; it is freed after `keep_replaced` at the earliest.
        if let Some(before) = unsafe { before.as_ref() } {
            Self::keep_replaced(before);
        }
    }

    /// Keep a session that is no longer current until it can be freed. The caller has just replaced it, or taken it
    /// out of the list.
    fn keep_replaced(session: &'static Self) {
        // In a forked child, threads that do not exist may have changed the parent's data partly: the session is
        // leaked.
        if session.pid != std::process::id() {
            return;
        }
        let address = std::ptr::from_ref(session).cast_mut();
        let _ = REPLACED.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |first| {
            session.lifetime.next.store(first, Ordering::Relaxed);
            Some(address)
        });
    }

    /// Free replaced sessions without users. The others wait for the next call: at the exit of a writer, and at the
    /// end and the begin of each recording.
    pub(super) fn free_replaced() {
        loop {
            let left = ENDED_WRITERS.load(Ordering::SeqCst);
            let mut next = REPLACED.swap(null_mut(), Ordering::SeqCst);
            // SAFETY: null, or a session that was not freed: the thread that takes the list is its only owner.
            while let Some(session) = unsafe { next.as_ref() } {
                next = session.lifetime.next.load(Ordering::Relaxed);
                if session.pid == std::process::id() && session.is_left() {
                    // SAFETY: it came from `new`, has no users, and is no longer reachable.
                    unsafe { Self::free(session) };
                } else {
                    Self::keep_replaced(session);
                }
            }
            // A writer that left meanwhile did not find its session in the list.
            if ENDED_WRITERS.load(Ordering::SeqCst) == left {
                return;
            }
        }
    }

    /// True if this replaced session has no users. The writer is checked last, because users and callbacks may have
    /// started it.
    fn is_left(&self) -> bool {
        OTHER_USERS.is_left() && callbacks_ended() && self.lifetime.writers.load(Ordering::SeqCst) == 0
    }

    /// Free a replaced session without users, and the sampler's data about it.
    ///
    /// # Safety
    /// The session came from [`Session::new`] and has no other owner.
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

    /// A current session, and a weak pointer that shows if its trees are alive.
    fn begin() -> (&'static Session, std::sync::Weak<crate::tree::SharedTree>) {
        let options = Options::from(|name| (name == "STACKLINE_RECORD").then(|| "nowhere".to_owned())).unwrap();
        let session = Session::new(options, Role::Main, Vec::new());
        session.started.call_once(|| ());
        session.make_current();
        let tree = session.process.add_tree(7, "thread".into());
        (session, Arc::downgrade(&tree.shared))
    }

    #[test]
    fn sessions_are_freed_with_their_last_user() {
        let (session, tree) = begin();
        let (user, writer) = (Session::hold().unwrap(), session.writer());
        Session::end();
        assert!(CURRENT.load(Ordering::SeqCst).is_null() && Session::hold().is_none());
        assert!(tree.strong_count() > 0, "a user and the writer are there");
        drop(user);
        Session::free_replaced();
        assert!(tree.strong_count() > 0, "the writer is there");
        drop(writer);
        assert_eq!(tree.strong_count(), 0, "the writer left last");
        assert!(REPLACED.load(Ordering::SeqCst).is_null());
    }

    #[test]
    fn unused_sessions_are_freed_immediately() {
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
        // A late user has such a guard.
        let user = session.writer();
        let (_, second) = begin();
        assert!(!user.session().is_current());
        assert!(!user.session().report_operators(Change::Pause), "it changes nothing of the next recording");
        assert!(Session::hold().unwrap().report_operators(Change::Pause));
        drop(user);
        Session::free_replaced();
        assert_eq!((first.strong_count(), second.strong_count() > 0), (0, true), "the second one took its place");
        Session::end();
    }
}
