//! Registers full of either float type, as wide as the machine has them.
//!
//! Kernels are written once for both types: single precision trains, double precision checks gradients. All of them sum
//! in an order that follows from the data alone, one entry of a result in one register lane, so the width of the
//! registers, the number of threads and the other columns change no byte.

use std::ops::Range;

use bytemuck::Pod;
use pulp::{Arch, Simd, WithSimd};

use crate::math::real::Real;

/// Values that every kernel handles at once: a row of a padded matrix is a multiple of it. The widest registers hold as
/// many single-precision values.
pub const BLOCK: usize = 16;

/// Rounds up to whole blocks.
pub const fn padded(columns: usize) -> usize {
    columns.next_multiple_of(BLOCK)
}

/// Copies rows of `columns` values into padded rows; the padding of `out` is set to zero.
pub fn pad_rows<T: Copy + Default>(rows: &[T], columns: usize, out: &mut [T]) {
    let wide = padded(columns).max(1);
    if wide == columns {
        out[..rows.len()].copy_from_slice(rows);
        return;
    }
    for (row, out) in rows.chunks_exact(columns.max(1)).zip(out.chunks_exact_mut(wide)) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = if i < columns { row[i] } else { T::default() };
        }
    }
}

/// Returns rows of `columns` values as padded rows.
pub fn with_padding<T: Copy + Default>(rows: &[T], columns: usize) -> Vec<T> {
    let mut out = vec![T::default(); rows.len() / columns.max(1) * padded(columns)];
    pad_rows(rows, columns, &mut out);
    out
}

/// Returns the first `count` of padded rows as rows of `columns` values.
pub fn without_padding<T: Copy + Default>(rows: &[T], columns: usize, count: usize) -> Vec<T> {
    let mut out = vec![T::default(); count * columns];
    unpad_rows(rows, columns, &mut out);
    out
}

/// Returns the transpose of rows of `columns` values, with padded rows.
pub fn pad_transposed<T: Copy + Default>(rows: &[T], columns: usize) -> Vec<T> {
    let wide = padded(rows.len() / columns.max(1));
    let mut out = vec![T::default(); columns * wide];
    for (i, row) in rows.chunks_exact(columns.max(1)).enumerate() {
        row.iter().enumerate().for_each(|(j, x)| out[j * wide + i] = *x);
    }
    out
}

/// Copies padded rows back into rows of `columns` values.
pub fn unpad_rows<T: Copy>(rows: &[T], columns: usize, out: &mut [T]) {
    let wide = padded(columns).max(1);
    if wide == columns {
        out.copy_from_slice(&rows[..out.len()]);
        return;
    }
    let count = out.len() / columns.max(1);
    copy_strided((rows, wide), (out, columns), columns, count);
}

/// Copies the first `columns` values of `rows` rows, from and to values whose rows start that many values apart.
///
/// A few values are copied as one block of fixed size, which takes an instruction or two: values beyond the end of a
/// row are overwritten by the next row. Rows of `to` must therefore be copied in order, and lie within it.
pub fn copy_strided<T: Copy>(
    (from, from_stride): (&[T], usize),
    (to, to_stride): (&mut [T], usize),
    columns: usize,
    rows: usize,
) {
    let whole = match columns {
        0 => return,
        1..=8 if to_stride == columns => copy_blocks::<T, 8>((from, from_stride), (to, to_stride), rows),
        9..=16 if to_stride == columns => copy_blocks::<T, 16>((from, from_stride), (to, to_stride), rows),
        _ => 0,
    };
    for row in whole..rows {
        let (f, t) = (row * from_stride, row * to_stride);
        to[t..t + columns].copy_from_slice(&from[f..f + columns]);
    }
}

/// Copies a block for every row that has room for one, and returns how many have: those at the end have none.
fn copy_blocks<T: Copy, const N: usize>(
    (from, from_stride): (&[T], usize),
    (to, to_stride): (&mut [T], usize),
    rows: usize,
) -> usize {
    let fits = |length: usize, stride: usize| length.checked_sub(N).map_or(0, |last| last / stride.max(1) + 1);
    let whole = rows.min(fits(from.len(), from_stride)).min(fits(to.len(), to_stride));
    for row in 0..whole {
        let (f, t) = (row * from_stride, row * to_stride);
        if let (Some(from), Some(to)) = (from[f..].first_chunk::<N>(), to[t..].first_chunk_mut::<N>()) {
            *to = *from;
        }
    }
    whole
}

/// A float type with its registers.
pub trait Vector: Real + Pod {
    /// A full register.
    type Of<S: Simd>: Copy + Pod;
    /// The same value everywhere.
    fn splat<S: Simd>(simd: S, value: Self) -> Self::Of<S>;
    /// a·b + c.
    fn fused<S: Simd>(simd: S, a: Self::Of<S>, b: Self::Of<S>, c: Self::Of<S>) -> Self::Of<S>;
    /// Reads registers from values; what does not fill one is left out.
    fn cut<S: Simd>(values: &[Self]) -> &[Self::Of<S>];
    /// Writes registers to values; what does not fill one is left out.
    fn cut_mut<S: Simd>(values: &mut [Self]) -> &mut [Self::Of<S>];
}

macro_rules! vector {
    ($float:ty, $registers:ident, $splat:ident, $fused:ident, $cut:ident, $cut_mut:ident) => {
        impl Vector for $float {
            type Of<S: Simd> = S::$registers;
            #[inline(always)]
            fn splat<S: Simd>(simd: S, value: Self) -> S::$registers {
                simd.$splat(value)
            }
            #[inline(always)]
            fn fused<S: Simd>(simd: S, a: S::$registers, b: S::$registers, c: S::$registers) -> S::$registers {
                simd.$fused(a, b, c)
            }
            #[inline(always)]
            fn cut<S: Simd>(values: &[Self]) -> &[S::$registers] {
                S::$cut(values).0
            }
            #[inline(always)]
            fn cut_mut<S: Simd>(values: &mut [Self]) -> &mut [S::$registers] {
                S::$cut_mut(values).0
            }
        }
    };
}

vector!(f32, f32s, splat_f32s, mul_add_e_f32s, as_simd_f32s, as_mut_simd_f32s);
vector!(f64, f64s, splat_f64s, mul_add_e_f64s, as_simd_f64s, as_mut_simd_f64s);

/// A kernel that treats a row `N` registers at a time. Implementations are always inlined.
pub(super) trait ByRegisters {
    /// What its rows are made of.
    type Value: Vector;

    /// Computes registers `first..first + N` of `row`, the `i`-th of the rows in work.
    fn part<S: Simd, const N: usize>(&mut self, simd: S, i: usize, row: usize, first: usize);
}

/// Visits `rows` of `width` values each. A row is cut into as few parts as its sums leave room for in the registers, of about
/// equal width: whatever a part looks up for itself (entries, weights) is looked up once per part.
pub(super) fn by_registers(kernel: impl ByRegisters, rows: Range<usize>, width: usize) {
    Arch::new().dispatch(Visit { kernel, rows, width });
}

struct Visit<K> {
    kernel: K,
    rows: Range<usize>,
    width: usize,
}

impl<K: ByRegisters> WithSimd for Visit<K> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let registers = self.width * size_of::<K::Value>() / size_of::<<K::Value as Vector>::Of<S>>();
        let most = if S::REGISTER_COUNT >= 32 { 8 } else { 4 };
        let share = registers.div_ceil(registers.div_ceil(most).max(1));
        for (i, row) in self.rows.enumerate() {
            for first in (0..registers).step_by(share.max(1)) {
                match share.min(registers - first) {
                    1 => self.kernel.part::<S, 1>(simd, i, row, first),
                    2 => self.kernel.part::<S, 2>(simd, i, row, first),
                    3 => self.kernel.part::<S, 3>(simd, i, row, first),
                    4 => self.kernel.part::<S, 4>(simd, i, row, first),
                    5 => self.kernel.part::<S, 5>(simd, i, row, first),
                    6 => self.kernel.part::<S, 6>(simd, i, row, first),
                    7 => self.kernel.part::<S, 7>(simd, i, row, first),
                    _ => self.kernel.part::<S, 8>(simd, i, row, first),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_from_their_padding_for_every_width_and_number() {
        for columns in 1..40 {
            for rows in [0, 1, 2, 5] {
                let values: Vec<usize> = (1..=rows * columns).collect();
                let mut wide = vec![usize::MAX; rows * padded(columns)];
                pad_rows(&values, columns, &mut wide);
                for (i, row) in wide.chunks_exact(padded(columns)).enumerate() {
                    assert_eq!(row[..columns], values[i * columns..(i + 1) * columns]);
                    assert!(row[columns..].iter().all(|x| *x == 0), "padding is zero");
                }
                let mut back = vec![0; values.len()];
                unpad_rows(&wide, columns, &mut back);
                assert_eq!(back, values);
            }
        }
    }

    #[test]
    fn strided_copies_touch_nothing_else() {
        for columns in [1, 3, 8, 9, 16, 17] {
            for (from_stride, to_stride) in [(columns, columns), (columns + 5, columns), (columns, columns + 3)] {
                let rows = 4;
                // As tight as it may be: the last row ends where the memory ends.
                let from: Vec<usize> = (1..=(rows - 1) * from_stride + columns).collect();
                let mut to = vec![0; (rows - 1) * to_stride + columns];
                copy_strided((&from, from_stride), (&mut to, to_stride), columns, rows);
                for (at, x) in to.iter().enumerate() {
                    let (row, column) = (at / to_stride, at % to_stride);
                    let expected = if column < columns { from[row * from_stride + column] } else { 0 };
                    assert_eq!(*x, expected, "{columns} columns, {from_stride} to {to_stride}");
                }
            }
        }
    }
}
