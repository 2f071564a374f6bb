//! Tables of all memory objects, and of live and reserved bytes over time.

use super::{allocator::reserved_curve, int};
use crate::curve::{Curve, curves};
use stackline_model::{MemoryDeviceId, MemoryObjectId, MemoryObjectKind, MemoryStackId, MemoryTrace, Table, Unit};
use std::collections::BTreeSet;

/// Table of all memory objects, largest first.
pub fn objects_table(trace: &MemoryTrace) -> Table {
    let mut objects: Vec<MemoryObjectId> = trace.objects.ids().collect();
    objects.sort_by_key(|object| std::cmp::Reverse(trace.objects.bytes[object.index()]));
    columns(Table::new("memory_objects", "Memory objects, largest first"), trace, &objects, &|object| {
        trace.objects.kind[object.index()]
    })
}

/// Add the columns of memory objects to a table, one row per object in `shown`. `kind` returns the kind of an object.
pub(super) fn columns(
    table: Table,
    trace: &MemoryTrace,
    shown: &[MemoryObjectId],
    kind: &dyn Fn(MemoryObjectId) -> MemoryObjectKind,
) -> Table {
    let objects = &trace.objects;
    let rows = || shown.iter().map(|object| object.index());
    let text =
        |f: &dyn Fn(usize) -> String| rows().map(|row| Some(f(row)).filter(|t| !t.is_empty())).collect::<Vec<_>>();
    let string = |id| trace.strings.get(id).to_owned();
    let device =
        |row: usize| trace.devices.get(objects.device[row].index()).map(|device| device.name).unwrap_or_default();
    let call = |call: stackline_model::MemoryCallId| call.some().map(|call| int(call.index() as u64));
    let table = table
        .i64("object", Unit::None, rows().map(|row| int(row as u64)))
        .text("name", text(&|row| string(objects.name[row])))
        .i64("bytes", Unit::Bytes, rows().map(|row| int(objects.bytes[row])))
        .i64("requested", Unit::Bytes, rows().map(|row| int(objects.requested[row])))
        .text("device", text(&|row| string(device(row))))
        .text("kind", shown.iter().map(|object| Some(kind(*object).name().to_owned())))
        .i64("allocated_by", Unit::None, rows().map(|row| call(objects.allocated_by[row])))
        .i64("freed_by", Unit::None, rows().map(|row| call(objects.freed_by[row])));
    let optional = [
        ("module", &objects.module),
        ("operator", &objects.operator),
        ("dtype", &objects.dtype),
        ("shape", &objects.shape),
        ("pool", &objects.pool),
    ];
    let table = optional.into_iter().fold(table, |table, (name, column)| {
        let known = column.iter().any(|id| id.is_some());
        if known { table.text(name, text(&|row| string(column[row]))) } else { table }
    });
    let stacks: Vec<MemoryStackId> = rows().map(|row| objects.stack[row]).collect();
    super::add_place_columns(table, trace, &stacks)
}

/// Point of a curve: device, position, live bytes, and reserved bytes if known.
type Point = (MemoryDeviceId, u32, u64, Option<u64>);

/// Live and reserved bytes of a device at each position where one of them changes.
fn points(trace: &MemoryTrace, curve: &Curve) -> Vec<Point> {
    let reserved = reserved_curve(trace, curve.device);
    let held = |position: u32| {
        let known = reserved.partition_point(|(from, _)| *from <= position);
        reserved[..known].last().map(|(_, bytes)| *bytes)
    };
    let of_reserved = reserved.iter().map(|(position, _)| *position).filter(|position| *position < curve.end);
    let positions: BTreeSet<u32> = curve.points.iter().map(|(position, _)| *position).chain(of_reserved).collect();
    positions.into_iter().map(|at| (curve.device, at, curve.at(at), held(at))).collect()
}

/// Live bytes over time, with at most `most` points per device: of adjacent points the highest remains.
pub fn curve_table(trace: &MemoryTrace, most: usize) -> Table {
    let time = trace.times_since_first();
    let mut rows: Vec<Point> = Vec::new();
    for curve in curves(trace) {
        let points = points(trace, &curve);
        let size = if most == 0 { 1 } else { points.len().div_ceil(most).max(1) };
        for part in points.chunks(size) {
            rows.extend(part.iter().max_by_key(|(_, position, bytes, _)| (*bytes, std::cmp::Reverse(*position))));
        }
    }
    let device = |at: usize| trace.devices.get(rows[at].0.index()).map(|device| device.name).unwrap_or_default();
    Table::new("memory_curve", "Live bytes over time")
        .text("device", (0..rows.len()).map(|at| Some(trace.strings.get(device(at)).to_owned())))
        .i64("call", Unit::None, rows.iter().map(|row| i64::from(row.1)))
        .i64("time", Unit::Ns, rows.iter().map(|row| time(row.1 as usize)))
        .i64("bytes", Unit::Bytes, rows.iter().map(|row| int(row.2)))
        .i64("reserved_bytes", Unit::Bytes, rows.iter().map(|row| row.3.map(int)))
}
