//! Query of the lifetimes of memory objects: rows for the first ones by size, waste or use, and totals for all others.

use super::calls::within;
use crate::memory::{Memory, Waste};
use crate::prefetch::Stage;
use crate::queries::tiles::window;
use crate::queries::{Texts, shortened};
use crate::tile_levels::LEVELS;
use crate::{Answer, Arguments, Column, OpenRun, QueryError};
use rustc_hash::FxHashMap;
use serde::Serialize;
use stackline_memory::curve::device_of;
use stackline_model::{AccessMode, MemoryObjectId};
use std::collections::BTreeMap;

/// Lanes, unless more or fewer are asked for; and in any case.
const LANES: usize = 150;
const MOST: usize = 2000;
/// Maximum number of ticks in an answer; more are merged further.
const TICKS: usize = 30_000;

/// Memory objects of a device; objects with rows, their accesses and their waste are in the columns.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct ObjectsDocument {
    device: u32,
    /// Names that the columns `name` and `place` number.
    texts: Vec<String>,
    objects: usize,
    bytes: u64,
    /// Objects without a row of their own.
    folded: usize,
    folded_bytes: u64,
    /// Objects without a row of their own by size, the largest first.
    classes: Vec<SizeClass>,
    has_accesses: bool,
    /// Unit of the column `wasted`.
    wasted_in: &'static str,
}

/// Number and bytes of the objects in a size class, from `from` bytes to less than twice as many.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct SizeClass {
    from: u64,
    objects: u64,
    bytes: u64,
}

/// Names of the columns, a row for each object, each bucket of its accesses and each of its wasted parts.
pub(crate) const COLUMNS: &[&str] = &[
    "object",
    "bytes",
    "from",
    "to",
    "open",
    "kind",
    "uses",
    "wasted",
    "name",
    "place",
    "tick_lane",
    "tick_at",
    "tick_mode",
    "tick_count",
    "waste_lane",
    "waste_from",
    "waste_to",
    "waste_why",
];

/// Sort order of memory objects.
#[derive(Clone, Copy, Debug)]
enum Order {
    Size,
    Waste,
    FirstUse,
}

/// Merged accesses to one memory object in one bucket.
#[derive(Clone, Copy, Debug)]
struct Tick {
    lane: u32,
    at: u32,
    mode: AccessMode,
    count: u32,
}

/// Answer the query for the lifetimes of memory objects.
pub(crate) fn answer(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let memory = super::memory(opened, arguments)?;
    let device = super::device(memory, arguments)?;
    let (level, window) = window(arguments, 0)?;
    let orders = [("size", Order::Size), ("waste", Order::Waste), ("first", Order::FirstUse)];
    let order = arguments.choice("order", &orders)?.unwrap_or(Order::Size);
    let most = arguments.number("most")?.unwrap_or(LANES).min(MOST);
    let alive = arguments
        .text("alive")?
        .map(|name| memory.peak(name).ok_or_else(|| QueryError::missing(format!("unknown peak {}", shortened(name)))));
    let position = alive.transpose()?.map(|peak| peak.peak.position.0);
    let is_alive = |object: MemoryObjectId| {
        let (from, to) = memory.life(object);
        position.is_none_or(|at| from <= at && at < to)
    };
    let trace = &memory.trace;
    let all = trace.objects.ids().filter(|object| device_of(trace, *object) == device && is_alive(*object));
    let mut all: Vec<MemoryObjectId> = all.collect();
    sort(memory, &mut all, order);
    let folded = all.split_off(all.len().min(most));
    let lanes: FxHashMap<MemoryObjectId, u32> = all.iter().copied().zip(0..).collect();
    let ticks = ticks(memory, &lanes, within(memory, window), level);
    let waste: Vec<(u32, &Waste)> = all
        .iter()
        .zip(0..)
        .flat_map(|(object, lane)| memory.waste_of(*object).iter().map(move |waste| (lane, waste)))
        .collect();
    let bytes = |objects: &[MemoryObjectId]| {
        objects.iter().map(|object| trace.objects.bytes[object.index()]).fold(0, u64::saturating_add)
    };
    let (texts, mut columns) = of_lanes(memory, &all);
    columns.extend(of_ticks(&ticks));
    columns.extend(of_waste(&waste));
    let document = ObjectsDocument {
        device: device.0,
        texts,
        objects: all.len() + folded.len(),
        bytes: bytes(&all).saturating_add(bytes(&folded)),
        folded: folded.len(),
        folded_bytes: bytes(&folded),
        classes: classes(memory, &folded),
        has_accesses: trace.has_accesses,
        wasted_in: if memory.has_times { "byte-seconds" } else { "byte-calls" },
    };
    Answer::with_columns(&document, columns)
}

/// Sort memory objects: largest, most wasted, or earliest used first.
fn sort(memory: &Memory, objects: &mut [MemoryObjectId], order: Order) {
    let bytes = |object: &MemoryObjectId| std::cmp::Reverse(memory.trace.objects.bytes[object.index()]);
    match order {
        Order::Size => objects.sort_by_key(bytes),
        // Objects without any use are last.
        Order::FirstUse => objects.sort_by_key(|object| (memory.uses[object.index()].first_use, bytes(object))),
        Order::Waste => {
            let wasted: FxHashMap<_, f64> = objects.iter().map(|object| (*object, memory.wasted(*object))).collect();
            objects.sort_by(|a, b| wasted[b].total_cmp(&wasted[a]).then_with(|| bytes(a).cmp(&bytes(b))));
        }
    }
}

type Columns = Vec<(&'static str, Column)>;

/// Answer columns with one value per shown memory object, and the texts that the columns number.
fn of_lanes(memory: &Memory, shown: &[MemoryObjectId]) -> (Vec<String>, Columns) {
    let trace = &memory.trace;
    let named: Vec<[String; 2]> = shown
        .iter()
        .map(|object| {
            let place = stackline_memory::place_text(trace, trace.objects.stack[object.index()]);
            [trace.object_name(*object), place]
        })
        .collect();
    let mut texts = Texts::default();
    let indices: Vec<[u32; 2]> = named.iter().map(|names| names.each_ref().map(|name| texts.index(name))).collect();
    let numbers =
        |value_of: &dyn Fn(MemoryObjectId) -> f64| Column::F64(shown.iter().map(|object| value_of(*object)).collect());
    let row = |object: MemoryObjectId| object.index();
    let columns = vec![
        ("object", Column::U32(shown.iter().map(|object| object.0).collect())),
        ("bytes", numbers(&|object| trace.objects.bytes[row(object)] as f64)),
        ("from", numbers(&|object| f64::from(memory.life(object).0))),
        ("to", numbers(&|object| f64::from(memory.life(object).1))),
        // Bit 0: its allocation is older than the records; bit 1: it is alive at their end.
        ("open", Column::U8(shown.iter().map(|object| open(memory, *object)).collect())),
        ("kind", Column::U8(shown.iter().map(|object| trace.objects.kind[object.index()] as u8).collect())),
        ("uses", numbers(&|object| f64::from(memory.uses[row(object)].uses))),
        ("wasted", numbers(&|object| memory.wasted(object))),
        ("name", Column::U32(indices.iter().map(|index| index[0]).collect())),
        ("place", Column::U32(indices.iter().map(|index| index[1]).collect())),
    ];
    (texts.list(), columns)
}

/// Flags of a memory object: bit 0 if allocated before the trace, bit 1 if not freed in it.
fn open(memory: &Memory, object: MemoryObjectId) -> u8 {
    let objects = &memory.trace.objects;
    u8::from(objects.allocated_by[object.index()].is_none()) | u8::from(objects.freed_by[object.index()].is_none()) << 1
}

/// Answer columns of merged accesses: lane, position, mode and number of accesses.
fn of_ticks(ticks: &[Tick]) -> Columns {
    vec![
        ("tick_lane", Column::U32(ticks.iter().map(|tick| tick.lane).collect())),
        ("tick_at", Column::U32(ticks.iter().map(|tick| tick.at).collect())),
        ("tick_mode", Column::U8(ticks.iter().map(|tick| tick.mode as u8).collect())),
        ("tick_count", Column::U32(ticks.iter().map(|tick| tick.count).collect())),
    ]
}

/// Answer columns of wasted ranges: lane, start, end and reason.
fn of_waste(waste: &[(u32, &Waste)]) -> Columns {
    vec![
        ("waste_lane", Column::U32(waste.iter().map(|(lane, _)| *lane).collect())),
        ("waste_from", Column::U32(waste.iter().map(|(_, waste)| waste.from).collect())),
        ("waste_to", Column::U32(waste.iter().map(|(_, waste)| waste.to).collect())),
        ("waste_why", Column::U8(waste.iter().map(|(_, waste)| waste.why as u8).collect())),
    ]
}

/// Accesses to some memory objects in a window, merged by bucket. The buckets are as small as the maximum number of
/// ticks permits.
fn ticks(
    memory: &Memory,
    lanes: &FxHashMap<MemoryObjectId, u32>,
    span: std::ops::Range<u32>,
    mut level: u32,
) -> Vec<Tick> {
    loop {
        match ticks_at(memory, lanes, span.clone(), level) {
            Some(ticks) => return ticks,
            None => level = (level + 1).min(LEVELS),
        }
    }
}

/// Accesses to memory objects, merged by buckets of 2^`level` calls; `None` if there are too many.
fn ticks_at(
    memory: &Memory,
    lanes: &FxHashMap<MemoryObjectId, u32>,
    span: std::ops::Range<u32>,
    level: u32,
) -> Option<Vec<Tick>> {
    let bucket = |at: u32| u64::from(at) >> level;
    let mut ticks: Vec<Tick> = Vec::new();
    let mut last: Vec<Option<usize>> = vec![None; lanes.len()];
    for at in span {
        for access in memory.trace.accesses_of(stackline_model::MemoryCallId(at)) {
            let Some(&lane) = lanes.get(&access.object) else { continue };
            let is_full = ticks.len() >= TICKS && level < LEVELS;
            match last[lane as usize].map(|known| &mut ticks[known]) {
                Some(tick) if bucket(tick.at) == bucket(at) => {
                    tick.mode = both(tick.mode, access.mode);
                    tick.count += 1;
                }
                _ if is_full => return None,
                _ => {
                    last[lane as usize] = Some(ticks.len());
                    ticks.push(Tick { lane, at, mode: access.mode, count: 1 });
                }
            }
        }
    }
    Some(ticks)
}

/// Mode of two merged accesses: the common one, `Unknown` if either is unknown, otherwise `Both` (read and write).
fn both(one: AccessMode, other: AccessMode) -> AccessMode {
    match (one == other, one == AccessMode::Unknown || other == AccessMode::Unknown) {
        (true, _) => one,
        (false, true) => AccessMode::Unknown,
        (false, false) => AccessMode::Both,
    }
}

/// Memory objects without a row, grouped into size classes by powers of two, largest first.
fn classes(memory: &Memory, folded: &[MemoryObjectId]) -> Vec<SizeClass> {
    let mut sums: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for object in folded {
        let bytes = memory.trace.objects.bytes[object.index()];
        let sum = sums.entry(bytes.checked_ilog2().map_or(0, |power| power + 1)).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(bytes));
    }
    let from = |power: u32| if power == 0 { 0 } else { 1_u64 << (power - 1) };
    let sums = sums.into_iter().rev();
    sums.map(|(power, (objects, bytes))| SizeClass { from: from(power), objects, bytes }).collect()
}

/// Prefetched arguments of the query for lifetimes: objects in each sort order, and those alive at each peak.
pub(crate) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    let (Stage::MemoryOf(device), Ok(memory)) = (stage, opened.memory(None)) else { return Vec::new() };
    let Some(whole) = super::whole_of_device(opened, device) else { return Vec::new() };
    let order = |order: &str| whole.clone().with("order", order);
    let peaks = memory.peaks.iter().filter(|peak| peak.device == device);
    let alive = peaks.map(|peak| order("size").with("alive", &peak.name));
    ["size", "waste", "first"].into_iter().map(order).chain(alive).collect()
}

#[cfg(test)]
mod tests {
    use super::both;
    use stackline_model::AccessMode::{Both, Read, Unknown, Write};

    #[test]
    fn merged_accesses_are_unknown_if_one_is() {
        for mode in [Read, Write, Both, Unknown] {
            assert_eq!([both(mode, Unknown), both(Unknown, mode), both(mode, mode)], [Unknown, Unknown, mode]);
        }
        assert_eq!([both(Read, Write), both(Write, Read), both(Both, Read)], [Both; 3]);
    }
}
