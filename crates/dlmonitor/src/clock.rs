//! A clock that costs less than `clock_gettime`: the processor's counter where it is steady, scaled to ns.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// ns per tick, as a fixed-point number with 32 fractional bits.
static SCALE: AtomicU64 = AtomicU64::new(0);
static FIRST_TICKS: AtomicU64 = AtomicU64::new(0);
static FIRST_NS: AtomicI64 = AtomicI64::new(0);
/// Whether ticks are those of the processor's counter; otherwise they are ns of the system's clock.
static STEADY: AtomicBool = AtomicBool::new(false);
const UNIT: u64 = 1 << 32;

/// `CLOCK_MONOTONIC` in ns.
#[must_use]
pub fn monotonic_ns() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "x86_64")]
fn counter_is_steady() -> bool {
    use std::arch::x86_64::__cpuid;
    // "Invariant TSC": the same rate in every power state.
    let leaf = 0x8000_0007;
    __cpuid(0x8000_0000).eax >= leaf && __cpuid(leaf).edx & 1 << 8 != 0
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: the virtual counter is readable in user space on every Linux.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

#[cfg(target_arch = "aarch64")]
fn counter_is_steady() -> bool {
    true
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    monotonic_ns().cast_unsigned()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter_is_steady() -> bool {
    false
}

/// Prepares the clock; takes a millisecond the first time. [`ticks`] must not be called before.
pub fn start() {
    if SCALE.load(Ordering::Acquire) != 0 {
        return;
    }
    let now = monotonic_ns();
    FIRST_NS.store(now, Ordering::Relaxed);
    if !counter_is_steady() {
        FIRST_TICKS.store(now.cast_unsigned(), Ordering::Relaxed);
        SCALE.store(UNIT, Ordering::Release);
        return;
    }
    FIRST_TICKS.store(counter(), Ordering::Relaxed);
    STEADY.store(true, Ordering::Relaxed);
    while monotonic_ns() - now < 1_000_000 {
        std::hint::spin_loop();
    }
    measure();
}

/// Measures the rate again over the whole time since [`start`], so that it becomes exact.
pub fn measure() {
    if !STEADY.load(Ordering::Relaxed) {
        return;
    }
    let before = monotonic_ns();
    let ticks = counter().wrapping_sub(FIRST_TICKS.load(Ordering::Relaxed));
    let after = monotonic_ns();
    let ns = (before + (after - before) / 2 - FIRST_NS.load(Ordering::Relaxed)).max(0);
    if ticks > 0 && after - before < 100_000 {
        let scale = (u128::from(ns.cast_unsigned()) << 32) / u128::from(ticks);
        SCALE.store(u64::try_from(scale).unwrap_or(UNIT).max(1), Ordering::Release);
    }
}

/// Now, in ticks.
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    if STEADY.load(Ordering::Relaxed) { counter() } else { monotonic_ns().cast_unsigned() }
}

/// ns that a number of ticks take.
#[must_use]
#[inline]
pub fn ns(ticks: u64) -> u64 {
    ((u128::from(ticks) * u128::from(SCALE.load(Ordering::Relaxed))) >> 32) as u64
}

/// `CLOCK_MONOTONIC` at a moment in ticks.
#[must_use]
pub fn monotonic_at(at: u64) -> i64 {
    let first = FIRST_TICKS.load(Ordering::Relaxed);
    FIRST_NS.load(Ordering::Relaxed) + ns(at.wrapping_sub(first)).cast_signed()
}

#[cfg(test)]
mod tests {
    #[test]
    fn ticks_are_nanoseconds_of_the_system() {
        super::start();
        let (ticks, clock) = (super::ticks(), super::monotonic_ns());
        std::thread::sleep(std::time::Duration::from_millis(50));
        super::measure();
        let took = super::ns(super::ticks() - ticks).cast_signed();
        let truth = super::monotonic_ns() - clock;
        assert!((took - truth).abs() < 1_000_000, "{took} ns by ticks, {truth} ns by the system");
        assert!((super::monotonic_at(super::ticks()) - super::monotonic_ns()).abs() < 1_000_000);
    }
}
