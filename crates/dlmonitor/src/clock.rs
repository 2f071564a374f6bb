//! A faster clock than `clock_gettime`: the processor's counter if it is steady, scaled to ns.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering, fence};

/// ns per tick, as a fixed-point number with 32 fractional bits.
static SCALE: AtomicU64 = AtomicU64::new(0);
static FIRST_TICKS: AtomicU64 = AtomicU64::new(0);
static FIRST_NS: AtomicI64 = AtomicI64::new(0);
/// True if ticks are those of the processor's counter; otherwise they are ns of the system's clock.
static STEADY: AtomicBool = AtomicBool::new(false);
/// True while a thread measures the rate; other threads then skip the measurement.
static MEASURING: AtomicBool = AtomicBool::new(false);
/// The last pieces of the piecewise linear map from ticks to `CLOCK_MONOTONIC`, and the number of the newest piece. A
/// new piece begins at the value of the previous one and converges to the system's clock. The conversion of a tick
/// therefore never changes, and later ticks never map to earlier times.
static PIECES: [Piece; MAX_PIECES] = [const { Piece::new() }; MAX_PIECES];
static NEWEST: AtomicUsize = AtomicUsize::new(0);
/// Number of pieces that are kept. The oldest piece also converts all earlier ticks.
const MAX_PIECES: usize = 64;
const UNIT: u64 = 1 << 32;

/// Linear piece of the map from ticks to `CLOCK_MONOTONIC`: first tick, ns at that tick, and ns per tick as in
/// [`SCALE`].
struct Piece {
    ticks: AtomicU64,
    ns: AtomicI64,
    scale: AtomicU64,
}

impl Piece {
    /// Create an unset piece.
    const fn new() -> Self {
        Self { ticks: AtomicU64::new(0), ns: AtomicI64::new(0), scale: AtomicU64::new(0) }
    }

    /// Set the first tick, the ns of `CLOCK_MONOTONIC` at it, and the ns per tick (fixed-point).
    fn set(&self, ticks: u64, ns: i64, scale: u64) {
        self.ticks.store(ticks, Ordering::Relaxed);
        self.ns.store(ns, Ordering::Relaxed);
        self.scale.store(scale, Ordering::Relaxed);
    }

    /// True if this piece begins after the tick `at`.
    #[inline]
    fn is_after(&self, at: u64) -> bool {
        at.wrapping_sub(self.ticks.load(Ordering::Relaxed)).cast_signed() < 0
    }

    /// Convert a tick to `CLOCK_MONOTONIC` in ns by this piece.
    #[inline]
    fn at(&self, at: u64) -> i64 {
        let ticks = at.wrapping_sub(self.ticks.load(Ordering::Relaxed)).cast_signed();
        let ns = (i128::from(ticks) * i128::from(self.scale.load(Ordering::Relaxed))) >> 32;
        self.ns.load(Ordering::Relaxed).saturating_add(ns as i64)
    }
}

/// Read the system clock `CLOCK_MONOTONIC`, in ns.
#[must_use]
pub fn monotonic_ns() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Current ticks of the processor's counter.
#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// True if the counter has the same rate in every power state of the processor.
#[cfg(target_arch = "x86_64")]
fn counter_is_steady() -> bool {
    use std::arch::x86_64::__cpuid;
    // "Invariant TSC": the same rate in every power state.
    let leaf = 0x8000_0007;
    __cpuid(0x8000_0000).eax >= leaf && __cpuid(leaf).edx & 1 << 8 != 0
}

/// Current ticks of the processor's counter.
#[cfg(target_arch = "aarch64")]
#[inline]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: the virtual counter is readable in user space on every Linux.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// True if the counter has the same rate in every power state of the processor.
#[cfg(target_arch = "aarch64")]
fn counter_is_steady() -> bool {
    true
}

/// Current ns of `CLOCK_MONOTONIC`, because this processor has no known counter.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    monotonic_ns().cast_unsigned()
}

/// False: the system's clock is used instead of a counter.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter_is_steady() -> bool {
    false
}

/// Read the processor's counter in ticks and `CLOCK_MONOTONIC` in ns at the same time, as precisely as several attempts
/// allow.
fn read_both_clocks() -> (u64, i64) {
    let tries = (0..TRIES).map(|_| {
        let before = monotonic_ns();
        let ticks = counter();
        let after = monotonic_ns();
        (after - before, ticks, before + (after - before) / 2)
    });
    tries.min().map_or((0, 0), |(_, ticks, ns)| (ticks, ns))
}

/// Number of attempts, because a thread is rarely interrupted in all of them.
const TRIES: usize = 5;
/// Shortest time in which a piece converges to the system's clock. It limits the slope of a piece.
const LEAST_CONVERGENCE_NS: i64 = 500_000_000;

/// Choose the clock of [`ticks`] and measure its first rate, which takes 1 ms at the first call. [`ticks`] must not be
/// called before.
pub fn start() {
    if SCALE.load(Ordering::Acquire) != 0 {
        return;
    }
    if !counter_is_steady() {
        let now = monotonic_ns();
        FIRST_NS.store(now, Ordering::Relaxed);
        FIRST_TICKS.store(now.cast_unsigned(), Ordering::Relaxed);
        PIECES[0].set(now.cast_unsigned(), now, UNIT);
        SCALE.store(UNIT, Ordering::Release);
        return;
    }
    let (ticks, now) = read_both_clocks();
    FIRST_TICKS.store(ticks, Ordering::Relaxed);
    FIRST_NS.store(now, Ordering::Relaxed);
    while monotonic_ns() - now < 1_000_000 {
        std::hint::spin_loop();
    }
    let (_, _, scale) = rate();
    PIECES[0].set(ticks, now, scale);
    STEADY.store(true, Ordering::Relaxed);
    SCALE.store(scale, Ordering::Release);
}

/// Current ticks, current ns, and the mean rate since [`start`] in ns per tick, as a fixed-point number like [`SCALE`].
fn rate() -> (u64, i64, u64) {
    let (ticks, ns) = read_both_clocks();
    let took = (ns - FIRST_NS.load(Ordering::Relaxed)).max(0).cast_unsigned();
    let since = ticks.wrapping_sub(FIRST_TICKS.load(Ordering::Relaxed)).max(1);
    (ticks, ns, u64::try_from((u128::from(took) << 32) / u128::from(since)).unwrap_or(UNIT).max(1))
}

/// Measure the counter's rate over the whole time since [`start`], so that conversions become more exact.
pub fn measure() {
    if !STEADY.load(Ordering::Relaxed) || MEASURING.swap(true, Ordering::Acquire) {
        return;
    }
    let (ticks, ns, scale) = rate();
    SCALE.store(scale, Ordering::Release);
    let newest = NEWEST.load(Ordering::Relaxed);
    let piece = &PIECES[newest % MAX_PIECES];
    if !piece.is_after(ticks) {
        // The new piece converges within the duration of the previous piece.
        let reached = piece.at(ticks);
        let took = (reached - piece.ns.load(Ordering::Relaxed)).max(LEAST_CONVERGENCE_NS);
        let ahead = (ns - reached).clamp(-took / 2, took);
        let scale = i128::from(scale) * i128::from(took + ahead) / i128::from(took);
        PIECES[(newest + 1) % MAX_PIECES].set(ticks, reached, u64::try_from(scale).unwrap_or(1));
        NEWEST.store(newest + 1, Ordering::Release);
    }
    MEASURING.store(false, Ordering::Release);
}

/// Allow measurements of the rate in a forked child, in which a measuring thread of the parent does not exist.
pub(crate) fn forked() {
    MEASURING.store(false, Ordering::Relaxed);
}

/// Current time in ticks of the processor's counter, or in ns without a steady counter.
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    if STEADY.load(Ordering::Relaxed) { counter() } else { monotonic_ns().cast_unsigned() }
}

/// Convert a duration in ticks to ns, by the last measured rate.
#[must_use]
#[inline]
pub fn ns(ticks: u64) -> u64 {
    ((u128::from(ticks) * u128::from(SCALE.load(Ordering::Relaxed))) >> 32) as u64
}

/// Convert a time in ticks to `CLOCK_MONOTONIC` in ns. The result does not change with later measurements of the rate.
#[must_use]
#[inline]
pub fn monotonic_at(at: u64) -> i64 {
    loop {
        let newest = NEWEST.load(Ordering::Acquire);
        let oldest = newest.saturating_sub(MAX_PIECES - 2);
        let mut which = newest;
        while which > oldest && PIECES[which % MAX_PIECES].is_after(at) {
            which -= 1;
        }
        let ns = PIECES[which % MAX_PIECES].at(at);
        // The slot may have been reused for another piece meanwhile.
        fence(Ordering::Acquire);
        if NEWEST.load(Ordering::Relaxed) + 1 < which + MAX_PIECES {
            return ns;
        }
    }
}

/// Current `CLOCK_MONOTONIC` time in ns, from the processor's counter.
#[must_use]
#[inline]
pub fn now_ns() -> i64 {
    monotonic_at(ticks())
}

#[cfg(test)]
mod tests {
    #[test]
    fn ticks_convert_to_monotonic_nanoseconds() {
        super::start();
        let (ticks, clock) = (super::ticks(), super::monotonic_ns());
        std::thread::sleep(std::time::Duration::from_millis(50));
        super::measure();
        let took = super::ns(super::ticks() - ticks).cast_signed();
        let truth = super::monotonic_ns() - clock;
        assert!((took - truth).abs() < 1_000_000, "{took} ns by ticks, {truth} ns by the system");
        assert!((super::monotonic_at(super::ticks()) - super::monotonic_ns()).abs() < 1_000_000);
    }

    /// Times that are written at different moments must keep their order: a tensor is allocated before it is used.
    #[test]
    fn ticks_keep_their_time_when_the_rate_is_remeasured() {
        super::start();
        let mut known: Vec<(u64, i64)> = Vec::new();
        for _ in 0..super::MAX_PIECES / 2 {
            known.extend((0..10).map(|_| super::ticks()).map(|tick| (tick, super::monotonic_at(tick))));
            std::thread::sleep(std::time::Duration::from_millis(1));
            super::measure();
            let again: Vec<(u64, i64)> = known.iter().map(|(tick, _)| (*tick, super::monotonic_at(*tick))).collect();
            assert_eq!(again, known);
            assert!(known.windows(2).all(|pair| pair[0].1 <= pair[1].1), "later ticks are no earlier moments");
        }
        assert!((super::now_ns() - super::monotonic_ns()).abs() < 1_000_000);
    }
}
