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

/// Where a stream stands: what is needed to draw what comes next, besides its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// 32-bit words drawn so far.
    pub words: u128,
    /// The second of two normal numbers, which are made together.
    pub spare_normal: Option<f64>,
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

    /// Returns where the stream stands.
    pub fn position(&self) -> Position {
        Position { words: self.rng.get_word_pos(), spare_normal: self.spare_normal }
    }

    /// Goes to a position of a stream of the same name.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.rng.set_word_pos(position.words);
        self.spare_normal = position.spare_normal;
        self
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_goes_on_from_any_position() {
        let open = || Stream::new(7, &["testing"]);
        // Words are made in blocks; positions inside one, at its end, and between two normal numbers.
        for drawn in [0, 1, 2, 63, 64, 65, 127, 200] {
            for normals in [0, 1, 2] {
                let mut stream = open();
                (0..drawn).for_each(|_| {
                    stream.bits();
                });
                (0..normals).for_each(|_| {
                    stream.normal();
                });
                let mut again = open().at(stream.position());
                assert_eq!(again.position(), stream.position());
                for _ in 0..100 {
                    assert_eq!(again.normal().to_bits(), stream.normal().to_bits(), "{drawn} words, {normals} normals");
                    assert_eq!((again.bits(), again.below(10)), (stream.bits(), stream.below(10)));
                }
            }
        }
    }
}
