//! Columns of the event table that hold frequent arguments ("wide" columns), as Arrow arrays.

use crate::columns::{Packing, interned, text_type};
use crate::plan::{Plan, WideColumn};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, UInt64Array};
use arrow_schema::DataType;
use rustc_hash::FxHashSet;
use stackline_model::{AttrType, Trace};
use std::ops::Range;
use std::sync::Arc;

/// Arrow data type for the type of an event argument.
pub(crate) fn data_type(kind: AttrType) -> DataType {
    match kind {
        AttrType::Bool => DataType::Boolean,
        AttrType::Int | AttrType::Null => DataType::Int64,
        AttrType::Uint => DataType::UInt64,
        AttrType::Float => DataType::Float64,
        AttrType::Str | AttrType::Json => text_type(),
    }
}

/// Arrow array of an argument column for a range of events.
pub(crate) fn array(trace: &Trace, plan: &Plan, column: &WideColumn, events: Range<usize>) -> Result<ArrayRef, String> {
    let raw = events.map(|event| plan.raw(trace, column, event));
    Ok(match column.kind {
        AttrType::Bool => Arc::new(BooleanArray::from_iter(raw.map(|v| v.map(|v| v != 0)))),
        AttrType::Int | AttrType::Null => Arc::new(Int64Array::from_iter(raw.map(|v| v.map(|v| v as i64)))),
        AttrType::Uint => Arc::new(UInt64Array::from_iter(raw)),
        AttrType::Float => Arc::new(Float64Array::from_iter(raw.map(|v| v.map(f64::from_bits)))),
        AttrType::Str | AttrType::Json => interned(raw.map(|v| v.map_or(u32::MAX, |v| v as u32)), &trace.strings)?,
    })
}

/// Encoding of an argument column: differences for rarely repeated numbers (ids, addresses), otherwise a dictionary.
pub(crate) fn packing(trace: &Trace, plan: &Plan, column: &WideColumn) -> Packing {
    const SAMPLE: usize = 4096;
    if !matches!(column.kind, AttrType::Int | AttrType::Uint) {
        return Packing::Dictionary;
    }
    let mut distinct: FxHashSet<u64> = FxHashSet::default();
    let mut seen = 0;
    for value in (0..trace.events.len()).filter_map(|event| plan.raw(trace, column, event)).take(SAMPLE) {
        distinct.insert(value);
        seen += 1;
    }
    if distinct.len() * 4 > seen { Packing::Delta } else { Packing::Dictionary }
}
