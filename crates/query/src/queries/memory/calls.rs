//! Query of a memory trace's calls (allocations, frees, copies, kernels, waits) as boxes per stream, and query of one
//! call with its details. Calls that are too narrow to draw are merged.

use super::{Brief, FrameAnswer};
use crate::memory::Memory;
use crate::prefetch::Stage;
use crate::queries::tiles::window;
use crate::queries::{Texts, shortened};
use crate::tile_levels::LEVELS;
use crate::{Answer, Arguments, Column, OpenRun, QueryError};
use rustc_hash::FxHashMap;
use serde::Serialize;
use stackline_model::{MemoryAccess, MemoryCallId, MemoryCallKind};

/// Maximum number of boxes in an answer; more are merged further.
const MOST: usize = 20_000;
/// Most accesses of a call that are listed.
const ACCESSES: usize = 200;

/// Box of merged memory calls: those of one kind on one stream that begin in one bucket.
#[derive(Clone, Copy, Debug)]
struct Box {
    lane: u32,
    kind: MemoryCallKind,
    first: u32,
    last: u32,
    count: u32,
}

/// Lookup tables for the columns of memory calls.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct CallsDocument {
    /// Level of the boxes.
    level: u32,
    /// Names that the column `name` numbers.
    texts: Vec<String>,
}

/// Names of the columns, a row for each box.
pub(crate) const COLUMNS: &[&str] = &["lane", "kind", "start", "length", "count", "name"];

/// Answer the query for the memory calls in a window as boxes.
pub(crate) fn tiles(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let memory = super::memory(opened, arguments)?;
    let (mut level, window) = window(arguments, 0)?;
    let span = within(memory, window);
    let boxes = loop {
        match boxes(memory, span.clone(), level) {
            Some(boxes) => break boxes,
            None => level = (level + 1).min(LEVELS),
        }
    };
    let mut texts = Texts::default();
    let name = |boxed: &Box| texts.index(memory.trace.strings.get(memory.trace.calls.name[boxed.first as usize]));
    let names: Vec<u32> = boxes.iter().map(name).collect();
    let numbers = |boxed: fn(&Box) -> u32| Column::U32(boxes.iter().map(boxed).collect());
    let columns = vec![
        ("lane", numbers(|boxed| boxed.lane)),
        ("kind", Column::U8(boxes.iter().map(|boxed| boxed.kind as u8).collect())),
        ("start", numbers(|boxed| boxed.first)),
        ("length", numbers(|boxed| boxed.last - boxed.first + 1)),
        ("count", numbers(|boxed| boxed.count)),
        ("name", Column::U32(names)),
    ];
    Answer::with_columns(&CallsDocument { level, texts: texts.list() }, columns)
}

/// Clamp a window to the positions of a memory trace's calls.
pub(super) fn within(memory: &Memory, (from, to): (i64, i64)) -> std::ops::Range<u32> {
    let end = i64::from(memory.end());
    let clamped = |at: i64| at.clamp(0, end) as u32;
    clamped(from)..clamped(to).max(clamped(from))
}

/// Merge memory calls into boxes by stream, kind and bucket of 2^`level` calls; `None` if there are too many boxes.
fn boxes(memory: &Memory, span: std::ops::Range<u32>, level: u32) -> Option<Vec<Box>> {
    let calls = &memory.trace.calls;
    let lanes: FxHashMap<_, u32> = memory.lanes.iter().zip(0..).map(|(lane, at)| (lane.stream, at)).collect();
    let bucket = |at: u32| u64::from(at) >> level;
    let mut open: FxHashMap<(u32, MemoryCallKind), usize> = FxHashMap::default();
    let mut boxes: Vec<Box> = Vec::new();
    for at in span {
        let Some(&lane) = lanes.get(&calls.stream[at as usize]) else { continue };
        let kind = calls.kind[at as usize];
        let is_full = boxes.len() >= MOST && level < LEVELS;
        match open.get(&(lane, kind)).map(|&known| &mut boxes[known]) {
            Some(last) if bucket(last.first) == bucket(at) => {
                last.last = at;
                last.count += 1;
            }
            _ if is_full => return None,
            _ => {
                open.insert((lane, kind), boxes.len());
                boxes.push(Box { lane, kind, first: at, last: at, count: 1 });
            }
        }
    }
    Some(boxes)
}

/// Everything known about one memory call.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct CallDetail {
    call: Brief,
    stream: String,
    /// Start in ns since the first call; null without times.
    start: Option<i64>,
    duration: u64,
    /// The call may access memory that is not listed.
    is_opaque: bool,
    object: Option<CallObject>,
    accesses: Vec<Access>,
    /// Accesses that are left out.
    left_out: usize,
    path: Vec<FrameAnswer>,
}

/// The object that a call allocates or frees: its number, name and bytes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct CallObject(usize, String, u64);

/// Access of a memory call to an object.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct Access {
    object: usize,
    name: String,
    bytes: u64,
    mode: &'static str,
    evidence: &'static str,
}

/// Answer the query for one memory call with its details.
pub(crate) fn one(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let memory = super::memory(opened, arguments)?;
    let trace = &memory.trace;
    let number: u32 = arguments.needed("call")?;
    if number as usize >= trace.calls.len() {
        return Err(QueryError::missing(format!(
            "there is no memory call {number}: the trace has {} calls",
            trace.calls.len()
        )));
    }
    let (call, row) = (MemoryCallId(number), number as usize);
    let accesses = trace.accesses_of(call);
    let left_out = accesses.len().saturating_sub(ACCESSES);
    let object = trace.object_of(call).map(|object| {
        CallObject(object.index(), shortened(&trace.object_name(object)), trace.objects.bytes[object.index()])
    });
    Answer::document(&CallDetail {
        call: super::brief(memory, call),
        stream: super::stream_name(trace, trace.calls.stream[row]),
        start: trace.times_since_first()(row),
        duration: trace.calls.duration_ns[row],
        is_opaque: trace.calls.is_opaque(call),
        object,
        accesses: accesses.take(ACCESSES).map(|access| of_access(memory, access)).collect(),
        left_out,
        path: super::path(trace, trace.calls.stack[row]),
    })
}

/// Convert an access of a memory call to its JSON form.
fn of_access(memory: &Memory, access: MemoryAccess) -> Access {
    let trace = &memory.trace;
    Access {
        object: access.object.index(),
        name: shortened(&trace.object_name(access.object)),
        bytes: trace.objects.bytes[access.object.index()],
        mode: access.mode.name(),
        evidence: access.evidence.name(),
    }
}

/// Prefetched arguments of the query for memory calls, by part of the page.
pub(crate) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    if stage == Stage::Memory { super::whole(opened).into_iter().collect() } else { Vec::new() }
}
