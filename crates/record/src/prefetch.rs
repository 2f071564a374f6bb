//! Wrapper of the processor's instruction that prefetches a cache line.

/// Prefetch the cache line of a value; no other effect.
#[inline]
pub(crate) fn prefetch<T>(value: &T) {
    let at = std::ptr::from_ref(value);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, which neither faults nor has effects that the program can
    // observe.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction is a hint: it neither faults nor changes registers or memory.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}
