//! Signal handler: finds the record of its thread by the value of the signal, and writes a sample.
//!
//! The handler allocates nothing, takes no lock and accesses no thread-local variable except `errno`. On the
//! interrupted stack it only finds the record; the sample is taken on the record's private stack
//! ([`super::scratch`]). The handler is never uninstalled: a signal that was pending when sampling ended finds no
//! sampler. A panic would abort the process, so no code in this module may panic.

use super::Sampler;
use super::record::ThreadRecord;
use super::signal;
use super::timer::Clock;
use dlmonitor::native::Registers;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

/// A response that is this much later (ns) than its request does not show where the thread waited.
const MAX_RESPONSE_NS: u64 = 5_000_000;

/// Tag in the values of our signals, between the serial number and the record, because other senders may use the same
/// signal.
const SIGNAL_TAG: usize = 0x5_ac4e << 12;
const TAG_MASK: usize = 0xf_ffff << 12;

/// Pack a thread's record number, a serial number and a clock into the value of a sampler signal.
pub(super) fn value(record: usize, serial: u32, clock: Clock) -> usize {
    (serial as usize) << 32 | SIGNAL_TAG | record << 2 | clock as usize
}

/// Decode the value of a signal to record number, serial number and clock; `None` if it is not one of [`value`].
fn parse(value: usize) -> Option<(usize, u32, Clock)> {
    let parts = ((value & !TAG_MASK & 0xffff_ffff) >> 2, (value >> 32) as u32, Clock::from_number(value as u64 & 3));
    (value & TAG_MASK == SIGNAL_TAG).then_some(parts)
}

/// Record number, serial number and clock of a sampler signal; `None` for signals of other senders.
///
/// # Safety
/// `info` is the argument of a signal handler.
unsafe fn signal_of_sampler(info: *const libc::siginfo_t) -> Option<(usize, u32, Clock)> {
    // SAFETY: by contract; with these codes the signal has a value, and with the second one a sender.
    unsafe {
        let code = (*info).si_code;
        let is_sent = code == libc::SI_QUEUE;
        if code != libc::SI_TIMER && !(is_sent && (*info).si_pid() == libc::getpid()) {
            return None;
        }
        parse((*info).si_value().sival_ptr as usize).filter(|&(.., clock)| is_sent == (clock != Clock::Cpu))
    }
}

/// True if a signal comes from this process's timers and requests.
///
/// # Safety
/// Same as for [`signal_of_sampler`].
pub(super) unsafe fn is_from_sampler(info: *const libc::siginfo_t) -> bool {
    // SAFETY: by contract.
    unsafe { signal_of_sampler(info) }.is_some()
}

/// Signal handler: write a sample for a signal of the sampler, or pass the signal on to the previous handler. Only a
/// small part runs on the interrupted stack.
pub(super) unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`; `errno` is a plain variable of the thread.
    unsafe {
        let errno = *libc::__errno_location();
        match signal_of_sampler(info) {
            Some(whose) => write_sample(whose, context),
            None => signal::call_previous(signal, info, context),
        }
        *libc::__errno_location() = errno;
    }
}

/// Arguments of a sample, for [`write_on_scratch_stack`].
struct SampleArguments {
    sampler: &'static Sampler,
    record: &'static ThreadRecord,
    clock: Clock,
    context: *mut c_void,
}

/// Write a sample into the record with this number, if the record belongs to the calling thread and is not in use.
///
/// # Safety
/// Only the signal handler may call it, with its context.
unsafe fn write_sample((record, serial, clock): (usize, u32, Clock), context: *mut c_void) {
    let Some(sampler) = Sampler::current() else { return };
    let Some(record) = sampler.record(record) else { return };
    // SAFETY: takes nothing and cannot fail.
    let tid = unsafe { libc::gettid() }.cast_unsigned();
    let is_own = || record.tid.load(Ordering::SeqCst) == tid && record.serial.load(Ordering::Relaxed) == serial;
    if !is_own() {
        return;
    }
    // Protects against the thread that clears the table of codes: that thread waits for busy handlers, and handlers
    // return once it has begun. If a program calls this handler from its own handler, it may be interrupted by this
    // handler: then the stack below is in use.
    if record.busy.swap(true, Ordering::SeqCst) {
        return;
    }
    // The next recording may have freed the record just now. A record is assigned to another thread only if it is not
    // busy.
    if is_own() {
        let mut call = SampleArguments { sampler, record, clock, context };
        let data = (&raw mut call).cast();
        // SAFETY: the stack belongs to this thread's handler, which is not nested, as `busy` ensures. The function
        // returns.
        unsafe {
            match &record.stack {
                Some(stack) => stack.run(write_on_scratch_stack, data),
                None => write_on_scratch_stack(data),
            }
        }
    }
    record.busy.store(false, Ordering::Release);
}

/// Write the sample that `call` describes. Runs on the handler's scratch stack, if there is one; without it, no frames
/// are read.
///
/// # Safety
/// `call` points to a [`SampleArguments`] of this thread's handler.
unsafe extern "C" fn write_on_scratch_stack(call: *mut c_void) {
    // SAFETY: by contract.
    let SampleArguments { sampler, record, clock, context } = unsafe { &*call.cast::<SampleArguments>() };
    let clock = *clock;
    if clock == Clock::Wait {
        let requested_ns = record.requested_ns.swap(0, Ordering::Relaxed);
        // A late response: the thread may do something else by now.
        let now = clock.now(record.tid.load(Ordering::Relaxed));
        if now.is_none_or(|now| now.saturating_sub(requested_ns) > MAX_RESPONSE_NS) {
            return;
        }
    }
    // SAFETY: by contract.
    let at = unsafe { Registers::of_signal(*context) };
    let is_written = write(sampler, record, clock, at);
    if clock == Clock::Wall {
        record.wall.note_response(at, is_written);
    }
}

/// Write a sample into a thread's record, if samples are recorded now; true if it was written. The record is the one of
/// the calling thread's handler.
fn write(sampler: &Sampler, record: &ThreadRecord, clock: Clock, at: Registers) -> bool {
    if sampler.paused.load(Ordering::SeqCst) {
        return false;
    }
    if (sampler.records_now)() {
        // SAFETY: the record is the one of this thread's handler.
        unsafe { record.write_sample(clock, sampler, at) }
    } else {
        record.skip_interval(clock, sampler.counting.load(Ordering::Relaxed));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, parse, value};

    #[test]
    fn signal_values_carry_their_call() {
        for (record, serial, clock) in
            [(0, 0, Clock::Cpu), (1023, 77, Clock::Wall), (5, u32::MAX, Clock::Cpu), (1023, 1, Clock::Wait)]
        {
            assert_eq!(parse(value(record, serial, clock)), Some((record, serial, clock)));
        }
    }

    #[test]
    fn foreign_signal_values_are_none() {
        for other in [0, 7, usize::MAX, value(3, 1, Clock::Cpu) ^ 1 << 20] {
            assert_eq!(parse(other), None, "{other:x}");
        }
    }
}
