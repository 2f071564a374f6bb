//! Query of the caching allocator: segments, blocks and fragmentation at the time of the snapshot.

use crate::prefetch::{Stage, one_empty_set};
use crate::{Answer, Arguments, Column, OpenRun, QueryError};
use serde::Serialize;
use stackline_memory::tables;
use stackline_model::{MemoryBlock, MemoryBlockState, MemorySegment, MemoryTrace};

/// Most segments that are drawn: the largest; and most of their blocks.
const SEGMENTS: usize = 400;
const BLOCKS: usize = 100_000;
/// State of a block, by number.
const STATES: [MemoryBlockState; 3] =
    [MemoryBlockState::Active, MemoryBlockState::AwaitingFree, MemoryBlockState::Inactive];

/// Segments of the caching allocator; their blocks are in the columns.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct AllocatorPage {
    segments: Vec<Segment>,
    /// Segments that are left out: the smallest.
    left_out: usize,
    /// Names of the states that the column `state` numbers.
    states: Vec<&'static str>,
}

/// A segment of the caching allocator.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct Segment {
    address: String,
    bytes: u64,
    small: bool,
    expandable: bool,
    stream: String,
    pool: Option<String>,
    device: u32,
}

/// Names of the columns, a row for each block.
pub(crate) const COLUMNS: &[&str] = &["segment", "offset", "bytes", "state", "object"];

/// Answer the query for the largest segments of the caching allocator and their blocks.
pub(crate) fn answer(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let memory = super::memory(opened, arguments)?;
    let trace = &memory.trace;
    let Some(table) = tables::allocator_table(trace) else {
        return Err(QueryError::unavailable(
            "the source has no allocator segments: record a memory snapshot \
             (torch.cuda.memory._record_memory_history(), then torch.cuda.memory._dump_snapshot(FILE))",
        ));
    };
    let mut largest: Vec<&MemorySegment> = trace.segments.iter().collect();
    largest.sort_by_key(|segment| (std::cmp::Reverse(segment.bytes), segment.address));
    largest.truncate(SEGMENTS);
    let blocks: Vec<(usize, u64, &MemoryBlock)> = largest
        .iter()
        .enumerate()
        .flat_map(|(at, segment)| {
            trace.blocks[segment.blocks.clone()].iter().map(move |block| (at, segment.address, block))
        })
        .take(BLOCKS)
        .collect();
    let page = AllocatorPage {
        segments: largest.iter().map(|segment| of_segment(trace, segment)).collect(),
        left_out: trace.segments.len() - largest.len(),
        states: STATES.map(MemoryBlockState::name).into(),
    };
    let state = |block: &MemoryBlock| STATES.iter().position(|state| *state == block.state).unwrap_or(0) as u8;
    let columns = vec![
        ("segment", Column::U32(blocks.iter().map(|(at, ..)| *at as u32).collect())),
        (
            "offset",
            Column::F64(blocks.iter().map(|(_, from, block)| block.address.saturating_sub(*from) as f64).collect()),
        ),
        ("bytes", Column::F64(blocks.iter().map(|(.., block)| block.bytes as f64).collect())),
        ("state", Column::U8(blocks.iter().map(|(.., block)| state(block)).collect())),
        ("object", Column::U32(blocks.iter().map(|(.., block)| block.object.0).collect())),
    ];
    Ok(Answer { columns, ..super::printed(memory, &[super::truncate_rows(table, SEGMENTS)], &page)? })
}

/// Convert a segment of the caching allocator to its JSON form.
fn of_segment(trace: &MemoryTrace, segment: &MemorySegment) -> Segment {
    Segment {
        address: format!("{:#x}", segment.address),
        bytes: segment.bytes,
        small: segment.small,
        expandable: segment.expandable,
        stream: super::stream_name(trace, segment.stream),
        pool: super::text(trace, segment.pool),
        device: segment.device.0,
    }
}

/// Prefetched arguments of the query for the segments of the caching allocator, by part of the page.
pub(crate) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    if stage == Stage::Holders && opened.memory(None).is_ok() { one_empty_set() } else { Vec::new() }
}
