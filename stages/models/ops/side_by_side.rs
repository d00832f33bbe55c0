//! Lanes side by side: what a product with a graph or with eigenvectors wants, so that one pass over either serves all.
//!
//! lanes × rows × columns becomes rows × (lanes · columns) with padded rows, and back.

use rayon::prelude::*;

use crate::math::kernels::{copy_strided, padded};
use crate::tensor::slices::Element;

/// Rows that one task copies.
const ROWS: usize = 512;

/// How lanes of several tensors stand side by side.
#[derive(Clone, Copy)]
pub(crate) struct SideBySide {
    pub lanes: usize,
    pub rows: usize,
    pub columns: usize,
}

impl SideBySide {
    /// Returns the values of a padded row that holds `count` tensors.
    pub fn width(self, count: usize) -> usize {
        padded(count * self.lanes * self.columns)
    }

    /// Puts the lanes of all tensors side by side.
    pub fn join<T: Element>(self, tensors: &[&[T]]) -> Vec<T> {
        let Self { rows, columns, .. } = self;
        let width = self.width(tensors.len());
        let mut out = vec![T::default(); rows * width];
        if columns > 0 {
            let lanes: Vec<&[T]> = tensors.iter().flat_map(|t| t.chunks_exact(rows * columns)).collect();
            out.par_chunks_mut((ROWS * width).max(1)).enumerate().for_each(|(task, out)| {
                for (i, out) in out.chunks_exact_mut(width).enumerate() {
                    spread_row(&lanes, (task * ROWS + i) * columns, columns, out);
                }
            });
        }
        out
    }

    /// Takes tensor number `index` of `count` out of a joined one.
    pub fn part<T: Element>(self, joined: &[T], index: usize, count: usize) -> Vec<T> {
        let Self { lanes, rows, columns } = self;
        let width = self.width(count);
        let mut out = vec![T::default(); lanes * rows * columns];
        if columns > 0 {
            out.par_chunks_mut((rows * columns).max(1)).enumerate().for_each(|(lane, out)| {
                let first = (index * lanes + lane) * columns;
                copy_strided((&joined[first..], width), (out, columns), columns, rows);
            });
        }
        out
    }

    /// Spreads numbers of a lane over its columns: a padded row, the same for all tensors.
    pub fn spread<T: Element>(self, of_lane: impl Fn(usize) -> T, count: usize) -> Vec<T> {
        let mut row = vec![T::default(); self.width(count)];
        for (i, values) in row.chunks_exact_mut(self.columns.max(1)).take(count * self.lanes).enumerate() {
            values.fill(of_lane(i % self.lanes));
        }
        row
    }
}

/// Copies `columns` values of every lane, from `at` on, into one row. A few values are copied as one block of fixed size:
/// what is too much of a lane is overwritten by the next.
fn spread_row<T: Element>(lanes: &[&[T]], at: usize, columns: usize, out: &mut [T]) {
    for (lane, from) in lanes.iter().enumerate() {
        let (from, to) = (&from[at..], &mut out[lane * columns..]);
        match (from.first_chunk::<8>(), to.first_chunk_mut::<8>()) {
            (Some(from), Some(to)) if columns <= 8 && lane + 1 < lanes.len() => *to = *from,
            _ => to[..columns].copy_from_slice(&from[..columns]),
        }
    }
}
