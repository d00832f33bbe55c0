//! What this machine can do: multiply-adds in registers, and bytes from cache and memory.

use std::hint::black_box;
use std::time::Instant;

use pulp::{Arch, Simd, WithSimd};

use super::repeats::{Estimate, TRUSTED};

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
    /// How far the repeats of the least certain of these are apart, as a share of it.
    spread: f64,
}

impl Machine {
    /// Measures for a few seconds.
    pub fn measured(threads: usize) -> Self {
        let ((one, lanes), (all, _)) = (peak(1), peak(threads));
        let [cached, streamed] = [CACHED, STREAMED].map(|size| triad(size, threads));
        let spread = [one, all, cached, streamed].iter().map(|speed| speed.spread).fold(0.0, f64::max);
        Self { flops: [one.value, all.value], lanes, bytes: [cached.value, streamed.value], spread }
    }

    /// Says what was measured.
    pub fn print(&self) {
        let [one, all, cached, streamed] =
            [self.flops[0], self.flops[1], self.bytes[0], self.bytes[1]].map(|x| x / 1e9);
        println!(
            "this machine: {one:.0} GFLOP/s on one thread, {all:.0} on all ({} numbers of f32 per register{}); \
             {cached:.0} GB/s in 12 MB, {streamed:.0} in 200 MB",
            self.lanes,
            if self.has_wider() { ", though the CPU has 16" } else { "" },
        );
        if self.spread > TRUSTED {
            println!(
                "the machine is not quiet: repeats differ by {:.0} %; no bound is to be trusted",
                100.0 * self.spread
            );
        }
    }

    /// Whether the CPU has wider registers than the program was compiled to use.
    fn has_wider(&self) -> bool {
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

/// The best of several tries.
fn best(mut seconds: impl FnMut() -> f64) -> Estimate {
    let tries: Vec<f64> = (0..TRIES).map(|_| seconds()).collect();
    Estimate::best(&tries).expect("a clock that moves")
}

/// Work per second.
fn speed(work: f64, seconds: Estimate) -> Estimate {
    Estimate { value: work / seconds.value, ..seconds }
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
fn peak(threads: usize) -> (Estimate, usize) {
    const ROUNDS: usize = 10_000_000;
    let arch = Arch::new();
    let mut lanes = vec![0usize; threads];
    let best = best(|| seconds(&mut lanes, |lanes| *lanes = arch.dispatch(Chains(ROUNDS))));
    (speed((2 * CHAINS * ROUNDS * lanes.iter().sum::<usize>()) as f64, best), lanes[0])
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

/// Returns bytes a second over arrays of `size` bytes; what a CPU reads before it writes is not counted.
fn triad(size: usize, threads: usize) -> Estimate {
    let (length, rounds) = (size / 12 / threads, 3_000_000_000 / size);
    let mut arrays: Vec<_> = (0..threads).map(|_| [1.0, 2.0, 3.0].map(|x| vec![x; length])).collect();
    let arch = Arch::new();
    let best = best(|| seconds(&mut arrays, |arrays| arch.dispatch(Triad { arrays, rounds })));
    speed((12 * length * threads * rounds) as f64, best)
}
