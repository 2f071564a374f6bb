//! Clock offset between an accelerator and the host, bounded by causality.

use serde::{Deserialize, Serialize};

/// Maximum latency in ns of the quickest launch of a trace, and of the quickest return from a wait. A bound of the
/// clock's difference on one side gives a bound on the other side with this distance.
const MAX_QUICKEST_LATENCY_NS: i64 = 20_000;
/// Usual latency in ns.
const USUAL_LATENCY_NS: i64 = 4_000;

/// Range of shifts of a device's times, in ns, that resolve contradictions with the host's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShiftRange {
    /// Smallest possible shift.
    pub least: i64,
    /// Likely shift: the quickest launch, or the quickest return from a wait, took the usual time.
    pub likely: i64,
    /// Largest possible shift.
    pub most: i64,
}

/// Bounds of one device's clock offset, by causality of the recorded times, and the shift that reading applied.
///
/// A shift is the time to *add* to the device's times. It is at least [`Self::least_ns`], because no operation starts
/// before its launch call, and at most [`Self::most_ns`], because a call that waited for an operation returns no sooner
/// than the operation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceClock {
    /// Device number (ROCm: agent id).
    pub device: i32,
    /// Number of operations with a launch call, which give the lower bound.
    pub launches: u64,
    /// Number of them that start before their call.
    pub early: u64,
    /// Number of calls that waited for operations of this device, which give the upper bound.
    pub waits: u64,
    /// Number of them that returned before the operations ended.
    pub late: u64,
    /// Lower bound of the shift in ns; negative if the shortest launch took that long. `None` without launches.
    pub least_ns: Option<i64>,
    /// Upper bound of the shift in ns. `None` without waits.
    pub most_ns: Option<i64>,
    /// Shift that was added to the device's times before any computation, in ns; 0 for recorded times. Counts and
    /// bounds above refer to recorded times.
    #[serde(default)]
    pub applied_ns: i64,
    /// Time in ns by which several launches and waits contradict every constant shift: the least shift by launches
    /// minus the largest one by waits, both without outliers. 0 without such a contradiction.
    #[serde(default)]
    pub contradicted_ns: i64,
}

impl DeviceClock {
    /// Create the clock offset of a device without any bounds yet.
    pub fn new(device: i32) -> Self {
        Self {
            device,
            launches: 0,
            early: 0,
            waits: 0,
            late: 0,
            least_ns: None,
            most_ns: None,
            applied_ns: 0,
            contradicted_ns: 0,
        }
    }

    /// Tighten the bounds by an operation that started `after` ns after its launch call (negative: before it).
    pub fn add_launch(&mut self, after: i64) {
        self.launches += 1;
        self.early += u64::from(after < 0);
        let bound = after.saturating_neg();
        self.least_ns = Some(self.least_ns.map_or(bound, |least| least.max(bound)));
    }

    /// Tighten the bounds by a call that returned `after` ns after the end of the awaited work (negative: before it).
    pub fn add_wait(&mut self, after: i64) {
        self.waits += 1;
        self.late += u64::from(after < 0);
        self.most_ns = Some(self.most_ns.map_or(after, |most| most.min(after)));
    }

    /// Bounds of the clock offset that remain after the shift that reading applied.
    #[must_use]
    pub fn after_shift(mut self) -> Self {
        let applied = std::mem::take(&mut self.applied_ns);
        self.least_ns = self.least_ns.map(|least| least.saturating_sub(applied));
        self.most_ns = self.most_ns.map(|most| most.saturating_sub(applied));
        self
    }

    /// True if no single shift satisfies both bounds: the clocks drift, or a record is wrong.
    pub fn is_contradictory(&self) -> bool {
        matches!((self.least_ns, self.most_ns), (Some(least), Some(most)) if least > most)
    }

    /// Range of shifts that make the recorded times possible. `None` if they already are, or without bounds. If no
    /// single shift satisfies both bounds (drift or noise), the range lies between them.
    #[must_use]
    pub fn shift_range(&self) -> Option<ShiftRange> {
        let (least, most) = match (self.least_ns, self.most_ns) {
            (None, None) => return None,
            (Some(least), None) => (least, least.max(0).saturating_add(MAX_QUICKEST_LATENCY_NS)),
            (None, Some(most)) => (most.min(0).saturating_sub(MAX_QUICKEST_LATENCY_NS), most),
            (Some(least), Some(most)) => (least.min(most), least.max(most)),
        };
        if self.is_contradictory() {
            return Some(ShiftRange { least, likely: 0.clamp(least, most), most });
        }
        let inside = USUAL_LATENCY_NS.min(most.saturating_sub(least) / 2);
        match () {
            () if least > 0 => {
                let most = most.min(least.saturating_add(MAX_QUICKEST_LATENCY_NS));
                Some(ShiftRange { least, likely: least.saturating_add(inside), most })
            }
            () if most < 0 => {
                let least = least.max(most.saturating_sub(MAX_QUICKEST_LATENCY_NS));
                Some(ShiftRange { least, likely: most.saturating_sub(inside), most })
            }
            () => None,
        }
    }

    /// Smallest shift in ns that makes every launch and every wait possible: 0 if the recorded times already do. `None`
    /// without bounds, or if no shift does.
    pub fn shift_ns(&self) -> Option<i64> {
        if self.is_contradictory() {
            return None;
        }
        match (self.least_ns, self.most_ns) {
            (None, None) => None,
            (Some(least), _) if least > 0 => Some(least),
            (_, Some(most)) if most < 0 => Some(most),
            _ => Some(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DeviceClock;

    #[test]
    fn the_least_shift_within_the_bounds() {
        let mut clock = DeviceClock::new(0);
        assert_eq!(clock.shift_ns(), None);
        clock.add_launch(7);
        assert_eq!((clock.least_ns, clock.shift_ns()), (Some(-7), Some(0)));
        clock.add_launch(-30);
        clock.add_launch(-10);
        assert_eq!((clock.launches, clock.early, clock.shift_ns()), (3, 2, Some(30)));
        clock.add_wait(90);
        clock.add_wait(45);
        assert_eq!((clock.least_ns, clock.most_ns, clock.shift_ns()), (Some(30), Some(45), Some(30)));
        clock.add_wait(20);
        assert_eq!((clock.is_contradictory(), clock.shift_ns()), (true, None));
        let shifted = DeviceClock { least_ns: Some(30), most_ns: Some(45), applied_ns: 30, ..clock }.after_shift();
        assert_eq!((shifted.least_ns, shifted.most_ns, shifted.applied_ns), (Some(0), Some(15), 0));
        assert_eq!(shifted.shift_ns(), Some(0), "the shift is not applied again");
        let mut ahead = DeviceClock::new(1);
        ahead.add_launch(500);
        ahead.add_wait(-40);
        assert_eq!((ahead.late, ahead.shift_ns()), (1, Some(-40)));
    }
}
