//! Scan of a table directly from the pages of its file, several times as fast as by SQLite's virtual machine.
//!
//! SQLite itself compiles the query and thereby decides where the values of a table are ([`Plan`]). Only the plain form
//! of files, queries, pages and records is read here. At the first deviation the scan ends, and SQLite reads the other
//! rows, so that damage has the same effect as in a scan by SQLite.

use crate::MAGIC;
use rusqlite::Connection;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Length of a file's header.
const HEADER: usize = 100;
/// Limit on pages that are read at once, in bytes.
const BLOCK: usize = 64 << 10;
/// Limit on the depth of a tree.
const DEEPEST: usize = 20;
/// Limit on the size of a row, in bytes; SQLite reads larger ones.
const LARGEST_ROW: usize = 1 << 28;
/// Offset of a byte for locks, whose page contains no data.
const LOCK_BYTE: u64 = 1 << 30;
/// First byte of a table's leaf page and of its interior page.
const LEAF: u8 = 13;
const INTERIOR: u8 = 5;

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Int(i64),
    Real(f64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

/// A column of the query that is stored in the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stored {
    /// Number in the record.
    number: usize,
    /// Number in the query.
    slot: usize,
    /// True if integers are stored in place of floating-point numbers.
    is_real: bool,
}

/// Positions of a query's values.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    root: u32,
    columns: usize,
    /// Stored columns by their number in the record.
    stored: Vec<Stored>,
    /// Columns that are the number of the row.
    row_numbers: Vec<usize>,
}

impl Plan {
    /// Positions of the values of a query with so many columns, from SQLite's compiled program. `None` if the program is
    /// not a plain scan.
    pub(crate) fn new(connection: &Connection, query: &str, columns: usize) -> Option<Self> {
        let mut statement = connection.prepare(&format!("EXPLAIN {query}")).ok()?;
        let mut steps = statement.query([]).ok()?;
        let (mut root, mut first) = (None, None);
        // Registers with a stored column and its number, with the row number, and with floating-point numbers.
        let (mut stored, mut row_numbers, mut real) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(step) = steps.next().ok()? {
            let opcode: String = step.get(1).ok()?;
            let [p1, p2, p3] = [2, 3, 4].map(|column| step.get::<_, i64>(column).unwrap_or(-1));
            let has_default = step.get::<_, String>(5).is_ok_and(|text| !text.is_empty());
            match opcode.as_str() {
                "Init" | "Transaction" | "Goto" | "Rewind" | "Next" | "Halt" | "Null" => {}
                "OpenRead" if root.is_none() && p3 == 0 => root = Some(u32::try_from(p2).ok()?),
                "Column" if p1 == 0 && !has_default => stored.push((p2, p3)),
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
            Some(Stored { number: usize::try_from(number).ok()?, slot: slot(register)?, is_real })
        };
        let mut stored = stored.iter().map(place).collect::<Option<Vec<_>>>()?;
        stored.sort_unstable_by_key(|column| (column.number, column.slot));
        let row_numbers = row_numbers.into_iter().map(slot).collect::<Option<Vec<_>>>()?;
        Some(Self { root: root?, columns, stored, row_numbers })
    }

    /// Decode a record. `None` if it is not plain.
    fn decode<'p>(&self, record: &'p [u8], row_number: i64, values: &mut [Value<'p>]) -> Option<()> {
        let (header, mut at) = varint(record, 0)?;
        let header = usize::try_from(header).ok().filter(|&length| length >= at && length <= record.len())?;
        let (mut offset, mut number, mut columns) = (header, 0, self.stored.as_slice());
        while let Some(next) = columns.first().filter(|_| at < header) {
            let (kind, after) = varint(&record[..header], at)?;
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
        columns.iter().for_each(|column| values[column.slot] = Value::Null);
        self.row_numbers.iter().for_each(|&slot| values[slot] = Value::Int(row_number));
        (offset == record.len() || at < header && offset < record.len()).then_some(())
    }
}

/// Reason of an early end of a scan.
enum End<E> {
    /// A deviation from the plain form.
    Deviation,
    /// An error of the function that takes the rows.
    Error(E),
}

/// The pages of a file in its plain form.
#[derive(Debug)]
pub(crate) struct Pages {
    file: File,
    page: usize,
    /// Bytes of a page without its reserved end.
    usable: usize,
    count: u32,
}

impl Pages {
    /// Open a file. `None` if it is not in the plain form: text as UTF-8, complete, without a log.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let mut file = File::open(path).ok()?;
        let mut header = [0; HEADER];
        file.read_exact(&mut header).ok()?;
        let number = |at: usize| u32_at(&header, at);
        let page = match u16_at(&header, 16)? {
            1 => 1 << 16,
            size => size,
        };
        let usable = page.checked_sub(usize::from(header[20])).filter(|&usable| usable >= 480)?;
        let count = number(28)?;
        let is_plain = header.starts_with(MAGIC)
            && page.is_power_of_two()
            && header[18..20] == [1, 1]
            && header[21..24] == [64, 32, 32]
            && number(24) == number(92)
            && number(56) == Some(1)
            && file.metadata().is_ok_and(|meta| meta.len() >= u64::from(count) * page as u64);
        is_plain.then_some(Self { file, page, usable, count })
    }

    /// Pass the values of each row to `take`, in file order. If SQLite has to read the rest, returns the number of passed
    /// rows.
    pub(crate) fn scan<E>(
        &self,
        plan: &Plan,
        take: &mut impl FnMut(&[Value<'_>]) -> Result<(), E>,
    ) -> Result<Option<u64>, E> {
        let mut passed = 0;
        let walked = self.walk(plan, &[plan.root], 0, &mut |values| {
            take(values)?;
            passed += 1;
            Ok(())
        });
        match walked {
            Ok(()) => Ok(None),
            Err(End::Deviation) => Ok(Some(passed)),
            Err(End::Error(error)) => Err(error),
        }
    }

    /// Visit pages and those below them.
    fn walk<E>(
        &self,
        plan: &Plan,
        pages: &[u32],
        depth: usize,
        take: &mut impl FnMut(&[Value<'_>]) -> Result<(), E>,
    ) -> Result<(), End<E>> {
        let (mut rest, mut block) = (pages, Vec::new());
        while let Some(&first) = rest.first() {
            let adjacent = (first..).zip(rest).take(BLOCK / self.page).take_while(|(expected, page)| expected == *page);
            let count = adjacent.count().max(1);
            if self.read(first, count, &mut block).is_none() {
                return Err(End::Deviation);
            }
            rest = &rest[count..];
            for page in block.chunks_exact(self.page).map(|page| &page[..self.usable]) {
                if page[0] == LEAF {
                    self.leaf(plan, page, take)?;
                } else {
                    let is_interior = page[0] == INTERIOR && depth + 1 < DEEPEST;
                    let Some(below) = children(page).filter(|_| is_interior) else { return Err(End::Deviation) };
                    self.walk(plan, &below, depth + 1, take)?;
                }
            }
        }
        Ok(())
    }

    /// Read adjacent pages.
    fn read(&self, first: u32, count: usize, into: &mut Vec<u8>) -> Option<()> {
        let size = self.page as u64;
        let (from, to) = (u64::from(first), u64::from(first) + count as u64);
        if from < 2 || to > u64::from(self.count) + 1 || (from..to).contains(&(LOCK_BYTE / size + 1)) {
            return None;
        }
        into.resize(count * self.page, 0);
        let mut file = &self.file;
        file.seek(SeekFrom::Start((from - 1) * size)).ok()?;
        file.read_exact(into).ok()
    }

    /// Pass the rows of a leaf page to `take`.
    fn leaf<E>(
        &self,
        plan: &Plan,
        page: &[u8],
        take: &mut impl FnMut(&[Value<'_>]) -> Result<(), E>,
    ) -> Result<(), End<E>> {
        // SQLite passes on no row of a page with a damaged cell, so all cells are checked first.
        let found = cells(page, 8).and_then(|cells| cells.map(|at| self.cell(page, at)).collect::<Option<Vec<Cell>>>());
        let Some(cells) = found else { return Err(End::Deviation) };
        let mut values = vec![Value::Null; plan.columns];
        for cell in cells {
            let local = &page[cell.from..cell.to];
            if cell.length == local.len() {
                plan.decode(local, cell.row_number, &mut values).ok_or(End::Deviation)?;
                take(&values).map_err(End::Error)?;
            } else {
                let Some(long) = self.read_long(local, &cell, page) else { return Err(End::Deviation) };
                let mut values = vec![Value::Null; plan.columns];
                plan.decode(&long, cell.row_number, &mut values).ok_or(End::Deviation)?;
                take(&values).map_err(End::Error)?;
            }
        }
        Ok(())
    }

    /// Place of a row in a leaf page.
    fn cell(&self, page: &[u8], at: usize) -> Option<Cell> {
        let (length, at) = varint(page, at)?;
        let (row_number, from) = varint(page, at)?;
        let length = usize::try_from(length).ok().filter(|&length| length <= LARGEST_ROW)?;
        let most = self.usable - 35;
        let local = if length <= most {
            length
        } else {
            let least = (self.usable - 12) * 32 / 255 - 23;
            let local = least + (length - least) % (self.usable - 4);
            if local <= most { local } else { least }
        };
        let to = from + local;
        let end = if local < length { to + 4 } else { to };
        (end <= page.len()).then_some(Cell { from, to, length, row_number: row_number as i64 })
    }

    /// Read a row that continues on further pages.
    fn read_long(&self, local: &[u8], cell: &Cell, page: &[u8]) -> Option<Vec<u8>> {
        let (mut next, mut whole, mut further) = (u32_at(page, cell.to)?, local.to_vec(), Vec::new());
        while whole.len() < cell.length {
            self.read(next, 1, &mut further)?;
            next = u32_at(&further, 0)?;
            let content = &further[4..self.usable];
            whole.extend_from_slice(&content[..content.len().min(cell.length - whole.len())]);
        }
        Some(whole)
    }
}

/// Place of a row in its page.
struct Cell {
    from: usize,
    to: usize,
    /// Length of the row. It is longer than its part in the page if it continues on further pages.
    length: usize,
    row_number: i64,
}

/// Offsets of a page's cells. `header` is the length of the page's header.
fn cells(page: &[u8], header: usize) -> Option<impl Iterator<Item = usize>> {
    let count = u16_at(page, 3)?;
    let pointers = page.get(header..header + 2 * count)?;
    let (first, last) = (header + pointers.len(), page.len() - 4);
    let cells = pointers.chunks_exact(2).map(|at| usize::from(u16::from_be_bytes([at[0], at[1]])));
    // SQLite's limit on the cells of a page.
    let is_possible = count > 0 && count <= (page.len() - 8) / 6;
    (is_possible && cells.clone().all(|at| (first..=last).contains(&at))).then_some(cells)
}

/// Pages below an interior page.
fn children(page: &[u8]) -> Option<Vec<u32>> {
    let below = cells(page, 12)?.map(|at| {
        varint(page, at + 4)?;
        u32_at(page, at)
    });
    below.chain([u32_at(page, 8)]).collect()
}

/// Number of variable length at an offset, with the offset after it.
#[inline]
fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
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

/// Size of a value by its type in the record's header.
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

/// Value by its type in the record's header.
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

/// Integer of one to eight bytes with a sign.
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

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, Error, Stop};
    use std::fmt::Write;

    /// Values of all sizes, long rows, row numbers, columns that were added later, and gaps.
    fn schema(page: usize, rows: i64) -> String {
        let mut sql = format!("PRAGMA page_size = {page}; CREATE TABLE t (a, b INT, c REAL, d TEXT, e BLOB);");
        for row in 0..rows {
            let (number, length) = (1_i64 << (row % 63), [0, 7, 40, 90, 700, 3000][row as usize % 6]);
            let text = "é".repeat(length / 2);
            write!(sql, "INSERT INTO t VALUES ({}, {number}, {row}, '{text}', zeroblob({length}));", -number).unwrap();
            write!(sql, "INSERT INTO t VALUES ({row}.5, NULL, {row}.25, {row}, 'x{row}');").unwrap();
        }
        sql + "DELETE FROM t WHERE rowid % 7 = 0; ALTER TABLE t ADD COLUMN f; INSERT INTO t VALUES (0, 1, 2, 3, 4, 5);
            CREATE TABLE n (id INTEGER PRIMARY KEY, a); INSERT INTO n SELECT b, a FROM t WHERE b < 9999 GROUP BY b;
            INSERT INTO n VALUES (-5, 'x');
            ALTER TABLE t ADD COLUMN g DEFAULT 7; CREATE TABLE w (a PRIMARY KEY, b) WITHOUT ROWID;
            INSERT INTO w VALUES (1, 2)"
    }

    fn write(page: usize, rows: i64) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sqlite");
        Connection::open(&path).unwrap().execute_batch(&schema(page, rows)).unwrap();
        (folder, path)
    }

    /// Rows of a table as text, and how its scan ended.
    fn rows(file: &Database, table: &str, columns: &[&str]) -> (Vec<String>, String) {
        let mut found = Vec::new();
        let end = file.rows(table, columns, |row| {
            found.push(format!("{:?}", row.values));
            if found.len() > 1000 { Err(Stop) } else { Ok(()) }
        });
        (found, end.map_or_else(|error| error.to_string(), |()| String::new()))
    }

    /// True if a table is read without SQLite.
    fn is_plain(file: &Database, table: &str, columns: &[&str]) -> bool {
        let query = format!("SELECT {} FROM {table} NOT INDEXED", columns.join(", "));
        let plan = Plan::new(&file.connection, &query, columns.len());
        let scan = |plan| file.pages.as_ref()?.scan(&plan, &mut |_| Ok::<(), Error>(())).ok();
        plan.and_then(scan) == Some(None)
    }

    const COLUMNS: &[&str] = &["e", "a", "f", "d", "missing", "c", "b"];

    #[test]
    fn same_values_as_by_sqlite() {
        for page in [512, 4096, 65536] {
            let (_folder, path) = write(page, 150);
            let (fast, mut slow) = (Database::open(&path).unwrap(), Database::open(&path).unwrap());
            slow.pages = None;
            for (table, columns) in [("t", COLUMNS), ("t", &["g"]), ("n", &["id", "a"]), ("w", &["a", "b"])] {
                let found = rows(&fast, table, columns);
                assert!(!found.0.is_empty());
                assert_eq!(found, rows(&slow, table, columns), "{table} {columns:?}, pages of {page} bytes");
            }
            assert!(is_plain(&fast, "t", &["e", "a", "f", "d", "NULL", "c", "b"]));
            assert!(is_plain(&fast, "n", &["id", "a"]) && is_plain(&fast, "n", &["NULL"]));
            assert!(!is_plain(&fast, "t", &["a", "g"]) && !is_plain(&fast, "w", &["a", "b"]));
        }
    }

    #[test]
    fn damage_has_the_same_effect_as_in_sqlite() {
        let (_folder, path) = write(512, 24);
        let whole = std::fs::read(&path).unwrap();
        let offsets = (16..whole.len()).filter(|at| at % 512 < 40 || at % 41 == 0).step_by(5);
        for (turn, at) in offsets.enumerate() {
            let mut bytes = whole.clone();
            bytes[at] = [bytes[at] ^ 1, bytes[at] ^ 0x80, 0, 0xff, 5, 13][turn % 6];
            std::fs::write(&path, &bytes).unwrap();
            let (Ok(fast), Ok(mut slow)) = (Database::open(&path), Database::open(&path)) else { continue };
            slow.pages = None;
            for (table, columns) in [("t", COLUMNS), ("n", &["id", "a"])] {
                assert_eq!(rows(&fast, table, columns), rows(&slow, table, columns), "{table}, byte {at}");
            }
        }
    }
}
