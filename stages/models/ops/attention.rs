//! Attention: every node sums over the nodes of its entries with weights of several heads, α_ij = softmax over j of LeakyReLU(e_ij).
//!
//! q: nodes × (features · heads), where the values of a feature stand beside each other, one per head. The pattern is that of a symmetric
//! operator, whose values do not matter. Scores by head are mixed, e_ij = a · [q_i ; q_j] σ(⟨q_i, q_j⟩), or scaled, ⟨q_i, q_j⟩ / √features.
//! a · [q_i ; q_j] is a sum of two numbers per node, so nothing has more values than entries × heads.
//!
//! Weights are made for some rows at a time and used while they are in cache; nothing of them is kept. The way back makes them anew. With
//! w = drop(α) and G the gradient of the result, it goes along the rows first: ∂w_ij = ⟨G_i, q_j⟩, and from it ∂s_ij, s_ij = ⟨q_i, q_j⟩,
//! and the gradients of both numbers. Then ∂q_i = Σ_j (∂s_ij + ∂s_ji) q_j + w_ji G_j and what comes through a; entries (j, i) are looked up
//! in the list of mirrors. A row is summed by one task, in the order of its entries.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::masks::{Mask, Masks};
use super::propagate::{Propagator, side_by_side};
use super::sided::{AsTensor, Back, Gradient, Sided, operation};
use crate::math::csr::pieces;
use crate::math::kernels::attention::{Attention, Scores, Slopes, both_scores, mirrored, mirrored_sum, scores_back};
use crate::math::kernels::heads::{Heads, Pattern, dots, sums};
use crate::models::Dropout;
use crate::tensor::slices::{Element, by_float};

/// How the sums of all heads become a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Side by side, as the heads of q stand.
    Join,
    /// Their mean.
    Mean,
}

impl Sided {
    /// Returns Σ_j drop(α_ij) q_j of every lane by head, joined or averaged over `heads`. `vectors` is a of mixed scores, lanes × (2 ·
    /// features) × heads, the part of i first; without it scores are scaled. Masks have an entry for every entry of the operator and head.
    ///
    /// # Errors
    /// When the shapes or types do not fit, or an entry of the operator has no mirror.
    pub fn attend(
        &self,
        operator: &Arc<Propagator>,
        heads: usize,
        vectors: Option<&dyn AsTensor>,
        merge: Merge,
        dropout: Dropout,
    ) -> Result<Self> {
        let masks = dropout.masks(mask_size(operator, heads))?;
        self.attention(operator, heads, vectors.map(AsTensor::tensor).as_ref(), merge, masks)
    }

    pub(super) fn attention(
        &self,
        operator: &Arc<Propagator>,
        heads: usize,
        vectors: Option<&Tensor>,
        merge: Merge,
        masks: Option<Masks>,
    ) -> Result<Self> {
        let shape = side_by_side(operator, self.dims())?;
        let heads = Heads { count: heads, features: shape.columns.checked_div(heads).unwrap_or(0) };
        let fits = |a: &Tensor| a.dims() == [shape.lanes, 2 * heads.features, heads.count];
        if heads.count * heads.features != shape.columns || !vectors.is_none_or(fits) {
            bail!("{heads:?} with vectors of {:?} cannot attend in {:?}", vectors.map(Tensor::dims), self.dims());
        }
        if operator.mirrors().is_none() {
            bail!("an entry of the operator has no mirror");
        }
        on_gpu!(self.main() => {
            let merged = merge == Merge::Mean;
            let heads = super::cuda::Heads { count: heads.count, side: heads.side(), merged };
            super::cuda::attention(operator, heads, self, vectors, masks)
        });
        masks.as_ref().map(|masks| masks.drawn(shape.lanes)).transpose()?;
        let of = Of { operator: operator.clone(), lanes: shape.lanes, heads, merge, masks };
        by_float!(self.dtype(), "attention", T => match vectors {
            Some(a) => of.apply::<T, 1>(self, [a]),
            None => of.apply::<T, 0>(self, []),
        })
    }
}

/// Entries of a mask on the weights of all heads.
pub(super) fn mask_size(operator: &Propagator, heads: usize) -> usize {
    let heads = Heads { count: heads, features: 1 };
    operator.matrix().indices.len() * heads.side() * heads.groups()
}

/// What attention is of, apart from values.
#[derive(Clone)]
struct Of {
    operator: Arc<Propagator>,
    lanes: usize,
    heads: Heads,
    merge: Merge,
    masks: Option<Masks>,
}

impl Of {
    fn apply<T: Element, const M: usize>(self, q: &Sided, vectors: [&Tensor; M]) -> Result<Sided> {
        let again = self.clone();
        let q = if self.masks.is_some() { q.parted() } else { q.clone() };
        operation::<T, _, 1, M>(
            [&q],
            vectors,
            &[self.lanes, self.operator.n(), self.columns()],
            |sides, vectors| {
                // The training side comes first; evaluation drops nothing.
                let side = |(side, [q]): (usize, &[&[T]; 1])| self.sums(q, vectors.first().copied(), side == 0);
                Ok((sides.iter().enumerate().map(side).collect(), ()))
            },
            move |Back { gradient, inputs: [q], weights: vectors, .. }| {
                let (of_q, of_vectors) = again.back(q, vectors.first().copied(), gradient);
                Ok([of_q, of_vectors].into_iter().take(1 + M).map(Gradient::Of).collect())
            },
        )
    }

    /// Columns of the result.
    fn columns(&self) -> usize {
        match self.merge {
            Merge::Join => self.heads.features * self.heads.count,
            Merge::Mean => self.heads.features,
        }
    }

    /// Values of q, of the result and of vectors of one lane.
    fn sizes(&self) -> [usize; 3] {
        let (n, columns) = (self.operator.n(), self.heads.features * self.heads.count);
        [n * columns, n * self.columns(), 2 * columns].map(|size| size.max(1))
    }

    fn sums<T: Element>(&self, q: &[T], vectors: Option<&[T]>, trains: bool) -> Vec<T> {
        let [size, out_size, _] = self.sizes();
        let mut out = vec![T::default(); self.lanes * out_size];
        out.par_chunks_mut(out_size).zip(q.par_chunks(size)).enumerate().for_each(|(lane, (out, q))| {
            for group in 0..self.heads.groups() {
                let part = Part::new(self, (q, self.vectors(vectors, lane)), [lane, group], trains);
                if self.merge == Merge::Join && self.heads.is_packed() {
                    part.sum(out);
                    continue;
                }
                let mut packed = vec![T::default(); part.q.len()];
                part.sum(&mut packed);
                match self.merge {
                    Merge::Join => self.heads.unpack(&packed, group, out),
                    Merge::Mean => self.heads.add_share(&packed, out),
                }
            }
        });
        out
    }

    /// The gradients of q and of vectors.
    fn back<T: Element>(&self, q: &[T], vectors: Option<&[T]>, gradient: &[T]) -> (Vec<T>, Vec<T>) {
        let [size, out_size, both] = self.sizes();
        let mut of_q = vec![T::default(); q.len()];
        let lanes = of_q.par_chunks_mut(size).zip(q.par_chunks(size)).zip(gradient.par_chunks(out_size)).enumerate();
        let of_vectors = lanes.flat_map_iter(|(lane, ((of_q, q), gradient))| {
            let mut of_vectors = vec![T::default(); both];
            for group in 0..self.heads.groups() {
                let part = Part::new(self, (q, self.vectors(vectors, lane)), [lane, group], true);
                let g = match self.merge {
                    Merge::Join => self.packed(gradient, group),
                    Merge::Mean => Cow::Owned(self.heads.spread(gradient)),
                };
                let mut packed = vec![T::default(); part.q.len()];
                let of_both = part.back(&g, &mut packed);
                self.heads.unpack(&packed, group, of_q);
                if vectors.is_some() {
                    self.heads.unpack(&of_both, group, &mut of_vectors);
                }
            }
            of_vectors
        });
        let of_vectors = of_vectors.collect();
        (of_q, of_vectors)
    }

    fn vectors<'v, T>(&self, vectors: Option<&'v [T]>, lane: usize) -> Option<&'v [T]> {
        let [_, _, both] = self.sizes();
        vectors.map(|vectors| &vectors[lane * both..(lane + 1) * both])
    }

    fn packed<'v, T: Element>(&self, rows: &'v [T], group: usize) -> Cow<'v, [T]> {
        if self.heads.is_packed() { Cow::Borrowed(rows) } else { Cow::Owned(self.heads.pack(rows, group)) }
    }
}

/// Attention of one lane and group of heads.
struct Part<'a, T: Element> {
    of: &'a Propagator,
    heads: Heads,
    /// Packed rows.
    q: Cow<'a, [T]>,
    /// Both packed vectors, and l and r of every node, for mixed scores.
    mixed: Option<(Cow<'a, [T]>, Vec<T>)>,
    mask: Option<&'a Mask>,
    /// Where the mask begins.
    first: usize,
}

impl<'a, T: Element> Part<'a, T> {
    fn new(of: &'a Of, (q, vectors): (&'a [T], Option<&'a [T]>), [lane, group]: [usize; 2], trains: bool) -> Self {
        let (heads, operator) = (of.heads, &*of.operator);
        let q = of.packed(q, group);
        let mixed = vectors.map(|vectors| {
            let (vectors, mut both) = (of.packed(vectors, group), vec![T::default(); 2 * operator.n() * heads.side()]);
            let rows = pieces(operator.tasks(), &mut both, 2 * heads.side());
            rows.into_par_iter().zip(operator.tasks()).for_each(|(both, rows)| {
                both_scores(heads, &q[rows.start * heads.width()..rows.end * heads.width()], &vectors, both);
            });
            (vectors, both)
        });
        let mask = of.masks.as_ref().filter(|_| trains).and_then(|masks| masks.lane(lane));
        let first = group * operator.matrix().indices.len() * heads.side();
        Self { of: operator, heads, q, mixed, mask, first }
    }

    fn pattern(&self) -> Pattern<'_> {
        let matrix = self.of.matrix();
        Pattern { indptr: &matrix.indptr, indices: &matrix.indices }
    }

    fn attention(&self) -> Attention<'_, T> {
        #[expect(clippy::cast_precision_loss, reason = "a number of features")]
        let scale = T::narrow(1.0 / (self.heads.features.max(1) as f64).sqrt());
        let scores = self.mixed.as_ref().map_or(Scores::Scaled(scale), |(_, both)| Scores::Mixed(both));
        Attention { of: self.pattern(), heads: self.heads, q: &self.q, scores }
    }

    /// Drops some of the numbers of entries, entries × side. A part of a mask starts with a word: `lead` numbers before the first are
    /// there for nothing.
    fn drop(&self, entries: &Range<usize>, numbers: &mut [T]) {
        if let Some(mask) = self.mask {
            mask.apply_from(self.first + entries.start * self.heads.side() - self.lead(entries), numbers);
        }
    }

    fn lead(&self, entries: &Range<usize>) -> usize {
        (self.first + entries.start * self.heads.side()) % 64
    }

    /// out ← out + Σ_j w_ij q_j, packed.
    fn sum(&self, out: &mut [T]) {
        let (of, side, attention) = (self.of, self.heads.side(), self.attention());
        let tasks = pieces(of.tasks(), out, self.heads.width()).into_par_iter().zip(of.tasks());
        tasks.for_each_init(<[Vec<T>; 2]>::default, |[inner, weights], (out, rows)| {
            let entries = of.entries(rows.clone());
            let lead = self.lead(&entries);
            inner.resize(entries.len() * side, T::default());
            weights.resize(lead + entries.len() * side, T::default());
            attention.weights(rows.clone(), inner, &mut weights[lead..]);
            self.drop(&entries, weights);
            sums(attention.of, rows.clone(), self.heads, &weights[lead..], &self.q, out);
        });
    }

    /// Adds to the gradient of q, and returns that of both vectors, packed.
    fn back(&self, g: &[T], of_q: &mut [T]) -> Vec<T> {
        let by_entry = self.back_along_rows(g);
        let [width, side] = [self.heads.width(), self.heads.side()];
        let (of, pattern, mirrors) = (self.of, self.pattern(), self.of.mirrors().unwrap_or_default());
        let tasks = pieces(of.tasks(), of_q, width).into_par_iter().zip(of.tasks());
        let partial = tasks.map_init(<[Vec<T>; 2]>::default, |[numbers, slopes], (of_q, rows)| {
            let entries = of.entries(rows.clone());
            numbers.resize(entries.len() * side, T::default());
            mirrored(side, entries.clone(), mirrors, &by_entry.of_inner, true, numbers);
            sums(pattern, rows.clone(), self.heads, numbers, &self.q, of_q);
            mirrored(side, entries, mirrors, &by_entry.weights, false, numbers);
            sums(pattern, rows.clone(), self.heads, numbers, g, of_q);
            let Some((vectors, _)) = &self.mixed else { return Vec::new() };
            slopes.resize(2 * rows.len() * side, T::default());
            for (i, slopes) in rows.clone().zip(slopes.chunks_exact_mut(2 * side)) {
                let (own, other) = slopes.split_at_mut(side);
                own.copy_from_slice(&by_entry.of_own[i * side..(i + 1) * side]);
                mirrored_sum(side, &mirrors[of.entries(i..i + 1)], &by_entry.of_pair, other);
            }
            let mut of_vectors = vec![T::default(); vectors.len()];
            let q = &self.q[rows.start * width..rows.end * width];
            scores_back(self.heads, q, vectors, slopes, (of_q, &mut of_vectors));
            of_vectors
        });
        let partial: Vec<Vec<T>> = partial.collect();
        let total = |at: usize| T::narrow(partial.iter().map(|part| part[at].widen()).sum());
        (0..partial.first().map_or(0, Vec::len)).map(total).collect()
    }

    /// The gradients of what scores are made of, and the weights after dropout, entry by entry.
    fn back_along_rows(&self, g: &[T]) -> ByEntry<T> {
        let (of, side, attention) = (self.of, self.heads.side(), self.attention());
        let all = of.matrix().indices.len() * side;
        let zeros = |is_there: bool, size: usize| vec![T::default(); if is_there { size } else { 0 }];
        let (mixed, n) = (self.mixed.is_some(), of.n());
        let mut by_entry = ByEntry {
            of_inner: zeros(true, all),
            weights: zeros(true, all),
            of_pair: zeros(mixed, all),
            of_own: zeros(mixed, n * side),
        };
        let cut = |values| by_entries(of, values, side);
        let pieces_of = cut(&mut by_entry.of_inner).into_iter().zip(cut(&mut by_entry.weights));
        let pieces_of = pieces_of.zip(cut(&mut by_entry.of_pair)).zip(pieces(of.tasks(), &mut by_entry.of_own, side));
        let tasks: Vec<_> = pieces_of.zip(of.tasks()).collect();
        let task = |[inner, numbers]: &mut [Vec<T>; 2],
                    ((((of_inner, weights), of_pair), of_own), rows): Task<'_, T>| {
            let entries = of.entries(rows.clone());
            let lead = self.lead(&entries);
            inner.resize(entries.len() * side, T::default());
            numbers.resize(lead + entries.len() * side, T::default());
            attention.weights(rows.clone(), inner, weights);
            dots(attention.of, rows.clone(), self.heads, g, &self.q, &mut numbers[lead..]);
            self.drop(&entries, numbers);
            of_inner.copy_from_slice(&numbers[lead..]);
            attention.back(rows.clone(), inner, weights, Slopes { of_inner, of_pair, of_own });
            if self.mask.is_some() {
                numbers[lead..].copy_from_slice(weights);
                self.drop(&entries, numbers);
                weights.copy_from_slice(&numbers[lead..]);
            }
        };
        tasks.into_par_iter().for_each_init(<[Vec<T>; 2]>::default, task);
        by_entry
    }
}

type Task<'a, T> = ((((&'a mut [T], &'a mut [T]), &'a mut [T]), &'a mut [T]), &'a Range<usize>);

/// What the way back needs of both (i, j) and (j, i): entries × side, but for `of_own`, nodes × side.
struct ByEntry<T> {
    of_inner: Vec<T>,
    weights: Vec<T>,
    of_pair: Vec<T>,
    of_own: Vec<T>,
}

/// Cuts `side` numbers per entry at the borders of tasks; nothing stays nothing.
fn by_entries<'v, T>(of: &Propagator, mut numbers: &'v mut [T], side: usize) -> Vec<&'v mut [T]> {
    let size = |rows: &Range<usize>| of.entries(rows.clone()).len() * side;
    of.tasks().iter().map(|rows| numbers.split_off_mut(..size(rows)).unwrap_or_default()).collect()
}
