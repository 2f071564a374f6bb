//! Sorting by (time, id) with keys packed into one integer: most of the cost of building a graph is sorting.

/// Sorts `(time in ns, id)` pairs by time, then by id, and gives the ids. `ids` are below `id_bound`.
pub(super) fn ids_by_time(pairs: impl Iterator<Item = (i64, u32)> + Clone, id_bound: usize) -> Vec<u32> {
    let range = pairs.clone().fold(None, |range: Option<(i64, i64)>, (t, _)| {
        Some(range.map_or((t, t), |(low, high)| (low.min(t), high.max(t))))
    });
    let Some((low, high)) = range else { return Vec::new() };
    let id_bits = usize::BITS - id_bound.leading_zeros();
    let span = high.abs_diff(low);
    if u64::BITS - span.leading_zeros() + id_bits <= u64::BITS {
        let mut keys: Vec<u64> = pairs.map(|(t, id)| (t.abs_diff(low) << id_bits) | u64::from(id)).collect();
        keys.sort_unstable();
        let mask = (1u64 << id_bits) - 1;
        keys.into_iter().map(|key| (key & mask) as u32).collect()
    } else {
        let mut keys: Vec<(i64, u32)> = pairs.collect();
        keys.sort_unstable();
        keys.into_iter().map(|(_, id)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_and_plain_keys_agree(times in proptest::collection::vec(-50i64..50, 0..60), wide in any::<bool>()) {
            let factor = if wide { 1 << 57 } else { 1_000 };
            let pairs: Vec<(i64, u32)> = times.iter().enumerate().map(|(i, t)| (t * factor, i as u32)).collect();
            let mut expected = pairs.clone();
            expected.sort();
            let expected: Vec<u32> = expected.into_iter().map(|(_, id)| id).collect();
            prop_assert_eq!(ids_by_time(pairs.iter().copied(), pairs.len()), expected);
        }
    }
}
