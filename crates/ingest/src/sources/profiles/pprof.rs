//! Reader of pprof profiles (`profile.proto`): from Go, `jax.profiler.save_device_memory_profile`, and many other
//! programs.

use super::{FrameText, Profile};
use crate::sources::{Content, Sniff};
use crate::{Error, ReadOptions, diagnostics};
use prost::Message;
use rustc_hash::FxHashMap;
use stackline_model::{CallMetric, CallProcess, CallingContextTree};
use std::io::Read;

/// Limit on the size of a message, in bytes.
const LONGEST: u64 = 2 << 30;

#[derive(Clone, PartialEq, Message)]
struct Document {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    string_table: Vec<Vec<u8>>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
}

/// Type and unit of a value, as string numbers.
#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    name: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// Locations, innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    /// One value per kind.
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    /// Functions inlined into each other at this location, innermost first.
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
    #[prost(int64, tag = "5")]
    start_line: i64,
}

/// Detect bytes that begin with a value type: a short message of two numbers.
pub(crate) fn sniff(content: &Content<'_>) -> Sniff {
    let Content::Bytes { head, .. } = content else { return Sniff::No };
    let Some(([0x0a, length @ 2..=12], rest)) = head.split_first_chunk() else { return Sniff::No };
    let Some(kind) = rest.get(..usize::from(*length)) else { return Sniff::No };
    let is_kind = kind[0] == 0x08 && ValueType::decode(kind).is_ok_and(|kind| kind.name > 0);
    let next_is_known =
        rest.get(usize::from(*length)).is_some_and(|tag| matches!(tag, 0x0a | 0x12 | 0x1a | 0x22 | 0x2a | 0x32));
    if is_kind && next_is_known {
        Sniff::Yes("the file begins with the value type of a pprof profile")
    } else {
        Sniff::No
    }
}

/// Read a pprof profile into a calling context tree.
pub(crate) fn open(name: &str, content: Content<'_>, _: &ReadOptions) -> Result<CallingContextTree, Error> {
    let malformed = |reason: String| Error::Malformed { path: name.into(), reason, offset: 0 };
    let mut bytes = Vec::new();
    if let Content::Bytes { stream, .. } = content {
        let read = stream.take(LONGEST + 1).read_to_end(&mut bytes);
        if bytes.is_empty() {
            read.map_err(|source| Error::Io { path: name.into(), source })?;
        }
    }
    if bytes.len() as u64 > LONGEST {
        return Err(malformed("the profile is larger than 2 GiB, the limit of protobuf".to_owned()));
    }
    let document = Document::decode(&bytes[..])
        .map_err(|error| malformed(format!("the pprof profile is truncated or damaged: {error}")))?;
    Ok(tree(&document))
}

/// Convert a decoded profile to a calling context tree; frames without a function are named by their address.
fn tree(document: &Document) -> CallingContextTree {
    let texts: Vec<String> =
        document.string_table.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect();
    let text = |at: i64| usize::try_from(at).ok().and_then(|at| texts.get(at)).map_or("", |text| text);
    let process = CallProcess {
        start_unix_ns: document.time_nanos,
        lasted_ns: u64::try_from(document.duration_nanos).ok().filter(|&ns| ns > 0),
        ..CallProcess::default()
    };
    let mut profile = Profile::new(process);
    let thread = profile.thread(0, "");
    let kinds: Vec<(CallMetric, f64)> =
        document.sample_type.iter().map(|kind| profile.metric(text(kind.name), text(kind.unit))).collect();
    let functions: FxHashMap<u64, &Function> =
        document.function.iter().map(|function| (function.id, function)).collect();
    let libraries: FxHashMap<u64, i64> =
        document.mapping.iter().map(|mapping| (mapping.id, mapping.filename)).collect();
    // Each line of a location is a frame; frames are numbered over all locations.
    let mut frames: Vec<(FrameText<'_>, u64)> = Vec::new();
    let mut places: FxHashMap<u64, std::ops::Range<u32>> = FxHashMap::default();
    for location in &document.location {
        let first = frames.len() as u32;
        let library = text(libraries.get(&location.mapping_id).copied().unwrap_or(0));
        for line in location.line.iter().rev() {
            let function = functions.get(&line.function_id);
            let number = |line: i64| u32::try_from(line).unwrap_or(0);
            let frame = FrameText {
                function: function.map_or("", |function| text(function.name)),
                file: function.map_or("", |function| text(function.filename)),
                line: number(line.line),
                first_line: function.map_or(0, |function| number(function.start_line)),
                library,
            };
            frames.push((frame, location.address));
        }
        if location.line.is_empty() {
            frames.push((FrameText { library, ..FrameText::default() }, location.address));
        }
        places.insert(location.id, first..frames.len() as u32);
    }
    for sample in &document.sample {
        if let Some(missing) = sample.location_id.iter().find(|id| !places.contains_key(id)) {
            diagnostics::DANGLING_RECORD.count(profile.report(), None, &format!("location {missing}"));
        }
        let known = sample.location_id.iter().rev().filter_map(|id| places.get(id).cloned());
        let path = profile.path(known.flatten());
        for (&value, &(metric, scale)) in sample.value.iter().zip(&kinds) {
            profile.add_number((path, thread, metric), value as f64 * scale, &format!("a sample value of {value}"));
        }
    }
    let addresses: Vec<String> = frames.iter().map(|(_, address)| format!("{address:#x}")).collect();
    profile.finish(|number| {
        let (frame, _) = frames[number as usize];
        if frame.function.is_empty() { FrameText { function: &addresses[number as usize], ..frame } } else { frame }
    })
}
