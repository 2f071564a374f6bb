//! Loaded libraries of this process: their addresses and unwind tables.
//!
//! Addresses come from the dynamic linker's list. Unwind tables are mapped a second time, from the file: the program
//! can unload a library at any time, and reading an unmapped table would crash the program. The mapped pages are
//! those of the page cache, so no memory is copied. A mapping is removed with the last snapshot that uses it.

use crate::python::Memory;
use framehop::{ExplicitModuleSectionInfo, MustNotAllocateDuringUnwind, Unwinder as _, UnwinderNative};
use std::ffi::{CStr, OsStr, c_int, c_void};
use std::fs::File;
use std::ops::{Deref, Range};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) type Unwinder = UnwinderNative<Bytes, MustNotAllocateDuringUnwind>;

/// Bytes that are compared between a table in memory and in the file.
const COMPARED: usize = 4096;
/// Longest plausible build id.
const MAX_BUILD_ID: usize = 64;
/// Bytes of each part that are hashed for a library without build id.
const HASHED: usize = 64 << 10;

/// Loaded library, or the program itself, with its addresses and unwind tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Number of the module, never reused.
    pub id: u32,
    /// File from which it was loaded.
    pub path: PathBuf,
    /// GNU build id, empty if it has none.
    pub build_id: Vec<u8>,
    /// For a library without build id, a hash of parts of its content that are equal in its file and in memory.
    pub content: Option<u64>,
    /// Address range. Offsets count from its start.
    pub range: Range<usize>,
}

/// All libraries that were loaded at one time.
#[derive(Clone)]
pub(super) struct Snapshot {
    pub(super) unwinder: Unwinder,
    /// Sorted by address.
    pub(super) modules: Vec<Arc<Module>>,
    /// Numbers of loads and unloads since the program began.
    pub(super) changes: (u64, u64),
    /// Number that distinguishes it from other snapshots.
    pub(super) generation: u32,
    next_id: u32,
}

/// A segment of a library: an entry of its program header table.
#[derive(Clone, Copy, Debug)]
struct Segment {
    kind: u32,
    flags: u32,
    address: usize,
    file_offset: u64,
    file_size: usize,
    memory_size: usize,
}

/// A module in the dynamic linker's list.
#[derive(Debug)]
struct Listed {
    name: Vec<u8>,
    bias: usize,
    segments: Vec<Segment>,
}

/// Copy of the dynamic linker's list of loaded libraries.
#[derive(Debug, Default)]
pub(super) struct List {
    modules: Vec<Listed>,
    changes: (u64, u64),
}

/// Numbers of library loads and unloads so far.
pub(super) fn changes() -> (u64, u64) {
    unsafe extern "C" fn read_changes(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: `data` is the pair below, `info` is valid during the call.
        unsafe { *data.cast::<(u64, u64)>() = ((*info).dlpi_adds, (*info).dlpi_subs) };
        1
    }
    let mut changes = (0, 0);
    // SAFETY: the callback has the right signature and uses `data` with its real type.
    unsafe { libc::dl_iterate_phdr(Some(read_changes), (&raw mut changes).cast()) };
    changes
}

/// Address ranges of the listed libraries whose file names pass a test.
pub(super) fn ranges(list: &List, test: impl Fn(&str) -> bool) -> Vec<Range<usize>> {
    let file = |listed: &Listed| listed.path().file_name().is_some_and(|name| name.to_str().is_some_and(&test));
    list.modules.iter().filter(|listed| file(listed)).filter_map(Listed::range).collect()
}

/// List the libraries that are loaded in this process now.
pub(super) fn list() -> List {
    // The linker's lock is held meanwhile, so only headers are copied.
    unsafe extern "C" fn add_module(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: `data` is the list below; `info`, its name and its headers are valid during the call.
        unsafe {
            let (list, info) = (&mut *data.cast::<List>(), &*info);
            list.changes = (info.dlpi_adds, info.dlpi_subs);
            let name = if info.dlpi_name.is_null() { &[] } else { CStr::from_ptr(info.dlpi_name).to_bytes() };
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
            let segment = |header: &libc::Elf64_Phdr| Segment {
                kind: header.p_type,
                flags: header.p_flags,
                address: header.p_vaddr as usize,
                file_offset: header.p_offset,
                file_size: header.p_filesz as usize,
                memory_size: header.p_memsz as usize,
            };
            let segments = headers.iter().map(segment).collect();
            list.modules.push(Listed { name: name.to_vec(), bias: info.dlpi_addr as usize, segments });
        }
        0
    }
    let mut list = List::default();
    // SAFETY: the callback has the right signature and uses `data` with its real type.
    unsafe { libc::dl_iterate_phdr(Some(add_module), (&raw mut list).cast()) };
    list
}

/// The kernel's vDSO, which has no file.
const VDSO: &[u8] = b"linux-vdso";

/// Make relative file names of libraries absolute, because the program may change its directory later. Called without
/// the linker's lock.
fn locate(modules: &mut [Listed]) {
    let is_relative =
        |listed: &&mut Listed| !matches!(listed.name.first(), None | Some(b'/')) && !listed.name.starts_with(VDSO);
    let mut relative = modules.iter_mut().filter(is_relative).peekable();
    if relative.peek().is_none() {
        return;
    }
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    for listed in relative {
        let mapped = listed.range().and_then(|range| mapped_file(&maps, range.start));
        let from_here = || std::path::absolute(OsStr::from_bytes(&listed.name)).ok();
        if let Some(path) = mapped.or_else(from_here) {
            listed.name = path.into_os_string().into_vec();
        }
    }
}

/// Path of the file that is mapped at an address, from the text of `/proc/self/maps`; `None` if there is none.
fn mapped_file(maps: &[u8], address: usize) -> Option<PathBuf> {
    let holds = |line: &&[u8]| {
        let bounds = line.split(|&byte| byte == b' ').next().and_then(|bounds| std::str::from_utf8(bounds).ok());
        let bound = |text| usize::from_str_radix(text, 16).ok();
        let range = bounds.and_then(|bounds| bounds.split_once('-')).map(|(start, end)| (bound(start), bound(end)));
        matches!(range, Some((Some(start), Some(end))) if (start..end).contains(&address))
    };
    let line = maps.split(|&byte| byte == b'\n').find(holds)?;
    // Only paths contain a slash; numbers precede them.
    let path = line.get(line.iter().position(|&byte| byte == b'/')?..)?;
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

impl Snapshot {
    /// Snapshot without libraries, from which the first one is made.
    pub(super) fn empty() -> Self {
        Self { unwinder: Unwinder::new(), modules: Vec::new(), changes: (0, 0), generation: 0, next_id: 0 }
    }

    /// Snapshot of the currently loaded libraries, which reuses entries of this one.
    pub(super) fn updated(&self, mut list: List, memory: &Memory) -> Self {
        locate(&mut list.modules);
        let mut new = self.clone();
        new.changes = list.changes;
        new.generation += 1;
        let listed: Vec<_> = list.modules.into_iter().filter_map(|listed| Some((listed.range()?, listed))).collect();
        new.modules.retain(|module| {
            let stays = listed.iter().any(|(range, listed)| *range == module.range && listed.path() == module.path);
            if !stays {
                new.unwinder.remove_module(module.range.start as u64);
            }
            stays
        });
        for (range, listed) in listed {
            if new.modules.iter().any(|module| module.range == range) {
                continue;
            }
            if let Some(tables) = listed.tables(memory) {
                new.unwinder.add_module(listed.unwind_module(&range, tables));
            }
            let build_id = listed.build_id(memory).unwrap_or_default();
            let content = if build_id.is_empty() { listed.content_hash(memory) } else { None };
            new.modules.push(Arc::new(Module { id: new.next_id, path: listed.path(), build_id, content, range }));
            new.next_id += 1;
        }
        new.modules.sort_by_key(|module| module.range.start);
        new
    }

    /// Module (library or program) that contains an address; `None` if there is none.
    pub(super) fn find(&self, address: usize) -> Option<&Arc<Module>> {
        let after = self.modules.partition_point(|module| module.range.start <= address);
        self.modules.get(after.checked_sub(1)?).filter(|module| module.range.contains(&address))
    }
}

/// Unwind tables of a module (`.eh_frame_hdr` and `.eh_frame`) with their addresses.
#[derive(Clone, Debug)]
struct Tables {
    index: Bytes,
    index_address: usize,
    frames: Bytes,
    frames_address: usize,
}

/// Bytes of a mapped file, unmapped with the last user, or of the vDSO.
#[derive(Clone, Debug, Default)]
pub(super) struct Bytes {
    bytes: &'static [u8],
    /// Owner of the mapping; the vDSO needs none.
    mapping: Option<Arc<Mapping>>,
}

impl Bytes {
    /// Part of these bytes, which keeps the mapping alive; `None` if the range is outside of them.
    fn part(&self, range: Range<usize>) -> Option<Self> {
        Some(Self { bytes: self.bytes.get(range)?, mapping: self.mapping.clone() })
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

/// Owner of a memory mapping, which is unmapped when this value is dropped.
#[derive(Debug)]
struct Mapping {
    start: usize,
    length: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `map_file` made the mapping, and no `Bytes` of it is left.
        unsafe { libc::munmap(self.start as *mut c_void, self.length) };
    }
}

impl Listed {
    /// Addresses in memory from the first loaded page to the last loaded byte; `None` without a loaded segment.
    fn range(&self) -> Option<Range<usize>> {
        let loaded = self.segments.iter().filter(|segment| segment.kind == libc::PT_LOAD);
        let start = loaded.clone().map(|segment| segment.address & !4095).min()?;
        let end = loaded.map(|segment| segment.address + segment.memory_size).max()?;
        Some(self.bias.wrapping_add(start)..self.bias.wrapping_add(end))
    }

    /// Path of the module's file; for the program itself, whose name is empty, that of its executable.
    fn path(&self) -> PathBuf {
        if self.name.is_empty() {
            return std::fs::read_link("/proc/self/exe").unwrap_or_default();
        }
        PathBuf::from(OsStr::from_bytes(&self.name))
    }

    /// Description of this module and its unwind tables for the unwinder.
    fn unwind_module(&self, range: &Range<usize>, tables: Tables) -> framehop::Module<Bytes> {
        let end = |address: usize, bytes: &[u8]| (address as u64)..(address + bytes.len()) as u64;
        let sections = ExplicitModuleSectionInfo {
            base_svma: range.start.wrapping_sub(self.bias) as u64,
            eh_frame_hdr_svma: Some(end(tables.index_address, &tables.index)),
            eh_frame_hdr: Some(tables.index),
            eh_frame_svma: Some(end(tables.frames_address, &tables.frames)),
            eh_frame: Some(tables.frames),
            ..ExplicitModuleSectionInfo::default()
        };
        let addresses = range.start as u64..range.end as u64;
        framehop::Module::new(String::new(), addresses, range.start as u64, sections)
    }

    /// Find the unwind tables and map them from the file; `None` if missing, or if the file has changed.
    fn tables(&self, memory: &Memory) -> Option<Tables> {
        let index = self.segments.iter().find(|segment| segment.kind == libc::PT_GNU_EH_FRAME)?;
        let mut head = [0; 12];
        if memory.read(self.bias.wrapping_add(index.address), &mut head) != head.len() {
            return None;
        }
        let frames_address = frames_address(index.address, &head)?;
        let holder = self.segments.iter().find(|segment| {
            segment.kind == libc::PT_LOAD && segment.contains(index.address) && segment.contains(frames_address)
        })?;
        let bytes = self.map(holder, memory)?;
        let begin = index.address - holder.address;
        let index_bytes = bytes.part(begin..begin.checked_add(index.memory_size)?)?;
        let frames = bytes.part(frames_address - holder.address..bytes.len())?;
        Some(Tables { index: index_bytes, index_address: index.address, frames, frames_address })
    }

    /// Map a segment of a loaded library from its file; `None` if the file's content has changed.
    fn map(&self, segment: &Segment, memory: &Memory) -> Option<Bytes> {
        let path = self.path();
        let address = self.bias.wrapping_add(segment.address);
        if !path.is_absolute() {
            // The vDSO has no file and stays mapped.
            // SAFETY: the kernel's library is never unloaded, and is read-only.
            let kernel = self.name.starts_with(VDSO);
            let bytes = || unsafe { std::slice::from_raw_parts(address as *const u8, segment.file_size) };
            return kernel.then(|| Bytes { bytes: bytes(), mapping: None });
        }
        let bytes = map_file(&path, segment)?;
        // The file may have been replaced since it was loaded.
        let index = self.segments.iter().find(|segment| segment.kind == libc::PT_GNU_EH_FRAME)?;
        let mut loaded = vec![0; COMPARED.min(index.file_size)];
        let read = memory.read(self.bias.wrapping_add(index.address), &mut loaded);
        let in_file = bytes.get(index.address - segment.address..)?.get(..read)?;
        (read > 0 && loaded.get(..read)? == in_file).then_some(bytes)
    }

    /// GNU build id from the note segments in memory.
    fn build_id(&self, memory: &Memory) -> Option<Vec<u8>> {
        self.segments.iter().filter(|segment| segment.kind == libc::PT_NOTE).find_map(|segment| {
            let mut notes = vec![0; segment.file_size.min(COMPARED)];
            let read = memory.read(self.bias.wrapping_add(segment.address), &mut notes);
            gnu_build_id(notes.get(..read)?)
        })
    }
}

impl Listed {
    /// FNV-1a hash of the segments' addresses and sizes, and of the begin of the unwind tables' index and of the code;
    /// `None` if there is no code or a read fails. `stackline-symbols` computes the same hash from files.
    fn content_hash(&self, memory: &Memory) -> Option<u64> {
        let mut hash = 0xcbf2_9ce4_8422_2325;
        let mut add = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        for segment in self.segments.iter().filter(|segment| segment.kind == libc::PT_LOAD) {
            add(&(segment.address as u64).to_le_bytes());
            add(&(segment.memory_size as u64).to_le_bytes());
        }
        let index = self.segments.iter().find(|segment| segment.kind == libc::PT_GNU_EH_FRAME);
        let is_code = |segment: &&Segment| segment.kind == libc::PT_LOAD && segment.flags & libc::PF_X != 0;
        let code = self.segments.iter().find(is_code)?;
        let mut part = vec![0; HASHED];
        for segment in index.into_iter().chain([code]) {
            let bytes = part.get_mut(..segment.file_size.min(HASHED))?;
            if memory.read(self.bias.wrapping_add(segment.address), bytes) != bytes.len() {
                return None;
            }
            add(bytes);
        }
        Some(hash)
    }
}

impl Segment {
    fn contains(&self, address: usize) -> bool {
        (self.address..self.address + self.file_size).contains(&address)
    }
}

/// Address of the table of frames (`.eh_frame`), decoded from the head of its index (`.eh_frame_hdr`) at `address`.
fn frames_address(address: usize, head: &[u8; 12]) -> Option<usize> {
    // Version 1, and a self-relative pointer in four signed bytes, as all linkers write it.
    if head[..2] != [1, 0x1b] {
        return None;
    }
    let relative = i32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    Some((address + 4).wrapping_add_signed(relative as isize))
}

/// First GNU build id among the notes of a segment; `None` if there is none.
fn gnu_build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    let word =
        |bytes: &[u8], at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize);
    loop {
        let (name, length, kind) = (word(notes, 0)?, word(notes, 4)?, word(notes, 8)?);
        let data = 12 + name.next_multiple_of(4);
        if kind == 3 && notes.get(12..16)? == b"GNU\0" {
            return notes.get(data..data.checked_add(length.min(MAX_BUILD_ID))?).map(<[u8]>::to_vec);
        }
        notes = notes.get(data.checked_add(length.next_multiple_of(4))?..)?;
    }
}

/// Map the bytes of a segment from its file; `None` if the file is missing or too short.
fn map_file(path: &Path, segment: &Segment) -> Option<Bytes> {
    let file = File::open(path).ok()?;
    if file.metadata().ok()?.len() < segment.file_offset + segment.file_size as u64 {
        return None;
    }
    let before = segment.file_offset as usize % 4096;
    let length = before + segment.file_size;
    let offset = libc::off_t::try_from(segment.file_offset).ok()? - before as libc::off_t;
    // SAFETY: a new private mapping of a long enough file changes no existing memory.
    let start = unsafe {
        libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), offset)
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    let mapping = Some(Arc::new(Mapping { start: start as usize, length }));
    // SAFETY: the mapping has this length and lives as long as the `Bytes` that owns it.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
    Bytes { bytes, mapping }.part(before..length)
}

#[cfg(test)]
mod tests {
    use super::{Listed, Snapshot, frames_address, gnu_build_id, list, locate, mapped_file};
    use crate::python::Memory;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    fn snapshot() -> Snapshot {
        Snapshot::empty().updated(list(), &Memory::of_this_thread())
    }

    #[test]
    fn own_program_is_listed() {
        let snapshot = snapshot();
        let here = own_program_is_listed as fn() as usize;
        let module = snapshot.find(here).unwrap();
        assert_eq!(module.path, std::env::current_exe().unwrap());
        assert!(snapshot.find(16).is_none());
        let library = snapshot.find(libc::getpid as *const () as usize).unwrap();
        assert!(library.path.to_string_lossy().contains("libc"), "{library:?}");
        assert_eq!(library.build_id.len(), 20);
    }

    #[test]
    fn known_modules_keep_their_ids() {
        let first = snapshot();
        let second = first.updated(list(), &Memory::of_this_thread());
        let known = |snapshot: &Snapshot| {
            snapshot.modules.iter().map(|module| (module.id, module.range.start)).collect::<Vec<_>>()
        };
        assert_eq!(known(&first), known(&second));
        assert_ne!(first.generation, second.generation);
    }

    /// Symbolization later compares the content in memory with that of files.
    #[test]
    fn content_id_equals_that_of_the_file() {
        let memory = Memory::of_this_thread();
        let mut compared = 0;
        for listed in list().modules.iter().filter(|listed| listed.path().is_absolute()) {
            let content = listed.content_hash(&memory);
            assert!(content.is_some(), "{}", listed.path().display());
            assert_eq!(content, stackline_symbols::content_hash(&listed.path()), "{}", listed.path().display());
            compared += 1;
        }
        assert!(compared >= 2, "this program and the C library");
    }

    #[test]
    fn relative_names_are_replaced_by_mapped_paths() {
        let maps = b"1000-2000 r--p 00000000 08:01 42      /srv/my libs/libth.so\n\
            2000-3000 r-xp 00001000 08:01 42 /srv/old.so (deleted)\n3000-4000 rw-p 00000000 00:00 0 \n";
        let at = |address| mapped_file(maps, address);
        assert_eq!(at(0x1fff), Some(PathBuf::from("/srv/my libs/libth.so")));
        assert_eq!(at(0x2000), Some(PathBuf::from("/srv/old.so")));
        assert_eq!([at(0x3000), at(0x4000)], [None, None]);
        let named = |name: &str| Listed { name: name.into(), bias: 0, segments: Vec::new() };
        let mut modules = ["", "/lib/x.so", "linux-vdso.so.1", "./libth.so"].map(named);
        locate(&mut modules);
        assert_eq!(["", "/lib/x.so", "linux-vdso.so.1"].map(Path::new), [0, 1, 2].map(|at| path_of(&modules[at])));
        assert_eq!(path_of(&modules[3]), std::env::current_dir().unwrap().join("libth.so"));
        // A library of this process, as if it had been loaded by another name.
        let mut all = list().modules;
        let library = all.iter_mut().find(|listed| listed.name.starts_with(b"/")).unwrap();
        let known = std::fs::canonicalize(library.path()).unwrap();
        library.name = b"./other.so".to_vec();
        locate(std::slice::from_mut(library));
        assert_eq!(library.path(), known);
    }

    fn path_of(listed: &Listed) -> &Path {
        Path::new(OsStr::from_bytes(&listed.name))
    }

    #[test]
    fn notes_are_searched() {
        let note = |kind: u8, data: &[u8]| {
            [&[4, 0, 0, 0, data.len() as u8, 0, 0, 0, kind, 0, 0, 0], b"GNU\0".as_slice(), data].concat()
        };
        let notes = [note(1, &[9; 16]), note(3, &[1, 2, 3, 4])].concat();
        assert_eq!(gnu_build_id(&notes), Some(vec![1, 2, 3, 4]));
        assert_eq!(gnu_build_id(&notes[..30]), None);
        assert_eq!(frames_address(100, &[1, 0x1b, 3, 0x3b, 0xfc, 0xff, 0xff, 0xff, 0, 0, 0, 0]), Some(100));
    }
}
