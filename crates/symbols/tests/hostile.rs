//! Symbolization of arbitrary bytes gives a result without panic.

use crate::made;
use crate::support;

use proptest::prelude::*;
use stackline_symbols::{Library, Symbolizer, content_hash, names_in};
use std::time::{Duration, Instant};
use support::{Folder, build_id, functions, have};

/// Request names in a file of these bytes, as for a recorded library.
fn symbolize_file(folder: &Folder, bytes: &[u8], id: &[u8], offsets: &[u64]) {
    let path = folder.path.join("damaged.so");
    std::fs::write(&path, bytes).unwrap();
    let symbolizer = Symbolizer::with_debug_folders(vec![folder.path.clone()]);
    let with_id = Library { path: path.clone(), build_id: id.to_vec(), content: None };
    let names = symbolizer.names(&with_id, offsets);
    assert_eq!(names.frames.len(), offsets.len());
    let with_content = Library { content: content_hash(&path), path, build_id: Vec::new() };
    assert_eq!(symbolizer.names(&with_content, offsets).frames.len(), offsets.len());
}

/// Change some bytes, by position and value, and cut off the rest.
fn damaged(bytes: &[u8], changes: &[(f64, u8)], cut: f64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (place, value) in changes {
        let at = (place * bytes.len() as f64) as usize;
        if let Some(byte) = bytes.get_mut(at) {
            *byte = *value;
        }
    }
    bytes.truncate((cut * bytes.len() as f64) as usize);
    bytes
}

#[test]
fn any_bytes_have_a_result() {
    let folder = Folder::new();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases: 300, ..ProptestConfig::default() });
    let bytes = (any::<bool>(), proptest::collection::vec(any::<u8>(), 0..600));
    runner
        .run(&bytes, |(elf, mut bytes)| {
            if elf {
                bytes.splice(0..0, *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0");
            }
            symbolize_file(&folder, &bytes, &[1, 2], &[0, 1, 4096, u64::MAX]);
            Ok(())
        })
        .unwrap();
}

#[test]
fn damaged_libraries_have_a_result() {
    if !have(&["gcc", "nm", "readelf"]) {
        return;
    }
    for packing in ["none", "zlib"] {
        let folder = Folder::new();
        let library = folder.plain("whole.so", &[&format!("-gz={packing}")]);
        let (bytes, id) = (std::fs::read(&library).unwrap(), build_id(&library));
        let offsets: Vec<u64> =
            functions(&library, |_| true).iter().flat_map(|(_, start, size)| [*start, start + size / 2]).collect();
        let mut runner =
            proptest::test_runner::TestRunner::new(ProptestConfig { cases: 400, ..ProptestConfig::default() });
        let cut = prop_oneof![3 => Just(1.0), 1 => 0.0..1.0];
        let anywhere = proptest::collection::vec((0.0..1.0, any::<u8>()), 0..40);
        runner
            .run(&(anywhere, cut), |(changes, cut)| {
                symbolize_file(&folder, &damaged(&bytes, &changes, cut), &id, &offsets);
                Ok(())
            })
            .unwrap();
    }
}

/// Peak memory of this process in kB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Files of a few kB, of which each byte matters: with any damage, the result is fast and small.
#[test]
fn damaged_synthetic_files_have_a_result_within_bounds() {
    let files = [made::with_lines(), made::inlined(5).finish(), made::inlined(40).finish()];
    let offsets = [0, made::CODE, made::CODE + 8, made::CODE + 64, made::CODE + 0x900, u64::MAX];
    let mut runner =
        proptest::test_runner::TestRunner::new(ProptestConfig { cases: 4000, ..ProptestConfig::default() });
    let anywhere =
        proptest::collection::vec((0.0..1.0, prop_oneof![any::<u8>(), Just(0), Just(0xff), 1_u8..16]), 1..12);
    runner
        .run(&(0..files.len(), anywhere), |(file, changes)| {
            let before = Instant::now();
            let names = names_in(&damaged(&files[file], &changes, 1.0), &offsets);
            prop_assert_eq!(names.len(), offsets.len());
            prop_assert!(before.elapsed() < Duration::from_secs(20), "{:?}", before.elapsed());
            Ok(())
        })
        .unwrap();
    assert!(peak() < 2 << 20, "{} kB", peak());
    // What is whole says all there is.
    let names = names_in(&files[0], &[made::CODE + 0x900]).remove(0);
    let names: Vec<_> = names.iter().map(|f| (f.function.as_str(), f.file.as_str(), f.line)).collect();
    assert_eq!(names, [("f()", "folder/file.c", 9)]);
}
