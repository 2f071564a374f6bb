//! Records of tables: positions of a query's values in them, and their decoding.

use rusqlite::Connection;

/// Limit on the size of a row, in bytes; SQLite reads larger ones.
pub(crate) const LARGEST_ROW: usize = 1 << 28;
/// Limit on the size of a record's header, in bytes, as in SQLite.
const LARGEST_HEADER: usize = 98_307;

/// Value of a row: null, integer, floating-point number, text or blob.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Int(i64),
    Real(f64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

/// Column of a query that is stored in the records of the table: its number there, and in the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoredColumn {
    /// Number in the record.
    number: usize,
    /// Number in the query.
    slot: usize,
    /// True if integers are stored in place of floating-point numbers.
    is_real: bool,
    /// True if records without this column may have another value than null in it.
    has_default: bool,
}

/// Positions of a query's values in the records of a table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) root: u32,
    pub(crate) columns: usize,
    /// Stored columns by their number in the record.
    stored: Vec<StoredColumn>,
    /// Columns that are the number of the row.
    row_numbers: Vec<usize>,
}

impl Plan {
    /// Find the positions of a query's values in the records, from SQLite's compiled program. `None` if the program is
    /// not a plain scan of a table with row numbers. `has_default` is true for the columns of the query with a default.
    pub(crate) fn new(connection: &Connection, query: &str, has_default: &[bool]) -> Option<Self> {
        let columns = has_default.len();
        let mut statement = connection.prepare(&format!("EXPLAIN {query}")).ok()?;
        let mut steps = statement.query([]).ok()?;
        let (mut root, mut first) = (None, None);
        // Registers with a stored column and its number, with the row number, and with floating-point numbers.
        let (mut stored, mut row_numbers, mut real) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(step) = steps.next().ok()? {
            let opcode: String = step.get(1).ok()?;
            let [p1, p2, p3] = [2, 3, 4].map(|column| step.get::<_, i64>(column).unwrap_or(-1));
            // The number of used columns. Tables without row numbers have a description of their key instead.
            let is_numbered = || step.get::<_, String>(5).is_ok_and(|text| text.parse::<u32>().is_ok());
            match opcode.as_str() {
                "Init" | "Transaction" | "Goto" | "Rewind" | "Next" | "Halt" | "Null" => {}
                "OpenRead" if root.is_none() && p3 == 0 && is_numbered() => root = Some(u32::try_from(p2).ok()?),
                "Column" if p1 == 0 => stored.push((p2, p3)),
                "Rowid" if p1 == 0 => row_numbers.push(p2),
                "RealAffinity" => real.push(p1),
                "ResultRow" if first.is_none() && usize::try_from(p2) == Ok(columns) => first = Some(p1),
                _ => return None,
            }
        }
        let first = first?;
        let slot = |register: i64| usize::try_from(register - first).ok().filter(|&slot| slot < columns);
        let place = |&(number, register): &(i64, i64)| {
            let is_real = real.contains(&register);
            let (number, slot) = (usize::try_from(number).ok()?, slot(register)?);
            Some(StoredColumn { number, slot, is_real, has_default: has_default[slot] })
        };
        let mut stored = stored.iter().map(place).collect::<Option<Vec<_>>>()?;
        stored.sort_unstable_by_key(|column| (column.number, column.slot));
        let row_numbers = row_numbers.into_iter().map(slot).collect::<Option<Vec<_>>>()?;
        Some(Self { root: root?, columns, stored, row_numbers })
    }

    /// Decode a record of `length` bytes into `values`. `record` has the bytes before the end of the file. `None` if it
    /// is not plain, or if the file ends within the values.
    pub(crate) fn decode<'p>(
        &self,
        record: &'p [u8],
        length: usize,
        row_number: i64,
        values: &mut [Value<'p>],
    ) -> Option<()> {
        let (header, mut at) = varint(record, 0)?;
        // SQLite reads the type of a first column even if the header has none.
        let header = usize::try_from(header).ok().filter(|&header| header > at && header <= LARGEST_HEADER)?;
        let kinds = record.get(..header)?;
        let (mut offset, mut number, mut columns) = (header, 0, self.stored.as_slice());
        while let Some(next) = columns.first().filter(|_| at < header) {
            let (kind, after) = varint(kinds, at)?;
            let size = size_of(kind)?;
            if next.number == number {
                let value = value(kind, record.get(offset..offset + size)?)?;
                while let Some((column, others)) = columns.split_first().filter(|(column, _)| column.number == number) {
                    values[column.slot] = match value {
                        Value::Int(value) if column.is_real => Value::Real(value as f64),
                        value => value,
                    };
                    columns = others;
                }
            }
            (at, offset, number) = (after, offset + size, number + 1);
        }
        // Older records of an extended table lack its last columns.
        if columns.iter().any(|column| column.has_default) {
            return None;
        }
        columns.iter().for_each(|column| values[column.slot] = Value::Null);
        self.row_numbers.iter().for_each(|&slot| values[slot] = Value::Int(row_number));
        (offset == length || at < header && offset < length).then_some(())
    }
}

/// Decode SQLite's integer of variable length at an offset, and return it with the offset after it; `None` if the bytes
/// end within it.
#[inline]
pub(crate) fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let &first = bytes.get(at)?;
    if first < 0x80 {
        return Some((u64::from(first), at + 1));
    }
    let mut number = u64::from(first & 0x7f);
    for (place, &byte) in bytes[at + 1..].iter().take(7).enumerate() {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((number, at + 2 + place));
        }
    }
    Some((number << 8 | u64::from(*bytes.get(at + 8)?), at + 9))
}

/// Size of a value in bytes, by its type code in the record's header; `None` if the code is reserved or the size too
/// large.
#[inline]
fn size_of(kind: u64) -> Option<usize> {
    match kind {
        0 | 8 | 9 => Some(0),
        1..=4 => Some(kind as usize),
        5 => Some(6),
        6 | 7 => Some(8),
        10 | 11 => None,
        _ => usize::try_from((kind - 12) / 2).ok().filter(|&size| size <= LARGEST_ROW),
    }
}

/// Decode a value by its type code in the record's header.
#[inline]
fn value(kind: u64, bytes: &[u8]) -> Option<Value<'_>> {
    Some(match kind {
        0 => Value::Null,
        8 => Value::Int(0),
        9 => Value::Int(1),
        1..=6 => Value::Int(integer(bytes)?),
        7 => {
            let number = f64::from_be_bytes(bytes.try_into().ok()?);
            if number.is_nan() { Value::Null } else { Value::Real(number) }
        }
        _ if kind.is_multiple_of(2) => Value::Blob(bytes),
        _ => Value::Text(bytes),
    })
}

/// Decode a signed big-endian integer of one to eight bytes.
#[inline]
fn integer(bytes: &[u8]) -> Option<i64> {
    Some(match *bytes {
        [a] => i64::from(a as i8),
        [a, b] => i64::from(i16::from_be_bytes([a, b])),
        [a, b, c] => i64::from(i32::from_be_bytes([a, b, c, 0]) >> 8),
        [a, b, c, d] => i64::from(i32::from_be_bytes([a, b, c, d])),
        [a, b, c, d, e, f] => i64::from_be_bytes([a, b, c, d, e, f, 0, 0]) >> 16,
        _ => i64::from_be_bytes(bytes.try_into().ok()?),
    })
}

/// Decode a big-endian number of two bytes at an offset.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}

/// Decode a big-endian number of four bytes at an offset.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
