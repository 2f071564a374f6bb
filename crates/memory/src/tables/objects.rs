//! Objects one by one, and the curve point by point.

use super::int;
use crate::curve::curves;
use stackline_model::{MemoryObjectId, MemoryStackId, MemoryTrace, Table, Unit};

/// All objects, largest first.
pub fn objects_table(trace: &MemoryTrace) -> Table {
    let mut objects: Vec<MemoryObjectId> = trace.objects.ids().collect();
    objects.sort_by_key(|object| std::cmp::Reverse(trace.objects.bytes[object.index()]));
    columns(Table::new("memory_objects", "Objects, largest first"), trace, &objects)
}

/// What is known of some objects.
pub(super) fn columns(table: Table, trace: &MemoryTrace, shown: &[MemoryObjectId]) -> Table {
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
        .text("kind", text(&|row| objects.kind[row].name().to_owned()))
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
    super::places(table, trace, &stacks)
}

/// Memory in use over time. With `most` points or fewer per device: of neighbouring points the highest stays.
pub fn curve_table(trace: &MemoryTrace, most: usize) -> Table {
    let begin = trace.calls.start_ns.first().copied().unwrap_or(0);
    let mut rows = Vec::new();
    for curve in curves(trace) {
        let size = if most == 0 { 1 } else { curve.points.len().div_ceil(most).max(1) };
        for part in curve.points.chunks(size) {
            let highest = part.iter().max_by_key(|(position, bytes)| (*bytes, std::cmp::Reverse(*position)));
            rows.extend(highest.map(|point| (curve.device, *point)));
        }
    }
    let device = |at: usize| trace.devices.get(rows[at].0.index()).map(|device| device.name).unwrap_or_default();
    let time = |position: u32| trace.calls.start_ns.get(position as usize).map(|time| time.saturating_sub(begin));
    Table::new("memory_curve", "Memory in use over time")
        .text("device", (0..rows.len()).map(|at| Some(trace.strings.get(device(at)).to_owned())))
        .i64("call", Unit::None, rows.iter().map(|row| i64::from(row.1.0)))
        .i64("time", Unit::Ns, rows.iter().map(|row| time(row.1.0)))
        .i64("bytes", Unit::Bytes, rows.iter().map(|row| int(row.1.1)))
}
