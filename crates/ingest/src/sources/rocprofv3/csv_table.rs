//! Rows of a CSV file by the names of columns, with a limit on the size of a row.

use super::agents::Agent;
use super::csv_files::{Table, table_of};
use crate::diagnostics;
use crate::sources::File;
use crate::sources::processes::Processes;
use crate::sources::row::ROWS_BETWEEN_CHECKS;
use csv::{ByteRecord, Reader, ReaderBuilder};
use rustc_hash::FxHashMap;
use std::io::{self, BufRead, BufReader, Read};

/// Limit on the size of a row, in bytes. A missing quotation mark makes one row of all that follows.
const MAX_ROW: usize = 1 << 20;

/// A file with known columns.
pub(super) struct CsvTable<'a> {
    pub(super) name: String,
    pub(super) table: Table,
    /// Positions of columns by their names in lower case.
    columns: FxHashMap<String, usize>,
    /// Number of fields of the header. Names of columns may repeat.
    width: usize,
    rows: Reader<RowBytes<'a>>,
    /// True until a row was skipped; its number of lines is unknown.
    has_line_numbers: bool,
}

impl<'a> CsvTable<'a> {
    /// Open a CSV file and detect its table from the header; damaged and unknown files are counted and give `None`.
    pub(super) fn new(file: File<'a>, processes: &mut Processes<'_>) -> Option<Self> {
        let bytes = RowBytes { inner: BufReader::new(file.stream), left: MAX_ROW };
        let mut rows = ReaderBuilder::new().flexible(true).from_reader(bytes);
        let header = match rows.byte_headers() {
            Ok(header) => header.clone(),
            Err(error) => {
                processes.count(diagnostics::TABLE_DAMAGED, &format!("{}: {error}", file.name));
                return None;
            }
        };
        // Writers use different spellings: `LDS_Block_Size`, `Lds_Block_Size`.
        let named = |(at, column): (usize, &[u8])| (String::from_utf8_lossy(column).to_ascii_lowercase(), at);
        let columns: FxHashMap<String, usize> = header.iter().enumerate().map(named).collect();
        let Some(table) = table_of(|column| columns.contains_key(&column.to_ascii_lowercase())) else {
            processes.count(diagnostics::TABLE_NOT_READ, &file.name);
            return None;
        };
        Some(Self { name: file.name, table, columns, width: header.len(), rows, has_line_numbers: true })
    }

    /// Pass the fields of these columns of each CSV row to `take`. Rows that are too long are skipped and counted.
    pub(super) fn for_each_row<const N: usize>(
        &mut self,
        columns: [&str; N],
        processes: &mut Processes<'_>,
        mut take: impl FnMut(&Row<'_, N>, &mut Processes<'_>),
    ) {
        let at = columns.map(|column| self.columns.get(&column.to_ascii_lowercase()).copied());
        let mut record = ByteRecord::new();
        let mut looked = 0_u32;
        // Rows whose width differs from the header's: the last one of a truncated file, or a damaged one.
        let mut wrong_width: Option<String> = None;
        loop {
            self.rows.get_mut().left = MAX_ROW;
            let read = self.rows.read_byte_record(&mut record);
            if let Some(row) = wrong_width.take() {
                let code = if matches!(read, Ok(false)) { diagnostics::TRUNCATED } else { diagnostics::DAMAGED_EVENT };
                processes.count(code, &row);
            }
            let read = match read {
                Err(_) if self.rows.get_ref().left == 0 => {
                    processes.count(diagnostics::LONG_LINE, &self.name);
                    self.skip_row().map(|()| false).map_err(csv::Error::from)
                }
                Ok(false) => return,
                other => other,
            };
            match read {
                Ok(true) if record.len() == self.width => {}
                Ok(true) => {
                    wrong_width = Some(self.width_of(&record));
                    continue;
                }
                Ok(false) => continue,
                Err(error) => {
                    processes.count(diagnostics::TABLE_DAMAGED, &format!("{}: {error}", self.name));
                    return;
                }
            }
            looked = looked.wrapping_add(1);
            if looked.is_multiple_of(ROWS_BETWEEN_CHECKS) && processes.options.is_cancelled() {
                return;
            }
            take(&Row { record: &record, at: &at }, processes);
        }
    }

    /// Description of a row with too few or too many fields.
    fn width_of(&self, record: &ByteRecord) -> String {
        let line = record.position().filter(|_| self.has_line_numbers).map(csv::Position::line);
        let line = line.map_or(String::new(), |line| format!(", line {line}"));
        format!("{}{line}: the row has {} of {} fields", self.name, record.len(), self.width)
    }

    /// Skip the rest of a row that is too long, up to the end of its line, and parse the next line as a new row.
    fn skip_row(&mut self) -> io::Result<()> {
        let empty: Box<dyn Read + 'a> = Box::new(io::empty());
        let nothing = RowBytes { inner: BufReader::new(empty), left: 0 };
        let reader = |bytes: RowBytes<'a>| ReaderBuilder::new().flexible(true).has_headers(false).from_reader(bytes);
        // The parser has consumed all bytes that it took from the file.
        let mut bytes = std::mem::replace(&mut self.rows, reader(nothing)).into_inner();
        let skipped = bytes.inner.skip_until(b'\n');
        self.rows = reader(bytes);
        self.has_line_numbers = false;
        skipped.map(|_| ())
    }
}

/// Bytes of a table that end with an error where a row is too long.
struct RowBytes<'a> {
    inner: BufReader<Box<dyn Read + 'a>>,
    /// Number of bytes that the row may still have.
    left: usize,
}

impl Read for RowBytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::other("a row is longer than 1 MiB"));
        }
        let size = buffer.len().min(self.left);
        let count = self.inner.read(&mut buffer[..size])?;
        self.left -= count;
        Ok(count)
    }
}

/// Fields of a row, in the requested order.
pub(super) struct Row<'r, const N: usize> {
    record: &'r ByteRecord,
    at: &'r [Option<usize>; N],
}

impl<const N: usize> Row<'_, N> {
    /// Text in the requested column with this index; empty if missing.
    pub(super) fn text(&self, column: usize) -> &str {
        let field = self.at[column].and_then(|at| self.record.get(at)).unwrap_or_default();
        std::str::from_utf8(field).unwrap_or_default().trim()
    }

    /// Number in the requested column with this index; `None` if missing or invalid.
    pub(super) fn i64(&self, column: usize) -> Option<i64> {
        self.text(column).parse().ok()
    }

    /// CPU or GPU in the requested column with this index; `None` if missing or invalid.
    pub(super) fn agent(&self, column: usize) -> Option<Agent> {
        Agent::parse(self.text(column))
    }

    /// Sizes in x, y and z from three successive columns; `None` if one is missing.
    pub(super) fn sizes(&self, first: usize) -> Option<[i64; 3]> {
        Some([self.i64(first)?, self.i64(first + 1)?, self.i64(first + 2)?])
    }
}
