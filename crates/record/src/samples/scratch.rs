//! Private stack for the signal handler of one thread.
//!
//! The handler may run on an alternate signal stack that is only large enough for the program's own handlers:
//! `CPython`'s `faulthandler` allocates about 10 kB, of which the kernel's signal frame takes up to a third.
//! Therefore the handler switches to private memory with a guard page below. All signals are blocked meanwhile, so no
//! other code runs on that memory.

use std::ffi::c_void;

/// Size of the stack in bytes. Physical memory is used only for accessed pages.
const SIZE: usize = 64 << 10;
/// Size of the guard area below in bytes: a multiple of every page size.
const GUARD: usize = 64 << 10;

/// Stack of one thread's handler, which is never unmapped, but reused with its record.
#[derive(Debug)]
pub(super) struct ScratchStack {
    top: usize,
}

impl ScratchStack {
    /// Map a stack; `None` if the system has no memory or mapping left.
    pub(super) fn new() -> Option<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let bottom = unsafe { libc::mmap(std::ptr::null_mut(), GUARD + SIZE, libc::PROT_NONE, flags, -1, 0) };
        if bottom == libc::MAP_FAILED {
            return None;
        }
        let stack = bottom as usize + GUARD;
        // SAFETY: the upper part of the mapping above.
        if unsafe { libc::mprotect(stack as *mut c_void, SIZE, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            // SAFETY: the mapping above, to which no other pointer exists.
            unsafe { libc::munmap(bottom, GUARD + SIZE) };
            return None;
        }
        Some(Self { top: stack + SIZE })
    }

    /// Call `function` with `data` on this separate stack.
    ///
    /// # Safety
    /// No other code may run on the stack meanwhile, `data` must be the argument that `function` expects, and
    /// `function` must return.
    #[inline]
    pub(super) unsafe fn run(&self, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) {
        // SAFETY: the top is aligned to 16 bytes, as calls require. The stack pointer is saved in a register that
        // `function` preserves, and restored afterwards. The rest by contract.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!("mov r12, rsp", "mov rsp, {top}", "call {function}", "mov rsp, r12",
                top = in(reg) self.top, function = in(reg) function, in("rdi") data, out("r12") _,
                clobber_abi("sysv64"));
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!("mov x20, sp", "mov sp, {top}", "blr {function}", "mov sp, x20",
                top = in(reg) self.top, function = in(reg) function, in("x0") data, out("x20") _,
                clobber_abi("C"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GUARD, SIZE, ScratchStack};
    use std::ffi::c_void;

    /// Use some kilobytes of stack, and write its address.
    unsafe extern "C" fn use_stack(data: *mut c_void) {
        let room = std::hint::black_box([7_u64; 2000]);
        // SAFETY: the test passes a variable.
        unsafe { *data.cast::<(usize, u64)>() = (&raw const room as usize, room.iter().sum()) };
    }

    #[test]
    fn functions_run_on_the_stack_and_return() {
        let stack = ScratchStack::new().unwrap();
        for _ in 0..3 {
            let mut seen = (0_usize, 0_u64);
            // SAFETY: no other code uses the stack, and the function expects the variable.
            unsafe { stack.run(use_stack, (&raw mut seen).cast()) };
            assert!((stack.top - SIZE..stack.top).contains(&seen.0) && seen.1 == 14_000, "{seen:?}");
        }
        let guard = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = format!("{:x}-{:x} ---p", stack.top - SIZE - GUARD, stack.top - SIZE);
        assert!(guard.lines().any(|mapping| mapping.starts_with(&line)), "{line} is not in {guard}");
    }
}
