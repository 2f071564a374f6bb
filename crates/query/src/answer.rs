//! Answers to queries: a JSON document, and columns of numbers for long lists.
//!
//! Binary layout: the length of the head as 32 bits, the head (JSON: the document, and names, types and lengths of the
//! columns), then the columns. All numbers are little-endian. Padding with spaces aligns each column to 8 bytes, so
//! that a browser can use it as a typed array without a copy.

use crate::QueryError;
use serde::Serialize;
use serde_json::json;
use std::borrow::Cow;

/// Bytes that columns start at a multiple of.
const ALIGNMENT: usize = 8;

/// Values of a column of an answer, by number type.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Bytes: kinds and depths.
    U8(Vec<u8>),
    /// Indices and counts that are small.
    U16(Vec<u16>),
    /// Indices and counts.
    U32(Vec<u32>),
    /// Times and amounts: whole numbers are exact up to 2^53 (104 days in ns).
    F64(Vec<f64>),
}

impl Column {
    /// Convert a column of whole numbers to the smallest unsigned type that holds them all; a column with fractions or
    /// negative values is unchanged.
    fn narrowed(&self) -> Cow<'_, Self> {
        let most = match self {
            Self::U8(_) => return Cow::Borrowed(self),
            Self::U16(values) => u32::from(values.iter().max().copied().unwrap_or(0)),
            Self::U32(values) => values.iter().max().copied().unwrap_or(0),
            Self::F64(values) => {
                let is_whole = |value: &f64| f64::from(*value as u32) == *value && value.is_sign_positive();
                if !values.iter().all(is_whole) {
                    return Cow::Borrowed(self);
                }
                values.iter().map(|&value| value as u32).max().unwrap_or(0)
            }
        };
        let values: Vec<u32> = match self {
            Self::U8(values) => values.iter().copied().map(u32::from).collect(),
            Self::U16(values) => values.iter().copied().map(u32::from).collect(),
            Self::U32(values) => values.clone(),
            Self::F64(values) => values.iter().map(|&value| value as u32).collect(),
        };
        Cow::Owned(match most {
            0..=0xff => Self::U8(values.into_iter().map(|value| value as u8).collect()),
            0x100..=0xffff => Self::U16(values.into_iter().map(|value| value as u16).collect()),
            _ => Self::U32(values),
        })
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::U8(_) => "u8",
            Self::U16(_) => "u16",
            Self::U32(_) => "u32",
            Self::F64(_) => "f64",
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::U8(values) => values.len(),
            Self::U16(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// Append the values in little-endian order, padded to the alignment of columns.
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::U8(values) => out.extend_from_slice(values),
            Self::U16(values) => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::U32(values) => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::F64(values) => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        }
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    }
}

/// Answer to a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The document, as JSON text.
    pub json: String,
    /// Columns with their names, in a fixed order.
    pub columns: Vec<(&'static str, Column)>,
}

impl Answer {
    /// Answer of a query that consists of a JSON document alone.
    pub(crate) fn document(document: &impl Serialize) -> Result<Self, QueryError> {
        Self::with_columns(document, Vec::new())
    }

    /// Answer of a query that consists of a JSON document and columns of numbers.
    pub(crate) fn with_columns(
        document: &impl Serialize,
        columns: Vec<(&'static str, Column)>,
    ) -> Result<Self, QueryError> {
        Ok(Self { json: serde_json::to_string(document).map_err(QueryError::unavailable)?, columns })
    }

    /// First `most` values of an answer's column of 32-bit indices; none if there is no such column.
    pub(crate) fn whole_numbers(&self, name: &str, most: usize) -> Vec<u32> {
        match self.columns.iter().find(|(column, _)| *column == name) {
            Some((_, Column::U32(values))) => values.iter().take(most).copied().collect(),
            _ => Vec::new(),
        }
    }

    /// Values of an answer's column of numbers that may have fractions; none if there is no such column.
    pub(crate) fn numbers(&self, name: &str) -> &[f64] {
        match self.columns.iter().find(|(column, _)| *column == name) {
            Some((_, Column::F64(values))) => values,
            _ => &[],
        }
    }

    /// Encode a query's answer as bytes; each column in the smallest type that holds its numbers.
    pub fn to_bytes(&self) -> Vec<u8> {
        let columns: Vec<_> = self.columns.iter().map(|(name, column)| (*name, column.narrowed())).collect();
        let heads: Vec<_> =
            columns.iter().map(|(name, column)| json!([name, column.type_name(), column.len()])).collect();
        let mut head = format!("{{\"columns\":{},\"document\":{}}}", json!(heads), self.json);
        let unfilled = size_of::<u32>() + head.len();
        head.extend(std::iter::repeat_n(' ', unfilled.next_multiple_of(ALIGNMENT) - unfilled));
        let mut out = Vec::with_capacity(size_of::<u32>() + head.len());
        out.extend_from_slice(&u32::try_from(head.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(head.as_bytes());
        for (_, column) in &columns {
            column.write(&mut out);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_width_fits_the_largest_value() {
        let narrow = |values: &[f64]| Column::F64(values.to_vec()).narrowed().into_owned();
        assert_eq!(narrow(&[]), Column::U8(vec![]));
        assert_eq!(narrow(&[7.0, 255.0]), Column::U8(vec![7, 255]));
        assert_eq!(narrow(&[256.0, 0.0]), Column::U16(vec![256, 0]));
        assert_eq!(narrow(&[65_536.0]), Column::U32(vec![65_536]));
        for other in [&[4_294_967_296.0][..], &[-1.0, 3.0], &[0.5], &[-0.0], &[f64::NAN], &[f64::INFINITY]] {
            assert_eq!(format!("{:?}", narrow(other)), format!("{:?}", Column::F64(other.to_vec())));
        }
        assert_eq!(Column::U32(vec![300, 2]).narrowed().into_owned(), Column::U16(vec![300, 2]));
        assert_eq!(Column::U16(vec![3, 2]).narrowed().into_owned(), Column::U8(vec![3, 2]));
    }

    #[test]
    fn columns_start_at_multiples_of_eight() {
        let columns = vec![("depth", Column::U8(vec![1, 2, 3])), ("start", Column::F64(vec![0.5]))];
        let bytes = Answer { json: "{\"a\":1}".to_owned(), columns }.to_bytes();
        let head_len = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        let from = 4 + head_len;
        assert_eq!(from % 8, 0);
        let head: serde_json::Value = serde_json::from_slice(&bytes[4..from]).expect("head is JSON");
        assert_eq!(head, json!({"columns": [["depth", "u8", 3], ["start", "f64", 1]], "document": {"a": 1}}));
        assert_eq!(&bytes[from..from + 3], &[1, 2, 3]);
        assert_eq!(&bytes[from + 8..], &0.5_f64.to_le_bytes());
    }
}
