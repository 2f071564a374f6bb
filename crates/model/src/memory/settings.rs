//! Settings of a caching allocator, as PyTorch has them.

use serde::{Deserialize, Serialize};

/// Least size of a block, and divisor of all sizes.
const GRANULE: u64 = 512;

/// Exponent of the size up to which sizes share one number of divisions; from then on each doubling has its own.
const FIRST_INTERVAL: u32 = 20;

/// Settings in a snapshot; by default those of PyTorch without `PYTORCH_CUDA_ALLOC_CONF`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryAllocatorSettings {
    /// `expandable_segments`.
    pub expandable: bool,
    /// `roundup_power2_divisions`: number of parts between two powers of two, below 2 MiB, below 4 MiB and so on; the
    /// last one for all larger sizes. With 0 and 1, sizes are only rounded to 512 bytes.
    pub divisions: [u32; 16],
}

impl MemoryAllocatorSettings {
    /// Size in bytes that the allocator gives to a request after rounding, if its block is split as small as possible.
    pub fn round(&self, bytes: u64) -> u64 {
        if bytes <= GRANULE {
            return GRANULE;
        }
        let interval = bytes.ilog2().saturating_sub(FIRST_INTERVAL) as usize;
        let divisions = self.divisions[interval.min(self.divisions.len() - 1)];
        let step = if divisions > 1 && bytes > GRANULE * u64::from(divisions) {
            (1 << bytes.ilog2()) >> divisions.ilog2()
        } else {
            GRANULE
        };
        bytes.div_ceil(step).saturating_mul(step)
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryAllocatorSettings;

    /// Example of PyTorch's documentation: 1200 with 4 divisions is 1280, of sizes 1024, 1280, 1536, 1792 and 2048.
    /// So few bytes are not divided, so the test uses KiB.
    #[test]
    fn sizes_between_powers_of_two_are_divided() {
        let plain = MemoryAllocatorSettings::default();
        let four = MemoryAllocatorSettings { divisions: [4; 16], ..plain };
        assert_eq!(four.round(1200 << 10), 1280 << 10);
        assert_eq!(four.round(1280 << 10), 1280 << 10);
        assert_eq!(four.round((1792 << 10) + 1), 2048 << 10);
        assert_eq!([four.round(1), four.round(513), four.round(2048), four.round(2049)], [512, 1024, 2048, 2560]);
        assert_eq!([plain.round(0), plain.round(1200 << 10), plain.round(2049)], [512, 1200 << 10, 2560]);
        let mut large = plain;
        large.divisions[3] = 2;
        assert_eq!([7 << 20, 9 << 20, 13 << 20, 17 << 20].map(|size| large.round(size) >> 20), [7, 12, 16, 17]);
        assert!(four.round(u64::MAX) >= u64::MAX - 1);
    }
}
