//! Scan of a table directly from the pages of its file, several times as fast as by SQLite's virtual machine.
//!
//! SQLite itself compiles the query and thereby decides where the values of a table are ([`Plan`]). Only the plain form
//! of files, queries, pages and records is read here. At the first deviation the scan ends, and SQLite reads the other
//! rows, so that damage has the same effect as in a scan by SQLite.
//!
//! The end of a truncated file is an exception. SQLite takes the missing part of the last page as zeros, which it
//! reads as rows of nulls. Here, rows that the file ends within are counted, and no such row is passed on.

use crate::record::{LARGEST_ROW, Plan, Value, u16_at, u32_at, varint};
use crate::{MAGIC, MissingEnd};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Length of a file's header.
const HEADER: usize = 100;
/// Limit on pages that are read at once, in bytes.
const BLOCK: usize = 64 << 10;
/// Limit on the depth of a tree.
const DEEPEST: usize = 20;
/// Offset of a byte for locks, whose page contains no data.
const LOCK_BYTE: u64 = 1 << 30;
/// First byte of a table's leaf page and of its interior page.
const LEAF: u8 = 13;
const INTERIOR: u8 = 5;

/// Header of an SQLite file, with the page size.
struct Header {
    bytes: [u8; HEADER],
    /// Size of a page.
    page: usize,
}

impl Header {
    /// Read the header of an SQLite file; `None` if it is no SQLite file, or the page size is invalid.
    fn read(file: &mut File) -> Option<Self> {
        let mut bytes = [0; HEADER];
        file.read_exact(&mut bytes).ok()?;
        let page = match u16_at(&bytes, 16)? {
            1 => 1 << 16,
            size => size,
        };
        let is_valid = bytes.starts_with(MAGIC) && page.is_power_of_two() && page >= 512;
        is_valid.then_some(Self { bytes, page })
    }

    /// Big-endian number of four bytes at an offset of the header.
    fn number(&self, at: usize) -> Option<u32> {
        u32_at(&self.bytes, at)
    }

    /// Number of pages of the file, if the header states it: programs that do not know the field do not change its
    /// check value.
    fn pages(&self) -> Option<u32> {
        self.number(28).filter(|&pages| pages > 0 && self.number(24) == self.number(92))
    }
}

/// Missing end of an SQLite file: pages that its header states, or the last page, of which it has only a part. `None`
/// for a complete file.
pub(crate) fn missing_end(path: &Path) -> Option<MissingEnd> {
    let mut file = File::open(path).ok()?;
    let header = Header::read(&mut file)?;
    let (size, page) = (file.metadata().ok()?.len(), header.page as u64);
    let pages = header.pages().map_or(size.div_ceil(page), u64::from);
    let complete = size / page;
    (complete < pages).then(|| MissingEnd { pages, missing: pages - complete, page_bytes: page })
}

/// Reason for which a scan of pages ends early: a deviation from the plain form, or the end of a truncated file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A deviation from the plain form.
    Deviation,
    /// The file ends before the next rows.
    FileEnd,
}

/// Early end of a scan: a fault of the file, or an error of the function that takes the rows.
enum EarlyEnd<E> {
    Fault(Fault),
    /// An error of the function that takes the rows.
    Error(E),
}

impl<E> From<Fault> for EarlyEnd<E> {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Result of a table scan: numbers of passed and of cut rows, and the reason of an early end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScanResult {
    /// Number of rows that were passed on.
    pub(crate) passed: u64,
    /// Number of rows that were not passed on, because the file ends within them.
    pub(crate) cut: u64,
    /// Reason of an early end.
    pub(crate) fault: Option<Fault>,
}

/// State of a table scan: query plan, and numbers of rows passed, rows cut and pages left.
struct ScanState<'a> {
    plan: &'a Plan,
    passed: u64,
    cut: u64,
    /// Number of pages that may still be read. A table of a sound file has each page of the file at most once.
    pages_left: u64,
}

/// Open SQLite file in the plain form, whose pages are read without SQLite.
#[derive(Debug)]
pub(crate) struct Pages {
    file: File,
    /// Size of the file in bytes.
    size: u64,
    page: usize,
    /// Bytes of a page without its reserved end.
    usable: usize,
    /// Number of pages that the header states.
    stated: u32,
    /// Number of pages that the file has at least a part of.
    count: u32,
    /// True if pages have a record of their purpose, by which SQLite finds the pages of long rows.
    has_page_map: bool,
}

impl Pages {
    /// Open an SQLite file for reading by pages. `None` if it is not in the plain form: text as UTF-8, without a log.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let mut file = File::open(path).ok()?;
        let header = Header::read(&mut file)?;
        let (bytes, page, stated) = (&header.bytes, header.page, header.pages()?);
        let usable = page.checked_sub(usize::from(bytes[20])).filter(|&usable| usable >= 480)?;
        let size = file.metadata().ok()?.len();
        let count = u32::try_from(size.div_ceil(page as u64)).map_or(stated, |pages| pages.min(stated));
        let has_page_map = header.number(52) != Some(0);
        let is_plain = bytes[18..20] == [1, 1] && bytes[21..24] == [64, 32, 32] && header.number(56) == Some(1);
        is_plain.then_some(Self { file, size, page, usable, stated, count, has_page_map })
    }

    /// Scan a table, and pass the values of each row to `take`, in file order. After a deviation, SQLite has to read
    /// the rest.
    pub(crate) fn scan<E>(
        &self,
        plan: &Plan,
        take: &mut impl FnMut(&[Value<'_>]) -> Result<(), E>,
    ) -> Result<ScanResult, E> {
        let mut progress = ScanState { plan, passed: 0, cut: 0, pages_left: u64::from(self.count) };
        let fault = match self.walk(&mut progress, &[plan.root], 0, take) {
            Ok(()) => None,
            Err(EarlyEnd::Fault(fault)) => Some(fault),
            Err(EarlyEnd::Error(error)) => return Err(error),
        };
        Ok(ScanResult { passed: progress.passed, cut: progress.cut, fault })
    }

    /// Scan the tree of a table from these pages down, in order, and pass the rows of leaf pages to `take`.
    fn walk<E>(
        &self,
        progress: &mut ScanState<'_>,
        pages: &[u32],
        depth: usize,
        take: &mut impl FnMut(&[Value<'_>]) -> Result<(), E>,
    ) -> Result<(), EarlyEnd<E>> {
        let (mut rest, mut block) = (pages, Vec::new());
        while let Some(&first) = rest.first() {
            let is_next =
                |&(&page, distance): &(&u32, u64)| u64::from(page) == u64::from(first) + distance && page <= self.count;
            let adjacent = rest.iter().zip(0..).take(BLOCK / self.page).take_while(is_next);
            let count = adjacent.count().max(1);
            let present = self.read(progress, first, count, &mut block)?;
            rest = &rest[count..];
            for (page, start) in block.chunks_exact(self.page).zip((0..).step_by(self.page)) {
                let page = &page[..self.usable];
                let present = present.saturating_sub(start).min(self.usable);
                match page[0] {
                    LEAF => self.leaf(progress, page, present, take)?,
                    // The pages below are unknown.
                    _ if present < self.usable => return Err(Fault::FileEnd.into()),
                    INTERIOR if depth + 1 < DEEPEST => {
                        let below = children(page).ok_or(Fault::Deviation)?;
                        self.walk(progress, &below, depth + 1, take)?;
                    }
                    _ => return Err(Fault::Deviation.into()),
                }
            }
        }
        Ok(())
    }

    /// Read adjacent pages. Returns the number of bytes before the end of the file; all further bytes are 0.
    fn read(&self, progress: &mut ScanState<'_>, first: u32, count: usize, into: &mut Vec<u8>) -> Result<usize, Fault> {
        let size = self.page as u64;
        let (from, to) = (u64::from(first), u64::from(first) + count as u64);
        if from > u64::from(self.count) && from <= u64::from(self.stated) {
            return Err(Fault::FileEnd);
        }
        if from < 2 || to > u64::from(self.count) + 1 || (from..to).contains(&(LOCK_BYTE / size + 1)) {
            return Err(Fault::Deviation);
        }
        progress.pages_left = progress.pages_left.checked_sub(to - from).ok_or(Fault::Deviation)?;
        let (start, length) = ((from - 1) * size, count * self.page);
        let present = usize::try_from(self.size.saturating_sub(start)).map_or(length, |bytes| bytes.min(length));
        into.resize(length, 0);
        into[present..].fill(0);
        let mut file = &self.file;
        let read = file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut into[..present]));
        read.map(|()| present).map_err(|_| Fault::Deviation)
    }

    /// Pass the rows of a leaf page to `take`; rows that the file ends within are only counted. The file has the first
    /// `present` bytes of the page.
    fn leaf<E>(
        &self,
        progress: &mut ScanState<'_>,
        page: &[u8],
        present: usize,
        take: &mut impl FnMut(&[Value<'_>]) -> Result<(), E>,
    ) -> Result<(), EarlyEnd<E>> {
        // SQLite passes on no row of a page with a damaged cell, so all cells are checked first.
        let found = cells(page, 8).and_then(|cells| cells.map(|at| self.cell(page, at)).collect::<Option<Vec<Cell>>>());
        let cells = match (found, u16_at(page, 3)) {
            (Some(cells), _) => cells,
            // The content of a page is at its end, so it has no complete row if the list of rows is incomplete.
            (None, Some(count)) if (5..self.usable).contains(&present) && is_possible(count, page) => {
                progress.cut += count as u64;
                return Ok(());
            }
            _ if present < self.usable => return Err(Fault::FileEnd.into()),
            _ => return Err(Fault::Deviation.into()),
        };
        let mut values = vec![Value::Null; progress.plan.columns];
        for cell in cells {
            let local = &page[cell.from..cell.to];
            if cell.end > present {
                progress.cut += 1;
            } else if cell.length == local.len() {
                progress.plan.decode(local, cell.length, cell.row_number, &mut values).ok_or(Fault::Deviation)?;
                take(&values).map_err(EarlyEnd::Error)?;
                progress.passed += 1;
            } else {
                self.long_row(progress, &cell, page, take)?;
            }
        }
        Ok(())
    }

    /// Locate a row in a leaf page, by the offset of its cell. `None` if the row is too large, or its part does not fit
    /// in the page.
    fn cell(&self, page: &[u8], at: usize) -> Option<Cell> {
        let (length, after) = varint(page, at)?;
        let (row_number, from) = varint(page, after)?;
        // No row is larger than all pages. Of a length in nine bytes, SQLite reads fewer bits.
        let largest = LARGEST_ROW.min((self.count as usize).saturating_mul(self.usable));
        let is_plain = |&length: &usize| length <= largest && after - at < 9;
        let length = usize::try_from(length).ok().filter(is_plain)?;
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
        (end <= page.len()).then_some(Cell { from, to, end, length, row_number: row_number as i64 })
    }

    /// Pass a row that continues on further pages to `take`.
    fn long_row<E>(
        &self,
        progress: &mut ScanState<'_>,
        cell: &Cell,
        page: &[u8],
        take: &mut impl FnMut(&[Value<'_>]) -> Result<(), E>,
    ) -> Result<(), EarlyEnd<E>> {
        let record = self.read_long(progress, cell, page)?;
        let mut values = vec![Value::Null; progress.plan.columns];
        match progress.plan.decode(&record, cell.length, cell.row_number, &mut values) {
            Some(()) => {
                take(&values).map_err(EarlyEnd::Error)?;
                progress.passed += 1;
            }
            None if record.len() < cell.length => progress.cut += 1,
            None => return Err(Fault::Deviation.into()),
        }
        Ok(())
    }

    /// Read a row that continues on further pages, up to the end of the file.
    fn read_long(&self, progress: &mut ScanState<'_>, cell: &Cell, page: &[u8]) -> Result<Vec<u8>, Fault> {
        if self.has_page_map {
            return Err(Fault::Deviation);
        }
        let (mut whole, mut further) = (page[cell.from..cell.to].to_vec(), Vec::new());
        let mut next = u32_at(page, cell.to).ok_or(Fault::Deviation)?;
        while whole.len() < cell.length {
            let present = match self.read(progress, next, 1, &mut further) {
                Ok(present) => present.min(self.usable),
                Err(Fault::FileEnd) => break,
                Err(Fault::Deviation) => return Err(Fault::Deviation),
            };
            next = u32_at(&further, 0).ok_or(Fault::Deviation)?;
            let content = further[..present].get(4..).unwrap_or(&[]);
            whole.extend_from_slice(&content[..content.len().min(cell.length - whole.len())]);
            if present < self.usable {
                break;
            }
        }
        Ok(whole)
    }
}

/// Location of a row in its leaf page, with row number and total length in bytes.
struct Cell {
    from: usize,
    to: usize,
    /// End, with the number of the page on which a long row continues.
    end: usize,
    /// Length of the row. It is longer than its part in the page if it continues on further pages.
    length: usize,
    row_number: i64,
}

/// True if a page can have this number of cells, by SQLite's limit.
fn is_possible(count: usize, page: &[u8]) -> bool {
    count > 0 && count <= (page.len() - 8) / 6
}

/// Offsets of a page's cells (rows or child pointers); `None` if their list is invalid. `header` is the length of the
/// page's header.
fn cells(page: &[u8], header: usize) -> Option<impl Iterator<Item = usize>> {
    let count = u16_at(page, 3)?;
    let pointers = page.get(header..header + 2 * count)?;
    let (first, last) = (header + pointers.len(), page.len() - 4);
    let cells = pointers.chunks_exact(2).map(|at| usize::from(u16::from_be_bytes([at[0], at[1]])));
    (is_possible(count, page) && cells.clone().all(|at| (first..=last).contains(&at))).then_some(cells)
}

/// Numbers of the pages below an interior page, in order; `None` if the page is invalid.
fn children(page: &[u8]) -> Option<Vec<u32>> {
    let below = cells(page, 12)?.map(|at| {
        varint(page, at + 4)?;
        u32_at(page, at)
    });
    below.chain([u32_at(page, 8)]).collect()
}

#[cfg(test)]
mod tests;
