//! Signal number of the sampler: choice, installation of the handler, and the check that it is still installed.
//!
//! glibc reserves signal 33 (`SIGSETXID`) for `setuid` and similar calls of multithreaded programs. Its functions
//! reject the number (`sigaction`, `sigaddset`, `timer_create`) or skip it (`sigfillset`, `pthread_sigmask`), so that
//! a program can neither install a handler for it, nor block it, nor wait for it. The sampler uses this number: its
//! signals never reach the program's own handlers, `sigwait` or `signalfd`. Both users distinguish their signals:
//! glibc's handler ignores all but `SI_TKILL` of its own process, and ours passes on signals without a value of ours.
//!
//! With another C library, or if a program took 33 by a direct system call, the sampler uses a free real-time signal,
//! and changes it when the program installs a handler for that one.

use std::ffi::{c_int, c_ulong, c_void};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// `SIGSETXID` of glibc.
const RESERVED: c_int = 33;

/// Signal number with the installed handler; 0 before the first installation. Children inherit it.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Previous handler of [`RESERVED`].
static PREVIOUS: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

/// Signature of a signal handler.
pub(super) type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// `struct sigaction` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Action {
    handler: usize,
    flags: c_ulong,
    restorer: usize,
    mask: u64,
}

/// `SA_RESTORER`: the kernel returns from handlers through [`Action::restorer`].
#[cfg(target_arch = "x86_64")]
const SA_RESTORER: c_ulong = 0x0400_0000;

/// Install `handler` unless it is installed, and return its signal number, which changes if the program took the
/// previous one; `None` if no number is free. Only the watcher thread may call it: glibc installs its own handler for
/// [`RESERVED`] when a process starts its first thread.
pub(super) fn ensure_installed(handler: Handler) -> Option<c_int> {
    let known = SIGNAL.load(Ordering::Acquire);
    let found = (known != 0).then(|| action(known)).flatten();
    if found.is_some_and(|action| action.handler == handler as usize) {
        return Some(known);
    }
    // A program that took the number keeps it. glibc may install its own handler again.
    let is_open = known != RESERVED || found.is_some_and(|found| found.handler == PREVIOUS.load(Ordering::Relaxed));
    let signal = (is_open && is_reserved()).then_some(RESERVED).or_else(|| {
        // The first numbers are often used by programs.
        (libc::SIGRTMIN() + 5..=libc::SIGRTMAX())
            .find(|&signal| action(signal).is_some_and(|a| a.handler == libc::SIG_DFL))
    })?;
    if signal == RESERVED {
        PREVIOUS.store(action(signal)?.handler, Ordering::Release);
    }
    install(signal, handler).then(|| SIGNAL.store(signal, Ordering::Release))?;
    Some(signal)
}

/// True if the C library prevents programs from using [`RESERVED`].
fn is_reserved() -> bool {
    // SAFETY: a query only; the structure is valid for writes.
    let refused = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(RESERVED, std::ptr::null(), &raw mut action) != 0
    };
    cfg!(target_env = "gnu") && refused
}

/// Call the previous handler of the signal, for signals that are not ours.
///
/// # Safety
/// Only the signal handler may call it, with its own arguments.
pub(super) unsafe fn call_previous(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let previous = PREVIOUS.load(Ordering::Acquire);
    if signal == RESERVED && previous != libc::SIG_DFL && previous != libc::SIG_IGN {
        // SAFETY: the kernel called this address for the same signal before. Handlers with one parameter ignore the others.
        unsafe { std::mem::transmute::<usize, Handler>(previous)(signal, info, context) };
    }
}

/// Consume the pending sampler signals of the calling thread. A signal that outlives this program would kill the next
/// one, which has no handler, at once or when it unblocks the number. Signals of other senders remain pending.
///
/// Signals that are not blocked have arrived before this returns: the system delivers them at the end of a system
/// call.
pub(super) fn take_pending(signal: c_int, is_from_sampler: unsafe fn(*const libc::siginfo_t) -> bool) {
    let Some(bit) = u32::try_from(signal).ok().and_then(|signal| signal.checked_sub(1)) else { return };
    let (set, now) = (1_u64 << bit, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    let mut others = Vec::new();
    loop {
        // SAFETY: an all-zero `siginfo_t` is valid, and all pointers are for the call; the set has the size that the kernel expects.
        let (taken, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let taken = libc::syscall(
                libc::SYS_rt_sigtimedwait,
                &raw const set,
                &raw mut info,
                &raw const now,
                size_of::<u64>(),
            );
            (taken, info)
        };
        if taken != libc::c_long::from(signal) {
            break;
        }
        // SAFETY: the system wrote it, as for a handler.
        if !unsafe { is_from_sampler(&raw const info) } {
            others.push(info);
        }
    }
    for info in &others {
        // SAFETY: the message came from the system; a thread may send itself any message.
        unsafe {
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                libc::getpid(),
                libc::gettid(),
                signal,
                std::ptr::from_ref(info),
            );
        }
    }
}

/// Currently installed action of a signal number; `None` for an invalid number.
fn action(signal: c_int) -> Option<Action> {
    let mut action = Action::default();
    // SAFETY: a query only; the structure is valid for writes, and has the size of the kernel's.
    let result = unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal, std::ptr::null::<Action>(), &raw mut action, size_of::<u64>())
    };
    (result == 0).then_some(action)
}

/// Install the handler by a system call, because the C library rejects its reserved numbers; `false` if that fails.
fn install(signal: c_int, handler: Handler) -> bool {
    let flags = (libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK) as c_ulong;
    // All signals are blocked while the handler runs.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "other architectures need no restorer"))]
    let mut action = Action { handler: handler as usize, flags, restorer: 0, mask: u64::MAX };
    #[cfg(target_arch = "x86_64")]
    {
        action.flags |= SA_RESTORER;
        action.restorer = restore as *const () as usize;
    }
    let none = std::ptr::null_mut::<Action>();
    // SAFETY: the structure is that of the kernel; handler and restorer live as long as the process, which never unloads them.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, &raw const action, none, size_of::<u64>()) == 0 }
}

/// Return from a signal handler (`rt_sigreturn`), in the bytes by which debuggers recognize it: `mov rax, 15; syscall`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn restore() {
    std::arch::naked_asm!(".byte 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05")
}
