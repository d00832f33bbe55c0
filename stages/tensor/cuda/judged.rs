//! Loss and scores of logits on a GPU.

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{CudaSlice, CudaView, PushKernelArg};
use candle_core::{CudaDevice, Result, Tensor, bail};

use super::{GpuTensor, MODULE, NULL, PTX, blocks, dims, done, launch, room, small, values};

/// Nodes that a thread scores before its block sums up.
const NODES_A_THREAD: usize = 4;

/// The nodes of one part (training or validation) of every lane, with their labels.
pub struct Judged {
    labels: CudaSlice<u32>,
    inside: CudaSlice<u8>,
    /// One over the nodes of the part.
    weights: CudaSlice<f32>,
    lanes: usize,
    nodes: usize,
    classes: usize,
}

impl Judged {
    /// Uploads labels, and for every lane and node whether it is in the part (not 0) or not (0).
    ///
    /// # Errors
    /// When a node in a part has no label below `classes`, or the GPU has no room.
    pub fn new(device: &CudaDevice, labels: &[u32], inside: &[u8], classes: usize) -> Result<Self> {
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
            labels: device.clone_htod(labels)?,
            inside: device.clone_htod(inside)?,
            lanes: weights.len(),
            weights: device.clone_htod(&weights)?,
            nodes,
            classes,
        })
    }

    /// Returns the mean cross-entropy of every lane.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn cross_entropy(&self, logits: GpuTensor) -> Result<Tensor> {
        self.fold(logits, Some(&self.weights), 1)
    }

    /// Returns, for every lane, the sum of the cross-entropy and the number of right predictions: lanes × 2. Of classes
    /// with equal logits the first is predicted.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn score(&self, logits: GpuTensor) -> Result<Tensor> {
        self.fold(logits, None, 2)
    }

    fn logits<'a>(&self, logits: GpuTensor<'a>) -> Result<CudaView<'a, f32>> {
        let (found, Self { lanes, nodes, classes, .. }) = (dims(logits.1)?, self);
        if found != (*lanes, *nodes, *classes) {
            bail!("`logits` are {found:?}, expected {lanes} lanes × {nodes} nodes × {classes} classes");
        }
        values(logits, self.lanes * self.nodes * self.classes, "logits")
    }

    fn fold(&self, logits: GpuTensor, weights: Option<&CudaSlice<f32>>, outputs: u32) -> Result<Tensor> {
        let device = logits.0.device();
        let logits = self.logits(logits)?;
        // From the number of nodes alone: it decides the order of summation.
        let count = blocks(self.nodes.div_ceil(NODES_A_THREAD))?;
        let mut partial = room::<f64>(device, self.lanes * count as usize * 2)?;
        let (nodes, classes, lanes) = (self.nodes as u64, small(self.classes)?, small(self.lanes)?);
        let func = device.get_or_load_custom_func("score_partials", MODULE, PTX)?;
        let mut args = func.builder();
        args.arg(&logits).arg(&self.labels).arg(&self.inside).arg(&nodes).arg(&classes).arg(&mut partial);
        launch(args, count, self.lanes)?;
        let mut out = room::<f32>(device, self.lanes * outputs as usize)?;
        let func = device.get_or_load_custom_func("score_fold", MODULE, PTX)?;
        let mut args = func.builder();
        args.arg(&partial);
        match weights {
            Some(weights) => args.arg(weights),
            None => args.arg(&NULL),
        };
        args.arg(&count).arg(&lanes).arg(&outputs).arg(&mut out);
        launch(args, blocks(self.lanes)?, 1)?;
        Ok(done(out, device, self.lanes * outputs as usize))
    }

    /// Returns the gradient of [`Judged::cross_entropy`], summed over the lanes, at the logits.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn cross_entropy_backward(&self, logits: GpuTensor) -> Result<Tensor> {
        let (device, shape) = (logits.0.device(), logits.1.shape());
        let logits = self.logits(logits)?;
        let mut out = room::<f32>(device, shape.elem_count())?;
        let (nodes, classes) = (self.nodes as u64, small(self.classes)?);
        let func = device.get_or_load_custom_func("cross_entropy_backward", MODULE, PTX)?;
        let mut args = func.builder();
        args.arg(&logits).arg(&self.labels).arg(&self.inside).arg(&self.weights);
        args.arg(&nodes).arg(&classes).arg(&mut out);
        launch(args, blocks(self.nodes)?, self.lanes)?;
        Ok(done(out, device, shape))
    }
}
