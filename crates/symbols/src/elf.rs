//! Parser of the needed parts of an ELF file.
//!
//! The tables may be crafted: thousands of headers that refer to the same bytes, unterminated names, sections that
//! decompress to any size. So each table is visited once, names are read up to a limit, and decompressed data have
//! one budget per file.

use object::elf::{
    ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD, FileHeader64, NT_GNU_BUILD_ID, PF_X, PT_GNU_EH_FRAME, PT_LOAD, ProgramHeader64,
    SHF_COMPRESSED, SHT_NOBITS, SectionHeader64,
};
use object::read::elf::{
    CompressionHeader as _, ElfFile64, FileHeader as _, NoteIterator, ProgramHeader as _, SectionHeader as _,
    SymbolTable,
};
use object::{LittleEndian, SectionIndex};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Read;

/// Largest total size of decompressed sections of one file in bytes.
const MAX_UNPACKED: u64 = 4 << 30;
/// Largest ratio of this total to the size of the file, far above that of compilers.
const MAX_RATIO: u64 = 32;
/// Total size that is always allowed.
const MIN_UNPACKED_LIMIT: u64 = 64 << 20;
/// Largest number of notes per file that are read; real files have a handful.
const MAX_NOTES: usize = 1024;
/// Longest name of a requested section.
const MAX_SECTION_NAME: usize = 32;
/// Size of the header of a section in the older compressed format: name and checksum.
const OLD_HEADER: usize = 12;
const PAGE: u64 = 4096;

/// Byte order: all systems that can be recorded are little-endian.
pub(crate) const ENDIAN: LittleEndian = LittleEndian;

type Section = SectionHeader64<LittleEndian>;

/// A symbol table.
pub(crate) type Symbols<'a> = SymbolTable<'a, FileHeader64<LittleEndian>>;

/// A section of null-terminated names (string table).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Strings<'a>(&'a [u8]);

impl<'a> Strings<'a> {
    /// Name at an offset of a string section; `None` if it is longer than the limit, or unterminated.
    pub(crate) fn name(self, at: u32, longest: usize) -> Option<&'a [u8]> {
        let rest = self.0.get(at as usize..)?;
        let rest = rest.get(..=longest).unwrap_or(rest);
        Some(&rest[..rest.iter().position(|&byte| byte == 0)?])
    }
}

/// A 64-bit ELF file.
#[derive(Debug)]
pub(crate) struct Elf<'a> {
    pub(crate) file: ElfFile64<'a, LittleEndian>,
    bytes: &'a [u8],
    /// Sections with names that may be requested; the first one of each name.
    sections: BTreeMap<&'a [u8], &'a Section>,
    /// Remaining bytes that may be decompressed.
    unpack: Cell<u64>,
}

impl<'a> Elf<'a> {
    /// Parse the headers of an ELF file; `None` if they are invalid.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let unpack = (bytes.len() as u64).saturating_mul(MAX_RATIO).clamp(MIN_UNPACKED_LIMIT, MAX_UNPACKED);
        let file = ElfFile64::parse(bytes).ok()?;
        let mut elf = Self { file, bytes, sections: BTreeMap::new(), unpack: Cell::new(unpack) };
        elf.sections = elf.named_sections();
        Some(elf)
    }

    /// First section of each name that begins with a dot and is not too long, by name.
    fn named_sections(&self) -> BTreeMap<&'a [u8], &'a Section> {
        let mut sections = BTreeMap::new();
        let names = self.file.elf_header().section_strings_index(ENDIAN, self.bytes);
        let names = names.map(|section| self.strings(section)).unwrap_or_default();
        for section in self.file.elf_section_table().iter() {
            let name = names.name(section.sh_name(ENDIAN), MAX_SECTION_NAME);
            if let Some(name) = name.filter(|name| name.starts_with(b".")) {
                sections.entry(name).or_insert(section);
            }
        }
        sections
    }

    /// String table in the section with this index: names of symbols or of sections.
    pub(crate) fn strings(&self, section: SectionIndex) -> Strings<'a> {
        let section = self.file.elf_section_table().section(section);
        Strings(section.ok().and_then(|section| section.data(ENDIAN, self.bytes).ok()).unwrap_or_default())
    }

    /// Program headers, one per segment.
    fn headers(&self) -> &'a [ProgramHeader64<LittleEndian>] {
        self.file.elf_program_headers()
    }

    /// Lowest address of a loaded page as the file states it, from which offsets in the library count; `None` without
    /// loaded segments.
    pub(crate) fn base(&self) -> Option<u64> {
        let loaded = self.headers().iter().filter(|header| header.p_type(ENDIAN) == PT_LOAD);
        loaded.map(|header| header.p_vaddr(ENDIAN) & !(PAGE - 1)).min()
    }

    /// Address and size in memory of each loaded segment.
    pub(crate) fn loaded_segments(&self) -> impl Iterator<Item = (u64, u64)> {
        let loaded = self.headers().iter().filter(|header| header.p_type(ENDIAN) == PT_LOAD);
        loaded.map(|header| (header.p_vaddr(ENDIAN), header.p_memsz(ENDIAN)))
    }

    /// Bytes that identify a library without build id: index of the unwind tables, and first code segment.
    pub(crate) fn parts(&self) -> [Option<&'a [u8]>; 2] {
        let find = |is_match: &dyn Fn(&ProgramHeader64<LittleEndian>) -> bool| {
            self.headers().iter().find(|header| is_match(header))?.data(ENDIAN, self.bytes).ok()
        };
        let is_code = |header: &ProgramHeader64<LittleEndian>| {
            header.p_type(ENDIAN) == PT_LOAD && header.p_flags(ENDIAN) & PF_X == PF_X
        };
        [find(&|header| header.p_type(ENDIAN) == PT_GNU_EH_FRAME), find(&is_code)]
    }

    /// True if one of the ELF file's notes has this build id. Tools that edit files leave stale ones: some are only in
    /// the segments, some only in the sections.
    pub(crate) fn has_build_id(&self, expected_id: &[u8]) -> bool {
        self.build_ids().any(|id| id == expected_id)
    }

    /// First non-empty GNU build id of the ELF file, by which debug files are found.
    pub(crate) fn build_id(&self) -> Option<&'a [u8]> {
        self.build_ids().find(|id| !id.is_empty())
    }

    /// The first build id of each section with notes, and then of each segment.
    fn build_ids(&self) -> impl Iterator<Item = &'a [u8]> {
        let sections = self.file.elf_section_table().iter();
        let sections = sections.filter_map(|section| section.notes(ENDIAN, self.bytes).ok().flatten());
        let segments = self.headers().iter().filter_map(|header| header.notes(ENDIAN, self.bytes).ok().flatten());
        let mut left = MAX_NOTES;
        sections.chain(segments).filter_map(move |notes| build_id(notes, &mut left))
    }

    /// Name and checksum of the separate debug file to which this ELF file refers (`.gnu_debuglink`).
    pub(crate) fn debug_link(&self) -> Option<(&'a [u8], u32)> {
        let data = self.data(".gnu_debuglink")?;
        let end = data.iter().position(|&byte| byte == 0)?;
        let checksum = data.get((end + 1).next_multiple_of(4)..)?.first_chunk()?;
        Some((&data[..end], u32::from_le_bytes(*checksum)))
    }

    /// Path and build id of the file that this debug file shares with others (`.gnu_debugaltlink`).
    pub(crate) fn shared_debug_link(&self) -> Option<(&'a [u8], &'a [u8])> {
        let data = self.data(".gnu_debugaltlink")?;
        let end = data.iter().position(|&byte| byte == 0)?;
        Some((&data[..end], &data[end + 1..]))
    }

    /// True if the ELF file has debug information.
    pub(crate) fn has_debug_info(&self) -> bool {
        self.find(".debug_info")
            .is_some_and(|(section, _)| section.sh_type(ENDIAN) != SHT_NOBITS && section.sh_size(ENDIAN) > 0)
    }

    /// Symbol tables: the full one, and that of the dynamic linker.
    pub(crate) fn symbol_tables(&self) -> [&Symbols<'a>; 2] {
        [self.file.elf_symbol_table(), self.file.elf_dynamic_symbol_table()]
    }

    /// Find a section by name, or its older compressed form (`.zdebug_…`), and return true with the latter.
    fn find(&self, name: &str) -> Option<(&'a Section, bool)> {
        let find = |name: &str| self.sections.get(name.as_bytes()).copied();
        let old = || Some((find(&name.replacen(".debug_", ".zdebug_", 1))?, true));
        find(name).map(|section| (section, false)).or_else(old)
    }

    /// Bytes of the section with this name as they are in the file, without decompression.
    fn data(&self, name: &str) -> Option<&'a [u8]> {
        self.find(name)?.0.data(ENDIAN, self.bytes).ok()
    }

    /// Bytes of the section with this name, decompressed if needed. `None` if it is missing, empty or invalid, or
    /// exceeds the budget.
    pub(crate) fn section(&self, name: &str) -> Option<Cow<'a, [u8]>> {
        let (section, is_old) = self.find(name)?;
        let data = section.data(ENDIAN, self.bytes).ok()?;
        let bytes = if is_old {
            let (header, packed) = data.split_at_checked(OLD_HEADER)?;
            let size = header.strip_prefix(b"ZLIB")?.first_chunk().copied().map(u64::from_be_bytes)?;
            Cow::Owned(self.unpack(flate2::read::ZlibDecoder::new(packed), size)?)
        } else if section.sh_flags(ENDIAN) & SHF_COMPRESSED == SHF_COMPRESSED {
            let (header, at, length) = section.compression(ENDIAN, self.bytes).ok()??;
            let packed = self.bytes.get(usize::try_from(at).ok()?..)?.get(..usize::try_from(length).ok()?)?;
            let size = header.ch_size(ENDIAN);
            Cow::Owned(match header.ch_type(ENDIAN) {
                ELFCOMPRESS_ZLIB => self.unpack(flate2::read::ZlibDecoder::new(packed), size)?,
                ELFCOMPRESS_ZSTD => self.unpack(zstd::stream::read::Decoder::with_buffer(packed).ok()?, size)?,
                _ => return None,
            })
        } else {
            Cow::Borrowed(data)
        };
        (!bytes.is_empty()).then_some(bytes)
    }

    /// Decompress a section to exactly `size` bytes within the file's budget; `None` if that fails. Memory grows with
    /// the actual data, because the size in the file may be wrong.
    fn unpack(&self, stream: impl Read, size: u64) -> Option<Vec<u8>> {
        let left = self.unpack.get();
        if size > left {
            return None;
        }
        let mut bytes = Vec::new();
        let outcome = stream.take(size).read_to_end(&mut bytes);
        // Failed decompression costs as much.
        self.unpack.set(left.saturating_sub(bytes.len() as u64));
        (outcome.is_ok() && bytes.len() as u64 == size).then_some(bytes)
    }
}

/// First GNU build id among an ELF file's notes, of which at most `left` are read.
fn build_id<'a>(mut notes: NoteIterator<'a, FileHeader64<LittleEndian>>, left: &mut usize) -> Option<&'a [u8]> {
    while let Ok(Some(note)) = notes.next() {
        *left = left.checked_sub(1)?;
        if note.name() == b"GNU" && note.n_type(ENDIAN) == NT_GNU_BUILD_ID {
            return Some(note.desc());
        }
    }
    None
}
