//! Search for separate files with debug information.

use crate::elf::Elf;
use crate::map::{Mapped, map};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A separate file with a library's debug information, mapped into memory.
#[derive(Debug)]
pub(crate) struct DebugFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Mapped,
}

/// Find and map the debug file `FOLDER/.build-id/ab/cdef….debug` of a build id, if the file has that id.
pub(crate) fn by_build_id(folders: &[PathBuf], build_id: &[u8]) -> Option<DebugFile> {
    let [first, rest @ ..] = build_id else { return None };
    if rest.is_empty() {
        return None;
    }
    let mut name = String::new();
    for byte in rest {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    let relative = format!(".build-id/{first:02x}/{name}.debug");
    folders.iter().find_map(|folder| {
        let path = folder.join(&relative);
        let bytes = map(&path)?;
        Elf::parse(&bytes)?.has_build_id(build_id).then_some(())?;
        Some(DebugFile { path, bytes })
    })
}

/// Find the debug file that a library's `.gnu_debuglink` names: in its folder, in `.debug/`, or in one of `folders`.
/// The file must have the library's build id (or the link's checksum) and debug information.
pub(crate) fn by_link(folders: &[PathBuf], library: &Path, elf: &Elf<'_>) -> Option<DebugFile> {
    let (name, checksum) = elf.debug_link()?;
    // Only the file name is used, so that the link can't refer to another folder.
    let name = Path::new(OsStr::from_bytes(name)).file_name()?;
    // The link is relative to the real file, and packages use the path by which the file is known.
    let real = library.canonicalize().ok();
    let homes: Vec<&Path> = [Some(library), real.as_deref()].into_iter().flatten().filter_map(Path::parent).collect();
    let next_to_library = homes.iter().flat_map(|home| [home.join(name), home.join(".debug").join(name)]);
    let below = folders.iter().flat_map(|folder| {
        homes.iter().filter_map(move |home| Some(folder.join(home.strip_prefix("/").ok()?).join(name)))
    });
    next_to_library.chain(below).find_map(|path| {
        let bytes = map(&path)?;
        let debug = Elf::parse(&bytes)?;
        let belongs = match (elf.build_id(), debug.build_id()) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => crc32fast::hash(&bytes) == checksum,
        };
        // The link may refer to a library of the same name without debug information.
        (belongs && debug.has_debug_info()).then_some(())?;
        Some(DebugFile { path, bytes })
    })
}

/// File that a debug file shares with others (`dwz`), by its path or its build id.
pub(crate) fn shared_debug_file(folders: &[PathBuf], debug: &Path, elf: &Elf<'_>) -> Option<DebugFile> {
    let (path, build_id) = elf.shared_debug_link()?;
    let path = Path::new(OsStr::from_bytes(path));
    // Joining with an absolute path returns that path.
    let path = debug.canonicalize().ok()?.parent()?.join(path);
    let named = map(&path).filter(|bytes| Elf::parse(bytes).is_some_and(|elf| elf.has_build_id(build_id)));
    named.map(|bytes| DebugFile { path, bytes }).or_else(|| by_build_id(folders, build_id))
}
