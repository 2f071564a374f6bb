//! Queries of the Memory page. Positions are numbers of calls, from 0, in the order in which the host made them.

pub(super) mod allocator;
pub(super) mod apply;
pub(super) mod calls;
pub(super) mod curve;
pub(super) mod holders;
pub(super) mod object;
pub(super) mod objects;
pub(super) mod overview;
pub(super) mod suggestions;

pub(super) use allocator::answer as allocator;
pub(super) use apply::answer as apply;
pub(super) use calls::{one as call, tiles as calls};
pub(super) use curve::answer as curve;
pub(super) use holders::answer as holders;
pub(super) use object::answer as object;
pub(super) use objects::answer as objects;
pub(super) use overview::answer as overview;
pub(super) use suggestions::answer as suggestions;

use crate::memory::{Memory, MemorySummary};
use crate::queries::tiles::Whole;
use crate::{Answer, Arguments, OpenRun, QueryError};
use serde::Serialize;
use stackline_model::{
    Frame, MemoryCallId, MemoryDeviceId, MemoryStackId, MemoryStreamId, MemoryTrace, StrId, Table, Trace, TraceSet,
    Values,
};
use stackline_present::json::{Document, schema_version};

/// Memory data of the rank that the query arguments name; without one, of the run.
fn memory<'a>(opened: &'a OpenRun, arguments: &Arguments) -> Result<&'a Memory, QueryError> {
    opened.memory(arguments.number("rank")?)
}

/// Device that the query arguments name; without one, that of the first peak.
fn device(memory: &Memory, arguments: &Arguments) -> Result<MemoryDeviceId, QueryError> {
    let first = || memory.peaks.first().map_or(MemoryDeviceId(0), |peak| peak.device);
    let Some(number) = arguments.number::<u32>("device")? else { return Ok(first()) };
    if number as usize >= memory.trace.devices.len().max(1) {
        return Err(QueryError::missing(format!("the memory data have no device {number}")));
    }
    Ok(MemoryDeviceId(number))
}

/// Query arguments that select all calls of the memory trace, if the run has memory data.
fn whole(opened: &OpenRun) -> Option<Arguments> {
    Some(Whole::with_length(i64::from(opened.memory(None).ok()?.end())).arguments())
}

/// Query arguments that select all calls of the memory trace on one device.
fn whole_of_device(opened: &OpenRun, device: MemoryDeviceId) -> Option<Arguments> {
    Some(whole(opened)?.with("device", &device.0.to_string()))
}

/// Additional JSON keys of a document about memory: summary of the memory trace, and data of the page.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct MemoryKeys<'a, P> {
    memory: MemorySummary<'a>,
    page: P,
}

/// Answer with the tables of `stackline memory --format json` and the data of the page.
fn printed(memory: &Memory, tables: &[Table], page: &impl Serialize) -> Result<Answer, QueryError> {
    let mut described = Trace::default();
    described.meta.name.clone_from(&memory.trace.label);
    described.report = memory.trace.report.clone();
    let document = Document {
        command: "memory",
        version: schema_version("memory"),
        traces: &[],
        set: &TraceSet { traces: vec![described] },
        extra: &[],
        tables,
    };
    super::printed(document, Vec::new(), &MemoryKeys { memory: MemorySummary::from_trace(&memory.trace), page })
}

/// Truncate a table to its first rows, with a note on the number of dropped ones.
fn truncate_rows(table: Table, most: usize) -> Table {
    let more = table.rows().saturating_sub(most);
    if more == 0 {
        return table;
    }
    let mut table = table.note(format!("{more} more rows: `stackline memory --format csv` prints all."));
    for column in &mut table.columns {
        match &mut column.values {
            Values::I64(values) => values.truncate(most),
            Values::F64(values) => values.truncate(most),
            Values::Str(values) => values.truncate(most),
            Values::Bool(values) => values.truncate(most),
        }
    }
    table
}

/// Look up a text of the memory trace, shortened; `None` if it is empty.
fn text(trace: &MemoryTrace, id: StrId) -> Option<String> {
    Some(trace.strings.get(id)).filter(|text| !text.is_empty()).map(super::shortened)
}

/// Name of a device of the memory trace; `device N` if the source has no name.
fn device_name(trace: &MemoryTrace, device: MemoryDeviceId) -> String {
    let name = trace.devices.get(device.index()).and_then(|device| text(trace, device.name));
    name.unwrap_or_else(|| format!("device {}", device.0))
}

/// Description of a memory stream in words: `stream 7 · cuda:0`.
fn stream_name(trace: &MemoryTrace, stream: MemoryStreamId) -> String {
    match trace.streams.get(stream.index()) {
        None => "no stream".to_owned(),
        Some(known) => {
            let device = device_name(trace, known.device);
            let noun = if device.starts_with("cpu") { "thread" } else { "stream" };
            format!("{noun} {} · {device}", known.key)
        }
    }
}

/// Most frames of a call path in an answer.
const FRAMES: usize = 100;

/// A frame of a call path: its function, file and line (0 without one).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[cfg_attr(test, ts(rename = "MemoryFrame"))]
struct FrameAnswer(Option<String>, Option<String>, u32);

/// Frames of a call path in a memory trace, innermost first.
fn path(trace: &MemoryTrace, stack: MemoryStackId) -> Vec<FrameAnswer> {
    let frame = |frame: Frame| {
        let (function, file) = (text(trace, frame.function()), text(trace, frame.file().into()));
        FrameAnswer(function, file, frame.line().unwrap_or(0))
    };
    trace.stacks.frames_of(stack).take(FRAMES).map(frame).collect()
}

/// Source location of a memory call: the most informative frame of its call path.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[cfg_attr(test, ts(rename = "PlaceOf"))]
struct SourceLocation {
    text: String,
    file: Option<String>,
    line: Option<u32>,
}

/// Source location of a call path in a memory trace: its most informative frame; empty without frames.
fn place(trace: &MemoryTrace, stack: MemoryStackId) -> SourceLocation {
    let Some(location) = stackline_memory::locate(trace, stack) else { return SourceLocation::default() };
    let line = Some(location.line).filter(|&line| line > 0);
    SourceLocation { text: super::shortened(&location.text), file: location.file, line }
}

/// Summary of a memory call: its number, kind, name and source location.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[cfg_attr(test, ts(rename = "CallBrief"))]
struct Brief {
    call: usize,
    kind: &'static str,
    name: Option<String>,
    place: SourceLocation,
}

/// Summary of a memory call, with its source location, for details of calls and objects.
fn brief(memory: &Memory, call: MemoryCallId) -> Brief {
    let (trace, row) = (&memory.trace, call.index());
    Brief {
        call: row,
        kind: trace.calls.kind[row].name(),
        name: text(trace, trace.calls.name[row]),
        place: place(trace, trace.calls.stack[row]),
    }
}
