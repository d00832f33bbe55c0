//! Loss and scores of logits on a GPU.

use candle_core::{DType, Device, Result, Tensor, bail};

use super::launch::{Arg, Call, upload};
use super::{blocks, dims, floats, make, small};

/// Nodes that a thread scores before its block sums up.
const NODES_A_THREAD: usize = 4;

/// The nodes of one part (training or validation) of every lane, with their labels.
pub struct Judged {
    labels: Tensor,
    inside: Tensor,
    /// One over the nodes of the part.
    weights: Tensor,
    lanes: usize,
    nodes: usize,
    classes: usize,
}

impl Judged {
    /// Uploads labels, and for every lane and node whether it is in the part (not 0) or not (0).
    ///
    /// # Errors
    /// When a node in a part has no label below `classes`, or the GPU has no room.
    pub fn new(device: &Device, labels: &[u32], inside: &[u8], classes: usize) -> Result<Self> {
        let nodes = labels.len();
        if nodes == 0 || classes == 0 || !inside.len().is_multiple_of(nodes) {
            bail!("{} entries of parts do not fit {nodes} nodes of {classes} classes", inside.len());
        }
        let mut weights = Vec::new();
        for lane in inside.chunks_exact(nodes) {
            let of_part = || labels.iter().zip(lane).filter(|(_, inside)| **inside != 0);
            if let Some((label, _)) = of_part().find(|(label, _)| **label as usize >= classes) {
                bail!("a node to be judged has label {label}, there are {classes} classes");
            }
            weights.push(1.0 / of_part().count().max(1) as f32);
        }
        Ok(Self {
            labels: upload(labels, device)?,
            inside: upload(inside, device)?,
            lanes: weights.len(),
            weights: upload(&weights, device)?,
            nodes,
            classes,
        })
    }

    /// Returns the mean cross-entropy of every lane.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn cross_entropy(&self, logits: &Tensor) -> Result<Tensor> {
        self.fold(logits, Some(&self.weights), 1)
    }

    /// Returns, for every lane, the sum of the cross-entropy and the number of right predictions: lanes × 2. Of classes
    /// with equal logits the first is predicted.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn score(&self, logits: &Tensor) -> Result<Tensor> {
        self.fold(logits, None, 2)
    }

    fn logits(&self, logits: &Tensor) -> Result<Tensor> {
        let (found, Self { lanes, nodes, classes, .. }) = (dims(logits)?, self);
        if found != (*lanes, *nodes, *classes) {
            bail!("`logits` are {found:?}, expected {lanes} lanes × {nodes} nodes × {classes} classes");
        }
        floats(logits, lanes * nodes * classes, "logits")
    }

    fn fold(&self, logits: &Tensor, weights: Option<&Tensor>, outputs: usize) -> Result<Tensor> {
        let logits = self.logits(logits)?;
        // From the number of nodes alone: it decides the order of summation.
        let count = blocks(self.nodes.div_ceil(NODES_A_THREAD))?;
        let (classes, lanes) = (small(self.classes)?, small(self.lanes)?);
        let inputs = [&logits, &self.labels, &self.inside].map(Arg::Read);
        let args = [&inputs[..], &[Arg::U64(self.nodes as u64), Arg::U32(classes)]].concat();
        let makes: &[(&[usize], DType)] = &[(&[self.lanes, count as usize, 2], DType::F64)];
        let call = Call { kernel: "score_partials", blocks: count, lanes, args: &args, changes: &[], makes };
        let partial = call.start()?;
        let [partial] = &partial[..] else { bail!("scores have not been made") };
        let numbers = [Arg::U32(count), Arg::U32(lanes), Arg::U32(small(outputs)?)];
        let args = [&[Arg::Read(partial), Arg::read(weights)], &numbers[..]].concat();
        make("score_fold", (self.lanes, 1), &args, &[self.lanes * outputs])
    }

    /// Returns the gradient of [`Judged::cross_entropy`], summed over the lanes, at the logits.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn cross_entropy_backward(&self, logits: &Tensor) -> Result<Tensor> {
        let (logits, classes) = (self.logits(logits)?, small(self.classes)?);
        let inputs = [&logits, &self.labels, &self.inside, &self.weights].map(Arg::Read);
        let args = [&inputs[..], &[Arg::U64(self.nodes as u64), Arg::U32(classes)]].concat();
        make("cross_entropy_backward", (self.nodes, self.lanes), &args, &[self.lanes, self.nodes, self.classes])
    }
}
