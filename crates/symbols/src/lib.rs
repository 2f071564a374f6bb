//! Symbolization of native code: functions, files and lines for offsets in a recorded library.
//!
//! All offsets of a library are resolved at once. The file is mapped, never read as a whole, and used only if it is
//! the library that was loaded: by its build id or, without one, by a hash of parts of it ([`Library::content`]).
//! Inode numbers and modification times are unsuitable, because they differ in containers and copies. Names come
//! from, in this order:
//!
//! 1. DWARF debug information, including inlined functions: in the library, or in a separate debug file, which is
//!    found by build id (`DEBUG/.build-id/ab/cdef.debug`) or by the library's `.gnu_debuglink` (in the same folder,
//!    in `.debug/`, or under `DEBUG`), where `DEBUG` is `/usr/lib/debug`;
//! 2. the symbol tables of both files: the function that covers the address. The nearest preceding one would be a
//!    wrong name in files whose static functions were stripped.
//!
//! C++ and Rust names are demangled. Input is untrusted: any bytes give a result without panic.

mod debug_files;
mod demangle;
mod dwarf;
mod elf;
mod fingerprint;
#[expect(unsafe_code, reason = "maps files")]
mod map;
mod meter;
mod table;

pub use demangle::demangle;

use dwarf::{Chain, DebugInfo};
use elf::Elf;
use map::{Mapped, map};
use std::path::{Path, PathBuf};

/// A library that was loaded during the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Library {
    /// File from which it was loaded.
    pub path: PathBuf,
    /// GNU build id, empty if it has none.
    pub build_id: Vec<u8>,
    /// For a library without build id, a hash of parts of its content, as `dlmonitor` computes it from memory.
    pub content: Option<u64>,
}

/// A function at an address. Unknown fields are empty or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Demangled name.
    pub function: String,
    /// Source file.
    pub file: String,
    /// Line in the file; for all but the innermost function, that of the call.
    pub line: u32,
}

/// State of a library's file: the recorded one, changed, missing, or unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The file exists and is the recorded one.
    Same,
    /// The file is a different one now and is not used.
    Changed,
    /// The file does not exist.
    Missing,
    /// The file exists, but its identity with the recorded one is unknown. It is not used.
    Unknown,
    /// The file exists, but is not a 64-bit ELF file, or not readable.
    Unreadable,
    /// No file: the kernel's vDSO.
    NoFile,
}

/// Result of symbolizing offsets in one library: functions at each offset, and the state of the library's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// State of the library. A separate debug file with its build id also gives names without it.
    pub state: State,
    /// Functions at each offset, outermost first: each one is inlined into the previous one. Empty if unknown.
    pub frames: Vec<Vec<Frame>>,
}

/// Symbolizer of native code, with the folders in which it searches separate debug files.
#[derive(Clone, Debug)]
pub struct Symbolizer {
    debug_folders: Vec<PathBuf>,
}

impl Default for Symbolizer {
    fn default() -> Self {
        Self::new()
    }
}

impl Symbolizer {
    /// Create a symbolizer that searches separate debug files in `/usr/lib/debug`.
    #[must_use]
    pub fn new() -> Self {
        Self { debug_folders: vec![PathBuf::from("/usr/lib/debug")] }
    }

    /// Create a symbolizer that searches separate debug files in these folders.
    #[must_use]
    pub fn with_debug_folders(debug_folders: Vec<PathBuf>) -> Self {
        Self { debug_folders }
    }

    /// Symbolize offsets from the first byte of a library in memory: functions with file and line. For a caller, the
    /// offset should be that of the last byte of the call instruction: the next byte may belong to another line or
    /// function.
    #[must_use]
    pub fn names(&self, library: &Library, offsets: &[u64]) -> Names {
        let (state, main) = open_same(library);
        let elf = main.as_ref().and_then(|file| Elf::parse(file));
        let by_id = debug_files::by_build_id(&self.debug_folders, &library.build_id);
        let has_debug_info = elf.as_ref().is_some_and(Elf::has_debug_info);
        let separate = match &elf {
            _ if has_debug_info => None,
            Some(elf) => by_id.or_else(|| debug_files::by_link(&self.debug_folders, &library.path, elf)),
            None => by_id,
        };
        let separate_elf = separate.as_ref().and_then(|found| Elf::parse(&found.bytes));
        let files: Vec<&Elf<'_>> = elf.iter().chain(&separate_elf).collect();
        let debug = match (&elf, &separate_elf, &separate) {
            (Some(elf), _, _) if has_debug_info => Some(DebugInfo::load(elf, &library.path, &self.debug_folders)),
            (_, Some(elf), Some(found)) => Some(DebugInfo::load(elf, &found.path, &self.debug_folders)),
            _ => None,
        };
        Names { state, frames: chains(&files, debug.as_ref(), offsets) }
    }
}

/// Symbolize offsets in the library whose file has these bytes: functions at each offset, as in [`Names::frames`].
/// Other files are not searched.
#[must_use]
pub fn names_in(bytes: &[u8], offsets: &[u64]) -> Vec<Vec<Frame>> {
    let Some(elf) = Elf::parse(bytes) else { return vec![Vec::new(); offsets.len()] };
    let debug = elf.has_debug_info().then(|| DebugInfo::from_elf(&elf));
    chains(&[&elf], debug.as_ref(), offsets)
}

/// Functions at each offset, merged from the symbol tables of `files` and from debug information.
fn chains(files: &[&Elf<'_>], debug: Option<&DebugInfo<'_>>, offsets: &[u64]) -> Vec<Vec<Frame>> {
    let Some(base) = files.first().and_then(|elf| elf.base()) else { return vec![Vec::new(); offsets.len()] };
    let addresses: Vec<u64> = offsets.iter().map(|offset| base.wrapping_add(*offset)).collect();
    let symbols = table::names(files, &addresses);
    let frames = debug.map_or_else(|| vec![Chain::default(); addresses.len()], |debug| debug.frames(&addresses));
    let each = frames.into_iter().zip(symbols);
    each.map(|((frames, is_whole), symbol)| with_symbol(frames, symbol.filter(|_| !is_whole))).collect()
}

/// Hash that identifies a library without build id ([`Library::content`]), of the file at `path`; `None` if the file is
/// no readable ELF file with code.
#[must_use]
pub fn content_hash(path: &Path) -> Option<u64> {
    fingerprint::fingerprint(&Elf::parse(&map(path)?)?)
}

/// Name the outermost frame by the demangled `symbol`, if its own name is empty or the symbol is mangled; without
/// frames add one. Names of static functions in debug information lack namespaces and template arguments. Frames whose
/// outermost function stays unnamed are removed.
fn with_symbol(mut frames: Vec<Frame>, symbol: Option<&[u8]>) -> Vec<Frame> {
    let symbol = symbol.map(|symbol| String::from_utf8_lossy(symbol));
    match (frames.first_mut(), symbol) {
        (Some(outermost), Some(symbol)) => {
            let name = demangle(&symbol);
            if outermost.function.is_empty() || name != symbol {
                outermost.function = name;
            }
        }
        (None, Some(symbol)) => frames.push(Frame { function: demangle(&symbol), ..Frame::default() }),
        _ => {}
    }
    // A line without function is less useful than library and offset.
    if frames.first().is_some_and(|outermost| outermost.function.is_empty()) {
        frames.clear();
    }
    frames
}

/// Map the file of a library, and return its state; the bytes only if it is the recorded file.
fn open_same(library: &Library) -> (State, Option<Mapped>) {
    let path: &Path = &library.path;
    if path.components().count() < 2 {
        // Without a folder it was never opened by its path.
        return (State::NoFile, None);
    }
    if !path.is_absolute() || !path.is_file() {
        return (State::Missing, None);
    }
    let Some(file) = map(path) else { return (State::Unreadable, None) };
    let Some(elf) = Elf::parse(&file) else { return (State::Unreadable, None) };
    let same = match library.content {
        _ if !library.build_id.is_empty() => elf.has_build_id(&library.build_id),
        Some(content) => fingerprint::fingerprint(&elf) == Some(content),
        None => return (State::Unknown, None),
    };
    if same { (State::Same, Some(file)) } else { (State::Changed, None) }
}
