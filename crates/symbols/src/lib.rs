//! Names of native code: from a library, as a recorder saw it, and offsets in it to functions, files and lines.
//!
//! A library is asked once for all of its offsets. Its file is mapped, never read whole, and believed only if it is what
//! was loaded: by its build id or, without one, by a hash of parts of it ([`Library::content`]). Inode numbers and times
//! of change say nothing: they differ in containers and copies. Names come from, in this order:
//!
//! 1. DWARF debug information, inlined functions included: in the library, or in a separate debug file, which is found
//!    by build id (`DEBUG/.build-id/ab/cdef.debug`) or by the library's `.gnu_debuglink` (beside it, in `.debug/`, or
//!    under `DEBUG`), where `DEBUG` is `/usr/lib/debug`;
//! 2. the symbol tables of both files: the function that covers the address. The nearest one before it would be a wrong
//!    name wherever static functions lost theirs.
//!
//! C++ and Rust names are demangled. Input is never trusted: whatever the bytes are, there is an answer and no panic.

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

/// A library as it was loaded when it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Library {
    /// Where it was loaded from.
    pub path: PathBuf,
    /// Its GNU build id, empty if it has none.
    pub build_id: Vec<u8>,
    /// Of a library without build id: a hash of parts of its content, as `dlmonitor` takes it from memory.
    pub content: Option<u64>,
}

/// A function at an address. What is not known is empty, or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its name, demangled.
    pub function: String,
    /// Source file that was running.
    pub file: String,
    /// Line in it: of the call for all but the innermost function.
    pub line: u32,
}

/// What became of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is there, and the one that was recorded.
    Same,
    /// It is another one now. Nothing comes from it.
    Changed,
    /// It is not there.
    Missing,
    /// It is there, but nothing tells whether it is the one that was recorded. Nothing comes from it.
    Unknown,
    /// It is there, but is no ELF file of 64 bits, or not readable.
    Unreadable,
    /// It never was a file: the kernel's own library.
    NoFile,
}

/// The answer for one library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// What became of the library. A separate debug file with its build id gives names without it, too.
    pub state: State,
    /// For each offset the functions there, outermost first: each but the first is inlined into the one before it.
    /// Empty where nothing is known.
    pub frames: Vec<Vec<Frame>>,
}

/// Looks up names.
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
    /// Separate debug files are looked for in `/usr/lib/debug`.
    #[must_use]
    pub fn new() -> Self {
        Self { debug_folders: vec![PathBuf::from("/usr/lib/debug")] }
    }

    /// Separate debug files are looked for in these folders.
    #[must_use]
    pub fn with_debug_folders(debug_folders: Vec<PathBuf>) -> Self {
        Self { debug_folders }
    }

    /// Names of offsets from the first byte of a library in memory. Of a caller, the offset should be that of the last
    /// byte of the call: the one behind it may be another line, or another function.
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

/// Names of offsets in a library that is in memory, byte for byte as its file is, and known to be the right one:
/// [`Names::frames`]. Other files are not looked for.
#[must_use]
pub fn names_in(bytes: &[u8], offsets: &[u64]) -> Vec<Vec<Frame>> {
    let Some(elf) = Elf::parse(bytes) else { return vec![Vec::new(); offsets.len()] };
    let debug = elf.has_debug_info().then(|| DebugInfo::from_elf(&elf));
    chains(&[&elf], debug.as_ref(), offsets)
}

/// The functions at each offset, by the symbol tables of files and by debug information.
fn chains(files: &[&Elf<'_>], debug: Option<&DebugInfo<'_>>, offsets: &[u64]) -> Vec<Vec<Frame>> {
    let Some(base) = files.first().and_then(|elf| elf.base()) else { return vec![Vec::new(); offsets.len()] };
    let addresses: Vec<u64> = offsets.iter().map(|offset| base.wrapping_add(*offset)).collect();
    let symbols = table::names(files, &addresses);
    let frames = debug.map_or_else(|| vec![Chain::default(); addresses.len()], |debug| debug.frames(&addresses));
    let each = frames.into_iter().zip(symbols);
    each.map(|((frames, is_whole), symbol)| with_symbol(frames, symbol.filter(|_| !is_whole))).collect()
}

/// The hash by which a library without build id is known: [`Library::content`] of the file as it is now.
#[must_use]
pub fn content(path: &Path) -> Option<u64> {
    fingerprint::fingerprint(&Elf::parse(&map(path)?)?)
}

/// Puts the name from a symbol table where debug information has none, or not the whole one: compilers give functions
/// that only their own file sees no linkage name, so that namespaces and template arguments are missing.
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
    // A line without a function says less than library and offset do.
    if frames.first().is_some_and(|outermost| outermost.function.is_empty()) {
        frames.clear();
    }
    frames
}

/// The library's file, if it is the one that was recorded.
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
