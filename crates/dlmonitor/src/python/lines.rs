//! Line numbers of instructions, decoded from the line table of a code object.

use super::layout::LineTable;

/// Line number of the instruction at byte `offset` of the code; `None` if the line table has none.
pub(crate) fn line(format: LineTable, table: &[u8], first_line: u32, offset: usize) -> Option<u32> {
    match format {
        LineTable::Deltas => line_from_deltas(table, first_line, offset),
        LineTable::Locations => line_from_locations(table, first_line, offset),
    }
}

/// Line number at byte `offset` of the code, from a line table of CPython 3.10 (PEP 626): pairs of a byte delta and a
/// line delta; -128 means no line.
fn line_from_deltas(table: &[u8], first_line: u32, offset: usize) -> Option<u32> {
    let mut end = 0;
    let mut line = i64::from(first_line);
    for pair in table.chunks_exact(2) {
        end += usize::from(pair[0]);
        let delta = pair[1].cast_signed();
        if delta != i8::MIN {
            line += i64::from(delta);
        }
        if offset < end {
            return (delta != i8::MIN).then(|| u32::try_from(line).ok()).flatten();
        }
    }
    None
}

/// Line number at byte `offset` of the code, from a line table of CPython 3.11 or later (PEP 657,
/// `Objects/locations.md` in its sources). The first byte of each entry has its top bit set, four bits of form and
/// three of length in two-byte units.
fn line_from_locations(table: &[u8], first_line: u32, offset: usize) -> Option<u32> {
    let mut line = i64::from(first_line);
    let mut end = 0;
    let mut at = 0;
    while let Some(&head) = table.get(at) {
        let form = (head >> 3) & 15;
        end += (usize::from(head & 7) + 1) * 2;
        line += match form {
            13 | 14 => signed(table, at + 1),
            10..=12 => i64::from(form) - 10,
            _ => 0,
        };
        if offset < end {
            return (form != 15).then(|| u32::try_from(line).ok()).flatten();
        }
        at += 1;
        while table.get(at).is_some_and(|byte| byte & 0x80 == 0) {
            at += 1;
        }
    }
    None
}

/// Decode the signed variable-length number at a byte of the table: six bits per byte, lowest bits first; the lowest
/// bit is the sign.
fn signed(table: &[u8], mut at: usize) -> i64 {
    let mut value = 0_i64;
    let mut shift = 0;
    while let Some(&byte) = table.get(at) {
        value |= i64::from(byte & 0x3f) << shift;
        at += 1;
        shift += 6;
        if byte & 0x40 == 0 || shift > 54 {
            break;
        }
    }
    if value & 1 == 0 { value >> 1 } else { -(value >> 1) }
}

#[cfg(test)]
mod tests {
    use super::{LineTable, line};

    #[test]
    fn a_table_of_deltas() {
        // Bytes 0 to 3 line 10, 4 to 9 line 12, 10 to 11 none, 12 to 13 line 11.
        let table = [4, 0, 6, 2, 2, 128, 2, 255];
        let at = |offset| line(LineTable::Deltas, &table, 10, offset);
        assert_eq!([at(0), at(3), at(4), at(10), at(12), at(14)], [Some(10), Some(10), Some(12), None, Some(11), None]);
    }

    #[test]
    fn a_table_of_locations() {
        // Two units in the short form, one unit two lines on, one without location, one 40 lines back in the long form.
        let table = [0x80 | 1, 0x10, 0x80 | (12 << 3), 0, 5, 0x80 | (15 << 3), 0x80 | (13 << 3), 0x40 | 0x11, 1];
        let at = |offset| line(LineTable::Locations, &table, 100, offset);
        assert_eq!(
            [at(0), at(3), at(4), at(6), at(8), at(10)],
            [Some(100), Some(100), Some(102), None, Some(62), None]
        );
    }

    #[test]
    fn truncated_tables_end() {
        for length in 0..9 {
            let table = [0x80 | (14 << 3), 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f];
            let _ = line(LineTable::Locations, &table[..length], 1, 50);
            let _ = line(LineTable::Deltas, &table[..length], 1, 5000);
        }
    }
}
