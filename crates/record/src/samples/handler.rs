//! The signal handler: finds the record of its thread by what the timer carries, and writes a sample.
//!
//! It uses no memory of its own, no lock and no thread-local variable but `errno`. It is never taken away: a signal that
//! was under way when sampling ended finds no sampler.

use super::Sampler;
use super::timer::Clock;
use crate::session::Session;
use dlmonitor::native::Registers;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

/// An answer that comes so much later (ns) than it was asked for is not where the thread waited.
const LATE: u64 = 5_000_000;

/// The signal of this process, 0 as long as none was chosen.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// What a timer sends, or who asks: whose it is, which clock.
pub(super) fn value(record: usize, serial: u32, clock: Clock) -> usize {
    (serial as usize) << 32 | record << 2 | clock as usize
}

fn parse(value: usize) -> (usize, u32, Clock) {
    ((value & 0xffff_ffff) >> 2, (value >> 32) as u32, Clock::numbered(value as u64 & 3))
}

/// Takes a real-time signal that nobody uses. Once per process; children inherit it.
pub(super) fn install() -> Option<c_int> {
    let known = SIGNAL.load(Ordering::Acquire);
    if known != 0 {
        return Some(known);
    }
    // The first ones are popular.
    let signal = (libc::SIGRTMIN() + 5..=libc::SIGRTMAX()).find(|&signal| is_free(signal))?;
    // SAFETY: an all-zero `sigaction` is valid, and every field that matters is set.
    let installed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigfillset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    if installed != 0 {
        return None;
    }
    SIGNAL.store(signal, Ordering::Release);
    Some(signal)
}

fn is_free(signal: c_int) -> bool {
    // SAFETY: asks only; the structure is valid for writes.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_DFL
    }
}

unsafe extern "C" fn handle(_signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`; `errno` is a plain variable of the thread.
    unsafe {
        let errno = *libc::__errno_location();
        let code = (*info).si_code;
        if code == libc::SI_TIMER || code == libc::SI_QUEUE {
            let (record, serial, clock) = parse((*info).si_value().sival_ptr as usize);
            // Other processes may send what they like.
            let is_ours = (code == libc::SI_QUEUE) == (clock == Clock::Wait)
                && (code == libc::SI_TIMER || (*info).si_pid() == libc::getpid());
            if let Some(sampler) = Sampler::current().filter(|_| is_ours) {
                take(sampler, record, serial, clock, Registers::of_signal(context));
            }
        }
        *libc::__errno_location() = errno;
    }
}

/// Writes a sample into the record with this number, if it is that of the calling thread.
///
/// # Safety
/// Only the signal handler may call it.
unsafe fn take(sampler: &Sampler, record: usize, serial: u32, clock: Clock, at: Registers) {
    let Some(record) = sampler.record(record) else { return };
    // SAFETY: takes nothing and cannot fail.
    let tid = unsafe { libc::gettid() }.cast_unsigned();
    if record.tid.load(Ordering::Acquire) != tid || record.serial.load(Ordering::Relaxed) != serial {
        return;
    }
    if clock == Clock::Wait {
        let asked = record.asked.swap(0, Ordering::Relaxed);
        // By then it may do something else.
        if clock.now(tid).is_none_or(|now| now.saturating_sub(asked) > LATE) {
            return;
        }
    }
    // Against the one who empties the table of codes: it waits for those that are busy, we stay away once it began.
    record.busy.store(true, Ordering::SeqCst);
    if !sampler.paused.load(Ordering::SeqCst) {
        if Session::current().is_some_and(|session| session.window.is_open()) {
            // SAFETY: the record is that of this thread.
            unsafe { record.sample(clock, sampler, at) };
        } else {
            record.skip(clock, sampler.counters.len());
        }
    }
    record.busy.store(false, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::{Clock, parse, value};

    #[test]
    fn values_carry_what_they_are_for() {
        for (record, serial, clock) in
            [(0, 0, Clock::Cpu), (1023, 77, Clock::Real), (5, u32::MAX, Clock::Cpu), (1023, 1, Clock::Wait)]
        {
            assert_eq!(parse(value(record, serial, clock)), (record, serial, clock));
        }
    }
}
