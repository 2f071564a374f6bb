//! Conversion of model columns to Arrow arrays, for run directories and for Python.

use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, PrimitiveArray, StringArray, UInt32Array};
use arrow_schema::{DataType, Field};
use rustc_hash::FxHashMap;
use stackline_model::StringTable;
use std::ops::Range;
use std::sync::Arc;

/// Encoding of a column before compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Differences of adjacent values: times, row numbers, ascending ids.
    Delta,
    /// Distinct values and short indices: text, kinds, small numbers.
    Dictionary,
}

/// Column of a file to be written: name, type, encoding, and a function that makes the array of a range of rows.
pub(crate) struct Column<'a> {
    pub(crate) field: Field,
    pub(crate) packing: Packing,
    /// Build the array of a range of rows.
    pub(crate) make: Box<dyn Fn(Range<usize>) -> Result<ArrayRef, String> + 'a>,
}

impl<'a> Column<'a> {
    /// Create a column from its name, Arrow type, encoding, and the function that makes the array of a range of rows.
    pub(crate) fn new(
        name: &str,
        data_type: DataType,
        nullable: bool,
        packing: Packing,
        make: impl Fn(Range<usize>) -> Result<ArrayRef, String> + 'a,
    ) -> Self {
        Self { field: Field::new(name, data_type, nullable), packing, make: Box::new(make) }
    }
}

/// Arrow type of dictionary-encoded text: pandas sees a categorical, DuckDB and Polars an enum-like column.
pub(crate) fn text_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Array of values, in which the value `none` becomes null.
pub(crate) fn nullable<T, A>(values: impl ExactSizeIterator<Item = T>, none: T) -> ArrayRef
where
    T: Copy + PartialEq + Into<A::Native>,
    A: arrow_array::types::ArrowPrimitiveType,
{
    Arc::new(PrimitiveArray::<A>::from_iter(values.map(|v| (v != none).then(|| v.into()))))
}

/// Array of row handles, in which `u32::MAX` becomes null.
pub(crate) fn handles(values: impl ExactSizeIterator<Item = u32>) -> ArrayRef {
    Arc::new(UInt32Array::from_iter(values.map(|v| (v != u32::MAX).then_some(v))))
}

/// Dictionary array of small numbers; the text of each distinct number is requested once. `u32::MAX` is null; the
/// dictionary is in order of first appearance.
pub(crate) fn dictionary<'a>(
    ids: impl ExactSizeIterator<Item = u32>,
    text_of: impl Fn(u32) -> Option<&'a str>,
) -> Result<ArrayRef, String> {
    let mut seen: FxHashMap<u32, Option<i32>> = FxHashMap::default();
    let mut known: FxHashMap<&str, usize> = FxHashMap::default();
    let mut texts: Vec<&str> = Vec::new();
    let mut last = (u32::MAX, None);
    let mut keys: Vec<Option<i32>> = Vec::with_capacity(ids.len());
    for id in ids {
        if id != last.0 {
            let key = *seen.entry(id).or_insert_with(|| {
                let text = (id != u32::MAX).then(|| text_of(id)).flatten()?;
                // Several numbers may have equal texts, and pandas rejects dictionaries with duplicates.
                let key = *known.entry(text).or_insert(texts.len());
                if key == texts.len() {
                    texts.push(text);
                }
                i32::try_from(key).ok()
            });
            last = (id, key);
        }
        keys.push(last.1);
    }
    let bytes: usize = texts.iter().map(|t| t.len()).sum();
    if i32::try_from(bytes).is_err() {
        return Err("the distinct text of one row group exceeds 2 GiB".to_owned());
    }
    let values = StringArray::from_iter_values(texts);
    let array = DictionaryArray::<Int32Type>::try_new(Int32Array::from(keys), Arc::new(values) as Arc<dyn Array>);
    Ok(Arc::new(array.map_err(|e| e.to_string())?))
}

/// Array of interned text. [`stackline_model::StrId::NONE`] becomes null.
pub(crate) fn interned(ids: impl ExactSizeIterator<Item = u32>, strings: &StringTable) -> Result<ArrayRef, String> {
    dictionary(ids, |id| Some(strings.get(stackline_model::StrId(id))))
}
