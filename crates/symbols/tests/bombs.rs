//! Small files that are crafted to be large, slow or deep: each gives a result within limits, from its plain parts.

use crate::made;

use flate2::{Compression, write::ZlibEncoder};
use made::{
    ADDRESS, Bytes, CODE, CODE_SIZE, DATA8, FUNCTION, HIGH, LINES, LOW, Made, NAME, OFFSET, RANGES, TEXT, UNIT,
    abbreviation, inlined, unit,
};
use stackline_symbols::{Frame, names_in};
use std::io::Write as _;
use std::time::{Duration, Instant};

/// Time limit of a result. Each takes less than a second, and minutes without limits.
const TIME: Duration = Duration::from_secs(60);
/// Memory limit of this process with all of its tests in kB. Without limits each test exceeds it.
const MEMORY: u64 = 3 << 20;

/// Peak memory of this process in kB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Functions in the middle of the code, outermost first.
fn symbolize_file(file: &[u8]) -> Vec<Frame> {
    let before = Instant::now();
    let frames = names_in(file, &[CODE + CODE_SIZE / 2]).remove(0);
    let (took, memory) = (before.elapsed(), peak());
    println!("{} bytes: {took:?}, {memory} kB at most so far, {} frames", file.len(), frames.len());
    assert!(took < TIME, "{took:?}");
    assert!(memory < MEMORY, "{memory} kB");
    frames
}

fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.function.as_str()).collect()
}

#[test]
fn functions_inlined_at_some_depth_are_known() {
    for depth in [0, 1, 200] {
        let expected: Vec<&str> = std::iter::once("outer").chain(std::iter::repeat_n("i", depth)).collect();
        assert_eq!(names(&symbolize_file(&inlined(depth).finish())), expected);
    }
}

#[test]
fn functions_inlined_deeper_than_any_stack_are_left_out() {
    // The symbol is still there.
    for depth in [300, 10_000, 1_000_000] {
        assert_eq!(names(&symbolize_file(&inlined(depth).finish())), ["outer"], "{depth}");
    }
}

#[test]
fn lists_that_many_entries_share_are_not_read_for_each() {
    let mut abbreviations = Bytes::default();
    abbreviation(&mut abbreviations, 1, UNIT, true, &[(LOW, ADDRESS), (HIGH, DATA8)]);
    abbreviation(&mut abbreviations, 2, FUNCTION, false, &[(RANGES, OFFSET)]);
    let mut entries = Bytes::default();
    entries.uleb(1).u64(CODE).u64(CODE_SIZE);
    let mut ranges = Bytes::default();
    for at in 0..50_000 {
        entries.uleb(2).u32(0);
        ranges.u64(at).u64(at + 1);
    }
    ranges.u64(0).u64(0);
    let made = Made::new()
        .section(".debug_abbrev", [abbreviations.0, vec![0]].concat())
        .section(".debug_info", unit(0, &[entries.0, vec![0]].concat()))
        .section(".debug_ranges", ranges.0)
        .symbols(b"\0f\0".to_vec(), &[(1, true, CODE, CODE_SIZE)]);
    assert_eq!(names(&symbolize_file(&made.finish())), ["f"]);
}

#[test]
fn units_that_share_lists_are_not_read_for_each() {
    let mut abbreviations = Bytes::default();
    abbreviation(&mut abbreviations, 1, UNIT, false, &[(RANGES, OFFSET)]);
    // Each unit begins its list of abbreviations elsewhere, and all of them end at the end.
    let mut long = abbreviations.0.clone();
    for code in 2..100_000 {
        abbreviation(&mut Bytes(Vec::new()), code, UNIT, false, &[]);
        let mut one = Bytes::default();
        abbreviation(&mut one, code, FUNCTION, false, &[]);
        long.extend(one.0);
    }
    let units = (0..50_000).flat_map(|at| unit(if at % 2 == 0 { 0 } else { 8 + 6 * (at % 1000) }, &[1, 0, 0, 0, 0]));
    let mut ranges = Bytes::default();
    for at in 0..50_000 {
        ranges.u64(at).u64(at + 1);
    }
    let made = Made::new()
        .section(".debug_info", units.collect())
        .section(".debug_abbrev", [long, vec![0]].concat())
        .section(".debug_ranges", ranges.u64(0).u64(0).0.clone())
        .symbols(b"\0f\0".to_vec(), &[(1, true, CODE, CODE_SIZE)]);
    assert_eq!(names(&symbolize_file(&made.finish())), ["f"]);
}

#[test]
fn a_long_folder_is_not_repeated_for_each_file() {
    let mut abbreviations = Bytes::default();
    abbreviation(&mut abbreviations, 1, UNIT, false, &[(LOW, ADDRESS), (HIGH, DATA8), (LINES, OFFSET)]);
    let mut entries = Bytes::default();
    entries.uleb(1).u64(CODE).u64(CODE_SIZE).u32(0);
    let mut header = Bytes::default();
    header.u8(1).u8(1).u8(1).u8(0xfb).u8(14).u8(13);
    header.raw(&[0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]);
    header.text(&"d".repeat(1 << 20)).u8(0);
    for _ in 0..50_000 {
        header.text("f").uleb(1).uleb(0).uleb(0);
    }
    header.u8(0);
    let mut lines = Bytes::default();
    lines.u32(header.0.len() as u32 + 6).u16(4).u32(header.0.len() as u32).raw(&header.0);
    let made = Made::new()
        .section(".debug_abbrev", [abbreviations.0, vec![0]].concat())
        .section(".debug_info", unit(0, &entries.0))
        .section(".debug_line", lines.0)
        .symbols(b"\0f\0".to_vec(), &[(1, true, CODE, CODE_SIZE)]);
    assert_eq!(names(&symbolize_file(&made.finish())), ["f"]);
}

fn zeros(length: usize) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    let part = vec![0; 1 << 20];
    for _ in 0..length >> 20 {
        encoder.write_all(&part).unwrap();
    }
    encoder.finish().unwrap()
}

#[test]
fn packed_sections_share_one_budget() {
    // Two thirds of the budget each: the first fits, all of them do not.
    let size = 40 << 20;
    let packed = zeros(size);
    let mut made = Made::new().symbols(b"\0f\0".to_vec(), &[(1, true, CODE, CODE_SIZE)]);
    for name in [".debug_abbrev", ".debug_info", ".debug_line", ".debug_str", ".debug_line_str", ".debug_loc"] {
        made = made.packed(name, &packed, size as u64);
    }
    assert_eq!(names(&symbolize_file(&made.finish())), ["f"]);
    // One that promises little and brings much, and one that promises much and brings little.
    for (length, promised) in [(512 << 20, 16), (1 << 20, 1 << 50)] {
        let made = Made::new()
            .packed(".debug_info", &zeros(length), promised)
            .symbols(b"\0f\0".to_vec(), &[(1, true, CODE, CODE_SIZE)]);
        assert_eq!(names(&symbolize_file(&made.finish())), ["f"]);
    }
}

#[test]
fn compressed_sections_of_compilers_are_read() {
    let mut entries = Bytes::default();
    entries.uleb(1).text("unpacked").u64(CODE).u64(CODE_SIZE);
    let mut abbreviations = Bytes::default();
    abbreviation(&mut abbreviations, 1, FUNCTION, false, &[(NAME, TEXT), (LOW, ADDRESS), (HIGH, DATA8)]);
    abbreviation(&mut abbreviations, 2, UNIT, true, &[(LOW, ADDRESS), (HIGH, DATA8)]);
    let mut root = Bytes::default();
    root.uleb(2).u64(CODE).u64(CODE_SIZE);
    let info = unit(0, &[root.0, entries.0, vec![0]].concat());
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&info).unwrap();
    let made = Made::new().section(".debug_abbrev", [abbreviations.0, vec![0]].concat()).packed(
        ".debug_info",
        &encoder.finish().unwrap(),
        info.len() as u64,
    );
    assert_eq!(names(&symbolize_file(&made.finish())), ["unpacked"]);
}

#[test]
fn symbol_names_cost_their_length() {
    // One name of two million bytes, of which each symbol has all but a few, over all addresses.
    let names_of = [&vec![b'n'; 2 << 20][..], b"\0f\0"].concat();
    let symbols: Vec<_> =
        (0..100_000).map(|at| (at, at % 2 == 0, CODE, if at % 3 == 0 { 0 } else { CODE_SIZE })).collect();
    let last = [(names_of.len() as u32 - 2, true, CODE, CODE_SIZE)];
    let file = Made::new().symbols(names_of, &[&last, &symbols[..]].concat()).finish();
    assert_eq!(names(&symbolize_file(&file)), ["f"]);
}

#[test]
fn notes_are_read_once() {
    let file = Made::new().notes(100_000, 60_000).symbols(b"\0f\0".to_vec(), &[(1, true, CODE, CODE_SIZE)]).finish();
    assert_eq!(names(&symbolize_file(&file)), ["f"]);
    // Whoever asks for a build id has them looked at.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.so");
    std::fs::write(&path, &file).unwrap();
    let library = stackline_symbols::Library { path, build_id: vec![1, 2, 3], content: None };
    let before = Instant::now();
    let names = stackline_symbols::Symbolizer::with_debug_folders(Vec::new()).names(&library, &[CODE]);
    assert_eq!(names.state, stackline_symbols::State::Changed);
    assert!(before.elapsed() < TIME, "{:?}", before.elapsed());
}
