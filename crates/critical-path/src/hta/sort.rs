//! Sort by time with packed integer keys. Sorting is most of the cost of building a graph.

/// Bits per pass of the radix sort, so that the counters of a pass fit into the first-level cache.
const DIGIT: u32 = 11;
/// Minimum length for the radix sort; shorter lists use comparisons.
const SHORT: usize = 1 << 10;

/// Positions of `times` in time order, with ties in the order of position.
pub(super) fn by_time(times: impl Iterator<Item = i64> + Clone) -> Vec<u32> {
    let range = times.clone().fold(None, |range: Option<(i64, i64, u32)>, t| {
        Some(range.map_or((t, t, 1), |(low, high, n)| (low.min(t), high.max(t), n.saturating_add(1))))
    });
    let Some((low, high, count)) = range else { return Vec::new() };
    let id_bits = u32::BITS - count.leading_zeros();
    let time_bits = u64::BITS - high.abs_diff(low).leading_zeros();
    if time_bits + id_bits > u64::BITS {
        let mut keys: Vec<(i64, u32)> = times.zip(0u32..).collect();
        keys.sort_unstable();
        return keys.into_iter().map(|(_, id)| id).collect();
    }
    let mut keys: Vec<u64> = times.zip(0u64..).map(|(t, id)| (t.abs_diff(low) << id_bits) | id).collect();
    if keys.len() < SHORT {
        keys.sort_unstable();
    } else {
        keys = radix(keys, id_bits, time_bits);
    }
    let mask = (1u64 << id_bits) - 1;
    keys.into_iter().map(|key| (key & mask) as u32).collect()
}

/// Radix sort (stable) by the `bits` bits above the lowest `shift` bits.
fn radix(mut keys: Vec<u64>, shift: u32, bits: u32) -> Vec<u64> {
    let mut sorted = vec![0u64; keys.len()];
    for pass in 0..bits.div_ceil(DIGIT) {
        let digit = |key: u64| ((key >> (shift + pass * DIGIT)) & ((1 << DIGIT) - 1)) as usize;
        let mut next = [0u32; 1 << DIGIT];
        for &key in &keys {
            next[digit(key)] += 1;
        }
        let mut sum = 0;
        for slot in &mut next {
            sum += std::mem::replace(slot, sum);
        }
        for &key in &keys {
            let slot = &mut next[digit(key)];
            sorted[*slot as usize] = key;
            *slot += 1;
        }
        std::mem::swap(&mut keys, &mut sorted);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sorts_like_std(times in proptest::collection::vec(-50i64..50, 0..60), scale in 0u32..58, copies in 1usize..30) {
            let times: Vec<i64> = times.iter().enumerate().flat_map(|(i, t)| {
                (0..copies as i64).map(move |c| (t << scale).wrapping_add(c * (i as i64 % 3)))
            }).collect();
            let mut expected: Vec<u32> = (0..times.len() as u32).collect();
            expected.sort_by_key(|&i| times[i as usize]);
            prop_assert_eq!(by_time(times.iter().copied()), expected);
        }
    }
}
