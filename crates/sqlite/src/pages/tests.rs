use super::*;
use crate::{Database, Error, Stop};
use rusqlite::Connection;
use std::fmt::Write;
use std::path::PathBuf;

/// SQL for tables with values of all sizes, long rows, row numbers, columns that were added later, and gaps.
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

fn made(sql: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.sqlite");
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    (folder, path)
}

fn write(page: usize, rows: i64) -> (tempfile::TempDir, PathBuf) {
    made(&schema(page, rows))
}

/// Rows of a table as text, and how its scan ended. SQLite's own scan has the same.
fn rows_of(path: &Path, table: &str, columns: &[&str]) -> (Vec<String>, String) {
    let (fast, mut slow) = (Database::open(path).unwrap(), Database::open(path).unwrap());
    slow.pages = None;
    let found = rows(&fast, table, columns);
    assert_eq!(found, rows(&slow, table, columns), "{table} {columns:?}");
    found
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
    let has_default = |name: &&str| file.column(table, name).is_some_and(|column| column.has_default);
    let has_default: Vec<bool> = columns.iter().map(has_default).collect();
    let plan = Plan::new(&file.connection, &query, &has_default);
    let scan = |plan| file.pages.as_ref()?.scan(&plan, &mut |_| Ok::<(), Error>(())).ok();
    plan.and_then(scan).is_some_and(|scanned| scanned.fault.is_none() && scanned.cut == 0)
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
            let (fast, slow) = (rows(&fast, table, columns), rows(&slow, table, columns));
            // A header with too many pages is that of a truncated file, of which SQLite reports general damage.
            let ends = [&fast.1, &slow.1].map(|end| if at < HEADER { end.is_empty().to_string() } else { end.clone() });
            assert_eq!((fast.0, &ends[0]), (slow.0, &ends[1]), "{table}, byte {at}");
        }
    }
}

/// Offset of a byte sequence that a file has once.
fn find(bytes: &[u8], text: &[u8]) -> usize {
    let found: Vec<usize> =
        bytes.windows(text.len()).enumerate().filter(|(_, at)| *at == text).map(|(i, _)| i).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]
}

/// The last of 12 pages is a leaf with four rows of 22 bytes, the first of which is at the end of the page.
#[test]
fn rows_that_a_truncated_file_ends_within_are_counted() {
    let values: Vec<String> = (0..200).map(|i| format!("({i}, 'row number {i:03}')")).collect();
    let (_folder, path) =
        made(&format!("PRAGMA page_size = 512; CREATE TABLE t (a, b); INSERT INTO t VALUES {}", values.join(", ")));
    let bytes = std::fs::read(&path).unwrap();
    let (whole, end) = rows(&Database::open(&path).unwrap(), "t", &["a", "b"]);
    assert_eq!((whole.len(), end.as_str()), (200, ""));
    assert_eq!(Database::open(&path).unwrap().missing_end(), None);
    let (pages, mut kept) = (bytes.len() as u64 / 512, Vec::new());
    assert_eq!(bytes[bytes.len() - 512], LEAF);
    for missing in 1..512 {
        std::fs::write(&path, &bytes[..bytes.len() - missing]).unwrap();
        let (file, mut slow) = (Database::open(&path).unwrap(), Database::open(&path).unwrap());
        assert_eq!(file.missing_end(), Some(MissingEnd { pages, missing: 1, page_bytes: 512 }));
        let (found, end) = rows(&file, "t", &["a", "b"]);
        assert!(found.iter().all(|row| whole.contains(row)), "{missing} bytes are missing");
        let lost = whole.len() - found.len();
        let expected = match missing {
            // The number of rows of the page is missing, too.
            508.. => "the file ends before the last rows of the table".to_owned(),
            _ => format!("rows skipped because the file ends within them: {lost}"),
        };
        assert!(lost > 0);
        assert_eq!(end, expected, "{missing} bytes are missing");
        kept.push(found.len());
        slow.pages = None;
        assert!(rows(&slow, "t", &["a", "b"]).0.iter().all(|row| row != "[Null, Null]"));
    }
    assert_eq!([1, 23, 45, 67].map(|missing| kept[missing - 1]), [199, 198, 197, 196]);
    std::fs::write(&path, &bytes[..bytes.len() - 512]).unwrap();
    let file = Database::open(&path).unwrap();
    let missing = file.missing_end().unwrap();
    assert_eq!(missing.to_string(), format!("1 of the file's {pages} pages of 512 bytes is missing or incomplete"));
    let (found, end) = rows(&file, "t", &["a", "b"]);
    assert_eq!((found.len(), end.as_str()), (kept[510], "the file ends before the last rows of the table"));
}

/// A row whose end is missing is read if its requested values are not in that end.
#[test]
fn long_rows_are_read_up_to_the_end_of_the_file() {
    let sql = "PRAGMA page_size = 512; CREATE TABLE t (a, b, c); INSERT INTO t VALUES (1, zeroblob(5000), 2)";
    let (_folder, path) = made(sql);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 600]).unwrap();
    let file = Database::open(&path).unwrap();
    assert_eq!(rows(&file, "t", &["a"]), (vec!["[Int(1)]".to_owned()], String::new()));
    let lost = "rows skipped because the file ends within them: 1";
    assert_eq!(rows(&file, "t", &["c"]), (Vec::new(), lost.to_owned()));
}

#[test]
fn defaults_of_added_columns_are_those_of_sqlite() {
    let sql = "CREATE TABLE t (a); INSERT INTO t VALUES (1); ALTER TABLE t ADD COLUMN b DEFAULT '';
        ALTER TABLE t ADD COLUMN c DEFAULT x''; ALTER TABLE t ADD COLUMN d REAL DEFAULT 3;
        INSERT INTO t VALUES (2, 3, 4, 5); CREATE TABLE u (a DEFAULT 5, b); INSERT INTO u (b) VALUES (6)";
    let (_folder, path) = made(sql);
    let (found, _) = rows_of(&path, "t", &["a", "b", "c", "d"]);
    let expected = ["[Int(1), Text([]), Blob([]), Real(3.0)]", "[Int(2), Int(3), Int(4), Real(5.0)]"];
    assert_eq!(found, expected);
    assert_eq!(rows_of(&path, "u", &["a", "b"]).0, ["[Int(5), Int(6)]"]);
    let file = Database::open(&path).unwrap();
    assert!(is_plain(&file, "t", &["a"]) && is_plain(&file, "u", &["b", "a"]) && !is_plain(&file, "t", &["b"]));
}

#[test]
fn other_forms_of_files_have_the_same_values() {
    let long = "INSERT INTO t SELECT 'é', zeroblob(9000), 'end'; INSERT INTO t VALUES (NULL, 1, 2)";
    for form in ["encoding = 'UTF-16le'", "auto_vacuum = 1", "journal_mode = WAL", "page_size = 65536"] {
        let sql = format!("PRAGMA {form}; CREATE TABLE t (a, b, c TEXT); {long}");
        let (_folder, path) = made(&sql);
        let (found, end) = rows_of(&path, "t", &["c", "a"]);
        assert_eq!((found.len(), end.as_str()), (2, ""), "{form}");
        assert_eq!(found[1], "[Text([50]), Null]", "{form}");
    }
    let sql = "CREATE TABLE g (a, b AS (a + 1), c AS (a), d AS (a) STORED, e REAL, id INTEGER PRIMARY KEY);
        INSERT INTO g (a, e, id) VALUES (1, 2, NULL), (3, 4.5, -9)";
    let (_folder, path) = made(sql);
    let expected = ["[Int(-9), Real(4.5), Int(3)]", "[Int(1), Real(2.0), Int(1)]"];
    assert_eq!(rows_of(&path, "g", &["id", "e", "a"]).0, expected);
}

/// Hostile records and trees that SQLite reads in another way than the file format says.
#[test]
fn hostile_pages_have_the_same_effect_as_in_sqlite() {
    let record = b"\x04\x00\x1f\x01some text\x07";
    let sql = "PRAGMA page_size = 512; CREATE TABLE t (a, b, c); INSERT INTO t VALUES (NULL, 'some text', 7)";
    let (_folder, path) = made(sql);
    let whole = std::fs::read(&path).unwrap();
    let at = find(&whole, record);
    // A record without columns, one without header, a header that is too long, unknown types.
    for (offset, value) in [(0, 1), (0, 0), (0, 200), (1, 10), (1, 11), (3, 0x80), (2, 0xff)] {
        let mut bytes = whole.clone();
        bytes[at + offset] = value;
        std::fs::write(&path, &bytes).unwrap();
        rows_of(&path, "t", &["a", "b", "c"]);
        rows_of(&path, "t", &["a"]);
    }
    // The whole record has the length 1, and its header, too.
    let mut bytes = whole.clone();
    bytes[at - 2..=at].copy_from_slice(&[1, 1, 1]);
    std::fs::write(&path, &bytes).unwrap();
    assert!(!rows_of(&path, "t", &["a"]).1.is_empty());
}

#[test]
fn hostile_trees_end_without_a_panic() {
    let values = vec!["(zeroblob(60))"; 60].join(", ");
    let (_folder, path) =
        made(&format!("PRAGMA page_size = 512; CREATE TABLE t (a); INSERT INTO t VALUES {values}, (zeroblob(5000))"));
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(whole[512], INTERIOR);
    let cell = 512 + usize::from(u16::from_be_bytes([whole[524], whole[525]]));
    // Pages 2^32 - 1, 1 and 0, and the page itself.
    for page in [u32::MAX, 1, 0, 2] {
        for place in [cell, 512 + 8] {
            let mut bytes = whole.clone();
            bytes[place..place + 4].copy_from_slice(&page.to_be_bytes());
            std::fs::write(&path, &bytes).unwrap();
            rows_of(&path, "t", &["a"]);
        }
    }
    // A long row that continues on the same page again and again.
    let mut bytes = whole.clone();
    let pages: Vec<usize> =
        (2..bytes.len() / 512).filter(|page| ![LEAF, INTERIOR].contains(&bytes[page * 512])).collect();
    for page in pages {
        bytes[page * 512..page * 512 + 4].copy_from_slice(&(page as u32 + 1).to_be_bytes());
    }
    std::fs::write(&path, &bytes).unwrap();
    rows_of(&path, "t", &["a"]);
}

/// A file with three levels of interior pages, each with 61 pointers to the next page, and the first bytes of the leaf
/// page below them, which has 22 rows.
fn endless_tree(present: usize) -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let values: Vec<String> = (0..200).map(|i| format!("({i}, 'row number {i:03}')")).collect();
    let (folder, path) =
        made(&format!("PRAGMA page_size = 512; CREATE TABLE t (a, b); INSERT INTO t VALUES {}", values.join(", ")));
    let mut bytes = std::fs::read(&path).unwrap();
    assert_eq!((bytes[512], &bytes[4 * 512..][..5]), (INTERIOR, &[LEAF, 0, 0, 0, 22][..]));
    for page in 1..4_u32 {
        let (start, next) = (page as usize * 512, (page + 2).to_be_bytes());
        let interior = &mut bytes[start..start + 512];
        interior.fill(0);
        interior[..5].copy_from_slice(&[INTERIOR, 0, 0, 0, 60]);
        interior[5..7].copy_from_slice(&507_u16.to_be_bytes());
        interior[8..12].copy_from_slice(&next);
        // All pointers share one cell, at the end of the page.
        interior[12..12 + 2 * 60].chunks_exact_mut(2).for_each(|at| at.copy_from_slice(&507_u16.to_be_bytes()));
        interior[507..511].copy_from_slice(&next);
    }
    bytes.truncate(4 * 512 + present);
    (folder, path, bytes)
}

/// All rows are cut, so none is passed on. The second file has the mark of a write-ahead log, so SQLite reads it.
#[test]
fn hostile_trees_are_not_followed_without_end() {
    let (_folder, path, bytes) = endless_tree(6);
    std::fs::write(&path, bytes).unwrap();
    let (found, end) = rows(&Database::open(&path).unwrap(), "t", &["a", "b"]);
    assert_eq!((found.len(), end.as_str()), (0, "the file ends before the last rows of the table"));
    let (_folder, path, mut bytes) = endless_tree(8 + 2 * 22);
    bytes[18..20].fill(2);
    std::fs::write(&path, bytes).unwrap();
    let (found, end) = rows(&Database::open(&path).unwrap(), "t", &["a", "b"]);
    assert_eq!((found.len(), end), (0, Error::Endless.to_string()));
}

/// SQLite reads files with the mark of a write-ahead log. Each of these lacks exactly the first of 200 rows on its last
/// page, which has 23 bytes in `t` and 20 in `n`.
#[test]
fn sound_rows_of_nulls_are_not_taken_for_cut_ones() {
    let values: Vec<String> = (0..200).map(|i| format!("({i}, 'row number {i:03}')")).collect();
    let sql = |table: &str, columns: &str| {
        let values = values.join(", ");
        format!("PRAGMA page_size = 512; CREATE TABLE {table} ({columns}); INSERT INTO {table} (a, b) VALUES {values}")
    };
    let lost = "rows skipped because the file ends within them: 1";
    for (table, columns, missing) in
        [("t", "a INTEGER NOT NULL, b TEXT NOT NULL, c", 23), ("n", "a INTEGER PRIMARY KEY, b TEXT NOT NULL", 20)]
    {
        let (_folder, path) = made(&sql(table, columns));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[18..20].fill(2);
        bytes.truncate(bytes.len() - missing);
        std::fs::write(&path, &bytes).unwrap();
        let file = Database::open(&path).unwrap();
        assert!(file.pages.is_none());
        for columns in [["c", "missing"], ["a", "b"]] {
            let (found, end) = rows(&file, table, &columns);
            assert_eq!((found.len(), end.as_str()), (199, lost), "{table} {columns:?}");
        }
    }
}

/// A table without row numbers whose root is a table with them.
#[test]
fn other_kinds_of_trees_are_left_to_sqlite() {
    let (_folder, path) = made(
        "CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 2); CREATE TABLE w (a PRIMARY KEY, b) WITHOUT ROWID;
         PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 't') WHERE name = 'w'",
    );
    let (found, end) = rows_of(&path, "w", &["a", "b"]);
    assert!(found.is_empty() && !end.is_empty(), "{found:?} {end}");
}

/// SQLite reads seven bits of the ninth byte of a row's length, and eight of other numbers.
#[test]
fn lengths_in_nine_bytes_are_left_to_sqlite() {
    let (_folder, path) = made("CREATE TABLE t (a)");
    let pages = Pages::open(&path).unwrap();
    let mut page = vec![0; 4096];
    page[..10].copy_from_slice(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x85, 1]);
    assert!(pages.cell(&page, 0).is_none());
    page[..3].copy_from_slice(&[0x80, 0x05, 1]);
    assert_eq!(pages.cell(&page, 0).map(|cell| (cell.from, cell.length)), Some((3, 5)));
}
