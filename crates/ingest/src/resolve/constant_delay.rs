//! Shifts of less than a millisecond that a constant launch delay shows: operations on an idle device all start late by
//! the same time, and calls that may wait for them return early by that time.
//!
//! Slow starts alone prove nothing: lazy loading and time slices cause delays that vary, and a remote device may have a
//! large constant delay, but then waits return after their work.

use super::device_shift::{Launched, MAX_RETURN_DELAY_NS, MIN_OPERATIONS, is_prompt};
use super::proven_shift::{LEAST_PROVEN_NS, Proof, lowest, proven_shift};
use rustc_hash::FxHashSet;

/// Number of operations on an idle device that must start with the same delay.
const MIN_CONSTANT: usize = 30;
/// Delays within this time above the shortest one, in ns, count as the same.
const SPREAD_NS: i64 = 10_000;
/// Idle time before an operation, in ns, from which on no earlier operation delayed it.
const GAP_NS: i64 = 5_000;

/// Shift of a device whose launch delay is constant and long, if most waits return early by about that delay and none
/// that surely waits for the device returns as its work ends. `launched` is sorted by delay.
pub(super) fn shift_by_constant_delay(launched: &[Launched], waits: &[i64], unsure: &[i64]) -> Option<Proof> {
    let least = lowest(launched.iter().map(Launched::delay), LEAST_PROVEN_NS)?;
    if least <= LEAST_PROVEN_NS || waits.iter().any(is_prompt) || !is_delay_constant(launched, least) {
        return None;
    }
    let all = [waits, unsure].concat();
    let agrees = |late: &&i64| (0..=MAX_RETURN_DELAY_NS).contains(&least.saturating_add(**late));
    let agreeing = all.iter().filter(agrees).count();
    if agreeing < MIN_OPERATIONS || 2 * agreeing < all.len() {
        return None;
    }
    proven_shift(launched, &all).filter(|proof| matches!(proof, Proof::Shift(by) if *by < 0))
}

/// Check if nine tenths of the operations on an idle device, and half of all launches, start after about the shortest
/// delay (`least` ns).
fn is_delay_constant(launched: &[Launched], least: i64) -> bool {
    let mut by_start: Vec<&Launched> = launched.iter().collect();
    by_start.sort_unstable_by_key(|l| (l.ran, l.call));
    let (mut idle, mut constant, mut busy_until) = (0, 0, i64::MIN);
    // A graph's later operations wait for earlier ones, not for the launch.
    let mut begun: FxHashSet<i64> = FxHashSet::default();
    for l in by_start {
        if begun.insert(l.id) && l.ran.0.saturating_sub(busy_until) >= GAP_NS {
            idle += 1;
            constant += usize::from((0..=SPREAD_NS).contains(&l.delay().saturating_sub(least)));
        }
        busy_until = busy_until.max(l.ran.1);
    }
    constant >= MIN_CONSTANT && 10 * constant >= 9 * idle && 2 * constant >= begun.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: i64 = 1_000;

    /// Launches every 15 µs with these delays in µs, and kernels of 4 µs.
    fn launched(delays: impl Iterator<Item = i64>) -> Vec<Launched> {
        let one = |(i, delay): (i64, i64)| {
            let call = i * 15 * US;
            let ran = (call + delay * US, call + (delay + 4) * US);
            Launched { id: i + 1, call: (call, call + 5 * US), ran }
        };
        let mut all: Vec<Launched> = (0..).zip(delays).map(one).collect();
        all.sort_by_key(Launched::delay);
        all
    }

    #[test]
    fn constant_delays_are_a_clock_ahead() {
        let constant = launched((0..60).map(|i| 304 + i % 2));
        // Waits return right after the work, which took 4 + 4 µs from its launch, if the clock is 300 µs ahead: the
        // launches require -304 µs at least, the waits -296 µs at most.
        assert_eq!(shift_by_constant_delay(&constant, &[], &[-296 * US; 6]), Some(Proof::Shift(-300 * US)));
        assert_eq!(shift_by_constant_delay(&constant, &[], &[-296 * US; 2]), None, "few waits");
        assert_eq!(shift_by_constant_delay(&constant, &[], &[]), None, "a remote device may have this delay");
        assert_eq!(shift_by_constant_delay(&constant, &[], &[3 * US; 6]), None, "and waits return after its work");
        assert_eq!(shift_by_constant_delay(&constant, &[3 * US], &[-296 * US; 6]), None, "a sure wait tells more");
        assert_eq!(shift_by_constant_delay(&constant, &[], &[-900 * US; 6]), None, "waits for much earlier work");
    }

    #[test]
    fn other_delays_are_no_evidence() {
        let waits = [-296 * US; 6];
        assert_eq!(shift_by_constant_delay(&launched((0..60).map(|i| 304 + i)), &[], &waits), None, "they vary");
        assert_eq!(shift_by_constant_delay(&launched((0..20).map(|_| 304)), &[], &waits), None, "few operations");
        assert_eq!(shift_by_constant_delay(&launched((0..60).map(|_| 8)), &[], &waits), None, "usual delays");
        // A full queue of equal kernels that last from one launch to the next: the device is never idle.
        let mut busy = launched((0..60).map(|_| 304));
        busy.iter_mut().for_each(|l| l.ran.1 += 10 * US);
        assert_eq!(shift_by_constant_delay(&busy, &[], &waits), None);
    }
}
