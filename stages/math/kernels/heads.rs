//! Rows of several heads: inner products and weighted sums along the entries of a sparse pattern, with a number per head.
//!
//! The values of a feature stand beside each other, one per head: a row is features × heads. So a register holds values of all heads,
//! an inner product by head is a sum of products of registers, and a weight per head multiplies them as they are. A block of 16 values
//! has 16 / side features, where `side` is the number of heads, rounded up to 1, 8 or 16: code is compiled for each, and most published
//! models have 8 or 1. More than 16 heads are groups of 16.

use std::array;
use std::ops::Range;

use pulp::Arch;

use super::simd::{BLOCK, Vector, unpad_rows, with_padding};

/// Runs code for a number of heads that the compiler knows: 1, 8 or 16.
macro_rules! by_side {
    ($side:expr, $heads:ident => $body:expr) => {
        match $side {
            1 => {
                const $heads: usize = 1;
                $body
            }
            8 => {
                const $heads: usize = 8;
                $body
            }
            _ => {
                const $heads: usize = 16;
                $body
            }
        }
    };
}
pub(super) use by_side;

/// The heads of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// How many there are.
    pub count: usize,
    /// Values of each.
    pub features: usize,
}

impl Heads {
    /// Returns how many heads of a group stand beside each other, some of them for nothing.
    pub fn side(self) -> usize {
        match self.count {
            0 | 1 => 1,
            2..=8 => 8,
            _ => BLOCK,
        }
    }

    /// Returns how many groups of heads there are.
    pub fn groups(self) -> usize {
        self.count.div_ceil(BLOCK)
    }

    /// Returns the values of a row of one group, in whole blocks.
    pub fn width(self) -> usize {
        (self.features * self.side()).next_multiple_of(BLOCK)
    }

    /// Returns whether rows stand in memory as the kernels take them.
    pub fn is_packed(self) -> bool {
        self.groups() == 1 && self.features * self.count == self.width()
    }

    /// The heads of a group.
    fn of_group(self, group: usize) -> Range<usize> {
        group * BLOCK..self.count.min((group + 1) * BLOCK)
    }

    /// Returns whether rows of the one group there is differ from packed ones by what follows them alone.
    fn is_joined(self) -> bool {
        self.count == self.side()
    }

    /// Returns the rows of a group as the kernels take them; what is there for nothing is zero.
    pub fn pack<T: Vector>(self, rows: &[T], group: usize) -> Vec<T> {
        let (heads, columns, width) = (self.of_group(group), self.features * self.count, self.width());
        if self.is_joined() {
            return with_padding(rows, columns);
        }
        let mut out = vec![T::default(); rows.len() / columns.max(1) * width];
        for (row, out) in rows.chunks_exact(columns.max(1)).zip(out.chunks_exact_mut(width.max(1))) {
            for (row, out) in row.chunks_exact(self.count).zip(out.chunks_exact_mut(self.side())) {
                out[..heads.len()].copy_from_slice(&row[heads.clone()]);
            }
        }
        out
    }

    /// Writes the rows of a group to where they belong.
    pub fn unpack<T: Vector>(self, packed: &[T], group: usize, rows: &mut [T]) {
        let (heads, columns) = (self.of_group(group), self.features * self.count);
        if self.is_joined() {
            return unpad_rows(packed, columns, rows);
        }
        let packed = packed.chunks_exact(self.width().max(1));
        for (row, packed) in rows.chunks_exact_mut(columns.max(1)).zip(packed) {
            for (row, packed) in row.chunks_exact_mut(self.count).zip(packed.chunks_exact(self.side())) {
                row[heads.clone()].copy_from_slice(&packed[..heads.len()]);
            }
        }
    }

    /// The share of one head in a mean.
    fn share<T: Vector>(self) -> T {
        #[expect(clippy::cast_precision_loss, reason = "a few heads")]
        T::narrow(1.0 / self.count.max(1) as f64)
    }

    /// Returns rows with a number per feature as packed ones: every head has its share of it, those that are there for nothing as well.
    pub fn spread<T: Vector>(self, rows: &[T]) -> Vec<T> {
        let (share, features, width) = (self.share::<T>(), self.features.max(1), self.width().max(1));
        let mut out = vec![T::default(); rows.len() / features * width];
        by_side!(self.side(), H => for (row, out) in rows.chunks_exact(features).zip(out.chunks_exact_mut(width)) {
            row.iter().zip(out.as_chunks_mut::<H>().0).for_each(|(x, out)| *out = [*x * share; H]);
        });
        out
    }

    /// Adds to every feature the share that a group has in the mean over all heads; what is there for nothing must be zero.
    pub fn add_share<T: Vector>(self, packed: &[T], rows: &mut [T]) {
        let (share, features, width) = (self.share::<T>(), self.features.max(1), self.width().max(1));
        by_side!(self.side(), H => for (row, packed) in rows.chunks_exact_mut(features).zip(packed.chunks_exact(width)) {
            for (x, packed) in row.iter_mut().zip(packed.as_chunks::<H>().0) {
                *x += folded::<T, H, 1>(*packed)[0] * share;
            }
        });
    }
}

/// Which entries there are: those of row i stand at `indptr[i]..indptr[i + 1]`.
#[derive(Clone, Copy)]
pub struct Pattern<'a> {
    /// Where rows begin, and the end of the last.
    pub indptr: &'a [u64],
    /// Column of every entry.
    pub indices: &'a [u32],
}

impl<'a> Pattern<'a> {
    /// Returns where the entries of some rows stand.
    #[expect(clippy::cast_possible_truncation, reason = "row starts index a slice in memory")]
    #[inline(always)]
    pub fn entries(self, rows: Range<usize>) -> Range<usize> {
        self.indptr[rows.start] as usize..self.indptr[rows.end.max(rows.start)] as usize
    }

    #[inline(always)]
    fn row(self, i: usize) -> &'a [u32] {
        &self.indices[self.entries(i..i + 1)]
    }
}

/// Writes ⟨row i of X, row j of Y⟩ by head for all entries (i, j) of `rows`, in their order: entries × side.
pub fn dots<T: Vector>(of: Pattern, rows: Range<usize>, heads: Heads, x: &[T], y: &[T], out: &mut [T]) {
    let width = heads.width();
    by_side!(heads.side(), H => Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut out = out.as_chunks_mut::<H>().0.iter_mut();
            for i in rows {
                let x = &x[i * width..(i + 1) * width];
                for (j, out) in of.row(i).iter().zip(out.by_ref()) {
                    *out = dot::<T, H>(x, &y[*j as usize * width..][..width]);
                }
            }
        },
    ));
}

/// Returns the inner product of two rows, in whole blocks, by head.
#[inline(always)]
pub(super) fn dot<T: Vector, const H: usize>(x: &[T], y: &[T]) -> [T; H] {
    let mut sums = [T::default(); BLOCK];
    for (x, y) in x.as_chunks::<BLOCK>().0.iter().zip(y.as_chunks::<BLOCK>().0) {
        sums = array::from_fn(|at| sums[at] + x[at] * y[at]);
    }
    folded(sums)
}

/// Adds `M` numbers that stand `H` apart, in pairs.
#[inline(always)]
fn folded<T: Vector, const M: usize, const H: usize>(mut numbers: [T; M]) -> [T; H] {
    let mut size = M;
    while size > H {
        size /= 2;
        for at in 0..size {
            numbers[at] += numbers[at + size];
        }
    }
    array::from_fn(|head| numbers[head])
}

/// Returns the inner product of two rows, in whole blocks.
#[inline(always)]
pub fn whole_dot<T: Vector>(x: &[T], y: &[T]) -> T {
    dot::<T, 1>(x, y)[0]
}

/// A number per head where the values of a block stand.
#[inline(always)]
pub(super) fn over_block<T: Vector, const H: usize>(numbers: &[T; H]) -> [T; BLOCK] {
    array::from_fn(|at| numbers[at % H])
}

/// out ← out + Σ_j w_ij ⊙ Y_j for some rows; `weights`: a number per head for all of their entries, entries × side.
pub fn sums<T: Vector>(of: Pattern, rows: Range<usize>, heads: Heads, weights: &[T], y: &[T], out: &mut [T]) {
    let width = heads.width();
    by_side!(heads.side(), H => Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut rest = weights.as_chunks::<H>().0;
            for (i, out) in rows.zip(out.chunks_exact_mut(width.max(1))) {
                let indices = of.row(i);
                let weights;
                (weights, rest) = rest.split_at(indices.len());
                let out = out.as_chunks_mut::<BLOCK>().0;
                let mut first = 0;
                while first < out.len() {
                    let y = (&y[first * BLOCK..], width);
                    let out = &mut out[first..];
                    // Two at a time: the compiler keeps more in memory and not in registers.
                    first += match out.len() {
                        1 => sum_blocks::<T, H, 1>(indices, weights, y, out),
                        _ => sum_blocks::<T, H, 2>(indices, weights, y, out),
                    };
                }
            }
        },
    ));
}

/// Sums the first `N` blocks of a row in registers, and returns `N`.
#[inline(always)]
fn sum_blocks<T: Vector, const H: usize, const N: usize>(
    indices: &[u32],
    weights: &[[T; H]],
    (y, width): (&[T], usize),
    out: &mut [[T; BLOCK]],
) -> usize {
    let mut sums: [[T; BLOCK]; N] = array::from_fn(|n| out[n]);
    for (j, weight) in indices.iter().zip(weights) {
        let y = y[*j as usize * width..][..N * BLOCK].as_chunks::<BLOCK>().0;
        let weight = over_block(weight);
        for n in 0..N {
            let y = &y[n];
            sums[n] = array::from_fn(|at| sums[n][at] + weight[at] * y[at]);
        }
    }
    out[..N].copy_from_slice(&sums);
    N
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::random::Stream;
    use crate::math::testing::symmetric;

    fn numbers(count: usize, seed: u64) -> Vec<f64> {
        let mut stream = Stream::new(seed, &["test", "heads"]);
        (0..count).map(|_| stream.symmetric(1.0)).collect()
    }

    /// Numbers that fill a side and others, one block and several, more heads than a block has.
    const HEADS: [(usize, usize); 9] = [(1, 1), (1, 40), (2, 3), (3, 5), (8, 8), (8, 7), (5, 30), (16, 2), (37, 3)];

    #[test]
    fn rows_come_back_from_their_packing() {
        for (count, features) in HEADS {
            let heads = Heads { count, features };
            let rows = numbers(4 * count * features, 1);
            let (mut back, mut mean) = (vec![0.0; rows.len()], vec![0.0; 4 * features]);
            for group in 0..heads.groups() {
                let packed = heads.pack(&rows, group);
                assert_eq!(packed.len(), 4 * heads.width());
                heads.unpack(&packed, group, &mut back);
                heads.add_share(&packed, &mut mean);
            }
            assert_eq!(back, rows);
            assert!(!heads.is_packed() || heads.pack(&rows, 0) == rows);
            for (at, mean) in mean.iter().enumerate() {
                let exact: f64 = rows[at * count..(at + 1) * count].iter().sum::<f64>() / count as f64;
                assert!((mean - exact).abs() < 1e-15);
            }
            // Spreading is the transpose of the mean.
            let g = numbers(4 * features, 2);
            let spread = (0..heads.groups()).map(|group| (heads.pack(&rows, group), heads.spread(&g)));
            let found: f64 =
                spread.map(|(rows, spread)| rows.iter().zip(spread).map(|(a, b)| a * b).sum::<f64>()).sum();
            let exact: f64 = mean.iter().zip(&g).map(|(a, b)| a * b).sum();
            assert!((found - exact).abs() < 1e-12);
        }
    }

    #[test]
    fn products_and_sums_are_those_of_every_head() {
        let matrix = symmetric(30, 4, 6);
        let of = Pattern { indptr: &matrix.indptr, indices: &matrix.indices };
        let places: Vec<(usize, usize)> =
            (0..30).flat_map(|i| matrix.row(i).0.iter().map(move |j| (i, *j as usize))).collect();
        for (count, features) in HEADS.into_iter().filter(|(count, _)| *count <= BLOCK) {
            let heads = Heads { count, features };
            let [x, y, start] = [3, 4, 5].map(|seed| numbers(30 * count * features, seed));
            let [packed_x, packed_y] = [&x, &y].map(|x| heads.pack(x, 0));
            for rows in [0..30, 3..17, 29..30] {
                let entries = of.entries(rows.clone());
                let (side, places) = (heads.side(), &places[entries.clone()]);
                let mut found = vec![9.0; entries.len() * side];
                dots(of, rows.clone(), heads, &packed_x, &packed_y, &mut found);
                let weights = numbers(entries.len() * side, 7);
                let mut out = heads.pack(&start[rows.start * count * features..rows.end * count * features], 0);
                sums(of, rows.clone(), heads, &weights, &packed_y, &mut out);
                for head in 0..count {
                    let value = |x: &[f64], i: usize, c: usize| x[(i * features + c) * count + head];
                    for (at, (i, j)) in places.iter().enumerate() {
                        let exact: f64 = (0..features).map(|c| value(&x, *i, c) * value(&y, *j, c)).sum();
                        assert!((found[at * side + head] - exact).abs() < 1e-13, "{heads:?}");
                    }
                    for (i, c) in rows.clone().flat_map(|i| (0..features).map(move |c| (i, c))) {
                        let of_row = places.iter().enumerate().filter(|(_, (row, _))| *row == i);
                        let sum: f64 = of_row.map(|(at, (_, j))| weights[at * side + head] * value(&y, *j, c)).sum();
                        let ours = out[(i - rows.start) * heads.width() + c * side + head];
                        assert!((ours - value(&start, i, c) - sum).abs() < 1e-13, "{heads:?}");
                    }
                }
            }
        }
        assert!(
            (whole_dot(&numbers(32, 1), &numbers(32, 2))
                - numbers(32, 1).iter().zip(numbers(32, 2)).map(|(a, b)| a * b).sum::<f64>())
            .abs()
                < 1e-13
        );
    }
}
