//! Functions, files and lines, including inlined functions, from DWARF debug information.

use crate::debug_files::{DebugFile, shared_debug_file};
use crate::elf::Elf;
use crate::meter::{Meter, Metered};
use crate::{Frame, demangle};
use addr2line::Context;
use gimli::{AbbreviationsCacheStrategy, Dwarf, DwarfSections, SectionId};
use std::borrow::Cow;
use std::convert::Infallible;
use std::path::{Path, PathBuf};

/// Largest depth of inlined functions at one address.
const MAX_INLINED: usize = 256;
/// Average number of reads per byte of the sections that is allowed: compilers' output needs one or two.
const MAX_READS_PER_BYTE: u64 = 4;
/// Bytes that may always be read of small sections.
const MIN_READ_LIMIT: u64 = 16 << 20;
/// Additional bytes that may be read per address, for names, which many addresses share.
const READ_PER_ADDRESS: u64 = 64 << 10;
/// Stack of the reading thread in bytes, and the part of it that may be used: nested inlined functions are read
/// recursively, with some kB per level. The rest is for calls below the last level.
const STACK: usize = 16 << 20;
const MAX_STACK_USED: usize = 12 << 20;
/// Limit of the text of one library's results in bytes, and the addition per address.
const MAX_TEXT: usize = 64 << 20;
const TEXT_PER_ADDRESS: usize = 4 << 10;

/// Functions at an address, outermost first, and true if the outermost name was demangled from a linkage name.
pub(crate) type Chain = (Vec<Frame>, bool);

/// A debug section with its bytes, decompressed if needed.
struct Section<'a> {
    id: SectionId,
    bytes: Cow<'a, [u8]>,
}

/// Debug sections of a library or debug file, and those of a file that several debug files share.
pub(crate) struct DebugInfo<'a> {
    own: DwarfSections<Section<'a>>,
    shared: Option<DwarfSections<Section<'static>>>,
}

/// Limits on the bytes that are read from debug sections. Lists of ranges have a separate limit, because they are much
/// larger in memory than in the file.
struct ReadLimits {
    ranges: Meter,
    others: Meter,
}

impl<'a> DebugInfo<'a> {
    /// Find the debug sections of an ELF file and of the file that it shares, decompressed if needed.
    pub(crate) fn load(elf: &Elf<'a>, path: &Path, folders: &[PathBuf]) -> Self {
        let shared = shared_debug_file(folders, path, elf).and_then(|found: DebugFile| {
            let elf = Elf::parse(&found.bytes)?;
            // Copied, because such files are small and rare.
            Some(sections(|name| Cow::Owned(elf.section(name).unwrap_or_default().into_owned())))
        });
        Self { shared, ..Self::from_elf(elf) }
    }

    /// Find the debug sections of an ELF file, without a shared debug file.
    pub(crate) fn from_elf(elf: &Elf<'a>) -> Self {
        Self { own: sections(|name| elf.section(name).unwrap_or_default()), shared: None }
    }

    /// Functions with files and lines at each address, from debug information; empty if unknown or beyond a limit. A
    /// thread with a fixed stack size reads them.
    pub(crate) fn frames(&self, addresses: &[u64]) -> Vec<Chain> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            let started = thread.spawn_scoped(scope, || self.frames_on_this_stack(addresses));
            started.ok().and_then(|thread| thread.join().ok())
        })
        .unwrap_or_else(|| vec![Chain::default(); addresses.len()])
    }

    /// Functions with files and lines at each address, read on the stack of the calling thread.
    fn frames_on_this_stack(&self, addresses: &[u64]) -> Vec<Chain> {
        let meters = self.meters();
        // Units are parsed on demand.
        let Ok(context) = Context::from_dwarf(self.dwarf(&meters)) else {
            return vec![Chain::default(); addresses.len()];
        };
        let mut text = MAX_TEXT.saturating_add(addresses.len().saturating_mul(TEXT_PER_ADDRESS));
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

    /// Read limits in proportion to the sizes of the sections.
    fn meters(&self) -> ReadLimits {
        let (mut ranges, mut others) = (0, 0);
        let mut add = |section: &Section<'_>| {
            let sum = if is_ranges(section.id) { &mut ranges } else { &mut others };
            *sum += section.bytes.len() as u64;
        };
        self.own.borrow(&mut add);
        if let Some(shared) = &self.shared {
            shared.borrow(&mut add);
        }
        let [ranges, others] = [ranges, others].map(|bytes| {
            Meter::new(bytes.saturating_mul(MAX_READS_PER_BYTE).saturating_add(MIN_READ_LIMIT), MAX_STACK_USED)
        });
        ReadLimits { ranges, others }
    }

    /// DWARF reader of the own and shared sections, whose reads are charged to `meters`.
    fn dwarf<'b>(&'b self, meters: &'b ReadLimits) -> Dwarf<Metered<'b>> {
        let metered = |section: &'b Section<'_>| {
            Metered::new(&section.bytes, if is_ranges(section.id) { &meters.ranges } else { &meters.others })
        };
        let mut dwarf = self.own.borrow(metered);
        // Units may share one list of abbreviations, which is then parsed once.
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        if let Some(shared) = &self.shared {
            let mut shared = shared.borrow(metered);
            shared.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
            dwarf.set_sup(shared);
        }
        dwarf
    }
}

/// True for a section with lists of address ranges, which has a separate read limit.
fn is_ranges(id: SectionId) -> bool {
    matches!(id, SectionId::DebugRanges | SectionId::DebugRngLists | SectionId::DebugAranges)
}

/// All debug sections of a file; `bytes` returns the content of the section with a name.
fn sections<'a>(bytes: impl Fn(&str) -> Cow<'a, [u8]>) -> DwarfSections<Section<'a>> {
    let load = |id: SectionId| Ok::<_, Infallible>(Section { id, bytes: bytes(id.name()) });
    match DwarfSections::load(load) {
        Ok(sections) => sections,
        Err(never) => match never {},
    }
}

/// Functions at an address, outermost first, and true if the outermost name was demangled; empty if unknown or invalid.
fn frames(context: &Context<Metered<'_>>, address: u64) -> Chain {
    let mut frames = Vec::new();
    let mut is_whole = false;
    // The last address has no following one, which the library requests.
    if address == u64::MAX {
        return Chain::default();
    }
    let Ok(mut found) = context.find_frames(address).skip_all_loads() else { return Chain::default() };
    loop {
        let frame = match found.next() {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            // An incomplete list would give the outermost function's name to an inner one.
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
