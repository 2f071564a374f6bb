//! PLT hooks: redirection of a library's calls through its import table to one of our functions.
//!
//! A hook repeats the dynamic linker's binding of a symbol. The code of the library is unchanged, and other callers
//! of the function are unaffected.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Redirected imported function of a library, whose original target can be restored.
#[derive(Debug)]
pub(crate) struct Import {
    slot: &'static AtomicPtr<c_void>,
    before: *mut c_void,
}

// SAFETY: the slot is an atomic in memory that is never unmapped, and `before` is only stored back into it.
unsafe impl Send for Import {}
// SAFETY: as above.
unsafe impl Sync for Import {}

impl Import {
    /// Restore the original target of the import.
    pub(crate) fn restore(&self) {
        self.slot.store(self.before, Ordering::Release);
    }
}

/// Redirect calls of `symbol` from the loaded library with the file name `library` to `to`, which must have the
/// signature of the symbol.
///
/// # Errors
/// If the library is not loaded, does not import the symbol, or its import table is not writable.
pub(crate) fn redirect(library: &str, symbol: &CStr, to: *const c_void) -> Result<Import, String> {
    let mut search = Search { library, symbol, slot: None, seen: false };
    // SAFETY: the callback has the right signature and gets a pointer to `search`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    let name = symbol.to_string_lossy();
    let slot = match search.slot {
        Some(slot) => slot,
        None if search.seen => return Err(format!("{library} does not import {name}")),
        None => return Err(format!("{library} is not loaded")),
    };
    make_writable(slot)?;
    // SAFETY: the address is an aligned slot of a table that stays mapped: the library is never unloaded.
    let slot: &'static AtomicPtr<c_void> = unsafe { AtomicPtr::from_ptr(slot.as_ptr()) };
    Ok(Import { before: slot.swap(to.cast_mut(), Ordering::AcqRel), slot })
}

/// Search for the import of `symbol` in `library` among the loaded libraries, with its result.
struct Search<'a> {
    library: &'a str,
    symbol: &'a CStr,
    slot: Option<NonNull<*mut c_void>>,
    seen: bool,
}

/// Callback for each loaded library: search the import if the name matches, and return 1, which ends the search, if it
/// is found.
unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> i32 {
    // SAFETY: `redirect` passed a `Search`, and the linker passes a valid description of a loaded object.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: a null-terminated path.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy();
    if path.rsplit('/').next() != Some(search.library) {
        return 0;
    }
    search.seen = true;
    search.slot = Table::from_info(info).and_then(|table| table.slot(search.symbol));
    i32::from(search.slot.is_some())
}

/// Addresses of the tables that describe a loaded library's imported functions, from its dynamic section.
struct Table {
    base: usize,
    relocations: usize,
    count: usize,
    symbols: usize,
    strings: usize,
}

const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_JMPREL: i64 = 23;

impl Table {
    /// Find the tables of a loaded library; `None` if one is missing.
    fn from_info(info: &libc::dl_phdr_info) -> Option<Self> {
        // SAFETY: the linker's array of program headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let base = info.dlpi_addr as usize;
        let mut table = Self { base, relocations: 0, count: 0, symbols: 0, strings: 0 };
        let mut entry = (base + dynamic.p_vaddr as usize) as *const [i64; 2];
        loop {
            // SAFETY: the dynamic section ends with an entry whose tag is 0, which ends this loop.
            let [tag, value] = unsafe { entry.read() };
            let value = value as usize;
            match tag {
                0 => break,
                DT_PLTRELSZ => table.count = value / size_of::<Relocation>(),
                DT_STRTAB => table.strings = value,
                DT_SYMTAB => table.symbols = value,
                DT_JMPREL => table.relocations = value,
                _ => {}
            }
            // SAFETY: not the last entry, as its tag was not 0.
            entry = unsafe { entry.add(1) };
        }
        // glibc stores addresses here, musl offsets.
        for address in [&mut table.relocations, &mut table.symbols, &mut table.strings] {
            if *address != 0 && *address < base {
                *address += base;
            }
        }
        (table.relocations != 0 && table.symbols != 0 && table.strings != 0).then_some(table)
    }

    /// Address of the import table's entry through which the library calls a symbol; `None` without such an import.
    fn slot(&self, symbol: &CStr) -> Option<NonNull<*mut c_void>> {
        // SAFETY: the table of relocations of a loaded object, with the length that the object states.
        let relocations = unsafe { std::slice::from_raw_parts(self.relocations as *const Relocation, self.count) };
        let found = relocations.iter().find(|relocation| {
            let entry = self.symbols + (relocation.info >> 32) as usize * size_of::<libc::Elf64_Sym>();
            // SAFETY: the relocation's symbol is within the object's table of symbols.
            let name = self.strings + unsafe { (entry as *const libc::Elf64_Sym).read() }.st_name as usize;
            // SAFETY: a null-terminated name in the object's table of strings.
            unsafe { CStr::from_ptr(name as *const std::ffi::c_char) == symbol }
        })?;
        NonNull::new((self.base + found.offset as usize) as *mut *mut c_void)
    }
}

/// Entry of a relocation table (`Elf64_Rela`).
#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// Make the page of an import table's entry writable: the tables of libraries that were bound at start are read-only.
fn make_writable(slot: NonNull<*mut c_void>) -> Result<(), String> {
    // SAFETY: takes a constant.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let start = slot.as_ptr() as usize & !(page - 1);
    // SAFETY: the page belongs to the table of a loaded object; it stays readable.
    let result = unsafe { libc::mprotect(start as *mut c_void, page, libc::PROT_READ | libc::PROT_WRITE) };
    if result == 0 {
        Ok(())
    } else {
        Err(format!(
            "the library's table of imported functions cannot be made writable: {}",
            std::io::Error::last_os_error()
        ))
    }
}
