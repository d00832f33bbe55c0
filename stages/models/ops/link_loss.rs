//! A loss on pairs of nodes, some of them edges and some not: the mean binary cross-entropy of c·⟨q_i, q_j⟩ being the logit of an edge.
//!
//! q: nodes × columns, of the training side. With p the probability of a pair and y whether it is an edge, the gradient of its logit is
//! (p − y) / pairs; it is kept, a number per pair. Then ∂q_i = c Σ (p − y) q_j / pairs over all pairs that i is an end of, in their order.
//! A node is summed by one task.

use std::borrow::Cow;
use std::sync::Arc;

use candle_core::{Result, bail};
use pulp::Arch;
use rayon::prelude::*;

use super::sided::{Back, Gradient, Sided, operation};
use super::sizes::Sizes;
use crate::math::kernels::heads::{Heads, Pattern, sums, whole_dot};
use crate::math::kernels::{padded, unpad_rows, with_padding};
use crate::math::pairs::Incidence;
use crate::tensor::slices::{Element, by_float};

/// Pairs whose losses one task sums.
const PAIRS: usize = 4096;
/// Nodes whose gradients one task sums.
const NODES: usize = 512;

/// Pairs of nodes of one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links {
    /// Pairs that are edges.
    pub edges: Vec<[u32; 2]>,
    /// Pairs that are none.
    pub others: Vec<[u32; 2]>,
}

impl Links {
    /// All pairs, edges first.
    pub(super) fn all(&self) -> Vec<[u32; 2]> {
        [&self.edges[..], &self.others].concat()
    }

    pub(super) fn len(&self) -> usize {
        self.edges.len() + self.others.len()
    }

    fn within(&self, nodes: usize) -> bool {
        self.edges.iter().chain(&self.others).flatten().all(|end| (*end as usize) < nodes)
    }
}

impl Sided {
    /// Returns `weight` times the mean loss of every lane, lanes: of `scale`·⟨q_i, q_j⟩ as the logit of (i, j) being an edge. There is
    /// no evaluation side.
    ///
    /// # Errors
    /// When the shapes or types do not fit, or a lane has no pairs.
    pub fn link_loss(&self, links: Arc<Vec<Links>>, scale: f64, weight: f64) -> Result<Self> {
        let (lanes, nodes, _) = self.main().dims3()?;
        if links.len() != lanes || links.iter().any(|links| links.len() == 0 || !links.within(nodes)) {
            bail!("pairs of {} lanes do not fit {:?}, or a lane has none", links.len(), self.dims());
        }
        on_gpu!(self.main() => super::cuda::link_loss(self, &links, scale, weight));
        let (sizes, again) = (Sizes::of(self), links.clone());
        by_float!(self.dtype(), "a loss on pairs", T => operation::<T, _, 1, 0>(
            [&self.without_eval()],
            [],
            &[lanes],
            |sides, []| {
                let Some([q]) = sides.first() else { bail!("a loss on pairs of no side") };
                let lanes = q.par_chunks(sizes.lane()).zip(&*links);
                let (losses, slopes): (Vec<f64>, Vec<Vec<T>>) =
                    lanes.map(|(q, links)| losses(q, sizes.columns, links, T::narrow(scale))).unzip();
                Ok((vec![losses.into_iter().map(|loss| T::narrow(weight * loss)).collect()], slopes))
            },
            move |Back { kept: slopes, gradient, inputs: [q], .. }| {
                let mut of_q = vec![T::default(); q.len()];
                let lanes = of_q.par_chunks_mut(sizes.lane()).zip(q.par_chunks(sizes.lane())).enumerate();
                lanes.for_each(|(lane, (of_q, q))| {
                    #[expect(clippy::cast_precision_loss, reason = "a number of pairs")]
                    let factor = gradient[lane].widen() * weight * scale / again[lane].len() as f64;
                    gradients(q, sizes.columns, &again[lane], &slopes[lane], T::narrow(factor), of_q);
                });
                Ok(vec![Gradient::Of(of_q)])
            },
        ))
    }
}

fn wide<T: Element>(q: &[T], columns: usize) -> Cow<'_, [T]> {
    if padded(columns) == columns { Cow::Borrowed(q) } else { Cow::Owned(with_padding(q, columns)) }
}

/// Returns the mean loss of a lane, and p − y of every pair.
fn losses<T: Element>(q: &[T], columns: usize, links: &Links, scale: T) -> (f64, Vec<T>) {
    let (q, width, pairs) = (wide(q, columns), padded(columns), links.all());
    let mut slopes = vec![T::default(); pairs.len()];
    let tasks = slopes.par_chunks_mut(PAIRS).zip(pairs.par_chunks(PAIRS)).enumerate();
    let sums = tasks.map(|(task, (slopes, pairs))| {
        let edges = links.edges.len().saturating_sub(task * PAIRS).min(pairs.len());
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (slope, [i, j]) in slopes.iter_mut().zip(pairs) {
                    let [x, y] = [i, j].map(|end| &q[*end as usize * width..][..width]);
                    *slope = whole_dot(x, y) * scale;
                }
                let (of_edges, of_others) = slopes.split_at_mut(edges);
                // −ln σ(z) and −ln(1 − σ(z)).
                let missed: f64 = of_edges.iter().map(|z| (T::default() - *z).softplus().widen()).sum();
                let seen: f64 = of_others.iter().map(|z| z.softplus().widen()).sum();
                of_edges.iter_mut().for_each(|z| *z = T::default() - (T::default() - *z).sigmoid());
                of_others.iter_mut().for_each(|z| *z = z.sigmoid());
                missed + seen
            },
        )
    });
    let sums: Vec<f64> = sums.collect();
    #[expect(clippy::cast_precision_loss, reason = "a number of pairs")]
    let mean = sums.iter().sum::<f64>() / pairs.len() as f64;
    (mean, slopes)
}

/// Writes `factor` · Σ (p − y) q_j over the pairs of every node i.
fn gradients<T: Element>(q: &[T], columns: usize, links: &Links, slopes: &[T], factor: T, of_q: &mut [T]) {
    let (wide, width) = (wide(q, columns), padded(columns));
    let incidence = Incidence::of(&links.all(), q.len() / columns.max(1));
    let of = Pattern { indptr: &incidence.indptr, indices: &incidence.others };
    let heads = Heads { count: 1, features: width };
    let tasks = of_q.par_chunks_mut((NODES * columns).max(1)).enumerate();
    tasks.for_each_init(<[Vec<T>; 2]>::default, |[weights, out], (task, of_q)| {
        let rows = task * NODES..task * NODES + of_q.len() / columns.max(1);
        let places = &incidence.places[of.entries(rows.clone())];
        weights.clear();
        weights.extend(places.iter().map(|place| slopes[*place as usize] * factor));
        out.clear();
        out.resize(rows.len() * width, T::default());
        sums(of, rows, heads, weights, &wide, out);
        unpad_rows(out, columns, of_q);
    });
}
