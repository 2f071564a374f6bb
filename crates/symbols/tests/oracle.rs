//! Comparison with binutils, address by address.

use crate::support;

use stackline_symbols::{Frame, State, Symbolizer};
use std::path::Path;
use support::{Folder, described, functions, have, oracle};

/// Inlined functions without linkage name (lambdas, static functions) have that of the enclosing function in
/// binutils.
fn agree(ours: &[Frame], theirs: &[Frame]) -> bool {
    let around = theirs.first().map(|frame| frame.function.as_str());
    let same = |(depth, (ours, theirs)): (usize, (&Frame, &Frame))| {
        let named_as_around = depth > 0 && Some(theirs.function.as_str()) == around && !ours.function.is_empty();
        (ours.function == theirs.function || named_as_around) && (&ours.file, ours.line) == (&theirs.file, theirs.line)
    };
    ours.len() == theirs.len() && ours.iter().zip(theirs).enumerate().all(same)
}

/// Compare all addresses of functions; returns their number, and the largest number of frames at one address.
fn compare(path: &Path, is_included: impl Fn(&str) -> bool) -> (usize, usize) {
    let found_functions = functions(path, is_included);
    assert!(!found_functions.is_empty(), "{}", path.display());
    let addresses: Vec<u64> = found_functions.iter().flat_map(|(_, start, size)| *start..start + size).collect();
    // Libraries are linked to address 0, so addresses are offsets.
    let found = Symbolizer::with_debug_folders(Vec::new()).names(&described(path), &addresses);
    assert_eq!(found.state, State::Same);
    let truth = oracle(path, &addresses);
    let differ: Vec<_> = (0..addresses.len()).filter(|&at| !agree(&found.frames[at], &truth[at])).collect();
    for &at in differ.iter().take(5) {
        println!("{:#x}", addresses[at]);
        for (ours, theirs) in found.frames[at].iter().zip(&truth[at]).filter(|(ours, theirs)| ours != theirs) {
            println!(" ours   {ours:?}\n theirs {theirs:?}");
        }
        println!(" {} and {} frames", found.frames[at].len(), truth[at].len());
    }
    println!("{}: {} of {} addresses differ", path.display(), differ.len(), addresses.len());
    assert!(differ.is_empty(), "{} of {} addresses differ", differ.len(), addresses.len());
    (addresses.len(), found.frames.iter().map(Vec::len).max().unwrap_or(0))
}

#[test]
fn functions_and_lines_of_c_equal_those_of_addr2line() {
    if !have(&["gcc", "nm", "readelf", "addr2line"]) {
        return;
    }
    let folder = Folder::new();
    for (name, more) in [
        ("dwarf4.so", ["-gdwarf-4", "-gz=none"]),
        ("dwarf5.so", ["-gdwarf-5", "-gz=none"]),
        ("zlib.so", ["-gdwarf-5", "-gz=zlib"]),
        ("zlib-gnu.so", ["-gdwarf-4", "-gz=zlib-gnu"]),
    ] {
        let (count, depth) =
            compare(&folder.plain(name, &more), |name| name.contains("shown") || name.contains("hidden"));
        assert!(count > 100 && depth >= 3, "{name}: {count} addresses, {depth} frames");
    }
}

#[test]
fn functions_and_lines_of_cpp_equal_those_of_addr2line() {
    if !have(&["g++", "nm", "readelf", "addr2line"]) {
        return;
    }
    let folder = Folder::new();
    for (name, more) in [("four.so", "-gdwarf-4"), ("five.so", "-gdwarf-5")] {
        let library = folder.compile("g++", "templates.cpp", name, &[more]);
        let (count, depth) = compare(&library, |_| true);
        assert!(count > 500 && depth >= 4, "{name}: {count} addresses, {depth} frames");
    }
}

#[test]
fn functions_and_lines_of_rust_equal_those_of_addr2line() {
    if !have(&["rustc", "nm", "readelf", "addr2line"]) {
        return;
    }
    let folder = Folder::new();
    for (name, more) in [("default.so", None), ("v0.so", Some("-Csymbol-mangling-version=v0"))] {
        let link = ["-C", "link-arg=-Wl,--build-id=sha1"];
        let library = folder.compile("rustc", "areas.rs", name, &link.into_iter().chain(more).collect::<Vec<_>>());
        let (count, depth) = compare(&library, |name| name.contains("5areas") || name.contains("entry_of_rust"));
        assert!(count > 200 && depth >= 2, "{name}: {count} addresses, {depth} frames");
    }
}
