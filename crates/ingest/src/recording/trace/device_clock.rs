//! Conversion of a device's times to the host's clock, by readings of both clocks.

use super::times::MAX_NS;
use stackline_recording::ClockReading;

/// Readings of a device's clock, ascending. The offset of the clocks is interpolated between two readings, which
/// corrects drift, and constant before the first and after the last one. Without readings, times stay as recorded.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceClock {
    /// Times of the device and of the host in ns.
    readings: Vec<(i64, i64)>,
}

impl DeviceClock {
    /// Clock with these readings, in any order.
    pub(super) fn new<'r>(readings: impl Iterator<Item = &'r ClockReading>) -> Self {
        let mut readings: Vec<(i64, i64)> = readings.map(|reading| (reading.device_ns, reading.host_ns)).collect();
        readings.sort_unstable();
        readings.dedup_by_key(|&mut (device_ns, _)| device_ns);
        Self { readings }
    }

    /// Time of the host, in ns, at a time of the device.
    pub(super) fn host_ns(&self, device_ns: i64) -> i64 {
        let next = self.readings.partition_point(|&(at, _)| at <= device_ns);
        let before = next.checked_sub(1).and_then(|before| self.readings.get(before));
        let host_ns = match (before, self.readings.get(next)) {
            (None, None) => device_ns,
            (Some(&(at, host_ns)), None) | (None, Some(&(at, host_ns))) => {
                device_ns.saturating_sub(at).saturating_add(host_ns)
            }
            (Some(&from), Some(&to)) => interpolate(from, to, device_ns),
        };
        host_ns.clamp(-MAX_NS, MAX_NS)
    }
}

/// Time of the host on the line through two readings with different times of the device, between which `device_ns` is.
fn interpolate((from, from_host): (i64, i64), (to, to_host): (i64, i64), device_ns: i64) -> i64 {
    let difference = |a: i64, b: i64| i128::from(a) - i128::from(b);
    let passed = difference(device_ns, from) * difference(to_host, from_host) / difference(to, from).max(1);
    i64::try_from(i128::from(from_host) + passed).unwrap_or(from_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn clock(readings: &[(i64, i64)]) -> DeviceClock {
        let reading = |&(device_ns, host_ns): &(i64, i64)| ClockReading { device: 0, device_ns, host_ns, error_ns: 0 };
        let readings: Vec<ClockReading> = readings.iter().map(reading).collect();
        DeviceClock::new(readings.iter())
    }

    #[test]
    fn offsets_are_interpolated_between_readings() {
        // The device's clock is 5 s late and loses 100 µs per second.
        let clock = clock(&[(2 * S, 7 * S + 100_000), (S, 6 * S)]);
        for (device_ns, host_ns) in [
            (0, 5 * S),
            (S, 6 * S),
            (S + S / 2, 6 * S + S / 2 + 50_000),
            (2 * S, 7 * S + 100_000),
            (4 * S, 9 * S + 100_000),
        ] {
            assert_eq!(clock.host_ns(device_ns), host_ns, "{device_ns}");
        }
    }

    #[test]
    fn times_without_readings_stay() {
        assert_eq!(clock(&[]).host_ns(-7), -7);
        assert_eq!(clock(&[(5, 100)]).host_ns(-7), 88);
        assert_eq!(clock(&[(5, 100), (5, 300)]).host_ns(6), 101, "equal times of the device have one reading");
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let extreme = clock(&[(-MAX_NS, MAX_NS), (MAX_NS, -MAX_NS)]);
        assert_eq!([-MAX_NS, 0, MAX_NS].map(|at| extreme.host_ns(at)), [MAX_NS, 0, -MAX_NS]);
        assert_eq!(clock(&[(-MAX_NS, MAX_NS)]).host_ns(MAX_NS), MAX_NS);
    }
}
