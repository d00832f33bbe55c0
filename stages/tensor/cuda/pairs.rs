//! Losses on pairs of nodes on a GPU. Pairs are drawn on the CPU for every pass, and uploaded.

use candle_core::{Device, Result, Tensor, bail};

use super::entries::make_two;
use super::launch::{Arg, upload};
use super::{column_sums, dims, floats, make, small};
use crate::math::pairs::Incidence;

/// Pairs of every lane on a GPU.
pub struct Pairs {
    /// lanes × most × 2.
    pairs: Tensor,
    /// Edges and all pairs of every lane.
    counts: Tensor,
    lanes: usize,
    /// Pairs of the lane that has the most.
    most: usize,
}

impl Pairs {
    /// Uploads the pairs of every lane, and how many of them are edges, which come first.
    ///
    /// # Errors
    /// When a lane has none, or the GPU has no room.
    pub fn new(device: &Device, lanes: &[(Vec<[u32; 2]>, usize)]) -> Result<Self> {
        let most = lanes.iter().map(|(pairs, _)| pairs.len()).max().unwrap_or(0);
        if lanes.iter().any(|(pairs, edges)| pairs.is_empty() || *edges > pairs.len()) {
            bail!("a lane has no pairs");
        }
        let mut all = Vec::with_capacity(lanes.len() * most * 2);
        let mut counts = Vec::with_capacity(lanes.len() * 2);
        for (lane, (pairs, edges)) in lanes.iter().enumerate() {
            all.extend(pairs.as_flattened());
            all.resize((lane + 1) * most * 2, 0);
            counts.extend([small(*edges)?, small(pairs.len())?]);
        }
        Ok(Self { pairs: upload(&all, device)?, counts: upload(&counts, device)?, lanes: lanes.len(), most })
    }

    /// Returns the sum of the losses of every lane, lanes, and the slopes of all pairs, lanes × most.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn losses(&self, q: &Tensor, scale: f64) -> Result<(Tensor, Tensor)> {
        let ((lanes, nodes, columns), most) = (dims(q)?, self.most);
        if lanes != self.lanes {
            bail!("pairs of {} lanes for {:?}", self.lanes, q.dims());
        }
        let q = floats(q, lanes * nodes * columns, "q")?;
        let inputs = [&q, &self.pairs, &self.counts].map(Arg::Read);
        let sizes = [Arg::U64(most as u64), Arg::U64(nodes as u64), Arg::U32(small(columns)?)];
        let args = [&inputs[..], &[Arg::F32(scale as f32)], &sizes].concat();
        let [losses, slopes] = make_two("pair_losses", (most, lanes), &args, &[lanes, most])?;
        Ok((column_sums(&losses.reshape((lanes, most, 1))?)?.reshape(lanes)?, slopes))
    }
}

/// Returns the gradient of q: `factors` of every lane times the slopes of the pairs of a node times their other ends. `incidence` says
/// which pairs a node is an end of, for every lane.
///
/// # Errors
/// When the shapes do not fit.
pub fn pairs_backward(q: &Tensor, slopes: &Tensor, factors: &Tensor, incidence: &[Incidence]) -> Result<Tensor> {
    let ((lanes, nodes, columns), (of_lanes, most)) = (dims(q)?, slopes.dims2()?);
    let ends = incidence.iter().map(|lane| lane.others.len()).max().unwrap_or(0);
    let fits = |lane: &Incidence| lane.indptr.len() == nodes + 1 && lane.others.len() == lane.places.len();
    if lanes != of_lanes || incidence.len() != lanes || !incidence.iter().all(fits) || ends > 2 * most {
        bail!("pairs of {} lanes do not fit {:?}", incidence.len(), q.dims());
    }
    let (mut starts, mut others, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for (lane, of) in incidence.iter().enumerate() {
        starts.extend(of.indptr.iter().map(|start| small(*start)).collect::<Result<Vec<u32>>>()?);
        others.extend(&of.others);
        places.extend(&of.places);
        others.resize((lane + 1) * ends, 0);
        places.resize((lane + 1) * ends, 0);
    }
    let device = q.device();
    let lists = [upload(&starts, device)?, upload(&others, device)?, upload(&places, device)?];
    let size = nodes * columns;
    let (q, slopes) = (floats(q, lanes * size, "q")?, floats(slopes, lanes * most, "slopes")?);
    let factors = floats(factors, lanes, "factors")?;
    let sizes = [ends, most, nodes].map(|size| Arg::U64(size as u64));
    let inputs = [&slopes, &q, &factors].map(Arg::Read);
    let args = [&lists.each_ref().map(Arg::Read)[..], &inputs, &sizes, &[Arg::U32(small(columns)?)]].concat();
    make("pair_backward", (size, lanes), &args, &[lanes, nodes, columns])
}
