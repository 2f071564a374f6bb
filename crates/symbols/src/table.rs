//! Functions from symbol tables: one pass over a table for all addresses, so that nothing has to be stored.

use crate::elf::{ENDIAN, Elf, Strings};
use object::elf::{SHF_EXECINSTR, STB_GLOBAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, SectionHeader64, Sym64};
use object::read::elf::{SectionHeader as _, Sym as _};
use object::{LittleEndian, SectionIndex};
use std::cmp::Reverse;

/// Budget for one table, in bytes of names and comparisons of symbols with addresses, in addition to an amount per
/// symbol and address. Only a crafted table needs more, and the rest of it is skipped.
const MAX_WORK: usize = 1 << 26;
const WORK_PER_ROW: usize = 256;
/// Longest name.
const MAX_NAME: usize = 64 << 10;

/// Remaining work that may be spent on a symbol table, in names' bytes and comparisons.
struct Budget(usize);

impl Budget {
    /// Subtract a cost from the budget; `None` if the budget is exhausted.
    fn take(&mut self, cost: usize) -> Option<()> {
        let left = self.0.checked_sub(cost);
        self.0 = left.unwrap_or(0);
        left.map(|_| ())
    }

    /// Name of a symbol, whose length is subtracted; `None` if the name is invalid or the budget exhausted.
    fn name<'a>(&mut self, strings: Strings<'a>, symbol: &Sym64<LittleEndian>) -> Option<&'a [u8]> {
        // Names beyond the budget are not read.
        let name = strings.name(symbol.st_name(ENDIAN), MAX_NAME.min(self.0));
        // An unterminated name was read up to the limit.
        self.take(name.map_or(MAX_NAME, <[u8]>::len) + 1)?;
        name
    }
}

/// A symbol that covers an address. The greatest candidate is the best name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate<'a> {
    /// True for symbols with a size, whose range is known.
    sized: bool,
    start: u64,
    is_function: bool,
    /// Of several names, the public one: `read`, not `__read`.
    underscores: Reverse<usize>,
    binding: u8,
    /// The shorter one, and then the first one by text, so that the result does not depend on the order of the table.
    length: Reverse<usize>,
    name: Reverse<&'a [u8]>,
}

/// Mangled name of the symbol that covers each address, from all symbol tables of the files; `None` if there is none.
pub(crate) fn names<'a>(files: &[&Elf<'a>], addresses: &[u64]) -> Vec<Option<&'a [u8]>> {
    let mut order: Vec<usize> = (0..addresses.len()).collect();
    order.sort_unstable_by_key(|&at| addresses[at]);
    let sorted: Vec<u64> = order.iter().map(|&at| addresses[at]).collect();
    let mut best: Vec<Option<Candidate<'a>>> = vec![None; sorted.len()];
    // Start of the last function before each address: symbols without size end there.
    let mut starts = vec![0_u64; sorted.len()];
    let mut unsized_symbols = Vec::new();
    for file in files {
        for table in file.symbol_tables() {
            let strings = file.strings(table.string_section());
            let rows = table.len().saturating_add(addresses.len());
            let mut work = Budget(MAX_WORK.saturating_add(rows.saturating_mul(WORK_PER_ROW)));
            for symbol in table.symbols() {
                let Some((section, is_function)) = code_section(file, strings, symbol, &mut work) else { continue };
                let (start, size) = (symbol.st_value(ENDIAN), symbol.st_size(ENDIAN));
                let first = sorted.partition_point(|&address| address < start);
                let Some(latest) = starts.get_mut(first) else { continue };
                *latest = start.max(*latest);
                if size == 0 {
                    unsized_symbols.push((strings, symbol, section, is_function, first));
                    continue;
                }
                let end = start.saturating_add(size);
                for (address, best) in sorted[first..].iter().zip(&mut best[first..]) {
                    if *address >= end || replace_if_better(best, strings, symbol, is_function, &mut work).is_none() {
                        break;
                    }
                }
            }
        }
    }
    for at in 1..starts.len() {
        starts[at] = starts[at].max(starts[at - 1]);
    }
    let rows = unsized_symbols.len().saturating_add(addresses.len());
    let mut work = Budget(MAX_WORK.saturating_add(rows.saturating_mul(WORK_PER_ROW)));
    for (strings, symbol, section, is_function, first) in unsized_symbols {
        let start = symbol.st_value(ENDIAN);
        let end = section.sh_addr(ENDIAN).saturating_add(section.sh_size(ENDIAN));
        for at in first..sorted.len() {
            let ends = starts[at] != start || sorted[at] >= end;
            if ends || replace_if_better(&mut best[at], strings, symbol, is_function, &mut work).is_none() {
                break;
            }
        }
    }
    let mut names = vec![None; addresses.len()];
    for (at, best) in order.into_iter().zip(best) {
        names[at] = best.map(|best| best.name.0);
    }
    names
}

/// Code section of a function or a label in assembly, and true for a function; `None` for other symbols.
fn code_section<'a>(
    file: &Elf<'a>,
    strings: Strings<'a>,
    symbol: &Sym64<LittleEndian>,
    work: &mut Budget,
) -> Option<(&'a SectionHeader64<LittleEndian>, bool)> {
    let is_function = match symbol.st_type() {
        STT_FUNC | STT_GNU_IFUNC => true,
        // Labels in assembly.
        STT_NOTYPE => false,
        _ => return None,
    };
    if symbol.is_undefined(ENDIAN) {
        return None;
    }
    let section = file.file.elf_section_table().section(SectionIndex(symbol.st_shndx(ENDIAN).0.into())).ok()?;
    let is_code = section.sh_flags(ENDIAN) & SHF_EXECINSTR == SHF_EXECINSTR;
    // Mapping symbols of ARM (`$x`), and labels that compilers generate.
    let mut is_name = || is_function || !matches!(work.name(strings, symbol), Some([b'$' | b'.', ..] | []) | None);
    (is_code && is_name()).then_some((section, is_function))
}

/// Replace the best symbol of an address by `symbol` if that is a better candidate; `None` if the budget is exhausted.
fn replace_if_better<'a>(
    best: &mut Option<Candidate<'a>>,
    strings: Strings<'a>,
    symbol: &Sym64<LittleEndian>,
    is_function: bool,
    work: &mut Budget,
) -> Option<()> {
    work.take(1)?;
    let (sized, start) = (symbol.st_size(ENDIAN) > 0, symbol.st_value(ENDIAN));
    // Names are read only if they decide.
    if best.is_some_and(|best| (best.sized, best.start, best.is_function) > (sized, start, is_function)) {
        return Some(());
    }
    let Some(name) = work.name(strings, symbol).filter(|name| !name.is_empty()) else { return Some(()) };
    let candidate = Candidate {
        sized,
        start,
        is_function,
        underscores: Reverse(name.iter().take_while(|&&byte| byte == b'_').count()),
        binding: match symbol.st_bind() {
            STB_GLOBAL => 2,
            STB_WEAK => 1,
            _ => 0,
        },
        length: Reverse(name.len()),
        name: Reverse(name),
    };
    *best = (*best).max(Some(candidate));
    Some(())
}
