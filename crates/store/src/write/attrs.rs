//! Write arguments: the wide columns of the event table, the layouts, and the long table.

use super::Files;
use crate::columns::{Column, Packing, dictionary, interned, text_type};
use crate::plan::{Names, Plan, WideColumn};
use crate::wide;
use crate::{Error, attr_type};
use arrow_array::{Float64Array, Int64Array, StringArray, UInt32Array, UInt64Array};
use arrow_schema::DataType;
use stackline_model::{AttrLayout, AttrLayoutId, AttrType, StrId, Trace};
use std::sync::Arc;

/// Stable text name of the argument type with this discriminant; `None` for an unknown number.
fn type_text(discriminant: u32) -> Option<&'static str> {
    AttrType::from_u8(discriminant as u8).map(attr_type::name)
}

/// Write the table of argument layouts, and the long table of arguments without their own column.
pub(super) fn write(trace: &Trace, plan: &Plan, names: &Names, files: &mut Files) -> Result<(), Error> {
    write_shapes(trace, plan, names, files)?;
    let rows = LongRows::from_trace(trace, plan);
    files.write_table("attributes", rows.event.len(), &rows.columns(trace))
}

/// Layout, and position, key and type of a field.
type Row = (u32, Option<(u32, StrId, AttrType)>);

/// Write the table of argument layouts, one row per field; a layout without fields has one row with a null position.
fn write_shapes(trace: &Trace, plan: &Plan, names: &Names, files: &mut Files) -> Result<(), Error> {
    let (shapes, _, _) = trace.attrs.columns();
    let mut rows: Vec<Row> = Vec::new();
    for (id, shape) in shapes.iter().enumerate() {
        let fields = shape.fields.iter().enumerate();
        rows.extend(fields.map(|(position, &(key, kind))| (id as u32, Some((position as u32, key, kind)))));
        if shape.fields.is_empty() {
            rows.push((id as u32, None));
        }
    }
    let columns = [
        Column::new("shape", DataType::UInt32, false, Packing::Delta, |r| {
            Ok(Arc::new(UInt32Array::from_iter_values(rows[r].iter().map(|x| x.0))))
        }),
        Column::new("position", DataType::UInt32, true, Packing::Dictionary, |r| {
            Ok(Arc::new(UInt32Array::from_iter(rows[r].iter().map(|x| x.1.map(|f| f.0)))))
        }),
        Column::new("key", text_type(), true, Packing::Dictionary, |r| {
            interned(rows[r].iter().map(|x| x.1.map_or(u32::MAX, |f| f.1.0)), &trace.strings)
        }),
        Column::new("type", text_type(), true, Packing::Dictionary, |r| {
            dictionary(rows[r].iter().map(|x| x.1.map_or(u32::MAX, |f| f.2 as u32)), type_text)
        }),
        Column::new("column", DataType::Utf8, true, Packing::Dictionary, |r| {
            let column_name =
                |x: &Row| x.1.and_then(|f| plan.column_of(AttrLayoutId(x.0), f.0)).map(|c| names.get(trace, c));
            Ok(Arc::new(StringArray::from_iter(rows[r].iter().map(column_name))))
        }),
    ];
    files.write_table("shapes", rows.len(), &columns)
}

/// Rows of the long table: one per value, by event and position.
#[derive(Default)]
struct LongRows {
    event: Vec<u32>,
    position: Vec<u32>,
    field: Vec<(StrId, AttrType)>,
    raw: Vec<u64>,
}

impl LongRows {
    /// Collect the argument values of a trace without their own column, by event and position.
    fn from_trace(trace: &Trace, plan: &Plan) -> Self {
        let (shapes, shape, values) = trace.attrs.columns();
        let is_long = |(id, shape): (usize, &AttrLayout)| -> Vec<bool> {
            let positions = 0..shape.fields.len() as u32;
            positions.map(|position| plan.column_of(AttrLayoutId::new(id), position).is_none()).collect()
        };
        let long: Vec<Vec<bool>> = shapes.iter().enumerate().map(is_long).collect();
        let any_long: Vec<bool> = long.iter().map(|l| l.contains(&true)).collect();
        let mut rows = Self::default();
        let mut from = 0;
        for (event, id) in shape.iter().enumerate() {
            let fields = &shapes[id.index()].fields;
            let values = &values[from..from + fields.len()];
            from += fields.len();
            if !any_long[id.index()] {
                continue;
            }
            for position in (0..fields.len()).filter(|p| long[id.index()][*p]) {
                rows.event.push(event as u32);
                rows.position.push(position as u32);
                rows.field.push(fields[position]);
                rows.raw.push(values[position]);
            }
        }
        rows
    }

    /// Arrow columns of the long table: event, position, key, type, and the value in the column of its type.
    fn columns<'a>(&'a self, trace: &'a Trace) -> Vec<Column<'a>> {
        use AttrType::{Bool, Float, Int, Json, Str, Uint};
        let values = |r: std::ops::Range<usize>| self.field[r.clone()].iter().map(|f| f.1).zip(&self.raw[r]);
        vec![
            Column::new("event", DataType::UInt32, false, Packing::Delta, |r| {
                Ok(Arc::new(UInt32Array::from(self.event[r].to_vec())))
            }),
            Column::new("position", DataType::UInt32, false, Packing::Dictionary, |r| {
                Ok(Arc::new(UInt32Array::from(self.position[r].to_vec())))
            }),
            Column::new("key", text_type(), true, Packing::Dictionary, |r| {
                interned(self.field[r].iter().map(|f| f.0.0), &trace.strings)
            }),
            Column::new("type", text_type(), true, Packing::Dictionary, |r| {
                dictionary(self.field[r].iter().map(|f| f.1 as u32), type_text)
            }),
            Column::new("int", DataType::Int64, true, Packing::Dictionary, move |r| {
                let integer = |(kind, raw): (AttrType, &u64)| matches!(kind, Int | Bool).then_some(*raw as i64);
                Ok(Arc::new(Int64Array::from_iter(values(r).map(integer))))
            }),
            Column::new("uint", DataType::UInt64, true, Packing::Dictionary, move |r| {
                Ok(Arc::new(UInt64Array::from_iter(values(r).map(|(kind, raw)| (kind == Uint).then_some(*raw)))))
            }),
            Column::new("float", DataType::Float64, true, Packing::Dictionary, move |r| {
                let float = |(kind, raw): (AttrType, &u64)| (kind == Float).then(|| f64::from_bits(*raw));
                Ok(Arc::new(Float64Array::from_iter(values(r).map(float))))
            }),
            Column::new("text", text_type(), true, Packing::Dictionary, move |r| {
                let boolean =
                    |(kind, raw): (AttrType, &u64)| if matches!(kind, Str | Json) { *raw as u32 } else { u32::MAX };
                let ids: Vec<u32> = values(r).map(boolean).collect();
                interned(ids.into_iter(), &trace.strings)
            }),
        ]
    }
}

/// Columns of the event table for frequent arguments.
pub(super) fn wide_columns<'a>(trace: &'a Trace, plan: &'a Plan, names: &Names) -> Vec<Column<'a>> {
    let make = |column: &'a WideColumn| {
        let data_type = wide::data_type(column.kind);
        let packing = wide::packing(trace, plan, column);
        Column::new(names.get(trace, column), data_type, true, packing, move |r| wide::array(trace, plan, column, r))
    };
    plan.columns.iter().map(make).collect()
}
