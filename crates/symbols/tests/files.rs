//! Identity of files: separate debug files, changed or missing libraries, libraries without build id.

use crate::support;

use stackline_symbols::{Frame, Library, Names, State, Symbolizer};
use std::path::{Path, PathBuf};
use support::{Folder, build_id, described, functions, have, run};

const TOOLS: &[&str] = &["gcc", "nm", "readelf", "addr2line", "objcopy", "strip"];

fn symbolizer(folders: &[&Path]) -> Symbolizer {
    Symbolizer::with_debug_folders(folders.iter().map(|folder| folder.to_path_buf()).collect())
}

/// Address of the middle of a function.
fn middle(path: &Path, function: &str) -> u64 {
    let found_functions = functions(path, |name| name == function);
    assert_eq!(found_functions.len(), 1, "{}: {found_functions:?}", path.display());
    found_functions[0].1 + found_functions[0].2 / 2
}

/// Offsets in an exported and in a static function.
fn offsets(path: &Path) -> [u64; 2] {
    [middle(path, "shown_fill"), middle(path, "hidden_sum")]
}

/// The outermost functions, and true if lines are known.
fn outermost(names: &Names) -> Vec<(&str, bool)> {
    let first = |frames: &Vec<Frame>| frames.first().map_or(0, |frame| frame.line) > 0;
    let name = |frames: &'_ Vec<Frame>| frames.first().map(|frame| frame.function.clone()).unwrap_or_default();
    names.frames.iter().map(|frames| (name(frames).leak() as &str, first(frames))).collect()
}

const WHOLE: [(&str, bool); 2] = [("shown_fill", true), ("hidden_sum", true)];
const NAMES_ONLY: [(&str, bool); 2] = [("shown_fill", false), ("", false)];
const NOTHING: [(&str, bool); 2] = [("", false), ("", false)];

/// Move the debug information of a library to a separate file.
fn split(library: &Path, debug: &Path, link: bool) {
    let folder = library.parent().unwrap();
    let [from, to] = [library, debug].map(|path| path.to_str().unwrap());
    std::fs::create_dir_all(debug.parent().unwrap()).unwrap();
    run("objcopy", folder, &["--only-keep-debug", from, to]);
    run("strip", folder, &["--strip-unneeded", from]);
    if link {
        run("objcopy", folder, &[&format!("--add-gnu-debuglink={to}"), from]);
    }
}

#[test]
fn debug_files_are_found_by_build_id() {
    if !have(TOOLS) {
        return;
    }
    let folder = Folder::new();
    let library = folder.plain("stripped.so", &[]);
    let (addresses, id) = (offsets(&library), build_id(&library));
    let before = symbolizer(&[]).names(&described(&library), &addresses);
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let debug = folder.path.join(format!("debug/.build-id/{}/{}.debug", &digits[..2], &digits[2..]));
    split(&library, &debug, false);

    let without = symbolizer(&[]).names(&described(&library), &addresses);
    assert_eq!((without.state, outermost(&without)), (State::Same, NAMES_ONLY.to_vec()));
    let with = symbolizer(&[&folder.path.join("debug")]).names(&described(&library), &addresses);
    assert_eq!((with.state, outermost(&with)), (State::Same, WHOLE.to_vec()));
    assert_eq!(with.frames, before.frames);

    // It is enough where the library is gone, or another one: the id is the same.
    let known = described(&library);
    std::fs::remove_file(&library).unwrap();
    let gone = symbolizer(&[&folder.path.join("debug")]).names(&known, &addresses);
    assert_eq!((gone.state, &gone.frames), (State::Missing, &before.frames));
    // A debug file of another build at this place is not believed.
    let other = folder.plain("other.so", &["-O0"]);
    std::fs::copy(&other, &debug).unwrap();
    let wrong = symbolizer(&[&folder.path.join("debug")]).names(&known, &addresses);
    assert_eq!((wrong.state, outermost(&wrong)), (State::Missing, NOTHING.to_vec()));
}

#[test]
fn debug_files_are_found_by_link() {
    if !have(TOOLS) {
        return;
    }
    let folder = Folder::new();
    let below = |path: &Path| folder.path.join("debug").join(path.strip_prefix("/").unwrap());
    for (name, more, place) in [
        ("beside.so", "-Wl,--build-id=sha1", folder.path.join("beside.so.debug")),
        ("hidden.so", "-Wl,--build-id=none", folder.path.join(".debug/hidden.so.debug")),
        ("below.so", "-Wl,--build-id=none", below(&folder.path.join("below.so.debug"))),
    ] {
        let library = folder.plain(name, &[more]);
        let addresses = offsets(&library);
        let symbolizer = symbolizer(&[&folder.path.join("debug")]);
        split(&library, &place, true);
        let known = with_content(&library);
        let found = symbolizer.names(&known, &addresses);
        assert_eq!((found.state, outermost(&found)), (State::Same, WHOLE.to_vec()), "{name}");
        // Another debug file with the name is not believed.
        let other = folder.plain("other.so", &[more, "-O1"]);
        std::fs::copy(&other, &place).unwrap();
        let wrong = symbolizer.names(&known, &addresses);
        assert_eq!((wrong.state, outermost(&wrong)), (State::Same, NAMES_ONLY.to_vec()), "{name}");
    }
}

/// Description of a library by a recorder: its build id or, without one, the hash of its content.
fn with_content(library: &Path) -> Library {
    let content = stackline_symbols::content_hash(library);
    let known = described(library);
    let content = if known.build_id.is_empty() { content } else { None };
    assert!(!known.build_id.is_empty() || content.is_some());
    Library { content, ..known }
}

#[test]
fn replaced_libraries_are_not_used() {
    if !have(TOOLS) {
        return;
    }
    let folder = Folder::new();
    for id in ["-Wl,--build-id=sha1", "-Wl,--build-id=none"] {
        let library = folder.plain("changes.so", &[id]);
        let addresses = offsets(&library);
        let known = with_content(&library);
        let now = symbolizer(&[]).names(&known, &addresses);
        assert_eq!((now.state, outermost(&now)), (State::Same, WHOLE.to_vec()), "{id}");

        // A copy is the same: only the content counts.
        let copy = folder.path.join("copy.so");
        std::fs::copy(&library, &copy).unwrap();
        let copied = symbolizer(&[]).names(&Library { path: copy, ..known.clone() }, &addresses);
        assert_eq!((copied.state, &copied.frames), (State::Same, &now.frames), "{id}");

        folder.plain("changes.so", &[id, "-O1"]);
        let changed = symbolizer(&[]).names(&known, &addresses);
        assert_eq!((changed.state, outermost(&changed)), (State::Changed, NOTHING.to_vec()), "{id}");

        std::fs::write(&library, "no library").unwrap();
        assert_eq!(symbolizer(&[]).names(&known, &addresses).state, State::Unreadable);
        std::fs::remove_file(&library).unwrap();
        let missing = symbolizer(&[]).names(&known, &addresses);
        assert_eq!((missing.state, outermost(&missing)), (State::Missing, NOTHING.to_vec()), "{id}");
    }
}

#[test]
fn libraries_without_identity_are_not_used() {
    if !have(TOOLS) {
        return;
    }
    let folder = Folder::new();
    let library = folder.plain("nameless.so", &["-Wl,--build-id=none"]);
    let names = symbolizer(&[]).names(&described(&library), &offsets(&library));
    assert_eq!((names.state, outermost(&names)), (State::Unknown, NOTHING.to_vec()));
}

#[test]
fn missing_files_have_a_state_of_their_own() {
    let state = |path: &str| {
        let library = Library { path: PathBuf::from(path), build_id: vec![1], content: None };
        symbolizer(&[]).names(&library, &[1, 2]).state
    };
    assert_eq!(state("linux-vdso.so.1"), State::NoFile);
    assert_eq!(state(""), State::NoFile);
    assert_eq!(state("/nowhere/at/all.so"), State::Missing);
    assert_eq!(state("./relative.so"), State::Missing);
    assert_eq!(state(env!("CARGO_MANIFEST_DIR")), State::Missing, "a folder");
    assert_eq!(state(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")), State::Unreadable);
}

#[test]
fn unsized_symbols_end_at_the_next_symbol() {
    if !have(TOOLS) {
        return;
    }
    let folder = Folder::new();
    let source = folder.path.join("labels.s");
    let code = ".text\n.globl first\nfirst:\n.skip 16\n.type second, @function\n.globl second\nsecond:\n.skip 16\n\
                .size second, 8\n.L_not: .skip 8\n.globl __third\n.globl third\n__third:\nthird:\n.skip 16\n\
                .section .note.GNU-stack,\"\",@progbits\n";
    std::fs::write(&source, code).unwrap();
    let arguments = ["-shared", "-nostdlib", "-Wl,--build-id=sha1", "labels.s", "-o", "labels.so"];
    run("gcc", &folder.path, &arguments);
    let library = folder.path.join("labels.so");
    let table = run("nm", &folder.path, &["labels.so"]);
    let first = table.lines().find(|line| line.ends_with(" first")).unwrap();
    let first = u64::from_str_radix(first.split_whitespace().next().unwrap(), 16).unwrap();
    let addresses = [0, 15, 16, 23, 24, 40, 55, 56, 4096].map(|offset| first + offset);
    let names = symbolizer(&[]).names(&described(&library), &addresses);
    let names: Vec<&str> = outermost(&names).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["first", "first", "second", "second", "", "third", "third", "", ""]);
}
