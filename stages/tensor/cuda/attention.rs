//! Attention on a GPU: every step by entry and head is a tensor, which the way back finds again.

use candle_core::{Result, Tensor, bail};

use super::entries::{Weighted, make_two};
use super::launch::Arg;
use super::{Masks, column_sums, dims, floats, make, masks, small};

/// Attention along the entries of a matrix.
#[derive(Clone, Copy)]
pub struct Attention<'a> {
    /// The entries.
    pub of: Weighted<'a>,
    /// Number of heads; q is nodes × (features · heads), the values of a feature beside each other.
    pub heads: usize,
    /// Places in a mask for an entry and a group of heads.
    pub side: usize,
    /// Whether rows are the mean over the heads.
    pub merged: bool,
    /// a of mixed scores, lanes × (2 · features) × heads; scaled scores have none.
    pub vectors: Option<&'a Tensor>,
}

/// What forward keeps: lanes × entries · heads, and two numbers of every node and head for mixed scores.
pub struct Attended {
    inner: Tensor,
    weights: Tensor,
    ends: Option<Tensor>,
}

/// Sizes of a call.
#[derive(Clone, Copy)]
struct Sizes {
    lanes: usize,
    nodes: usize,
    entries: usize,
    features: usize,
    heads: usize,
}

impl Sizes {
    /// Entries, nodes, heads.
    fn of_entries(self) -> Result<[Arg<'static>; 3]> {
        Ok([Arg::U64(self.entries as u64), Arg::U64(self.nodes as u64), Arg::U32(small(self.heads)?)])
    }

    /// Entries, nodes, features, heads.
    fn all(self) -> Result<[Arg<'static>; 4]> {
        let [entries, nodes, heads] = self.of_entries()?;
        Ok([entries, nodes, Arg::U32(small(self.features)?), heads])
    }

    /// Nodes, features, heads.
    fn of_nodes(self) -> Result<[Arg<'static>; 3]> {
        let [_, nodes, features, heads] = self.all()?;
        Ok([nodes, features, heads])
    }
}

impl Attention<'_> {
    fn sizes(&self, q: &Tensor) -> Result<Sizes> {
        let (lanes, nodes, columns) = dims(q)?;
        let (features, heads) = (columns / self.heads.max(1), self.heads);
        if heads == 0 || features * heads != columns {
            bail!("{heads} heads cannot attend in {:?}", q.dims());
        }
        Ok(Sizes { lanes, nodes, entries: self.of.sizes(nodes)?.0, features, heads })
    }

    /// What ⟨q_i, q_j⟩ is multiplied by where scores are scaled.
    fn scale(sizes: Sizes) -> Arg<'static> {
        Arg::F32((1.0 / (sizes.features as f64).sqrt()) as f32)
    }

    fn side(&self) -> Result<Arg<'static>> {
        small(self.side).map(Arg::U32)
    }

    fn starts(&self) -> [Arg<'_>; 2] {
        let [starts, indices, _] = self.of.across();
        [starts, indices]
    }

    fn vectors(&self, sizes: Sizes) -> Result<Option<Tensor>> {
        let size = sizes.lanes * 2 * sizes.features * sizes.heads;
        self.vectors.map(|vectors| floats(vectors, size, "vectors")).transpose()
    }

    /// Returns the weights of all entries and heads, before dropout.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn weights(&self, q: &Tensor) -> Result<Attended> {
        let sizes @ Sizes { lanes, nodes, entries, features, heads } = self.sizes(q)?;
        let q = floats(q, lanes * nodes * features * heads, "q")?;
        let ends = self.vectors(sizes)?.map(|vectors| {
            let args = [&[Arg::Read(&q), Arg::Read(&vectors)], &sizes.of_nodes()?[..]].concat();
            make("attention_ends", (nodes * heads, lanes), &args, &[lanes, nodes, heads * 2])
        });
        let ends = ends.transpose()?;
        let inner = self.dots(sizes, &q, (false, 1.0), &q, None)?;
        let inputs = [Arg::Read(&inner), Arg::read(ends.as_ref()), Self::scale(sizes)];
        let args = [&self.starts()[..], &inputs, &sizes.of_entries()?].concat();
        let weights = make("attention_weights", (nodes * heads, lanes), &args, &[lanes, entries * heads])?;
        Ok(Attended { inner, weights, ends })
    }

    /// ⟨x_i, q_j⟩ · factor of every entry and head, with masks on top.
    fn dots(
        &self,
        sizes: Sizes,
        x: &Tensor,
        (shared, factor): (bool, f64),
        q: &Tensor,
        masks: Option<&Masks>,
    ) -> Result<Tensor> {
        let lent = masks::lend(masks, sizes.lanes, q.device())?;
        let inputs = [Arg::Read(x), Arg::Read(q), Arg::F32(factor as f32), Arg::U32(shared.into())];
        let args = [&self.of.places()[..], &inputs, &lent.args(), &[self.side()?], &sizes.all()?].concat();
        let size = sizes.entries * sizes.heads;
        make("attention_dots", (size, sizes.lanes), &args, &[sizes.lanes, size])
    }

    /// Returns Σ_j drop(α_ij) q_j by head, or its mean over the heads.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn sums(&self, q: &Tensor, attended: &Attended, masks: Option<&Masks>) -> Result<Tensor> {
        let sizes @ Sizes { lanes, nodes, entries, features, heads } = self.sizes(q)?;
        let q = floats(q, lanes * nodes * features * heads, "q")?;
        let weights = floats(&attended.weights, lanes * entries * heads, "weights")?;
        let lent = masks::lend(masks, lanes, q.device())?;
        let how = [self.side()?, Arg::U32(self.merged.into())];
        let inputs = [Arg::Read(&weights), Arg::Read(&q)];
        let args = [&self.starts()[..], &inputs, &lent.args(), &how, &sizes.all()?].concat();
        let columns = if self.merged { features } else { features * heads };
        make("attention_sums", (nodes * columns, lanes), &args, &[lanes, nodes, columns])
    }

    /// Returns the gradients of q, and of the vectors if there are any.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn backward(
        &self,
        q: &Tensor,
        attended: &Attended,
        masks: Option<&Masks>,
        gradient: &Tensor,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let sizes @ Sizes { lanes, nodes, entries, features, heads } = self.sizes(q)?;
        let width = features * heads;
        let q = floats(q, lanes * nodes * width, "q")?;
        let of_gradient = lanes * nodes * if self.merged { features } else { width };
        let gradient = floats(gradient, of_gradient, "gradient")?;
        let share = if self.merged { 1.0 / heads as f64 } else { 1.0 };
        let of_weights = self.dots(sizes, &gradient, (self.merged, share), &q, masks)?;
        let Attended { inner, weights, ends } = attended;
        let (vectors, ends) = (self.vectors(sizes)?, Arg::read(ends.as_ref()));
        let inputs = [Arg::Read(inner), Arg::Read(weights), Arg::Read(&of_weights), ends, Self::scale(sizes)];
        let args = [&self.starts()[..], &inputs, &sizes.of_entries()?].concat();
        let [of_inner, of_pair] =
            make_two("attention_slopes", (nodes * heads, lanes), &args, &[lanes, entries * heads])?;
        let of_ends = vectors.as_ref().map(|_| self.of.sums_of_entries(&of_pair, nodes, heads)).transpose()?;
        let lent = masks::lend(masks, lanes, q.device())?;
        let inputs = [&of_inner, weights, &q, &gradient].map(Arg::Read);
        let mixed = [Arg::read(vectors.as_ref()), Arg::read(of_ends.as_ref()), Arg::U32(self.merged.into())];
        let args = [&self.of.across()[..], &inputs, &mixed, &lent.args(), &[self.side()?], &sizes.all()?].concat();
        let of_q = make("attention_backward", (nodes * width, lanes), &args, &[lanes, nodes, width])?;
        let of_vectors = of_ends.map(|of_ends| {
            let args = [&[Arg::Read(&q), Arg::Read(&of_ends)], &sizes.of_nodes()?[..]].concat();
            let by_node = make("attention_vectors", (nodes * 2 * width, lanes), &args, &[lanes, nodes, 2 * width])?;
            column_sums(&by_node)?.reshape((lanes, 2 * features, heads))
        });
        Ok((of_q, of_vectors.transpose()?))
    }
}
