//! Sizes of a tensor of lanes, and what is made row by row.

use rayon::prelude::*;

use super::sided::Sided;
use crate::tensor::slices::Element;

/// Rows that one task makes.
const RANGE: usize = 256;

/// lanes × rows × columns.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub lanes: usize,
    pub rows: usize,
    pub columns: usize,
}

impl Sizes {
    /// Those of a tensor of three dimensions.
    pub fn of(x: &Sided) -> Self {
        let dims = x.dims();
        Self { lanes: dims[0], rows: dims[1], columns: dims[2] }
    }

    /// Values of one lane.
    pub fn lane(self) -> usize {
        (self.rows * self.columns).max(1)
    }

    /// Makes a tensor row by row: `row` gets the place of its first entry, and its lane.
    pub fn rows<T: Element>(self, row: impl Fn(usize, usize, &mut [T]) + Sync) -> Vec<T> {
        let Self { lanes, rows, columns } = self;
        let mut out = vec![T::default(); lanes * rows * columns];
        out.par_chunks_mut((RANGE * columns).max(1)).enumerate().for_each(|(task, out)| {
            for (i, out) in out.chunks_exact_mut(columns.max(1)).enumerate() {
                let at = task * RANGE + i;
                row(at * columns, at / rows.max(1), out);
            }
        });
        out
    }

    /// Copies a tensor and changes some rows of a lane at a time: `change` gets the place of their first entry, and the lane.
    pub fn pieces<T: Element>(self, x: &[T], change: impl Fn(usize, usize, &mut [T]) + Sync) -> Vec<T> {
        let mut out = x.to_vec();
        let (lane, piece) = (self.lane(), (RANGE * self.columns).max(1));
        out.par_chunks_mut(lane).enumerate().for_each(|(i, out)| {
            let pieces = out.par_chunks_mut(piece).enumerate();
            pieces.for_each(|(at, out)| change(i * lane + at * piece, i, out));
        });
        out
    }

    /// X ⊙ s with a factor for every row of every lane.
    pub fn scaled<T: Element>(self, x: &[T], s: &[T]) -> Vec<T> {
        self.rows(|at, _, out| {
            let s = s[at / self.columns.max(1)];
            out.iter_mut().zip(&x[at..]).for_each(|(out, x)| *out = *x * s);
        })
    }
}
