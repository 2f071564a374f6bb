//! What is needed of an ELF file.

use object::elf::{FileHeader64, NT_GNU_BUILD_ID, PF_X, PT_GNU_EH_FRAME, PT_LOAD, ProgramHeader64};
use object::read::elf::{ElfFile64, ElfSection64, ProgramHeader as _, SymbolTable};
use object::{CompressionFormat, LittleEndian, Object as _, ObjectSection as _};
use std::borrow::Cow;
use std::io::Read;

/// Decompressed sections are read up to this length.
const MAX_SECTION: u64 = 4 << 30;
const PAGE: u64 = 4096;

/// Order of bytes: little-endian on all that can be recorded.
pub(crate) const ENDIAN: LittleEndian = LittleEndian;

type Section<'a, 'b> = ElfSection64<'a, 'b, LittleEndian>;

/// A symbol table.
pub(crate) type Symbols<'a> = SymbolTable<'a, FileHeader64<LittleEndian>>;

/// An ELF file of 64 bits.
#[derive(Debug)]
pub(crate) struct Elf<'a> {
    pub(crate) file: ElfFile64<'a, LittleEndian>,
    bytes: &'a [u8],
}

impl<'a> Elf<'a> {
    /// Parses the headers; `None` if they make no sense.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        Some(Self { file: ElfFile64::parse(bytes).ok()?, bytes })
    }

    fn headers(&self) -> &'a [ProgramHeader64<LittleEndian>] {
        self.file.elf_program_headers()
    }

    /// Address of the first byte that is loaded, from the beginning of its page on: where offsets count from.
    pub(crate) fn base(&self) -> Option<u64> {
        let loaded = self.headers().iter().filter(|header| header.p_type(ENDIAN) == PT_LOAD);
        loaded.map(|header| header.p_vaddr(ENDIAN) & !(PAGE - 1)).min()
    }

    /// Address and size in memory of what is loaded.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = (u64, u64)> {
        let loaded = self.headers().iter().filter(|header| header.p_type(ENDIAN) == PT_LOAD);
        loaded.map(|header| (header.p_vaddr(ENDIAN), header.p_memsz(ENDIAN)))
    }

    /// The index of the unwind tables, and the first segment of code.
    pub(crate) fn parts(&self) -> [Option<&'a [u8]>; 2] {
        let find = |wanted: &dyn Fn(&ProgramHeader64<LittleEndian>) -> bool| {
            self.headers().iter().find(|header| wanted(header))?.data(ENDIAN, self.bytes).ok()
        };
        let is_code = |header: &ProgramHeader64<LittleEndian>| {
            header.p_type(ENDIAN) == PT_LOAD && header.p_flags(ENDIAN) & PF_X == PF_X
        };
        [find(&|header| header.p_type(ENDIAN) == PT_GNU_EH_FRAME), find(&is_code)]
    }

    /// Whether one of its notes is this build id. Tools that edit files leave stale ones: some are only in the segments,
    /// some only in the sections.
    pub(crate) fn has_build_id(&self, wanted: &[u8]) -> bool {
        let in_sections = self.file.build_id().ok().flatten();
        let is_wanted = |id: &[u8]| id.get(..wanted.len()) == Some(wanted) && (id.len() == wanted.len());
        in_sections.is_some_and(is_wanted) || self.segment_build_ids().any(is_wanted)
    }

    /// Its build id.
    pub(crate) fn build_id(&self) -> Option<&'a [u8]> {
        let in_sections = self.file.build_id().ok().flatten();
        in_sections.or_else(|| self.segment_build_ids().next()).filter(|id| !id.is_empty())
    }

    fn segment_build_ids(&self) -> impl Iterator<Item = &'a [u8]> {
        let all = self.headers().iter().filter_map(|header| header.notes(ENDIAN, self.bytes).ok().flatten());
        all.filter_map(|mut notes| {
            while let Ok(Some(note)) = notes.next() {
                if note.name() == b"GNU" && note.n_type(ENDIAN) == NT_GNU_BUILD_ID {
                    return Some(note.desc());
                }
            }
            None
        })
    }

    /// The name of a separate debug file, and its checksum.
    pub(crate) fn debug_link(&self) -> Option<(&'a [u8], u32)> {
        self.file.gnu_debuglink().ok().flatten()
    }

    /// The path of a file that several debug files share, and its build id.
    pub(crate) fn shared_debug_link(&self) -> Option<(&'a [u8], &'a [u8])> {
        self.file.gnu_debugaltlink().ok().flatten()
    }

    /// Whether it describes its source.
    pub(crate) fn has_debug_info(&self) -> bool {
        self.find(".debug_info")
            .is_some_and(|section| section.compressed_data().is_ok_and(|packed| !packed.data.is_empty()))
    }

    /// Tables of symbols: all, and those that the dynamic linker knows.
    pub(crate) fn symbol_tables(&self) -> [&Symbols<'a>; 2] {
        [self.file.elf_symbol_table(), self.file.elf_dynamic_symbol_table()]
    }

    /// A section, or its older packed form (`.zdebug_…`), which the library finds only with a feature that brings a
    /// decompressor of its own.
    fn find(&self, name: &str) -> Option<Section<'a, '_>> {
        self.file.section_by_name(name).or_else(|| self.file.section_by_name(&name.replacen(".debug_", ".zdebug_", 1)))
    }

    /// A section's bytes, decompressed if they have to; `None` if it has none.
    pub(crate) fn section(&self, name: &str) -> Option<Cow<'a, [u8]>> {
        let section = self.find(name)?;
        let packed = section.compressed_data().ok()?;
        let bytes = match packed.format {
            CompressionFormat::None => Cow::Borrowed(packed.data),
            CompressionFormat::Zlib => {
                Cow::Owned(unpack(flate2::read::ZlibDecoder::new(packed.data), packed.uncompressed_size)?)
            }
            CompressionFormat::Zstandard => Cow::Owned(unpack(
                zstd::stream::read::Decoder::with_buffer(packed.data).ok()?,
                packed.uncompressed_size,
            )?),
            _ => return None,
        };
        (!bytes.is_empty()).then_some(bytes)
    }
}

/// Grows with what really comes: the size that a file promises may be anything.
fn unpack(stream: impl Read, size: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(size.min(MAX_SECTION)).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 == size).then_some(bytes)
}
