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

/// What decides the cost of a model.
pub enum Form {
    /// Perceptron, then a polynomial of the operator, then with `pairs` > 0 a filter of eigenpairs beside it.
    Filtered {
        /// Degree of the polynomial.
        order: usize,
        /// Kept eigenpairs of both sides.
        pairs: usize,
        /// Trained coefficients.
        coefficients: usize,
    },
    /// Two graph convolutions without dropout on the input.
    Convolved,
}

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
    /// Hidden units.
    pub hidden: usize,
    /// Classes.
    pub classes: usize,
    /// Splits.
    pub splits: usize,
    /// Share of features that training drops.
    pub dropout: f64,
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

/// Returns the parts of an epoch.
pub fn operations(form: &Form, sizes: &Sizes) -> Vec<Operation> {
    let [n, f, e, d, c, s] =
        [sizes.nodes, sizes.features, sizes.entries, sizes.hidden, sizes.classes, sizes.splits].map(|x| x as f64);
    let nnz = sizes.non_zeros;
    let part =
        |name, flops: f64, shared: f64, own: f64| Operation { name, flops: s * flops, bytes: shared + 4.0 * s * own };
    // Passes forward through the first layer: without dropout on the input, the evaluation of a step is the training
    // pass of the next one as far as dropout on the hidden units.
    let (passes, kept, coefficients) = match form {
        Form::Filtered { coefficients, .. } => (2.0, 1.0 - sizes.dropout, *coefficients as f64),
        Form::Convolved => (1.0, 1.0, 0.0),
    };
    let parameters = f * d + d + d * c + c + coefficients;
    let mut parts = vec![
        // X·W₁ for training (kept of it), evaluation (all of it) and Xᵀ·G (kept). Reads X twice, W₁ and G; writes the
        // hidden units of each pass and the gradient.
        part(
            "features",
            2.0 * nnz * d * (2.0 * kept + passes - 1.0),
            2.0 * 8.0 * nnz,
            passes * n * d + f * d + n * d + f * d,
        ),
        // H·W₂ for training and evaluation, Hᵀ·G, G·W₂ᵀ. Reads the hidden units of each pass, and once more backward,
        // and writes their gradient; logits and their gradient.
        part("layer 2", 4.0 * 2.0 * n * d * c, 0.0, (passes + 2.0) * n * d + 4.0 * n * c),
    ];
    match form {
        Form::Filtered { order, pairs, .. } => {
            let (order, pairs) = (*order as f64, *pairs as f64);
            // K products for training, evaluation and backward, each adding a term; a scalar product a coefficient.
            // The operator is read K times forward and K times backward; a step reads two arrays and writes one.
            parts.push(part(
                "propagation",
                3.0 * order * 2.0 * e * c + 4.0 * (order + 1.0) * 2.0 * n * c,
                2.0 * order * 8.0 * e,
                3.0 * order * 3.0 * n * c,
            ));
            // Uᵀ·Z and U·Y, each for training, evaluation and backward: 2·n·pairs·c. U is read twice forward and twice
            // backward; every product reads one array and writes one.
            if pairs > 0.0 {
                let own = 3.0 * 2.0 * (n + pairs) * c;
                parts.push(part("spectral", 6.0 * 2.0 * n * pairs * c, 4.0 * 4.0 * n * pairs, own));
            }
        }
        // Ã·(X W₁) once forward and once backward, d columns; Ã·(H W₂) for training, evaluation and backward, c columns.
        Form::Convolved => parts.push(part(
            "propagation",
            2.0 * 2.0 * e * d + 3.0 * 2.0 * e * c,
            4.0 * 8.0 * e,
            2.0 * 2.0 * n * d + 3.0 * 2.0 * n * c,
        )),
    }
    // Reads weight, gradient and two moments, writes weight and moments: seven numbers; about twelve operations.
    parts.push(part("Adam", 12.0 * parameters, 0.0, 7.0 * parameters));
    parts
}
