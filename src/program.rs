//! The program, to which a program of a user's own can add models, formats, metrics and stages before it starts.

use std::ffi::OsString;
use std::process::ExitCode;

use ppgnn_stages::contract::{Refused, Registry, Stage, StageDef};
use ppgnn_stages::formats::{Format, FormatDef};
use ppgnn_stages::kinds::{Score, ScoreDef};
use ppgnn_stages::models::{Build, ModelDef};

use crate::cli::{self, exit};

/// The `ppgnn` command line, with everything that is built in and what is added to it.
///
/// What is added is named in pipeline files like everything else, and appears in `list`, `schema`, `check` and `plan`. Its
/// keys hold the name and the version of its crate. The whole program of a user with a model of their own:
///
/// ```
/// use ppgnn::stages::candle_core::Result;
/// use ppgnn::stages::contract::{Crate, StageError};
/// use ppgnn::stages::models::blocks::{Linear, Names};
/// use ppgnn::stages::models::{Build, GraphView, Input, Model, Output, Pass, Weights};
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// /// Parameters of the model.
/// #[derive(Default, Serialize, Deserialize, JsonSchema)]
/// #[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
/// struct Params {}
/// impl ppgnn::stages::contract::params::Params for Params {}
///
/// /// X W + b.
/// struct MyModel(Linear);
///
/// impl Build for MyModel {
///     const NAME: &'static str = "my-model";
///     const ABOUT: &'static str = "A linear layer on the features";
///     const VERSION: u32 = 1;
///     const CRATE: Crate = Crate { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") };
///     type Params = Params;
///     fn build(_: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
///         let names = Names { weight: "lin.weight", bias: "lin.bias", stream: "init/lin" };
///         Ok(Self(Linear::new(names, graph.features.columns(), graph.classes, weights)?))
///     }
///     fn widest(_: &Params, graph: &GraphView) -> usize {
///         graph.nodes * graph.classes
///     }
/// }
///
/// impl Model for MyModel {
///     fn forward(&self, _: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
///         Ok(x.layer(&self.0, pass.dropout(0.5, "dropout/features"))?.into())
///     }
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let file = dir.path().join("mine.yaml");
/// # let text = "
/// # ppgnn: 1
/// # name: mine
/// # datasets: { small: { format: csbm, nodes: 60, features: 4 } }
/// # stages:
/// #   load: { params: { dataset: small } }
/// #   featurize: { inputs: { graph: load } }
/// #   normalize: { inputs: { graph: load } }
/// #   split: { inputs: { graph: load }, params: { count: 2 } }
/// #   train:
/// #     inputs: { operator: normalize, nodes: featurize, splits: split }
/// #     params: { model: my-model, epochs: 3 }
/// # ";
/// # std::fs::write(&file, text).unwrap();
/// # let artifacts = dir.path().join("artifacts");
/// let program = ppgnn::Program::new().model::<MyModel>();
/// // `program.run()` takes the arguments of the process; here are some of our own.
/// let code = program.run_with(["run".as_ref(), file.as_os_str(), "--artifacts".as_ref(), artifacts.as_os_str()]);
/// assert_eq!(code, 0);
/// ```
pub struct Program {
    registry: Registry,
    refused: Vec<Refused>,
}

impl Default for Program {
    fn default() -> Self {
        Self::new()
    }
}

impl Program {
    /// The program with what is built in.
    pub fn new() -> Self {
        Self { registry: ppgnn_stages::built_in(), refused: Vec::new() }
    }

    /// Adds a model, for `model` of `train`.
    #[must_use]
    pub fn model<M: Build>(mut self) -> Self {
        self.refused.extend(self.registry.add_row(const { &ModelDef::of::<M>() }).err());
        self
    }

    /// Adds a format or generator, for `format` of `load`.
    #[must_use]
    pub fn format<F: Format>(mut self) -> Self {
        self.refused.extend(self.registry.add_row(const { &FormatDef::of::<F>() }).err());
        self
    }

    /// Adds a score, which gives one metric per part: `evaluate` computes them, tables show them.
    #[must_use]
    pub fn metric<S: Score>(mut self) -> Self {
        self.refused.extend(self.registry.add_row(const { &ScoreDef::of::<S>() }).err());
        self
    }

    /// Adds a stage.
    #[must_use]
    pub fn stage<S: Stage>(mut self) -> Self {
        self.refused.extend(self.registry.add_stage(const { &StageDef::of::<S>() }).err());
        self
    }

    /// Returns what the program knows, to resolve and plan pipelines without the command line.
    ///
    /// # Errors
    /// Every addition that is refused.
    pub fn registry(&self) -> Result<&Registry, &[Refused]> {
        if self.refused.is_empty() { Ok(&self.registry) } else { Err(&self.refused) }
    }

    /// Does what the arguments of the process say, and returns the exit code. A refused addition is wrong
    /// usage: nothing is done.
    pub fn run(self) -> ExitCode {
        ExitCode::from(self.main(std::env::args_os()))
    }

    /// Does what these arguments say, such as `["run", "mine.yaml"]`, and returns the exit code.
    pub fn run_with<A: Into<OsString>>(self, args: impl IntoIterator<Item = A>) -> u8 {
        self.main(std::iter::once("ppgnn".into()).chain(args.into_iter().map(Into::into)))
    }

    fn main(self, args: impl IntoIterator<Item = OsString>) -> u8 {
        match self.registry() {
            Ok(registry) => cli::main(registry, args),
            Err(refused) => {
                refused.iter().for_each(|refused| cli::note(&format!("error: {refused}")));
                exit::USAGE
            }
        }
    }
}
