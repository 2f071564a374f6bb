//! Functions, files and lines, inlined functions included, by debug information.

use crate::debug_files::{Found, shared};
use crate::elf::Elf;
use crate::meter::{Meter, Metered};
use crate::{Frame, demangle};
use addr2line::Context;
use gimli::{AbbreviationsCacheStrategy, Dwarf, DwarfSections, SectionId};
use std::borrow::Cow;
use std::convert::Infallible;
use std::path::{Path, PathBuf};

/// Functions that are inlined into each other at one place, at most.
const MAX_INLINED: usize = 256;
/// How often each byte of the sections may be read, on average: compilers have them read once or twice.
const READ_TIMES: u64 = 4;
/// What may be read of small sections in any case, in bytes.
const READ_ANYWAY: u64 = 16 << 20;
/// What an address may have read more, in bytes: names, which many addresses share.
const READ_PER_ADDRESS: u64 = 64 << 10;
/// Stack of the thread that reads, in bytes, and how much of it may be used: functions that are inlined into each other
/// are read by calls within calls, each of up to some kB. The rest is for what happens below the last one.
const STACK: usize = 16 << 20;
const STACK_USED: usize = 12 << 20;
/// Text of the answers for one library, in bytes: so much, and so much more for each address.
const TEXT: usize = 64 << 20;
const TEXT_PER_ADDRESS: usize = 4 << 10;

/// The functions at an address, outermost first, and whether the name of the outermost is that of the linker.
pub(crate) type Chain = (Vec<Frame>, bool);

struct Section<'a> {
    id: SectionId,
    bytes: Cow<'a, [u8]>,
}

/// The sections of a library or debug file, and those of the file that it shares with others.
pub(crate) struct DebugInfo<'a> {
    own: DwarfSections<Section<'a>>,
    shared: Option<DwarfSections<Section<'static>>>,
}

/// What may be read: lists of ranges for themselves, since they become much larger in memory than they are in the file.
struct Meters {
    ranges: Meter,
    others: Meter,
}

impl<'a> DebugInfo<'a> {
    /// Finds the sections, and decompresses those that are packed.
    pub(crate) fn load(elf: &Elf<'a>, path: &Path, folders: &[PathBuf]) -> Self {
        let shared = shared(folders, path, elf).and_then(|found: Found| {
            let elf = Elf::parse(&found.bytes)?;
            // Copied: such files are small, and rare.
            Some(sections(|name| Cow::Owned(elf.section(name).unwrap_or_default().into_owned())))
        });
        Self { shared, ..Self::from_elf(elf) }
    }

    /// Without a file that is shared with others.
    pub(crate) fn from_elf(elf: &Elf<'a>) -> Self {
        Self { own: sections(|name| elf.section(name).unwrap_or_default()), shared: None }
    }

    /// The functions at each address. Read in a thread with a stack of known size; without one there are none.
    pub(crate) fn frames(&self, addresses: &[u64]) -> Vec<Chain> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            let started = thread.spawn_scoped(scope, || self.frames_here(addresses));
            started.ok().and_then(|thread| thread.join().ok())
        })
        .unwrap_or_else(|| vec![Chain::default(); addresses.len()])
    }

    fn frames_here(&self, addresses: &[u64]) -> Vec<Chain> {
        let meters = self.meters();
        // Units are parsed as they are asked for.
        let Ok(context) = Context::from_dwarf(self.dwarf(&meters)) else {
            return vec![Chain::default(); addresses.len()];
        };
        let mut text = TEXT.saturating_add(addresses.len().saturating_mul(TEXT_PER_ADDRESS));
        let each = addresses.iter().map(|&address| {
            meters.others.add(READ_PER_ADDRESS);
            let chain = frames(&context, address);
            let length: usize = chain.0.iter().map(|frame| frame.function.len() + frame.file.len()).sum();
            let left = text.checked_sub(length)?;
            text = left;
            Some(chain)
        });
        each.map(Option::unwrap_or_default).collect()
    }

    fn meters(&self) -> Meters {
        let (mut ranges, mut others) = (0, 0);
        let mut add = |section: &Section<'_>| {
            let sum = if is_ranges(section.id) { &mut ranges } else { &mut others };
            *sum += section.bytes.len() as u64;
        };
        self.own.borrow(&mut add);
        if let Some(shared) = &self.shared {
            shared.borrow(&mut add);
        }
        let [ranges, others] = [ranges, others]
            .map(|bytes| Meter::new(bytes.saturating_mul(READ_TIMES).saturating_add(READ_ANYWAY), STACK_USED));
        Meters { ranges, others }
    }

    fn dwarf<'b>(&'b self, meters: &'b Meters) -> Dwarf<Metered<'b>> {
        let metered = |section: &'b Section<'_>| {
            Metered::new(&section.bytes, if is_ranges(section.id) { &meters.ranges } else { &meters.others })
        };
        let mut dwarf = self.own.borrow(metered);
        // Units may have one list of abbreviations in common, which is then parsed once.
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        if let Some(shared) = &self.shared {
            let mut shared = shared.borrow(metered);
            shared.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
            dwarf.set_sup(shared);
        }
        dwarf
    }
}

fn is_ranges(id: SectionId) -> bool {
    matches!(id, SectionId::DebugRanges | SectionId::DebugRngLists | SectionId::DebugAranges)
}

fn sections<'a>(bytes: impl Fn(&str) -> Cow<'a, [u8]>) -> DwarfSections<Section<'a>> {
    let load = |id: SectionId| Ok::<_, Infallible>(Section { id, bytes: bytes(id.name()) });
    match DwarfSections::load(load) {
        Ok(sections) => sections,
        Err(never) => match never {},
    }
}

fn frames(context: &Context<Metered<'_>>, address: u64) -> Chain {
    let mut frames = Vec::new();
    let mut is_whole = false;
    // The last address has none behind it, which the library asks for.
    if address == u64::MAX {
        return Chain::default();
    }
    let Ok(mut found) = context.find_frames(address).skip_all_loads() else { return Chain::default() };
    loop {
        let frame = match found.next() {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            // Half a chain would give the outermost function's name to an inner one.
            Err(_) => return Chain::default(),
        };
        if frames.len() == MAX_INLINED {
            return Chain::default();
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
