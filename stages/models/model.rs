//! What a model is, and the row that makes it known.

use candle_core::{Result, Tensor};
use serde_json::Value;

use super::ops::Wide;
use super::{GraphView, Pass, Weights};
use crate::contract::params::{self, Params, Variant};
use crate::contract::{Chosen, Crate, Row, StageError};

/// A network with its weights, for all lanes of a batch at once.
///
/// A lane is one split (and seed) of one configuration. Every tensor has the lanes first; a model never mixes them and
/// reads like the formula of one lane. What flows through it is a [`Wide`]: the training side and, in the same pass, the
/// evaluation of the same weights.
///
/// ```
/// use candle_core::Result;
/// use ppgnn_stages::contract::StageError;
/// use ppgnn_stages::models::blocks::{Linear, Names};
/// use ppgnn_stages::models::ops::Wide;
/// use ppgnn_stages::models::{Build, GraphView, Model, ModelDef, Pass, Weights};
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// /// Parameters of logistic regression: none.
/// #[derive(Default, Serialize, Deserialize, JsonSchema)]
/// #[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
/// struct Params {}
/// impl ppgnn_stages::contract::params::Params for Params {}
///
/// /// Logistic regression, X W + b.
/// struct Logistic(Linear);
///
/// impl Build for Logistic {
///     const NAME: &'static str = "logistic";
///     const ABOUT: &'static str = "Logistic regression on the features alone";
///     const VERSION: u32 = 1;
///     type Params = Params;
///     fn build(_: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
///         let names = Names { weight: "lin.weight", bias: "lin.bias", stream: "init/lin" };
///         Ok(Self(Linear::new(names, graph.features.columns(), graph.classes, weights)?))
///     }
/// }
///
/// impl Model for Logistic {
///     fn forward(&self, graph: &GraphView, pass: &mut Pass) -> Result<Wide> {
///         self.0.forward_features(graph, pass, 0.5, "dropout/features")
///     }
/// }
/// assert_eq!(ModelDef::of::<Logistic>().variant.name, "logistic");
/// ```
pub trait Model {
    /// Returns the logits, lanes × nodes × classes.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    fn forward(&self, graph: &GraphView, pass: &mut Pass) -> Result<Wide>;

    /// Returns a term of every lane that is added to its training loss, if the model has one: lanes.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    fn penalty(&self) -> Result<Option<Tensor>> {
        Ok(None)
    }
}

/// How a model comes into being. See [`Model`] for a complete implementation.
pub trait Build: Model + Sized + 'static {
    /// Name used in pipeline files: the published name in kebab-case.
    const NAME: &'static str;
    /// One sentence without a period.
    const ABOUT: &'static str;
    /// Raised whenever the same inputs may give other weights or logits.
    const VERSION: u32;
    /// The crate it comes from; a program that adds a model of its own must name it.
    const CRATE: Crate = Crate::BUILT_IN;
    /// The optional inputs of `train` that the model needs.
    const NEEDS: &'static [&'static str] = &[];
    /// Whether every operation of the model can run on a GPU; the plan refuses a model that cannot where one is asked for.
    const GPU: bool = true;
    /// Parameters as written by a person.
    type Params: Params;

    /// Names the weights, in the order in which they are stored, and draws them for every lane.
    ///
    /// # Errors
    /// [`StageError::Unusable`] when the parameters do not fit the graph.
    fn build(params: &Self::Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError>;
}

type BuildFn = fn(&Value, &GraphView, &mut Weights) -> std::result::Result<Box<dyn Model>, StageError>;

/// A row of [`MODELS`](super::MODELS).
#[derive(Clone, Copy)]
pub struct ModelDef {
    /// Name, version, parameters and needed inputs.
    pub variant: Variant,
    build: BuildFn,
}

impl ModelDef {
    /// The row of `M`.
    pub const fn of<M: Build>() -> Self {
        let mut variant = Variant::of::<M::Params>(M::NAME, M::ABOUT, M::VERSION, M::CRATE);
        (variant.needs, variant.gpu) = (M::NEEDS, M::GPU);
        Self { variant, build: build_boxed::<M> }
    }

    /// Builds the model from checked parameters.
    ///
    /// # Errors
    /// [`StageError::Unusable`] when the parameters do not fit the graph.
    pub fn build(
        &self,
        params: &Value,
        graph: &GraphView,
        weights: &mut Weights,
    ) -> std::result::Result<Box<dyn Model>, StageError> {
        (self.build)(params, graph, weights)
    }
}

impl Row for ModelDef {
    fn noun(&self) -> &'static str {
        "model"
    }
    fn variant(&self) -> &Variant {
        &self.variant
    }
}

impl Chosen<'_, ModelDef> {
    /// Builds the chosen model from its parameters.
    ///
    /// # Errors
    /// [`StageError::Unusable`] when the parameters do not fit the graph.
    pub fn build(&self, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Box<dyn Model>, StageError> {
        self.row.build(self.params, graph, weights)
    }
}

fn build_boxed<M: Build>(
    params: &Value,
    graph: &GraphView,
    weights: &mut Weights,
) -> std::result::Result<Box<dyn Model>, StageError> {
    let params: M::Params = params::from_checked(params)?;
    Ok(Box::new(M::build(&params, graph, weights)?))
}
