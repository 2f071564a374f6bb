//! Columns from functions of the row number, for tables whose rows are not slices of numbers.

use crate::columns::{Column, Packing, dictionary, handles, interned, text_type};
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, BooleanArray, Int64Array, PrimitiveArray, StringArray};
use arrow_schema::DataType;
use stackline_model::{StrId, StringTable};
use std::ops::Range;
use std::sync::Arc;

/// Arrow column of small numbers that repeat, with a dictionary.
pub(super) fn numbers32<'a>(name: &str, value: impl Fn(usize) -> Option<u32> + 'a) -> Column<'a> {
    Column::new(name, DataType::UInt32, true, Packing::Dictionary, move |rows| {
        Ok(Arc::new(PrimitiveArray::<UInt32Type>::from_iter(rows.map(&value))))
    })
}

/// Arrow column of large numbers, stored as differences.
pub(super) fn numbers64<'a>(name: &str, value: impl Fn(usize) -> Option<u64> + 'a) -> Column<'a> {
    Column::new(name, DataType::UInt64, true, Packing::Delta, move |rows| {
        Ok(Arc::new(PrimitiveArray::<UInt64Type>::from_iter(rows.map(&value))))
    })
}

/// Arrow column of times in ns, stored as differences.
pub(super) fn times<'a>(name: &str, value: impl Fn(usize) -> i64 + 'a) -> Column<'a> {
    Column::new(name, DataType::Int64, false, Packing::Delta, move |rows: Range<usize>| {
        Ok(Arc::new(Int64Array::from_iter_values(rows.map(&value))))
    })
}

/// Arrow column of boolean values.
pub(super) fn booleans<'a>(name: &str, value: impl Fn(usize) -> bool + 'a) -> Column<'a> {
    Column::new(name, DataType::Boolean, false, Packing::Dictionary, move |rows: Range<usize>| {
        Ok(Arc::new(BooleanArray::from_iter(rows.map(|row| Some(value(row))))))
    })
}

/// Arrow column of row numbers that refer to a table; `u32::MAX` is null.
pub(super) fn rows<'a>(name: &str, value: impl Fn(usize) -> u32 + 'a) -> Column<'a> {
    Column::new(name, DataType::UInt32, true, Packing::Delta, move |rows: Range<usize>| Ok(handles(rows.map(&value))))
}

/// Arrow column of interned texts, with a dictionary.
pub(super) fn text<'a>(name: &str, strings: &'a StringTable, value: impl Fn(usize) -> StrId + 'a) -> Column<'a> {
    Column::new(name, text_type(), true, Packing::Dictionary, move |rows: Range<usize>| {
        interned(rows.map(|row| value(row).0), strings)
    })
}

/// Arrow column of enumeration names: `word` gives the name of each number.
pub(super) fn words<'a>(
    name: &str,
    value: impl Fn(usize) -> u32 + 'a,
    word: impl Fn(u32) -> Option<&'static str> + Copy + 'a,
) -> Column<'a> {
    Column::new(name, text_type(), true, Packing::Dictionary, move |rows: Range<usize>| {
        dictionary(rows.map(&value), word)
    })
}

/// Arrow column of texts that are not interned.
pub(super) fn owned_text<'a>(name: &str, value: impl Fn(usize) -> String + 'a) -> Column<'a> {
    Column::new(name, DataType::Utf8, false, Packing::Dictionary, move |rows| {
        Ok(Arc::new(StringArray::from_iter_values(rows.map(&value))) as ArrayRef)
    })
}
