//! The least time of an epoch: the operations and bytes that the formulas need, at what the machine can do.
//!
//! An epoch of a batch of S splits: a training pass, its backward pass, Adam, an evaluation pass. The evaluation of a step
//! rides with the training pass of the next one, which has the same weights, so that matrices that all splits share (features,
//! operator, eigenvectors) are read once forward and once backward, each time they are multiplied with, and serve all
//! splits. Every other array is read or written once by each operation that needs it. A sparse entry has 8 bytes (value and
//! column), a number 4. Dropout leaves (1 − p) of the features to multiply; drawing masks, activations and the loss cost
//! nothing here. The bound of an operation is the larger of its time by arithmetic and its time by bytes, and the bounds of
//! operations add up; the bytes come at the speed of the shared cache, which a batch cut small enough can reach.

use super::machine::Machine;

/// Share of features that training drops, where it drops some.
const DROPOUT: f64 = 0.5;

/// The sizes of a row.
pub struct Sizes {
    /// Nodes.
    pub nodes: usize,
    /// Columns of the features.
    pub features: usize,
    /// Non-zero features.
    pub non_zeros: f64,
    /// Entries of the operator.
    pub entries: usize,
    /// Entries of the separated hops together, or of the second operator; 0 if there are none.
    pub hop_entries: f64,
    /// Classes.
    pub classes: usize,
    /// Splits.
    pub splits: usize,
}

/// A part of an epoch of the whole batch.
pub struct Operation {
    /// What people call it.
    pub name: &'static str,
    /// Floating-point operations; a multiply-add counts two.
    pub flops: f64,
    /// Bytes from and to memory.
    pub bytes: f64,
}

impl Operation {
    /// The least seconds that it takes.
    pub fn bound(&self, machine: &Machine) -> f64 {
        (self.flops / machine.flops[1]).max(self.bytes / machine.bytes[0])
    }
}

/// The parts of an epoch, in the order of the formula.
pub struct Epoch<'s> {
    sizes: &'s Sizes,
    parts: Vec<Operation>,
    parameters: f64,
}

impl<'s> Epoch<'s> {
    /// Begins with nothing.
    pub fn new(sizes: &'s Sizes) -> Self {
        Self { sizes, parts: Vec::new(), parameters: 0.0 }
    }

    fn nodes(&self) -> f64 {
        self.sizes.nodes as f64
    }

    /// Adds a part: operations of one split, bytes that all splits share, and numbers of one split. Parts of one name are one.
    fn part(mut self, name: &'static str, flops: f64, shared: f64, own: f64) -> Self {
        let s = self.sizes.splits as f64;
        let (flops, bytes) = (s * flops, shared + 4.0 * s * own);
        match self.parts.iter_mut().find(|part| part.name == name) {
            Some(part) => (part.flops, part.bytes) = (part.flops + flops, part.bytes + bytes),
            None => self.parts.push(Operation { name, flops, bytes }),
        }
        self
    }

    /// X·W. With dropout on X: for training (what is kept of it), evaluation (all of it) and Xᵀ·G (what is kept). Without it the
    /// evaluation of a step is the training pass of the next one. Reads X twice, W and G; writes the product of each pass and
    /// the gradient.
    pub fn features(mut self, name: &'static str, columns: usize, dropped: bool) -> Self {
        let (n, f, columns, nnz) = (self.nodes(), self.sizes.features as f64, columns as f64, self.sizes.non_zeros);
        let (passes, kept) = if dropped { (2.0, 1.0 - DROPOUT) } else { (1.0, 1.0) };
        self.parameters += f * columns + columns;
        let own = passes * n * columns + f * columns + n * columns + f * columns;
        self.part(name, 2.0 * nnz * columns * (2.0 * kept + passes - 1.0), 2.0 * 8.0 * nnz, own)
    }

    /// H·W for training and evaluation, Hᵀ·G, G·Wᵀ. Reads the hidden units of each pass, and once more backward, and writes their
    /// gradient; the products and their gradient.
    pub fn dense(mut self, inputs: usize, outputs: usize) -> Self {
        let (n, inputs, outputs) = (self.nodes(), inputs as f64, outputs as f64);
        self.parameters += inputs * outputs + outputs;
        self.part("layers", 4.0 * 2.0 * n * inputs * outputs, 0.0, 4.0 * n * inputs + 4.0 * n * outputs)
    }

    /// Ã·Z: forward for training and evaluation, and backward (`sides` 3), or forward once for both (`sides` 2).
    pub fn convolve(self, columns: usize, sides: usize) -> Self {
        let (n, e, columns, sides) = (self.nodes(), self.sizes.entries as f64, columns as f64, sides as f64);
        self.part("propagation", sides * 2.0 * e * columns, 2.0 * 8.0 * e, sides * 2.0 * n * columns)
    }

    /// K products for training, evaluation and backward, each adding a term; a scalar product per coefficient. The operator is
    /// read K times forward and K times backward; a step reads two arrays and writes one.
    pub fn polynomial(mut self, order: usize, columns: usize) -> Self {
        let (n, e, order, columns) = (self.nodes(), self.sizes.entries as f64, order as f64, columns as f64);
        self.parameters += order + 1.0;
        let flops = 3.0 * order * 2.0 * e * columns + 4.0 * (order + 1.0) * 2.0 * n * columns;
        self.part("propagation", flops, 2.0 * order * 8.0 * e, 3.0 * order * 3.0 * n * columns)
    }

    /// A sum over separated hops, for training, evaluation and backward.
    pub fn hops(self, columns: usize) -> Self {
        let (n, e, columns) = (self.nodes(), self.sizes.hop_entries, columns as f64);
        self.part("hops", 3.0 * 2.0 * e * columns, 2.0 * 8.0 * e, 3.0 * 2.0 * n * columns)
    }

    /// A product with the second operator, as [`Epoch::convolve`].
    pub fn convolve_second(self, columns: usize, sides: usize) -> Self {
        let (n, e, columns, sides) = (self.nodes(), self.sizes.hop_entries, columns as f64, sides as f64);
        self.part("second operator", sides * 2.0 * e * columns, 2.0 * 8.0 * e, sides * 2.0 * n * columns)
    }

    /// Uᵀ·Z and U·Y, each for training, evaluation and backward. U is read twice forward and twice backward; every product reads one
    /// array and writes one.
    pub fn spectral(self, pairs: usize, columns: usize) -> Self {
        let (n, pairs, columns) = (self.nodes(), pairs as f64, columns as f64);
        let own = 3.0 * 2.0 * (n + pairs) * columns;
        self.part("spectral", 6.0 * 2.0 * n * pairs * columns, 4.0 * 4.0 * n * pairs, own)
    }

    /// U(h ⊙ UᵀX·W), forward once for training and evaluation, and backward; UᵀX is fixed and dense.
    pub fn synthesis(mut self, pairs: usize, columns: usize) -> Self {
        let (n, f, pairs, columns) = (self.nodes(), self.sizes.features as f64, pairs as f64, columns as f64);
        self.parameters += f * columns + columns;
        let (flops, shared) = (2.0 * 2.0 * pairs * columns * (n + f), 2.0 * 4.0 * pairs * (n + f));
        self.part("spectral", flops, shared, 2.0 * (n + 2.0 * pairs) * columns + 2.0 * f * columns)
    }

    /// Ends with Adam, which reads weight, gradient and two moments, and writes weight and moments: seven numbers; about twelve
    /// operations.
    pub fn parts(self) -> Vec<Operation> {
        let parameters = self.parameters;
        self.part("Adam", 12.0 * parameters, 0.0, 7.0 * parameters).parts
    }
}
