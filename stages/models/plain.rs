//! Models in plain form: candle's tensors, candle-nn's layers and candle's own backward pass, for one split.
//!
//! A [`PlainModel`] knows nothing of lanes and tapes. It is built from a [`candle_nn::VarBuilder`] and returns the logits
//! of all nodes. Optimiser, early stopping, selection, evaluation and resume are those of all models: `lanes.rs` makes an
//! ordinary row of it. What it costs: two forward passes per epoch (one trains, one evaluates), and candle's operations
//! instead of fused ones.

mod back_end;
mod edges;
mod features;
mod graph;
mod lanes;
mod mode;
#[cfg(test)]
pub(crate) mod tests;

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;

use crate::contract::Crate;
use crate::contract::params::Params;
use crate::optim::Rule;

pub use edges::Edges;
pub use features::PlainFeatures;
pub use graph::PlainGraph;
pub use mode::Mode;

/// A network of one split, with its weights.
///
/// ```
/// use ppgnn_stages::candle_core::{Result, Tensor};
/// use ppgnn_stages::candle_nn::{Linear, VarBuilder, linear};
/// use ppgnn_stages::contract::Crate;
/// use ppgnn_stages::contract::params::NoParams;
/// use ppgnn_stages::models::{Mode, ModelDef, PlainFeatures, PlainGraph, PlainModel};
///
/// /// Logistic regression on the features of the neighbours, Ã drop(X) W + b.
/// struct Neighbours(Linear);
///
/// impl PlainModel for Neighbours {
///     const NAME: &'static str = "neighbours";
///     const ABOUT: &'static str = "Logistic regression on the features of the neighbours";
///     const VERSION: u32 = 1;
///     const CRATE: Crate = Crate { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") };
///     type Params = NoParams;
///
///     fn build(_: &NoParams, graph: &PlainGraph, vb: VarBuilder) -> Result<Self> {
///         Ok(Self(linear(graph.columns(), graph.classes(), vb.pp("lin"))?))
///     }
///
///     fn forward(&self, graph: &PlainGraph, x: &PlainFeatures, mode: &mut Mode) -> Result<Tensor> {
///         let x = x.dropout(mode, 0.5, "dropout/features")?;
///         graph.propagate(&x.linear(&self.0)?)
///     }
/// }
/// assert_eq!(ModelDef::plain::<Neighbours>().variant.name, "neighbours");
/// ```
pub trait PlainModel: Sized + 'static {
    /// Name used in pipeline files, in kebab-case.
    const NAME: &'static str;
    /// One sentence without a period.
    const ABOUT: &'static str;
    /// Where it was published: authors, title or venue, year.
    const REFERENCE: &'static str = "";
    /// The formula of the logits, in one line.
    const EQUATION: &'static str = "";
    /// Raised whenever the same inputs may give other weights or logits.
    const VERSION: u32;
    /// The crate it comes from.
    const CRATE: Crate;
    /// Parameters as written by a person.
    type Params: Params;

    /// Makes the layers. Every initial value that the builder hands out is drawn from a random stream of its own, named by
    /// the seed, the split and the name of the tensor. Layers keep tensors as they come: what is computed from one here stays
    /// what it was while the tensor is trained. Tensors whose names end in `running_mean` or `running_var`, as those
    /// of batch normalisation, are not trained: what a training pass makes of them counts from the next pass on.
    ///
    /// # Errors
    /// When the parameters do not fit the graph, or the tensor library refuses an operation.
    fn build(params: &Self::Params, graph: &PlainGraph, vb: VarBuilder) -> Result<Self>;

    /// Returns the learning rate and weight decay of the tensor of a name: those of the run, unless a model says otherwise.
    fn rule(_params: &Self::Params, _weight: &str) -> Rule {
        Rule::decayed()
    }

    /// Computes the logits, nodes × classes. Random numbers come from `mode`: candle's generator cannot be seeded.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    fn forward(&self, graph: &PlainGraph, x: &PlainFeatures, mode: &mut Mode) -> Result<Tensor>;
}
