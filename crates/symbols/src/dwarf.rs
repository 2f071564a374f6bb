//! Functions, files and lines, inlined functions included, by debug information.

use crate::debug_files::{Found, shared};
use crate::elf::Elf;
use crate::{Frame, demangle};
use addr2line::Context;
use gimli::{DwarfSections, EndianSlice, LittleEndian, SectionId};
use std::borrow::Cow;
use std::convert::Infallible;
use std::path::{Path, PathBuf};

/// Functions that are inlined into each other at one place, at most.
const MAX_INLINED: usize = 256;

type Reader<'a> = EndianSlice<'a, LittleEndian>;
type Sections<'a> = DwarfSections<Cow<'a, [u8]>>;

/// The sections of a library or debug file, and those of the file that it shares with others.
pub(crate) struct DebugInfo<'a> {
    own: Sections<'a>,
    shared: Option<DwarfSections<Vec<u8>>>,
}

impl<'a> DebugInfo<'a> {
    /// Finds the sections, and decompresses those that are packed.
    pub(crate) fn load(elf: &Elf<'a>, path: &Path, folders: &[PathBuf]) -> Option<Self> {
        let own = sections(|name| elf.section(name).unwrap_or_default());
        let shared = shared(folders, path, elf).and_then(|found: Found| {
            let elf = Elf::parse(&found.bytes)?;
            // Copied: such files are small, and rare.
            Some(sections(|name| elf.section(name).unwrap_or_default().into_owned()))
        });
        Some(Self { own, shared })
    }

    /// What answers questions; units are parsed as they are asked for.
    pub(crate) fn context(&self) -> Option<Context<Reader<'_>>> {
        let mut dwarf = self.own.borrow(|section| EndianSlice::new(section, LittleEndian));
        if let Some(shared) = &self.shared {
            dwarf.set_sup(shared.borrow(|section| EndianSlice::new(section, LittleEndian)));
        }
        Context::from_dwarf(dwarf).ok()
    }
}

fn sections<T>(section: impl Fn(&str) -> T) -> DwarfSections<T> {
    let load = |id: SectionId| Ok::<T, Infallible>(section(id.name()));
    match DwarfSections::load(load) {
        Ok(sections) => sections,
        Err(never) => match never {},
    }
}

/// The functions at an address, outermost first, and whether the name of the outermost is that of the linker.
pub(crate) fn frames(context: &Context<Reader<'_>>, address: u64) -> (Vec<Frame>, bool) {
    let mut frames = Vec::new();
    let mut is_whole = false;
    let Ok(mut found) = context.find_frames(address).skip_all_loads() else { return (frames, false) };
    loop {
        let frame = match found.next() {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            // Half a chain would give the outermost function's name to an inner one.
            Err(_) => return (Vec::new(), false),
        };
        if frames.len() == MAX_INLINED {
            return (Vec::new(), false);
        }
        let raw = frame.function.as_ref().and_then(|function| function.raw_name().ok()).unwrap_or_default();
        let function = demangle(&raw);
        is_whole = function != raw;
        let (file, line) = match frame.location {
            Some(location) => (location.file.unwrap_or_default().to_owned(), location.line.unwrap_or(0)),
            None => (String::new(), 0),
        };
        frames.push(Frame { function, file, line });
    }
    frames.reverse();
    (frames, is_whole)
}
