//! Memory peaks of devices, and the savings of a change at a peak.

/// Savings of a change at the highest peak of a device, by replay of its allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryGain {
    /// Likely savings in bytes, at the moment of the peak.
    pub bytes: u64,
    /// Reduction of the peak by this change alone, in bytes; lower if memory use is nearly as high at another time.
    pub lowers_bytes: u64,
    /// Lower bound of the reduction, from objects whose waste is certain.
    pub low_bytes: u64,
    /// Upper bound of the reduction.
    pub high_bytes: u64,
    /// Peak without the change, in bytes.
    pub peak_bytes: u64,
    /// Name of the device, such as `cuda:0`.
    pub device: String,
}

impl MemoryGain {
    /// Convert `bytes` to percent of the peak, at most 100.
    pub fn percent_of(&self, bytes: u64) -> f64 {
        (100.0 * bytes as f64 / self.peak_bytes.max(1) as f64).min(100.0)
    }

    /// Likely savings, in percent of the peak.
    pub fn percent(&self) -> f64 {
        self.percent_of(self.bytes)
    }
}

/// Highest memory peak of a device, and its size after the suggested changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePeak {
    /// Name of the device.
    pub device: String,
    /// Size of the peak in bytes.
    pub bytes: u64,
    /// Size after all compatible suggestions that are not ignored, by replay; none without records of memory
    /// accesses.
    pub mended_bytes: Option<u64>,
    /// Size after the suggestions among these that remove certain waste. Excludes recomputation and offload, whose
    /// objects are needed, and uncertain waste. None as above.
    pub needed_bytes: Option<u64>,
    /// The same, including uncertain waste.
    pub perhaps_needed_bytes: Option<u64>,
}

impl DevicePeak {
    /// Savings of all suggestions, in percent of the peak; `None` without records of memory accesses.
    pub fn saved_percent(&self) -> Option<f64> {
        Some(self.percent_above(self.mended_bytes?))
    }

    /// Certain waste, in percent of the peak; `None` without records of memory accesses.
    pub fn waste_percent(&self) -> Option<f64> {
        Some(self.percent_above(self.needed_bytes?))
    }

    /// Certain and uncertain waste, in percent of the peak; `None` without records of memory accesses.
    pub fn perhaps_waste_percent(&self) -> Option<f64> {
        Some(self.percent_above(self.perhaps_needed_bytes?))
    }

    /// Part of the peak above `left` bytes, in percent.
    fn percent_above(&self, left: u64) -> f64 {
        100.0 * self.bytes.saturating_sub(left) as f64 / self.bytes.max(1) as f64
    }
}
