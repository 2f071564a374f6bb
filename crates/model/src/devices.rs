//! Accelerators as a source describes them: product, vendor, sizes and peak rates.

use crate::{DataSheet, PeakFlops, TraceMeta};
use serde_json::Value;

/// Key of the metadata entry that describes devices, a JSON list with Kineto's keys. Sources of other formats write the
/// same entry, with [`MEMORY_BANDWIDTH`] and [`CLOCK_RATE`] if known.
pub const DEVICE_PROPERTIES: &str = "deviceProperties";
/// Key of a device's peak memory bandwidth in bytes/s.
pub const MEMORY_BANDWIDTH: &str = "memoryBandwidth";
/// Key of a device's highest clock in Hz.
pub const CLOCK_RATE: &str = "clockRate";
/// Key of a device's peak rates in flop/s: an object with the names of [`PeakFlops::FORMATS`].
pub const PEAK_FLOPS: &str = "peakFlops";
/// Key of a device's vendor, if its name does not show it.
pub const VENDOR: &str = "vendor";

/// Vendor of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
    /// Google.
    Google,
}

impl Vendor {
    /// Name of the accelerator's vendor.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nvidia => "NVIDIA",
            Self::Amd => "AMD",
            Self::Google => "Google",
        }
    }

    /// Detect an accelerator's vendor in a product name, or in a source's text about the vendor. `None` if the text
    /// fits no vendor, or several.
    pub fn from_name(name: &str) -> Option<Self> {
        let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        // Drivers before 2021 report NVIDIA's products without the vendor: `A100-SXM4-40GB`, `Quadro RTX 8000`, `GRID
        // V100D-8Q`.
        let nvidia = ["NVIDIA", "Nvidia", "Tesla", "GeForce", "Quadro", "TITAN", "A100-", "GRID "];
        match [has(&nvidia), has(&["AMD", "Instinct", "Radeon"]), has(&["Google", "TPU"])] {
            [true, false, false] => Some(Self::Nvidia),
            [false, true, false] => Some(Self::Amd),
            [false, false, true] => Some(Self::Google),
            _ => None,
        }
    }
}

/// Accelerator. Unknown values are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Number of the device in events.
    pub number: Option<i64>,
    /// Product name: `NVIDIA H100`.
    pub name: Option<String>,
    /// Vendor.
    pub vendor: Option<Vendor>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Streaming multiprocessors (NVIDIA) or compute units (AMD).
    pub multiprocessors: Option<i64>,
    /// Threads of a warp (NVIDIA) or work-items of a wavefront (AMD).
    pub warp_size: Option<i64>,
    /// Compute capability: major and minor. AMD's devices have one in traces of PyTorch, too.
    pub compute_capability: Option<(i64, i64)>,
    /// Peak memory bandwidth in bytes/s, by the source.
    pub memory_bandwidth: Option<f64>,
    /// Highest clock in Hz.
    pub clock_rate: Option<f64>,
    /// Peak rates by number format, by the source.
    pub peak_flops: PeakFlops,
}

impl Device {
    /// Read one element of [`DEVICE_PROPERTIES`]. Numbers of zero or below, and empty names, are dropped.
    fn from_json(properties: &Value) -> Self {
        let positive = |key: &str| properties[key].as_i64().filter(|number| *number > 0);
        let rate = |key: &str| properties[key].as_f64().filter(|rate| *rate > 0.0 && rate.is_finite());
        let text = |key: &str| properties[key].as_str().filter(|text| !text.trim().is_empty());
        let name = text("name");
        let peak = |format: &str| properties[PEAK_FLOPS][format].as_f64();
        let capability =
            positive("computeMajor").map(|major| (major, properties["computeMinor"].as_i64().unwrap_or(0)));
        Self {
            number: properties["id"].as_i64(),
            name: name.map(str::to_owned),
            vendor: text(VENDOR).and_then(Vendor::from_name).or_else(|| name.and_then(Vendor::from_name)),
            memory_bytes: properties["totalGlobalMem"].as_u64().filter(|bytes| *bytes > 0),
            multiprocessors: positive("numSms"),
            warp_size: positive("warpSize"),
            compute_capability: capability,
            memory_bandwidth: rate(MEMORY_BANDWIDTH),
            clock_rate: rate(CLOCK_RATE),
            peak_flops: PeakFlops::from_rates(PeakFlops::FORMATS.map(peak)),
        }
    }

    /// Built-in data sheet of the product, by its name and number of multiprocessors; `None` for unknown products.
    pub fn data_sheet(&self) -> Option<DataSheet> {
        DataSheet::find(self.name.as_deref()?, self.multiprocessors)
    }

    /// True if the device's product name contains one of these parts.
    pub fn is_named(&self, parts: &[&str]) -> bool {
        self.name.as_deref().is_some_and(|name| parts.iter().any(|part| name.contains(part)))
    }
}

impl TraceMeta {
    /// Devices in the source, in its order. Empty if it describes none, or not as a JSON list of objects.
    pub fn devices(&self) -> Vec<Device> {
        let list = self.entry(DEVICE_PROPERTIES).and_then(|text| serde_json::from_str::<Vec<Value>>(text).ok());
        list.unwrap_or_default().iter().filter(|device| device.is_object()).map(Device::from_json).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(text: &str) -> Vec<Device> {
        let entries = vec![(DEVICE_PROPERTIES.to_owned(), text.to_owned())];
        TraceMeta { entries, ..TraceMeta::default() }.devices()
    }

    #[test]
    fn properties_of_kineto_and_of_other_sources_are_read() {
        let kineto = r#"[{"id":1,"name":"NVIDIA H100","totalGlobalMem":102085492736,"computeMajor":9,"computeMinor":0,
            "warpSize":32,"numSms":132}]"#;
        let expected = Device {
            number: Some(1),
            name: Some("NVIDIA H100".to_owned()),
            vendor: Some(Vendor::Nvidia),
            memory_bytes: Some(102_085_492_736),
            multiprocessors: Some(132),
            warp_size: Some(32),
            compute_capability: Some((9, 0)),
            ..Device::default()
        };
        assert_eq!(devices(kineto), [expected]);
        let other = r#"[{"id":0,"vendor":"AMD","memoryBandwidth":2.6624e12,"clockRate":2100000000,"peakFlops":{"bf16":1e15,
            "fp8":0}}]"#;
        let [other] = &devices(other)[..] else { panic!("one device") };
        assert_eq!(other.peak_flops, PeakFlops { bf16: Some(1e15), ..PeakFlops::default() });
        assert_eq!((other.vendor, other.name.as_deref()), (Some(Vendor::Amd), None));
        assert_eq!((other.memory_bandwidth, other.clock_rate), (Some(2.6624e12), Some(2.1e9)));
    }

    #[test]
    fn missing_properties_are_none() {
        let empty = r#"[{"name":" ","numSms":0,"warpSize":-1,"totalGlobalMem":0,"memoryBandwidth":0}]"#;
        assert_eq!(devices(empty), [Device::default()]);
        assert_eq!(devices("[]"), []);
        assert_eq!(devices(r#"["H100", 7]"#), []);
        assert_eq!(devices("{}"), []);
        assert_eq!(devices("[{"), []);
    }

    #[test]
    fn vendors_follow_from_products() {
        for (name, vendor) in [
            ("NVIDIA GeForce RTX 2080 Ti", Some(Vendor::Nvidia)),
            ("Tesla V100-DGXS-32GB", Some(Vendor::Nvidia)),
            ("AMD Radeon Graphics", Some(Vendor::Amd)),
            ("Quadro RTX 8000", Some(Vendor::Nvidia)),
            ("TITAN V", Some(Vendor::Nvidia)),
            ("A100-SXM4-40GB", Some(Vendor::Nvidia)),
            ("GRID V100D-8Q", Some(Vendor::Nvidia)),
            ("TPU v5 lite", Some(Vendor::Google)),
            ("ARTEMIS", None),
            ("NVIDIA, AMD", None),
        ] {
            assert_eq!(Vendor::from_name(name), vendor, "{name}");
        }
    }
}
