//! Random numbers from named, seeded streams.
//!
//! A stream is named by a seed and a purpose, so a draw added for one purpose never shifts another, and the same name
//! gives the same numbers on every machine: ChaCha8 keyed by a hash of the name, and conversions of our own, because
//! those of the usual crates may change between versions.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A sequence of random numbers that depends on nothing but its name.
pub struct Stream {
    rng: ChaCha8Rng,
    spare_normal: Option<f64>,
}

impl Stream {
    /// Opens the stream of `seed` for a purpose, such as `&["split", "3"]`.
    pub fn new(seed: u64, purpose: &[&str]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("ppgnn random stream 1");
        hasher.update(&seed.to_le_bytes());
        for word in purpose {
            hasher.update(&(word.len() as u64).to_le_bytes());
            hasher.update(word.as_bytes());
        }
        Self { rng: ChaCha8Rng::from_seed(*hasher.finalize().as_bytes()), spare_normal: None }
    }

    /// Draws 32 random bits.
    pub fn bits(&mut self) -> u32 {
        self.rng.next_u32()
    }

    /// Draws uniformly from [0, 1) with 53 bits.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub fn uniform(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws uniformly from [−r, r).
    pub fn symmetric(&mut self, r: f64) -> f64 {
        (2.0 * self.uniform() - 1.0) * r
    }

    /// Draws from the standard normal distribution (Marsaglia's polar method).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare_normal.take() {
            return spare;
        }
        loop {
            let (u, v) = (self.symmetric(1.0), self.symmetric(1.0));
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                let scale = (-2.0 * s.ln() / s).sqrt();
                self.spare_normal = Some(v * scale);
                return u * scale;
            }
        }
    }

    /// Draws a whole number below `bound` without bias (rejection); 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let draw = self.rng.next_u64();
            if draw < limit {
                return draw % bound;
            }
        }
    }

    /// Shuffles in place (Fisher–Yates).
    #[expect(clippy::cast_possible_truncation, reason = "an index below the length")]
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i as u64 + 1) as usize;
            items.swap(i, j);
        }
    }
}
