//! What tells libraries without build id apart: a hash of parts that are the same in the file and in memory.

use crate::elf::Elf;

/// Bytes of each part.
const PART: usize = 64 << 10;

/// The hash: FNV-1a of the places and sizes of what is loaded, of the beginning of the unwind tables' index (which
/// knows where each function begins), and of the beginning of the code. `dlmonitor` takes the same from memory.
pub(crate) fn fingerprint(elf: &Elf<'_>) -> Option<u64> {
    let [index, code] = elf.parts();
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for (address, size) in elf.loaded() {
        add(&mut hash, &address.to_le_bytes());
        add(&mut hash, &size.to_le_bytes());
    }
    for part in [index, Some(code?)].into_iter().flatten() {
        add(&mut hash, part.get(..PART).unwrap_or(part));
    }
    Some(hash)
}

fn add(hash: &mut u64, bytes: &[u8]) {
    for byte in bytes {
        *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
}
