//! Random mutation of byte inputs: fuzzing without coverage guidance, equal on every machine.

use crate::rng::Rng;

/// Largest size of a mutated input in bytes.
const MAX_LENGTH: usize = 8192;
/// Largest number of edits of one input.
const MAX_EDITS: usize = 6;

/// Make test input `number`: one of `seeds` (or the empty input) with 1 to 6 random edits. The same `number` gives the
/// same bytes. An edit flips a bit, inserts a byte, or deletes, repeats, moves or replaces a part.
#[must_use]
pub fn mutate(seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut rng = Rng::new(number);
    let mut bytes = rng.pick(seeds).cloned().unwrap_or_default();
    for _ in 0..=rng.below(MAX_EDITS) {
        edit(&mut rng, &mut bytes, seeds);
        bytes.truncate(MAX_LENGTH);
    }
    bytes
}

/// Apply one random edit to `bytes`.
fn edit(rng: &mut Rng, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let part = random_range(rng, bytes.len());
    match rng.below(6) {
        0 => {
            if let Some(byte) = bytes.get_mut(part.start) {
                *byte ^= 1 << rng.below(8);
            }
        }
        1 => {
            let value = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff]).unwrap_or(&0);
            bytes.splice(part.start..part.start, [value]);
        }
        2 => drop(bytes.drain(part)),
        3 => {
            let copy = bytes.get(part.clone()).unwrap_or_default().to_vec();
            bytes.splice(part.end..part.end, copy);
        }
        4 => {
            let moved: Vec<u8> = bytes.drain(part).collect();
            let to = rng.below(bytes.len() + 1);
            bytes.splice(to..to, moved);
        }
        _ => {
            let other = rng.pick(seeds).map_or(&[][..], Vec::as_slice);
            let copy = other.get(random_range(rng, other.len())).unwrap_or_default().to_vec();
            bytes.splice(part, copy);
        }
    }
}

/// Draw a random range within `length` bytes, usually a short one.
fn random_range(rng: &mut Rng, length: usize) -> std::ops::Range<usize> {
    let start = rng.below(length + 1);
    let most = if rng.below(4) == 0 { length } else { 16 };
    start..(start + rng.below(most + 1)).min(length)
}

#[cfg(test)]
mod tests {
    use super::{MAX_EDITS, MAX_LENGTH, mutate};

    #[test]
    fn inputs_differ_and_are_reproducible() {
        let seeds = [b"{\"traceEvents\": []}".to_vec(), vec![7; MAX_LENGTH]];
        let made: Vec<_> = (0..200).map(|number| mutate(&seeds, number)).collect();
        let again: Vec<_> = (0..200).map(|number| mutate(&seeds, number)).collect();
        assert_eq!(made, again);
        assert!(made.iter().all(|bytes| bytes.len() <= MAX_LENGTH));
        let distinct: std::collections::BTreeSet<_> = made.iter().collect();
        assert!(distinct.len() > 190, "{}", distinct.len());
        // Each edit at most doubles the size, or adds one byte.
        assert!((0..200).all(|number| mutate(&[], number).len() < 1 << MAX_EDITS), "nothing to begin with");
    }
}
