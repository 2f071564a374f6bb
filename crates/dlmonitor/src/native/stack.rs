//! Unwinding of native stacks that stops at a bound, such as the interpreter's frame.
//!
//! A bound limits the cost and merges native frames with the others: operators are on the stack, and so is a part of
//! the interpreter ([`crate::Interpreter::stack_mark`]). Callers beyond a bound are known as operators and Python
//! frames.

use super::memo::{Extent, Memo, Word};
use super::modules::Snapshot;
use super::spares::{self, Cache};
use crate::python::Memory;
use framehop::{FrameAddress, UnwindRegsNative, Unwinder as _};

/// Largest number of frames of one segment.
pub const MAX_NATIVE: usize = 128;

/// Registers of a thread from which unwinding starts: program counter, stack pointer, frame pointer, and the return
/// address of a leaf function (the link register, on processors that have one).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Program counter.
    pub pc: usize,
    /// Stack pointer.
    pub sp: usize,
    /// Frame pointer.
    pub fp: usize,
    /// Link register.
    pub lr: usize,
}

impl Registers {
    /// Registers at the current position in the function that calls this.
    #[inline(always)]
    #[must_use]
    pub fn here() -> Self {
        let mut here = Self::default();
        // SAFETY: reads registers and writes only to its outputs.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp",
                out(reg) here.pc, out(reg) here.sp, out(reg) here.fp, options(nomem, nostack, preserves_flags));
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!("adr {}, .", "mov {}, sp", "mov {}, x29", "mov {}, x30",
                out(reg) here.pc, out(reg) here.sp, out(reg) here.fp, out(reg) here.lr,
                options(nomem, nostack, preserves_flags));
        }
        here
    }

    /// Registers of the thread at the point where a signal interrupted it.
    ///
    /// # Safety
    /// `context` is the third argument of a signal handler.
    #[must_use]
    pub unsafe fn of_signal(context: *const std::ffi::c_void) -> Self {
        // SAFETY: by contract.
        let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
        #[cfg(target_arch = "x86_64")]
        {
            let register = |name: libc::c_int| machine.gregs[name as usize] as usize;
            Self { pc: register(libc::REG_RIP), sp: register(libc::REG_RSP), fp: register(libc::REG_RBP), lr: 0 }
        }
        #[cfg(target_arch = "aarch64")]
        {
            Self {
                pc: machine.pc as usize,
                sp: machine.sp as usize,
                fp: machine.regs[29] as usize,
                lr: machine.regs[30] as usize,
            }
        }
    }

    /// Convert the registers to the unwinder's form.
    #[cfg(target_arch = "x86_64")]
    fn native(self) -> UnwindRegsNative {
        UnwindRegsNative::new(self.pc as u64, self.sp as u64, self.fp as u64)
    }

    /// Convert the registers to the unwinder's form, with a mask for signed return addresses.
    #[cfg(target_arch = "aarch64")]
    fn native(self) -> UnwindRegsNative {
        let mask = framehop::aarch64::PtrAuthMask::new_24_40();
        UnwindRegsNative::new_with_ptr_auth_mask(mask, self.lr as u64, self.sp as u64, self.fp as u64)
    }
}

/// Reason why a walk of a native stack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkEnd {
    /// The bound was reached.
    AtBound,
    /// The first function of the thread was reached.
    AtRoot,
    /// No space for more frames.
    Full,
    /// A function without unwind information was reached.
    Lost,
}

/// Preallocated memory for walks of one thread's stack.
pub struct NativeStack {
    /// `None` until a cache is available: see [`Self::prepare`].
    cache: Option<Box<Cache>>,
    frames: Box<[usize]>,
    count: usize,
    window: Window,
    memo: Memo,
    /// Return addresses of the last walk, with their positions on the stack.
    words: Vec<Word>,
}

impl std::fmt::Debug for NativeStack {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("NativeStack").field("frames", &self.frames()).finish_non_exhaustive()
    }
}

impl Default for NativeStack {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for NativeStack {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.take() {
            spares::give_back(cache);
        }
    }
}

impl NativeStack {
    /// Allocate memory for walks of one thread's stack. On a thread with a small stack, [`Self::prepare`] may have to
    /// complete it.
    #[must_use]
    pub fn new() -> Self {
        Self {
            cache: spares::own_or_spare(),
            frames: vec![0; MAX_NATIVE].into(),
            count: 0,
            window: Window::new(),
            memo: Memo::new(),
            words: Vec::new(),
        }
    }

    /// Prepare the walker: take an unwinder cache that a thread with a large stack built in [`super::renew`]. The call
    /// does not wait, and has no effect if there is a cache already. Return true if the walker is ready. Not
    /// signal-safe.
    #[inline]
    pub fn prepare(&mut self) -> bool {
        if self.cache.is_none() {
            self.cache = spares::take();
        }
        self.cache.is_some()
    }

    /// True if the walker has an unwinder cache and can walk stacks. Signal-safe.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.cache.is_some()
    }

    /// Addresses of the frames that the last walk found, innermost first. These are the current instruction, then the
    /// last byte of each call instruction.
    #[must_use]
    pub fn frames(&self) -> &[usize] {
        self.frames.get(..self.count).unwrap_or(&[])
    }

    /// Walk the calling thread's stack outwards from the registers `at`, and keep the frames between the addresses
    /// `from` and `bound`. The frame that contains `bound` is excluded. The stack ends at `end`. `None` if the walker
    /// is not ready.
    #[inline]
    pub(super) fn walk(
        &mut self,
        modules: &Snapshot,
        at: Registers,
        from: usize,
        bound: usize,
        end: usize,
    ) -> Option<WalkEnd> {
        let start = at.sp;
        // SAFETY: the thread's own stack from its stack pointer to its end; no other thread writes there.
        let mut read = |address: u64| {
            let address = address as usize;
            let inside = address >= start && address < end && address.is_multiple_of(8);
            if inside { Ok(unsafe { (address as *const u64).read() }) } else { Err(()) }
        };
        self.count = 0;
        self.words.clear();
        let cache = self.cache.as_deref_mut()?;
        let mut regs = at.native();
        let mut address = FrameAddress::from_instruction_pointer(at.pc as u64);
        loop {
            let next = modules.unwinder.unwind_frame(address, &mut regs, cache, &mut read);
            let beyond = regs.sp() as usize;
            if beyond > bound {
                return Some(WalkEnd::AtBound);
            }
            if beyond > from && !push_frame(&mut self.frames, &mut self.count, address) {
                return Some(WalkEnd::Full);
            }
            match next.map(|next| next.and_then(FrameAddress::from_return_address)) {
                Ok(Some(next)) => {
                    if let Ok(distance) = u32::try_from(beyond.wrapping_sub(8).wrapping_sub(start)) {
                        self.words.push(Word { distance, value: next.address() as usize });
                    }
                    address = next;
                }
                Ok(None) => return Some(WalkEnd::AtRoot),
                Err(_) => return Some(WalkEnd::Lost),
            }
        }
    }

    /// Value that [`Self::store_cached`] stored for a segment equal to the current one; `None` if there is none.
    #[inline]
    pub(super) fn load_cached(
        &mut self,
        generation: u32,
        hint: u64,
        sp: usize,
        from: usize,
        bound: usize,
    ) -> Option<u32> {
        let extent = extent(sp, from, bound)?;
        // SAFETY: the bound is on the thread's own stack.
        unsafe { self.memo.find(generation, hint, sp, extent) }
    }

    /// Cache the caller's value for the part of the stack, from `sp`, that was unwound last.
    pub(super) fn store_cached(
        &mut self,
        generation: u32,
        hint: u64,
        sp: usize,
        from: usize,
        bound: usize,
        value: u32,
    ) {
        if let (true, Some(extent)) = (cfg!(target_arch = "x86_64"), extent(sp, from, bound)) {
            self.memo.put(generation, hint, extent, &self.words, value);
        }
    }

    /// Walk the stack that a signal interrupted, up to the frame that contains `bound` (`usize::MAX`: to the root).
    /// All reads go through `memory`. If an address is not in a function of a module, the walk is rejected, and only
    /// the innermost frame is kept. `None` if it is not ready.
    pub(super) fn walk_interrupted(
        &mut self,
        modules: &Snapshot,
        at: Registers,
        bound: usize,
        memory: Memory,
    ) -> Option<WalkEnd> {
        self.count = 0;
        let cache = self.cache.as_deref_mut()?;
        let window = &mut self.window;
        window.begin(memory, at.sp);
        let mut read = |address: u64| window.word(address as usize).ok_or(());
        let mut regs = at.native();
        let mut address = FrameAddress::from_instruction_pointer(at.pc as u64);
        let ended = loop {
            let lookup = address.address_for_lookup() as usize;
            let known = modules.find(lookup).is_some();
            let before = regs.sp();
            let next = modules.unwinder.unwind_frame(address, &mut regs, cache, &mut read);
            let leaf = self.count == 0;
            if known && regs.sp() as usize > bound && next.is_ok() {
                break WalkEnd::AtBound;
            }
            if !push_frame(&mut self.frames, &mut self.count, address) {
                break WalkEnd::Full;
            }
            let moved = regs.sp() > before || leaf;
            match next.map(|next| next.and_then(FrameAddress::from_return_address)) {
                Ok(Some(next)) if known && moved => address = next,
                Ok(None) if known => break WalkEnd::AtRoot,
                _ => break WalkEnd::Lost,
            }
        };
        // Without a bound, the root of a thread looks like any other end.
        let unbounded_root = ended == WalkEnd::AtRoot && bound == usize::MAX;
        if !matches!(ended, WalkEnd::AtBound | WalkEnd::Full) && !unbounded_root {
            self.count = self.count.min(1);
        }
        Some(ended)
    }
}

/// Begin and end of a segment as distances from `sp`; `None` if one of them is below `sp` or too far away.
#[inline]
fn extent(sp: usize, from: usize, bound: usize) -> Option<Extent> {
    let distance = |address: usize| u32::try_from(address.checked_sub(sp)?).ok();
    Some(Extent { from: distance(from)?, bound: distance(bound)? })
}

/// Append a frame's address; `false` if there is no space.
fn push_frame(frames: &mut [usize], count: &mut usize, address: FrameAddress) -> bool {
    match frames.get_mut(*count) {
        Some(room) => {
            *room = address.address_for_lookup() as usize;
            *count += 1;
            true
        }
        None => false,
    }
}

/// Copy of the stack above the stack pointer of an interrupted thread, read in pieces on demand.
#[derive(Debug)]
struct Window {
    memory: Memory,
    start: usize,
    bytes: Box<[u8]>,
    /// Number of bytes read so far.
    known: usize,
}

impl Window {
    /// Bytes per read, and in total.
    const PIECE: usize = 8 << 10;
    const SIZE: usize = 256 << 10;

    /// Allocate the space for a copy.
    fn new() -> Self {
        Self { memory: Memory::of_thread(0), start: 0, bytes: vec![0; Self::SIZE].into(), known: 0 }
    }

    /// Begin a new copy at the stack pointer `sp`; nothing is read yet.
    fn begin(&mut self, memory: Memory, sp: usize) {
        self.memory = memory;
        self.start = sp & !7;
        self.known = 0;
    }

    /// Word at an address, read on demand; `None` below the stack pointer, too far above, or unreadable.
    fn word(&mut self, address: usize) -> Option<u64> {
        let at = address.checked_sub(self.start)?;
        while at + 8 > self.known {
            let piece = self.bytes.get_mut(self.known..self.known + Self::PIECE)?;
            // Reads end at page boundaries, so that a missing page does not affect data before it.
            let from = self.start + self.known;
            let length = Self::PIECE - from % 4096;
            let read = self.memory.read(from, piece.get_mut(..length)?);
            if read == 0 {
                return None;
            }
            self.known += read;
        }
        self.bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }
}
