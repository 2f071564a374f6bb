//! Small random number generator for tests: the same numbers for a seed on every machine.
//!
//! The generators must give the same bytes for the same seed on every machine and in every later version of this
//! crate. Therefore this crate has its own generator (SplitMix64; Steele, Lea and Flood, OOPSLA 2014), because one of
//! a dependency could change.

/// Random number generator SplitMix64: 64 bits of state, never repeats within 2^64 draws.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// Create a random number generator with the given seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x9E37_79B9_7F4A_7C15)
    }

    /// Draw 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Draw a random number in `0..n`; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.bits() % n as u64) as usize }
    }

    /// Draw a random number in `low..=high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let width = high.saturating_sub(low).max(0) as u64 + 1;
        low + (self.bits() % width) as i64
    }

    /// Vary `value` randomly by a spread of plus or minus `percent`, for host and device times.
    pub fn jitter(&mut self, value: i64, percent: i64) -> i64 {
        let spread = value * percent / 100;
        self.between(value - spread, value + spread)
    }

    /// Draw a random element of `items`, or `None` if it is empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }

    /// Draw up to `count` different numbers out of `0..n`, ascending.
    pub fn sample(&mut self, n: usize, count: usize) -> Vec<usize> {
        let mut chosen = std::collections::BTreeSet::new();
        while chosen.len() < count.min(n) {
            chosen.insert(self.below(n));
        }
        chosen.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_numbers() {
        let (mut a, mut b, mut c) = (Rng::new(7), Rng::new(7), Rng::new(8));
        let (x, y, z): (Vec<_>, Vec<_>, Vec<_>) = (
            (0..9).map(|_| a.bits()).collect(),
            (0..9).map(|_| b.bits()).collect(),
            (0..9).map(|_| c.bits()).collect(),
        );
        assert_eq!(x, y);
        assert_ne!(x, z);
    }

    #[test]
    fn bounds_hold() {
        let mut rng = Rng::new(1);
        for _ in 0..1000 {
            assert!((-3..=4).contains(&rng.between(-3, 4)));
            assert!(rng.below(5) < 5);
        }
        assert_eq!(rng.sample(10, 4).len(), 4);
        assert_eq!(rng.sample(3, 9), vec![0, 1, 2]);
    }
}
