//! Begin of a recording as an environment variable, from which times such as `--after 30s` count in all of its
//! processes.

use std::fmt::{self, Display, Formatter};

/// Environment variable with the [`Begin`] of the recording.
pub const BEGIN: &str = "STACKLINE_BEGIN";

/// Identity of the monotonic clock: a hash of the kernel's boot id and of the time namespace, equal in processes that
/// share the clock. `None` if the system does not provide them.
#[must_use]
pub fn boot() -> Option<u64> {
    let id = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    // Older kernels have one clock for all namespaces.
    let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    let bytes = id.iter().chain(namespace.as_os_str().as_encoded_bytes());
    // FNV-1a.
    Some(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
}

/// Begin of a recording on the monotonic clock, with the [`boot`] of the clock. Text form `NS:BOOT`, in which the
/// boot has 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// `CLOCK_MONOTONIC`, in ns.
    pub monotonic_ns: i64,
    /// The boot of the process that read the clock.
    pub boot: u64,
}

impl Begin {
    /// Parse the text form `NS:BOOT` of a begin; `None` for other text, such as that of an older version without boot.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (ns, boot) = text.split_once(':')?;
        Some(Self { monotonic_ns: ns.parse().ok()?, boot: u64::from_str_radix(boot, 16).ok()? })
    }

    /// Begin of the recording in ns of this process's monotonic clock; `None` if it was read from the clock of another
    /// machine, boot or time namespace. Environment variables reach other machines, whose clocks are unrelated.
    #[must_use]
    pub fn begin_on_this_clock(self) -> Option<i64> {
        (boot() == Some(self.boot)).then_some(self.monotonic_ns)
    }
}

impl Display for Begin {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:016x}", self.monotonic_ns, self.boot)
    }
}

#[cfg(test)]
mod tests {
    use super::{Begin, boot};

    #[test]
    fn text_of_a_begin_survives() {
        let begin = Begin { monotonic_ns: 12_345_678_901, boot: 0x0abc };
        assert_eq!(begin.to_string(), "12345678901:0000000000000abc");
        assert_eq!(Begin::parse(&begin.to_string()), Some(begin));
        for wrong in ["", ":", "12345678901", "12345678901:", "1.5:0abc", "12345678901:boot", "1:10000000000000000"] {
            assert_eq!(Begin::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn begins_of_another_machine_are_rejected() {
        // Systems without a boot id accept none.
        let Some(boot) = boot() else { return };
        assert_eq!(Begin { monotonic_ns: 7, boot }.begin_on_this_clock(), Some(7));
        assert_eq!(Begin { monotonic_ns: 7, boot: !boot }.begin_on_this_clock(), None);
    }
}
