//! The numbers of Python's `random` module, bit for bit, where published splits were drawn with it.
//!
//! `random.seed(s)` seeds a Mersenne Twister (MT19937) by the array of the 32-bit words of s, lowest first and without
//! leading zeros. A whole number below n takes the top k bits of an output, k the bit length of n, until it is small
//! enough. `random.shuffle` swaps every entry, from the last to the second, with one at or before it. None of this has
//! changed since Python 3.2.
//!
//! For new draws there is [`super::random::Stream`].

use rand_mt::Mt;

/// Python's generator after `random.seed`.
pub struct PythonRandom(Mt);

impl PythonRandom {
    /// What `random.seed(seed)` makes.
    pub fn new(seed: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves of the seed")]
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let words = [low, high];
        let used = if high == 0 { &words[..1] } else { &words };
        Self(Mt::new_with_key(used.iter().copied()))
    }

    /// Draws a whole number below `n` as `random.randrange(n)` does; 0 if `n` is 0.
    pub fn below(&mut self, n: u32) -> u32 {
        if n == 0 {
            return 0;
        }
        loop {
            let drawn = self.0.next_u32() >> n.leading_zeros();
            if drawn < n {
                return drawn;
            }
        }
    }

    /// Shuffles as `random.shuffle` does. Entries beyond the first 2³² − 1 stay where they are.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        let last = u32::try_from(items.len()).unwrap_or(u32::MAX).saturating_sub(1);
        for i in (1..=last).rev() {
            items.swap(i as usize, self.below(i + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Expected numbers, with Python 3.11:
    //
    //   import random
    //   for seed in (0, 1, 12345, 2**32, 2**40 + 7, 2**64 - 1):
    //       random.seed(seed); print([random.randrange(n) for n in (1, 2, 3, 10, 1000, 2**31, 2**32 - 1)])
    //       random.seed(seed); v = list(range(12)); random.shuffle(v); print(v)
    //   random.seed(5); v = list(range(2000)); random.shuffle(v); print(sum((i + 1) * x for i, x in enumerate(v)))

    type Case = (u64, [u32; 7], [u8; 12]);

    const CASES: [Case; 6] = [
        (0, [0, 1, 0, 4, 988, 2_087_043_557, 1_739_178_872], [1, 9, 8, 5, 10, 2, 3, 7, 4, 0, 11, 6]),
        (1, [0, 0, 1, 1, 507, 1_930_549_411, 2_028_277_857], [7, 11, 0, 8, 5, 6, 3, 10, 4, 1, 9, 2]),
        (12345, [0, 0, 1, 5, 954, 831_769_172, 1_160_692_746], [11, 10, 8, 1, 7, 9, 2, 3, 5, 4, 0, 6]),
        (1 << 32, [0, 1, 1, 0, 23, 1_423_829_729, 3_598_510_188], [11, 10, 7, 3, 9, 2, 4, 8, 0, 6, 5, 1]),
        ((1 << 40) + 7, [0, 1, 2, 2, 529, 1_611_772_094, 2_239_120_350], [0, 5, 2, 3, 6, 1, 8, 4, 7, 11, 10, 9]),
        (u64::MAX, [0, 0, 1, 9, 217, 1_958_779_474, 2_641_946_051], [1, 8, 6, 9, 2, 11, 4, 7, 10, 5, 3, 0]),
    ];

    #[test]
    fn draws_and_shuffles_are_those_of_python() {
        for (seed, drawn, shuffled) in CASES {
            let mut random = PythonRandom::new(seed);
            assert_eq!([1, 2, 3, 10, 1000, 1 << 31, u32::MAX].map(|n| random.below(n)), drawn, "{seed}");
            let mut items: Vec<u8> = (0..12).collect();
            PythonRandom::new(seed).shuffle(&mut items);
            assert_eq!(items, shuffled, "{seed}");
        }
    }

    #[test]
    fn long_and_empty_lists_are_shuffled_too() {
        let mut random = PythonRandom::new(5);
        random.shuffle::<u8>(&mut []);
        random.shuffle(&mut [1]);
        assert_eq!(random.below(0), 0);
        // None of these has drawn a number.
        let mut items: Vec<u64> = (0..2000).collect();
        random.shuffle(&mut items);
        assert_eq!((1..).zip(&items).map(|(i, x)| i * x).sum::<u64>(), 2_006_174_753);
        assert_eq!(items[..5], [764, 4, 1034, 1755, 1408]);
    }
}
