//! Reader of XSpace files (`.xplane.pb`) of XProf, as written by `jax.profiler`, TensorFlow 2 and PyTorch/XLA.
//!
//! A space has a plane for the host and one for each device. Planes have lines (threads, streams), lines have events,
//! and events have arguments. The result is XProf's own trace (`trace.json.gz`) with all of its events, plus the
//! program's lines for XLA operators and the GPUs' properties. See `docs/formats/xplane.md`.

mod events;
mod fields;
mod hlo;
mod plane;
mod programs;

use super::row::MAX_NS;
use super::{Content, Sniff, device_rows, processes, xprof};
use crate::text::was_converted_as_text;
use crate::{Error, ReadOptions, diagnostics};
use events::Writer;
use fields::{Fields, Value};
use plane::Plane;
use programs::Programs;
use serde_json::{Map, json};
use stackline_model::{CLOCK_RATE, DEVICE_PROPERTIES, MEMORY_BANDWIDTH, PEAK_FLOPS, Trace, VENDOR};
use std::io::Read;

/// Format name in the metadata of traces.
const FORMAT: &str = "xplane";

/// Prefixes of plane names.
const PLANES: [&str; 4] = ["/host:", "/device:", "/custom:", "Task Environment"];

/// Limit on the size of protobuf messages, in bytes.
const LONGEST: u64 = 2 << 30;

/// Detect bytes that begin with a plane: a message whose first text is the name of a plane.
pub(crate) fn sniff(content: &Content<'_>) -> Sniff {
    let Content::Bytes { head, .. } = content else { return Sniff::No };
    if was_converted_as_text(head) {
        return Sniff::No;
    }
    match Fields::new(head).next() {
        Some((1, Value::Bytes(plane) | Value::Cut(plane))) if begins_like_a_plane(plane) => {
            Sniff::Yes("the file begins with an XSpace plane")
        }
        _ => Sniff::No,
    }
}

/// Check if a protobuf message starts like a plane: an optional ID, then a name with one of the known prefixes.
fn begins_like_a_plane(message: &[u8]) -> bool {
    let mut fields = Fields::new(message);
    let name = match fields.next() {
        Some((1, Value::Number(_))) => fields.next(),
        other => other,
    };
    let Some((2, Value::Bytes(name))) = name else { return false };
    PLANES.iter().any(|begin| name.starts_with(begin.as_bytes()))
}

/// Read an XSpace file into one trace. A truncated file is read as far as possible; a file without events is an error.
pub(crate) fn open(name: &str, content: Content<'_>, options: &ReadOptions) -> Result<Vec<Trace>, Error> {
    let Content::Bytes { stream, .. } = content else { return Ok(Vec::new()) };
    let mut bytes = Vec::new();
    // A truncated file is read as far as possible.
    let failure = stream.take(LONGEST + 1).read_to_end(&mut bytes).err();
    if options.is_cancelled() {
        return Err(Error::Cancelled);
    }
    if bytes.len() as u64 > LONGEST {
        let reason = "the profile is larger than 2 GiB, the limit of XProf; record a shorter time".to_owned();
        return Err(Error::Malformed { path: name.into(), reason, offset: LONGEST });
    }
    let mut trace = Trace::default();
    trace.meta.name = name.to_owned();
    trace.meta.format = FORMAT.to_owned();
    trace.report.bytes = bytes.len() as u64;
    if let Some(error) = failure {
        diagnostics::DAMAGED_STREAM.count(&mut trace.report, Some(bytes.len() as u64), &error.to_string());
    }
    let space = Space::parse(&bytes, &mut trace);
    space.describe(&mut trace);
    let mut writer = Writer::new(trace, Programs::new(&space.planes), events::origin(&space.planes));
    for plane in &space.planes {
        writer.plane(plane, options)?;
    }
    let (mut trace, contexts) = writer.finish();
    if trace.events.is_empty() {
        return Err(no_events(name, &space, &trace));
    }
    device_rows::convert_rows(&mut trace);
    xprof::interpret(&mut trace);
    processes::seal(&mut trace, options);
    contexts.link(&mut trace);
    trace.report.sort();
    if options.is_cancelled() { Err(Error::Cancelled) } else { Ok(vec![trace]) }
}

/// Error for a file without events. The message lists the planes, and says if the file is damaged or the recording is
/// empty.
fn no_events(name: &str, space: &Space<'_>, trace: &Trace) -> Error {
    let names: Vec<&str> = space.planes.iter().map(|plane| plane.name.as_str()).collect();
    let broken = [diagnostics::TRUNCATED, diagnostics::DAMAGED_STREAM, diagnostics::DAMAGED_EVENT];
    let why = if broken.iter().any(|code| trace.report.count_of(code.code) > 0) {
        "the file is truncated or damaged before the first event; copy the complete file again"
    } else {
        "no work ran during the recording, or the profiler could not record it"
    };
    let reason = format!("the XProf profile contains no events (planes: {}): {why}", names.join(", "));
    Error::Malformed { path: name.into(), reason, offset: 0 }
}

/// Planes and host names of an XSpace file.
struct Space<'a> {
    planes: Vec<Plane<'a>>,
    hosts: Vec<String>,
}

impl<'a> Space<'a> {
    /// Parse the planes and host names of a file. Damage and messages of the profiler are counted in the report of
    /// `trace`.
    fn parse(bytes: &'a [u8], trace: &mut Trace) -> Self {
        let mut space = Self { planes: Vec::new(), hosts: Vec::new() };
        let mut fields = Fields::new(bytes);
        for field in fields.by_ref() {
            match field {
                (1, Value::Bytes(plane) | Value::Cut(plane)) => {
                    let plane = Plane::parse(plane);
                    let name = &plane.name;
                    diagnostics::DAMAGED_EVENT.count_many(
                        &mut trace.report,
                        plane.damaged,
                        None,
                        &format!("of {name}"),
                    );
                    space.planes.push(plane);
                }
                (2 | 3, Value::Bytes(message)) => {
                    diagnostics::PROFILER_MESSAGE.count(&mut trace.report, None, plane::text(message).trim());
                }
                (4, Value::Bytes(host)) => space.hosts.push(plane::text(host)),
                _ => {}
            }
        }
        if !fields.is_whole() {
            diagnostics::TRUNCATED.count(&mut trace.report, None, "");
        }
        space
    }

    /// Plane with exactly this name.
    fn plane(&self, name: &str) -> Option<&Plane<'a>> {
        self.planes.iter().find(|plane| plane.name == name)
    }

    /// Fill the metadata of the trace from the planes of an XSpace file.
    fn describe(&self, trace: &mut Trace) {
        let began = self.plane("Task Environment").and_then(|plane| plane.int("profile_start_time"));
        trace.meta.base_ns = began.filter(|ns| (0..=MAX_NS).contains(ns)).unwrap_or(0);
        let mut entries = Vec::new();
        if !self.hosts.is_empty() {
            entries.push(("hostnames".to_owned(), json!(self.hosts).to_string()));
        }
        for key in ["jax_version", "jaxlib_version", "cuda_version"] {
            let version = self.plane("/host:metadata").and_then(|plane| plane.words(key));
            entries.extend(version.map(|version| (key.to_owned(), json!(version).to_string())));
        }
        let devices: Vec<_> = self.planes.iter().filter_map(device).collect();
        if !devices.is_empty() {
            entries.push((DEVICE_PROPERTIES.to_owned(), json!(devices).to_string()));
        }
        trace.meta.entries = entries;
    }
}

/// Properties of a device: the plane's name, and Kineto's name.
const NUMBERS: [(&str, &str); 5] = [
    ("memory_size", "totalGlobalMem"),
    ("compute_cap_major", "computeMajor"),
    ("compute_cap_minor", "computeMinor"),
    ("core_count", "numSms"),
    ("memory_bandwidth", MEMORY_BANDWIDTH),
];

/// Properties of the plane's GPU or TPU in Kineto's form; `None` for other planes. Unrecorded properties have no entry.
fn device(plane: &Plane<'_>) -> Option<serde_json::Value> {
    gpu(plane).or_else(|| tpu(plane))
}

/// Properties of a TPU from its plane: name, memory bandwidth in bytes/s, peak bfloat16 rate in FLOP/s; `None` for
/// other planes.
fn tpu(plane: &Plane<'_>) -> Option<serde_json::Value> {
    let id: i64 = plane.name.strip_prefix("/device:TPU:")?.parse().ok()?;
    let rate = |name: &str, unit: f64| Some(plane.float(name)? * unit).filter(|rate| *rate > 0.0 && rate.is_finite());
    let mut device = Map::new();
    device.insert("id".to_owned(), json!(id));
    device.extend(plane.words("device_type_string").map(|name| ("name".to_owned(), json!(name))));
    let bandwidth = rate("peak_hbm_bw_gigabytes_per_second", 1e9);
    device.extend(bandwidth.map(|rate| (MEMORY_BANDWIDTH.to_owned(), json!(rate))));
    let flops = rate("peak_teraflops_per_second", 1e12);
    device.extend(flops.map(|rate| (PEAK_FLOPS.to_owned(), json!({ "bf16": rate }))));
    (device.len() > 1).then(|| device.into())
}

/// Properties of a GPU from its plane (`/device:GPU:N`), in Kineto's form; `None` for other planes or without any
/// property.
fn gpu(plane: &Plane<'_>) -> Option<serde_json::Value> {
    let id: i64 = plane.name.strip_prefix("/device:GPU:")?.parse().ok()?;
    let mut device = Map::new();
    device.insert("id".to_owned(), json!(id));
    device.extend(plane.words("gpu_device_name").map(|name| ("name".to_owned(), json!(name))));
    device.extend(plane.words("device_vendor").map(|vendor| (VENDOR.to_owned(), json!(vendor))));
    let clock = plane.int("clock_rate").and_then(|khz| khz.checked_mul(1000));
    device.extend(clock.map(|hz| (CLOCK_RATE.to_owned(), json!(hz))));
    for (own, key) in NUMBERS {
        device.extend(plane.int(own).map(|number| (key.to_owned(), json!(number))));
    }
    (device.len() > 1).then(|| device.into())
}
