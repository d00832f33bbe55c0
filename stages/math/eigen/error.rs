//! What can go wrong.

use super::End;

/// Why there are no eigenpairs.
#[derive(Debug, thiserror::Error)]
pub enum EigenError {
    /// There is nothing to decompose.
    #[error("the operator is empty: it has no entry")]
    Empty,
    /// An entry is NaN or infinite.
    #[error("entry ({row}, {column}) of the operator is not finite")]
    NotFinite {
        /// Its row.
        row: usize,
        /// Its column.
        column: usize,
    },
    /// An entry differs from its mirror image.
    #[error("the operator is not symmetric at ({row}, {column})")]
    NotSymmetric {
        /// Its row.
        row: usize,
        /// Its column.
        column: usize,
    },
    /// The dense solver gave up.
    #[error("the dense eigen-solver did not converge on {nodes} rows")]
    Dense {
        /// Rows of the matrix.
        nodes: usize,
    },
    /// An end took too long.
    #[error(
        "{converged} of {wanted} pairs at the {} end converged within {products} products with the operator", end.name()
    )]
    NoConvergence {
        /// The end.
        end: End,
        /// Pairs that converged.
        converged: usize,
        /// Pairs that were wanted.
        wanted: usize,
        /// Products that were spent.
        products: usize,
    },
    /// The last pair belongs to an eigenvalue that is repeated too often.
    #[error(
        "the last of {wanted} pairs at the {} end has the eigenvalue {value:.6}, which is repeated too often, or too near to \
         many others, to complete it", end.name()
    )]
    Repeated {
        /// The end.
        end: End,
        /// The eigenvalue.
        value: f64,
        /// Pairs that were wanted.
        wanted: usize,
    },
    /// The basis of an iterative solver does not fit into the memory that it may take.
    #[error("an end needs a basis of {least} vectors with {nodes} entries, and there is memory for {columns}")]
    Room {
        /// Vectors that fit.
        columns: usize,
        /// Vectors that are needed.
        least: usize,
        /// Entries of a vector.
        nodes: usize,
    },
    /// An iterative solver has seen the whole space: the part is too small for it.
    #[error("the Krylov space is the whole space")]
    Exhausted,
    /// A part is too large to be decomposed as a whole.
    #[error("a connected part of {rows} rows is too large for a dense solver, expected at most {most}")]
    TooLarge {
        /// Its rows.
        rows: usize,
        /// The most there may be.
        most: usize,
    },
    /// The dense matrices do not fit.
    #[error("not enough memory for a dense eigenproblem of {nodes} nodes")]
    Memory {
        /// Rows of the matrix.
        nodes: usize,
    },
    /// The run was cancelled.
    #[error("interrupted")]
    Cancelled,
    /// This build has no such solver.
    #[error("this build has no LAPACK solver")]
    Unavailable,
}
