//! Content hash of libraries without build id, from parts that are equal in the file and in memory.

use crate::elf::Elf;

/// Bytes of each part.
const PART: usize = 64 << 10;

/// FNV-1a hash of the segments' addresses and sizes, and of the first 64 KiB of the unwind tables' index and of the
/// code; `None` without code. `dlmonitor` computes the same hash from memory.
pub(crate) fn fingerprint(elf: &Elf<'_>) -> Option<u64> {
    let [index, code] = elf.parts();
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for (address, size) in elf.loaded_segments() {
        add(&mut hash, &address.to_le_bytes());
        add(&mut hash, &size.to_le_bytes());
    }
    for part in [index, Some(code?)].into_iter().flatten() {
        add(&mut hash, part.get(..PART).unwrap_or(part));
    }
    Some(hash)
}

/// Continue an FNV-1a hash with these bytes.
fn add(hash: &mut u64, bytes: &[u8]) {
    for byte in bytes {
        *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
}
