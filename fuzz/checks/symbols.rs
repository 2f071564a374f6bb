//! Names of native code from any bytes: there is an answer for each offset, and it stays small.

use stackline_symbols::names_in;

/// Panics where it does not hold.
pub(crate) fn check(data: &[u8]) {
    let offsets = [0, 0x1000, 0x1001, 0x2000, 0x10_0000, u64::MAX - 1, u64::MAX];
    let names = names_in(data, &offsets);
    assert_eq!(names.len(), offsets.len());
    let text = names.iter().flatten().map(|frame| frame.function.len() + frame.file.len()).sum::<usize>();
    assert!(text < 128 << 20, "{text} bytes of names");
}
