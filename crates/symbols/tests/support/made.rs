//! Builder of ELF libraries with debug information, byte by byte.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

/// Begin of the code.
pub const CODE: u64 = 0x1000;
/// Size of the code.
pub const CODE_SIZE: u64 = 0x10_0000;

const SHT_PROGBITS: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHT_NOTE: u32 = 7;
const SHT_NOBITS: u32 = 8;
const CODE_FLAGS: u64 = 6;
const COMPRESSED: u64 = 1 << 11;

struct Section {
    name: String,
    kind: u32,
    flags: u64,
    address: u64,
    size: Option<u64>,
    data: Vec<u8>,
    link: u32,
    entry: u64,
}

/// A library whose sections are assembled.
#[derive(Default)]
pub struct Made {
    sections: Vec<Section>,
    notes: Vec<u8>,
    note_headers: usize,
}

/// Bytes, least significant first.
#[derive(Default)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.raw(&[value])
    }

    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A null-terminated text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.raw(text.as_bytes()).u8(0)
    }

    /// A LEB128 number: seven bits per byte.
    pub fn uleb(&mut self, mut value: u64) -> &mut Self {
        while value > 0x7f {
            self.u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8)
    }
}

/// Forms of attributes in these libraries.
pub const ADDRESS: u64 = 0x01;
pub const DATA8: u64 = 0x07;
pub const TEXT: u64 = 0x08;
pub const OFFSET: u64 = 0x17;
/// Tags and attributes.
pub const UNIT: u64 = 0x11;
pub const FUNCTION: u64 = 0x2e;
pub const INLINED: u64 = 0x1d;
pub const NAME: u64 = 0x03;
pub const LINES: u64 = 0x10;
pub const LOW: u64 = 0x11;
pub const HIGH: u64 = 0x12;
pub const RANGES: u64 = 0x55;
pub const LINE: u64 = 0x59;

/// Abbreviation of entries: its number, a tag, true if they have children, and attributes with forms.
pub fn abbreviation(out: &mut Bytes, code: u64, tag: u64, children: bool, attributes: &[(u64, u64)]) {
    out.uleb(code).uleb(tag).u8(children.into());
    for (attribute, form) in attributes {
        out.uleb(*attribute).uleb(*form);
    }
    out.u8(0).u8(0);
}

/// A unit of version 4 with these entries.
pub fn unit(abbreviations: u32, entries: &[u8]) -> Vec<u8> {
    let mut out = Bytes::default();
    out.u32(entries.len() as u32 + 7).u16(4).u32(abbreviations).u8(8).raw(entries);
    out.0
}

impl Made {
    /// A library with code of [`CODE_SIZE`] bytes at [`CODE`].
    pub fn new() -> Self {
        let mut made = Self::default();
        made.push(".text", SHT_NOBITS, CODE_FLAGS, Vec::new());
        made.sections[0].address = CODE;
        made.sections[0].size = Some(CODE_SIZE);
        made
    }

    fn push(&mut self, name: &str, kind: u32, flags: u64, data: Vec<u8>) {
        let name = name.to_owned();
        self.sections.push(Section { name, kind, flags, address: 0, size: None, data, link: 0, entry: 0 });
    }

    pub fn section(mut self, name: &str, data: Vec<u8>) -> Self {
        self.push(name, SHT_PROGBITS, 0, data);
        self
    }

    /// A section compressed by zlib, with a given uncompressed size in its header.
    pub fn packed(mut self, name: &str, data: &[u8], size: u64) -> Self {
        let mut out = Bytes::default();
        out.u32(1).u32(0).u64(size).u64(1).raw(data);
        self.push(name, SHT_PROGBITS, COMPRESSED, out.0);
        self
    }

    /// A symbol table: offset of the name, true for a function, address, size.
    pub fn symbols(mut self, names: Vec<u8>, symbols: &[(u32, bool, u64, u64)]) -> Self {
        let mut out = Bytes(vec![0; 24]);
        for (name, is_function, address, size) in symbols {
            // Global, and in the first section.
            out.u32(*name).u8(0x10 | if *is_function { 2 } else { 0 }).u8(0).u16(1).u64(*address).u64(*size);
        }
        self.push(".symtab", SHT_SYMTAB, 0, out.0);
        let strings = self.sections.len() as u32 + 1;
        let table = self.sections.len() - 1;
        self.sections[table].link = strings;
        self.sections[table].entry = 24;
        self.push(".strtab", SHT_STRTAB, 0, names);
        self
    }

    /// Notes of another kind than a build id, and this many headers that refer to them.
    pub fn notes(mut self, count: usize, headers: usize) -> Self {
        let mut out = Bytes::default();
        for _ in 0..count {
            out.u32(4).u32(0).u32(1).raw(b"GNU\0");
        }
        self.notes = out.0;
        self.note_headers = headers;
        self
    }

    /// Bytes of the file.
    pub fn finish(mut self) -> Vec<u8> {
        let mut names = vec![0];
        let offsets: Vec<u32> = self
            .sections
            .iter()
            .map(|section| {
                let at = names.len() as u32;
                names.extend_from_slice(section.name.as_bytes());
                names.push(0);
                at
            })
            .collect();
        self.push("", SHT_STRTAB, 0, names);
        let mut out = Bytes::default();
        out.raw(b"\x7fELF\x02\x01\x01").raw(&[0; 9]).u16(3).u16(62).u32(1).u64(0);
        let places = out.0.len();
        out.u64(0).u64(0).u32(0).u16(64).u16(56).u16(1).u16(64);
        // Sections: none, ours, and notes as often as wanted.
        out.u16((self.sections.len() + 1 + self.note_headers) as u16).u16(self.sections.len() as u16);
        let mut at: Vec<u64> = Vec::new();
        for section in &self.sections {
            at.push(out.0.len() as u64);
            out.raw(&section.data);
        }
        let notes = out.0.len() as u64;
        out.raw(&self.notes);
        while !out.0.len().is_multiple_of(8) {
            out.u8(0);
        }
        let programs = out.0.len() as u64;
        // All of it is loaded, followed by code.
        out.u32(1).u32(5).u64(0).u64(0).u64(0).u64(64).u64(CODE + CODE_SIZE).u64(0x1000);
        let headers = out.0.len() as u64;
        out.raw(&[0; 64]);
        let offsets = offsets.into_iter().chain([0]);
        for ((section, at), name) in self.sections.iter().zip(&at).zip(offsets) {
            let size = section.size.unwrap_or(section.data.len() as u64);
            out.u32(name).u32(section.kind).u64(section.flags).u64(section.address).u64(*at).u64(size);
            out.u32(section.link).u32(0).u64(1).u64(section.entry);
        }
        for _ in 0..self.note_headers {
            out.u32(0).u32(SHT_NOTE).u64(0).u64(0).u64(notes).u64(self.notes.len() as u64).u32(0).u32(0).u64(4).u64(0);
        }
        out.0[places..places + 8].copy_from_slice(&programs.to_le_bytes());
        out.0[places + 8..places + 16].copy_from_slice(&headers.to_le_bytes());
        out.0
    }
}

/// A library with a function `outer` over all of the code, which also has a symbol, and into which `depth` functions
/// are inlined, each into the previous one.
pub fn inlined(depth: usize) -> Made {
    let mut abbreviations = Bytes::default();
    abbreviation(&mut abbreviations, 1, UNIT, true, &[(LOW, ADDRESS), (HIGH, DATA8)]);
    abbreviation(&mut abbreviations, 2, FUNCTION, true, &[(NAME, TEXT), (LOW, ADDRESS), (HIGH, DATA8)]);
    abbreviation(&mut abbreviations, 3, INLINED, true, &[(NAME, TEXT), (LOW, ADDRESS), (HIGH, DATA8)]);
    let mut entries = Bytes::default();
    entries.uleb(1).u64(CODE).u64(CODE_SIZE);
    entries.uleb(2).text("outer").u64(CODE).u64(CODE_SIZE);
    for _ in 0..depth {
        entries.uleb(3).text("i").u64(CODE).u64(CODE_SIZE);
    }
    entries.raw(&vec![0; depth + 2]);
    Made::new()
        .section(".debug_abbrev", [abbreviations.0, vec![0]].concat())
        .section(".debug_info", unit(0, &entries.0))
        .symbols(b"\0outer\0".to_vec(), &[(1, true, CODE, CODE_SIZE)])
}

/// A unit with a function, a list of ranges, and a table of lines with three rows.
pub fn with_lines() -> Vec<u8> {
    let mut abbreviations = Bytes::default();
    abbreviation(&mut abbreviations, 1, UNIT, true, &[(LOW, ADDRESS), (HIGH, DATA8), (LINES, OFFSET)]);
    abbreviation(&mut abbreviations, 2, FUNCTION, false, &[(NAME, TEXT), (RANGES, OFFSET)]);
    let mut entries = Bytes::default();
    entries.uleb(1).u64(CODE).u64(CODE_SIZE).u32(0).uleb(2).text("_Z1fv").u32(0).u8(0);
    let mut ranges = Bytes::default();
    ranges.u64(0).u64(0x10).u64(0x20).u64(CODE_SIZE).u64(0).u64(0);
    let mut header = Bytes::default();
    header.u8(1).u8(1).u8(1).u8(0xfb).u8(14).u8(13).raw(&[0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]);
    header.text("folder").u8(0).text("file.c").uleb(1).uleb(0).uleb(0).u8(0);
    // The address, three lines each some bytes on, and the end.
    let mut program = Bytes::default();
    program.raw(&[0, 9, 2]).u64(CODE).u8(1).raw(&[2, 16, 3, 7, 1, 0x4b]).u8(2).uleb(0x1000).raw(&[0, 1, 1]);
    let mut lines = Bytes::default();
    lines.u32((header.0.len() + program.0.len()) as u32 + 6).u16(4).u32(header.0.len() as u32);
    lines.raw(&header.0).raw(&program.0);
    Made::new()
        .section(".debug_abbrev", [abbreviations.0, vec![0]].concat())
        .section(".debug_info", unit(0, &entries.0))
        .section(".debug_ranges", ranges.0)
        .section(".debug_line", lines.0)
        .symbols(b"\0_Z1fv\0g\0".to_vec(), &[(1, true, CODE, 0), (7, true, CODE + 64, 16), (7, false, CODE, 0)])
        .notes(2, 2)
        .finish()
}

/// Seed inputs of the fuzz target `symbols`.
pub fn seeds() -> Vec<Vec<u8>> {
    vec![with_lines(), inlined(0).finish(), inlined(3).finish(), inlined(40).finish(), Made::new().finish()]
}
