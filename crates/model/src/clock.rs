//! How far the clock of an accelerator may be from the host's, by what must have happened first.

use serde::{Deserialize, Serialize};

/// What causality says of one device's clock, as recorded, and the shift that reading applied.
///
/// A shift is what would have to be *added* to the device's times. It cannot be less than [`Self::least_ns`], for no
/// operation starts before the call that launches it does, nor more than [`Self::most_ns`], for a call that waited for
/// an operation returns no sooner than the operation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceClock {
    /// Device number (ROCm: agent id).
    pub device: i32,
    /// Operations with a launch call: what the lower bound comes from.
    pub launches: u64,
    /// Those of them that start before their call does.
    pub early: u64,
    /// Calls that waited for operations of this device: what the upper bound comes from.
    pub waits: u64,
    /// Those of them that returned before the operations ended.
    pub late: u64,
    /// Lower bound of the shift in ns; negative where the shortest launch took that long. `None` without launches.
    pub least_ns: Option<i64>,
    /// Upper bound of the shift in ns. `None` without waits.
    pub most_ns: Option<i64>,
    /// What was added to the device's times before anything was computed, in ns; 0 where they are as recorded. Counts and
    /// bounds above are about times as recorded.
    #[serde(default)]
    pub applied_ns: i64,
}

impl DeviceClock {
    /// No bounds yet.
    pub fn new(device: i32) -> Self {
        Self { device, launches: 0, early: 0, waits: 0, late: 0, least_ns: None, most_ns: None, applied_ns: 0 }
    }

    /// Takes in that an operation started `after` ns after its launch call did (negative: before it).
    pub fn launched(&mut self, after: i64) {
        self.launches += 1;
        self.early += u64::from(after < 0);
        let bound = after.saturating_neg();
        self.least_ns = Some(self.least_ns.map_or(bound, |least| least.max(bound)));
    }

    /// Takes in that a call returned `after` ns after what it waited for had ended (negative: before that).
    pub fn waited(&mut self, after: i64) {
        self.waits += 1;
        self.late += u64::from(after < 0);
        self.most_ns = Some(self.most_ns.map_or(after, |most| most.min(after)));
    }

    /// Whether no single shift satisfies both bounds: the clocks drift, or a record is wrong.
    pub fn is_contradictory(&self) -> bool {
        matches!((self.least_ns, self.most_ns), (Some(least), Some(most)) if least > most)
    }

    /// The shift of least size in ns that makes every launch and every wait possible: 0 where the recorded times are.
    /// `None` where nothing bounds it, or no shift does.
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
        clock.launched(7);
        assert_eq!((clock.least_ns, clock.shift_ns()), (Some(-7), Some(0)));
        clock.launched(-30);
        clock.launched(-10);
        assert_eq!((clock.launches, clock.early, clock.shift_ns()), (3, 2, Some(30)));
        clock.waited(90);
        clock.waited(45);
        assert_eq!((clock.least_ns, clock.most_ns, clock.shift_ns()), (Some(30), Some(45), Some(30)));
        clock.waited(20);
        assert_eq!((clock.is_contradictory(), clock.shift_ns()), (true, None));
        let mut ahead = DeviceClock::new(1);
        ahead.launched(500);
        ahead.waited(-40);
        assert_eq!((ahead.late, ahead.shift_ns()), (1, Some(-40)));
    }
}
