//! Shifts of less than a millisecond that causality proves: several launches begin after their operations, or several
//! waits return before their work ends.
//!
//! Real traces whose clocks agree violate causality by up to 20 µs, because drivers convert times with such errors.
//! Their times stay as recorded.

use super::device_shift::{LEAST_NS, LINKED, Launched, MAX_RETURN_DELAY_NS, MIN_OPERATIONS, confirm, is_prompt};
use rustc_hash::FxHashSet;
use stackline_model::DeviceClock;

/// Violations of causality up to this time, in ns, prove nothing.
pub(super) const LEAST_PROVEN_NS: i64 = 30_000;

/// Shift of a device's clock that launches and waits prove, or the contradiction between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Shift that agrees with both, in ns.
    Shift(i64),
    /// The shift of `least` ns or more that launches require is larger than the one of `most` ns that waits allow.
    Contradiction { least: i64, most: i64 },
}

/// Shift that causality proves; `None` if the times are possible, or without enough evidence. `launched` is sorted by
/// delay, and `waits` has the delays of waits' returns after the end of their work.
pub(super) fn proven_shift(launched: &[Launched], waits: &[i64]) -> Option<Proof> {
    let mut returns = waits.to_vec();
    returns.sort_unstable();
    let least = lowest(launched.iter().map(Launched::delay), LEAST_PROVEN_NS)?.saturating_neg();
    let most = lowest(returns.iter().copied(), LEAST_PROVEN_NS);
    // Violations that were taken for outliers prove nothing.
    let is_small = |ns: i64| (LEAST_PROVEN_NS + 1..=LEAST_NS).contains(&ns);
    let is_behind = is_small(least) && are_early(launched);
    let is_ahead = has_several_calls(launched.iter())
        && most.is_some_and(|most| is_small(most.saturating_neg()) && are_late(&returns, least, most));
    if !is_behind && !is_ahead {
        return None;
    }
    match most.filter(|&most| least > most.saturating_add(LEAST_PROVEN_NS)) {
        Some(most) => Some(Proof::Contradiction { least, most }),
        None => {
            let clock = DeviceClock { least_ns: Some(least), most_ns: most, ..DeviceClock::new(0) };
            clock.shift_range().map(|range| Proof::Shift(range.likely))
        }
    }
}

/// Check if several launches begin after their operations: at least one in a hundred, and not less than those that begin
/// right before. Fewer may be wrong records.
fn are_early(launched: &[Launched]) -> bool {
    let early = || launched.iter().filter(|l| l.delay() < -LEAST_PROVEN_NS);
    let prompt = launched.iter().filter(|l| l.delay().saturating_abs() <= LEAST_PROVEN_NS).count();
    has_several_calls(early()) && early().count() * 100 >= launched.len() && early().count() >= prompt
}

/// Check if the operations have launch calls with at least [`LINKED`] different correlation IDs.
fn has_several_calls<'a>(launched: impl Iterator<Item = &'a Launched>) -> bool {
    launched.map(|l| l.id).collect::<FxHashSet<i64>>().len() >= LINKED
}

/// Check if several waits return before their work ends, and fewer return promptly after it. A single wait is enough if
/// the launches show the same difference.
fn are_late(returns: &[i64], least: i64, most: i64) -> bool {
    let late = returns.iter().filter(|&&late| late < -LEAST_PROVEN_NS).count();
    let agrees = (0..=MAX_RETURN_DELAY_NS).contains(&most.saturating_sub(least)) && !returns.iter().any(is_prompt);
    late >= MIN_OPERATIONS && !confirm(returns, LEAST_PROVEN_NS) || late > 0 && agrees
}

/// Lowest of sorted values without outliers, which are separated by more than `apart`: one record, or one in a hundred,
/// may be wrong.
pub(super) fn lowest(mut sorted: impl ExactSizeIterator<Item = i64> + Clone, apart: i64) -> Option<i64> {
    let odd = (sorted.len() / 100).max(usize::from(sorted.len() >= 10));
    let low = sorted.clone().nth(odd)?;
    sorted.find(|&value| value >= low.saturating_sub(apart))
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: i64 = 1_000;

    /// Launches every 100 µs with these delays in µs, and kernels of 10 µs.
    fn launched(delays: &[i64]) -> Vec<Launched> {
        let one = |(i, &delay): (usize, &i64)| {
            let call = i as i64 * 100 * US;
            let ran = (call + delay * US, call + (delay + 10) * US);
            Launched { id: i as i64 + 1, call: (call, call + 5 * US), ran }
        };
        let mut all: Vec<Launched> = delays.iter().enumerate().map(one).collect();
        all.sort_by_key(Launched::delay);
        all
    }

    #[test]
    fn launches_and_waits_bound_small_shifts() {
        // 395 µs behind: the quickest launch takes 8 µs, and the quickest wait returns 5 µs after its work.
        let behind = launched(&[-387, -387, -380, -300, 100]);
        assert_eq!(proven_shift(&behind, &[]), Some(Proof::Shift(391 * US)));
        assert_eq!(proven_shift(&behind, &[400 * US, 402 * US]), Some(Proof::Shift(391 * US)));
        // 395 µs ahead.
        let ahead = launched(&[403, 403, 410, 900]);
        assert_eq!(proven_shift(&ahead, &[-390 * US; 3]), Some(Proof::Shift(-394 * US)));
        assert_eq!(proven_shift(&ahead, &[-390 * US]), Some(Proof::Shift(-394 * US)), "the launches show the same");
        let busy = launched(&[900, 903, 910, 950]);
        assert_eq!(proven_shift(&busy, &[-390 * US]), None, "one wait may be odd");
        assert_eq!(proven_shift(&busy, &[-390 * US; 3]), Some(Proof::Shift(-394 * US)));
        assert_eq!(proven_shift(&busy, &[-390 * US, -390 * US, -390 * US, 3, 3, 3, 3]), None, "most are prompt");
    }

    #[test]
    fn noise_and_outliers_prove_nothing() {
        assert_eq!(proven_shift(&launched(&[-20; 50]), &[-20 * US; 50]), None, "as in real traces");
        assert_eq!(proven_shift(&launched(&[-300, -300, 8, 8, 8]), &[]), None, "two of them");
        let few = [[-300; 3].as_slice(), &[8; 400]].concat();
        assert_eq!(proven_shift(&launched(&few), &[]), None, "less than one in a hundred");
        let some = [[-300; 6].as_slice(), &[8; 40]].concat();
        assert_eq!(proven_shift(&launched(&some), &[]), None, "more begin right before their operations");
        let mut graph = launched(&[8, 20, 30, 40]);
        graph.iter_mut().for_each(|l| l.id = 1);
        assert_eq!(proven_shift(&graph, &[-390 * US; 3]), None, "operations of one call");
        let one = [[-900].as_slice(), &[-387; 20]].concat();
        assert_eq!(proven_shift(&launched(&one), &[]), Some(Proof::Shift(391 * US)), "one may be wrong");
        // Three of 300 are one in a hundred, so they may be wrong, and the others prove nothing.
        let early = launched(&[[-40; 3].as_slice(), &[2_000; 297]].concat());
        assert_eq!(proven_shift(&early, &[-15 * US; 3]), None, "the shift would have the wrong direction");
        let late = [[-40 * US; 3].as_slice(), &[2_000 * US; 297]].concat();
        assert_eq!(proven_shift(&launched(&[-15; 20]), &late), None);
    }

    #[test]
    fn launches_and_waits_contradict_each_other_where_the_clock_drifts() {
        let behind = launched(&[-387, -387, -380, -300, 100]);
        let found = proven_shift(&behind, &[200 * US, 210 * US, 900 * US]);
        assert_eq!(found, Some(Proof::Contradiction { least: 387 * US, most: 200 * US }));
        let sound = launched(&[8, 8, 9, 9]);
        let found = proven_shift(&sound, &[-390 * US; 3]);
        assert_eq!(found, Some(Proof::Contradiction { least: -8 * US, most: -390 * US }));
    }
}
