//! What this machine can do: multiply-adds in registers, and bytes from cache and memory.

use std::hint::black_box;
use std::time::Instant;

use pulp::{Arch, Simd, WithSimd};

/// Sums that do not wait for each other: more than the latency of a multiply-add times the units for it, and few enough
/// for sixteen registers.
const CHAINS: usize = 12;
/// Bytes of the three arrays together: more than a core's own cache and less than the shared one; more than most caches.
const CACHED: usize = 12_000_000;
const STREAMED: usize = 200_000_000;
/// The best of this many counts.
const TRIES: usize = 5;

/// Measured limits.
pub struct Machine {
    /// Single-precision operations a second on one thread, and on all.
    pub flops: [f64; 2],
    /// Single-precision numbers of a register.
    pub lanes: usize,
    /// Bytes a second on all threads: 12 MB again and again, and 200 MB.
    pub bytes: [f64; 2],
}

impl Machine {
    /// Measures for a few seconds.
    pub fn measured(threads: usize) -> Self {
        let (one, lanes) = peak(1);
        let bytes = [CACHED, STREAMED].map(|size| triad(size, threads));
        Self { flops: [one, peak(threads).0], lanes, bytes }
    }

    /// Whether the processor has wider registers than the program was compiled to use.
    pub fn has_wider(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.lanes < 16 && std::arch::is_x86_feature_detected!("avx512f");
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }
}

/// Seconds that `work` takes on every one of `items` at once.
fn seconds<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Sync) -> f64 {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for item in items {
            scope.spawn(|| work(item));
        }
    });
    begun.elapsed().as_secs_f64()
}

/// Multiply-adds that never leave the registers; returns the numbers of a register.
struct Chains(usize);

impl WithSimd for Chains {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        let (factor, term) = (simd.splat_f32s(black_box(0.999)), simd.splat_f32s(black_box(1e-3)));
        let mut sums = [simd.splat_f32s(1.0); CHAINS];
        for _ in 0..self.0 {
            for sum in &mut sums {
                *sum = simd.mul_add_f32s(*sum, factor, term);
            }
        }
        black_box(sums.map(|sum| simd.reduce_sum_f32s(sum)));
        S::F32_LANES
    }
}

/// Returns operations a second, and the numbers of a register.
fn peak(threads: usize) -> (f64, usize) {
    const ROUNDS: usize = 10_000_000;
    let arch = Arch::new();
    let mut lanes = vec![0usize; threads];
    let best = (0..TRIES)
        .map(|_| seconds(&mut lanes, |lanes| *lanes = arch.dispatch(Chains(ROUNDS))))
        .fold(f64::INFINITY, f64::min);
    ((2 * CHAINS * ROUNDS * lanes.iter().sum::<usize>()) as f64 / best, lanes[0])
}

/// a ← b + ½ c, again and again.
struct Triad<'a> {
    arrays: &'a mut [Vec<f32>; 3],
    rounds: usize,
}

impl WithSimd for Triad<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let [a, b, c] = self.arrays;
        for _ in 0..self.rounds {
            for ((a, b), c) in a.iter_mut().zip(&*b).zip(&*c) {
                *a = b + 0.5 * c;
            }
            black_box(&mut *a);
        }
    }
}

/// Returns bytes a second over arrays of `size` bytes; what a processor reads before it writes is not counted.
fn triad(size: usize, threads: usize) -> f64 {
    let (length, rounds) = (size / 12 / threads, 3_000_000_000 / size);
    let mut arrays: Vec<_> = (0..threads).map(|_| [1.0, 2.0, 3.0].map(|x| vec![x; length])).collect();
    let arch = Arch::new();
    let best = (0..TRIES)
        .map(|_| seconds(&mut arrays, |arrays| arch.dispatch(Triad { arrays, rounds })))
        .fold(f64::INFINITY, f64::min);
    (12 * length * threads * rounds) as f64 / best
}
