//! Columns of the event table, in files and for Python.

use crate::columns::{Column, Packing, dictionary, handles, interned, nullable, text_type};
use crate::track_labels;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Int64Array, UInt8Array, UInt32Array};
use arrow_schema::DataType;
use stackline_model::{EventKind, Level, Phase, Trace};
use std::sync::Arc;

/// All columns of the event table except those of arguments.
pub(crate) fn columns(trace: &Trace) -> Vec<Column<'_>> {
    let e = &trace.events;
    let mut columns = vec![
        Column::new("event", DataType::UInt32, false, Packing::Delta, |r| {
            Ok(Arc::new(UInt32Array::from_iter_values(r.map(|i| i as u32))))
        }),
        Column::new("start_ns", DataType::Int64, false, Packing::Delta, |r| {
            Ok(Arc::new(Int64Array::from(e.start[r].to_vec())))
        }),
        Column::new("dur_ns", DataType::Int64, false, Packing::Delta, |r| {
            Ok(Arc::new(Int64Array::from(e.dur[r].to_vec())))
        }),
        Column::new("name", text_type(), true, Packing::Dictionary, |r| {
            interned(e.name[r].iter().map(|s| s.0), &trace.strings)
        }),
        Column::new("category", text_type(), true, Packing::Dictionary, |r| {
            interned(e.category[r].iter().map(|s| s.0), &trace.strings)
        }),
        Column::new("kind", text_type(), true, Packing::Dictionary, |r| {
            dictionary(e.kind[r].iter().map(|k| *k as u32), |k| EventKind::from_u8(k as u8).map(EventKind::name))
        }),
        Column::new("level", text_type(), true, Packing::Dictionary, |r| {
            dictionary(e.level[r].iter().map(|l| *l as u32), |l| Level::from_u8(l as u8).map(Level::name))
        }),
        Column::new("phase", text_type(), true, Packing::Dictionary, |r| {
            dictionary(e.phase[r].iter().map(|p| *p as u32), |p| Phase::from_u8(p as u8).map(Phase::name))
        }),
    ];
    columns.extend(lane_columns(trace));
    columns.extend([
        Column::new("track", DataType::UInt32, false, Packing::Dictionary, |r| {
            Ok(Arc::new(UInt32Array::from_iter_values(e.track[r].iter().map(|t| t.0))))
        }),
        Column::new("parent", DataType::UInt32, true, Packing::Delta, |r| Ok(handles(e.parent[r].iter().map(|p| p.0)))),
        Column::new("flags", DataType::UInt8, false, Packing::Dictionary, |r| {
            Ok(Arc::new(UInt8Array::from(e.flags[r].to_vec())))
        }),
        Column::new("source_index", DataType::UInt32, false, Packing::Delta, |r| {
            Ok(Arc::new(UInt32Array::from(e.source_index[r].to_vec())))
        }),
    ]);
    columns
}

/// Columns of track properties, repeated per event so that queries need no join.
fn lane_columns(trace: &Trace) -> Vec<Column<'_>> {
    let track = &trace.events.track;
    let labels = Arc::new(track_labels::labels(trace));
    let mut columns: Vec<Column<'_>> = Vec::new();
    for field in track_labels::TEXT_COLUMNS {
        let labels = labels.clone();
        columns.push(Column::new(field.name, text_type(), true, Packing::Dictionary, move |r| {
            dictionary(track[r].iter().map(|t| t.0), |t| (field.label_of)(labels.get(t as usize)?))
        }));
    }
    columns.push(Column::new("device", DataType::Int32, true, Packing::Dictionary, |r| {
        Ok(nullable::<i32, Int32Type>(track[r].iter().map(|t| trace.tracks.get(*t).device), -1))
    }));
    columns.push(Column::new("stream", DataType::Int64, true, Packing::Dictionary, |r| {
        Ok(nullable::<i64, Int64Type>(track[r].iter().map(|t| trace.tracks.get(*t).stream), -1))
    }));
    columns
}
