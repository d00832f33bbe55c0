//! What a model is, and the row that makes it known.

use candle_core::{Result, Tensor};
use serde_json::Value;

use super::{GraphView, Mode, Streams};
use crate::contract::StageError;
use crate::optim::ParamGroup;
use crate::params::{self, Params, Variant};

/// A network with its weights.
///
/// ```
/// use candle_core::{Result, Tensor};
/// use ppgnn_stages::contract::StageError;
/// use ppgnn_stages::models::{Build, GraphView, Mode, Model, ModelDef, Streams, blocks::Linear};
/// use ppgnn_stages::optim::ParamGroup;
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// /// Parameters of logistic regression: none.
/// #[derive(Default, Serialize, Deserialize, JsonSchema)]
/// #[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
/// struct Params {}
/// impl ppgnn_stages::params::Params for Params {}
///
/// /// Logistic regression, X W + b.
/// struct Lr(Linear);
///
/// impl Build for Lr {
///     const NAME: &'static str = "lr";
///     const ABOUT: &'static str = "Logistic regression on the features alone";
///     const VERSION: u32 = 1;
///     type Params = Params;
///     fn build(_: &Params, data: &GraphView, streams: &mut Streams) -> std::result::Result<Self, StageError> {
///         Ok(Self(Linear::new(data.features.columns(), data.classes, data.dtype(), streams.open("init/lin"))?))
///     }
/// }
///
/// impl Model for Lr {
///     fn forward(&self, data: &GraphView, _: &mut Mode) -> Result<Tensor> {
///         self.0.forward_features(&data.features, None)
///     }
///     fn groups(&self) -> Vec<ParamGroup> {
///         vec![self.0.group("lin.weight", "lin.bias")]
///     }
/// }
/// assert_eq!(ModelDef::of::<Lr>().variant.name, "lr");
/// ```
pub trait Model {
    /// Returns the logits, nodes × classes.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    fn forward(&self, data: &GraphView, mode: &mut Mode) -> Result<Tensor>;

    /// Returns the trainable tensors with their own learning rate and weight decay. Names are unique in a model.
    fn groups(&self) -> Vec<ParamGroup>;

    /// Returns a term that is added to the training loss, if the model has one.
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
    /// The optional inputs of `train` that the model needs.
    const NEEDS: &'static [&'static str] = &[];
    /// Parameters as written by a person.
    type Params: Params;

    /// Draws the initial weights.
    ///
    /// # Errors
    /// [`StageError::Unusable`] when the parameters do not fit the graph.
    fn build(params: &Self::Params, data: &GraphView, streams: &mut Streams) -> std::result::Result<Self, StageError>;
}

type BuildFn = fn(&Value, &GraphView, &mut Streams) -> std::result::Result<Box<dyn Model>, StageError>;

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
        Self { variant: Variant::of::<M::Params>(M::NAME, M::ABOUT, M::VERSION, M::NEEDS), build: build_boxed::<M> }
    }

    /// Builds the model from checked parameters.
    ///
    /// # Errors
    /// [`StageError::Unusable`] when the parameters do not fit the graph.
    pub fn build(
        &self,
        params: &Value,
        data: &GraphView,
        streams: &mut Streams,
    ) -> std::result::Result<Box<dyn Model>, StageError> {
        (self.build)(params, data, streams)
    }
}

fn build_boxed<M: Build>(
    params: &Value,
    data: &GraphView,
    streams: &mut Streams,
) -> std::result::Result<Box<dyn Model>, StageError> {
    let params: M::Params = params::from_checked(params)?;
    Ok(Box::new(M::build(&params, data, streams)?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use candle_core::DType;
    use serde_json::json;

    use crate::models::{MODELS, Mode, Streams, testing};

    #[test]
    fn every_row_has_a_kebab_case_name_a_sentence_and_documented_parameters() {
        let mut names = BTreeSet::new();
        for row in MODELS {
            let v = row.variant;
            assert!(names.insert(v.name), "{} stands twice", v.name);
            assert!(v.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{}", v.name);
            assert!(!v.about.is_empty() && !v.about.ends_with('.'), "{}", v.name);
            for (name, schema) in v.schema()["properties"].as_object().unwrap() {
                assert!(schema.get("description").is_some(), "{}: `{name}` says nothing", v.name);
                assert!(schema.get("default").is_some(), "{}: `{name}` has no default", v.name);
            }
        }
    }

    #[test]
    fn every_model_gives_finite_logits_and_unique_weight_names() {
        for dtype in [DType::F32, DType::F64] {
            let data = testing::view(dtype);
            for row in MODELS {
                let mut streams = Streams::new(0, 0);
                let model = row.build(&json!({}), &data, &mut streams).unwrap();
                let logits = model.forward(&data, &mut Mode::Train(streams)).unwrap();
                assert_eq!(logits.dims(), [data.nodes, data.classes]);
                assert_eq!(logits.dtype(), dtype);
                let flat = logits.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap();
                assert!(flat.iter().all(|x| x.is_finite()), "{}", row.variant.name);
                let names: Vec<_> =
                    model.groups().iter().flat_map(|g| g.vars.iter().map(|v| v.0).collect::<Vec<_>>()).collect();
                assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{}", row.variant.name);
            }
        }
    }

    #[test]
    fn evaluation_is_repeatable_and_equals_training_without_dropout() {
        let data = testing::view(DType::F32);
        let rows = |t: candle_core::Tensor| t.to_vec2::<f32>().unwrap();
        for row in MODELS {
            let mut params = json!({"dropout": 0.0, "dprate": 0.0});
            if row.variant.schema()["properties"].get("dprate").is_none() {
                params = json!({"dropout": 0.0});
            }
            let mut streams = Streams::new(0, 0);
            let model = row.build(&params, &data, &mut streams).unwrap();
            let first = rows(model.forward(&data, &mut Mode::Eval).unwrap());
            assert_eq!(first, rows(model.forward(&data, &mut Mode::Eval).unwrap()));
            assert_eq!(first, rows(model.forward(&data, &mut Mode::Train(streams)).unwrap()));

            let mut streams = Streams::new(0, 0);
            let model = row.build(&json!({}), &data, &mut streams).unwrap();
            let mut training = Mode::Train(streams);
            let dropped = rows(model.forward(&data, &mut training).unwrap());
            assert_ne!(dropped, rows(model.forward(&data, &mut training).unwrap()), "every pass has masks of its own");
            assert_eq!(first, rows(model.forward(&data, &mut Mode::Eval).unwrap()), "dropout shifted the weights");
        }
    }
}
