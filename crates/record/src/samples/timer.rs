//! POSIX timers that send a signal to one thread, by direct system calls, because older C libraries have the wrappers
//! in a separate library.

use std::io;

/// Clock whose time a sample represents: CPU time, wall time, or wall time of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Clock {
    /// CPU time of the thread.
    Cpu = 0,
    /// Wall time: without timer, the watcher thread sends a signal (see [`super::wall`]).
    Wall = 1,
    /// Wall time of a wait: the watcher thread sends a signal, too (see [`super::waits`]).
    Wait = 2,
}

impl Clock {
    pub(super) const ALL: [Self; 3] = [Self::Cpu, Self::Wall, Self::Wait];

    /// Clock with this number; the CPU clock for unknown numbers.
    pub(super) fn from_number(number: u64) -> Self {
        Self::ALL.into_iter().find(|&clock| clock as u64 == number).unwrap_or(Self::Cpu)
    }

    /// Kernel's id of this clock for a thread, valid in all threads.
    fn id(self, tid: u32) -> libc::clockid_t {
        match self {
            // CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED, as the kernel defines them.
            Self::Cpu => (!tid.cast_signed() << 3) | 6,
            Self::Wall | Self::Wait => libc::CLOCK_MONOTONIC,
        }
    }

    /// Time of the clock in ns; `None` if the thread has ended. Signal-safe.
    pub(super) fn now(self, tid: u32) -> Option<u64> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for writes.
        let failed = unsafe { libc::clock_gettime(self.id(tid), &raw mut time) } != 0;
        (!failed).then(|| (time.tv_sec * 1_000_000_000 + time.tv_nsec).cast_unsigned())
    }
}

/// A CPU-time timer of one thread, deleted on drop. A forked child does not inherit it.
#[derive(Debug)]
pub(super) struct Timer(i32);

impl Timer {
    /// Start a timer that sends `signal` with `value` to a thread, at a rate of `hz` of its CPU time.
    ///
    /// # Errors
    /// If the system refuses it: too many timers, or the thread has ended.
    pub(super) fn start(tid: u32, signal: i32, value: usize, hz: u32) -> io::Result<Self> {
        // SAFETY: an all-zero `sigevent` is valid.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_value.sival_ptr = value as *mut libc::c_void;
        event.sigev_notify_thread_id = tid.cast_signed();
        let mut id = 0_i32;
        // SAFETY: both pointers are valid for the call; the kernel checks the rest.
        let made = unsafe { libc::syscall(libc::SYS_timer_create, Clock::Cpu.id(tid), &raw const event, &raw mut id) };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        let timer = Self(id);
        let period = 1_000_000_000 / i64::from(hz.max(1));
        // Threads that start together should not be interrupted at the same times.
        let first = period / 2 + period / 2 * i64::from(tid % 16) / 16;
        let at = |ns: i64| libc::timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
        let times = libc::itimerspec { it_interval: at(period), it_value: at(first.max(1)) };
        // SAFETY: the timer exists, and `times` is valid for the call.
        let set = unsafe {
            libc::syscall(libc::SYS_timer_settime, id, 0, &raw const times, std::ptr::null_mut::<libc::itimerspec>())
        };
        if set == 0 { Ok(timer) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer was made by this value and is deleted once.
        unsafe { libc::syscall(libc::SYS_timer_delete, self.0) };
    }
}
