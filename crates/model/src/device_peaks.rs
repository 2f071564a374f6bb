//! Peak rates of accelerators by product name, from the vendors' public data sheets.
//!
//! Rates are those of dense operands (without structured sparsity) at boost clock. They are per device in the runtime's
//! numbering, which is one of the two dies of AMD's MI250. `fp64` and `fp32` of AMD, and `fp64` of NVIDIA from A100 on,
//! are those of matrix units. 16-bit and 8-bit rates of GeForce are those with sums in 32 bits, as in PyTorch.
//!
//! Sources:
//!
//! * NVIDIA's data sheets of V100 (2020), T4 (2019), A10, A30, A40, A100 (2021 to 2022), L4, L40, L40S, H100 (2023),
//!   H100 NVL, H200, GH200, HGX B200 (2024).
//! * NVIDIA's whitepapers of the architectures GA102 (2020) and Ada (2022), for RTX 3090 and 4090.
//! * AMD's data sheets of MI210, MI250, MI250X (2021), MI300A, MI300X (2023), MI325X (2024), MI350X, MI355X (2025).
//! * Google's documentation of Cloud TPU v4, v5e, v5p, v6e (2025).

/// Peak rates of a device in flop/s, by number format. `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeakFlops {
    /// 64-bit floating point.
    pub fp64: Option<f64>,
    /// 32-bit floating point.
    pub fp32: Option<f64>,
    /// 32-bit operands of which 19 bits are used.
    pub tf32: Option<f64>,
    /// 16-bit floating point (IEEE half).
    pub fp16: Option<f64>,
    /// bfloat16.
    pub bf16: Option<f64>,
    /// 8-bit floating point.
    pub fp8: Option<f64>,
}

impl PeakFlops {
    /// Names of the number formats, which are also the names of the columns and JSON keys of their peak rates.
    pub const FORMATS: [&'static str; 6] = ["fp64", "fp32", "tf32", "fp16", "bf16", "fp8"];

    /// Peak rates in the order of the number formats [`Self::FORMATS`].
    pub fn rates(&self) -> [Option<f64>; 6] {
        [self.fp64, self.fp32, self.tf32, self.fp16, self.bf16, self.fp8]
    }

    /// Create peak rates from a list in the order of [`Self::FORMATS`], in flop/s. Numbers that are not positive and
    /// finite are dropped.
    pub(crate) fn from_rates(rates: [Option<f64>; 6]) -> Self {
        let [fp64, fp32, tf32, fp16, bf16, fp8] = rates.map(|rate| rate.filter(|rate| *rate > 0.0 && rate.is_finite()));
        Self { fp64, fp32, tf32, fp16, bf16, fp8 }
    }

    /// Peak rates of this accelerator, with missing ones taken from `others`.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        let (own, others) = (self.rates(), others.rates());
        Self::from_rates(std::array::from_fn(|format| own[format].or(others[format])))
    }

    /// True if no peak rate of the accelerator is known.
    pub fn is_empty(&self) -> bool {
        self.rates().iter().all(Option::is_none)
    }
}

/// Memory bandwidth and peak rates of an accelerator, by its data sheet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DataSheet {
    /// Memory bandwidth in bytes/s.
    pub memory_bandwidth: Option<f64>,
    /// Peak rates by number format.
    pub peak_flops: PeakFlops,
}

/// Product: required words in the name, excluded words, number of multiprocessors (0 if runtimes do not report it),
/// memory bandwidth in GB/s, and Tflop/s in the order of [`PeakFlops::FORMATS`]; 0 if the data sheet has none.
type Product = (&'static [&'static str], &'static [&'static str], i64, f64, [f64; 6]);

/// Products; the first match counts.
#[rustfmt::skip]
const PRODUCTS: &[Product] = &[
    (&["V100", "SXM2"],           &[],              80,   900.0, [7.8,   15.7,  0.0,    125.0,  0.0,    0.0]),
    (&["V100", "PCIE"],           &[],              80,   900.0, [7.0,   14.0,  0.0,    112.0,  0.0,    0.0]),
    (&["V100S"],                  &[],              80,  1134.0, [8.2,   16.4,  0.0,    130.0,  0.0,    0.0]),
    (&["T4"],                     &[],              40,   320.0, [0.0,   8.1,   0.0,    65.0,   0.0,    0.0]),
    (&["A100", "SXM4", "40GB"],   &[],             108,  1555.0, [19.5,  19.5,  156.0,  312.0,  312.0,  0.0]),
    (&["A100", "PCIE", "40GB"],   &[],             108,  1555.0, [19.5,  19.5,  156.0,  312.0,  312.0,  0.0]),
    (&["A100", "SXM4", "80GB"],   &[],             108,  2039.0, [19.5,  19.5,  156.0,  312.0,  312.0,  0.0]),
    (&["A100", "PCIE", "80GB"],   &[],             108,  1935.0, [19.5,  19.5,  156.0,  312.0,  312.0,  0.0]),
    (&["A100"],                   &[],             108,     0.0, [19.5,  19.5,  156.0,  312.0,  312.0,  0.0]),
    (&["A30"],                    &[],              56,   933.0, [10.3,  10.3,  82.0,   165.0,  165.0,  0.0]),
    (&["A10"],                    &[],              72,   600.0, [0.0,   31.2,  62.5,   125.0,  125.0,  0.0]),
    (&["A40"],                    &[],              84,   696.0, [0.0,   37.4,  74.8,   149.7,  149.7,  0.0]),
    (&["L4"],                     &[],              58,   300.0, [0.0,   30.3,  60.0,   121.0,  121.0,  242.5]),
    (&["L40"],                    &[],             142,   864.0, [0.0,   90.5,  90.5,   181.0,  181.0,  362.0]),
    (&["L40S"],                   &[],             142,   864.0, [0.0,   91.6,  183.0,  362.0,  362.0,  733.0]),
    (&["H100", "HBM3"],           &["NVL", "PCIE"], 132, 3350.0, [67.0,  67.0,  494.7,  989.4,  989.4,  1978.9]),
    (&["H100", "SXM5"],           &[],             132,  3350.0, [67.0,  67.0,  494.7,  989.4,  989.4,  1978.9]),
    (&["H100", "PCIE"],           &[],             114,  2000.0, [51.0,  51.0,  378.0,  756.0,  756.0,  1513.0]),
    (&["H100", "NVL"],            &[],             132,  3900.0, [60.0,  60.0,  417.5,  835.5,  835.5,  1670.5]),
    (&["H200", "NVL"],            &[],             132,  4800.0, [60.0,  60.0,  417.5,  835.5,  835.5,  1670.5]),
    (&["H200"],                   &[],             132,  4800.0, [67.0,  67.0,  494.7,  989.4,  989.4,  1978.9]),
    (&["GH200", "480GB"],         &[],             132,  4000.0, [67.0,  67.0,  494.7,  989.4,  989.4,  1978.9]),
    (&["B200"],                   &[],             148,  8000.0, [37.0,  75.0,  1125.0, 2250.0, 2250.0, 4500.0]),
    (&["RTX", "3090"],            &["TI"],          82,   936.0, [0.0,   35.6,  35.6,   71.0,   71.0,   0.0]),
    (&["RTX", "4090"],            &["D", "LAPTOP"], 128, 1008.0, [0.0,   82.6,  82.6,   165.2,  165.2,  330.3]),
    (&["MI210"],                  &[],             104,  1638.4, [45.3,  45.3,  0.0,    181.0,  181.0,  0.0]),
    (&["MI250X"],                 &["MI250"],      110,  1638.4, [47.85, 47.85, 0.0,    191.5,  191.5,  0.0]),
    (&["MI250"],                  &["MI250X"],     104,  1638.4, [45.25, 45.25, 0.0,    181.05, 181.05, 0.0]),
    (&["MI300A"],                 &[],             228,  5300.0, [122.6, 122.6, 490.3,  980.6,  980.6,  1961.2]),
    (&["MI300X"],                 &[],             304,  5325.0, [163.4, 163.4, 653.7,  1307.4, 1307.4, 2614.9]),
    (&["MI325X"],                 &[],             304,  6000.0, [163.4, 163.4, 653.7,  1307.4, 1307.4, 2614.9]),
    (&["MI350X"],                 &[],             256,  8000.0, [72.1,  144.2, 0.0,    2306.9, 2306.9, 4613.7]),
    (&["MI355X"],                 &[],             256,  8000.0, [78.6,  157.3, 0.0,    2516.6, 2516.6, 5033.2]),
    (&["TPU", "v4"],              &["LITE"],         0,     0.0, [0.0,   0.0,   0.0,    0.0,    275.0,  0.0]),
    (&["TPU", "v5e"],             &[],               0,     0.0, [0.0,   0.0,   0.0,    0.0,    197.0,  0.0]),
    (&["TPU", "v5", "lite"],      &[],               0,     0.0, [0.0,   0.0,   0.0,    0.0,    197.0,  0.0]),
    (&["TPU", "v5p"],             &[],               0,     0.0, [0.0,   0.0,   0.0,    0.0,    459.0,  0.0]),
    (&["TPU", "v6e"],             &[],               0,     0.0, [0.0,   0.0,   0.0,    0.0,    918.0,  0.0]),
    (&["TPU", "v6", "lite"],      &[],               0,     0.0, [0.0,   0.0,   0.0,    0.0,    918.0,  0.0]),
];

/// Word in the names of partitions of NVIDIA's products.
const PART: &str = "MIG";

impl DataSheet {
    /// Find the data sheet of a product by its name. None for a device with a different number of multiprocessors,
    /// which is a partition (MIG, partitions of MI300X).
    pub fn find(name: &str, multiprocessors: Option<i64>) -> Option<Self> {
        let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        let has = |word: &&str| words.iter().any(|own| own.eq_ignore_ascii_case(word));
        // The number of multiprocessors may be unknown.
        if has(&PART) {
            return None;
        }
        let fits = |product: &&Product| product.0.iter().all(has) && !product.1.iter().any(has);
        let &(_, _, whole, bandwidth, rates) = PRODUCTS.iter().find(fits)?;
        let is_part = whole > 0 && multiprocessors.is_some_and(|count| count != whole);
        let stated = |rate: f64, unit: f64| (rate > 0.0).then_some(rate * unit);
        let peak_flops = PeakFlops::from_rates(rates.map(|rate| stated(rate, 1e12)));
        (!is_part).then(|| Self { memory_bandwidth: stated(bandwidth, 1e9), peak_flops })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bf16_or_fp16(name: &str) -> Option<f64> {
        let peaks = DataSheet::find(name, None)?.peak_flops;
        peaks.bf16.or(peaks.fp16).map(|rate| (rate / 1e12 * 10.0).round() / 10.0)
    }

    #[test]
    fn products_are_found_by_their_driver_names() {
        for (name, tflops) in [
            ("NVIDIA H100 80GB HBM3", Some(989.4)),
            ("NVIDIA H100 PCIe", Some(756.0)),
            ("NVIDIA H100 NVL", Some(835.5)),
            ("NVIDIA H200", Some(989.4)),
            ("NVIDIA A100-SXM4-80GB", Some(312.0)),
            ("NVIDIA A100-PG509-200", Some(312.0)),
            ("Tesla V100-SXM2-16GB", Some(125.0)),
            ("Tesla T4", Some(65.0)),
            ("NVIDIA L4", Some(121.0)),
            ("NVIDIA L40S", Some(362.0)),
            ("NVIDIA A10", Some(125.0)),
            ("NVIDIA GeForce RTX 3090", Some(71.0)),
            ("NVIDIA GeForce RTX 4090", Some(165.2)),
            ("NVIDIA B200", Some(2250.0)),
            ("AMD Instinct MI300X VF", Some(1307.4)),
            ("AMD Instinct MI325X", Some(1307.4)),
            ("AMD Instinct MI250X", Some(191.5)),
            ("TPU v5 lite", Some(197.0)),
            ("TPU v6e", Some(918.0)),
        ] {
            assert_eq!(bf16_or_fp16(name), tflops, "{name}");
        }
    }

    #[test]
    fn unknown_products_and_partitions_have_no_rates() {
        for name in [
            "NVIDIA A10G",
            "NVIDIA H100",
            "NVIDIA GeForce RTX 3090 Ti",
            "NVIDIA GeForce RTX 4090 D",
            "NVIDIA GeForce RTX 4090 Laptop GPU",
            "AMD Instinct MI250X/MI250",
            "AMD Radeon Graphics",
            "TPU v4 lite",
            "ARTEMIS",
            "",
        ] {
            assert_eq!(DataSheet::find(name, None), None, "{name}");
        }
        assert!(DataSheet::find("NVIDIA A100-SXM4-40GB", Some(108)).is_some());
        for multiprocessors in [Some(14), None] {
            assert_eq!(DataSheet::find("NVIDIA A100-SXM4-40GB MIG 1g.5gb", multiprocessors), None);
        }
    }

    #[test]
    fn unsupported_formats_are_none_instead_of_zero() {
        let v100 = DataSheet::find("Tesla V100-SXM2-32GB", Some(80)).unwrap();
        assert_eq!((v100.peak_flops.tf32, v100.peak_flops.bf16, v100.peak_flops.fp8), (None, None, None));
        assert_eq!(v100.memory_bandwidth, Some(9e11));
        for (name, .., rates) in PRODUCTS {
            assert!(rates.iter().any(|rate| *rate > 0.0), "{name:?}");
        }
        let stated = PeakFlops { bf16: Some(1e15), ..PeakFlops::default() };
        let all = stated.or(v100.peak_flops);
        assert_eq!((all.bf16, all.fp16), (Some(1e15), Some(1.25e14)));
        assert_eq!(
            PeakFlops::from_rates([Some(0.0), Some(-1.0), Some(f64::NAN), None, None, None]),
            PeakFlops::default()
        );
    }

    /// In matrix units, each narrower format is at least as fast as the next wider one.
    #[test]
    fn narrower_formats_are_not_slower() {
        for (name, .., rates) in PRODUCTS {
            let known: Vec<f64> = rates.iter().copied().filter(|rate| *rate > 0.0).collect();
            assert!(known.is_sorted(), "{name:?}: {known:?}");
        }
    }
}
