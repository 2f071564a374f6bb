//! Devices of the input, one row per device: product, sizes, clock, and peak rates.
//!
//! Rates come from the input; missing ones come from the product's data sheet ([`stackline_model::DataSheet`]), if the
//! name matches one.

use crate::{Analysis, Display, TableCommand};
use stackline_model::{Device, PeakFlops, Table, Trace, Unit};
use stackline_timeline::{DefaultWindow, Scope};

/// The registered analysis.
pub(super) const ANALYSIS: Analysis = Analysis {
    name: "devices",
    about: "Devices with memory size, clock, memory bandwidth and peak rates by number format",
    tables: &["devices"],
    window: DefaultWindow::Own,
    commands: &[TableCommand::Timeline],
    display: Display::Except(&["devices"]),
    run,
};

/// A device with its peak rates.
struct Row {
    device: Device,
    /// Memory bandwidth in bytes/s.
    memory_bandwidth: Option<f64>,
    peak_flops: PeakFlops,
    /// Source of the rates.
    source: Option<&'static str>,
}

impl Row {
    /// Complete the peak rates of a device from its data sheet, and note the source of the rates.
    fn new(device: Device) -> Self {
        let sheet = device.data_sheet().unwrap_or_default();
        let memory_bandwidth = device.memory_bandwidth.or(sheet.memory_bandwidth);
        let peak_flops = device.peak_flops.or(sheet.peak_flops);
        let is_stated = device.memory_bandwidth.is_some() || !device.peak_flops.is_empty();
        let is_added = memory_bandwidth != device.memory_bandwidth || peak_flops != device.peak_flops;
        let source = match (is_stated, is_added) {
            (true, true) => Some("trace and data sheet"),
            (true, false) => Some("trace"),
            (false, true) => Some("data sheet"),
            (false, false) => None,
        };
        Self { device, memory_bandwidth, peak_flops, source }
    }
}

/// Create table `devices` for the whole trace; with a note instead of rows if the input describes no device.
fn run(trace: &Trace, _: &Scope) -> Vec<Table> {
    let rows: Vec<Row> = trace.meta.devices().into_iter().map(Row::new).collect();
    let table = table(&rows);
    vec![if rows.is_empty() { table.note("The input describes no device.") } else { table }]
}

/// Create table `devices`: one row per device.
fn table(rows: &[Row]) -> Table {
    let devices = || rows.iter().map(|row| &row.device);
    let capability = |device: &Device| device.compute_capability.map(|(major, minor)| format!("{major}.{minor}"));
    let table = Table::new("devices", "Devices and their peak rates (dense, without sparsity)")
        .i64("device", Unit::None, devices().map(|device| device.number))
        .text("name", devices().map(|device| device.name.clone()))
        .text("vendor", devices().map(|device| device.vendor.map(|vendor| vendor.name().to_owned())))
        .i64("memory_bytes", Unit::Bytes, devices().map(|device| i64::try_from(device.memory_bytes?).ok()))
        .i64("multiprocessors", Unit::None, devices().map(|device| device.multiprocessors))
        .text("compute_capability", devices().map(capability))
        .f64("clock_mhz", Unit::None, devices().map(|device| device.clock_rate.map(|hz| hz / 1e6)))
        .f64("memory_bandwidth", Unit::GBps, rows.iter().map(|row| row.memory_bandwidth.map(|rate| rate / 1e9)));
    let with_rates = (0..PeakFlops::FORMATS.len()).fold(table, |table, format| {
        let tflops = |row: &Row| row.peak_flops.rates()[format].map(|rate| rate / 1e12);
        table.f64(&format!("{}_tflops", PeakFlops::FORMATS[format]), Unit::None, rows.iter().map(tflops))
    });
    with_rates.text("rates_from", rows.iter().map(|row| row.source.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::Values;
    use stackline_testkit::mini;

    fn numbers(table: &Table, column: &str) -> Vec<Option<f64>> {
        match &table.column(column).unwrap().values {
            Values::F64(values) => values.clone(),
            Values::I64(values) => values.iter().map(|value| value.map(|value| value as f64)).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn data_sheet_rates_are_used_unless_recorded() {
        let devices = r#"[{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85000000000, "numSms": 108, "computeMajor": 8},
            {"id": 1, "name": "ARTEMIS", "numSms": 0}, {"id": 2, "name": "TPU v5 lite", "peakFlops": {"bf16": 2e14}},
            {"id": 3, "name": "NVIDIA L4", "peakFlops": {"bf16": 1.2e14}}]"#;
        let json = mini::trace(&format!("file deviceProperties={}\n1/1 cpu_op f 0..1", devices.replace('\n', " ")));
        let trace = stackline_ingest::read_bytes("t", json.as_bytes(), &Default::default()).unwrap();
        let table = &run(&trace, &Scope::default())[0];
        assert_eq!(numbers(table, "fp64_tflops"), [Some(19.5), None, None, None]);
        assert_eq!(numbers(table, "bf16_tflops"), [Some(312.0), None, Some(200.0), Some(120.0)]);
        assert_eq!(numbers(table, "fp8_tflops"), [None, None, None, Some(242.5)]);
        assert_eq!(numbers(table, "memory_bandwidth"), [Some(2039.0), None, None, Some(300.0)]);
        assert_eq!(numbers(table, "multiprocessors"), [Some(108.0), None, None, None]);
        let Values::Str(from) = &table.column("rates_from").unwrap().values else { panic!("text") };
        let expected = ["data sheet", "-", "trace", "trace and data sheet"];
        assert_eq!(from.iter().map(|text| text.as_deref().unwrap_or("-")).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn trace_without_devices_has_a_note() {
        let table = &run(&Trace::default(), &Scope::default())[0];
        assert_eq!((table.rows(), &table.notes[..]), (0, &["The input describes no device.".to_owned()][..]));
    }
}
