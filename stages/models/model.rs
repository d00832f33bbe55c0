//! What a model is, and the row that makes it known.

use candle_core::{Result, Tensor};
use serde_json::Value;

use super::ops::Sided;
use super::{At, GraphSizes, GraphView, Input, Learned, Level, ModelWork, Pass, Respond, Weights};
use crate::contract::params::{self, Params, Variant};
use crate::contract::{Chosen, Crate, Row, StageError};

/// A network with its weights, for all lanes of a batch at once.
///
/// A lane is one split (and seed) of one configuration. Every tensor has the lanes first; a model never mixes them and
/// reads like the formula of one lane. What flows through it is a [`Sided`]: the training side and, in the same pass, the
/// evaluation of the same weights.
///
/// ```
/// use candle_core::Result;
/// use ppgnn_stages::contract::StageError;
/// use ppgnn_stages::models::blocks::{Linear, Names};
/// use ppgnn_stages::models::{Build, GraphView, Input, Model, ModelDef, Output, Pass, Weights};
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
///         let names = Names::new("lin.weight", "lin.bias", "init/lin");
///         Ok(Self(Linear::new(names, graph.features.columns(), graph.classes, weights)?))
///     }
///     fn widest(_: &Params, graph: &GraphView) -> usize {
///         graph.nodes * graph.classes
///     }
/// }
///
/// impl Model for Logistic {
///     fn forward(&self, _: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
///         Ok(x.layer(&self.0, pass.dropout(0.5, "dropout/features"))?.into())
///     }
/// }
/// assert_eq!(ModelDef::of::<Logistic>().variant.name, "logistic");
/// ```
pub trait Model {
    /// Computes the logits from a graph and its features `x`.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output>;
}

/// What a pass through a model gives.
pub struct Output {
    /// lanes × nodes × classes.
    pub logits: Sided,
    /// What the model adds to the training loss of every lane: lanes. Made of weights by candle's operations, or of
    /// activations by ours.
    pub term: Option<Tensor>,
    /// Activations inside the model that can be kept with the logits: those that [`Build::HIDDEN`] names.
    pub hidden: Vec<(&'static str, Sided)>,
}

impl From<Sided> for Output {
    fn from(logits: Sided) -> Self {
        Self { logits, term: None, hidden: Vec::new() }
    }
}

impl Output {
    /// Adds a term to the training loss; the model has one at most.
    #[must_use]
    pub fn with_term(mut self, term: Option<Tensor>) -> Self {
        self.term = term;
        self
    }

    /// Names an activation.
    #[must_use]
    pub fn with_hidden(mut self, name: &'static str, activation: &Sided) -> Self {
        self.hidden.push((name, activation.clone()));
        self
    }
}

/// How a model comes into being. See [`Model`] for a complete implementation.
pub trait Build: Model + Sized + 'static {
    /// Name used in pipeline files: the published name in kebab-case.
    const NAME: &'static str;
    /// One sentence without a period.
    const ABOUT: &'static str;
    /// Where it was published: authors, title or venue, year.
    const REFERENCE: &'static str = "";
    /// The formula of the logits, in one line.
    const EQUATION: &'static str = "";
    /// Raised whenever the same inputs may give other weights or logits.
    const VERSION: u32;
    /// The crate it comes from; a program that adds a model of its own must name it.
    const CRATE: Crate = Crate::BUILT_IN;
    /// The optional inputs of `train` that the model needs, with some of its parameters at least.
    const NEEDS: &'static [&'static str] = &[];
    /// Whether every operation of the model can run on a GPU; the plan refuses a model that cannot where one is asked for.
    const GPU: bool = true;
    /// The activations that [`Output::hidden`] has in every pass, by name.
    const HIDDEN: &'static [&'static str] = &[];
    /// The frequency response, for a model that filters: h(λ) of what was trained, at one eigenvalue of the operator.
    const RESPONSE: Option<Respond<Self::Params>> = None;
    /// Parameters as written by a person.
    type Params: Params;

    /// The inputs out of [`Build::NEEDS`] that it needs with these parameters: all, unless a model says otherwise.
    fn needs(_params: &Self::Params) -> &'static [&'static str] {
        Self::NEEDS
    }

    /// Names the weights, in the order in which they are stored, and draws them for every lane.
    ///
    /// # Errors
    /// [`StageError::Unusable`] when the parameters do not fit the graph.
    fn build(params: &Self::Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError>;

    /// Returns how many values the largest activation of one lane has, such as nodes × hidden, or edges × heads. How many
    /// lanes fit into a batch follows from it. Hidden units that are propagated count twice: they go through memory, where the
    /// others are made and used a few rows at a time, and lanes of that width share no pass over the graph.
    fn widest(params: &Self::Params, graph: &GraphView) -> usize;

    /// Counts what the model takes per lane and epoch; from it follow the price and the memory of a plan. Where it is not said,
    /// it is guessed by the names of the parameters.
    fn work(params: &Self::Params, graph: &GraphSizes) -> ModelWork {
        let params = serde_json::to_value(params).unwrap_or_default();
        ModelWork::unsaid(&params, Self::NEEDS.contains(&"spectrum"), graph)
    }

    /// Says what [`Build::build`] would refuse, as far as sizes tell.
    ///
    /// # Errors
    /// [`StageError::Unusable`] when the parameters do not fit the graph.
    fn fits(_params: &Self::Params, _graph: &GraphSizes) -> std::result::Result<(), StageError> {
        Ok(())
    }
}

type ResponseFn = fn(&Value, &Learned, &[At]) -> std::result::Result<Option<Vec<Level>>, StageError>;
type WorkFn = fn(&Value, &GraphSizes) -> std::result::Result<ModelWork, StageError>;
type FitsFn = fn(&Value, &GraphSizes) -> std::result::Result<(), StageError>;
type BuildFn = fn(&Value, &GraphView, &mut Weights) -> std::result::Result<Box<dyn Model>, StageError>;

/// A row of [`MODELS`](super::MODELS).
#[derive(Clone, Copy)]
pub struct ModelDef {
    /// Name, version, parameters and needed inputs.
    pub variant: Variant,
    /// Where it was published.
    pub reference: &'static str,
    /// The formula of the logits, in one line.
    pub equation: &'static str,
    /// The activations that can be kept, by name.
    pub hidden: &'static [&'static str],
    /// Whether the model is a filter with a frequency response.
    pub filters: bool,
    build: BuildFn,
    response: ResponseFn,
    widest: fn(&Value, &GraphView) -> std::result::Result<usize, StageError>,
    work: WorkFn,
    fits: FitsFn,
}

impl ModelDef {
    /// The row of `M`.
    pub const fn of<M: Build>() -> Self {
        let mut variant = Variant::of::<M::Params>(M::NAME, M::ABOUT, M::VERSION, M::CRATE);
        (variant.needs, variant.gpu) = (M::NEEDS, M::GPU);
        variant.needs_with = |params| params::from_checked(params).map_or(M::NEEDS, |params| M::needs(&params));
        Self {
            variant,
            reference: M::REFERENCE,
            equation: M::EQUATION,
            hidden: M::HIDDEN,
            filters: M::RESPONSE.is_some(),
            build: |params, graph, weights| Ok(Box::new(M::build(&params::from_checked(params)?, graph, weights)?)),
            response: |params, learned, points| {
                let Some(response) = M::RESPONSE else { return Ok(None) };
                let params = params::from_checked(params)?;
                Ok(Some(points.iter().map(|at| response(&params, learned, *at)).collect()))
            },
            widest: |params, graph| Ok(M::widest(&params::from_checked(params)?, graph)),
            work: |params, graph| Ok(M::work(&params::from_checked(params)?, graph)),
            fits: |params, graph| M::fits(&params::from_checked(params)?, graph),
        }
    }

    /// Returns the frequency response of a trained split at some points; nothing if the model is no filter.
    ///
    /// # Errors
    /// Only if the parameters were not checked.
    pub fn response(
        &self,
        params: &Value,
        learned: &Learned,
        points: &[At],
    ) -> std::result::Result<Option<Vec<Level>>, StageError> {
        (self.response)(params, learned, points)
    }
}

impl Row for ModelDef {
    fn noun(&self) -> &'static str {
        "model"
    }
    fn variant(&self) -> &Variant {
        &self.variant
    }
    fn reserved(&self) -> &'static [&'static str] {
        &["command"]
    }
}

impl Chosen<'_, ModelDef> {
    /// Builds the chosen model from its parameters.
    ///
    /// # Errors
    /// [`StageError::Unusable`] when the parameters do not fit the graph.
    pub fn build(&self, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Box<dyn Model>, StageError> {
        (self.row.build)(self.params, graph, weights)
    }

    /// Returns how many values the largest activation of one lane has.
    ///
    /// # Errors
    /// Only if the parameters were not checked.
    pub fn widest(&self, graph: &GraphView) -> std::result::Result<usize, StageError> {
        (self.row.widest)(self.params, graph)
    }

    /// Counts what the model takes per lane and epoch.
    ///
    /// # Errors
    /// Only if the parameters were not checked.
    pub fn work(&self, graph: &GraphSizes) -> std::result::Result<ModelWork, StageError> {
        (self.row.work)(self.params, graph)
    }

    /// Says what building the model would refuse, as far as sizes tell.
    ///
    /// # Errors
    /// [`StageError::Unusable`] when the parameters do not fit the graph.
    pub fn fits(&self, graph: &GraphSizes) -> std::result::Result<(), StageError> {
        (self.row.fits)(self.params, graph)
    }
}
