//! Kernels of our own on a GPU: thin, checked launches of what is in `stages/tensor/cuda/kernels.cu`.
//!
//! Tensors are f32, contiguous and lanes first: lanes × nodes × columns, where a lane is one data split of a batch. What
//! does not change during a training (sparse matrices, features, labels, keys of masks) is uploaded once into a type of
//! this module, which checks it: kernels check nothing. A launch waits for nothing; only reading a result back does.
//!
//! Each sum has a fixed order, so the same inputs give the same bytes on the same GPU.

mod masks;

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, CudaView, DeviceRepr, LaunchArgs, LaunchConfig, PushKernelArg,
};
use candle_core::cuda_backend::{CudaDType, WrapErr};
use candle_core::op::BackpropOp;
use candle_core::{CpuStorage, CudaDevice, CudaStorage, InplaceOp2, Layout, Result, Shape, Storage, Tensor, bail};

pub use masks::{Keys, Masks, dropout, rectify, rectify_backward};

/// The kernels, compiled by `build.rs`.
const PTX: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.ptx"));
/// Threads of a block; `TEAM` in the kernels.
const TEAM: u32 = 256;
/// Nodes that a thread scores before its block sums up.
const NODES_A_THREAD: usize = 4;
/// Blocks of a lane at most: more than any GPU runs at a time.
const MOST_BLOCKS: usize = 1 << 12;
/// A pointer to nothing.
const NULL: u64 = 0;

/// A tensor as candle hands it to an operation.
pub type Input<'a> = (&'a CudaStorage, &'a Layout);

/// Lends a tensor on a GPU to a kernel.
///
/// # Errors
/// When the tensor is elsewhere, or the kernel refuses it.
pub fn lend<R>(tensor: &Tensor, kernel: impl FnOnce(Input) -> Result<R>) -> Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cuda(storage) => kernel((storage, layout)),
        _ => bail!("a tensor on a GPU is needed here"),
    }
}

/// Makes a tensor of what a kernel returned.
pub fn tensor(values: CudaStorage, shape: impl Into<Shape>) -> Tensor {
    Tensor::from_storage(Storage::Cuda(values), shape, BackpropOp::none(), false)
}

/// Returns what is made, or uploaded, when it is first asked for.
///
/// # Errors
/// Those of `make`.
pub fn once<T>(place: &OnceLock<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    match place.get() {
        Some(made) => Ok(made),
        None => {
            let made = make()?;
            Ok(place.get_or_init(|| made))
        }
    }
}

/// Returns the values of a contiguous tensor, of which there must be `size`.
fn values<'a, T: CudaDType>((storage, layout): Input<'a>, size: usize, what: &str) -> Result<CudaView<'a, T>> {
    let Some((first, end)) = layout.contiguous_offsets() else { bail!("`{what}` is not contiguous") };
    if end - first != size {
        bail!("`{what}` has {} values, expected {size}", end - first);
    }
    match storage.as_cuda_slice::<T>()?.try_slice(first..end) {
        Some(view) => Ok(view),
        None => bail!("`{what}` ends before its layout does"),
    }
}

/// Returns lanes, nodes and columns.
fn dims(layout: &Layout) -> Result<(usize, usize, usize)> {
    layout.shape().dims3()
}

/// A kernel, and the stream that it runs in.
struct Kernel {
    function: CudaFunction,
    stream: Arc<CudaStream>,
}

impl Kernel {
    fn builder(&self) -> LaunchArgs<'_> {
        self.stream.launch_builder(&self.function)
    }
}

fn kernel(device: &CudaDevice, name: &str) -> Result<Kernel> {
    let function = device.get_or_load_custom_func(name, "ppgnn", PTX)?.into_cuda_function();
    Ok(Kernel { function, stream: device.cuda_stream() })
}

/// Memory for a result. Every kernel writes all of it.
#[expect(unsafe_code, reason = "clearing what is about to be overwritten would cost a pass over memory")]
fn room<T: DeviceRepr>(device: &CudaDevice, size: usize) -> Result<CudaSlice<T>> {
    // SAFETY: the callers are in this module, and hand the memory to a kernel that writes `size` values before anybody reads.
    unsafe { device.alloc::<T>(size) }
}

/// Starts a kernel on `blocks` blocks for each of `lanes` lanes.
#[expect(unsafe_code, reason = "there is no other way to start a kernel")]
fn launch(mut args: LaunchArgs<'_>, blocks: u32, lanes: usize) -> Result<()> {
    let lanes = small(lanes)?;
    if blocks == 0 || lanes == 0 {
        return Ok(());
    }
    let config = LaunchConfig { grid_dim: (blocks, lanes, 1), block_dim: (TEAM, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the callers are in this module. They push the arguments that the kernel declares, in order and of the same
    // types, and have compared every size with what the kernel reads and writes.
    unsafe { args.launch(config) }.w()?;
    Ok(())
}

/// Blocks for `size` values of a lane.
fn blocks(size: usize) -> Result<u32> {
    small(size.div_ceil(TEAM as usize).min(MOST_BLOCKS))
}

fn small(size: usize) -> Result<u32> {
    u32::try_from(size).map_err(|_| candle_core::Error::msg(format!("{size} is more than a kernel takes")))
}

/// Returns a place in a list as kernels count it.
///
/// # Errors
/// When it needs more than 32 bits.
pub fn index(place: impl TryInto<u32>) -> Result<u32> {
    place.try_into().map_err(|_| candle_core::Error::msg("a matrix has more entries than a kernel takes"))
}

fn done(out: CudaSlice<f32>, device: &CudaDevice) -> CudaStorage {
    CudaStorage::wrap_cuda_slice(out, device.clone())
}

/// A sparse matrix on a GPU, by rows.
pub struct Sparse {
    starts: CudaSlice<u32>,
    indices: CudaSlice<u32>,
    values: CudaSlice<f32>,
    rows: usize,
    columns: usize,
}

impl Sparse {
    /// Uploads a matrix with `columns` columns.
    ///
    /// # Errors
    /// When the lists do not make a matrix, or the GPU has no room.
    pub fn new(device: &CudaDevice, starts: &[u32], indices: &[u32], values: &[f32], columns: usize) -> Result<Self> {
        let ends = starts.last().is_some_and(|end| *end as usize == indices.len()) && starts.is_sorted();
        let fits = indices.len() == values.len() && indices.iter().all(|i| (*i as usize) < columns);
        if !ends || !fits {
            bail!("{} starts, {} indices and {} values make no matrix", starts.len(), indices.len(), values.len());
        }
        Ok(Self {
            starts: device.clone_htod(starts)?,
            indices: device.clone_htod(indices)?,
            values: device.clone_htod(values)?,
            rows: starts.len() - 1,
            columns,
        })
    }

    /// Returns a·S·z + b·y, a lane at a time; y is not read where b is 0.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn times(&self, z: Input, (a, b): (f32, f32), y: Input) -> Result<CudaStorage> {
        let (lanes, inner, columns) = dims(z.1)?;
        if inner != self.columns {
            bail!("the matrix has {} columns, `z` has {inner} rows", self.columns);
        }
        let size = self.rows * columns;
        let device = z.0.device();
        let z = values::<f32>(z, lanes * inner * columns, "z")?;
        let y = values::<f32>(y, if b == 0.0 { y.1.shape().elem_count() } else { lanes * size }, "y")?;
        let mut out = room::<f32>(device, lanes * size)?;
        let (rows, inner, columns) = (self.rows as u64, inner as u64, small(columns)?);
        let func = kernel(device, "spmm")?;
        let mut args = func.builder();
        args.arg(&self.starts).arg(&self.indices).arg(&self.values).arg(&z).arg(&y).arg(&a).arg(&b);
        args.arg(&rows).arg(&inner).arg(&columns).arg(&mut out);
        launch(args, blocks(size)?, lanes)?;
        Ok(done(out, device))
    }
}

/// Features of the nodes on a GPU.
pub enum Features {
    /// Non-zeros only.
    Sparse {
        /// Nodes × features.
        by_row: Sparse,
        /// Features × nodes.
        by_column: Sparse,
        /// For every entry of `by_column` its place in `by_row`.
        places: CudaSlice<u32>,
    },
    /// Every entry, nodes × features.
    Dense {
        /// The entries by rows.
        values: CudaSlice<f32>,
        /// Nodes.
        rows: usize,
        /// Features.
        columns: usize,
    },
}

impl Features {
    /// Uploads sparse features by rows; `features` of them.
    ///
    /// # Errors
    /// When the lists do not make a matrix, or the GPU has no room.
    pub fn sparse(
        device: &CudaDevice,
        starts: &[u32],
        indices: &[u32],
        values: &[f32],
        features: usize,
    ) -> Result<Self> {
        let by_row = Sparse::new(device, starts, indices, values, features)?;
        // Entries sorted by feature; inside of one they stay in the order of the rows.
        let mut places: Vec<u32> = (0..small(indices.len())?).collect();
        places.sort_by_key(|place| indices[*place as usize]);
        let mut ends = vec![0u32; features + 1];
        indices.iter().for_each(|feature| ends[*feature as usize + 1] += 1);
        (1..ends.len()).for_each(|f| ends[f] += ends[f - 1]);
        let row_of: Vec<u32> = (0..by_row.rows)
            .flat_map(|row| std::iter::repeat_n(row as u32, (starts[row + 1] - starts[row]) as usize))
            .collect();
        let rows: Vec<u32> = places.iter().map(|place| row_of[*place as usize]).collect();
        let turned: Vec<f32> = places.iter().map(|place| values[*place as usize]).collect();
        let by_column = Sparse::new(device, &ends, &rows, &turned, by_row.rows)?;
        Ok(Self::Sparse { by_row, by_column, places: device.clone_htod(&places)? })
    }

    /// Uploads dense features by rows; `features` of them.
    ///
    /// # Errors
    /// When the values do not fill whole rows, or the GPU has no room.
    pub fn dense(device: &CudaDevice, values: &[f32], features: usize) -> Result<Self> {
        if features == 0 || !values.len().is_multiple_of(features) {
            bail!("{} values do not make rows of {features} features", values.len());
        }
        Ok(Self::Dense { values: device.clone_htod(values)?, rows: values.len() / features, columns: features })
    }

    /// Returns (nodes, features).
    fn shape(&self) -> (usize, usize) {
        match self {
            Self::Sparse { by_row, .. } => (by_row.rows, by_row.columns),
            Self::Dense { rows, columns, .. } => (*rows, *columns),
        }
    }

    /// Returns (mask ⊙ X)·W + bias for `lanes` lanes, lanes × nodes × columns. `weights`: weight lanes × features ×
    /// columns, `bias`: weight lanes × columns; lane l uses those of lane l mod weight lanes.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn times(
        &self,
        weights: Input,
        bias: Option<Input>,
        masks: Option<&Masks>,
        lanes: usize,
    ) -> Result<CudaStorage> {
        let (weight_lanes, inner, columns) = dims(weights.1)?;
        let (rows, features) = self.shape();
        if inner != features || weight_lanes == 0 {
            bail!("`weights` are of {weight_lanes} lanes and {inner} features, expected lanes and {features}");
        }
        let size = rows * columns;
        let device = weights.0.device();
        let weights = values::<f32>(weights, weight_lanes * features * columns, "weights")?;
        let bias = bias.map(|bias| values::<f32>(bias, weight_lanes * columns, "bias")).transpose()?;
        let mut out = room::<f32>(device, lanes * size)?;
        let (rows, features) = (rows as u64, features as u64);
        let (columns, weight_lanes) = (small(columns)?, small(weight_lanes)?);
        let func = kernel(device, self.named("sparse_features", "dense_features"))?;
        let mut args = func.builder();
        match self {
            Self::Sparse { by_row, .. } => args.arg(&by_row.starts).arg(&by_row.indices).arg(&by_row.values),
            Self::Dense { values, .. } => args.arg(values),
        };
        args.arg(&weights);
        match &bias {
            Some(bias) => args.arg(bias),
            None => args.arg(&NULL),
        };
        masks::push(masks, &mut args, device)?;
        args.arg(&rows).arg(&features).arg(&columns).arg(&weight_lanes).arg(&mut out);
        launch(args, blocks(size)?, lanes)?;
        Ok(done(out, device))
    }

    /// Returns the gradient of [`Features::times`] at the weights, weight lanes × features × columns, summed over the
    /// lanes that share them.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn times_backward(&self, gradient: Input, masks: Option<&Masks>, weight_lanes: usize) -> Result<CudaStorage> {
        let (lanes, nodes, columns) = dims(gradient.1)?;
        let (rows, features) = self.shape();
        if nodes != rows || weight_lanes == 0 {
            bail!("`gradient` is of {nodes} nodes and {weight_lanes} lanes of weights, expected {rows} and some");
        }
        let size = features * columns;
        let device = gradient.0.device();
        let gradient = values::<f32>(gradient, lanes * nodes * columns, "gradient")?;
        let mut out = room::<f32>(device, weight_lanes * size)?;
        let (rows, features) = (rows as u64, features as u64);
        let (columns, shared, lanes) = (small(columns)?, small(weight_lanes)?, small(lanes)?);
        let func = kernel(device, self.named("sparse_features_backward", "dense_features_backward"))?;
        let mut args = func.builder();
        match self {
            Self::Sparse { by_column, places, .. } => {
                args.arg(&by_column.starts).arg(&by_column.indices).arg(&by_column.values).arg(places)
            }
            Self::Dense { values, .. } => args.arg(values),
        };
        args.arg(&gradient);
        masks::push(masks, &mut args, device)?;
        args.arg(&rows).arg(&features).arg(&columns).arg(&shared).arg(&lanes).arg(&mut out);
        launch(args, blocks(size)?, weight_lanes)?;
        Ok(done(out, device))
    }

    fn named(&self, sparse: &'static str, dense: &'static str) -> &'static str {
        if matches!(self, Self::Sparse { .. }) { sparse } else { dense }
    }
}

/// First and second moments of Adam.
pub struct Moments {
    first: CudaSlice<f32>,
    second: CudaSlice<f32>,
}

/// What Adam is told at every step; all lanes share it.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Coupled weight decay.
    pub decay: f64,
    /// Decays of the first and the second moment.
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Learning rate over the bias of the first moment.
    pub rate: f64,
    /// Bias of the second moment.
    pub unbias: f64,
}

impl Moments {
    /// Moments of nothing yet, for `size` weights.
    ///
    /// # Errors
    /// When the GPU has no room.
    pub fn new(device: &CudaDevice, size: usize) -> Result<Self> {
        Ok(Self { first: device.alloc_zeros(size)?, second: device.alloc_zeros(size)? })
    }

    /// Keeps some of `lanes` lanes.
    ///
    /// # Errors
    /// When there are no such lanes, or the GPU has no room.
    pub fn select(&self, lanes: usize, kept: &[usize]) -> Result<Self> {
        let size = self.first.len().checked_div(lanes).unwrap_or(0);
        let select = |values: &CudaSlice<f32>| {
            let stream = values.stream();
            let mut out = stream.alloc_zeros::<f32>(kept.len() * size).w()?;
            for (i, lane) in kept.iter().enumerate() {
                let parts =
                    (values.try_slice(lane * size..(lane + 1) * size), out.try_slice_mut(i * size..(i + 1) * size));
                let (Some(from), Some(mut to)) = parts else { bail!("{lanes} lanes have no lane {lane}") };
                stream.memcpy_dtod(&from, &mut to).w()?;
            }
            Ok(out)
        };
        Ok(Self { first: select(&self.first)?, second: select(&self.second)? })
    }

    /// Takes one step in place.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn step(&mut self, weights: &Tensor, gradient: &Tensor, step: Step) -> Result<()> {
        weights.inplace_op2(gradient, &InPlace { moments: RefCell::new(self), step })
    }

    fn launch(&mut self, weights: (&mut CudaStorage, &Layout), gradient: Input, step: Step) -> Result<()> {
        let size = self.first.len();
        let device = gradient.0.device();
        let gradient = values::<f32>(gradient, size, "gradient")?;
        let (storage, layout) = weights;
        if layout.contiguous_offsets() != Some((0, size)) || storage.as_cuda_slice::<f32>()?.len() != size {
            bail!("`weights` must be {size} values on their own");
        }
        let weights = storage.as_cuda_slice_mut::<f32>()?;
        let (decay, beta1, beta2) = (step.decay as f32, step.betas.0 as f32, step.betas.1 as f32);
        let (epsilon, rate, unbias, length) = (step.epsilon as f32, step.rate as f32, step.unbias as f32, size as u64);
        let func = kernel(device, "adam")?;
        let mut args = func.builder();
        args.arg(weights).arg(&mut self.first).arg(&mut self.second).arg(&gradient);
        args.arg(&decay).arg(&beta1).arg(&beta2).arg(&epsilon).arg(&rate).arg(&unbias).arg(&length);
        launch(args, blocks(size)?, 1)
    }
}

/// candle lends a storage to be changed to operations alone.
struct InPlace<'m> {
    moments: RefCell<&'m mut Moments>,
    step: Step,
}

impl InplaceOp2 for InPlace<'_> {
    fn name(&self) -> &'static str {
        "adam"
    }

    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<()> {
        bail!("weights on a GPU are needed here")
    }

    fn cuda_fwd(&self, w: &mut CudaStorage, wl: &Layout, g: &CudaStorage, gl: &Layout) -> Result<()> {
        self.moments.borrow_mut().launch((w, wl), (g, gl), self.step)
    }
}

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
    pub fn cross_entropy(&self, logits: Input) -> Result<CudaStorage> {
        self.fold(logits, Some(&self.weights), 1)
    }

    /// Returns, for every lane, the sum of the cross-entropy and the number of right predictions: lanes × 2. Of classes
    /// with equal logits the first is predicted.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn score(&self, logits: Input) -> Result<CudaStorage> {
        self.fold(logits, None, 2)
    }

    fn logits<'a>(&self, logits: Input<'a>) -> Result<CudaView<'a, f32>> {
        if dims(logits.1)? != (self.lanes, self.nodes, self.classes) {
            bail!(
                "`logits` are {:?}, expected {} lanes × {} nodes × {} classes",
                logits.1.shape(),
                self.lanes,
                self.nodes,
                self.classes
            );
        }
        values(logits, self.lanes * self.nodes * self.classes, "logits")
    }

    fn fold(&self, logits: Input, weights: Option<&CudaSlice<f32>>, outputs: u32) -> Result<CudaStorage> {
        let device = logits.0.device();
        let logits = self.logits(logits)?;
        // From the number of nodes alone: it decides the order of summation.
        let count = blocks(self.nodes.div_ceil(NODES_A_THREAD))?;
        let mut partial = room::<f64>(device, self.lanes * count as usize * 2)?;
        let (nodes, classes, lanes) = (self.nodes as u64, small(self.classes)?, small(self.lanes)?);
        let func = kernel(device, "score_partials")?;
        let mut args = func.builder();
        args.arg(&logits).arg(&self.labels).arg(&self.inside).arg(&nodes).arg(&classes).arg(&mut partial);
        launch(args, count, self.lanes)?;
        let mut out = room::<f32>(device, self.lanes * outputs as usize)?;
        let func = kernel(device, "score_fold")?;
        let mut args = func.builder();
        args.arg(&partial);
        match weights {
            Some(weights) => args.arg(weights),
            None => args.arg(&NULL),
        };
        args.arg(&count).arg(&lanes).arg(&outputs).arg(&mut out);
        launch(args, blocks(self.lanes)?, 1)?;
        Ok(done(out, device))
    }

    /// Returns the gradient of [`Judged::cross_entropy`] at the logits, given the gradient of every lane.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn cross_entropy_backward(&self, logits: Input, gradient: Input) -> Result<CudaStorage> {
        let device = logits.0.device();
        let logits = self.logits(logits)?;
        let gradient = values::<f32>(gradient, self.lanes, "gradient")?;
        let mut out = room::<f32>(device, self.lanes * self.nodes * self.classes)?;
        let (nodes, classes) = (self.nodes as u64, small(self.classes)?);
        let func = kernel(device, "cross_entropy_backward")?;
        let mut args = func.builder();
        args.arg(&logits).arg(&self.labels).arg(&self.inside).arg(&self.weights).arg(&gradient);
        args.arg(&nodes).arg(&classes).arg(&mut out);
        launch(args, blocks(self.nodes)?, self.lanes)?;
        Ok(done(out, device))
    }
}
